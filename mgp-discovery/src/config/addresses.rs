//! Checks of addresses in the configuration: proxies, base URLs, authorization servers, receivers of syslog, mail
//! servers and mailboxes.
//!
//! These checks report a wrong address when the file is read. Otherwise the mistake would appear only when the kernel
//! connects.

use std::net::{IpAddr, Ipv6Addr};

use mgp_types::service::is_loopback_host;

use super::table_reader::Reader;
use crate::expand::closing;

/// The parts of an address `SCHEME://[USER@]HOST[:PORT][/PATH]`.
pub(crate) struct Address<'a> {
    pub(crate) scheme: &'a str,
    pub(crate) has_user: bool,
    pub(crate) host: &'a str,
    has_port: bool,
    /// The text after host and port: the path, the query and the fragment.
    path: &'a str,
}

impl<'a> Address<'a> {
    /// Divides an address into its parts; returns `None` if it is not valid, or its scheme is not in `schemes`.
    pub(crate) fn parse(text: &'a str, schemes: &[&str]) -> Option<Self> {
        let is_in_url = |byte: u8| byte.is_ascii_graphic() && !b"\\<>\"^`{|}".contains(&byte);
        let (scheme, rest) = text.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (user, address) = match authority.rsplit_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, authority),
        };
        let end = match address.rfind(']') {
            Some(bracket) => bracket + 1,
            None => address.find(':').unwrap_or(address.len()),
        };
        let (host, port) = address.split_at(end);
        let is_user = |user: &str| !user.contains(['@', '[', ']']);
        let is_valid = schemes.contains(&scheme)
            && text.bytes().all(is_in_url)
            && user.is_none_or(is_user)
            && is_host(host)
            && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
        let (has_user, has_port) = (user.is_some(), !port.is_empty());
        is_valid.then_some(Self { scheme, has_user, host, has_port, path })
    }

    /// Returns whether the address has a query or a fragment.
    fn has_query(&self) -> bool {
        self.path.contains(['?', '#'])
    }

    /// Returns whether the URL can identify an authorization server or a resource: `https`, or `http` on this machine,
    /// without a user name, query and fragment.
    fn is_identity(&self) -> bool {
        let is_secure = self.scheme == "https" || is_loopback_host(self.host);
        is_secure && !self.has_user && !self.has_query()
    }
}

pub(super) const USER_REMEDY: &str = "take it out, and write `headers = { Authorization = \"Basic ${keyring:NAME}\" }`; the \
                           secret is the base64 of USER:PASSWORD, see `mgp secrets set --help`";

/// Returns whether a URL has a user name, literal or with references `${…}`. An `@` inside a reference does not count.
pub(super) fn has_user(url: &str) -> bool {
    let mut rest = url.split_once("://").map_or("", |(_, rest)| rest);
    while let Some(at) = rest.find(['@', '/', '?', '#', '$']) {
        let found = &rest[at..];
        if !found.starts_with('$') {
            return found.starts_with('@');
        }
        rest = match found.strip_prefix("${").map(|inside| (inside, closing(inside))) {
            None => &found[1..],
            Some((inside, Some(end))) => &inside[end + 1..],
            // Not read as references again, because many unclosed ones would take quadratic time.
            Some((inside, None)) => return inside.contains('@'),
        };
    }
    false
}

fn is_host(host: &str) -> bool {
    if let Some(bracketed) = host.strip_prefix('[') {
        let address = bracketed.strip_suffix(']').map(str::parse::<Ipv6Addr>);
        return address.is_some_and(|address| address.is_ok());
    }
    is_name(host)
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !name.is_empty() && name.bytes().all(is_letter)
}

fn is_port(port: &str) -> bool {
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    is_number && port.parse::<u16>().is_ok_and(|port| port > 0)
}

pub(super) fn is_proxy(text: &str) -> bool {
    Address::parse(text, &["http"]).is_some()
}

