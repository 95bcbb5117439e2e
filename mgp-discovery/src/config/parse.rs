//! Reads the text of `mgp.toml` into a configuration (MGP §15.2).
//!
//! An error in the entry of a server disables that server. An error anywhere else disables the whole file, so that a
//! typo cannot weaken a rule.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_types::mcp::Era;
use mgp_types::mgp::{DefaultPolicy, ExtensionSet, PermissionScope, RestartPolicy, Transport};
use mgp_types::service::ServerId;
use toml_edit::{Document, Item, TableLike};

use super::audit::audit_log;
use super::auth::auth;
use super::bounds::{self, Surface};
use super::finding::Report;
use super::http::http_access;
use super::local_hosts::local_hosts;
use super::references::references;
use super::table_reader::Reader;
use super::tenants::tenants;
use super::{
    AgentConfig, CallTimeouts, Config, ConfigErrors, ConfigFinding, ConfirmLevel, GovernanceConfig,
    Isolation, KernelConfig, OnUngranted, OperatorProof, ProxyConfig, RegistrationAllowList,
    RestartConfig, ServerConfig, TargetConfig, ToolBudgetConfig, ToolCreationConfig, limits,
};
use super::{addresses, confine, notify, remedy, retry, search, telemetry, webhook};
use crate::source::Origin;

/// The content of a file, with the findings of reading it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ParsedConfig {
    /// The configuration, without the servers that are broken.
    pub config: Config,
    /// Warnings, and the errors that disable single servers.
    pub findings: Vec<ConfigFinding>,
    /// The servers disabled by an error, each by its id, or by its position in the file if the id is not known.
    pub broken: Vec<String>,
    /// The ids of servers whose entry has an error, but which `enabled = false` switches off.
    pub(crate) switched_off: Vec<String>,
    /// All ids in the file. Includes the ids of servers that an error disables, so that no server of another file
    /// silently replaces them.
    pub(crate) kept_ids: HashSet<String>,
}

impl Config {
    /// Parses the text of a file; `file` is used in messages, and relative paths are resolved against its folder.
    ///
    /// # Errors
    /// [`ConfigErrors`] if the text is not TOML, or an error concerns the whole file.
    pub fn parse(file: impl Into<PathBuf>, text: &str) -> Result<ParsedConfig, ConfigErrors> {
        let file = file.into();
        let mut report = Report::new(&file, text);
        let parsed = read(&mut report, text);
        let mut findings = report.findings;
        findings.sort_by_key(|finding| (finding.line, finding.column));
        match parsed {
            Some(parsed) if !report.fatal => Ok(ParsedConfig { findings, ..parsed }),
            _ => Err(ConfigErrors::new(findings)),
        }
    }
}

fn read(report: &mut Report<'_>, text: &str) -> Option<ParsedConfig> {
    if text.len() as u64 > limits::MAX_FILE_BYTES {
        let what = format!("the file is longer than {} bytes", limits::MAX_FILE_BYTES);
        report.error(0, what, None);
        return None;
    }
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            let what = error.message().lines().collect::<Vec<_>>().join(", ");
            let remedy = remedy::for_syntax(text, error.message());
            report.error(at, format!("this is not TOML: {what}"), remedy);
            return None;
        }
    };
    let mut parsed = ParsedConfig {
        config: Config::default(),
        findings: Vec::new(),
        broken: Vec::new(),
        switched_off: Vec::new(),
        kept_ids: HashSet::new(),
    };
    let mut top = Reader::new(report, "", document.as_table());
    if let Some(reader) = top.below("kernel", "kernel") {
        parsed.config.kernel = kernel(reader);
    }
    if let Some(mut reader) = top.below("limits", "limits") {
        parsed.config.limits = bounds::call_limits(&mut reader);
    }
    agents(&mut top, &mut parsed.config);
    if let Some(mut reader) = top.below("tool_creation", "tool_creation") {
        parsed.config.tool_creation =
            ToolCreationConfig { enabled: reader.switch("enabled").unwrap_or_default() };
    }
    servers(&mut top, &mut parsed);
    Some(parsed)
}

