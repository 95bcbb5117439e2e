//! Finds secrets that a configuration contains in clear text (MGP §15.2).

use std::collections::BTreeMap;
use std::fmt;

use mgp_types::service::{ServerId, shown_url};

use super::Template;
use crate::config::{ServerConfig, TargetConfig};
use crate::source::Origin;

/// The location of a secret that a configuration contains in clear text; does not contain the secret itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClearSecret {
    /// The server whose entry contains the secret.
    pub server: ServerId,
    /// The key that contains the secret, e.g. `env.GITHUB_TOKEN`.
    pub place: String,
    /// The reason why the value is considered a secret.
    pub reason: &'static str,
    /// The remedy, as a sentence.
    pub remedy: String,
}

impl fmt::Display for ClearSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, place, reason: why, remedy } = self;
        write!(f, "`{place}` of `{server}` looks like a secret in clear text ({why}); {remedy}")
    }
}

/// Returns the secrets that a server's entry contains in clear text.
///
/// ```
/// use mgp_discovery::{Config, clear_secrets};
///
/// let text = "servers = [{ id = 'git', command = 'mcp-git', env = { GIT_TOKEN = 'hunter2-hunter2' } }]";
/// let config = Config::parse("mgp.toml", text).unwrap().config;
/// assert_eq!(clear_secrets(&config.servers[0])[0].place, "env.GIT_TOKEN");
/// ```
#[must_use]
pub fn clear_secrets(server: &ServerConfig) -> Vec<ClearSecret> {
    let mut found = Vec::new();
    let mut look = |place: String, name: &str, value: &str| {
        let in_value = || {
            let parts = if value.contains("://") { in_url(value) } else { Vec::new() };
            parts.into_iter().find_map(|(name, part)| Some((name, secret_part(name, part)?)))
        };
        if let Some((name, why)) =
            looks_secret(name, value).map(|why| (name, why)).or_else(in_value)
        {
            let (id, variable) = (&server.id, variable(&server.id, name));
            // Advise the user to store the secret only if the file is the user's own, because only such a file may name
            // a stored secret. The name of the stored secret begins with the id of the server, because several servers
            // can have e.g. an `API_KEY`.
            let remedy = match server.origin {
                Origin::Project => {
                    format!("write `${{{variable}}}` or `${{file:PATH}}` in its place")
                }
                _ => format!(
                    "run `mgp secrets set {id}.{variable}` and write `${{keyring:{id}.{variable}}}` in its place"
                ),
            };
            found.push(ClearSecret { server: server.id.clone(), place, reason: why, remedy });
        }
    };
    match &server.target {
        TargetConfig::Program { args, env, .. } => {
            for (name, value) in env {
                look(format!("env.{name}"), name, value);
            }
            for (at, (name, value)) in named(args).enumerate() {
                look(format!("args[{at}]"), name, value);
            }
        }
        TargetConfig::Url { url, headers, auth, .. } => {
            for (name, value) in auth.texts() {
                look(format!("auth.{name}"), name, value);
            }
            for (name, value) in headers {
                look(format!("headers.{name}"), name, value);
            }
            for (name, value) in in_url(url) {
                look("url".to_owned(), name, value);
            }
        }
        TargetConfig::InProcess => {}
    }
    found
}

/// Returns the command line or the URL of a server as configured: variables stay unexpanded, apparent secrets are
/// hidden.
///
/// ```
/// use mgp_discovery::{Config, describe_target};
///
/// let text = "servers = [{ id = 'db', command = 'mcp-pg', args = ['postgres://ada:s3cret@db/x'] }]";
/// let config = Config::parse("mgp.toml", text).unwrap().config;
/// assert_eq!(describe_target(&config.servers[0]), "mcp-pg postgres://ada:…@db/x");
/// ```
#[must_use]
pub fn describe_target(server: &ServerConfig) -> String {
    match &server.target {
        TargetConfig::Program { command, args, .. } => {
            let places: Vec<String> =
                clear_secrets(server).into_iter().map(|secret| secret.place).collect();
            let shown = args.iter().enumerate().map(|(at, arg)| {
                let is_secret = places.contains(&format!("args[{at}]"));
                let arg = if is_secret { without_secret(arg) } else { arg.clone() };
                let is_bare = !arg.is_empty() && !arg.contains(char::is_whitespace);
                if is_bare { arg } else { format!("{arg:?}") }
            });
            std::iter::once(command.clone()).chain(shown).collect::<Vec<_>>().join(" ")
        }
        TargetConfig::Url { url, .. } => shown_url(url),
        TargetConfig::InProcess => "within this process".to_owned(),
    }
}

