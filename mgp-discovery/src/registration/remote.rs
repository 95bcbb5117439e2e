//! Servers of a registry that are at a URL: the URL that they may have, and the headers of their requests (MGP §15.4).

use std::collections::BTreeMap;

use mgp_types::service::is_loopback_host;
use serde::{Deserialize, Serialize};

use super::origin::RegistryOrigin;
use crate::config::Address;
use crate::expand::{Expanded, Piece, Template, looks_secret};

/// Headers of the connection, which a registry entry must not set.
const CONNECTION_HEADERS: &[&str] =
    &["connection", "content-length", "host", "te", "trailer", "transfer-encoding", "upgrade"];

/// The registry entry that a request names, with the server at a URL that it describes; `None` for a program.
#[derive(Clone)]
pub(super) struct RegistryTarget {
    pub(super) origin: RegistryOrigin,
    pub(super) remote: Option<Remote>,
}

/// A server at a URL, as it is stored and approved.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Remote {
    pub(super) url: String,
    /// The headers of each request. A value is a template, in which `${keyring:…}` names a secret of this server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
}

impl Remote {
    /// Creates the server at a URL with headers, whose values are templates. Returns an error, as the rest of a
    /// sentence about the server, if it cannot be registered.
    pub(super) fn new(
        id: &str,
        registry: &str,
        url: String,
        templates: &BTreeMap<String, String>,
    ) -> Result<Self, &'static str> {
        check_url(&url, registry)?;
        let mut headers = BTreeMap::new();
        for (name, text) in templates {
            let template = Template::parse(text).map_err(|_| "has a header that is not valid")?;
            let is_optional = |piece: &Piece| matches!(piece, Piece::Variable { .. });
            // Omit a header with an optional value that the caller did not give.
            if template.pieces().iter().any(is_optional) {
                continue;
            }
            if !is_header(name) || !template.pieces().iter().all(|piece| is_own(id, piece)) {
                return Err("has a header that is not valid");
            }
            headers.insert(name.clone(), text.clone());
        }
        Ok(Self { url, headers })
    }

    /// Returns the names of the user's secrets in the headers, by the variable of the registry entry.
    pub(super) fn secrets(&self, id: &str) -> BTreeMap<String, String> {
        let templates = self.headers.values().filter_map(|text| Template::parse(text).ok());
        let mut secrets = BTreeMap::new();
        for template in templates {
            for piece in template.pieces() {
                if let Piece::Secret(name) = piece
                    && let Some(variable) = variable_of(id, name)
                {
                    secrets.insert(variable.to_owned(), name.clone());
                }
            }
        }
        secrets
    }

    /// Returns the size of all names and values of the headers, in bytes.
    pub(super) fn header_bytes(&self) -> usize {
        self.headers.iter().map(|(name, text)| name.len() + text.len()).sum()
    }

    pub(super) fn headers(&self) -> &BTreeMap<String, String> {
        &self.headers
    }

    /// Returns the headers for a reviewer, as `NAME: value`. A secret of the user is shown by its name, and `…`
    /// replaces any other value that looks like a secret.
    pub(super) fn shown_headers(&self) -> Vec<String> {
        let shown = self.headers.iter().map(|(name, text)| match literal(text) {
            Some(value) if looks_secret(name, &value).is_some() => format!("{name}: …"),
            Some(value) => format!("{name}: {value}"),
            None => format!("{name}: {text}"),
        });
        shown.collect()
    }

    /// Returns whether a login at the server is possible: it is not if a header already authorizes the requests.
    pub(super) fn may_need_login(&self) -> bool {
        !self.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
    }

    /// Returns the headers with the values of the user's secrets, which `secrets` has by variable; the error names what
    /// is missing.
    pub(super) fn expanded_headers(
        &self,
        id: &str,
        secrets: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, Expanded>, String> {
        let mut headers = BTreeMap::new();
        for (name, text) in &self.headers {
            let template = Template::parse(text).map_err(|error| error.to_string())?;
            let is_literal = template.is_literal();
            let mut value = Expanded::new();
            for piece in template.pieces() {
                let secret = match piece {
                    Piece::Secret(name) => variable_of(id, name).and_then(|name| secrets.get(name)),
                    _ => None,
                };
                match (piece, secret) {
                    // Hide the whole value, because an agent may have given a secret.
                    (Piece::Text(text), _) if is_literal => value.push_secret(text),
                    (Piece::Text(text), _) => value.push(text),
                    (_, Some(secret)) => value.push_secret(secret),
                    _ => return Err(format!("its header `{name}` has a value that is missing")),
                }
            }
            headers.insert(name.clone(), value);
        }
        Ok(headers)
    }

    /// Returns whether the server is at the host of its registry. The user chose this host, so it may be in a private
    /// network, and reached over plain `http`.
    pub(super) fn is_beside(&self, registry: &str) -> bool {
        is_beside(&self.url, registry)
    }
}

