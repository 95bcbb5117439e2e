//! State that the client stores for a server, sealed so that only the server can read and change it (extension
//! `session_state`).

use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::Extension;
use mgp_types::proposal::{SessionState, StateChanged};
use mgp_types::service::Context;
use mgp_types::{ErrorCode, RpcError, Sealer};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::extension::ServerExtension;
use crate::server::Server;
use crate::tool::{FromCall, ToolRequest};

const PURPOSE: &str = "session_state";

/// The age at which the server refuses a state, unless the author sets another.
const DEFAULT_TTL: Duration = Duration::from_hours(24);

/// The extension `session_state` of a server. Tools read and write the state with [`CallerState`].
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::{CallerState, SessionStates};
///
/// let count = Tool::new("count", "Counts the calls", |state: CallerState| async move {
///     let calls = state.load::<u32>()?.unwrap_or_default() + 1;
///     state.store(&calls)?;
///     Ok::<_, RpcError>(calls.to_string())
/// });
/// let server = Server::new("counter", "1.0").tool(count).extension(SessionStates::random().unwrap());
/// # drop(server);
/// ```
#[derive(Clone)]
pub struct SessionStates {
    sealer: Sealer,
    ttl: Duration,
}

mgp_types::opaque_debug!(SessionStates { ttl });

impl SessionStates {
    /// Creates the extension with a random key; sessions end when this process ends.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the operating system provides no randomness.
    pub fn random() -> Result<Self, RpcError> {
        Sealer::random().map(Self::with_sealer)
    }

    /// Creates the extension with a given key; processes with the same key can continue each other's sessions.
    #[must_use]
    pub fn with_key(key: [u8; 32]) -> Self {
        Self::with_sealer(Sealer::with_key(key))
    }

    fn with_sealer(sealer: Sealer) -> Self {
        Self { sealer, ttl: DEFAULT_TTL }
    }

    /// Sets the age at which the server refuses a state. Default: 24 hours.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }
}

impl ServerExtension for SessionStates {
    fn extension(&self) -> Extension {
        Extension::SessionState
    }

    fn install(self, server: Server) -> Server {
        server.state(self)
    }
}

/// The state that the caller stores for this server. Each caller has its own state, and can neither read nor change it.
#[derive(Clone, Debug)]
pub struct CallerState {
    cx: Context,
    states: Option<Arc<SessionStates>>,
}

impl CallerState {
    /// Returns whether the caller stores state for this server. If it does not, each of its calls starts without state.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.states.is_some() && self.cx.caller.has(Extension::SessionState)
    }

    /// Returns the state that the caller sent with this call, i.e. that an earlier call stored. Returns `None` in a new
    /// session, and for a caller that stores no state.
    ///
    /// # Errors
    /// Returns code 4000 (invalid arguments) if the state was changed, is too long, has expired, or belongs to another
    /// caller; the caller must start a new session. Returns −32603 (internal error) if the state has another type.
    pub fn load<T: DeserializeOwned>(&self) -> Result<Option<T>, RpcError> {
        let (Some(states), Some(state)) = (&self.states, self.cx.member::<SessionState>()?) else {
            return Ok(None);
        };
        if state.is_too_long() {
            return Err(SessionState::invalidated("the session state is longer than 64 KiB"));
        }
        let opened = states.sealer.open(PURPOSE, &self.owner(), &state.0);
        let bytes = opened.map_err(|_| {
            SessionState::invalidated("the session state was changed, has expired or is not yours")
        })?;
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            RpcError::internal(format!("the session state has another type: {error}"))
                .because(error)
        })
    }

    /// Replaces the state. The caller receives the new state with the result of this call. Does nothing if the caller
    /// stores no state.
    ///
    /// # Errors
    /// Returns code 3001 (resource exhausted) if the sealed state is longer than 64 KiB, −32603 (internal error) if the
    /// state cannot be written as JSON.
    pub fn store<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), RpcError> {
        let Some(states) = self.states.as_ref().filter(|_| self.is_kept()) else { return Ok(()) };
        let bytes = serde_json::to_vec(value).map_err(|error| {
            RpcError::internal("the session state cannot be written as JSON").because(error)
        })?;
        let sealed = states.sealer.seal(PURPOSE, &self.owner(), states.ttl, &bytes)?;
        let state = SessionState(sealed);
        if state.is_too_long() {
            let message = format!(
                "the session state has {} bytes when sealed, and may have {}; store less",
                state.0.len(),
                SessionState::MAX_BYTES
            );
            return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message));
        }
        self.cx.add_to_result(&state)?;
        self.cx.add_to_result(&StateChanged(true))
    }

    /// Returns the names to which the sealed state is bound: the tenant, the subject and the agent of the caller.
    fn owner(&self) -> [&str; 3] {
        let principal = &self.cx.principal;
        let agent = principal.as_agent().map_or("", |agent| agent.as_str());
        [principal.tenant().as_str(), principal.subject().as_str(), agent]
    }
}

impl FromCall for CallerState {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        Ok(Self { cx: request.cx.clone(), states: request.state.get_shared() })
    }
}