fn servers(top: &mut Reader<'_, '_, '_>, parsed: &mut ParsedConfig) {
    let Some(item) = top.item("servers") else { return };
    let Some(tables) = tables(item) else {
        let remedy = "write `[[servers]]` above each of them".to_owned();
        top.error("servers", "is not a list of tables", Some(remedy));
        return;
    };
    if tables.len() > limits::MAX_SERVERS {
        let what = format!("has {} entries; {} are possible", tables.len(), limits::MAX_SERVERS);
        top.error("servers", what, None);
        return;
    }
    for (number, table) in tables.into_iter().enumerate() {
        let place = format!("servers[{number}]");
        let id = table.get("id").and_then(Item::as_str).filter(|id| valid_id(id));
        let name = id.map_or(place, str::to_owned);
        top.report.server = Some(name.clone());
        top.report.broken = false;
        let server = server(Reader::new(top.report, "servers", table));
        if let Some(id) = id
            && !parsed.kept_ids.insert(id.to_owned())
        {
            let at = table.get("id").and_then(Item::span).map_or(0, |span| span.start);
            let remedy = "the first one counts; give this one an id of its own".to_owned();
            top.report.error(at, format!("there is a server `{id}` already"), Some(remedy));
            top.report.broken = false;
        } else if let (Some(server), false) = (server, top.report.broken) {
            parsed.config.servers.push(server);
        } else if id.is_some() && table.get("enabled").and_then(Item::as_bool) == Some(false) {
            parsed.switched_off.push(name);
        } else {
            parsed.broken.push(name);
        }
    }
    top.report.server = None;
}

/// Returns the tables of the servers, written as `[[servers]]` or as a list of inline tables; `None` for any other
/// value.
fn tables(item: &Item) -> Option<Vec<&dyn TableLike>> {
    if let Some(tables) = item.as_array_of_tables() {
        return Some(tables.iter().map(|table| table as &dyn TableLike).collect());
    }
    let inline = |value: &'_ toml_edit::Value| value.as_inline_table().is_some();
    let array = item.as_array().filter(|array| array.iter().all(inline))?;
    let tables = array.iter().filter_map(toml_edit::Value::as_inline_table);
    Some(tables.map(|table| table as &dyn TableLike).collect())
}

