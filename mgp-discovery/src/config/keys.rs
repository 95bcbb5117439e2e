//! The table of all keys of `mgp.toml`. The parser uses it, and `docs/config.md` and the JSON Schema are generated from
//! it (MGP §15.2).

use super::{KeyKind, nearest};

/// A key of `mgp.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigKey {
    /// The table that contains the key; empty for the top level. `*` means any name that the user chooses.
    pub table: &'static str,
    /// The name of the key.
    pub name: &'static str,
    /// The kind of the key's value.
    pub kind: KeyKind,
    /// The default as it is written in TOML, but without the quotes of a string; empty if the key has none.
    pub default: &'static str,
    /// A sentence that describes the key.
    pub about: &'static str,
}

const TRUST: &[&str] = &["trusted", "standard", "sandboxed", "core", "experimental", "untrusted"];
#[rustfmt::skip]
const PERMISSIONS: &[&str] = &[
    "filesystem.read", "filesystem.write", "network.outbound", "network.listen", "shell.execute",
    "code_execution", "memory.read", "memory.write", "system.info", "camera", "notification",
];
#[rustfmt::skip]
const EXTENSIONS: &[&str] = &[
    "security", "access_control", "audit", "code_safety", "lifecycle", "streaming", "bidirectional",
    "discovery", "tool_discovery", "permissions", "tool_security", "events", "callbacks",
    "progress", "error_handling",
];
#[rustfmt::skip]
const PROPOSALS: &[&str] = &[
    "manifest", "intent_hints", "cost_hints", "scopes", "idempotency", "transactions",
    "human_in_the_loop", "provenance", "checkpoint", "data_references", "multimodal_signatures",
    "structured_errors", "server_recommendations", "session_state",
];
const APPROVAL: &[&str] = &["interactive", "auto_approve", "deny_all", "config_only"];
const DEFAULTS: &[&str] = &["opt-in", "opt-out"];
const RISKS: &[&str] = &["safe", "moderate", "dangerous"];
const VALIDATORS: &[&str] = &["sandbox", "readonly", "network_restricted", "code_safety", "none"];
const PROOFS: &[&str] = &["none", "terminal", "passphrase"];
const RESTARTS: &[&str] = &["never", "on_failure", "always"];
const SURFACES: &[&str] = &["auto", "search", "categories", "find", "direct"];
const SEVERITIES: &[&str] = &["info", "warning", "error"];
const MANY: u64 = i64::MAX as u64;

macro_rules! keys {
    ($($table:literal: { $($name:literal $kind:expr, $default:literal, $about:literal;)+ })+) => {
        &[$($(ConfigKey { table: $table, name: $name, kind: $kind, default: $default, about: $about },)+)+]
    };
}

