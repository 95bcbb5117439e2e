//! Tests of reading `mgp.toml`.

use mgp_types::mgp::{Permission, RestartPolicy, TrustLevel};
use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> ParsedConfig {
    Config::parse("mgp.toml", text).unwrap()
}

/// Parses a text and returns its findings as strings.
fn findings(text: &str) -> Vec<String> {
    let findings = match Config::parse("mgp.toml", text) {
        Ok(parsed) => parsed.findings,
        Err(faults) => faults.findings().to_vec(),
    };
    findings.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let found = findings(text);
    assert!(found.iter().any(|line| line == expected), "{found:#?}");
}

#[test]
fn the_example_of_the_specification_is_read() {
    let text = r#"
[[servers]]
id = "mind.cerebras"
command = "python"
args = ["mcp-servers/cerebras/server.py"]
transport = "stdio"

[servers.mgp]
extensions = ["security", "lifecycle", "streaming"]
permissions_required = ["network.outbound"]
trust_level = "standard"
restart_policy = "on_failure"

[servers.env]
CEREBRAS_API_KEY = "${CEREBRAS_API_KEY}"
"#;
    let ParsedConfig { config, findings, broken, .. } = parsed(text);
    assert_eq!((findings.len(), broken.len()), (0, 0), "{findings:?}");
    let server = config.server("mind.cerebras").unwrap();
    let TargetConfig::Program { command, args, env, .. } = &server.target else {
        panic!("{server:?}")
    };
    assert_eq!(command, "python");
    assert_eq!(args, &["mcp-servers/cerebras/server.py"]);
    assert_eq!(env["CEREBRAS_API_KEY"], "${CEREBRAS_API_KEY}");
    let mgp = server.mgp.as_ref().unwrap();
    assert_eq!(mgp.extensions, ["security", "lifecycle", "streaming"]);
    assert_eq!(mgp.permissions_required, [Permission::NetworkOutbound]);
    assert_eq!(
        (&mgp.trust_level, &mgp.restart.policy),
        (&TrustLevel::Standard, &RestartPolicy::OnFailure)
    );
}

fn of_url(more: &str) -> String {
    format!("[[servers]]\nid = 'a'\nurl = 'https://a'\n{more}\n")
}

fn sink(keys: &str) -> String {
    format!("[kernel.audit.sinks.x]\n{keys}\n")
}

fn tokens(keys: &str) -> String {
    format!("[kernel.http.tokens]\nissuer = 'https://i'\nresource = 'https://r/mcp'\n{keys}\n")
}

