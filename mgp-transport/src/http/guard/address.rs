//! Checks the addresses to which an untrusted URL resolves, e.g. a URL that a server supplied: only public addresses
//! are allowed.
//!
//! The check does no I/O. The caller resolves the name, and must connect to exactly the address that was checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The reason why an address must not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForbiddenAddress {
    /// The address belongs to this machine.
    #[error("it is an address of this machine")]
    Loopback,
    /// The address belongs to another machine, but the name is `localhost` or a name below it.
    #[error("`localhost` and names below it are reached on this machine only")]
    NotLoopback,
    /// The address belongs to a private network.
    #[error("it is an address of a private network")]
    Private,
    /// A link-local address. On cloud machines, such an address can belong to the metadata service, which returns the
    /// machine's credentials.
    #[error("it is an address of the local link")]
    LinkLocal,
    /// An address inside the network of an internet provider (100.64.0.0/10).
    #[error("it is an address inside a provider's network")]
    Shared,
    /// The address is a multicast or broadcast address.
    #[error("it is an address of many receivers")]
    Multicast,
    /// An address that belongs to no machine: unspecified, for documentation, or reserved.
    #[error("it is reserved and not an address of a server")]
    Reserved,
}

/// Checks whether an address is public. For an IPv6 address that embeds an IPv4 address, checks the embedded address.
///
/// ```
/// use mgp_transport::http::{ForbiddenAddress, check_address};
///
/// assert_eq!(check_address("93.184.215.14".parse().unwrap()), Ok(()));
/// assert_eq!(check_address("169.254.169.254".parse().unwrap()), Err(ForbiddenAddress::LinkLocal));
/// assert_eq!(check_address("64:ff9b::a00:1".parse().unwrap()), Err(ForbiddenAddress::Private));
/// ```
///
/// # Errors
/// Returns the reason why the address must not be reached.
pub fn check_address(address: IpAddr) -> Result<(), ForbiddenAddress> {
    match address {
        IpAddr::V4(address) => check_v4(address),
        IpAddr::V6(address) => check_v6(address),
    }
}

/// IPv4 networks without public servers, with the length of their prefixes.
const V4: &[(Ipv4Addr, u32, ForbiddenAddress)] = &[
    (Ipv4Addr::UNSPECIFIED, 8, ForbiddenAddress::Reserved),
    (Ipv4Addr::new(10, 0, 0, 0), 8, ForbiddenAddress::Private),
    (Ipv4Addr::new(100, 64, 0, 0), 10, ForbiddenAddress::Shared),
    (Ipv4Addr::new(127, 0, 0, 0), 8, ForbiddenAddress::Loopback),
    (Ipv4Addr::new(169, 254, 0, 0), 16, ForbiddenAddress::LinkLocal),
    (Ipv4Addr::new(172, 16, 0, 0), 12, ForbiddenAddress::Private),
    // The next three networks are for protocol assignments, documentation, and 6to4 relays.
    (Ipv4Addr::new(192, 0, 0, 0), 24, ForbiddenAddress::Reserved),
    (Ipv4Addr::new(192, 0, 2, 0), 24, ForbiddenAddress::Reserved),
    (Ipv4Addr::new(192, 88, 99, 0), 24, ForbiddenAddress::Reserved),
    (Ipv4Addr::new(192, 168, 0, 0), 16, ForbiddenAddress::Private),
    // The next three networks are for benchmarks and documentation.
    (Ipv4Addr::new(198, 18, 0, 0), 15, ForbiddenAddress::Reserved),
    (Ipv4Addr::new(198, 51, 100, 0), 24, ForbiddenAddress::Reserved),
    (Ipv4Addr::new(203, 0, 113, 0), 24, ForbiddenAddress::Reserved),
    (Ipv4Addr::new(224, 0, 0, 0), 4, ForbiddenAddress::Multicast),
    (Ipv4Addr::BROADCAST, 32, ForbiddenAddress::Multicast),
    (Ipv4Addr::new(240, 0, 0, 0), 4, ForbiddenAddress::Reserved),
];