/// All keys, in the order of `docs/config.md`.
pub const KEYS: &[ConfigKey] = keys! {
    "": {
        "servers" KeyKind::Tables, "", "The servers, one `[[servers]]` each.";
        "kernel" KeyKind::Table, "", "Settings for all servers; accepted only in the user's own file.";
        "limits" KeyKind::Table, "", "The limits of the tool calls of each agent; accepted only in the user's own file.";
        "agents" KeyKind::TableMap, "", "Settings for single agents, one `[agents.NAME]` each; accepted only in the user's own file.";
        "tool_creation" KeyKind::Table, "", "Tools that are created while agents run; accepted only in the user's own file.";
    }
    "servers": {
        "id" KeyKind::Text, "", "The name of the server everywhere: letters, digits, `.`, `_`, `-`. Required.";
        "command" KeyKind::Text, "", "The program to start. Either this or `url` is required. `${…}` is expanded.";
        "args" KeyKind::Texts, "[]", "The arguments of the program. `${…}` is expanded.";
        "url" KeyKind::Text, "", "The address of a running server, instead of a program. `${…}` is expanded.";
        "headers" KeyKind::TextMap, "{}", "HTTP headers sent to the server at `url`. `${…}` is expanded.";
        "login" KeyKind::Word(&["shared", "agent"]), "shared", "The agents that share a login at `url`: all of them, or `agent` for a login and an instance each. `mgp servers login ID` logs in; with `agent` the tool list is read with that login, and `mgp servers login ID --agent NAME` makes those of the agents.";
        "auth" KeyKind::Table, "", "The client that `mgp` is at the authorization server of `url`; a person's login mostly needs none.";
        "cwd" KeyKind::Text, "", "The working directory of the program. A relative one starts at the folder of this file. The default is the folder of a project's file, or your home for any other file. `${…}` is expanded.";
        "transport" KeyKind::Word(&["stdio", "http", "streamable-http", "sse"]), "", "The transport; `stdio` for a `command`, `http` for a `url`. With `http`, a server that serves only the older HTTP+SSE at that address is used over that; `sse` uses it at once.";
        "env" KeyKind::TextMap, "{}", "Environment variables of the program. `${…}` is expanded.";
        "enabled" KeyKind::Switch, "true", "Whether the server is used. A disabled one is not started, and keeps its access entries and permissions.";
        "pass_env" KeyKind::Texts, "[]", "Environment variables of `mgp` that the program inherits, in addition to those of `kernel.pass_env`. A final `*` matches the rest of a name.";
        "confine" KeyKind::Table, "", "The rights of the program, which is confined (Linux only): it can only read, write and connect to what this table and its own code need; an empty table gives nothing else. Where the system cannot enforce this, the server does not start.";
        "tenants" KeyKind::Texts, "", "The only tenants whose callers may see and use the server, e.g. `[\"acme\"]`; callers of other tenants have no access, whatever their operators grant. `local` has to be listed too if your own agents use it; the commands of `mgp` always administer it. Without this key all tenants. Write it above `[servers.mgp]`.";
        "manifest" KeyKind::Text, "", "A file with the manifest of the server, relative to the folder of this file. Its tools are listed and found before the server is started for the first time.";
        "published" KeyKind::Text, "", "The name and version of the server in the registry, or of the bundle, that this entry was added from; `mgp servers update` compares it.";
        "check_arguments" KeyKind::Switch, "true", "Whether the arguments of calls are checked against the schemas of the tools; a call that does not fit is refused with the member that is wrong. `false` leaves that to the server.";
        "timeout" KeyKind::Duration, "", "The time a call of a tool, prompt or resource may take without reporting progress, in place of `kernel.timeout`.";
        "max_timeout" KeyKind::Duration, "", "The time a call of a tool, prompt or resource may take in all, in place of `kernel.max_timeout`.";
        "tool_timeouts" KeyKind::DurationMap, "{}", "The `timeout` of single tools: `{tool = \"10m\"}`. Raises `max_timeout` to the same value if that is shorter.";
        "start_timeout" KeyKind::Duration, "", "The time the server may take from its start until it answers the handshake. Without this key 30 s, and 3 minutes for programs that may download the server first (`npx`, `uvx`, `docker` and the like). A program that took longer gets twice the time at its next start, and at most four times.";
        "era" KeyKind::Word(&["auto", "modern", "legacy"]), "auto", "The era of MCP spoken with the server: `modern` is 2026-07-28 and later, `legacy` is earlier; `auto` uses the newest that the server supports, and for legacy hosts also the legacy one if the server may ask more in it.";
        "health_interval" KeyKind::Duration, "", "The interval of health checks; without it there are none. A server that does not answer three of them counts as failed, so its `restart_policy` applies; if calls run, it first gets up to 30 s to answer one. A change restarts the server.";
        "limits" KeyKind::Table, "", "The limits of the server's tool calls, of all agents together.";
        "results" KeyKind::Table, "", "The most of a result that reaches a model.";
        "mgp" KeyKind::TableOrFalse, "", "The governance of the server; `false` never offers MGP to it.";
    }
    "servers.auth": {
        "grant" KeyKind::Word(&["login", "client_credentials"]), "login", "The way tokens are obtained: a person logs in with `mgp servers login ID`, or `mgp` has credentials of its own.";
        "client_id" KeyKind::Text, "", "The id of a client that was registered by hand, for logins with the redirect URI `http://127.0.0.1:8976/callback`; needed for `client_credentials`, and where the authorization server accepts no registrations. `${…}` is expanded.";
        "client_secret" KeyKind::Text, "", "The secret of that client. `${…}` is expanded.";
        "private_key" KeyKind::Text, "", "The private key of that client, in place of a secret: PEM (PKCS #8) of P-256, RSA or Ed25519, e.g. `${file:key.pem}`. `${…}` is expanded.";
        "key_id" KeyKind::Text, "", "The id (`kid`) of `private_key`; needed where the authorization server knows several keys of the client. `${…}` is expanded.";
        "issuer" KeyKind::Text, "", "The only authorization server to trust; the default is the one that the server names. `${…}` is expanded.";
        "scopes" KeyKind::Texts, "[]", "Scopes that are requested in addition to those that the server names.";
        "dpop" KeyKind::Word(&["offered", "always", "never"]), "offered", "When tokens are bound to a key, so that a stolen one is useless (DPoP).";
    }
    "servers.confine": {
        "read" KeyKind::Texts, "[]", "Files and folders that the program may read, besides those of the system, of its own installation, of its code, and `cwd`. `~/` is the home folder, and other relative paths start at the folder of this file. `${…}` is expanded.";
        "write" KeyKind::Texts, "[]", "Files and folders that the program may read and write, besides a private folder for temporary files and downloads. Paths as in `read`.";
        "connect" KeyKind::Texts, "[]", "The TCP ports to which the program may connect, e.g. `[\"443\"]`, or `[\"*\"]` for all. With any port it may also use UDP, which resolves names. Programs that download the server first (`npx`, `uvx`) need `[\"443\"]`.";
        "listen" KeyKind::Texts, "[]", "The TCP ports on which the program may listen, or `[\"*\"]` for all. With `\"0\"` it may ask for any free port.";
        "local_sockets" KeyKind::Switch, "false", "Whether the program may connect to Unix sockets, e.g. of Docker, D-Bus or an SSH agent. The programs behind them are not confined, so this can undo the confinement.";
    }
    "servers.limits": {
        "calls_per_minute" KeyKind::Number(0, 4_294_967_295), "", "The calls in a minute of the server; as many may be made at once after a pause.";
        "calls_per_hour" KeyKind::Number(0, MANY), "", "The calls of the server in an hour, which begins at the full hour. The counts of hours and days are kept across restarts.";
        "calls_per_day" KeyKind::Number(0, MANY), "", "The calls of the server in a day, which begins at midnight UTC.";
        "units_per_hour" KeyKind::Number(0, MANY), "", "The units that calls of the server may cost in an hour; see `servers.limits.units`.";
        "units_per_day" KeyKind::Number(0, MANY), "", "The units that calls of the server may cost in a day.";
        "running" KeyKind::Number(1, 65_536), "", "The calls of the server that run at once; further ones wait for their turn.";
        "max_arguments" KeyKind::Number(0, MANY), "", "The bytes of the arguments of a call of the server.";
        "max_stream_bytes" KeyKind::Number(0, MANY), "", "The bytes of the chunks of a call of the server, as JSON; a call that sends more is ended. Without this key 16 MiB; of several limits the lowest counts.";
        "max_message" KeyKind::Number(65_536, 1_073_741_824), "", "The bytes of a message of the server, e.g. of a result; a longer one is not read, and its call fails. Without this key 16 MiB. A change restarts the server.";
        "units" KeyKind::Number(0, MANY), "", "The units that a call of the server costs, e.g. cents; without this key one.";
        "tool_units" KeyKind::NumberMap(0, MANY), "{}", "The units that calls of single tools cost: `{tool = 5}`.";
        "tool_calls_per_minute" KeyKind::NumberMap(0, 4_294_967_295), "{}", "The calls of single tools in a minute, of all agents together.";
        "tool_max_stream_bytes" KeyKind::NumberMap(0, MANY), "{}", "The bytes of the chunks of a call of single tools, as JSON.";
    }
    "servers.results": {
        "max_text" KeyKind::Number(0, MANY), "", "The `kernel.results.max_text` of the server's results; the agent's counts too if it is lower.";
        "max_structured" KeyKind::Number(0, MANY), "", "The `kernel.results.max_structured` of the server's results; the agent's counts too if it is lower.";
        "max_data" KeyKind::Number(0, MANY), "", "The `kernel.results.max_data` of the server's results; the agent's counts too if it is lower.";
    }
    "servers.mgp": {
        "extensions" KeyKind::Words(EXTENSIONS), "[]", "The extensions offered to the server; an empty list offers all that the kernel uses: `security`, `lifecycle`, `streaming`, `events`, `callbacks`.";
        "permissions_required" KeyKind::Words(PERMISSIONS), "[]", "The permissions that each call of the server needs, known before it starts.";
        "trust_level" KeyKind::Word(TRUST), "standard", "The trust level of the server: a `trusted` server's own `security` declaration of a tool is taken as it is; at `standard` the tool's name and arguments count as well. At `experimental`, which is lower, declarations that would loosen a rule are ignored; all tools of a `sandboxed` server are dangerous. `core` is another name of `trusted`, `untrusted` of `sandboxed`. A project's file cannot set more than `standard`.";
        "default_policy" KeyKind::Word(DEFAULTS), "opt-in", "The access of agents without an access entry: none with `opt-in`, all with `opt-out`.";
        "permission_policy" KeyKind::Word(APPROVAL), "", "How the server's permissions are decided, in place of `kernel.permission_policy`.";
        "permissions" KeyKind::Words(PERMISSIONS), "[]", "The permissions granted to the server by this file; `*` and wildcards such as `filesystem.*` are possible.";
        "permission_limits" KeyKind::Table, "", "The limits of `permissions`: a call whose arguments are outside them is refused. Approvals in the terminal or by a person have limits of their own.";
        "permission_timeout_ms" KeyKind::Number(0, 86_400_000), "100", "How long a connection waits for a decision about its permissions, in milliseconds; then the decision is deferred. A start takes at most an hour in all.";
        "on_ungranted" KeyKind::Word(&["proceed", "close"]), "proceed", "What happens to a connection whose server lacks a permission it needs: `proceed` refuses only the calls that need it, `close` ends the connection. Connections to servers that do not speak MGP always proceed.";
        "restart_policy" KeyKind::Word(RESTARTS), "on_failure", "When the server is restarted: with `on_failure` after it failed or was found unhealthy, with `always` also after a regular end.";
        "retry" KeyKind::Table, "", "The retries of calls that failed and may succeed later; without this table there are none.";
        "max_restarts" KeyKind::Number(0, 10_000), "5", "The maximum number of restarts of a program within the window. A server at a `url` is tried again without end.";
        "restart_window_secs" KeyKind::Number(1, 2_592_000), "300", "The window, in seconds.";
        "backoff_base_ms" KeyKind::Number(1, 3_600_000), "1000", "The first wait before a restart, in milliseconds.";
        "backoff_max_ms" KeyKind::Number(1, 3_600_000), "30000", "The longest wait before a restart, in milliseconds.";
        "validators" KeyKind::WordMap(VALIDATORS), "{}", "The validator of single tools: `{tool = name}`.";
        "local_hosts" KeyKind::Texts, "[]", "Hosts outside of the public internet that calls of the server may reach, although the validators refuse others: `localhost:3000`, `10.1.2.3`, `[fd00::1]:443` or a name, without a port for all ports. `localhost` is also `127.0.0.1` and `[::1]`. Metadata services of clouds are refused.";
        "risk" KeyKind::WordMap(RISKS), "{}", "The risk of single tools: `{tool = level}`.";
        "confirm" KeyKind::Word(&["moderate", "dangerous"]), "dangerous", "The lowest risk at which a call needs a confirmation.";
        "isolation" KeyKind::Word(&["shared", "per_agent"]), "shared", "Whether agents share one instance or have one each.";
        "roots" KeyKind::Switch, "false", "Whether a server that agents share may ask the only connected agent with roots for them (MCP `roots`). A server may use them for all agents; with `isolation = \"per_agent\"` each instance asks its own agent anyway.";
        "traceparent" KeyKind::Switch, "false", "Whether calls of a server that does not speak MGP carry `_meta.traceparent` (OpenTelemetry), with the `tracestate` and `baggage` of the caller; others carry them anyway.";
        "tags" KeyKind::Texts, "[]", "Words by which the server's tools can be found and grouped.";
    }
    "servers.mgp.permission_limits": {
        "paths" KeyKind::Texts, "[]", "The paths below which `filesystem.*` is allowed; wildcards `*`, `?` and `**` are possible.";
        "deny_paths" KeyKind::Texts, "[]", "The paths below which `filesystem.*` is never allowed.";
        "hosts" KeyKind::Texts, "[]", "The hosts for which `network.*` is allowed, also `*.example.com` and `host:port`.";
        "deny_hosts" KeyKind::Texts, "[]", "The hosts for which `network.*` is never allowed.";
        "ports" KeyKind::Texts, "[]", "The ports for which `network.*` is allowed, e.g. `[\"443\"]`.";
        "commands" KeyKind::Texts, "[]", "The first words of the commands for which `shell.execute` and `code_execution` are allowed.";
        "deny_commands" KeyKind::Texts, "[]", "Words that no such command may have.";
    }
    "servers.mgp.retry": {
        "attempts" KeyKind::Number(1, 10), "4", "The most attempts of one call, with the first. A call that may have run is repeated only if its tool is declared to be safe, read-only or idempotent, or if it has an idempotency key and the server negotiated `idempotency`. Each attempt is checked and recorded. A change of this table restarts the server.";
        "max_wait" KeyKind::Duration, "10s", "The longest wait before an attempt; an error that asks for a longer one is returned.";
        "total_timeout" KeyKind::Duration, "30s", "The time from the start of a call after which no attempt begins.";
        "budget_percent" KeyKind::Number(0, 100), "10", "The retries for each hundred calls of the last minute; ten are always possible.";
        "circuit_failures" KeyKind::Number(0, 1000), "5", "The failures in a row, within 30 s, after which the server is not called for a while; `0` for never.";
        "circuit_open" KeyKind::Duration, "5s", "The time for which the server is not called then; one call tests it afterwards.";
        "fallback" KeyKind::Switch, "true", "Whether the `fallback_tool` that an error names is called after the last attempt, if its risk is not higher.";
        "keys" KeyKind::Switch, "false", "Whether each call without an idempotency key gets one, if the server negotiated `idempotency`. Set it only if the server keeps its keys when it restarts; it finishes such a call even if the caller cancels the call.";
    }
    "kernel": {
        "timeout" KeyKind::Duration, "60s", "The time a call of a tool, prompt or resource may take without reporting progress. Waiting for a person or for a free slot does not count.";
        "max_timeout" KeyKind::Duration, "10m", "The time a call of a tool, prompt or resource may take in all, however often it reports progress.";
        "proxy" KeyKind::Text, "env", "The proxy of connections to servers at a `url`, to their logins, and of what is sent to other machines, e.g. by webhooks and as messages to people: `env` uses `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, `none` connects directly, else `http://HOST:PORT`. Connections are tunnels (CONNECT); this machine is always reached directly. A change restarts the servers at a `url`; sinks of the audit log and the keys of access tokens use it from the next start of the kernel on.";
        "no_proxy" KeyKind::Texts, "[]", "Hosts, hosts with a port (`a.example:8443`), domains (`.example.com` or `*.example.com`, which include `example.com`) and networks (`10.0.0.0/8`) that are reached without that proxy; `*` matches all names. The variable `NO_PROXY` may contain the same.";
        "form_timeout" KeyKind::Duration, "10m", "How long a form in an interactive agent's host waits for the person. After that the call stays open in `mgp approvals`.";
        "approval_timeout" KeyKind::Duration, "50s", "How long a call waits for an answer in `mgp approvals` if its agent shows no forms. After that it is refused with the id of the approval, which stays open.";
        "pass_env" KeyKind::Texts, "[]", "Environment variables of `mgp` that every configured program inherits, in addition to the basic ones, proxies and certificates. A final `*` matches the rest of a name. A change restarts these programs.";
        "extensions" KeyKind::Words(PROPOSALS), "", "The proposals (extensions beyond MGP) that callers may negotiate with the kernel: all of them without this key; `[]` offers none. Changes take effect at the next start.";
        "permission_policy" KeyKind::Word(APPROVAL), "interactive", "How permissions of servers are decided: `interactive` asks a person, `auto_approve` grants all, `deny_all` grants those in `permissions` and those that an operator approved, `config_only` exactly those in `permissions`.";
        "auto_approve_except" KeyKind::Words(PERMISSIONS), "[\"shell.execute\", \"code_execution\"]", "The permissions that `auto_approve` still asks for; wildcards such as `filesystem.*` are possible.";
        "tools_request" KeyKind::Switch, "false", "Whether `mgp_tools_request` is listed to all callers (§16.6); peers that negotiated `tool_discovery` always see it.";
        "surface" KeyKind::Word(SURFACES), "auto", "The tools that are listed to agents: `direct` all, `search` those that find and call tools with the pinned ones and those in use, `categories` and `find` only those that find and call tools, with or without all categories; `auto` is `direct` while the definitions have at most `direct_tokens` or are shorter than `search`, else `search`.";
        "direct_tokens" KeyKind::Number(0, MANY), "2000", "The tokens of all definitions up to which `surface = \"auto\"` lists all tools.";
        "portable_names" KeyKind::Switch, "false", "Whether agents see each name of a tool that is not 1 to 64 letters, digits, `_` and `-` in such a form, because many APIs of model providers refuse the whole list otherwise: `weather.plan` is listed as `weather_plan`. Calls may use both.";
        "references" KeyKind::Table, "", "Data that moves from server to server by reference. Changes take effect at the next start of the kernel.";
        "results" KeyKind::Table, "", "The most of a result that reaches a model.";
        "tool_context_budget" KeyKind::Table, "", "The tokens that tool definitions may cost a caller (§16.8).";
        "metrics" KeyKind::Text, "", "An address, e.g. `127.0.0.1:9464`, at which `/metrics` (Prometheus), `/healthz` and `/readyz` are served without authentication. A change takes effect at the next start of the kernel.";
        "audit" KeyKind::Table, "", "The audit log. Changes take effect at the next start of the kernel.";
        "webhooks" KeyKind::TableMap, "", "URLs to which events are sent, one `[kernel.webhooks.NAME]` each. A changed one goes on with the next event; one that is removed loses its waiting events.";
        "notify" KeyKind::TableMap, "", "Places where a person learns that decisions wait, one `[kernel.notify.NAME]` each; `mgp notify test` sends a first message. A changed place goes on with the next decision.";
        "console_url" KeyKind::Text, "", "The address of the console with which links in messages begin, e.g. `https://mgp.example.com/console` behind a TLS proxy. The default is the address of `mgp serve --http … --console`; without either, messages name the command `mgp console`.";
        "http" KeyKind::Table, "", "TLS, access tokens and connections of `mgp serve --http`. Changes take effect at the next start of the kernel.";
        "operator" KeyKind::Table, "", "Who may change things over the local socket.";
        "search" KeyKind::Table, "", "What improves the search for tools.";
        "telemetry" KeyKind::Table, "", "The collector (OpenTelemetry) of traces and metrics.";
        "registry" KeyKind::Table, "", "Servers that are recommended where no connected one has a tool.";
        "registration" KeyKind::Table, "", "What a server that an agent registers may run and be given (§15.4); an operator approves each in any case.";
    }
    "kernel.registry": {
        "file" KeyKind::Text, "", "A file with `server.json` entries of a registry, relative to the folder of this file. It is read when the kernel starts; nothing is looked up elsewhere. `mgp servers search` uses it instead of `url`.";
        "url" KeyKind::Text, "https://registry.modelcontextprotocol.io", "The registry that `mgp servers search`, `add` and `update` ask: the official one, or a mirror that speaks its protocol v0.1.";
    }
    "kernel.registration": {
        "programs" KeyKind::Texts, "[]", "Programs that agents may name besides interpreters of scripts (`node`, `python`, `sh` and the like), `bunx`, `deno`, `npx`, `uv` and `uvx`: names of programs on `PATH`, or whole paths.";
        "env" KeyKind::Texts, "[]", "Environment variables that agents may set besides `LANG`, `LOG_LEVEL`, `NO_COLOR`, `TZ`, `MCP_*`, `*API_KEY`, `*_TOKEN`, `*_SECRET`, `*_USERNAME` and `*_PASSWORD`. A `*` at one end matches the rest of a name.";
    }
    "kernel.search": {
        "learning" KeyKind::Switch, "false", "Whether the tools that an agent calls after a search improve its later searches. Changes of this table take effect at the next start of the kernel.";
        "learn_from" KeyKind::Word(&["agent", "user", "tenant"]), "agent", "Whose calls an agent learns from: its own, those of all agents of its user, or also those that at least two others of its tenant agree on.";
        "stored_queries" KeyKind::Word(&["text", "vector", "words"]), "text", "The parts of a query that are stored: the `text` with its vector and hashes of its words, no text (`vector`), or the hashes only (`words`).";
        "encoder" KeyKind::Text, "", "The folder of a sentence encoder for search by meaning, in place of the built-in table, relative to the state directory, or to your home with `~/`. `mgp` must be built with the feature `fastembed`.";
        "encoder_library" KeyKind::Text, "", "The file of the onnxruntime library, relative to the state directory, or to your home with `~/`; the default is the one in the folder of the encoder.";
    }
    "kernel.telemetry": {
        "otlp" KeyKind::Text, "", "The base URL of a collector, e.g. `http://127.0.0.1:4318`: calls are sent to `/v1/traces`, figures to `/v1/metrics` (OTLP over HTTP, JSON). `${…}` is expanded. Takes effect at the next start of the kernel.";
        "headers" KeyKind::TextMap, "{}", "HTTP headers sent to the collector. `${…}` is expanded.";
        "interval" KeyKind::Duration, "10s", "The time between two exports of figures, at least 1 s.";
    }
    "kernel.operator": {
        "proof" KeyKind::Word(PROOFS), "none", "What a command must show before it changes anything: `terminal` a terminal of its own outside the hosts, `passphrase` the passphrase of `mgp operator passphrase set`. Reads need none.";
    }
    "kernel.tool_context_budget": {
        "max_tokens" KeyKind::Number(0, MANY), "8000", "The total budget.";
        "pinned_reserve" KeyKind::Number(0, MANY), "2000", "The part reserved for pinned tools.";
        "discovery_reserve" KeyKind::Number(0, MANY), "3000", "The part reserved for found tools.";
        "cache_limit" KeyKind::Number(0, MANY), "3000", "The maximum cost of cached tools.";
    }
    "kernel.results": {
        "max_text" KeyKind::Number(0, MANY), "32768", "The bytes of text of a tool's result that reach a model; `0` is unlimited. The rest is kept, and read with `mgp_read_more`.";
        "max_structured" KeyKind::Number(0, MANY), "262144", "The bytes of structured content that reach a model; of a longer one long lists and texts lose their end, and all members stay, so that it still fits the schema of its tool.";
        "max_data" KeyKind::Number(0, MANY), "4194304", "The bytes of images, audio and other encoded data that reach a model, as they are sent.";
        "keep" KeyKind::Duration, "1h", "The time for which the rest of a result is kept; at most 16 MiB for each caller.";
    }
    "kernel.references": {
        "enabled" KeyKind::Switch, "false", "Whether data moves from server to server by reference (extension `data_references`). The kernel then listens on one more address, from which servers read.";
        "listen" KeyKind::Text, "127.0.0.1:0", "The address from which servers read; port 0 is a free one.";
        "url" KeyKind::Text, "", "The beginning of the URLs, if servers on other machines reach the address by another name, e.g. behind a proxy.";
        "keep" KeyKind::Duration, "1h", "The time for which a reference can be used, unless its server names an earlier one.";
        "max_inline" KeyKind::Number(0, MANY), "4194304", "The bytes of a reference that are put into an argument of a server without references.";
    }
    "kernel.webhooks.*": {
        "url" KeyKind::Text, "", "The URL. Each event is sent in a POST request of its own, in order; the answer must be 2xx. Addresses of this machine and of private networks are refused, unless `allow_loopback` or `allow_private` permits them. `${…}` is expanded.";
        "channels" KeyKind::Texts, "[\"*\"]", "The channels, or families such as `tool.*`.";
        "min_severity" KeyKind::Word(SEVERITIES), "info", "The lowest severity.";
        "secret" KeyKind::Text, "", "The key of the signature, e.g. `${keyring:hook}`. The header `mgp-signature` is `sha256=` and the hexadecimal HMAC-SHA256 of the header `mgp-timestamp`, a dot and the body. `${…}` is expanded.";
        "allow_loopback" KeyKind::Switch, "false", "Whether the URL may be on this machine, also over plain `http`.";
        "allow_private" KeyKind::Switch, "false", "Whether the host of the URL may have any address, e.g. one of a private network, also over plain `http`.";
    }
    "kernel.notify.*": {
        "desktop" KeyKind::Switch, "false", "Shows a notification on the desktop of the user who runs the kernel (`notify-send`, or `osascript` on macOS).";
        "ntfy" KeyKind::Text, "", "The URL of a topic of an ntfy server, e.g. `https://ntfy.example.com/approvals`. `secret` is its access token. `${…}` is expanded.";
        "webhook" KeyKind::Text, "", "A URL that gets the message as JSON in a POST, signed with `secret` as those of `kernel.webhooks`. `${…}` is expanded.";
        "email" KeyKind::Text, "", "An address to which the message is sent by `smtp`.";
        "smtp" KeyKind::Text, "", "The mail server: `smtps://HOST`, or `smtp://HOST` with STARTTLS. The connection of `smtp` to `localhost` or an address of this machine is not encrypted.";
        "from" KeyKind::Text, "", "The sender of e-mails; the default is `email`.";
        "user" KeyKind::Text, "", "The name at the mail server; `secret` is its password.";
        "secret" KeyKind::Text, "", "The access token, key of the signature or password, e.g. `${keyring:phone}`. `${…}` is expanded.";
        "after" KeyKind::Duration, "10s", "How long a decision waits before a message is sent, so that those made meanwhile send none. What comes in this time goes into the same message.";
        "quiet" KeyKind::Text, "", "Hours without messages in the time of this machine, e.g. `22:00-07:00`; what waits then is sent after them.";
        "allow_loopback" KeyKind::Switch, "false", "Whether `ntfy` or `webhook` may be on this machine, also over plain `http`.";
        "allow_private" KeyKind::Switch, "false", "Whether the host of `ntfy` or `webhook` may have any address, e.g. one of a private network, also over plain `http`.";
    }
    "kernel.audit": {
        "dir" KeyKind::Text, "", "The folder of the log, relative to the state directory, or to your home with `~/`; the default is `audit` in the state directory. Another folder begins another log.";
        "fsync" KeyKind::Word(&["always", "on_checkpoint", "never"]), "on_checkpoint", "When the log is flushed to the disk: `on_checkpoint` at most 5 s after a record was written, `always` before the answer, so that acknowledged records and the changes of the state survive a power cut; with `never`, a log that lost records in a power cut is not opened.";
        "keep" KeyKind::Number(0, 1_000_000), "0", "The number of log files that are kept; `0` keeps all.";
        "arguments" KeyKind::Word(&["redacted", "names", "full"]), "redacted", "The part of a call's arguments that is recorded: `redacted` a digest and the length, `names` also the names of the arguments, `full` also their values, secrets included.";
        "intent" KeyKind::Switch, "true", "Whether the intent that a caller states with a call (`intent_hints`) is recorded, at most 512 bytes of it.";
        "sinks" KeyKind::TableMap, "", "Programs and machines that get a copy of each event, by name. What a sink has got is stored under its name, so a sink that was away gets all it missed, except over syslog by UDP.";
    }
    "kernel.audit.sinks.*": {
        "file" KeyKind::Text, "", "A file to which each event is added as a line of JSON, relative to the state directory, or to your home with `~/`. It is opened for each event, so that it can be renamed and removed at any time.";
        "url" KeyKind::Text, "", "A URL that gets each event as JSON in a POST; any status from 200 to 299 confirms it. `${…}` is expanded.";
        "headers" KeyKind::TextMap, "{}", "HTTP headers sent to `url`. `${…}` is expanded.";
        "syslog" KeyKind::Text, "", "A syslog receiver (RFC 5424): `udp://HOST:PORT`, `tcp://HOST:PORT`, or the path of a socket, e.g. `/dev/log`. The events are sent without encryption.";
    }
    "kernel.http": {
        "tls_cert" KeyKind::Text, "", "The file of the certificate chain (PEM) with which `mgp serve --http` serves `https`, relative to the state directory, or to your home with `~/`. A renewed file is used for new connections.";
        "tls_key" KeyKind::Text, "", "The file of the private key (PEM) of `tls_cert`, relative to the state directory, or to your home with `~/`.";
        "connections_per_address" KeyKind::Number(1, 32_768), "", "The connections that one address may have, or one network of IPv6 addresses with the same first 64 bits; further ones get 429. Without this key at most 256, and at most 16384 from this machine; fewer if the process may open few files, see `mgp serve`. Raise it for callers behind one TLS proxy or NAT.";
        "tokens" KeyKind::Table, "", "Access tokens (JWT) that callers may show instead of API keys.";
    }
    "kernel.http.tokens": {
        "issuer" KeyKind::Text, "", "The issuer (`iss`) of the tokens: a URL, or any text if `keys` is set.";
        "resource" KeyKind::Text, "", "The URL at which clients reach the kernel, e.g. `https://mgp.example/mcp`; tokens must have it as audience. `http` only for this machine.";
        "keys" KeyKind::Text, "", "The issuer's keys (JWKS): a URL, or a file relative to the state directory. Both are read again every 10 minutes, and if a token has an unknown key. The default is the URL in the issuer's metadata.";
        "audience" KeyKind::Texts, "[]", "Other names that tokens may have as audience.";
        "scopes" KeyKind::Texts, "[]", "Scopes that every token needs.";
        "operator_scope" KeyKind::Text, "", "The scope that makes a caller an operator; without it no token does. With another tenant than `local`, it is an operator of that tenant only.";
        "agent_claim" KeyKind::Text, "", "The claim with the name of the agent; the default is the first of `client_id`, `azp` and `sub` that the token has.";
        "tenant" KeyKind::Text, "", "The tenant of the callers; the default is that of the agents in this file.";
        "tenant_claim" KeyKind::Text, "", "The claim with the tenant of the caller. A token without it is refused, and so is one whose claim contains `local`.";
    }
    "limits": {
        "calls_per_minute" KeyKind::Number(0, 4_294_967_295), "", "The calls in a minute of an agent; as many may be made at once after a pause.";
        "calls_per_hour" KeyKind::Number(0, MANY), "", "The calls of an agent in an hour, which begins at the full hour. The counts of hours and days are kept across restarts.";
        "calls_per_day" KeyKind::Number(0, MANY), "", "The calls of an agent in a day, which begins at midnight UTC.";
        "units_per_hour" KeyKind::Number(0, MANY), "", "The units that calls of an agent may cost in an hour; see `servers.limits.units`.";
        "units_per_day" KeyKind::Number(0, MANY), "", "The units that calls of an agent may cost in a day.";
        "running" KeyKind::Number(1, 65_536), "", "The calls of an agent that run at once; further ones wait for their turn.";
        "max_arguments" KeyKind::Number(0, MANY), "", "The bytes of the arguments of a call of an agent.";
        "max_stream_bytes" KeyKind::Number(0, MANY), "", "The bytes of the chunks of a call of an agent, as JSON; a call that sends more is ended. Without this key 16 MiB; of several limits the lowest counts.";
    }
    "agents.*": {
        "pinned" KeyKind::Texts, "[]", "The tools that are always in the agent's list.";
        "groups" KeyKind::Texts, "[]", "The access groups of the agent.";
        "budget" KeyKind::Number(0, MANY), "", "The tokens that definitions may cost the agent, in place of the kernel's `max_tokens`.";
        "surface" KeyKind::Word(SURFACES), "", "The tools that are listed to the agent, in place of `kernel.surface`.";
        "portable_names" KeyKind::Switch, "", "Whether the agent sees portable names of tools, in place of `kernel.portable_names`.";
        "limits" KeyKind::Table, "", "The limits of the agent's tool calls; each key replaces that of `limits`.";
        "results" KeyKind::Table, "", "The most of a result that reaches the agent.";
        "scopes" KeyKind::Texts, "", "The scopes that the agent may obtain; one that ends with `*` matches all that begin like it. With `[]` it may obtain none; without this key its calls need no scopes.";
        "interactive" KeyKind::Switch, "false", "Whether a person uses the agent and can confirm its calls.";
    }
    "agents.*.limits": {
        "calls_per_minute" KeyKind::Number(0, 4_294_967_295), "", "The calls in a minute of the agent; as many may be made at once after a pause.";
        "calls_per_hour" KeyKind::Number(0, MANY), "", "The calls of the agent in an hour, which begins at the full hour. The counts of hours and days are kept across restarts.";
        "calls_per_day" KeyKind::Number(0, MANY), "", "The calls of the agent in a day, which begins at midnight UTC.";
        "units_per_hour" KeyKind::Number(0, MANY), "", "The units that calls of the agent may cost in an hour; see `servers.limits.units`.";
        "units_per_day" KeyKind::Number(0, MANY), "", "The units that calls of the agent may cost in a day.";
        "running" KeyKind::Number(1, 65_536), "", "The calls of the agent that run at once; further ones wait for their turn.";
        "max_arguments" KeyKind::Number(0, MANY), "", "The bytes of the arguments of a call of the agent.";
        "max_stream_bytes" KeyKind::Number(0, MANY), "", "The bytes of the chunks of a call of the agent, as JSON; a call that sends more is ended. Without this key 16 MiB; of several limits the lowest counts.";
    }
    "agents.*.results": {
        "max_text" KeyKind::Number(0, MANY), "", "The `kernel.results.max_text` of results for the agent; the server's counts too if it is lower.";
        "max_structured" KeyKind::Number(0, MANY), "", "The `kernel.results.max_structured` of results for the agent; the server's counts too if it is lower.";
        "max_data" KeyKind::Number(0, MANY), "", "The `kernel.results.max_data` of results for the agent; the server's counts too if it is lower.";
    }
    "tool_creation": {
        "enabled" KeyKind::Switch, "false", "Whether agents may request new tools; each still waits for an operator.";
    }
};

