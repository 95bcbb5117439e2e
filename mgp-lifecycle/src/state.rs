//! The state of a server: a pure machine, and a handle that several share (MGP §11.2).
//!
//! Applies to: both.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgp_types::Timestamp;
use mgp_types::mgp::{LifecycleParams, ServerState};
use mgp_types::service::ServerId;
use tokio::sync::{broadcast, watch};

/// How many changes a listener may lag behind before it loses the oldest.
const KEPT: usize = 64;

/// One change of a server's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transition {
    /// The state it left.
    pub from: ServerState,
    /// The state it entered.
    pub to: ServerState,
    /// Why: a word of §11.4, or what happened.
    pub reason: Arc<str>,
    /// When.
    pub at: Timestamp,
}

impl Transition {
    /// The change as `notifications/mgp.lifecycle` tells it.
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

/// A change that §11.2 does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server cannot go from `{from}` to `{to}`")]
#[non_exhaustive]
pub struct IllegalTransition {
    /// The state it is in, and stays in.
    pub from: ServerState,
    /// The state it cannot enter from there.
    pub to: ServerState,
}

/// The state of one server; clones share it.
///
/// ```
/// use mgp_lifecycle::State;
/// use mgp_types::mgp::ServerState;
///
/// let state = State::new(ServerState::Registered);
/// let mut changes = state.changes();
/// assert!(state.enter(ServerState::Connected, "too soon").is_err());
///
/// state.enter(ServerState::Connecting, "start").unwrap();
/// assert_eq!(state.now(), ServerState::Connecting);
/// assert_eq!(changes.try_recv().unwrap().from, ServerState::Registered);
/// ```
#[derive(Clone)]
pub struct State(Arc<Shared>);

struct Shared {
    now: Mutex<ServerState>,
    /// Why it entered the state it is in; changed under the lock of `now`.
    why: Mutex<Option<Arc<str>>>,
    seen: watch::Sender<ServerState>,
    changes: broadcast::Sender<Transition>,
}

impl State {
    /// A server in a state.
    #[must_use]
    pub fn new(state: ServerState) -> Self {
        Self(Arc::new(Shared {
            seen: watch::Sender::new(state.clone()),
            now: Mutex::new(state),
            why: Mutex::default(),
            changes: broadcast::Sender::new(KEPT),
        }))
    }

    /// The state it is in.
    #[must_use]
    pub fn now(&self) -> ServerState {
        self.0.now().clone()
    }

    /// The state it is in, and why it entered it; none for the one it began in.
    #[must_use]
    pub fn latest(&self) -> (ServerState, Option<Arc<str>>) {
        let now = self.0.now();
        let why = self.0.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (now.clone(), why)
    }

    /// Whether it takes calls.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        *self.0.now() == ServerState::Connected
    }

    /// Enters another state and tells everybody.
    ///
    /// # Errors
    /// [`IllegalTransition`] where §11.2 has no such edge, the state it is in included; nothing changes then.
    pub fn enter(
        &self,
        to: ServerState,
        reason: impl Into<Arc<str>>,
    ) -> Result<Transition, IllegalTransition> {
        let mut now = self.0.now();
        if !now.can_become(&to) {
            return Err(IllegalTransition { from: now.clone(), to });
        }
        let from = std::mem::replace(&mut *now, to.clone());
        let change = Transition { from, to, reason: reason.into(), at: Timestamp::now() };
        *self.0.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(change.reason.clone());
        // Told under the lock, so that everybody hears of changes in the order in which they happened.
        self.0.seen.send_replace(change.to.clone());
        let _ = self.0.changes.send(change.clone());
        drop(now);
        tracing::debug!(from = %change.from, to = %change.to, reason = %change.reason, "server state");
        Ok(change)
    }

    /// Follows the state; who is slow sees only the latest.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<ServerState> {
        self.0.seen.subscribe()
    }

    /// Follows every change; who lags far behind loses the oldest, and is told how many.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<Transition> {
        self.0.changes.subscribe()
    }
}

impl Shared {
    fn now(&self) -> MutexGuard<'_, ServerState> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State({})", self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_states_is_an_edge_or_refused() {
        for from in ServerState::KNOWN {
            for to in ServerState::KNOWN {
                let state = State::new(from.clone());
                let entered = state.enter(to.clone(), "test");
                assert_eq!(entered.is_ok(), from.can_become(to), "{from} to {to}");
                assert_eq!(state.now(), if entered.is_ok() { to.clone() } else { from.clone() });
                assert_eq!(*state.watch().borrow(), state.now());
            }
        }
    }

    #[test]
    fn a_change_is_told_as_the_specification_writes_it() {
        let state = State::new(ServerState::Connected);
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
