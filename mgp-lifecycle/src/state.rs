//! The state of a server: a state machine, and a handle that clones share (MGP §11.2).

use std::fmt;
use std::sync::Arc;

use mgp_types::Timestamp;
use mgp_types::mgp::{LifecycleParams, ServerState};
use mgp_types::service::ServerId;
use mgp_types::sync::Mutex;
use tokio::sync::{broadcast, watch};

/// The maximum number of changes that a listener can lag behind; a slower listener loses the oldest changes.
const MAX_LAG: usize = 64;

/// One change of a server's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transition {
    /// The state of the server before the change.
    pub from: ServerState,
    /// The state of the server after the change.
    pub to: ServerState,
    /// The reason: one of the values of §11.4, or a description of what happened.
    pub reason: Arc<str>,
    /// The time when the state changed.
    pub at: Timestamp,
}

impl Transition {
    /// Returns the change as params of `notifications/mgp.lifecycle`.
    #[must_use]
    pub fn to_params(&self, server: Option<&ServerId>) -> LifecycleParams {
        let mut params = LifecycleParams::new(self.to.clone());
        params.server_id = server.map(ToString::to_string);
        params.previous_state = Some(self.from.clone());
        params.reason = Some(self.reason.to_string());
        params.timestamp = Some(self.at.clone());
        params
    }
}

/// The error for a change that §11.2 does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server cannot change from `{from}` to `{to}`")]
#[non_exhaustive]
pub struct IllegalTransition {
    /// The current state of the server, which stays unchanged.
    pub from: ServerState,
    /// The state that was requested for the server.
    pub to: ServerState,
}

/// Shared handle to the state of one server; clones refer to the same state.
///
/// ```
/// use mgp_lifecycle::StateHandle;
/// use mgp_types::mgp::ServerState;
///
/// let state = StateHandle::new(ServerState::Registered);
/// let mut changes = state.changes();
/// assert!(state.enter(ServerState::Connected, "too soon").is_err());
///
/// state.enter(ServerState::Connecting, "start").unwrap();
/// assert_eq!(state.get(), ServerState::Connecting);
/// assert_eq!(changes.try_recv().unwrap().from, ServerState::Registered);
/// ```
#[derive(Clone)]
pub struct StateHandle(Arc<Shared>);

struct Shared {
    current: Mutex<ServerState>,
    /// The reason for the latest change; it is written only while the lock of `current` is held.
    reason: Mutex<Option<Arc<str>>>,
    /// `true` if the supervisor is starting the server, or will start it again without a request; `None` if the server
    /// has no supervisor.
    is_start_pending: Mutex<Option<bool>>,
    latest: watch::Sender<ServerState>,
    changes: broadcast::Sender<Transition>,
}

impl StateHandle {
    /// Creates a handle for a server that is in `state` at first.
    #[must_use]
    pub fn new(state: ServerState) -> Self {
        Self(Arc::new(Shared {
            latest: watch::Sender::new(state.clone()),
            current: Mutex::new(state),
            reason: Mutex::default(),
            is_start_pending: Mutex::default(),
            changes: broadcast::Sender::new(MAX_LAG),
        }))
    }

    /// Returns the current state.
    #[must_use]
    pub fn get(&self) -> ServerState {
        self.0.current.lock().clone()
    }

    /// Returns the current state and the reason of the latest change, if there was one.
    #[must_use]
    pub fn latest(&self) -> (ServerState, Option<Arc<str>>) {
        let current = self.0.current.lock();
        let reason = self.0.reason.lock().clone();
        (current.clone(), reason)
    }

    /// Returns whether the supervisor is starting the server, or will start it again without a request; `None` if the
    /// server has no supervisor.
    pub(crate) fn is_start_pending(&self) -> Option<bool> {
        *self.0.is_start_pending.lock()
    }

    /// Sets whether the supervisor is starting the server, or will start it again without a request.
    pub(crate) fn set_start_pending(&self, is_pending: bool) {
        *self.0.is_start_pending.lock() = Some(is_pending);
    }

    /// Returns whether the server is connected and so accepts calls.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        *self.0.current.lock() == ServerState::Connected
    }

    /// Changes the state and notifies all listeners.
    ///
    /// # Errors
    /// Returns [`IllegalTransition`] if §11.2 does not allow this change; changing a state to itself is not allowed
    /// either. The state then stays the same.
    pub fn enter(
        &self,
        to: ServerState,
        reason: impl Into<Arc<str>>,
    ) -> Result<Transition, IllegalTransition> {
        let mut current = self.0.current.lock();
        if !current.can_become(&to) {
            return Err(IllegalTransition { from: current.clone(), to });
        }
        let from = std::mem::replace(&mut *current, to.clone());
        let change = Transition { from, to, reason: reason.into(), at: Timestamp::now() };
        *self.0.reason.lock() = Some(change.reason.clone());
        // Notify listeners while holding the lock, so that all of them receive the changes in the same order.
        self.0.latest.send_replace(change.to.clone());
        let _ = self.0.changes.send(change.clone());
        drop(current);
        tracing::debug!(from = %change.from, to = %change.to, reason = %change.reason, "server state changed");
        Ok(change)
    }

    /// Subscribes to the state. A slow listener receives only the latest state.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<ServerState> {
        self.0.latest.subscribe()
    }

    /// Subscribes to every change. A listener that is far behind loses the oldest changes, and gets an error with the
    /// number of lost changes.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<Transition> {
        self.0.changes.subscribe()
    }
}

impl fmt::Debug for StateHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State({})", self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_states_is_an_edge_or_refused() {
        for from in ServerState::KNOWN {
            for to in ServerState::KNOWN {
                let state = StateHandle::new(from.clone());
                let entered = state.enter(to.clone(), "test");
                assert_eq!(entered.is_ok(), from.can_become(to), "{from} to {to}");
                assert_eq!(state.get(), if entered.is_ok() { to.clone() } else { from.clone() });
                assert_eq!(*state.watch().borrow(), state.get());
            }
        }
    }

    #[test]
    fn a_change_is_written_as_in_the_specification() {
        let state = StateHandle::new(ServerState::Connected);
        let change = state.enter(ServerState::Draining, "operator_request").unwrap();
        let params = change.to_params(Some(&ServerId::from("mind.cerebras")));
        assert_eq!(
            serde_json::to_string(&params).unwrap(),
            format!(
                r#"{{"server_id":"mind.cerebras","previous_state":"connected","new_state":"draining","reason":"operator_request","timestamp":"{}"}}"#,
                change.at.as_str()
            )
        );
    }
}