impl ConfigKey {
    /// Returns the full path of the key, e.g. `servers.mgp.confirm`.
    #[must_use]
    pub fn path(&self) -> String {
        if self.table.is_empty() {
            return self.name.to_owned();
        }
        format!("{}.{}", self.table, self.name)
    }
}

pub(super) fn keys_of(table: &str) -> impl Iterator<Item = &'static ConfigKey> {
    KEYS.iter().filter(move |key| key.table == table)
}

pub(super) fn key(table: &str, name: &str) -> Option<&'static ConfigKey> {
    keys_of(table).find(|key| key.name == name)
}

/// Keys of hosts' files that users write in `mgp.toml` by mistake: the table, the key, and the remedy.
#[rustfmt::skip]
const HOST_KEYS: &[(&str, &str, &str)] = &[
    ("", "mcpServers", "write `[[servers]]` with `id = \"NAME\"` for each server"),
    ("", "mcp_servers", "write `[[servers]]` with `id = \"NAME\"` for each server"),
    ("", "mgp", "write `[servers.mgp]` below the `[[servers]]` that it is for"),
    ("servers", "alwaysAllow", "run `mgp access grant AGENT SERVER TOOL --no-confirm`"),
    ("servers", "autoApprove", "run `mgp access grant AGENT SERVER TOOL --no-confirm`"),
    ("servers", "disabled", "write `enabled = false`"),
    ("servers", "type", "write `transport`, or leave it out"),
    ("servers.auth", "tenant", TENANT_OF_LOGIN),
    ("servers.auth", "tenant_id", TENANT_OF_LOGIN),
];