/// Returns whether only the path and the query of a URL depend on values.
pub(super) fn has_fixed_host(template: &Template) -> bool {
    match template.pieces() {
        [] | [Piece::Text(_)] => true,
        [Piece::Text(fixed), ..] => {
            fixed.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '?', '#']))
        }
        _ => false,
    }
}

/// Returns an error, as the rest of a sentence about the server, if the kernel may not connect to a URL that a registry
/// names: it must be `https` and have the name of a public host. The addresses of the name are checked when the kernel
/// connects.
fn check_url(url: &str, registry: &str) -> Result<(), &'static str> {
    let Some(address) = Address::parse(url, &["https", "http"]) else {
        return Err("has a URL that is not valid");
    };
    if address.has_user {
        return Err("has a user name in its URL");
    }
    // The part after a `#` would be shown, but not sent.
    if url.contains('#') {
        return Err("has a fragment in its URL");
    }
    if is_beside(url, registry) {
        return Ok(());
    }
    if address.scheme != "https" {
        return Err("has a URL that is not https");
    }
    let host = address.host.trim_end_matches('.');
    // Some resolvers and proxies also read `127.1` or `0x7f.0.0.1` as an IPv4 address. The last part of a public name
    // never begins with a digit.
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_address = host.starts_with('[') || last.starts_with(|c: char| c.is_ascii_digit());
    if is_address || !host.contains('.') || is_loopback_host(host) {
        return Err("has a URL that does not name a public host");
    }
    Ok(())
}

/// Returns whether a URL has the host of a registry; for a registry over `https`, it must be `https` too.
fn is_beside(url: &str, registry: &str) -> bool {
    let parse = |url| Address::parse(url, &["https", "http"]);
    let (Some(url), Some(registry)) = (parse(url), parse(registry)) else { return false };
    url.host.eq_ignore_ascii_case(registry.host)
        && (url.scheme == "https" || registry.scheme == "http")
}

/// Returns whether a text is the name of a header that a registry entry may set.
fn is_header(name: &str) -> bool {
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let lower = name.to_ascii_lowercase();
    !name.is_empty() && is_name && !CONNECTION_HEADERS.contains(&lower.as_str())
}

/// Returns whether a part of a header's value is text on one line, or a secret of this server.
fn is_own(id: &str, piece: &Piece) -> bool {
    match piece {
        Piece::Text(text) => !text.contains(char::is_control),
        Piece::Secret(name) => variable_of(id, name).is_some(),
        _ => false,
    }
}

/// Returns the variable of the registry entry that a secret of this server belongs to.
fn variable_of<'a>(id: &str, secret: &'a str) -> Option<&'a str> {
    secret.strip_prefix(id)?.strip_prefix('.')
}