/// Reads `kernel.no_proxy`. An entry may contain several hosts, separated by commas, like the variable `NO_PROXY`.
pub(super) fn no_proxy(kernel: &mut Reader<'_, '_, '_>) -> Vec<String> {
    let entries = kernel.texts("no_proxy");
    let mut hosts = entries.iter().flat_map(|entry| entry.split(',')).map(str::trim);
    if let Some(wrong) = hosts.find(|host| !host.is_empty() && !is_excludable(host)) {
        // Hide a URL with a user name, because it can contain a password.
        let shown = if wrong.contains('@') { "…".to_owned() } else { mgp_types::clip(wrong, 64) };
        let what = format!("has `{shown}`, which is not a host, domain or network");
        let remedy = "write e.g. \"a.example\", \".example.com\" or \"10.0.0.0/8\"";
        kernel.error("no_proxy", what, Some(remedy.to_owned()));
    }
    entries
}

/// Returns whether an entry of `no_proxy` has a valid form: a host with or without a port, a domain or a network.
fn is_excludable(host: &str) -> bool {
    let is_with_port = |(host, port)| is_host(host) && is_port(port);
    if let Some((address, bits)) = host.split_once('/') {
        let max = match address.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        return bits.parse::<u8>().is_ok_and(|bits| bits <= max);
    }
    // The kernel never uses a proxy for this machine, so an entry for this machine is unnecessary but valid.
    is_loopback_host(host)
        || host == "*"
        || host.parse::<IpAddr>().is_ok()
        || is_name(host.strip_prefix("*.").or(host.strip_prefix('.')).unwrap_or(host))
        || host.rsplit_once(':').is_some_and(is_with_port)
}

/// Returns whether a text is a URL, or can become one when its `${…}` is expanded. Characters outside of ASCII are
/// allowed only in a path, because they cannot be part of a host.
pub(super) fn can_be_url(text: &str) -> bool {
    if text.starts_with("${") {
        return true;
    }
    let text = text.trim_end();
    let begin = text.find("://").map_or(0, |at| at + 3);
    let end = text[begin..].find(['/', '?', '#']).map_or(text.len(), |at| begin + at);
    let (origin, path) = text.split_at(end);
    // A reference can contain any characters, including characters that end a host, so its text is not checked.
    if origin.contains("${") {
        return ["https://", "http://"].iter().any(|scheme| origin.starts_with(scheme));
    }
    let is_origin = Address::parse(origin, &["https", "http"]).is_some();
    is_origin && (path.contains("${") || !path.contains([' ', '\t', '\n', '\r']))
}

/// Returns whether a text is the URL of a page, without a user name and a query.
pub(super) fn is_page(text: &str) -> bool {
    let page = Address::parse(text, &["https", "http"]);
    page.is_some_and(|page| !page.has_user && !page.has_query())
}

/// Returns the value of a key that is a base URL, i.e. the beginning of other URLs; does not expand `${…}`. Reports a
/// text that is not a URL, or has a query.
pub(super) fn base_url(reader: &mut Reader<'_, '_, '_>, name: &str) -> Option<String> {
    let url = reader.text(name)?;
    if Address::parse(&url, &["https", "http"]).is_none_or(|address| address.has_query()) {
        let remedy = "write `https://HOST` or `http://HOST:PORT`, without a query";
        reader.error(name, "is not the beginning of a URL", Some(url_remedy(&url, remedy)));
    }
    Some(url)
}

/// Returns the remedy for a text that is not a valid URL: `usual`, or another remedy if the text has characters that a
/// URL cannot contain, e.g. the `ü` of `bücher.example`.
pub(super) fn url_remedy(text: &str, usual: &str) -> String {
    if text.is_ascii() {
        return usual.to_owned();
    }
    "write it in ASCII: a host as `xn--…` (Punycode), other characters as `%XX`".to_owned()
}

/// Reads the `issuer` of a server's `auth`. A text with `${…}` is checked less strictly, because it is expanded later.
pub(super) fn issuer(auth: &mut Reader<'_, '_, '_>) -> Option<String> {
    let written = auth.item("issuer").and_then(toml_edit::Item::as_str);
    if written.is_some_and(|issuer| issuer.contains("${")) {
        return auth.url("issuer");
    }
    let issuer = auth.text("issuer")?;
    if !Address::parse(&issuer, &["https", "http"]).is_some_and(|url| url.is_identity()) {
        report_issuer(auth, &issuer, "write `https://HOST`, without a user name and a query");
    }
    Some(issuer)
}