/// The remedy for a key that names a tenant at the authorization server: that tenant is a part of the server's URL.
const TENANT_OF_LOGIN: &str = "name the authorization server of that tenant as `issuer`";

/// Returns the remedy for an unknown key of a table, if it is a key that hosts use, a key of another table, or a
/// misspelt key.
pub(super) fn remedy_for_unknown_key(table: &str, name: &str) -> Option<String> {
    let of_host = HOST_KEYS.iter().find(|(place, key, _)| (*place, *key) == (table, name));
    if let Some((_, _, remedy)) = of_host {
        return Some((*remedy).to_owned());
    }
    if let Some(other) = only_table(table, name) {
        let written = other.replace('*', "NAME");
        let written =
            if other == "servers" { "[[servers]]".to_owned() } else { format!("[{written}]") };
        return Some(format!("write it below `{written}`"));
    }
    nearest(name, keys_of(table).map(|key| key.name)).map(|near| format!("did you mean `{near}`?"))
}

/// Returns the only table with a key of this name, among the tables within `table`, or, if none of these has the key,
/// among all tables.
fn only_table(table: &str, name: &str) -> Option<&'static str> {
    let all = move || KEYS.iter().filter(move |key| key.name == name && !key.table.is_empty());
    let is_within = |key: &str| key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
    let mut within = all().filter(|key| is_within(key.table));
    match (within.next(), within.next()) {
        (Some(only), None) => return Some(only.table),
        (Some(_), Some(_)) => return None,
        (None, _) => {}
    }
    let mut everywhere = all();
    let first = everywhere.next()?;
    everywhere.next().is_none().then_some(first.table)
}

