//! Which addresses may be reached on behalf of a URL that somebody else chose: public ones.
//!
//! It is pure; names are resolved elsewhere, and what is judged here is what is connected to.
//!
//! Applies to: outbound.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address may not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Forbidden {
    /// This machine.
    #[error("it is an address of this machine")]
    Loopback,
    /// A private network.
    #[error("it is an address of a private network")]
    Private,
    /// The local link; cloud machines find their secrets there.
    #[error("it is an address of the local link")]
    LinkLocal,
    /// The inside of a provider (100.64.0.0/10).
    #[error("it is an address inside a provider's network")]
    Shared,
    /// Many receivers, or all of them.
    #[error("it is an address of many receivers")]
    Multicast,
    /// No address of a machine: unspecified, documentation, reserved.
    #[error("it is reserved and no address of a server")]
    Reserved,
}

/// Judges an address; forms that carry one of IPv4 inside are judged by that.
///
/// ```
/// use mgp_transport::http::{Forbidden, check_address};
///
/// assert_eq!(check_address("93.184.215.14".parse().unwrap()), Ok(()));
/// assert_eq!(check_address("169.254.169.254".parse().unwrap()), Err(Forbidden::LinkLocal));
/// assert_eq!(check_address("64:ff9b::a00:1".parse().unwrap()), Err(Forbidden::Private));
/// ```
///
/// # Errors
/// The rule that forbids it.
pub fn check_address(address: IpAddr) -> Result<(), Forbidden> {
    match address {
        IpAddr::V4(address) => check_v4(address),
        IpAddr::V6(address) => check_v6(address),
    }
}

fn check_v4(address: Ipv4Addr) -> Result<(), Forbidden> {
    match address.octets() {
        [127, ..] => Err(Forbidden::Loopback),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Err(Forbidden::Private),
        [169, 254, ..] => Err(Forbidden::LinkLocal),
        [100, 64..=127, ..] => Err(Forbidden::Shared),
        [224..=239, ..] | [255, 255, 255, 255] => Err(Forbidden::Multicast),
        // This network, protocol assignments, documentation, 6to4 relays, benchmarks, the future.
        [0, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [240..=255, ..] => Err(Forbidden::Reserved),
        _ => Ok(()),
    }
}

fn check_v6(address: Ipv6Addr) -> Result<(), Forbidden> {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        check_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Err(Forbidden::Reserved),
        [0, 0, 0, 0, 0, 0, 0, 1] => Err(Forbidden::Loopback),
        // Mapped, translated (SIIT), compatible, NAT64, and 6to4 hold an address of IPv4.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0, 0, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => v4(high, low),
        // NAT64 with a prefix of the network's own leads inside; Teredo hides where it leads.
        [0x64, 0xff9b, 1, ..] => Err(Forbidden::Private),
        [0xfc00..=0xfdff, ..] => Err(Forbidden::Private),
        [0xfe80..=0xfebf, ..] => Err(Forbidden::LinkLocal),
        // Site-local, which nobody should have any more.
        [0xfec0..=0xfeff, ..] => Err(Forbidden::Private),
        [0xff00..=0xffff, ..] => Err(Forbidden::Multicast),
        // Of what is assigned, protocol assignments and documentation are no servers either.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Err(Forbidden::Reserved),
        [0x2000..=0x3fff, ..] => Ok(()),
        _ => Err(Forbidden::Reserved),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(expected: Result<(), Forbidden>, addresses: &[&str]) {
        for address in addresses {
            assert_eq!(check_address(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn the_table() {
        check(
            Ok(()),
            &[
                "1.1.1.1",
                "9.255.255.255",
                "11.0.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "126.255.255.255",
                "128.0.0.0",
                "169.253.255.255",
                "169.255.0.0",
                "172.15.255.255",
                "172.32.0.0",
                "192.167.255.255",
                "192.169.0.0",
                "198.17.255.255",
                "198.20.0.0",
                "223.255.255.255",
                "2606:4700::1111",
                "2a00::1",
                "::ffff:1.1.1.1",
                "64:ff9b::101:101",
                "2002:101:101::1",
            ],
        );
        check(
            Err(Forbidden::Loopback),
            &[
                "127.0.0.1",
                "127.255.255.255",
                "::1",
                "::ffff:127.0.0.1",
                "64:ff9b::7f00:1",
                "2002:7f00:1::",
                "::127.0.0.1",
                "::ffff:0:127.0.0.1",
            ],
        );
        check(
            Err(Forbidden::Private),
            &[
                "10.0.0.0",
                "10.255.255.255",
                "172.16.0.0",
                "172.31.255.255",
                "192.168.0.1",
                "fc00::",
                "fdff:ffff::1",
                "fec0::1",
                "::ffff:10.0.0.1",
                "64:ff9b::c0a8:1",
                "64:ff9b:1::1",
                "2002:a00:1::",
            ],
        );
        check(
            Err(Forbidden::LinkLocal),
            &[
                "169.254.0.0",
                "169.254.169.254",
                "fe80::1",
                "febf::1",
                "::ffff:169.254.169.254",
                "2002:a9fe:a9fe::1",
            ],
        );
        check(Err(Forbidden::Shared), &["100.64.0.0", "100.127.255.255", "::ffff:100.100.100.200"]);
        check(
            Err(Forbidden::Multicast),
            &["224.0.0.1", "239.255.255.255", "255.255.255.255", "ff02::1"],
        );
        check(
            Err(Forbidden::Reserved),
            &[
                "0.0.0.0",
                "0.255.255.255",
                "192.0.0.1",
                "192.0.2.1",
                "198.18.0.1",
                "198.51.100.1",
                "203.0.113.9",
                "240.0.0.1",
                "::",
                "2001:db8::1",
                "2001::1",
                "3fff::1",
                "4000::1",
                "100::1",
                "::ffff:0.0.0.0",
            ],
        );
    }

    proptest! {
        #[test]
        fn no_form_of_ipv6_hides_an_address_of_ipv4(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let expected = check_v4(v4);
            let mapped = v4.to_ipv6_mapped();
            let nat64 = Ipv6Addr::from_bits((0x0064_ff9b_u128 << 96) | u128::from(bits));
            let six_to_four = Ipv6Addr::from_bits((0x2002_u128 << 112) | (u128::from(bits) << 80));
            for address in [mapped, nat64, six_to_four] {
                prop_assert_eq!(check_address(address.into()), expected, "{}", address);
            }
        }
    }
}