/// Reads the `issuer` of access tokens. Without `keys`, the kernel looks for the issuer's keys at this URL, also over
/// `http`, e.g. in a private network. With `keys`, the kernel only compares this text with the issuer that a token
/// names, so any text is valid, e.g. a bare domain.
pub(super) fn token_issuer(tokens: &mut Reader<'_, '_, '_>) -> Option<String> {
    let issuer = tokens.text("issuer")?;
    let is_issuer = |address: Address<'_>| !address.has_user && !address.has_query();
    let is_only_compared = tokens.item("keys").is_some() && !issuer.is_empty();
    if !is_only_compared && !Address::parse(&issuer, &["https", "http"]).is_some_and(is_issuer) {
        let remedy = "write `https://HOST`, without a user name and a query, or set `keys`";
        report_issuer(tokens, &issuer, remedy);
    }
    Some(issuer)
}

fn report_issuer(reader: &mut Reader<'_, '_, '_>, issuer: &str, remedy: &str) {
    let remedy = url_remedy(issuer, remedy);
    reader.error("issuer", "is not the URL of an authorization server", Some(remedy));
}

/// Reads the `resource` of access tokens: the URL of this kernel for its clients.
pub(super) fn token_resource(tokens: &mut Reader<'_, '_, '_>) -> Option<String> {
    let resource = tokens.text("resource")?;
    if !Address::parse(&resource, &["https", "http"]).is_some_and(|url| url.is_identity()) {
        let remedy = "write `https://HOST/PATH`, without a user name and a query";
        tokens.error("resource", "is not the URL of a kernel", Some(url_remedy(&resource, remedy)));
    }
    Some(resource)
}

/// Reads the `keys` of access tokens: a URL, or the path of a file.
pub(super) fn token_keys(tokens: &mut Reader<'_, '_, '_>) -> Option<String> {
    let keys = tokens.text("keys")?;
    let is_url = Address::parse(&keys, &["https", "http"]).is_some_and(|url| !url.has_user);
    if keys.is_empty() || keys.contains("://") && !is_url {
        let remedy = "write `https://HOST/PATH` without a user name, or the path of a file";
        tokens.error("keys", "is neither a URL nor a file", Some(url_remedy(&keys, remedy)));
    }
    Some(keys)
}

/// Returns whether a text is the address of a syslog receiver. Syslog needs a port.
pub(super) fn is_syslog_url(text: &str) -> bool {
    let is_receiver =
        |address: Address<'_>| !address.has_user && address.has_port && address.path.is_empty();
    Address::parse(text, &["udp", "tcp"]).is_some_and(is_receiver)
}

/// Returns whether a text is the address of a mail server. The address must have no user name, because the user has a
/// separate key.
pub(super) fn is_mail_server(text: &str) -> bool {
    Address::parse(text, &["smtps", "smtp"]).is_some_and(|address| !address.has_user)
}

/// Returns an e-mail address, with or without the name of a person. Reports any other text.
pub(super) fn mailbox(reader: &mut Reader<'_, '_, '_>, name: &str) -> Option<String> {
    let text = reader.text(name)?;
    if !is_mailbox(&text) {
        let remedy = "write e.g. `ada@example.com`, or `Ada <ada@example.com>`".to_owned();
        reader.error(name, "is not an e-mail address", Some(remedy));
    }
    Some(text)
}