/// Returns the text of a file in which only this key differs from its default.
#[expect(clippy::too_many_lines, reason = "one line a key")]
fn sample(key: &ConfigKey) -> String {
    let value = match key.path().as_str() {
        "servers" => return "[[servers]]\nid = 'b'\ncommand = 'b'\n".into(),
        "kernel" => return "[kernel]\npermission_policy = 'deny_all'\n".into(),
        "agents" => return "[agents.ada]\n".into(),
        "limits" => return "[limits]\nrunning = 1\n".into(),
        "tool_creation" => return "[tool_creation]\nenabled = true\n".into(),
        "servers.id" => return "[[servers]]\nid = 'b'\ncommand = 'a'\n".into(),
        "servers.command" => return "[[servers]]\nid = 'a'\ncommand = 'b'\n".into(),
        "servers.url" => return "[[servers]]\nid = 'a'\nurl = 'https://b'\n".into(),
        "servers.headers" => {
            return "[[servers]]\nid = 'a'\nurl = 'https://a'\nheaders = { X = 'b' }\n".into();
        }
        "servers.login" => return of_url("login = 'agent'"),
        "servers.auth" | "servers.auth.client_id" => {
            return of_url("auth = { client_id = 'x' }");
        }
        "servers.auth.grant" => {
            let client = "client_id = 'x', client_secret = 'x'";
            return of_url(&format!("auth = {{ grant = 'client_credentials', {client} }}"));
        }
        "servers.auth.client_secret" => {
            return of_url("auth = { client_id = 'x', client_secret = 'x' }");
        }
        "servers.auth.private_key" | "servers.auth.key_id" => {
            let client = "grant = 'client_credentials', client_id = 'x'";
            return of_url(&format!("auth = {{ {client}, private_key = 'x', key_id = 'x' }}"));
        }
        "servers.auth.dpop" => return of_url("auth = { dpop = 'never' }"),
        "servers.auth.scopes" => return of_url("auth = { scopes = ['x'] }"),
        "servers.auth.issuer" => return of_url("auth = { issuer = 'https://x' }"),
        "kernel.audit.sinks" | "kernel.audit.sinks.*.file" => return sink("file = 'x'"),
        "kernel.audit.sinks.*.url" => return sink("url = 'https://x'"),
        "kernel.audit.sinks.*.headers" => return sink("url = 'https://x'\nheaders = { x = 'x' }"),
        "kernel.audit.sinks.*.syslog" => return sink("syslog = '/dev/log'"),
        "kernel.http" | "kernel.http.tls_cert" | "kernel.http.tls_key" => {
            return "[kernel.http]\ntls_cert = 'x'\ntls_key = 'y'\n".into();
        }
        "kernel.http.tokens" | "kernel.http.tokens.issuer" | "kernel.http.tokens.resource" => {
            return tokens("");
        }
        "kernel.http.tokens.audience" | "kernel.http.tokens.scopes" => {
            return tokens(&format!("{} = ['x']", key.name));
        }
        _ if key.table == "kernel.http.tokens" => return tokens(&format!("{} = 'x'", key.name)),
        "servers.era" => "'legacy'",
        "kernel.proxy" => "'none'",
        "servers.mgp" => "false",
        "servers.mgp.trust_level" => "'sandboxed'",
        "servers.mgp.default_policy" => "'opt-out'",
        "servers.mgp.restart_policy" => "'never'",
        "servers.mgp.validators" => "{ t = 'sandbox' }",
        "servers.mgp.risk" => "{ t = 'safe' }",
        "servers.mgp.permission_limits" => "{ paths = ['/x'] }",
        "servers.mgp.permission_limits.ports"
        | "servers.confine.connect"
        | "servers.confine.listen" => "['443']",
        "servers.confine" => "{}",
        "servers.mgp.confirm" => "'moderate'",
        "servers.mgp.isolation" => "'per_agent'",
        "servers.mgp.on_ungranted" => "'close'",
        "servers.mgp.permission_policy" | "kernel.permission_policy" => "'auto_approve'",
        "kernel.tool_context_budget" => "{ max_tokens = 1 }",
        "kernel.audit" => "{ keep = 1 }",
        "kernel.webhooks" => "{ x = { url = 'https://example.com' } }",
        "kernel.webhooks.*.url" => "'https://example.com'",
        "kernel.webhooks.*.min_severity" => "'error'",
        "kernel.notify" => "{ x = { desktop = true } }",
        "kernel.console_url" => "'https://mgp.example.com/console'",
        "kernel.notify.*.ntfy"
        | "kernel.notify.*.webhook"
        | "kernel.telemetry.otlp"
        | "kernel.references.url"
        | "kernel.registry.url" => "'https://x'",
        "kernel.notify.*.email" | "kernel.notify.*.from" => "'x@example.com'",
        "kernel.notify.*.quiet" => "'22:00-07:00'",
        "kernel.notify.*.smtp" => "'smtps://mail.example.com'",
        "kernel.metrics" => "'127.0.0.1:1'",
        "servers.limits" | "agents.*.limits" => "{ running = 1 }",
        "servers.results" | "kernel.results" | "agents.*.results" => "{ max_text = 1 }",
        "kernel.surface" | "agents.*.surface" => "'direct'",
        "kernel.operator" => "{ proof = 'terminal' }",
        "kernel.operator.proof" => "'terminal'",
        "kernel.registry" => "{ file = 'x' }",
        "kernel.registration" => "{ env = ['x'] }",
        "kernel.extensions" => "['intent_hints']",
        "kernel.search" => "{ learning = true }",
        "kernel.search.learn_from" => "'user'",
        "kernel.search.stored_queries" => "'words'",
        "kernel.telemetry" => "{ otlp = 'http://127.0.0.1:4318' }",
        "servers.mgp.retry" => "{ attempts = 2 }",
        "kernel.references" => "{ enabled = true }",
        "kernel.references.listen" => "'127.0.0.1:7000'",
        "kernel.audit.fsync" => "'always'",
        "kernel.audit.arguments" => "'full'",
        _ => match key.kind {
            KeyKind::Text => "'x'",
            KeyKind::Texts => "['x']",
            KeyKind::TextMap => "{ x = 'x' }",
            KeyKind::Number(least, _) if least > 7 => "70000",
            KeyKind::Number(..) => "7",
            KeyKind::NumberMap(..) => "{ x = 7 }",
            KeyKind::Duration => "'7m'",
            KeyKind::DurationMap => "{ x = '7m' }",
            KeyKind::Switch if key.default == "true" => "false",
            KeyKind::Switch => "true",
            KeyKind::Words(_) => "['camera']",
            kind => panic!("no sample for {kind:?}"),
        },
    };
    let above = match key.table.split_once('.').map_or(key.table, |(first, _)| first) {
        "servers" => "[[servers]]\nid = 'a'\ncommand = 'a'\n",
        _ => "",
    };
    let line = match key.table {
        "servers" => format!("{} = {value}\n", key.name),
        "kernel.webhooks.*" if key.name != "url" => {
            format!("[kernel.webhooks.ada]\nurl = 'https://x'\n{} = {value}\n", key.name)
        }
        "kernel.notify.*" => {
            format!("[kernel.notify.ada]\n{}{} = {value}\n", notify_base(key), key.name)
        }
        "kernel.references" if key.name != "enabled" => {
            format!("[kernel.references]\nenabled = true\n{} = {value}\n", key.name)
        }
        table => format!("[{}]\n{} = {value}\n", table.replace('*', "ada"), key.name),
    };
    above.to_owned() + &line
}

