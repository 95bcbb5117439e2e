//! Compares this shell's environment with the variables that servers inherit.

use mgp_discovery::{Config, ServerConfig, TargetConfig};

use super::report::{Check, Level};

/// Variables that programs often need, and that servers inherit only if the configuration passes them on.
const NAMES: &[&str] = &[
    "AWS_CONFIG_FILE",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AZURE_CONFIG_DIR",
    "CARGO_HOME",
    "CLOUDSDK_CONFIG",
    "DISPLAY",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOPATH",
    "JAVA_HOME",
    "KUBECONFIG",
    "NPM_CONFIG_REGISTRY",
    "NVM_DIR",
    "PIP_INDEX_URL",
    "PLAYWRIGHT_BROWSERS_PATH",
    "PYENV_ROOT",
    "SSH_AUTH_SOCK",
    "UV_INDEX_URL",
    "VIRTUAL_ENV",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "npm_config_cafile",
    "npm_config_registry",
];

/// Reports variables of this shell that are not passed to any server.
pub(super) fn check(config: &Config) -> Option<Check> {
    let mut missing = set();
    let programs = config.servers.iter().filter(|server| env_of(server).is_some());
    let left: Vec<Vec<&str>> = programs.map(|server| missing_in(config, server)).collect();
    missing.retain(|name| !left.is_empty() && left.iter().all(|left| left.contains(name)));
    let what = format!("your shell has {}, servers do not", missing.join(", "));
    let check = Check::new("environment", Level::Ok, what);
    (!missing.is_empty())
        .then(|| check.with_fix(fix(&missing, "the entry of a server that needs it")))
}

/// Reports variables that are set in this shell but are not passed to one server.
pub(super) fn check_server(config: &Config, server: &ServerConfig) -> Option<Check> {
    let missing = missing_in(config, server);
    if missing.is_empty() {
        return None;
    }
    let what = format!("your shell has {}, the server does not", missing.join(", "));
    let check = Check::new("server", Level::Warn, what).for_server(server.id.as_str());
    Some(check.with_fix(fix(&missing, "its entry, if it needs it")))
}

fn fix(missing: &[&str], place: &str) -> String {
    let names: Vec<String> = missing.iter().map(|name| format!("\"{name}\"")).collect();
    format!("write `pass_env = [{}]` in {place}", names.join(", "))
}

fn set() -> Vec<&'static str> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    NAMES.iter().copied().filter(is_set).collect()
}

fn env_of(server: &ServerConfig) -> Option<&std::collections::BTreeMap<String, String>> {
    match &server.target {
        TargetConfig::Program { env, .. } => Some(env),
        _ => None,
    }
}

/// Returns the variables of `NAMES` that a server neither inherits nor gets from its `env`.
fn missing_in(config: &Config, server: &ServerConfig) -> Vec<&'static str> {
    let Some(env) = env_of(server) else { return Vec::new() };
    let passed = || config.kernel.pass_env.iter().chain(&server.pass_env);
    let is_passed = |name: &str| {
        passed().any(|wanted| match wanted.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => wanted == name,
        })
    };
    set().into_iter().filter(|name| !env.contains_key(*name) && !is_passed(name)).collect()
}
