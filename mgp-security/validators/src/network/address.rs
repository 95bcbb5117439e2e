//! Addresses that do not belong to the public internet (IANA special-purpose registries).

#![expect(clippy::match_same_arms, reason = "a row for each registry entry")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 blocks that are not globally reachable, each with the number of its leading bits.
const V4: &[([u8; 4], u32)] = &[
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
    // The metadata service of a cloud provider. It has a public address, so it must be listed here.
    ([168, 63, 129, 16], 32),
];
/// IPv6 blocks within `2000::/3` that are not globally reachable.
const V6: &[([u16; 3], u32)] = &[
    // 2001::/23 is reserved for protocols. Some parts of it are reachable, but services do not use them.
    ([0x2001, 0, 0], 23),
    ([0x2001, 0xdb8, 0], 32),
    ([0x3fff, 0, 0], 20),
    ([0x2620, 0x4f, 0x8000], 48),
];

/// Returns whether an address belongs to the public internet. For NAT64 and 6to4 addresses, the IPv4 address that they
/// contain decides.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = u32::from(address);
    !V4.iter().any(|(start, length)| {
        let mask = u32::MAX << (32 - length);
        bits & mask == u32::from(Ipv4Addr::from(*start))
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match parts {
        // NAT64: packets reach the IPv4 address at the end, so this address decides.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => return is_public_v4(v4(high, low)),
        // 6to4: packets reach the IPv4 address inside, so this address decides.
        [0x2002, high, low, ..] => return is_public_v4(v4(high, low)),
        _ => {}
    }
    // Refuse everything outside of `2000::/3`: the unspecified, loopback, mapped, unique-local, link-local and
    // multicast addresses.
    if parts[0] & 0xe000 != 0x2000 {
        return false;
    }
    let bits = u128::from(address);
    !V6.iter().any(|(start, length)| {
        let start = u128::from(Ipv6Addr::new(start[0], start[1], start[2], 0, 0, 0, 0, 0));
        bits & (u128::MAX << (128 - length)) == start
    })
}
