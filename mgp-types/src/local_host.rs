//! Hosts outside of the public internet that an operator permits (MGP §4.5).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const LOCALHOST: &str = "localhost";

/// The maximum length of the name of a host, in bytes (RFC 1035 §2.3.4).
const MAX_NAME: usize = 253;

/// The names of the metadata services of clouds; names below them count too.
const METADATA_NAMES: [&str; 10] = [
    "metadata",
    "instance-data",
    "rancher-metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
    "metadata.packet.net",
];

/// Addresses of metadata services that are not link-local: Azure, Alibaba, Oracle, and AWS and Google over IPv6.
const METADATA_ADDRESSES: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// A host outside of the public internet that calls of a server may reach, although the validators refuse such hosts.
///
/// A text names it by a name, an IPv4 address or an IPv6 address in brackets; `:PORT` behind it permits one port only.
/// `localhost` is also 127.0.0.1 and `[::1]`. The metadata services of clouds are refused.
///
/// ```
/// use mgp_types::LocalHost;
///
/// let host: LocalHost = "LOCALHOST:3000".parse().unwrap();
/// assert_eq!(host.to_string(), "localhost:3000");
/// assert!(host.permits_name("localhost.", Some(3000)));
/// assert!(host.permits_address("127.0.0.1".parse().unwrap(), Some(3000)));
/// assert!(!host.permits_name("localhost", Some(22)));
/// assert!("169.254.169.254".parse::<LocalHost>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LocalHost {
    place: Place,
    /// The only port; `None` for all ports.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A name in lower case, without a dot at its end.
    Name(String),
    /// An address; an IPv4 address within an IPv6 address is kept as an IPv4 address.
    Address(IpAddr),
}

/// The reason why a text is not a [`LocalHost`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocalHostError {
    /// The text is not a host with an optional port.
    #[error(
        "`{0}` is not a host; write a host and, if needed, a port, e.g. `localhost:3000`, `10.1.2.3` or `[fd00::1]:443`"
    )]
    Malformed(String),
    /// The host is link-local or a metadata service of a cloud.
    #[error("`{0}` is not permitted: it can be the metadata service of a cloud")]
    Metadata(String),
}

impl LocalHost {
    /// Returns whether this value permits a name and a port. `None` means that the port is not known, and is permitted
    /// only by a value without a port.
    #[must_use]
    pub fn permits_name(&self, name: &str, port: Option<u16>) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name);
        self.permits_port(port)
            && matches!(&self.place, Place::Name(own) if own.eq_ignore_ascii_case(name))
    }

    /// Returns whether this value permits an address and a port. `None` means that the port is not known, and is
    /// permitted only by a value without a port.
    ///
    /// An IPv4 address within an IPv6 address (`::ffff:127.0.0.1`) counts as the IPv4 address.
    #[must_use]
    pub fn permits_address(&self, address: IpAddr, port: Option<u16>) -> bool {
        let address = address.to_canonical();
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        self.permits_port(port)
            && match &self.place {
                Place::Address(own) => *own == address,
                Place::Name(name) => name == LOCALHOST && loopback.contains(&address),
            }
    }

    fn permits_port(&self, port: Option<u16>) -> bool {
        self.port.is_none() || self.port == port
    }

    /// Returns whether an address can be that of a metadata service of a cloud, which is never a permitted host. All
    /// link-local addresses count, and IPv6 addresses that end in such an IPv4 address or contain it (6to4).
    #[must_use]
    pub fn is_metadata(address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => v4.is_link_local() || METADATA_ADDRESSES.contains(&address),
            IpAddr::V6(v6) => {
                let parts = v6.segments();
                let at = if parts[0] == 0x2002 { 1 } else { 6 };
                let bits = (u32::from(parts[at]) << 16) | u32::from(parts[at + 1]);
                parts[0] & 0xffc0 == 0xfe80
                    || METADATA_ADDRESSES.contains(&address)
                    || Self::is_metadata(Ipv4Addr::from(bits).into())
            }
        }
    }
}

impl fmt::Display for LocalHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Name(name) => f.write_str(name)?,
            Place::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            Place::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl FromStr for LocalHost {
    type Err = LocalHostError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || LocalHostError::Malformed(text.to_owned());
        let (host, port) = match text.rsplit_once(':') {
            // The colons of an IPv6 address are within its brackets.
            Some((host, port)) if !port.ends_with(']') => {
                (host, Some(parse_port(port).ok_or_else(malformed)?))
            }
            _ => (text, None),
        };
        let place = Place::parse(host).ok_or_else(malformed)?;
        let is_metadata = match &place {
            Place::Address(address) => Self::is_metadata(*address),
            Place::Name(name) => is_metadata_name(name),
        };
        if is_metadata {
            return Err(LocalHostError::Metadata(text.to_owned()));
        }
        Ok(Self { place, port })
    }
}

impl TryFrom<String> for LocalHost {
    type Error = LocalHostError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<LocalHost> for String {
    fn from(host: LocalHost) -> Self {
        host.to_string()
    }
}

impl Place {
    fn parse(host: &str) -> Option<Self> {
        if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            let address: Ipv6Addr = address.parse().ok()?;
            return Some(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = host.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        let name = host.strip_suffix('.').unwrap_or(host);
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_plain);
        // Refuse a name whose last part is a number: clients take such a name for an IPv4 address (`127.1`, `0x7f.1`).
        let last = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
        let is_hex = |digits: &str| digits.bytes().all(|b| b.is_ascii_hexdigit());
        let is_number =
            last.bytes().all(|b| b.is_ascii_digit()) || last.strip_prefix("0x").is_some_and(is_hex);
        let is_name = name.len() <= MAX_NAME && name.split('.').all(is_label) && !is_number;
        is_name.then(|| Self::Name(name.to_ascii_lowercase()))
    }
}

/// Parses a port; returns `None` for 0 and for a text that has other characters than digits.
fn parse_port(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port > 0)
}