/// Returns whether a text is valid as the id of a server or the name of an agent.
pub(crate) fn valid_id(id: &str) -> bool {
    let mut bytes = id.bytes();
    id.len() <= limits::MAX_ID_BYTES
        && bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn server(mut reader: Reader<'_, '_, '_>) -> Option<ServerConfig> {
    let id = reader.text("id");
    match &id {
        None if reader.item("id").is_none() => {
            let at = reader.at("command").max(reader.at("url"));
            let remedy = Some("write `id = \"…\"`".to_owned());
            reader.report.error(at, "a server has no `id`", remedy);
        }
        Some(id) if !valid_id(id) => {
            let remedy = "begin with a letter or digit, and use only letters, digits, `.`, `_` and `-`, at most 128";
            reader.error("id", "cannot be the id of a server", Some(remedy.to_owned()));
        }
        _ => {}
    }
    let target = target(&mut reader);
    let era = match reader.text("era").as_deref() {
        Some("modern") => Some(Era::Modern),
        Some("legacy") => Some(Era::Legacy),
        _ => None,
    };
    let enabled = reader.switch("enabled").unwrap_or(true);
    let timeouts = call_timeouts(&mut reader);
    let health_interval = reader.duration("health_interval");
    let limits = reader.below("limits", "servers.limits");
    let limits = limits.map(|mut below| bounds::server_limits(&mut below)).unwrap_or_default();
    let results = reader.below("results", "servers.results");
    let results = results.map(|mut below| bounds::result_limits(&mut below)).unwrap_or_default();
    let pass_env = pass_env(&mut reader);
    let confine = confine::confine(&mut reader);
    let tenants = tenants(&mut reader);
    let manifest = file(&mut reader, "manifest");
    let check_arguments = reader.switch("check_arguments").unwrap_or(true);
    let mgp = match reader.item("mgp") {
        None => Some(GovernanceConfig::default()),
        Some(item) if item.as_bool() == Some(false) => None,
        Some(_) => reader.below("mgp", "servers.mgp").map(server_mgp),
    };
    let file = reader.report.file().to_owned();
    Some(ServerConfig {
        id: ServerId::from(id?),
        target: target?,
        era,
        enabled,
        timeouts,
        health_interval,
        limits,
        results,
        pass_env,
        confine,
        tenants,
        manifest,
        published: reader.text("published"),
        check_arguments,
        mgp,
        file,
        only_public: false,
        origin: Origin::Project,
        approved_files: None,
    })
}

fn call_timeouts(reader: &mut Reader<'_, '_, '_>) -> CallTimeouts {
    let (timeout, max_timeout) = timeout_pair(reader);
    CallTimeouts {
        timeout,
        max_timeout,
        tools: reader.durations("tool_timeouts"),
        start: reader.duration("start_timeout"),
    }
}

/// Reads `timeout` and `max_timeout`; reports an error if `max_timeout` is shorter.
fn timeout_pair(reader: &mut Reader<'_, '_, '_>) -> (Option<Duration>, Option<Duration>) {
    let (timeout, max) = (reader.duration("timeout"), reader.duration("max_timeout"));
    if timeout.zip(max).is_some_and(|(timeout, max)| timeout > max) {
        let remedy = Some("raise `max_timeout`, or lower `timeout`".to_owned());
        reader.error("max_timeout", "is shorter than `timeout`", remedy);
    }
    (timeout, max)
}

/// Reads the names of environment variables in `pass_env`; a name can end with `*`.
fn pass_env(reader: &mut Reader<'_, '_, '_>) -> Vec<String> {
    let names = reader.texts("pass_env");
    let is_name = |name: &str| {
        let name = name.strip_suffix('*').unwrap_or(name);
        !name.is_empty() && !name.contains(['=', '*'])
    };
    if let Some(name) = names.iter().find(|name| !is_name(name)) {
        let what =
            format!("has `{}`, which is not the name of a variable", super::kind::shown(name));
        let remedy = "write names, e.g. \"AWS_PROFILE\", or the beginning of names, e.g. \"AWS_*\"";
        reader.error("pass_env", what, Some(remedy.to_owned()));
    }
    names
}

fn target(reader: &mut Reader<'_, '_, '_>) -> Option<TargetConfig> {
    let (command, url) = (reader.text("command"), reader.url("url"));
    let (args, cwd, env) = (reader.texts("args"), reader.text("cwd"), reader.map("env"));
    let headers = reader.map("headers");
    let auth = auth(reader);
    let transport = reader.text("transport").map(|word| Transport::from(word.as_str()));
    let written = |reader: &Reader<'_, '_, '_>, name| reader.item(name).is_some();
    match (written(reader, "command"), written(reader, "url")) {
        (true, true) => {
            let remedy = "a server is either started or reached: leave one out".to_owned();
            reader.error("url", "conflicts with `command`", Some(remedy));
            None
        }
        (false, false) => {
            let remedy = Some("write `command = \"…\"`, or `url = \"…\"`".to_owned());
            let at = reader.at("id");
            reader.report.error(at, "a server has neither `command` nor `url`", remedy);
            None
        }
        (true, false) => {
            if let Some(Transport::Http | Transport::Sse) = transport {
                let remedy = "write `url` instead of `command`, or leave it out".to_owned();
                reader.error("transport", "is not valid with `command`", Some(remedy));
            }
            idle(reader, &["headers", "login", "auth"], "url");
            let command = command?;
            check_program(reader, &command, &args, &env);
            Some(TargetConfig::Program { command, args, cwd, env })
        }
        (false, true) => {
            check_url_keys(reader, transport.as_ref(), &headers);
            let url = url?;
            if addresses::has_user(&url) {
                let what = "has a user name, which cannot be sent in a URL";
                reader.error("url", what, Some(addresses::USER_REMEDY.to_owned()));
            }
            let transport = transport.unwrap_or(Transport::Http);
            Some(TargetConfig::Url { url, headers, transport, auth: Box::new(auth) })
        }
    }
}

/// Reports values that prevent the start of a program, and values that only a shell would expand.
fn check_program(
    reader: &mut Reader<'_, '_, '_>,
    command: &str,
    args: &[String],
    env: &BTreeMap<String, String>,
) {
    if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains('=')) {
        let what = format!("has the impossible name `{}`", super::kind::shown(name));
        reader.error("env", what, None);
    }
    if command.trim().is_empty() {
        reader.error("command", "is empty", None);
    }
    if command.chars().any(char::is_control) {
        reader.error("command", "has a control character", Some(remedy::ESCAPE.to_owned()));
    }
    if args.iter().any(|arg| arg.starts_with("~/")) {
        let (at, remedy) = (reader.at("args"), "write `${HOME}/` instead".to_owned());
        let what = "`servers.args` has a `~/`, which is not expanded there";
        reader.report.warning(at, what, Some(remedy));
    }
}

