//! Host names and addresses of this machine (RFC 6761 §6.3, RFC 1122 §3.2.1.3, RFC 4291 §2.5.3).

use std::net::{IpAddr, Ipv6Addr};

/// Returns whether a URL's host, without the port, can only be this machine: a loopback address, `localhost`, or a
/// name that ends in `.localhost`.
///
/// Names are not resolved. Forms that only some parsers accept as an address (`127.1`, `0x7f000001`) return
/// `false`.
///
/// ```
/// use mgp_types::service::is_loopback_host;
///
/// assert!(is_loopback_host("[::1]"));
/// assert!(!is_loopback_host("localhost.example"));
/// ```
#[must_use]
pub fn is_loopback_host(host: &str) -> bool {
    if let Some(bracketed) = host.strip_prefix('[') {
        let address = bracketed.strip_suffix(']').map(str::parse::<Ipv6Addr>);
        return address.and_then(Result::ok).is_some_and(|address| is_loopback(address.into()));
    }
    host.parse().map_or_else(|_| is_below_localhost(host), is_loopback)
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn is_below_localhost(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        !label.is_empty() && label.bytes().all(is_letter)
    };
    let mut labels = name.strip_suffix('.').unwrap_or(name).rsplit('.');
    labels.next().is_some_and(|last| last.eq_ignore_ascii_case("localhost")) && labels.all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_this_machine_or_not() {
        #[track_caller]
        fn check(hosts: &[&str], expected: bool) {
            for host in hosts {
                assert_eq!(is_loopback_host(host), expected, "{host}");
            }
        }
        check(&["localhost", "LocalHost", "localhost.", "a.localhost", "a-1.B_2.localhost."], true);
        check(&["127.0.0.1", "127.0.0.2", "127.255.255.254"], true);
        check(&["::1", "[::1]", "[0:0:0:0:0:0:0:1]"], true);
        check(&["[::ffff:127.0.0.1]", "::ffff:127.8.9.1", "[::FFFF:7f00:1]"], true);
        check(&["", ".", "localhost..", ".localhost", "a..localhost", "localhost "], false);
        check(&["notlocalhost", "evil-localhost", "localhost.example", "localtest.me"], false);
        check(&["127.0.0.1.example", "127.0.0.1.", "127.1", "2130706433", "0x7f000001"], false);
        check(&["0.0.0.0", "10.0.0.1", "128.0.0.1", "169.254.169.254", "127.0.0.256"], false);
        check(&["[::]", "[::2]", "[::127.0.0.1]", "[::ffff:10.0.0.1]", "[fe80::1]"], false);
        check(&["[::1", "::1]", "[[::1]]", "[127.0.0.1]", "[localhost]", "[::1%lo]"], false);
        check(&["a@localhost", "evil.example@a.localhost", "evil.example/.localhost"], false);
        check(&["localhost:80", "127.0.0.1:80", "evil.example\\.localhost", "ä.localhost"], false);
    }
}