/// Returns the other keys that a table `[kernel.notify.NAME]` with this key needs.
fn notify_base(key: &ConfigKey) -> &'static str {
    match key.name {
        "desktop" | "ntfy" | "webhook" => "",
        "email" => "smtp = 'smtp://mail.example.com'\n",
        "smtp" => "email = 'ada@example.com'\n",
        "from" => "email = 'ada@example.com'\nsmtp = 'smtp://mail.example.com'\n",
        "user" => "email = 'ada@example.com'\nsmtp = 'smtp://mail.example.com'\nsecret = 'x'\n",
        _ => "desktop = true\n",
    }
}

#[test]
fn places_of_messages_are_checked() {
    let at = |text: &str, says: &str| {
        let text = format!("[kernel.notify.x]\n{text}");
        let errors = Config::parse("mgp.toml", &text).unwrap_err().to_string();
        assert!(errors.contains(says), "{errors}");
    };
    at("", "write one of `desktop`, `ntfy`, `webhook` and `email`");
    at("desktop = true\nntfy = 'https://x'", "must be the only way of its place");
    at("ntfy = 'ntfy.sh/topic'", "mgp.toml:2:1: error: `kernel.notify.x.ntfy` is not a URL");
    at("webhook = 'https://'", "begin with `https://` or `http://`");
    at("email = 'a@b'", "mgp.toml:2:1: error: `kernel.notify.x.email` has no `smtp`; write `smtp");
    at("email = 'a@b'\nsmtp = 'mail'", "smtps://HOST");
    let of_mail = |keys: &str| format!("email = 'a@b'\nsmtp = 'smtp://mail'\n{keys} = 'x'");
    at(&of_mail("user"), "mgp.toml:4:1: error: `kernel.notify.x.user` has no `secret`; write");
    at(&of_mail("secret"), "`kernel.notify.x.secret` has no `user`; write the name of");
    for quiet in ["22:00", "7:00-7:00", "24:00-01:00", "1:5-2:00", "a-b"] {
        at(&format!("desktop = true\nquiet = '{quiet}'"), "is not a range of hours");
    }
    for url in ["mgp.example.com", "https://a:b", "https://a@b/console", "http://a/console?key=x"] {
        let text = format!("[kernel]\nconsole_url = '{url}'");
        let errors = Config::parse("mgp.toml", &text).unwrap_err().to_string();
        assert!(errors.contains("write `https://HOST/console`"), "{errors}");
    }
    let read = parsed("[kernel.notify.x]\ndesktop = true\nsecret = 's3cret'");
    assert!(!format!("{:?}", read.config).contains("s3cret"));
}