/// Returns an argument whose secret is replaced by `…`: the value of a flag, the password in a URL, or the whole
/// argument.
fn without_secret(arg: &str) -> String {
    let (flag, value) = match arg.split_once('=').filter(|_| arg.starts_with('-')) {
        Some((flag, value)) => (format!("{flag}="), value),
        None => (String::new(), arg),
    };
    let mut shown = value.to_owned();
    for (name, part) in in_url(value) {
        if value.contains("://") && secret_part(name, part).is_some() {
            let (before, after) = if name == PASSWORD { (":", "@") } else { ("=", "") };
            shown =
                shown.replacen(&format!("{before}{part}{after}"), &format!("{before}…{after}"), 1);
        }
    }
    format!("{flag}{}", if shown == value { "…" } else { &shown })
}

/// The name of a URL's password in the values that [`in_url`] returns.
const PASSWORD: &str = "password";

/// Returns the reason why a part of a URL is considered a secret. A password in clear text is always considered a
/// secret, however short it is.
fn secret_part(name: &str, part: &str) -> Option<&'static str> {
    let is_literal = Template::parse(part).is_ok_and(|template| template.is_literal());
    let is_password = name == PASSWORD && is_literal && !part.is_empty();
    looks_secret(name, part).or(is_password.then_some("it is the password of a URL"))
}

/// Returns the parts of a value that are secrets in clear text: the value itself, passwords and parameters of a URL, or
/// headers in JSON.
pub(super) fn clear_parts<'a>(name: &str, value: &'a str) -> Vec<&'a str> {
    let headers: Vec<_> = secret_headers(value).map(|(_, value)| value).collect();
    if !headers.is_empty() {
        return headers;
    }
    if looks_secret(name, value).is_some() {
        return vec![value];
    }
    let parts = if value.contains("://") { in_url(value) } else { Vec::new() };
    let secret = parts.into_iter().filter(|(name, part)| secret_part(name, part).is_some());
    secret.map(|(_, part)| part).collect()
}

/// Returns a name and a value for each argument: `--key` and `x` for `--key=x`, and `NAME` and `x` for `-e NAME=x`,
/// which passes a variable to a container. An argument that is not a flag is itself the value, and its name is the
/// preceding flag if that has no `=`. A flag without `=` has an empty name and an empty value.
pub(super) fn named(args: &[String]) -> impl Iterator<Item = (&str, &str)> {
    let flag = |arg: &&String| arg.starts_with('-');
    let is_open = move |arg: &&String| flag(arg) && !arg.contains('=');
    let before =
        std::iter::once("").chain(args.iter().map(move |arg| if is_open(&arg) { arg } else { "" }));
    args.iter().zip(before).map(move |(arg, before)| {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) if name.starts_with('-') => (name, value),
            _ if flag(&arg) => ("", ""),
            _ => (before, arg.as_str()),
        };
        variable_setting(value).filter(|_| matches!(name, "-e" | "--env")).unwrap_or((name, value))
    })
}

/// Returns the name and the value of a text such as `NAME=value`, if the name is in capitals.
fn variable_setting(text: &str) -> Option<(&str, &str)> {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    text.split_once('=').filter(|(name, _)| !name.is_empty() && name.bytes().all(fits))
}

/// Returns the password and the query parameters of a URL, each with its name.
pub(super) fn in_url(url: &str) -> Vec<(&str, &str)> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // If the text after the colon is not a port, it is the beginning of a password with such a sign.
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_cut = |(_, port): (&str, &str)| !host.contains(['@', '[', '$']) && !is_port(port);
    let authority = if host.split_once(':').is_some_and(is_cut) { rest } else { host };
    let login = authority.rsplit_once('@').and_then(|(login, _)| login.split_once(':'));
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    login.map(|(_, password)| (PASSWORD, password)).into_iter().chain(pairs).collect()
}

/// Returns a name for the variable that replaces the secret.
fn variable(server: &ServerId, name: &str) -> String {
    let name = name.trim_start_matches('-');
    let name = if name.is_empty() { format!("{server}_SECRET") } else { name.to_owned() };
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

/// The beginnings of the tokens of well-known issuers.
#[rustfmt::skip]
const PREFIXES: &[&str] = &[
    "-----BEGIN", "AIza", "AKIA", "ASIA", "dop_v1_", "ghp_", "gho_", "ghs_", "ghu_", "github_pat_",
    "glpat-", "hf_", "npm_", "pypi-", "rk_live_", "sk-", "sk_live_", "xapp-", "xoxb-", "xoxp-",
];

/// Words that occur in the names of secret values.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "apikey", "auth", "authorization", "credential", "credentials", "key", "pass", "passphrase",
    "passwd", "password", "pat", "secret", "token",
];

/// Words in the names of secret values that can also be the end of a longer word, e.g. of `PGPASSWORD`.
const ENDS: &[&str] = &["apikey", "passwd", "password", "secret", "token"];

