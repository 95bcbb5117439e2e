//! The context of a call: everything besides its method and params.

use std::future::Future;
use std::sync::Arc;

use bytestring::ByteString;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ask::{CallerAccess, CallerRequest, cannot_ask, not_offered};
use super::outlet::Outlet;
use super::trace;
use super::{
    Call, CallKey, Deadline, Extensions, Method, Params, Peer, PeerInfo, Principal, Scope, ServerId,
};
use crate::wire::{Id, Payload, RpcError};

/// The context of a call, cheap to clone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Context {
    /// The call's key in this process.
    pub key: CallKey,
    /// The caller; only the transport sets it, and forwarding never changes it.
    pub principal: Principal,
    /// The parameters negotiated with the caller.
    pub caller: Arc<PeerInfo>,
    /// The parameters negotiated with the callee, on an outbound stack.
    pub callee: Arc<PeerInfo>,
    /// The called server, on an outbound stack.
    pub server: Option<ServerId>,
    /// The scope of the call: its connection, session or handle.
    pub scope: Scope,
    /// The connection over which the call was received, or will be sent.
    pub peer: Peer,
    /// The id that the caller gave the call, for cancellation by id; never used to answer.
    pub wire_id: Option<Id>,
    /// The logical call of which this is a round or an attempt; `None` if it is the only one.
    pub logical: Option<ByteString>,
    /// The trace of the call (MGP §6.5).
    pub trace: Option<ByteString>,
    /// The output for partial results.
    pub outlet: Outlet,
    /// The way to ask the caller.
    pub asking: CallerAccess,
    /// The time at which the caller stops waiting.
    pub deadline: Deadline,
    /// Values that layers pass to layers further in.
    pub extensions: Extensions,
}

impl Context {
    /// Creates the context of a call from or to a peer.
    #[must_use]
    pub fn new(peer: Peer, scope: Scope, principal: Principal) -> Self {
        Self {
            key: CallKey::next(),
            principal,
            caller: PeerInfo::none(),
            callee: PeerInfo::none(),
            server: None,
            scope,
            peer,
            wire_id: None,
            logical: None,
            trace: None,
            outlet: Outlet::none(),
            asking: CallerAccess::Nobody,
            deadline: Deadline::none(),
            extensions: Extensions::default(),
        }
    }

    /// Returns the trace of the call, after creating one if there is none.
    pub fn trace_or_new(&mut self) -> &ByteString {
        self.trace.get_or_insert_with(trace::next)
    }

    /// Asks the caller and waits for the answer.
    ///
    /// `key` identifies the question within the call and must be the same each time the handler runs.
    ///
    /// # Errors
    /// Returns 1000 if the caller cannot be asked (−32021 for a modern caller), else the caller's error.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the question.
    pub async fn ask(&self, key: &str, ask: CallerRequest) -> Result<Payload, RpcError> {
        if !self.caller.asks.offers(ask.method()) {
            return Err(not_offered(self, ask.method()));
        }
        match &self.asking {
            CallerAccess::Nobody => Err(cannot_ask(key)),
            CallerAccess::Via(asker) => asker.ask(key, ask).await,
            CallerAccess::Peer(peer) => {
                let params = Params::split(ask.method(), ask.params().as_shared().clone())?;
                let mut cx = self.clone();
                cx.key = CallKey::next();
                cx.outlet = Outlet::none();
                cx.wire_id = None;
                let call = Call::request(Method::of(ask.method()), params, cx).related(self.key);
                let reply = peer.send(call).await?;
                match reply.as_body() {
                    Some(body) => Ok(body.as_raw().clone()),
                    None => Err(RpcError::internal("the caller answered without a result")),
                }
            }
        }
    }

    /// Asks like [`ask`](Self::ask) does, and ignores an answer that was given before the question was asked.
    ///
    /// Use it for questions whose answer permits something: a modern caller may put answers into its first request,
    /// and those do not prove that its user saw the question.
    ///
    /// # Errors
    /// Returns the errors of [`ask`](Self::ask).
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the question.
    pub async fn ask_afresh(&self, key: &str, ask: CallerRequest) -> Result<Payload, RpcError> {
        if let CallerAccess::Via(asker) = &self.asking {
            asker.forget_early(key);
        }
        self.ask(key, ask).await
    }

    /// Computes a value once per logical call, regardless of the number of rounds.
    ///
    /// # Errors
    /// Returns the error of `make`, or −32603 if the value cannot be stored.
    pub async fn once<T, F>(&self, key: &str, make: impl FnOnce() -> F) -> Result<T, RpcError>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, RpcError>>,
    {
        let CallerAccess::Via(asker) = &self.asking else { return make().await };
        if let Some(kept) = asker.kept(key) {
            return kept.get();
        }
        let value = make().await?;
        asker.keep(key, &Payload::of(&value)?);
        Ok(value)
    }
}
