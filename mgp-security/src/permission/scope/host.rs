//! Checks whether the hosts and ports among a call's arguments are within the limits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::finding::Findings;
use super::kinds::About;
use super::{Limits, Outside, shown};

/// The maximum length of a host name, in bytes.
const NAME_MAX: usize = 253;

/// The schemes of URLs that clients accept without slashes: `https:a.example` means `https://a.example`.
const LAX_SCHEMES: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];

/// Common endings of the names of files. A number after such a name is a line and not a port: `main.rs:12`.
const FILE_ENDINGS: [&str; 43] = [
    "bash", "cfg", "cjs", "conf", "cpp", "cs", "css", "csv", "dart", "go", "gradle", "hpp", "hs",
    "html", "ini", "java", "js", "json", "jsx", "kt", "lock", "log", "lua", "md", "mjs", "php",
    "proto", "py", "rb", "rs", "rst", "scala", "scss", "sh", "sql", "swift", "toml", "ts", "tsx",
    "txt", "xml", "yaml", "yml",
];

/// The maximum number of digits of a line number after the name of a file.
const LINE_DIGITS: usize = 6;

/// Checks all hosts among the arguments.
pub(super) fn check(
    limits: &Limits<'_>,
    ports: Option<&[u16]>,
    found: &Findings,
) -> Result<(), Outside> {
    let texts = found.texts(About::Host)?;
    if !found.declares(About::Host) {
        return Err("only some hosts or ports are allowed, and no argument names one".to_owned());
    }
    let denied = limits.denied.iter().map(|entry| {
        Entry::read(entry).map_err(|why| format!("the denied host `{entry}` cannot be read: {why}"))
    });
    let denied = denied.collect::<Result<Vec<_>, _>>()?;
    // An entry that cannot be parsed allows nothing.
    let allowed: Option<Vec<Entry>> = limits
        .allowed
        .map(|allowed| allowed.iter().filter_map(|entry| Entry::read(entry).ok()).collect());
    // A port in a separate argument applies to each of the hosts.
    let apart = found.ports.iter().map(|port| port.ok_or("a port cannot be read"));
    let apart = apart.collect::<Result<Vec<u16>, _>>()?;
    for text in texts {
        let place = Place::read(text).map_err(|why| format!("the host `{}` {why}", shown(text)))?;
        let meant: Vec<Option<u16>> = if apart.is_empty() {
            vec![place.port]
        } else {
            apart.iter().copied().chain(place.port).map(Some).collect()
        };
        for port in meant {
            one(&denied, allowed.as_deref(), ports, &place.host, port)
                .map_err(|why| format!("the host `{}` {why}", shown(text)))?;
        }
    }
    Ok(())
}

/// Returns whether a text is one word that begins like a URL.
pub(super) fn begins_as_url(text: &str) -> bool {
    !text.contains(char::is_whitespace)
        && text.split_once(':').is_some_and(|(scheme, rest)| {
            LAX_SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known))
                || scheme.eq_ignore_ascii_case("file")
                || is_scheme(scheme) && rest.starts_with("//")
        })
}

/// Returns whether a text has the form of a network address, so that it counts as one under any argument name. It must
/// be a URL other than a `file:` URL, also in an unusual form that clients accept, or begin with an IP address.
pub(super) fn has_form(text: &str) -> bool {
    let behind = text.trim_start_matches(['/', '\\']);
    if text.len() - behind.len() > 1 && begins_with_host(behind) || begins_as_url(text) {
        return true;
    }
    let authority = authority(text);
    let bare = authority.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().is_ok() || authority.parse::<SocketAddr>().is_ok()
}

/// Returns whether the text after several slashes begins with a host, as in `//a.example/x` and unlike the pattern
/// `/\d+/`.
fn begins_with_host(text: &str) -> bool {
    let is_plain = |letter: char| {
        !letter.is_ascii() || letter.is_ascii_alphanumeric() || "._:@%[]-".contains(letter)
    };
    // Some clients accept any characters in front of a domain, so only the last part of the name must consist of
    // letters.
    let is_below_domain = |host: &str| {
        let name = host.split(':').next().unwrap_or_default().trim_end_matches('.');
        let last = name.rsplit_once('.').map_or("", |(_, last)| last);
        !name.contains(char::is_whitespace)
            && last.len() > 1
            && last.chars().all(char::is_alphabetic)
    };
    // For some clients a backslash ends the authority, as a slash does, so consider both meanings.
    [&['/', '?', '#'][..], &['/', '?', '#', '\\']].iter().any(|ends| {
        let authority = text.split(*ends).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        !host.is_empty() && host.chars().all(is_plain) || is_below_domain(host)
    })
}

