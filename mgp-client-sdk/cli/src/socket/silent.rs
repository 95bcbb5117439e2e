//! Connections whose client has not sent its first line yet.
//!
//! They do not count in the limit of connections, so that programs that send nothing cannot keep others out. They have
//! a limit of their own, at which a new connection displaces the oldest. Ordinary clients are not affected, because
//! they send their first line immediately.

use std::collections::VecDeque;
use std::sync::Arc;

use mgp_types::sync::Mutex;
use tokio::sync::Notify;

/// The maximum number of connections whose client has not sent its first line yet.
const MAX_SILENT: usize = 64;

/// The connections whose client has not sent its first line yet, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct SilentConnections(Arc<Mutex<VecDeque<Arc<Notify>>>>);

/// The entry of one connection in [`SilentConnections`]; dropping this value removes the entry.
#[derive(Debug)]
pub(super) struct SilentPlace {
    all: SilentConnections,
    displaced: Arc<Notify>,
}

impl SilentConnections {
    /// Adds a connection; if there are too many, the oldest is displaced.
    pub(super) fn add(&self) -> SilentPlace {
        let displaced = Arc::new(Notify::new());
        let mut places = self.0.lock();
        if places.len() >= MAX_SILENT
            && let Some(oldest) = places.pop_front()
        {
            oldest.notify_one();
        }
        places.push_back(Arc::clone(&displaced));
        drop(places);
        SilentPlace { all: self.clone(), displaced }
    }
}

impl SilentPlace {
    /// Waits until a later connection displaces this one.
    pub(super) async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for SilentPlace {
    fn drop(&mut self) {
        self.all.0.lock().retain(|place| !Arc::ptr_eq(place, &self.displaced));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn the_oldest_silent_connection_makes_room_for_a_new_one() {
        let all = SilentConnections::default();
        let mut places: Vec<_> = (0..MAX_SILENT).map(|_| all.add()).collect();
        assert!(places[0].displaced().now_or_never().is_none());
        places.push(all.add());
        assert!(places[0].displaced().now_or_never().is_some());
        assert!(places[1].displaced().now_or_never().is_none());
        drop(places);
        assert_eq!(all.0.lock().len(), 0);
    }
}