/// Returns whether a name is that of a metadata service, or contains the address of one, as names of services such as
/// `nip.io` do (`169-254-169-254.nip.io`).
fn is_metadata_name(name: &str) -> bool {
    let is_below = |known: &&str| {
        name.strip_suffix(*known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let parts: Vec<&str> = name.split(['.', '-']).collect();
    let dotted = parts.windows(4).filter_map(|four| four.join(".").parse::<Ipv4Addr>().ok());
    let hex = parts.iter().filter(|part| part.len() == 8);
    let hex = hex.filter_map(|part| u32::from_str_radix(part, 16).ok()).map(Ipv4Addr::from);
    let v6 = name.split('.').filter_map(|label| label.replace('-', ":").parse::<Ipv6Addr>().ok());
    let mut addresses = dotted.chain(hex).map(IpAddr::V4).chain(v6.map(IpAddr::V6));
    METADATA_NAMES.iter().any(is_below) || addresses.any(LocalHost::is_metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> LocalHost {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn hosts_are_read_and_written_in_one_form() {
        for (text, written) in [
            ("localhost", "localhost"),
            ("LocalHost.:3000", "localhost:3000"),
            ("10.1.2.3", "10.1.2.3"),
            ("[FD00::0001]:443", "[fd00::1]:443"),
            ("[::1]", "[::1]"),
            ("[::ffff:10.1.2.3]:80", "10.1.2.3:80"),
            ("wiki.corp.example:443", "wiki.corp.example:443"),
            ("app.10.0.0.1.nip.io:8080", "app.10.0.0.1.nip.io:8080"),
            ("db_1", "db_1"),
        ] {
            assert_eq!(host(text).to_string(), written);
            assert_eq!(host(written), host(text));
            let json = serde_json::to_string(&host(text)).unwrap();
            assert_eq!(json, format!("\"{written}\""));
            assert_eq!(serde_json::from_str::<LocalHost>(&json).unwrap(), host(text));
        }
    }

    #[test]
    fn other_texts_are_not_hosts() {
        for text in [
            "",
            ":3000",
            "localhost:",
            "localhost:0",
            "localhost:+80",
            "localhost:65536",
            "localhost:x",
            "http://localhost:3000",
            "localhost:3000/x",
            "me@localhost",
            "me:pw@localhost:3000",
            "*.corp.example",
            "*",
            "a..b",
            " localhost",
            "local host",
            "10.0.0.0/8",
            "127.1",
            "2130706433",
            "0x7f.0.0.0x1",
            "010.0.0.1",
            "::1",
            "fd00::1:443",
            "[::1",
            "[::1]x",
            "[fe80::1%eth0]",
            "[localhost]",
            "köln.example",
            "${HOST}",
        ] {
            let error = text.parse::<LocalHost>().unwrap_err();
            assert_eq!(error, LocalHostError::Malformed(text.to_owned()));
        }
    }

    #[test]
    fn metadata_services_are_never_permitted() {
        for text in [
            "169.254.169.254",
            "169.254.169.254:80",
            "169.254.170.2",
            "[::ffff:169.254.169.254]",
            "[::169.254.169.254]",
            "[64:ff9b::a9fe:a9fe]",
            "[2002:a9fe:a9fe::1]",
            "[fd00:ec2::254]",
            "[fd20:ce::254]:80",
            "[fe80::1]",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "metadata",
            "Metadata.Google.Internal.",
            "x.metadata.google.internal",
            "metadata.goog:80",
            "instance-data.ec2.internal",
            "169.254.169.254.nip.io",
            "app-169-254-169-254.nip.io",
            "a9fea9fe.nip.io",
            "fd00-ec2--254.sslip.io",
        ] {
            let error = text.parse::<LocalHost>().unwrap_err();
            assert_eq!(error, LocalHostError::Metadata(text.to_owned()));
        }
    }

    #[test]
    fn a_host_permits_its_own_names_addresses_and_ports_only() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let local = host("localhost:3000");
        for name in ["localhost", "LOCALHOST", "localhost."] {
            assert!(local.permits_name(name, Some(3000)), "{name}");
        }
        for name in ["localhost.evil.example", "a.localhost", "localhost.localdomain", "localhos"] {
            assert!(!local.permits_name(name, Some(3000)), "{name}");
        }
        assert!(!local.permits_name("localhost", Some(3001)));
        assert!(!local.permits_name("localhost", None));
        for own in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(local.permits_address(address(own), Some(3000)), "{own}");
            assert!(!local.permits_address(address(own), Some(22)), "{own}");
        }
        for other in ["127.0.0.2", "0.0.0.0", "::", "10.0.0.1"] {
            assert!(!local.permits_address(address(other), Some(3000)), "{other}");
        }
        let all = host("10.1.2.3");
        assert!(all.permits_address(address("10.1.2.3"), None));
        assert!(all.permits_address(address("::ffff:10.1.2.3"), Some(1)));
        assert!(!all.permits_address(address("10.1.2.4"), None));
        assert!(!host("127.0.0.1").permits_name("localhost", None));
    }
}