/// Returns whether a text is `localhost`, or the name of a host with a port, a path, or a user as in `git@a.example:x`.
/// A name alone does not count, because `a.b` can mean anything. A file with a line number, e.g. `a.rs:12`, does not
/// count either.
pub(super) fn is_name_with_more(text: &str) -> bool {
    if text.contains(char::is_whitespace) {
        return false;
    }
    let authority = authority(text);
    let has_path = text[authority.len()..].starts_with('/');
    let (has_user, place) =
        authority.rsplit_once('@').map_or((false, authority), |(_, place)| (true, place));
    let (name, port) =
        place.split_once(':').map_or((place, None), |(name, port)| (name, Some(port)));
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit());
    let has_line = |port: &str| {
        let ending = name.rsplit('.').next().unwrap_or_default();
        let is_file = FILE_ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known));
        is_file && port.len() <= LINE_DIGITS && authority.len() == text.len()
    };
    let has_more = match port {
        Some(port) => has_user || is_port(port) && !has_line(port),
        None => has_path,
    };
    if name.eq_ignore_ascii_case("localhost") {
        return has_more || port.is_none() && !has_user;
    }
    has_more && is_domain(name)
}

/// Returns whether a text has the form of a domain: several labels, the last of which has only letters or begins with
/// `xn--`.
fn is_domain(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_letter = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
    let is_label = |label: &str| !label.is_empty() && label.chars().all(is_letter);
    name.rsplit_once('.').is_some_and(|(parents, last)| {
        let is_top = last.chars().all(char::is_alphabetic) && last.chars().count() > 1;
        parents.split('.').all(is_label)
            && (is_top || is_label(last) && last.to_ascii_lowercase().starts_with("xn--"))
    })
}

/// Returns whether a text is the bare name of a host with several labels, and does not end like a file.
pub(super) fn is_bare_name(text: &str) -> bool {
    const FILES: [&str; 30] = [
        "cfg", "conf", "css", "csv", "docx", "gif", "htm", "html", "ini", "jpeg", "jpg", "js",
        "json", "jsx", "lock", "log", "pdf", "png", "pptx", "sql", "svg", "toml", "ts", "tsx",
        "txt", "webp", "xlsx", "xml", "yaml", "yml",
    ];
    let ending = text.rsplit('.').next().unwrap_or_default();
    is_domain(text) && !FILES.iter().any(|known| ending.eq_ignore_ascii_case(known))
}

/// Returns the part of a text before its path.
fn authority(text: &str) -> &str {
    &text[..text.find(['/', '?', '#']).unwrap_or(text.len())]
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'+' | b'-' | b'.'))
}

/// Returns the host in a text, and the port if one is written, in the form in which a scope lists hosts; `None` if the
/// text cannot be parsed.
pub(super) fn name(text: &str) -> Option<String> {
    let place = Place::read(text).ok()?;
    let host = match &place.host {
        Host::Name(name) => name.clone(),
        Host::Ip(IpAddr::V6(ip)) => format!("[{ip}]"),
        Host::Ip(ip) => ip.to_string(),
    };
    Some(place.named_port.map_or_else(|| host.clone(), |port| format!("{host}:{port}")))
}

fn one(
    denied: &[Entry],
    allowed: Option<&[Entry]>,
    ports: Option<&[u16]>,
    host: &Host,
    port: Option<u16>,
) -> Result<(), Outside> {
    // If the port of the host is unknown, an entry with a port denies the host but never allows it.
    if denied.iter().any(|entry| {
        entry.is_of(host) && (port.is_none() || entry.port.is_none() || entry.port == port)
    }) {
        return Err("is denied".to_owned());
    }
    if allowed.is_some_and(|allowed| {
        !allowed
            .iter()
            .any(|entry| entry.is_of(host) && (entry.port.is_none() || entry.port == port))
    }) {
        return Err("is not allowed".to_owned());
    }
    match (ports, port) {
        (None, _) => Ok(()),
        (Some(_), None) => Err("is called without a port that is known".to_owned()),
        (Some(ports), Some(port)) if ports.contains(&port) => Ok(()),
        (Some(_), Some(port)) => Err(format!("is called at port {port}, which is not allowed")),
    }
}

/// A host in normalized form.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Name(String),
    Ip(IpAddr),
}