/// Returns the text of a template; `None` if it has variables.
pub(super) fn literal(text: &str) -> Option<String> {
    let template = Template::parse(text).ok()?;
    template.is_literal().then(|| text.replace("$$", "$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://far.example/mcp";

    fn remote(headers: &[(&str, &str)]) -> Result<Remote, &'static str> {
        let pairs = headers.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Remote::new("far", "servers.json", URL.to_owned(), &pairs.collect())
    }

    #[test]
    fn only_public_hosts_over_https_and_the_host_of_the_registry_are_connected_to() {
        let (public, private) = ("https://registry.example", "http://10.0.0.7:8080");
        for (registry, url) in [
            (public, "https://far.example/mcp"),
            (public, "https://far.example:8443/mcp?x=1"),
            (public, "https://Registry.example/mcp"),
            (private, "https://far.example/mcp"),
            (private, "https://10.0.0.7/mcp"),
            (private, "http://10.0.0.7/mcp"),
        ] {
            assert_eq!(check_url(url, registry), Ok(()), "{url}");
        }
        for (registry, url) in [
            (public, "http://far.example/mcp"),
            (public, "http://registry.example/mcp"),
            (public, "https://10.0.0.1/mcp"),
            (public, "https://10.0.0.1./mcp"),
            (public, "https://127.1/mcp"),
            (public, "https://0x7f.0.0.0x1/mcp"),
            (public, "https://[::1]/mcp"),
            (public, "https://localhost/mcp"),
            (public, "https://x.localhost/mcp"),
            (public, "https://intranet/mcp"),
            (public, "https://intranet./mcp"),
            (public, "https://a@far.example/mcp"),
            (public, "https://far.example\\@inside.example/mcp"),
            (public, "https://far.example/admin#/mcp"),
            (public, "ftp://far.example/mcp"),
            (private, "http://10.0.0.8/mcp"),
            ("servers.json", "http://servers.json/mcp"),
        ] {
            assert!(check_url(url, registry).is_err(), "{url}");
        }
    }

    #[test]
    fn only_values_after_the_host_leave_it_fixed() {
        let is_fixed = |text: &str| has_fixed_host(&Template::parse(text).unwrap());
        for url in [URL, "https://far.example/${A}/mcp", "https://far.example?a=${A:-b}"] {
            assert!(is_fixed(url), "{url}");
        }
        for url in [
            "${URL}",
            "${SCHEME}://far.example/mcp",
            "https://${TENANT:-a}.far.example/mcp",
            "https://far.example${PATH}",
            "https://far.example:${PORT}/mcp",
        ] {
            assert!(!is_fixed(url), "{url}");
        }
    }

    #[test]
    fn a_header_gets_only_secrets_of_its_server() {
        let authorization = ("Authorization", "Bearer ${keyring:far.TOKEN}");
        let remote = remote(&[authorization, ("X-Note", "${X_NOTE:-}")]).unwrap();
        let pair = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert_eq!(remote.secrets("far"), pair("TOKEN", "far.TOKEN"));
        assert_eq!(remote.shown_headers(), ["Authorization: Bearer ${keyring:far.TOKEN}"]);
        assert!(!remote.may_need_login());
        let headers = remote.expanded_headers("far", &pair("TOKEN", "geheim")).unwrap();
        let value = &headers["Authorization"];
        assert_eq!(value.as_str(), "Bearer geheim");
        assert!(value.secrets().eq(["geheim"]));
        assert!(remote.expanded_headers("far", &BTreeMap::new()).is_err());
        let stored = serde_json::to_string(&remote).unwrap();
        assert!(serde_json::from_str::<Remote>(&stored).unwrap() == remote);

        for wrong in [
            ("X-Key", "${keyring:other.TOKEN}"),
            ("X-Key", "${keyring:farther.TOKEN}"),
            ("X-Key", "a\r\nHost: inside.example"),
            ("X Key", "a"),
            ("Host", "inside.example"),
            ("Transfer-Encoding", "chunked"),
        ] {
            assert!(self::remote(&[wrong]).is_err(), "{wrong:?}");
        }
    }
}
