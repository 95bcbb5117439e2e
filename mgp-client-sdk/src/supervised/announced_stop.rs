//! The reason that a server announces for its own stop (MGP §11.4). It decides whether the server is started again.

use std::sync::OnceLock;

use mgp_types::mgp::{LifecycleParams, ServerState, ShutdownReason};
use mgp_types::service::ServerId;
use mgp_types::sync::Mutex;

/// The reason that a server announced for its stop, if any.
///
/// A gateway also announces the states of the servers that it calls, with their ids. Such an announcement does not mean
/// that the gateway itself stops.
pub(super) struct AnnouncedStop {
    reason: Mutex<Option<ShutdownReason>>,
    configured_id: Option<ServerId>,
    /// The id that the server claimed in its handshake, if any; unset until then.
    claimed_id: OnceLock<Option<String>>,
}

impl AnnouncedStop {
    pub(super) fn new(configured_id: Option<ServerId>) -> Self {
        Self { reason: Mutex::default(), configured_id, claimed_id: OnceLock::new() }
    }

    /// Records the id that the server claimed in its handshake.
    pub(super) fn set_claimed_id(&self, id: Option<String>) {
        let _ = self.claimed_id.set(id);
    }

    /// Records the reason of an announced stop, unless the announcement is about another server.
    pub(super) fn note(&self, change: &LifecycleParams) {
        let is_own = change.server_id.as_deref().is_none_or(|id| self.is_own(id));
        if is_own && change.new_state == ServerState::Draining {
            *self.reason.lock() = change.reason.as_deref().map(ShutdownReason::from);
        }
    }

    fn is_own(&self, id: &str) -> bool {
        let claimed = self.claimed_id.get().and_then(Option::as_deref);
        let own = claimed.or(self.configured_id.as_ref().map(ServerId::as_str));
        own == Some(id)
    }

    pub(super) fn take(&self) -> Option<ShutdownReason> {
        self.reason.lock().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stop_of_a_server_behind_a_gateway_is_not_that_of_the_gateway() {
        let stops = |claimed: Option<&str>, announced: Option<&str>| {
            let stop = AnnouncedStop::new(Some("inner".into()));
            stop.set_claimed_id(claimed.map(str::to_owned));
            let mut change = LifecycleParams::new(ServerState::Draining);
            change.server_id = announced.map(str::to_owned);
            change.reason = Some("idle_timeout".to_owned());
            stop.note(&change);
            stop.take() == Some(ShutdownReason::IdleTimeout)
        };
        assert!(stops(None, None) && stops(Some("mind"), None));
        assert!(stops(None, Some("inner")) && stops(Some("mind"), Some("mind")));
        assert!(!stops(None, Some("files")) && !stops(Some("mind"), Some("files")));
    }
}