/// Words in the names of harmless values, which are the location or the owner of a secret, not the secret itself.
const HARMLESS: &[&str] =
    &["dir", "endpoint", "file", "id", "name", "path", "public", "type", "url"];

fn names_secret(name: &str) -> bool {
    let words = words(name);
    let any = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let has_end = || words.iter().any(|word| ENDS.iter().any(|end| word.ends_with(end)));
    // Look only at the end of the name, because e.g. `COOKIE_DOMAIN` and `--cookie-jar` are not cookies.
    let is_cookie = || name.to_ascii_lowercase().ends_with("cookie");
    (any(NAMES) || has_end() || is_cookie()) && !any(HARMLESS)
}

/// Returns the reason why a value is considered a secret, or `None` if it is not.
///
/// `name` is the key of the value, or the flag before it.
///
/// ```
/// use mgp_discovery::looks_secret;
///
/// assert!(looks_secret("API_KEY", "hunter2-hunter2").is_some());
/// assert!(looks_secret("--header", "Authorization: Bearer hunter2-hunter2").is_some());
/// assert!(looks_secret("API_KEY", "${API_KEY}").is_none());
/// ```
#[must_use]
pub fn looks_secret(name: &str, value: &str) -> Option<&'static str> {
    let template = Template::parse(value).ok()?;
    if template.is_literal() {
        let in_header =
            || header(name, value).and_then(|(name, value)| secret_literal(name, value));
        let in_headers =
            || secret_headers(value).find_map(|(name, value)| secret_literal(name, value));
        return secret_literal(name, value).or_else(in_header).or_else(in_headers);
    }
    // Check only the defaults of variables: the defaults are written in the file, while the values of the variables are
    // not.
    let default = |(variable, default): (&str, &str)| {
        secret_literal(variable, default).or_else(|| secret_literal(name, default))
    };
    template.defaults().find_map(default)
}

/// Returns the name and the value of an HTTP header whose value may be a token. A text without a space after the colon,
/// e.g. `auth-proxy:latest`, is a header only after a flag such as `--header`.
fn header<'a>(flag: &str, text: &'a str) -> Option<(&'a str, &'a str)> {
    let flag = flag.trim_start_matches('-').to_ascii_lowercase();
    if !["h", "header", "headers"].contains(&flag.as_str()) && !text.contains(": ") {
        return None;
    }
    let (name, value) = text.split_once(':')?;
    let value = value.trim();
    is_header(name, value).then_some((name, value))
}

/// Returns whether a text is the name of an HTTP header, and another one a value with the characters of tokens.
fn is_header(name: &str, value: &str) -> bool {
    let has_only = |text: &str, more: &[u8]| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
    };
    let is_digest = ["md5", "sha1", "sha256", "sha384", "sha512"].contains(&name);
    // Do not hide a value with characters that tokens do not have, e.g. a script that contains a colon: a reviewer must
    // see it.
    let is_token = has_only(without_scheme(value), b"-._~+/=:");
    has_only(name, b"-_") && is_token && !is_digest && !value.starts_with("//")
}

/// Returns the secrets in a JSON object of HTTP headers, e.g. in `{"Authorization": "Bearer …"}`, with their names. An
/// object with any other member has none, because a reviewer must see it.
fn secret_headers(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let text = if text.starts_with('{') { text } else { "{}" };
    let headers: BTreeMap<&str, &str> = serde_json::from_str(text).unwrap_or_default();
    let is_all = headers.iter().all(|(name, value)| is_header(name, value));
    headers.into_iter().filter(move |(name, value)| is_all && secret_literal(name, value).is_some())
}

/// Returns the credentials in the value of a header `Authorization`, without the scheme; returns any other value
/// unchanged.
fn without_scheme(value: &str) -> &str {
    let schemes = ["Bearer ", "bearer ", "Basic ", "basic ", "token "];
    schemes.iter().find_map(|scheme| value.strip_prefix(scheme)).unwrap_or(value).trim()
}

/// Returns the reason why a value without `${…}` is considered a secret.
fn secret_literal(name: &str, value: &str) -> Option<&'static str> {
    let value = without_scheme(value);
    let long = value.len() >= 12;
    if long && PREFIXES.iter().any(|prefix| value.starts_with(prefix)) {
        return Some("its beginning is that of a token");
    }
    if long && value.starts_with("eyJ") && value.matches('.').count() == 2 {
        return Some("its form is that of a signed token");
    }
    let word =
        ["true", "false", "none", "null", "changeme"].contains(&value.to_lowercase().as_str());
    let place = value.contains("://") || value.starts_with(['/', '~', '.']);
    // A variable that is plain text here is for the server to replace.
    let inside =
        value.trim_start_matches('$').strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let is_variable = value.starts_with('$')
        && inside.is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    if names_secret(name) && value.len() >= 6 && !word && !place && !is_variable {
        return Some("its name suggests it");
    }
    (!place && looks_random(value)).then_some("it looks random")
}