impl Host {
    fn read(text: &str) -> Result<Self, String> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or("is not an address")?;
            let ip: Ipv6Addr = inner.parse().map_err(|_| "is not an address")?;
            return Ok(Self::ip(ip.into()));
        }
        if let Ok(ip) = text.parse::<Ipv6Addr>() {
            return Ok(Self::ip(ip.into()));
        }
        if !text.is_ascii() {
            return Err("is not written in ASCII: write it as `xn--…`".to_owned());
        }
        let name = text.to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        if let Ok(ip) = name.parse::<Ipv4Addr>() {
            return Ok(Self::ip(ip.into()));
        }
        let is_label = |label: &str| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_'))
        };
        if name.len() > NAME_MAX || !name.split('.').all(is_label) {
            return Err("is not a host name".to_owned());
        }
        // Resolvers interpret `127.1`, `0x7f.1` and `2130706433` as addresses, so recognize these forms.
        let last = name.rsplit('.').next().unwrap_or(name);
        let is_hex = last
            .strip_prefix("0x")
            .is_some_and(|rest| rest.bytes().all(|digit| digit.is_ascii_hexdigit()));
        if is_hex || last.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err("is an address in an odd spelling".to_owned());
        }
        Ok(Self::Name(name.to_owned()))
    }

    /// Creates a host from an IP address; an IPv4-mapped IPv6 address becomes the IPv4 address.
    fn ip(ip: IpAddr) -> Self {
        Self::Ip(ip.to_canonical())
    }
}

/// A network destination in a call's arguments: a host with its port.
#[derive(Debug)]
struct Place {
    host: Host,
    /// The port that is used: the written port, or the default port of the scheme; `None` if it is unknown.
    port: Option<u16>,
    /// The port that is written in the text, if any.
    named_port: Option<u16>,
}

impl Place {
    fn read(text: &str) -> Result<Self, String> {
        if text
            .chars()
            .any(|letter| letter.is_control() || letter.is_whitespace() || letter == '\\')
        {
            return Err("cannot be read: it has blanks or backslashes".to_owned());
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(scheme.to_ascii_lowercase()), rest),
            None => (None, text.strip_prefix("//").unwrap_or(text)),
        };
        if scheme.as_ref().is_some_and(|scheme| scheme == "file" || !is_scheme(scheme)) {
            return Err("is not an address of a host".to_owned());
        }
        let authority = authority(rest);
        // If a colon without a port follows the name, and no slashes precede it, the name is a scheme, and the host
        // comes after the colon. Refuse such a text, because its host is not known here.
        if rest.len() == text.len() && authority.len() < rest.len() && authority.ends_with(':') {
            return Err("is not an address of a host".to_owned());
        }
        if authority.contains('@') {
            return Err("comes after a user name".to_owned());
        }
        let (host, port) = split_port(authority)?;
        let by_scheme = scheme.as_deref().and_then(|scheme| match scheme {
            "http" | "ws" => Some(80),
            "https" | "wss" => Some(443),
            "ftp" => Some(21),
            "ssh" | "sftp" => Some(22),
            _ => None,
        });
        Ok(Self { host: Host::read(host)?, port: port.or(by_scheme), named_port: port })
    }
}

/// Splits a host from its port. An IPv6 address without brackets has no port.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let bare_v6 = !text.starts_with('[') && text.matches(':').count() > 1;
    let behind = match text.rfind(']') {
        Some(end) => &text[end + 1..],
        None if bare_v6 => "",
        None => &text[text.find(':').unwrap_or(text.len())..],
    };
    let host = &text[..text.len() - behind.len()];
    if behind.is_empty() {
        return Ok((host, None));
    }
    let digits = behind.strip_prefix(':').ok_or("is not a host name")?;
    if digits.is_empty() {
        return Ok((host, None));
    }
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err("has a port that cannot be read".to_owned());
    }
    let port = digits.parse().map_err(|_| "has a port that cannot be read")?;
    Ok((host, Some(port)))
}

/// An entry in a list of allowed or denied hosts.
#[derive(Debug)]
struct Entry {
    hosts: Hosts,
    /// The port of the host; `None` means any port.
    port: Option<u16>,
}

#[derive(Debug)]
enum Hosts {
    All,
    One(Host),
    /// All hosts whose name ends with this suffix, which begins with a dot.
    Below(String),
}

impl Entry {
    fn read(text: &str) -> Result<Self, String> {
        let (host, port) = split_port(text)?;
        let hosts = match host.strip_prefix("*.") {
            _ if host == "*" => Hosts::All,
            Some(parent) => match Host::read(parent)? {
                Host::Name(parent) => Hosts::Below(format!(".{parent}")),
                Host::Ip(_) => return Err("addresses have no sub-domains".to_owned()),
            },
            None => Hosts::One(Host::read(host)?),
        };
        Ok(Self { hosts, port })
    }

