//! The negotiated state of one connection or session, stored in its scope.

use std::sync::Arc;

use mgp_types::mcp::Era;
use mgp_types::service::PeerInfo;
use mgp_types::sync::Mutex;

use super::permission::PermissionFlow;

/// The state of the handshake of one connection or session: the phase of a legacy handshake, and the facts about the
/// peer.
#[derive(Debug, Default)]
pub struct HandshakeState(Mutex<SessionState>);

#[derive(Debug)]
struct SessionState {
    phase: Phase,
    facts: Arc<PeerInfo>,
    is_guessed: bool,
    permissions: Option<PermissionFlow>,
}

/// The stage that the legacy handshake has reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The client has not begun a handshake yet.
    #[default]
    New,
    /// `initialize` was answered, but the client has not sent `initialized` yet.
    Initialized,
    /// The client has sent `initialized`, or the peer is modern.
    Ready,
}

impl Default for SessionState {
    fn default() -> Self {
        Self { phase: Phase::New, facts: PeerInfo::none(), is_guessed: false, permissions: None }
    }
}

impl HandshakeState {
    /// Returns the phase of the handshake.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.0.lock().phase
    }

    /// Returns the negotiated facts about the peer.
    #[must_use]
    pub fn facts(&self) -> Arc<PeerInfo> {
        Arc::clone(&self.0.lock().facts)
    }

    /// Returns whether the peer is only assumed to be legacy, because the probe for its era failed or got no answer.
    #[must_use]
    pub fn is_guessed(&self) -> bool {
        self.0.lock().is_guessed
    }

    /// Returns the permission flow; `None` on a server, and on a client without a permission authority.
    #[must_use]
    pub fn permissions(&self) -> Option<PermissionFlow> {
        self.0.lock().permissions.clone()
    }

    pub(crate) fn set_permissions(&self, flow: PermissionFlow) {
        self.0.lock().permissions = Some(flow);
    }

    /// Returns the facts of the callee, and the permission flow if the callee is modern.
    pub(crate) fn outbound(&self) -> (Arc<PeerInfo>, Option<PermissionFlow>) {
        let state = self.0.lock();
        let flow = state.permissions.as_ref().filter(|_| state.facts.era == Era::Modern);
        (Arc::clone(&state.facts), flow.cloned())
    }

    pub(crate) fn set_guessed(&self) {
        self.0.lock().is_guessed = true;
    }

    /// Returns the phase and the facts, read at the same moment.
    pub(crate) fn snapshot(&self) -> (Phase, Arc<PeerInfo>) {
        let state = self.0.lock();
        (state.phase, Arc::clone(&state.facts))
    }

    /// Stores the phase and the negotiated facts, unless an earlier handshake has stored them.
    pub(crate) fn settle(&self, phase: Phase, facts: Arc<PeerInfo>) {
        let mut state = self.0.lock();
        if state.phase == Phase::New {
            (state.phase, state.facts) = (phase, facts);
        }
    }

    /// Changes the phase from `Initialized` to `Ready`; in any other phase, does nothing.
    pub(crate) fn set_ready(&self) {
        let mut state = self.0.lock();
        if state.phase == Phase::Initialized {
            state.phase = Phase::Ready;
        }
    }
}
