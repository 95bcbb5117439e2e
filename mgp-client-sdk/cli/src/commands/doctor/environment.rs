//! Checks this shell's environment: which of its variables servers do not get, and whether its proxies answer.

use std::time::Duration;

use http::Uri;
use mgp_discovery::{Config, ServerConfig, TargetConfig};
use mgp_transport::SkippedFolder;
use tokio::net::TcpStream;
use tokio::time::timeout;

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
    "NODE_OPTIONS",
    "NPM_CONFIG_CACHE",
    "NPM_CONFIG_REGISTRY",
    "NVM_DIR",
    "PIP_INDEX_URL",
    "PLAYWRIGHT_BROWSERS_PATH",
    "SSH_AUTH_SOCK",
    "UV_CACHE_DIR",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_NATIVE_TLS",
    "VIRTUAL_ENV",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "npm_config_cache",
    "npm_config_cafile",
    "npm_config_registry",
];

/// The variables that name the proxies of this shell. Servers and the kernel use the same proxies.
const PROXIES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

const PROXY_TIMEOUT: Duration = Duration::from_secs(3);

/// Reports the folders of this user that usually contain programs, but in which mgp does not search because other users
/// could change them.
pub(super) fn check_folders() -> impl Iterator<Item = Check> {
    SkippedFolder::all().into_iter().map(|skipped| {
        Check::new("environment", Level::Warn, skipped.to_string()).with_fix(skipped.remedy())
    })
}

/// Reports the first proxy of this shell that accepts no connection.
pub(super) async fn check_proxies() -> Option<Check> {
    let set = PROXIES.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?)));
    let mut tried = Vec::new();
    for (name, value) in set.filter(|(_, value)| !value.is_empty()) {
        if tried.contains(&value) {
            continue;
        }
        let fault = match address(&value) {
            None => "is not the URL of a proxy".to_owned(),
            Some((host, port)) => {
                match timeout(PROXY_TIMEOUT, TcpStream::connect((&*host, port))).await {
                    Ok(Ok(_)) => {
                        tried.push(value);
                        continue;
                    }
                    Ok(Err(error)) => {
                        format!("names {host}:{port}, which does not answer: {error}")
                    }
                    Err(_) => format!("names {host}:{port}, which does not answer"),
                }
            }
        };
        let check = Check::new("environment", Level::Fail, format!("{name} {fault}"));
        let fix = format!(
            "correct or unset {name}: servers at a URL, and programs that download, such as npx and uvx, use this proxy"
        );
        return Some(check.with_fix(fix));
    }
    None
}

/// Returns the host and port of the URL of a proxy. The rest of the URL is left out, because it can contain a password.
fn address(url: &str) -> Option<(String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let host = uri.host()?.trim_matches(['[', ']']).to_owned();
    let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    Some((host, uri.port_u16().unwrap_or(default)))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_proxy_has_no_credentials() {
        for (url, expected) in [
            ("http://ann:secret@proxy.example:3128/", Some(("proxy.example", 3128))),
            ("proxy.example:3128", Some(("proxy.example", 3128))),
            ("https://proxy.example", Some(("proxy.example", 443))),
            ("http://[::1]:8080", Some(("::1", 8080))),
            ("/proxy", None),
        ] {
            let expected = expected.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(address(url), expected, "{url}");
        }
    }
}