#[test]
fn every_key_has_an_effect() {
    // Skip `transport`: its value follows from `command` or `url`, so setting it alone has no effect.
    for key in KEYS.iter().filter(|key| key.path() != "servers.transport") {
        let text = sample(key);
        let base = match key.table.split('.').next() {
            Some("servers") if text.contains("url") => "[[servers]]\nid = 'a'\nurl = 'https://a'\n",
            Some("servers") => "[[servers]]\nid = 'a'\ncommand = 'a'\n",
            Some("agents") => "[agents.ada]\n",
            // The other keys of `kernel.references` have an effect only if references are enabled.
            Some("kernel") if key.table == "kernel.references" && key.name != "enabled" => {
                "[kernel.references]\nenabled = true\n"
            }
            _ => "",
        };
        let read = Config::parse("mgp.toml", &text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert!(read.findings.is_empty(), "{text}: {:?}", read.findings);
        assert_ne!(format!("{:?}", read.config), "", "{text}");
        assert_ne!(read.config, parsed(base).config, "`{}` does nothing", key.path());
    }
}

#[test]
fn http_access_and_sinks_are_checked() {
    let at = |text: &str, says: &str| {
        let errors = Config::parse("mgp.toml", text).unwrap_err().to_string();
        assert!(errors.contains(says), "{errors}");
    };
    at("[kernel.http]\ntls_cert = 'x'", "`kernel.http.tls_cert` needs `tls_key`");
    at("[kernel.http.tokens]\nissuer = 'x'", "needs `issuer` and `resource`");
    at(&tokens("tenant = 'a'\ntenant_claim = 'b'"), "`kernel.http.tokens.tenant` conflicts");
    at(&sink("file = 'x'\nurl = 'https://y'"), "the only target of its sink");
    at(&sink(""), "the only target of its sink");
    at(&sink("syslog = 'udp://host'"), "is not a syslog receiver");
    at(&sink("url = 'host/in'"), "`kernel.audit.sinks.x.url` is not a URL");
    at("[kernel.telemetry]\notlp = 'host:4318'", "`kernel.telemetry.otlp` is not a URL");
    at(
        "[kernel.telemetry]\nheaders = { 'X Key' = 'x' }",
        "`kernel.telemetry.headers` has the impossible name `…`; write letters, digits and `-`",
    );
    at(
        &sink("url = 'https://x'\nheaders = { '' = 'x' }"),
        "`kernel.audit.sinks.x.headers` has the impossible name ``",
    );
    at("[kernel.webhooks.x]\nurl = 'host/in'", "`kernel.webhooks.x.url` is not a URL");
    let of_channels = |channels: &str| {
        format!("[kernel.webhooks.x]\nurl = 'https://x'\nchannels = ['{channels}']")
    };
    for wrong in ["Tool Calls", "tool.", ".*", "tool*", "tool.*.x", ""] {
        at(&of_channels(wrong), "which is not a channel");
    }
    for right in ["*", "tool.*", "tool.completed", "a/b:c-d_e.f"] {
        assert!(parsed(&of_channels(right)).findings.is_empty(), "{right}");
    }
    let hidden = parsed(&sink("url = 'https://x'\nheaders = { authorization = 's3cret' }")).config;
    assert!(!format!("{hidden:?}").contains("s3cret"));
}

#[test]
fn written_defaults_are_the_defaults() {
    let mut text = String::from("[[servers]]\nid = 'a'\ncommand = 'a'\n");
    let mut table = "servers";
    // These keys have an effect only together with another key.
    let is_of_url = |key: &ConfigKey| {
        let tables = [
            "servers.auth",
            "kernel.audit.sinks.*",
            "kernel.http.tokens",
            "kernel.notify.*",
            "kernel.webhooks.*",
        ];
        tables.contains(&key.table) || ["headers", "login"].contains(&key.name)
    };
    for key in KEYS.iter().filter(|key| !key.default.is_empty() && !is_of_url(key)) {
        if key.table != table {
            table = key.table;
            text = format!("{text}[{}]\n", table.replace('*', "ada"));
        }
        let word = matches!(key.kind, KeyKind::Word(_) | KeyKind::Text | KeyKind::Duration);
        let quote = if word { "'" } else { "" };
        text = format!("{text}{} = {quote}{}{quote}\n", key.name, key.default);
    }
    let read = parsed(&text);
    assert!(read.findings.is_empty(), "{:?}", read.findings);
    // The empty tables of retries and of confinement have an effect, so the configuration must have them too.
    let without = "[[servers]]\nid = 'a'\ncommand = 'a'\n[servers.confine]\n[servers.mgp.retry]\n[agents.ada]\n";
    assert_eq!(read.config, parsed(without).config);
}

#[test]
fn each_mistake_names_its_place_and_its_remedy() {
    check(
        "= 1",
        "mgp.toml:1:1: error: this is not TOML: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`",
    );
    check(
        "[[servers]]\nid = 'a'\ncommand = 'x'\nid = 'b'\n",
        "mgp.toml:4:1: error: this is not TOML: duplicate key; keep one of the two, or join them; each server begins with a line `[[servers]]` of its own",
    );
    check("servrs = []", "mgp.toml:1:1: warning: unknown key `servrs`; did you mean `servers`?");
    check(
        "[agents.ada]\nbudgt = 1\n",
        "mgp.toml:2:1: warning: unknown key `budgt` in `agents.ada`; did you mean `budget`?",
    );
    check(
        "[[servers]]\nid = 'a'\n\n[[servers]]\nid = 'b'\ncommand = 3\n",
        "mgp.toml:6:1: error: `servers.command` is an integer, not a text; put it in quotes",
    );
    check(
        "[[servers]]\nid = 'a'\n",
        "mgp.toml:2:1: error: a server has neither `command` nor `url`; write `command = \"…\"`, or `url = \"…\"`",
    );
    check(
        "[kernel]\ntimeout = '60 sec'\n",
        "mgp.toml:2:1: error: `kernel.timeout` has the value `60 sec`, which is not a duration; write a number and a unit, e.g. \"500ms\", \"90s\", \"10m\" or \"2h\"",
    );
    check(
        "[kernel]\ntimeout = 'hunter2 hunter2'\n",
        "mgp.toml:2:1: error: `kernel.timeout` has the value `…`, which is not a duration; write a number and a unit, e.g. \"500ms\", \"90s\", \"10m\" or \"2h\"",
    );
    let server = "[[servers]]\nid = 'a'\ncommand = 'a'\n";
    check(
        &format!("{server}tool_timeouts = {{ build = 9 }}\n"),
        "mgp.toml:4:27: error: `servers.tool_timeouts` has an integer under `build`, not a duration, e.g. \"90s\"",
    );
    check(
        &format!("{server}limits = {{ tool_units = {{ build = 'x' }} }}\n"),
        "mgp.toml:4:35: error: `servers.limits.tool_units` has a string under `build`, not a whole number from 0 to 9223372036854775807; write it without quotes",
    );
    check(
        &format!("{server}limits = {{ tool_units = {{ build = -1 }} }}\n"),
        "mgp.toml:4:35: error: `servers.limits.tool_units` has -1 under `build`, not a whole number from 0 to 9223372036854775807",
    );
    check(
        &format!("{server}env = {{ PORT = 9 }}\n"),
        "mgp.toml:4:16: error: `servers.env` has an integer under `PORT`, not a text; put it in quotes",
    );
    check(
        &format!("{server}args = ['a', 9]\n"),
        "mgp.toml:4:14: error: `servers.args` has an integer in it, not a text; put it in quotes",
    );
    check(
        "[kernel]\ndirect_tokens = -1\n",
        "mgp.toml:2:1: error: `kernel.direct_tokens` is -1, not a whole number from 0 to 9223372036854775807",
    );
    check(
        "[[servers]]\nid = 'a'\ncommand = 'a'\n[servers.mgp]\ntrust_level = 'standrd'\n",
        "mgp.toml:5:1: error: `servers.mgp.trust_level` is the unknown word `standrd`; did you mean `standard`? known: trusted, standard, sandboxed, core, experimental, untrusted",
    );
    check(
        "[[servers]]\nid = 'a'\ncommand = 'a'\nmgp = { permissions = ['filesystem.raed'] }\n",
        "mgp.toml:4:9: warning: `servers.mgp.permissions` has the unknown word `filesystem.raed`; did you mean `filesystem.read`?",
    );
    check(
        "[[servers]]\nid = 'a'\ncommand = 'a'\nheaders = { A = 'b' }\n",
        "mgp.toml:4:1: warning: `headers` does nothing without `url`",
    );
    check(
        "[[servers]]\nid = 'a'\ncommand = 'a'\nmgp = { backoff_base_ms = 9, backoff_max_ms = 8 }\n",
        "mgp.toml:4:9: error: `servers.mgp.backoff_base_ms` is longer than `backoff_max_ms`; make `backoff_max_ms` the longer one",
    );
}

#[test]
fn wildcards_of_permissions_are_no_unknown_words() {
    let warnings = |permissions: &str, except: &str| {
        let text = format!(
            "[[servers]]\nid = 'a'\ncommand = 'a'\nmgp = {{ permissions = [{permissions}] }}\n\
             [kernel]\nauto_approve_except = [{except}]\n"
        );
        parsed(&text).findings.len()
    };
    assert_eq!(warnings("'filesystem.*', '*'", "'filesystem.*', 'shell*', '*'"), 0);
    assert_eq!(warnings("'filesystem.raed'", "'filesystem.raed'"), 2);
}

#[test]
fn a_faulty_server_disables_itself_and_a_faulty_rule_disables_the_file() {
    let text =
        "[[servers]]\nid = 'a'\n[[servers]]\nid = 'b'\ncommand = 'b'\n[[servers]]\ncommand = 'c'\n";
    let ParsedConfig { config, broken, findings, .. } = parsed(text);
    assert_eq!(config.servers.len(), 1);
    assert_eq!(broken, ["a", "servers[2]"]);
    assert!(findings.iter().all(|finding| finding.server.is_some()));
    assert!(Config::parse("mgp.toml", "[kernel]\npermission_policy = 'auto'\n").is_err());
    assert!(Config::parse("mgp.toml", "[agents.'a b']\n").is_err());
    assert!(Config::parse("mgp.toml", "[tool_creation]\nenabled = 1\n").is_err());
}

#[test]
fn a_misspelt_proof_of_operators_does_not_mean_none() {
    let proof = |text: &str| parsed(text).config.kernel.operator_proof;
    assert_eq!(proof(""), OperatorProof::None);
    assert_eq!(proof("[kernel]\noperator.proof = 'none'"), OperatorProof::None);
    assert_eq!(proof("[kernel.operator]\nproof = 'terminal'"), OperatorProof::Terminal);
    assert_eq!(proof("[kernel]\noperator.proof = 'passphrase'"), OperatorProof::Passphrase);
    assert!(Config::parse("mgp.toml", "[kernel]\noperator.proof = 'pasphrase'").is_err());
}

#[test]
fn the_first_of_two_servers_of_an_id_counts() {
    let text = "servers = [{ id = 'a', command = 'x' }, { id = 'a', command = 'y' }]";
    let ParsedConfig { config, findings, broken, .. } = parsed(text);
    let TargetConfig::Program { command, .. } = &config.servers[0].target else {
        panic!("a program")
    };
    assert_eq!(
        (command.as_str(), config.servers.len(), findings.len(), broken.len()),
        ("x", 1, 1, 0)
    );
}

#[test]
fn a_url_with_a_user_name_is_refused() {
    let is_refused = |url: &str| {
        let found = findings(&format!("[[servers]]\nid = 'a'\nurl = '{url}'\n")).concat();
        assert!(!found.contains("s3cret"), "{found}");
        found.contains("`servers.url` has a user name, which cannot be sent in a URL; take it out")
    };
    for url in [
        "https://me:s3cret@a/mcp",
        "https://me@a",
        "https://${ME}:${KEY}@a/x",
        "https://me@${A}/",
        "https://${ME:-a/b}@${A}/",
        "https://${ME}@${HOST}/",
    ] {
        assert!(is_refused(url), "{url}");
    }
    for url in
        ["https://a/@me", "https://a?x=me@b", "https://${cmd:f a@b}/", "https://a${file:x@y/z}/"]
    {
        assert!(!is_refused(url), "{url}");
    }
}

#[test]
fn values_in_the_wrong_place_are_not_repeated() {
    let secret = "ghx_0123456789abcdefghijklmnopqrstuvwxyz";
    let text = format!(
        "[[servers]]\nid = '{secret}!'\ncommand = 'a'\n[servers.mgp]\ntrust_level = '{secret}'\n[servers.env]\n'{secret}=' = 'x'\n"
    );
    assert!(!findings(&text).concat().contains("0123456789"), "{:?}", findings(&text));
    let text = format!(
        "[[servers]]\nid = 'a'\ncommand = 'a'\nargs = ['{secret}']\nenv = {{ T = '{secret}' }}\n"
    );
    assert!(!format!("{:?}", parsed(&text)).contains("0123456789"));
}

#[test]
fn everything_has_a_bound() {
    let many = "[[servers]]\n".repeat(limits::MAX_SERVERS + 1);
    assert!(Config::parse("mgp.toml", &many).is_err());
    let broken = parsed(&"[[servers]]\nx = 1\n".repeat(limits::MAX_SERVERS));
    assert_eq!(broken.broken.len(), limits::MAX_SERVERS);
    assert_eq!(broken.findings.len(), 2 * limits::MAX_FINDINGS, "as many warnings as errors");
    let args = format!(
        "servers = [{{ id = 'a', command = 'a', args = {:?} }}]",
        vec!["x"; limits::MAX_ENTRIES + 1]
    );
    assert_eq!(parsed(&args).broken, ["a"]);
    let long = format!(
        "servers = [{{ id = 'a', command = '{}' }}]",
        "x".repeat(limits::MAX_TEXT_BYTES + 1)
    );
    assert_eq!(parsed(&long).broken, ["a"]);
    let file = "#".repeat(usize::try_from(limits::MAX_FILE_BYTES).unwrap() + 1);
    assert!(Config::parse("mgp.toml", &file).is_err());
    assert!(Config::parse("mgp.toml", &"[".repeat(100_000)).is_err());
    assert!(Config::parse("mgp.toml", &format!("a = {}", "[".repeat(100_000))).is_err());
}

#[test]
fn the_page_and_the_schema_have_every_key() {
    let (page, schema) = (config_markdown(), config_schema().to_string());
    for key in KEYS {
        assert!(page.contains(&format!("| `{}` |", key.name)) && page.contains(key.about));
        assert!(schema.contains(&format!("{:?}", key.name)), "{}", key.path());
    }
    assert!(page.contains(&format!("{} agents", limits::MAX_AGENTS)));
    let trust = &config_schema()["properties"]["servers"]["items"]["properties"]["mgp"]["anyOf"][0];
    assert_eq!(trust["properties"]["trust_level"]["default"], "standard");
    assert_eq!(trust["properties"]["max_restarts"]["default"], 5);
}

proptest! {
    #[test]
    fn reading_never_panics(text in "[\\[\\]{}a-z_=\"'\\n.,0-9$ é]{0,200}") {
        let _ = Config::parse("mgp.toml", &text);
    }

    #[test]
    fn odd_values_never_panic(name in "[a-z_]{1,12}", value in "(true|1|-1|1\\.5|'x'|\\[\\]|\\{\\}|\\[1\\]|\\{a=1\\}|1979-05-27)") {
        let keys = KEYS.iter().filter(|key| key.name.len() == name.len());
        for above in ["", "[kernel]\n", "[[servers]]\n", "[[servers]]\n[servers.mgp]\n", "[agents.a]\n"] {
            let _ = Config::parse("mgp.toml", &format!("{above}{name} = {value}\n"));
            for key in keys.clone() {
                let _ = Config::parse("mgp.toml", &format!("{above}{} = {value}\n", key.name));
            }
        }
    }
}

#[test]
fn credentials_without_a_client_are_found_and_never_shown() {
    let of = |more: &str| format!("servers = [{{ id = 'a', url = 'https://a', {more} }}]");
    let machine = "auth = { grant = 'client_credentials', client_id = 'x'";
    for (more, word) in [
        (format!("{machine} }}"), "`servers.auth.grant` has no credentials"),
        ("auth = { client_secret = 'x' }".to_owned(), "has no `client_id`"),
        ("auth = { client_id = 'x', private_key = 'x' }".to_owned(), "does not fit"),
        (format!("{machine}, client_secret = 'x', key_id = 'x' }}"), "has no `private_key`"),
        (
            format!("login = 'agent', {machine}, client_secret = 'x' }}"),
            "`servers.login` conflicts",
        ),
    ] {
        let found = findings(&of(&more));
        assert!(found.iter().any(|line| line.contains(word)), "{more}: {found:#?}");
    }
    let good = parsed(&of(&format!("{machine}, client_secret = 'hunter2-hunter2' }}")));
    let server = &good.config.servers[0];
    assert!(!format!("{server:?}").contains("hunter2"), "{server:?}");
    assert_eq!(crate::clear_secrets(server)[0].place, "auth.client_secret");
    assert!(parsed(&of("login = 'agent'")).config.servers[0].is_per_agent());
}

#[test]
fn a_program_that_may_download_its_server_has_more_time_to_start() {
    let start = |text: &str| parsed(text).config.servers[0].start_timeout().as_secs();
    assert_eq!(start("[[servers]]\nid = 'a'\ncommand = 'python3'"), 30);
    assert_eq!(start("[[servers]]\nid = 'a'\ncommand = '/usr/bin/npx'"), 180);
    assert_eq!(start("[[servers]]\nid = 'a'\ncommand = 'sh'\nargs = ['-c', 'exec uvx b']"), 180);
    assert_eq!(start("[[servers]]\nid = 'a'\ncommand = 'node'\nargs = ['a.js', 'npm']"), 30);
    assert_eq!(start("[[servers]]\nid = 'a'\ncommand = 'npx'\nstart_timeout = '30s'"), 30);
    assert_eq!(start("[[servers]]\nid = 'a'\nurl = 'https://a'"), 30);
}

/// Regression test for a bug: a server's `max_timeout` below `kernel.timeout` had no effect.
#[test]
fn the_maximum_time_of_a_server_limits_the_time_without_progress_of_the_kernel() {
    let limits = |more: &str| {
        let config = parsed(&of_url(more)).config;
        let (timeout, max) = config.kernel.call_timeouts(&config.servers[0].timeouts, "a");
        (timeout.as_secs(), max.as_secs())
    };
    assert_eq!(limits("max_timeout = '4s'"), (4, 4));
    assert_eq!(limits("max_timeout = '20m'"), (60, 1200));
    assert_eq!(limits("max_timeout = '4s'\ntool_timeouts = { a = '9s' }"), (9, 9));
    assert_eq!(limits("timeout = '20m'"), (1200, 1200));
}
