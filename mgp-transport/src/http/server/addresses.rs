//! How many connections one address has open.
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::listener::ConnectionLimits;

/// Open connections by where they come from; a place is forgotten with its last connection.
#[derive(Debug)]
pub(super) struct Addresses {
    open: Mutex<HashMap<IpAddr, usize, ahash::RandomState>>,
    each: usize,
    loopback: usize,
}

/// A connection that is counted.
#[derive(Debug)]
pub(super) struct Counted {
    addresses: Arc<Addresses>,
    from: IpAddr,
}

impl Addresses {
    pub(super) fn new(limits: &ConnectionLimits) -> Self {
        let (each, loopback) = (limits.per_address, limits.per_loopback);
        Self { open: Mutex::default(), each, loopback }
    }

    /// Counts a connection until the guard is dropped; none where its place has enough of them.
    pub(super) fn enter(self: &Arc<Self>, from: IpAddr) -> Option<Counted> {
        let from = place(from);
        let most = if from.is_loopback() { self.loopback } else { self.each };
        let mut open = self.open();
        let count = open.get(&from).copied().unwrap_or(0);
        if count >= most {
            return None;
        }
        open.insert(from, count + 1);
        Some(Counted { addresses: Arc::clone(self), from })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize, ahash::RandomState>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.addresses.open();
        if let Some(count) = open.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.from);
            }
        }
    }
}

/// What counts as one place: of the sixth version a network of 64 bits, which is what one household gets.
fn place(address: IpAddr) -> IpAddr {
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
        let addresses = Arc::new(Addresses::new(&limits));
        let first = addresses.enter(one.parse().unwrap()).unwrap();
        let second = addresses.enter(other.parse().unwrap());
        assert_eq!(second.is_none(), is_same, "{one} {other}");
        drop((first, second));
        assert!(addresses.open().is_empty());
        assert!(addresses.enter(other.parse().unwrap()).is_some());
    }

    #[test]
    fn places_are_counted_apart() {
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
        let addresses = Arc::new(Addresses::new(&limits));
        let from = |address: &str| addresses.enter(address.parse().unwrap());
        let local: Vec<_> = (0..4).map(|_| from("127.0.0.1")).collect();
        assert_eq!(local.iter().flatten().count(), 3);
        let far: Vec<_> = (0..4).map(|_| from("198.51.100.1")).collect();
        assert_eq!(far.iter().flatten().count(), 1);
    }
}
