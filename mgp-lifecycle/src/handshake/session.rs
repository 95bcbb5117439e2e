//! What one connection or session has negotiated; kept in its scope.
//!
//! Applies to: both.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgp_types::mcp::Era;
use mgp_types::service::Facts;

use super::permission::PermissionFlow;

/// The state of the legacy handshake of one scope, and the facts it settled.
#[derive(Debug, Default)]
pub struct Session(Mutex<State>);

#[derive(Debug)]
struct State {
    phase: Phase,
    facts: Arc<Facts>,
    is_guessed: bool,
    permissions: Option<PermissionFlow>,
}

/// How far the legacy handshake is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing was negotiated.
    #[default]
    New,
    /// `initialize` was answered.
    Initialized,
    /// The client said it is ready, or the peer speaks the modern era.
    Ready,
}

impl Default for State {
    fn default() -> Self {
        Self { phase: Phase::New, facts: Facts::none(), is_guessed: false, permissions: None }
    }
}

impl Session {
    /// How far the handshake is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.state().phase
    }

    /// What the other side negotiated.
    #[must_use]
    pub fn facts(&self) -> Arc<Facts> {
        Arc::clone(&self.state().facts)
    }

    /// Whether the other side was taken for a legacy one only because it failed or said nothing when it was asked.
    #[must_use]
    pub fn is_guessed(&self) -> bool {
        self.state().is_guessed
    }

    /// The permission flow of a client whose configuration has somebody who decides.
    #[must_use]
    pub fn permissions(&self) -> Option<PermissionFlow> {
        self.state().permissions.clone()
    }

    pub(crate) fn keep_permissions(&self, flow: PermissionFlow) {
        self.state().permissions = Some(flow);
    }

    /// What an outbound call needs to know: the facts, and what a modern server is told of its permissions.
    pub(crate) fn outbound(&self) -> (Arc<Facts>, Option<PermissionFlow>) {
        let state = self.state();
        let flow = state.permissions.as_ref().filter(|_| state.facts.era == Era::Modern);
        (Arc::clone(&state.facts), flow.cloned())
    }

    pub(crate) fn guessed(&self) {
        self.state().is_guessed = true;
    }

    /// Phase and facts in one look.
    pub(crate) fn look(&self) -> (Phase, Arc<Facts>) {
        let state = self.state();
        (state.phase, Arc::clone(&state.facts))
    }

    /// Settles the facts; `false` when they were settled before.
    pub(crate) fn settle(&self, phase: Phase, facts: Arc<Facts>) -> bool {
        let mut state = self.state();
        if state.phase != Phase::New {
            return false;
        }
        (state.phase, state.facts) = (phase, facts);
        true
    }

    /// Notes that the client is ready.
    pub(crate) fn ready(&self) {
        let mut state = self.state();
        if state.phase == Phase::Initialized {
            state.phase = Phase::Ready;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