/// Reports keys that are not allowed or have no effect together with `url`, and headers that cannot be sent.
fn check_url_keys(
    reader: &mut Reader<'_, '_, '_>,
    transport: Option<&Transport>,
    headers: &BTreeMap<String, String>,
) {
    if let Some(Transport::Stdio) = transport {
        let remedy = "write `command` instead of `url`, or leave it out".to_owned();
        reader.error("transport", "is not valid with `url`", Some(remedy));
    }
    idle(reader, &["args", "cwd", "env", "pass_env", "confine"], "command");
    reader.check_headers(headers);
}

/// Warns about each of the keys `names` that the server has: they have no effect without the key `of`.
fn idle(reader: &mut Reader<'_, '_, '_>, names: &[&str], of: &str) {
    for name in names.iter().filter(|name| reader.item(name).is_some()).collect::<Vec<_>>() {
        let at = reader.at(name);
        reader.report.warning(at, format!("`{name}` does nothing without `{of}`"), None);
    }
}

fn server_mgp(mut reader: Reader<'_, '_, '_>) -> GovernanceConfig {
    let default = GovernanceConfig::default();
    GovernanceConfig {
        extensions: reader.texts("extensions"),
        permissions_required: reader.words("permissions_required"),
        trust_level: reader
            .text("trust_level")
            .map_or(default.trust_level, |word| word.as_str().into()),
        default_policy: match reader.text("default_policy").as_deref() {
            Some("opt-out") => DefaultPolicy::OptOut,
            _ => default.default_policy,
        },
        permission_policy: reader.text("permission_policy").map(|word| word.as_str().into()),
        permissions: reader.words("permissions"),
        permission_limits: permission_limits(&mut reader),
        permission_timeout: reader
            .number("permission_timeout_ms")
            .map_or(default.permission_timeout, Duration::from_millis),
        on_ungranted: match reader.text("on_ungranted").as_deref() {
            Some("close") => OnUngranted::Close,
            _ => default.on_ungranted,
        },
        restart: restart(&mut reader),
        retry: reader.below("retry", "servers.mgp.retry").map(|mut below| retry::retry(&mut below)),
        validators: reader.word_map("validators"),
        local_hosts: local_hosts(&mut reader),
        risk: reader.word_map("risk"),
        confirm: match reader.text("confirm").as_deref() {
            Some("moderate") => ConfirmLevel::Moderate,
            _ => default.confirm,
        },
        isolation: match reader.text("isolation").as_deref() {
            Some("per_agent") => Isolation::PerAgent,
            _ => default.isolation,
        },
        roots: reader.switch("roots").unwrap_or_default(),
        traceparent: reader.switch("traceparent").unwrap_or_default(),
        tags: reader.texts("tags"),
    }
}

fn permission_limits(reader: &mut Reader<'_, '_, '_>) -> PermissionScope {
    let mut scope = PermissionScope::default();
    let path = "servers.mgp.permission_limits";
    let Some(mut below) = reader.below("permission_limits", path) else { return scope };
    // An empty list is treated as absent, because a list without entries would permit nothing.
    let mut texts = |name| Some(below.texts(name)).filter(|texts| !texts.is_empty());
    let lists = [
        (&mut scope.paths, "paths"),
        (&mut scope.deny_paths, "deny_paths"),
        (&mut scope.hosts, "hosts"),
        (&mut scope.deny_hosts, "deny_hosts"),
        (&mut scope.commands, "commands"),
        (&mut scope.deny_commands, "deny_commands"),
    ];
    for (list, name) in lists {
        if let Some(texts) = texts(name) {
            *list = texts.into();
        }
    }
    let Some(ports) = texts("ports") else { return scope };
    if let Ok(ports) = ports.iter().map(|port| port.parse()).collect::<Result<Vec<u16>, _>>() {
        scope.ports = ports.into();
    } else {
        let remedy = Some("write numbers from 0 to 65535, e.g. [\"443\"]".to_owned());
        below.error("ports", "has a port that is not a number", remedy);
    }
    scope
}