/// IPv6 networks that embed an IPv4 address: network address, prefix length, number of bits after the IPv4 address.
const CARRIERS: &[(Ipv6Addr, u32, u32)] = &[
    // In this order: mapped addresses, translated addresses (SIIT), NAT64, 6to4, and compatible addresses.
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 0),
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96, 0),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, 0),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 80),
    (Ipv6Addr::UNSPECIFIED, 96, 0),
];

/// IPv6 networks without public servers. Addresses outside `2000::/3` are forbidden as well, because none are assigned
/// there.
const V6: &[(Ipv6Addr, u32, ForbiddenAddress)] = &[
    // NAT64 with a network-specific prefix: such addresses lead to hosts inside the network.
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, ForbiddenAddress::Private),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, ForbiddenAddress::Private),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, ForbiddenAddress::LinkLocal),
    // Site-local addresses, which are deprecated.
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, ForbiddenAddress::Private),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, ForbiddenAddress::Multicast),
    // The last three networks are for protocol assignments (with Teredo, which hides its target) and documentation.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, ForbiddenAddress::Reserved),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, ForbiddenAddress::Reserved),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, ForbiddenAddress::Reserved),
];

fn check_v4(address: Ipv4Addr) -> Result<(), ForbiddenAddress> {
    let is_in = |network: Ipv4Addr, bits: u32| {
        (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
    };
    let found = V4.iter().find(|(network, bits, _)| is_in(*network, *bits));
    found.map_or(Ok(()), |(_, _, why)| Err(*why))
}

fn check_v6(address: Ipv6Addr) -> Result<(), ForbiddenAddress> {
    let is_in = |network: Ipv6Addr, bits: u32| {
        (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
    };
    if address == Ipv6Addr::LOCALHOST {
        return Err(ForbiddenAddress::Loopback);
    }
    if let Some((_, _, behind)) = CARRIERS.iter().find(|(network, bits, _)| is_in(*network, *bits))
    {
        let [.., a, b, c, d] = (address.to_bits() >> behind).to_be_bytes();
        return check_v4(Ipv4Addr::new(a, b, c, d));
    }
    if let Some((_, _, why)) = V6.iter().find(|(network, bits, _)| is_in(*network, *bits)) {
        return Err(*why);
    }
    if address.segments()[0] >> 13 == 1 { Ok(()) } else { Err(ForbiddenAddress::Reserved) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(expected: Result<(), ForbiddenAddress>, addresses: &str) {
        for address in addresses.split_whitespace() {
            assert_eq!(check_address(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn the_table() {
        check(
            Ok(()),
            "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 \
             128.0.0.0 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.167.255.255 \
             192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 2606:4700::1111 2a00::1 \
             ::ffff:1.1.1.1 64:ff9b::101:101 2002:101:101::1",
        );
        check(
            Err(ForbiddenAddress::Loopback),
            "127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: \
             ::127.0.0.1 ::ffff:0:127.0.0.1",
        );
        check(
            Err(ForbiddenAddress::Private),
            "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.1 fc00:: \
             fdff:ffff::1 fec0::1 ::ffff:10.0.0.1 64:ff9b::c0a8:1 64:ff9b:1::1 2002:a00:1::",
        );
        check(
            Err(ForbiddenAddress::LinkLocal),
            "169.254.0.0 169.254.169.254 fe80::1 febf::1 ::ffff:169.254.169.254 \
             2002:a9fe:a9fe::1",
        );
        check(Err(ForbiddenAddress::Shared), "100.64.0.0 100.127.255.255 ::ffff:100.100.100.200");
        check(
            Err(ForbiddenAddress::Multicast),
            "224.0.0.1 239.255.255.255 255.255.255.255 ff02::1",
        );
        check(
            Err(ForbiddenAddress::Reserved),
            "0.0.0.0 0.255.255.255 192.0.0.1 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.9 \
             240.0.0.1 :: 2001:db8::1 2001::1 3fff::1 4000::1 100::1 ::ffff:0.0.0.0",
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