#[cfg(test)]
mod tests {
    use mgp_types::mgp::{
        ApprovalPolicy, Permission, RestartPolicy, RiskLevel, TrustLevel, Validator,
    };

    use super::*;

    #[test]
    fn words_are_those_of_the_vocabulary() {
        assert!(TRUST.iter().all(|word| TrustLevel::from(*word).is_known()));
        assert!(APPROVAL.iter().all(|word| ApprovalPolicy::from(*word).is_known()));
        assert!(RESTARTS.iter().all(|word| RestartPolicy::from(*word).is_known()));
        assert!(RISKS.iter().all(|word| RiskLevel::from(*word).is_known()));
        assert!(VALIDATORS.iter().all(|word| Validator::from(*word).is_known()));
        let permissions: Vec<_> = Permission::KNOWN.iter().map(Permission::as_str).collect();
        assert_eq!(PERMISSIONS, permissions);
        assert_eq!(TRUST.len(), TrustLevel::KNOWN.len());
        let about = key("servers.mgp", "trust_level").unwrap().about;
        assert!(TRUST.iter().all(|word| about.contains(&format!("`{word}`"))), "{about}");
        assert_eq!(APPROVAL.len(), ApprovalPolicy::KNOWN.len());
        assert_eq!(VALIDATORS.len(), Validator::KNOWN.len());
    }

    #[test]
    fn no_key_is_there_twice_and_each_table_has_a_key() {
        for (at, key) in KEYS.iter().enumerate() {
            assert!(KEYS[at + 1..].iter().all(|other| other.path() != key.path()), "{key:?}");
            let table = key.table.trim_end_matches(".*");
            assert!(table.is_empty() || KEYS.iter().any(|other| other.path() == table), "{key:?}");
        }
    }
}