fn restart(reader: &mut Reader<'_, '_, '_>) -> RestartConfig {
    let default = RestartConfig::default();
    let base = reader.number("backoff_base_ms").map(Duration::from_millis);
    let most = reader.number("backoff_max_ms").map(Duration::from_millis);
    if base.zip(most).is_some_and(|(base, most)| base > most) {
        let remedy = Some("make `backoff_max_ms` the longer one".to_owned());
        reader.error("backoff_base_ms", "is longer than `backoff_max_ms`", remedy);
    }
    RestartConfig {
        policy: reader
            .text("restart_policy")
            .map_or(default.policy, |word| RestartPolicy::from(word.as_str())),
        max: reader.small_number("max_restarts").unwrap_or(default.max),
        window: reader.number("restart_window_secs").map_or(default.window, Duration::from_secs),
        // If only one of the two delays is set, the default of the other delay is adjusted, so that the base is not
        // above the maximum.
        backoff_base: base.unwrap_or(default.backoff_base.min(most.unwrap_or(Duration::MAX))),
        backoff_max: most.unwrap_or(default.backoff_max.max(base.unwrap_or_default())),
    }
}

/// Reads `kernel.proxy`. The error does not repeat the URL, which can contain a password.
fn proxy(kernel: &mut Reader<'_, '_, '_>) -> ProxyConfig {
    match kernel.text("proxy").as_deref() {
        None | Some("env") => ProxyConfig::Env,
        Some("none") => ProxyConfig::None,
        Some(url) => {
            if !addresses::is_proxy(url) {
                let remedy = "write `http://HOST:PORT`, `env` or `none`".to_owned();
                kernel.error("proxy", "is not an http:// URL", Some(remedy));
            }
            ProxyConfig::At(url.to_owned())
        }
    }
}

fn kernel(mut reader: Reader<'_, '_, '_>) -> KernelConfig {
    let mut kernel = KernelConfig::default();
    let (timeout, max_timeout) = timeout_pair(&mut reader);
    kernel.timeout = timeout.unwrap_or(kernel.timeout.min(max_timeout.unwrap_or(Duration::MAX)));
    kernel.max_timeout = max_timeout.unwrap_or(kernel.max_timeout.max(kernel.timeout));
    kernel.proxy = proxy(&mut reader);
    kernel.no_proxy = addresses::no_proxy(&mut reader);
    kernel.form_timeout = reader.duration("form_timeout").unwrap_or(kernel.form_timeout);
    let approval_timeout = reader.duration("approval_timeout");
    kernel.approval_timeout = approval_timeout.unwrap_or(kernel.approval_timeout);
    kernel.pass_env = pass_env(&mut reader);
    if let Some(word) = reader.text("permission_policy") {
        kernel.permission_policy = word.as_str().into();
    }
    if reader.item("auto_approve_except").is_some() {
        kernel.auto_approve_except = reader.words("auto_approve_except");
    }
    if reader.item("extensions").is_some() {
        kernel.extensions = ExtensionSet::from_names(reader.texts("extensions"));
    }
    kernel.tools_request = reader.switch("tools_request").unwrap_or_default();
    kernel.surface = Surface::read(&mut reader).unwrap_or_default();
    kernel.direct_tokens = reader.number("direct_tokens").unwrap_or(kernel.direct_tokens);
    kernel.portable_names = reader.switch("portable_names").unwrap_or_default();
    if let Some(mut below) = reader.below("results", "kernel.results") {
        kernel.results = bounds::results(&mut below);
    }
    if let Some(mut below) = reader.below("references", "kernel.references") {
        kernel.references = references(&mut below);
    }
    if let Some(mut below) = reader.below("tool_context_budget", "kernel.tool_context_budget") {
        let default = ToolBudgetConfig::default();
        let mut number = |name, default| below.number(name).unwrap_or(default);
        kernel.tool_context_budget = ToolBudgetConfig {
            max_tokens: number("max_tokens", default.max_tokens),
            pinned_reserve: number("pinned_reserve", default.pinned_reserve),
            discovery_reserve: number("discovery_reserve", default.discovery_reserve),
            cache_limit: number("cache_limit", default.cache_limit),
        };
    }
    kernel.metrics = address(&mut reader, "metrics");
    if let Some(mut below) = reader.below("audit", "kernel.audit") {
        kernel.audit = audit_log(&mut below);
    }
    kernel.webhooks = webhook::webhooks(&mut reader);
    kernel.notify = notify::places(&mut reader);
    kernel.console_url = notify::console_url(&mut reader);
    if let Some(mut below) = reader.below("http", "kernel.http") {
        kernel.http = http_access(&mut below);
    }
    more_kernel_tables(&mut reader, &mut kernel);
    kernel
}

