//! Protection against web pages that call a local server: checks of `Host` and `Origin` (MCP transports, security).

use http::Uri;
use mgp_types::service::is_loopback_host;

use super::config::HttpConfig;
use super::headers::RequestHeaders;
use super::refusal::{Refusal, clip_text};

/// Checks the headers `Host` and `Origin` of a request; fails if the configuration does not allow one of them.
pub(super) fn check(
    uri: &Uri,
    headers: &RequestHeaders<'_>,
    config: &HttpConfig,
) -> Result<(), Refusal> {
    let host =
        headers.host.unwrap_or_else(|| uri.authority().map_or("", |authority| authority.as_str()));
    if !is_known_host(host, config) {
        return Err(Refusal::Host(clip_text(host)));
    }
    match headers.origin {
        Some(origin) if !is_known_origin(origin, config) => Err(Refusal::Origin(clip_text(origin))),
        _ => Ok(()),
    }
}

fn is_known_host(host: &str, config: &HttpConfig) -> bool {
    let Some(name) = without_port(host) else { return false };
    is_loopback_host(name) || config.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns whether web pages of this origin are allowed to call the server.
pub(super) fn is_known_origin(origin: &str, config: &HttpConfig) -> bool {
    if config.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
        return true;
    }
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.and_then(without_port).is_some_and(is_loopback_host)
}

/// Returns the host of `host[:port]`, brackets included; `None` if the text has another form.
fn without_port(authority: &str) -> Option<&str> {
    let end = if authority.starts_with('[') {
        authority.find(']')? + 1
    } else {
        authority.bytes().position(|byte| byte == b':').unwrap_or(authority.len())
    };
    let (name, port) = authority.split_at(end);
    let is_port = |port: &str| {
        port.strip_prefix(':').is_some_and(|digits| {
            (1..=5).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit())
        })
    };
    (!name.is_empty() && (port.is_empty() || is_port(port))).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_host(host: &str, known: bool) {
        let config = HttpConfig { hosts: vec!["mcp.example".to_owned()], ..HttpConfig::default() };
        assert_eq!(is_known_host(host, &config), known, "{host}");
    }

    #[test]
    fn hosts_are_loopback_or_listed() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:8000",
            "127.8.9.1",
            "[::1]:1",
            "MCP.example:443",
        ] {
            check_host(host, true);
        }
        for host in [
            "",
            ":80",
            "evil.example",
            "localhost.evil.example",
            "evil-localhost",
            "127.0.0.1@evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1:80:80",
            "localhost:",
            "localhost:x",
            "169.254.169.254",
            "localtest.me",
            "[::2]",
            "[::1",
            "[::1]x",
            "0.0.0.0",
            "2130706433",
            "127.1",
            "a.mcp.example",
            "localhost ",
        ] {
            check_host(host, false);
        }
    }

    #[track_caller]
    fn check_origin(origin: &str, known: bool) {
        let config =
            HttpConfig { origins: vec!["https://app.example".to_owned()], ..HttpConfig::default() };
        assert_eq!(is_known_origin(origin, &config), known, "{origin}");
    }

    #[test]
    fn origins_are_loopback_or_listed() {
        for origin in [
            "http://localhost",
            "https://localhost:3000",
            "http://127.0.0.1:1",
            "http://[::1]:5",
            "https://app.example",
        ] {
            check_origin(origin, true);
        }
        for origin in [
            "",
            "null",
            "localhost",
            "file://",
            "http://localhost/",
            "http://localhost/evil",
            "http://evil-localhost",
            "http://localhost.evil.example",
            "http://user@localhost",
            "https://app.example.evil",
            "https://app.example:444",
            "http://app.example",
            "ftp://localhost",
            "http://",
            "http://localhost:99999999",
            "http://127.0.0.1\u{fffd}",
        ] {
            check_origin(origin, false);
        }
    }
}