    fn is_of(&self, host: &Host) -> bool {
        match (&self.hosts, host) {
            (Hosts::All, _) => true,
            (Hosts::One(own), host) => own == host,
            (Hosts::Below(parent), Host::Name(name)) => name.ends_with(parent.as_str()),
            (Hosts::Below(_), Host::Ip(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;

    /// Checks calls that have an allowed URL and, as the argument `name`, one of these texts. All the calls must be
    /// within the limits, or none of them if `is_inside` is `false`.
    #[track_caller]
    fn check_beside(name: &str, texts: &[&str], is_inside: bool) {
        let one = serde_json::from_str(r#"{"hosts":["ok.example","10.0.0.1"]}"#).unwrap();
        for text in texts {
            for value in [serde_json::json!(text), serde_json::json!([text])] {
                let arguments = serde_json::json!({ "url": "https://ok.example", name: value });
                let checked = check(&one, Some(&arguments.to_string()), None);
                assert_eq!(checked.is_ok(), is_inside, "{arguments}: {checked:?}");
            }
        }
    }

    #[test]
    fn an_address_is_recognised_by_its_form_under_any_name() {
        let addresses = [
            "evil.com:443",
            "evil.com/x",
            "EVIL.com./x",
            "xn--80ak6aa92e.xn--p1ai/x",
            "localhost",
            "LOCALHOST:8080",
            "localhost/x",
            "127.0.0.1:80",
            "127.0.0.1/x",
            "[::1]:80",
            "https:evil.com",
            "HTTPS:/evil.com",
            "https:\\\\evil.com",
            "https:443",
            "ws:evil.com",
            "/\\evil.com",
            "\\\\evil.com\\share",
            "///evil.com",
            "//evil",
            "//user:a$b@evil.com/x",
            "//x$\\@evil.com",
            "//a+b.evil.com/x",
            "//\u{e4}vil\u{3002}com",
            "evil.rs:443/x",
            "evil.sh:443?x",
            "evil.md.:443",
            "ann@evil.py:443",
            "localhost:12",
            "https://ev\nil.com",
            "ht\ntps://evil.com",
            "redis://evil.com\n/0",
            "git@evil.com:a/b.git",
            "ann@evil.com/x",
        ];
        check_beside("x", &addresses, false);
        check_beside("note", &addresses, false);
    }

    #[test]
    fn a_text_that_only_resembles_an_address_passes() {
        check_beside(
            "x",
            &[
                "ok.example:443",
                "ok.example/a/b",
                "10.0.0.1:80",
                "10.0.0.1/a",
                "text/html",
                "application/vnd.api+json",
                "v1.2/users",
                "div.title",
                "page.html?x=1#top",
                "12:30",
                "nginx@sha256:00",
                "ann@a.example",
                "see evil.com/x\nor evil.com:443",
            ],
            true,
        );
        check_beside("path", &["site.old/a.html"], true);
        check_beside("query", &["evil.com/x", "site:evil.com"], true);
    }

    #[test]
    fn a_pattern_and_a_line_of_a_file_are_no_addresses() {
        for name in ["x", "at", "breakpoint", "pattern"] {
            check_beside(name, &["main.rs:12", "app.py:3", "a.b.TS:100000", "main.rs:12:5"], true);
            check_beside(
                name,
                &["/\\d+/", "/\\s*=\\s*(.*)/gi", "\\\\d+\\.", "// see a.b", "//"],
                true,
            );
            check_beside(name, &["evil.com:443", "evil.rs:4430000"], false);
        }
    }

    #[test]
    fn only_an_unmistakable_address_is_one_as_the_name_of_a_member() {
        let labels = serde_json::json!({ "app.kubernetes.io/name": "x", "node.js:8": "y" });
        let evil = ["https://evil.com", "//evil.com/x", "10.1.2.3/x"];
        let evil = evil.map(|key| serde_json::json!({ key: "x" }));
        for (labels, is_inside) in [(labels, true)].into_iter().chain(evil.map(|key| (key, false)))
        {
            let one = serde_json::from_str(r#"{"hosts":["ok.example"]}"#).unwrap();
            let arguments = serde_json::json!({ "url": "https://ok.example", "labels": labels });
            let checked = check(&one, Some(&arguments.to_string()), None);
            assert_eq!(checked.is_ok(), is_inside, "{arguments}: {checked:?}");
        }
    }

    #[test]
    fn a_host_with_a_path_is_compared_without_it() {
        for (host, is_inside) in [
            ("ok.example/x", true),
            ("ok.example?x", true),
            ("ok.example@evil.com/x", false),
            ("evil.com/@ok.example", false),
            ("ok.example:/evil.com", false),
            ("http:/ok.example", false),
        ] {
            let one = serde_json::from_str(r#"{"hosts":["ok.example","http"]}"#).unwrap();
            let arguments = serde_json::json!({ "host": host }).to_string();
            let checked = check(&one, Some(&arguments), None);
            assert_eq!(checked.is_ok(), is_inside, "{host}: {checked:?}");
        }
    }
}