/// Splits a name like `X-Api-Key`, `--api-key`, `apiKey` or `GITHUB_TOKEN` into words.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && lower) {
            words.push(String::new());
        }
        lower = c.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// Returns whether a text is long, has no spaces and looks random, as generated tokens do.
fn looks_random(value: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte);
    let has = |test: fn(&u8) -> bool| value.as_bytes().iter().any(test);
    value.len() >= 24
        && value.bytes().all(fits)
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && (entropy(value.as_bytes()) >= 3.9
            || (value.len() >= 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit())))
}

/// Returns the entropy in bits per byte.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    let total = f64::from(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    let parts = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / total);
    parts.map(|part| -part * part.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, secret: bool) {
        assert_eq!(looks_secret(name, value).is_some(), secret, "{name}={value}");
    }

    #[test]
    fn the_password_of_a_url_is_found_even_if_it_has_signs_that_a_url_must_encode() {
        for (url, expected) in [
            ("postgres://ada:s3cret@db/x", vec![(PASSWORD, "s3cret")]),
            ("postgres://ada:s3/c?r#et@db/x", vec![(PASSWORD, "s3/c?r#et")]),
            ("http://a:80/@b/c", vec![]),
            ("http://[::1]:80/@b/c", vec![]),
            ("https://${HOST:-a}/@b", vec![]),
            ("https://a/@b?c=d", vec![("c", "d")]),
        ] {
            assert_eq!(in_url(url), expected, "{url}");
        }
    }

    #[test]
    fn secrets_are_found_and_ordinary_values_are_not() {
        check("GITHUB_TOKEN", "hunter2hunter2", true);
        check("apiKey", "hunter2hunter2", true);
        check("PGPASSWORD", "hunter2", true);
        check("--authtoken", "hunter2", true);
        check("X", concat!("gh", "p_0123456789abcdef0123456789abcdef0123"), true);
        check("Authorization", "Bearer abcdefghij", true);
        check("Cookie", "sid=hunter2; theme=dark", true);
        check("SESSION_COOKIE", "hunter2", true);
        check("--cookie-jar", "cookies.txt", false);
        check("X", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", true);
        check("X", "f47ac10b58cc4372a5670e02b2c3d479", true);
        check("--header", "Authorization: Bearer abcdefghij", true);
        check("-H", "X-Api-Key:hunter2hunter2", true);
        check("X", "9Zk2mQ7vT4xL1bN8cR5wY3hG6", true);

        check("X", "${TOKEN:-hunter2hunter2}", true);
        check("TOKEN", "Bearer ${X:-hunter2hunter2}", true);
        check("X", concat!("${A:-${B:-gh", "p_0123456789abcdef}}"), true);

        check("GITHUB_TOKEN", "${GITHUB_TOKEN}", false);
        check("GITHUB_TOKEN", "${GITHUB_TOKEN:-none}${A:-}", false);
        check("--header", "Authorization:${AUTH_HEADER:-$${AUTH_HEADER}}", false);
        check("--token", "$${GITHUB_TOKEN}", false);
        check("--token", "$${hunter2hunter2", true);
        check("--token", "$${A}hunter2", true);
        check("X", "${HOST:-localhost}:${PORT:-8080}", false);
        check("GITHUB_TOKEN", "", false);
        check("TOKEN_FILE", "/run/secrets/token", false);
        check("KEYBOARD", "qwertyuiop", false);
        check("MAXTOKENS", "100000", false);
        check("AUTH", "true", false);
        check("X", "/usr/local/lib/node_modules/server-1.2.3/index.js", false);
        check("X", "@modelcontextprotocol/server-filesystem", false);
        check("X", "--allow-everything-in-this-folder", false);
        check("X", "https://example.org/a/very/long/path/0123456789", false);
        check("X", "Accept: application/json", false);
        check("X", "localhost:8080", false);
        check("-i", "auth-proxy:latest", false);
        check("run", "token:deploy-all", false);
        check("X", "X-Api-Key: hunter2hunter2", true);
        check(
            "X",
            "sha256:f47ac10b58cc4372a5670e02b2c3d479f47ac10b58cc4372a5670e02b2c3d479",
            false,
        );
        check("-c", "token: ; sh ./install.sh", false);
        check("--header", "Authorization: Bearer ${TOKEN}", false);
        let headers = r#"{"Authorization": "Bearer ntn_hunter2", "Notion-Version": "2022-06-28"}"#;
        check("OPENAPI_MCP_HEADERS", headers, true);
        check("HEADERS", r#"{"Authorization": "Bearer ${TOKEN}"}"#, false);
        check("HEADERS", r#"{"Accept": "application/json"}"#, false);
        check("STEPS", r#"{"token": "hunter2-hunter2", "run": "sh ./install.sh"}"#, false);
    }
}