fn is_mailbox(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(named) => named.rsplit_once('<').map_or("", |(_, address)| address),
        None => text,
    };
    let is_plain = |part: &str| {
        let is_special = |c: char| c.is_whitespace() || "<>,;@\"".contains(c);
        !part.is_empty() && !part.contains(is_special)
    };
    let is_address = address.rsplit_once('@').is_some_and(|(user, domain)| {
        // Accept any characters in a user name in quotation marks.
        (user.starts_with('"') || is_plain(user)) && is_plain(domain)
    });
    is_address && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    /// Returns the errors of a file in one text, including the errors of its servers.
    fn errors(text: &str) -> String {
        match Config::parse("mgp.toml", text) {
            Ok(parsed) => parsed.findings.iter().map(ToString::to_string).collect(),
            Err(errors) => errors.to_string(),
        }
    }

    /// Checks that each wrong value of a key is refused with a message, and each right value is accepted. The value
    /// replaces `NEW` in the text.
    #[track_caller]
    fn check(text: &str, message: &str, wrong: &[&str], right: &[&str]) {
        for value in wrong {
            let errors = errors(&text.replace("NEW", value));
            assert!(errors.contains(message), "{value}: {errors}");
        }
        for value in right {
            assert_eq!(errors(&text.replace("NEW", value)), "", "{value}");
        }
    }

    /// Regression test: a URL of 32 KiB took some seconds, because each reference was searched for its end.
    #[test]
    fn unclosed_references_in_a_url_are_read_once() {
        let time = |text: &str| {
            let url = format!("https://{}", text.repeat(16_000));
            let once = || {
                let start = tokio::time::Instant::now();
                assert!(!super::has_user(&url));
                start.elapsed()
            };
            (0..3).map(|_| once()).min().unwrap()
        };
        let (closed, open) = (time("${}"), time("${"));
        assert!(open < closed * 20, "{closed:?} closed, {open:?} unclosed");
        for (url, expected) in
            [("https://${A", false), ("https://${A@b", true), ("https://${A@}b", false)]
        {
            assert_eq!(super::has_user(url), expected, "{url}");
        }
    }

    #[test]
    fn proxies_that_cannot_be_used_are_refused() {
        let wrong = ["http://", "http://:80", "http://a b", "http://a:x", "https://a", "${P}"];
        let right = ["http://me:pw%21@a.example:3128", "http://[::1]:80/", "env", "none"];
        let message = "`kernel.proxy` is not an http:// URL; write `http://HOST:PORT`";
        check("[kernel]\nproxy = 'NEW'", message, &wrong, &right);
        assert!(!errors("[kernel]\nproxy = 'http://me:s3cret@a b'").contains("s3cret"));
    }

    #[test]
    fn exceptions_of_the_proxy_that_match_no_host_are_refused() {
        let wrong = ["https://a", "a:0", "a*.b", "10.0.0.0/33", "a/8", "[::2]", "${HOST}", "a,b c"];
        let right =
            ["a", ".b.example", "*.b", "a:80", "1.0.0.0/8", "fd00::/8", "::1", "*", "a, b", ""];
        let message = "which is not a host, domain or network; write e.g. \"a.example\"";
        check("[kernel]\nno_proxy = ['NEW']", message, &wrong, &right);
        assert!(errors("[kernel]\nno_proxy = ['a', '*b']").contains("has `*b`,"));
    }

    #[test]
    fn base_urls_that_cannot_be_used_are_refused() {
        let wrong =
            ["registry.example", "ftp://a", "https://", "https:///a", "https://a?b=c", "${URL}"];
        let right = ["https://a", "http://127.0.0.1:80/b/", "https://[::1]:8443"];
        for table in ["registry", "references"] {
            let message =
                format!("`kernel.{table}.url` is not the beginning of a URL; write `https://HOST`");
            check(&format!("[kernel.{table}]\nurl = 'NEW'"), &message, &wrong, &right);
        }
        assert_eq!(errors("[kernel.references]\nurl = ''"), "");
    }

    #[test]
    fn issuers_that_cannot_be_used_are_refused_and_those_with_variables_are_not() {
        let text = "[[servers]]\nid = 'a'\nurl = 'https://a'\nauth = { issuer = 'NEW' }";
        let wrong = ["login.example", "http://a", "https://me@a", "https://a?b", "https://a#b", ""];
        let right = ["https://a/b", "http://127.0.0.1:1", "${ISSUER}", "https://${HOST}/b"];
        let message = "`servers.auth.issuer` is not the URL of an authorization server; write";
        check(text, message, &wrong, &right);
        check(text, "`servers.auth.issuer` is not a URL", &["login.${DOMAIN}"], &[]);
        let remedy = "write it in ASCII: a host as `xn--…`";
        check(text, remedy, &["https://bücher.example"], &["https://xn--bcher-kva.example"]);
    }

    #[test]
    fn issuers_and_keys_of_access_tokens_that_cannot_be_used_are_refused() {
        let text = "[kernel.http.tokens]\nresource = 'https://r/mcp'\nissuer = 'NEW'";
        let wrong =
            ["issuer.example", "ftp://a", "https://", "https://me@a", "https://a?b", "${URL}", ""];
        let message = "`kernel.http.tokens.issuer` is not the URL of an authorization server";
        check(text, message, &wrong, &["https://a/b", "http://issuer:8080/realms/c"]);
        check(text, "write it in ASCII", &["https://bücher.example"], &[]);
        let text = format!("{}\nkeys = 'NEW'", text.replace("NEW", "https://i"));
        let wrong = ["https://", "https://a b", "https://me@a", "file:///a", "https://a:+80", ""];
        let message = "`kernel.http.tokens.keys` is neither a URL nor a file; write `https://HOST";
        check(&text, message, &wrong, &["https://a/b?c", "http://a:80/b", "jwks.json", "/ä b"]);
        let text = text.replace("https://i", "NEW").replace("keys = 'NEW'", "keys = 'jwks.json'");
        let message = "`kernel.http.tokens.issuer` is not the URL of an authorization server";
        check(&text, message, &[""], &["accounts.example", "urn:issuer", "https://a?b"]);
    }

    #[test]
    fn resources_that_cannot_be_used_are_refused() {
        let text = "[kernel.http.tokens]\nissuer = 'https://i'\nresource = 'NEW'";
        let wrong = ["mgp.example", "http://a", "https://", "https://me@a", "https://a?b", "${R}"];
        let message = "`kernel.http.tokens.resource` is not the URL of a kernel; write `https://";
        let right = ["https://a/mcp", "https://a:8443", "http://127.0.0.1:8900/mcp"];
        check(text, message, &wrong, &right);
        check(text, "write it in ASCII", &["https://bücher.example/mcp"], &[]);
    }

    #[test]
    fn urls_whose_host_cannot_be_used_are_refused() {
        let text = "[[servers]]\nid = 'a'\nurl = 'NEW'";
        let wrong = ["https://", "https:///a", "http://a:x", "https://a b", "https://a/b c", "a/b"];
        let right = [
            "https://a/ü?q={ä}",
            "http://[::1]:80",
            "${URL}",
            "https://${HOST}/a",
            "https://a/${cmd:echo b}",
            "https://a.${D:-b/c d}:80/e",
        ];
        let message = "`servers.url` is not a URL; begin with `https://` or `http://` and a host";
        check(text, message, &wrong, &right);
        let idn = ["https://bücher.example/mcp", "http://ä"];
        check(text, "`servers.url` is not a URL; write it in ASCII: a host as `xn--…`", &idn, &[]);
    }

    #[test]
    fn receivers_of_syslog_that_cannot_be_used_are_refused() {
        let text = "[kernel.audit.sinks.x]\nsyslog = 'NEW'";
        let wrong =
            ["udp://a", "udp://:1", "udp://a b:1", "tcp://a:+80", "tcp://b@a:1", "udp://a:1/b", ""];
        let right = ["udp://a:514", "tcp://127.0.0.1:514", "udp://[::1]:514", "/dev/log", "/a b"];
        check(text, "`kernel.audit.sinks.x.syslog` is not a syslog receiver", &wrong, &right);
    }

    #[test]
    fn mail_servers_and_e_mail_addresses_that_cannot_be_used_are_refused() {
        let text = "[kernel.notify.x]\nsmtp = 'smtp://mail'\nfrom = 'a@b'\nemail = 'NEW'";
        let wrong = ["ada", "@b", "a@", "Ada a@b", "Ada <a>", "a@b, c@d", "a@b c", "${MAIL}", ""];
        let right = ["a@b", "Ada <a@b.example>", "\"a b\"@c", "a@[127.0.0.1]", "ä@ö.example"];
        let message = "is not an e-mail address; write e.g. `ada@example.com`";
        check(text, &format!("`kernel.notify.x.email` {message}"), &wrong, &right);
        let text = "[kernel.notify.x]\nsmtp = 'smtp://mail'\nemail = 'a@b'\nfrom = 'NEW'";
        check(text, &format!("`kernel.notify.x.from` {message}"), &wrong, &right);
        let text = "[kernel.notify.x]\nemail = 'a@b'\nsmtp = 'NEW'";
        let wrong = ["smtp://", "smtp://:25", "smtps://a:x", "smtp://a b", "a:25", "smtps://me@a"];
        let message = "`kernel.notify.x.smtp` is not a mail server";
        check(text, message, &wrong, &["smtps://a", "smtp://[::1]:25", "smtp://a:587/"]);
    }
}
