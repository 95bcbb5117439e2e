//! What a call carries besides its method and params (DESIGN §3 B, D, E).

use std::future::Future;
use std::sync::Arc;

use bytestring::ByteString;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ask::{Ask, Asking, nobody_to_ask, not_offered};
use super::outlet::Outlet;
use super::trace;
use super::{
    Call, CallKey, Deadline, Extensions, Facts, Method, Params, Peer, Principal, Scope, ServerId,
};
use crate::wire::{Id, Payload, RpcError};

/// The surroundings of a call, cheap to clone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Context {
    /// The call's key in this process.
    pub key: CallKey,
    /// Who calls; only the transport sets it, forwarding never changes it.
    pub principal: Principal,
    /// What the caller negotiated.
    pub caller: Arc<Facts>,
    /// What the callee negotiated, on an outbound stack.
    pub callee: Arc<Facts>,
    /// The server the call goes to, on an outbound stack.
    pub server: Option<ServerId>,
    /// What the call belongs to: its connection, session or handle.
    pub scope: Scope,
    /// The connection the call came on, or goes to.
    pub peer: Peer,
    /// The id the caller gave the call, for cancellation by id; never used to answer.
    pub wire_id: Option<Id>,
    /// The logical call this one is a round or an attempt of; `None` where it is the whole of it.
    pub logical: Option<ByteString>,
    /// The trace the call belongs to (MGP §6.5).
    pub trace: Option<ByteString>,
    /// The way back for partial results.
    pub outlet: Outlet,
    /// The way to ask the caller.
    pub asking: Asking,
    /// When the caller stops waiting.
    pub deadline: Deadline,
    /// Values layers hand to layers further in.
    pub extensions: Extensions,
}

impl Context {
    /// The surroundings of a call that arrives from, or leaves to, a peer.
    #[must_use]
    pub fn new(peer: Peer, scope: Scope, principal: Principal) -> Self {
        Self {
            key: CallKey::next(),
            principal,
            caller: Facts::none(),
            callee: Facts::none(),
            server: None,
            scope,
            peer,
            wire_id: None,
            logical: None,
            trace: None,
            outlet: Outlet::none(),
            asking: Asking::Nobody,
            deadline: Deadline::none(),
            extensions: Extensions::default(),
        }
    }

    /// The trace of the call; one is made where there is none yet.
    pub fn trace_or_new(&mut self) -> &ByteString {
        self.trace.get_or_insert_with(trace::next)
    }

    /// Asks the caller and waits for the answer.
    ///
    /// `key` names the question within the call and must be the same each time the handler runs.
    ///
    /// # Errors
    /// 1000 when nobody can be asked (−32021 to a modern caller that did not offer it); else what the caller answered.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the question.
    pub async fn ask(&self, key: &str, ask: Ask) -> Result<Payload, RpcError> {
        if !self.caller.asks.offers(ask.method()) {
            return Err(not_offered(self, ask.method()));
        }
        match &self.asking {
            Asking::Nobody => Err(nobody_to_ask(key)),
            Asking::Via(asker) => asker.ask(key, ask).await,
            Asking::Peer(peer) => {
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

    /// Asks as [`ask`](Self::ask) does, and takes no answer that the caller gave before it was asked.
    ///
    /// It is for questions whose answer permits something: a modern caller may put answers into its first request,
    /// and those say nothing of what its person was shown.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the question.
    pub async fn ask_afresh(&self, key: &str, ask: Ask) -> Result<Payload, RpcError> {
        if let Asking::Via(asker) = &self.asking {
            asker.forget_early(key);
        }
        self.ask(key, ask).await
    }

    /// Computes a value once per logical call, however many rounds it takes.
    ///
    /// # Errors
    /// What `make` answers, or −32603 when the value cannot be kept.
    pub async fn once<T, F>(&self, key: &str, make: impl FnOnce() -> F) -> Result<T, RpcError>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, RpcError>>,
    {
        let Asking::Via(asker) = &self.asking else { return make().await };
        if let Some(kept) = asker.kept(key) {
            return kept.get();
        }
        let value = make().await?;
        asker.keep(key, &Payload::of(&value)?);
        Ok(value)
    }
}
