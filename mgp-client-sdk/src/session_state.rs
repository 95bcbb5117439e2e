//! Stores the session state that a server returns, and sends it back with each tool call (extension `session_state`).
//!
//! Applies to: outbound.

use std::borrow::Cow;
use std::sync::Arc;

use mgp_types::method::ToolsCall;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{Member as _, SessionState};
use mgp_types::service::{BoxFuture, Call, Either, MgpService, Reply};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError};
use tower_service::Service;

use crate::builder::ClientBuilder;
use crate::extension::ClientExtension;

/// The extension `session_state` of a client: it keeps the state that the server returns, and sends the latest one with
/// each tool call, byte for byte.
///
/// The state belongs to one client of one server, so do not share a jar between clients of different servers. A state
/// of more than 64 KiB is not kept. A state that the server refuses is dropped: the next call starts a new session.
///
/// ```
/// use mgp_client_sdk::{Client, SessionStateJar};
///
/// let jar = SessionStateJar::new();
/// let client = Client::builder("me", "1.0").extension(jar.clone());
/// # drop(client);
/// // Ends the session: the next call carries no state.
/// jar.clear();
/// ```
#[derive(Clone, Debug, Default)]
pub struct SessionStateJar(Arc<Mutex<JarContent>>);

/// The content of a jar.
#[derive(Clone, Debug, Default)]
struct JarContent {
    state: Option<Payload>,
    /// The number of sessions that the user has ended.
    cleared: u64,
}

impl SessionStateJar {
    /// Creates a jar without state.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Drops the state. Answers to calls that are still running do not restore it.
    pub fn clear(&self) {
        let mut kept = self.0.lock();
        kept.state = None;
        kept.cleared += 1;
    }

    /// Returns whether there is a state.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.lock().state.is_none()
    }

    /// Adds the state to a call, unless the caller has already set a state. Returns the content of the jar at this
    /// moment.
    fn add_to(&self, call: &mut Call) -> JarContent {
        let kept = self.0.lock().clone();
        if let Some(state) = &kept.state {
            let meta = &mut call.hop_mut().meta;
            if !meta.iter().any(|(name, _)| name == SessionState::NAME) {
                meta.push((Cow::Borrowed(SessionState::NAME), state.clone()));
            }
        }
        kept
    }

    /// Keeps the state that an answer contains; drops the state if the answer is an error that refuses it. `sent` is
    /// the content of the jar when the call was sent.
    fn update(&self, sent: &JarContent, answer: &Result<Reply, RpcError>) {
        match answer {
            Ok(reply) => {
                if let Some((text, state)) = state_in(reply) {
                    let mut kept = self.0.lock();
                    if kept.cleared == sent.cleared {
                        kept.state = (!state.is_too_long()).then_some(text);
                    }
                }
            }
            Err(error) if SessionState::is_invalidated(error) => {
                let mut kept = self.0.lock();
                // Another call may have received a new state meanwhile, which the server has not refused.
                if kept.state == sent.state {
                    kept.state = None;
                }
            }
            Err(_) => {}
        }
    }
}

/// Returns the state in a result, as text and decoded.
fn state_in(reply: &Reply) -> Option<(Payload, SessionState)> {
    let body = reply.as_body()?;
    // Search the text first: few results have the member.
    if !body.as_raw().as_str().contains(SessionState::NAME) {
        return None;
    }
    let meta: mgp_types::Object = body.get("_meta")?.get().ok()?;
    let text = meta.get(SessionState::NAME)?;
    let state: SessionState = text.get().ok()?;
    if state.is_too_long() {
        let bytes = state.0.len();
        tracing::warn!(bytes, max = SessionState::MAX_BYTES, "session state too long; not kept");
    }
    Some((text.clone(), state))
}

impl ClientExtension for SessionStateJar {
    fn extension(&self) -> Extension {
        Extension::SessionState
    }

    fn install(self, client: ClientBuilder) -> ClientBuilder {
        client.layer(self)
    }
}

mgp_types::layer_service! {
    /// Service of [`SessionStateJar`].
    pub SessionStateService for SessionStateJar
}

impl<S: MgpService> Service<Call> for SessionStateService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        if !call.is::<ToolsCall>() || !call.cx().callee.has(Extension::SessionState) {
            return Either::Left { future: self.inner.call(call) };
        }
        let jar = self.layer.clone();
        let sent = jar.add_to(&mut call);
        let answer = self.inner.call(call);
        Either::Right {
            future: Box::pin(async move {
                let answer = answer.await;
                jar.update(&sent, &answer);
                answer
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_an_earlier_call_neither_restores_nor_drops_a_session() {
        let jar = SessionStateJar::new();
        let answer = |state: &str| {
            let text = format!(r#"{{"_meta":{{"{}":"{state}"}}}}"#, SessionState::NAME);
            Ok(Reply::raw(Payload::from_trusted(text)))
        };
        let sent = || jar.0.lock().clone();
        let first = sent();
        jar.clear();
        jar.update(&first, &answer("old"));
        assert!(jar.is_empty(), "the session was ended while the call ran");
        let second = sent();
        jar.update(&second, &answer("new"));
        let refused = Err(SessionState::invalidated("expired"));
        jar.update(&second, &refused);
        assert!(!jar.is_empty(), "another state was refused");
        jar.update(&sent(), &refused);
        assert!(jar.is_empty());
    }
}