/// Reads the tables of the kernel about operators, registration, search and telemetry.
fn more_kernel_tables(reader: &mut Reader<'_, '_, '_>, kernel: &mut KernelConfig) {
    if let Some(mut below) = reader.below("operator", "kernel.operator") {
        kernel.operator_proof = match below.text("proof").as_deref() {
            Some("terminal") => OperatorProof::Terminal,
            Some("passphrase") => OperatorProof::Passphrase,
            _ => OperatorProof::None,
        };
    }
    if let Some(mut below) = reader.below("registry", "kernel.registry") {
        kernel.registry = file(&mut below, "file");
        if let Some(url) = addresses::base_url(&mut below, "url") {
            kernel.registry_url = url;
        }
    }
    if let Some(mut below) = reader.below("registration", "kernel.registration") {
        kernel.registration =
            RegistrationAllowList { programs: below.texts("programs"), env: below.texts("env") };
    }
    if let Some(mut below) = reader.below("search", "kernel.search") {
        kernel.search = search::search(&mut below);
    }
    if let Some(mut below) = reader.below("telemetry", "kernel.telemetry") {
        kernel.telemetry = telemetry::telemetry(&mut below);
    }
}

/// Reads the path of a file, relative to the folder of the configuration.
fn file(reader: &mut Reader<'_, '_, '_>, name: &str) -> Option<PathBuf> {
    let text = reader.text(name)?;
    let folder = reader.report.file().parent().unwrap_or(Path::new(""));
    Some(super::path_in(folder, &text))
}

/// Reads the address of a socket that accepts connections.
fn address(reader: &mut Reader<'_, '_, '_>, name: &str) -> Option<String> {
    let address = reader.text(name)?;
    if address.parse::<std::net::SocketAddr>().is_err() {
        let remedy = "write an IP address and a port, e.g. \"127.0.0.1:9464\"".to_owned();
        reader.error(name, "is not an address", Some(remedy));
    }
    Some(address)
}

fn agents(top: &mut Reader<'_, '_, '_>, config: &mut Config) {
    let Some(item) = top.item("agents") else { return };
    let Some(table) = item.as_table_like() else {
        let remedy = "write `[agents.NAME]` above each of them".to_owned();
        top.error("agents", "is not a table of tables", Some(remedy));
        return;
    };
    if table.len() > limits::MAX_AGENTS {
        let what = format!("has {} entries; {} are possible", table.len(), limits::MAX_AGENTS);
        top.error("agents", what, None);
        return;
    }
    for (name, item) in table.iter() {
        let at = item.span().map_or_else(|| top.at("agents"), |span| span.start);
        let Some(agent) = item.as_table_like().filter(|_| valid_id(name)) else {
            let what =
                format!("`agents` has `{}`, which is not an agent", super::kind::shown(name));
            let remedy = "write `[agents.NAME]`; the name begins with a letter or digit, and has only letters, digits, `.`, `_` and `-`";
            top.report.error(at, what, Some(remedy.to_owned()));
            continue;
        };
        let mut reader = Reader::of_entry(top.report, "agents.*", name, agent);
        let agent = AgentConfig {
            pinned: reader.texts("pinned"),
            groups: reader.texts("groups"),
            budget: reader.number("budget"),
            surface: Surface::read(&mut reader),
            portable_names: reader.switch("portable_names"),
            limits: reader
                .below("limits", "agents.*.limits")
                .map(|mut below| bounds::call_limits(&mut below))
                .unwrap_or_default(),
            results: reader
                .below("results", "agents.*.results")
                .map(|mut below| bounds::result_limits(&mut below))
                .unwrap_or_default(),
            scopes: reader.item("scopes").is_some().then(|| reader.texts("scopes")),
            interactive: reader.switch("interactive").unwrap_or_default(),
        };
        config.agents.insert(name.to_owned(), agent);
    }
}
