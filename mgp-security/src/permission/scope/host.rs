//! Checks whether the hosts and ports among a call's arguments are within the limits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::finding::{About, Findings};
use super::{Doors, Outside, shown};

/// The maximum length of a host name, in bytes.
const NAME_MAX: usize = 253;

/// Checks all hosts among the arguments.
pub(super) fn check(
    doors: &Doors<'_>,
    ports: Option<&[u16]>,
    found: &Findings,
) -> Result<(), Outside> {
    let texts = found.texts(About::Host)?;
    if !found.declares(About::Host) {
        return Err("only some hosts or ports are open, and no argument names one".to_owned());
    }
    let closed = doors.closed.iter().map(|entry| {
        Entry::read(entry).map_err(|why| format!("the closed host `{entry}` cannot be read: {why}"))
    });
    let closed = closed.collect::<Result<Vec<_>, _>>()?;
    // An entry that cannot be parsed allows nothing.
    let open: Option<Vec<Entry>> =
        doors.open.map(|open| open.iter().filter_map(|entry| Entry::read(entry).ok()).collect());
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
            one(&closed, open.as_deref(), ports, &place.host, port)
                .map_err(|why| format!("the host `{}` {why}", shown(text)))?;
        }
    }
    Ok(())
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
    closed: &[Entry],
    open: Option<&[Entry]>,
    ports: Option<&[u16]>,
    host: &Host,
    port: Option<u16>,
) -> Result<(), Outside> {
    // If the port of the host is unknown, an entry with a port denies the host but never allows it.
    if closed.iter().any(|entry| {
        entry.is_of(host) && (port.is_none() || entry.port.is_none() || entry.port == port)
    }) {
        return Err("is closed".to_owned());
    }
    if open.is_some_and(|open| {
        !open.iter().any(|entry| entry.is_of(host) && (entry.port.is_none() || entry.port == port))
    }) {
        return Err("is not open".to_owned());
    }
    match (ports, port) {
        (None, _) => Ok(()),
        (Some(_), None) => Err("is called without a port that is known".to_owned()),
        (Some(ports), Some(port)) if ports.contains(&port) => Ok(()),
        (Some(_), Some(port)) => Err(format!("is called at port {port}, which is not open")),
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
            let inner = inner.strip_suffix(']').ok_or("is no address")?;
            let ip: Ipv6Addr = inner.parse().map_err(|_| "is no address")?;
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
            return Err("is no host name".to_owned());
        }
        // Resolvers interpret `127.1`, `0x7f.1` and `2130706433` as addresses.
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
    /// The port that is used: the written one, or the default of the scheme; `None` if it is unknown.
    port: Option<u16>,
    /// The port that is written in the text, if there is one.
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
        let is_url = rest.len() != text.len();
        let is_scheme = |scheme: &String| {
            scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme.bytes().all(|letter| {
                    letter.is_ascii_alphanumeric() || matches!(letter, b'+' | b'-' | b'.')
                })
        };
        if scheme.as_ref().is_some_and(|scheme| scheme == "file" || !is_scheme(scheme)) {
            return Err("is no address of a host".to_owned());
        }
        let end =
            if is_url { rest.find(['/', '?', '#']).unwrap_or(rest.len()) } else { rest.len() };
        let authority = &rest[..end];
        if authority.contains('@') {
            return Err("hides behind a user name".to_owned());
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
    let digits = behind.strip_prefix(':').ok_or("is no host name")?;
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
