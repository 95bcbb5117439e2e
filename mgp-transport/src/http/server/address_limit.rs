//! The limit of open connections per address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use mgp_types::sync::Mutex;

use super::listener::ConnectionLimits;

/// The number of open connections per network; an entry is removed when its last connection closes.
#[derive(Debug)]
pub(super) struct AddressCounts {
    open: Mutex<HashMap<IpAddr, usize, ahash::RandomState>>,
    per_address: usize,
    per_loopback: usize,
}

/// A guard that counts a connection of a network until the guard is dropped.
#[derive(Debug)]
pub(super) struct CountedConnection {
    counts: Arc<AddressCounts>,
    from: IpAddr,
}

impl AddressCounts {
    pub(super) fn new(limits: &ConnectionLimits) -> Self {
        let (per_address, per_loopback) = (limits.per_address, limits.per_loopback);
        Self { open: Mutex::default(), per_address, per_loopback }
    }

    /// Counts a connection until the returned guard is dropped; returns `None` if its network has too many connections.
    pub(super) fn count(self: &Arc<Self>, from: IpAddr) -> Option<CountedConnection> {
        let from = network(from);
        let max = if from.is_loopback() { self.per_loopback } else { self.per_address };
        let mut open = self.open.lock();
        let current = open.get(&from).copied().unwrap_or(0);
        if current >= max {
            return None;
        }
        open.insert(from, current + 1);
        Some(CountedConnection { counts: Arc::clone(self), from })
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut open = self.counts.open.lock();
        if let Some(count) = open.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.from);
            }
        }
    }
}

/// Returns the network that counts as one client: an IPv4 address, or the 64-bit prefix of an IPv6 address, because one
/// household can use all addresses with the same prefix.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) if !ip.is_loopback() => {
            let network = u128::from(ip) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(one: &str, other: &str, is_same: bool) {
        let mut limits = ConnectionLimits::default();
        (limits.per_address, limits.per_loopback) = (1, 1);
        let counts = Arc::new(AddressCounts::new(&limits));
        let first = counts.count(one.parse().unwrap()).unwrap();
        let second = counts.count(other.parse().unwrap());
        assert_eq!(second.is_none(), is_same, "{one} {other}");
        drop((first, second));
        assert!(counts.open.lock().is_empty());
        assert!(counts.count(other.parse().unwrap()).is_some());
    }

    #[test]
    fn networks_are_counted_separately() {
        check("192.0.2.1", "192.0.2.1", true);
        check("192.0.2.1", "192.0.2.2", false);
        check("192.0.2.1", "::ffff:192.0.2.1", true);
        check("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true);
        check("2001:db8:1:2::1", "2001:db8:1:3::1", false);
        check("::1", "::1", true);
        check("::1", "::2", false);
        check("127.0.0.1", "127.0.0.1", true);
    }

    #[test]
    fn loopback_has_a_bound_of_its_own() {
        let mut limits = ConnectionLimits::default();
        (limits.per_address, limits.per_loopback) = (1, 3);
        let counts = Arc::new(AddressCounts::new(&limits));
        let from = |address: &str| counts.count(address.parse().unwrap());
        let local: Vec<_> = (0..4).map(|_| from("127.0.0.1")).collect();
        assert_eq!(local.iter().flatten().count(), 3);
        let far: Vec<_> = (0..4).map(|_| from("198.51.100.1")).collect();
        assert_eq!(far.iter().flatten().count(), 1);
    }
}
