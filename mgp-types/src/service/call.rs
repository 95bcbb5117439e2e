//! Calls (requests and notifications that pass through a stack of layers) and their context.

use std::future::Future;
use std::sync::Arc;

use bytestring::ByteString;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::caller_access::CallerAccess;
use super::hop::HopMembers;
use super::outlet::Outlet;
use super::params::Target;
use super::question::CallerRequest;
use super::{
    CallKey, Deadline, Extensions, Method, Params, Peer, PeerInfo, Principal, Scope, ServerId,
    trace,
};
use crate::method::{Kind, Notification, Request};
use crate::wire::{ErrorCode, Id, Payload, RpcError};

/// A request or notification with its context. Moving it is cheap, because it is a single pointer.
#[derive(Clone, Debug)]
pub struct Call(Box<CallData>);

#[derive(Clone, Debug)]
struct CallData {
    method: Method,
    kind: Kind,
    params: Params,
    /// The members that this side adds to the params when it sends the call. They are in a box, because inbound calls
    /// rarely have any.
    hop: Option<Box<HopMembers>>,
    related: Option<CallKey>,
    cx: Context,
}

/// The name and arguments of a `tools/call`, for layers that decide about the call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ToolCall<'a> {
    /// The name of the tool.
    pub name: &'a str,
    /// The arguments as JSON, if the call has any.
    pub arguments: Option<&'a str>,
}

impl Call {
    /// Creates a request from a method name and undecoded params.
    #[must_use]
    pub fn request(method: Method, params: Params, cx: Context) -> Self {
        Self::new(method, Kind::Request, params, cx)
    }

    /// Creates a notification from a method name and undecoded params.
    #[must_use]
    pub fn notification(method: Method, params: Params, cx: Context) -> Self {
        Self::new(method, Kind::Notification, params, cx)
    }

    /// Creates a request of the method `R` from its typed params.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the params cannot be written as JSON.
    pub fn ask<R: Request>(params: &R::Params, cx: Context) -> Result<Self, RpcError> {
        Ok(Self::request(Method::from_static(R::METHOD), Params::of(R::METHOD, params)?, cx))
    }

    /// Creates a notification of the method `N` from its typed params.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the params cannot be written as JSON.
    pub fn tell<N: Notification>(params: &N::Params, cx: Context) -> Result<Self, RpcError> {
        Ok(Self::notification(Method::from_static(N::METHOD), Params::of(N::METHOD, params)?, cx))
    }

    fn new(method: Method, kind: Kind, params: Params, cx: Context) -> Self {
        Self(Box::new(CallData { method, kind, params, hop: None, related: None, cx }))
    }

    /// Marks this call as a part of another call with the key `key`, so that the transport sends both calls on the same
    /// stream.
    #[must_use]
    pub fn related(mut self, key: CallKey) -> Self {
        self.0.related = Some(key);
        self
    }

    /// Redirects the call to another peer, e.g. from the caller to the server that has the tool. The call receives a
    /// new key, and loses the members that are valid only between two neighbouring peers. Its other params, its
    /// principal, its trace and its outlet (the channel for partial results) stay.
    #[must_use]
    pub fn forward(mut self, to: super::Peer) -> Self {
        let inner = &mut *self.0;
        inner.params.remove_hop_members();
        inner.hop = None;
        inner.related = None;
        inner.cx.received_as.get_or_insert(inner.cx.key);
        inner.cx.key = CallKey::next();
        inner.cx.wire_id = None;
        inner.cx.peer = to;
        self
    }

    /// Returns the method of the call.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.0.method
    }

    /// Returns whether the call has the method of `R`. Only the names are compared; the kind of the call is not
    /// checked.
    #[must_use]
    pub fn is<R: Request>(&self) -> bool {
        self.0.method.as_str() == R::METHOD
    }

    /// Returns whether the call has the method of `N`. Only the names are compared; the kind of the call is not
    /// checked.
    #[must_use]
    pub fn tells<N: Notification>(&self) -> bool {
        self.0.method.as_str() == N::METHOD
    }

    /// Returns the kind of the call: request or notification.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Returns the key of the call of which this call is a part, as set by [`related`](Self::related).
    #[must_use]
    pub fn related_key(&self) -> Option<CallKey> {
        self.0.related
    }

    /// Returns the parameters of the call.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.0.params
    }

    /// Returns a mutable reference to the parameters, e.g. to change which tool is called.
    #[must_use]
    pub fn params_mut(&mut self) -> &mut Params {
        &mut self.0.params
    }

    /// Returns the members that this side adds to the params when it sends the call.
    #[must_use]
    pub fn hop(&self) -> &HopMembers {
        static NOTHING: HopMembers = HopMembers::new();
        self.0.hop.as_deref().unwrap_or(&NOTHING)
    }

    /// Returns a mutable reference to the members that this side adds to the params when it sends the call.
    #[must_use]
    pub fn hop_mut(&mut self) -> &mut HopMembers {
        self.0.hop.get_or_insert_default()
    }

    /// Returns the context of the call.
    #[must_use]
    pub fn cx(&self) -> &Context {
        &self.0.cx
    }

    /// Returns a mutable reference to the context, e.g. to store a value for inner layers.
    #[must_use]
    pub fn cx_mut(&mut self) -> &mut Context {
        &mut self.0.cx
    }

    /// Returns the tool name and the arguments of a `tools/call` request; `None` for other calls. The arguments are not
    /// decoded.
    #[must_use]
    pub fn tool(&self) -> Option<ToolCall<'_>> {
        if self.0.kind != Kind::Request {
            return None;
        }
        match self.0.params.target() {
            Some(Target::Tool(name)) => {
                Some(ToolCall { name, arguments: self.0.params.arguments() })
            }
            _ => None,
        }
    }

    /// Returns the arguments of a tool call without copying them; absent arguments become `{}`.
    #[must_use]
    pub fn tool_arguments(&self) -> Payload {
        self.0.params.arguments_payload().unwrap_or_else(Payload::empty_object)
    }

    /// Splits the call into method, params and context. The members that this side would add when it sends the call are
    /// dropped.
    #[must_use]
    pub fn into_parts(self) -> (Method, Params, Context) {
        let CallData { method, params, cx, .. } = *self.0;
        (method, params, cx)
    }
}

// === Context ===

/// The context of a call; it is cheap to clone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Context {
    /// The key of the call in this process.
    pub key: CallKey,
    /// The principal for whom the call is made. It is never read from params, and forwarding never changes it.
    pub principal: Principal,
    /// The result of the negotiation with the caller.
    pub caller: Arc<PeerInfo>,
    /// The result of the negotiation with the callee, on an outbound stack.
    pub callee: Arc<PeerInfo>,
    /// The server that is called; only set on an outbound stack.
    pub server: Option<ServerId>,
    /// The scope to which the call belongs: a connection, session, handle or request.
    pub scope: Scope,
    /// The connection over which the call was received, or will be sent.
    pub peer: Peer,
    /// The request id that the caller chose. Messages between this side and the caller refer to the call by this id.
    pub wire_id: Option<Id>,
    /// The id of the logical call, if this call is one of its rounds (repetitions with answers) or attempts (retries).
    pub logical: Option<ByteString>,
    /// The trace id of the call (MGP §6.5).
    pub trace: Option<ByteString>,
    /// The channel on which the call sends partial results to its caller.
    pub outlet: Outlet,
    /// The way in which the caller can be asked questions during the call.
    pub caller_access: CallerAccess,
    /// The time until which the caller waits for the answer.
    pub deadline: Deadline,
    /// Values that outer layers store for inner layers.
    pub extensions: Extensions,
    /// The key under which a call was received before it was forwarded. Questions to the caller are sent on the stream
    /// of the call with this key.
    received_as: Option<CallKey>,
}

impl Context {
    /// Creates the context of a call that is received from a peer or sent to it.
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
            caller_access: CallerAccess::Unavailable,
            deadline: Deadline::none(),
            extensions: Extensions::default(),
            received_as: None,
        }
    }

    /// Returns the trace id of the call; creates one if there is none.
    pub fn trace_or_new(&mut self) -> &ByteString {
        self.trace.get_or_insert_with(trace::next)
    }

    /// Asks the caller of this call a question, and waits for the answer.
    ///
    /// `key` identifies the question within the call. It must be the same each time the handler runs.
    ///
    /// # Errors
    /// Returns 1000 (permission denied) if the caller cannot be asked during this call or does not accept such
    /// questions (−32021, missing client capability, if a caller of MCP 2026-07-28 does not accept them), else the
    /// error of the caller or of its connection. An error whose code [means that the call did not
    /// run](ErrorCode::is_refusal) has `details.started`, because handlers ask after they have begun. A layer that asks
    /// before the handler runs should return an error of its own.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the question; a caller of MCP 2026-07-28 may receive it nevertheless.
    pub async fn ask(&self, key: &str, ask: CallerRequest) -> Result<Payload, RpcError> {
        self.ask_with_progress(key, ask, Outlet::none()).await
    }

    /// Asks the caller as [`ask`](Self::ask) does. A caller of MCP 2025-11-25 or before can report progress until it
    /// answers; this method sends the progress to `progress`.
    ///
    /// # Errors
    /// Returns the same errors as [`ask`](Self::ask).
    ///
    /// # Cancel safety
    /// The same as for [`ask`](Self::ask).
    pub async fn ask_with_progress(
        &self,
        key: &str,
        ask: CallerRequest,
        progress: Outlet,
    ) -> Result<Payload, RpcError> {
        // A handler asks after it has begun, and may return this error as its own. So the error must not suggest that
        // the call was refused before it ran.
        self.ask_caller(key, ask, progress).await.map_err(RpcError::after_start)
    }

    async fn ask_caller(
        &self,
        key: &str,
        ask: CallerRequest,
        progress: Outlet,
    ) -> Result<Payload, RpcError> {
        if !self.caller.accepts.accepts(ask.method()) {
            return Err(not_offered(self, ask.method()));
        }
        match &self.caller_access {
            CallerAccess::Unavailable => Err(RpcError::new(
                ErrorCode::PERMISSION_DENIED,
                "the caller cannot be asked questions during this call",
            )),
            CallerAccess::Channel(asker) => asker.ask(key, ask).await,
            CallerAccess::Peer(peer) => {
                let params = Params::split(ask.method(), ask.params().as_shared().clone())?;
                let mut cx = self.clone();
                cx.key = CallKey::next();
                cx.outlet = progress;
                cx.wire_id = None;
                let call = Call::request(Method::of(ask.method()), params, cx);
                // The transport finds the stream of the caller's request by the key under which the call was received.
                // A forwarded call has another key, so use the first key.
                let received = self.received_as.unwrap_or(self.key);
                let reply = peer.send(call.related(received)).await?;
                match reply.as_body() {
                    Some(body) => Ok(body.as_raw().clone()),
                    None => Err(RpcError::internal("the caller answered without a result")),
                }
            }
        }
    }

    /// Asks the caller as [`ask`](Self::ask) does, but ignores an answer that the caller sent before the question was
    /// asked.
    ///
    /// Use this method for questions whose answer permits an action. A caller of MCP 2026-07-28 can include answers in
    /// its first request, but such answers do not prove that the user saw the question.
    ///
    /// # Errors
    /// Returns the same errors as [`ask`](Self::ask).
    ///
    /// # Cancel safety
    /// The same as for [`ask`](Self::ask).
    pub async fn ask_again(&self, key: &str, ask: CallerRequest) -> Result<Payload, RpcError> {
        if let CallerAccess::Channel(asker) = &self.caller_access {
            asker.forget_early(key);
        }
        self.ask(key, ask).await
    }

    /// Computes a value once per logical call: if the caller repeats the call with answers, returns the value that was
    /// stored the first time. For a caller of MCP 2025-11-25 or before, whose call runs only once, always computes the
    /// value.
    ///
    /// # Errors
    /// Returns the error of `make`, or −32603 (internal error) if the value cannot be stored.
    pub async fn once<T, F>(&self, key: &str, make: impl FnOnce() -> F) -> Result<T, RpcError>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, RpcError>>,
    {
        let CallerAccess::Channel(asker) = &self.caller_access else { return make().await };
        if let Some(kept) = asker.kept(key) {
            return kept.get();
        }
        let value = make().await?;
        asker.keep(key, &Payload::of(&value)?);
        Ok(value)
    }
}

fn not_offered(cx: &Context, method: &str) -> RpcError {
    let name = method.split_once('/').map_or(method, |(name, _)| name);
    if cx.caller.era == crate::mcp::Era::Modern {
        let data =
            Payload::from_trusted(format!(r#"{{"requiredCapabilities":{{"{name}":{{}}}}}}"#));
        return RpcError::new(
            ErrorCode::MISSING_CLIENT_CAPABILITY,
            format!("the client must offer the capability `{name}`"),
        )
        .data(data);
    }
    RpcError::new(
        ErrorCode::PERMISSION_DENIED,
        format!("the caller cannot be asked: it does not offer `{name}`"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Revision;
    use crate::method::{ElicitationCreate, ToolsCall};
    use crate::service::{BoxFuture, Link, Reply, ScopeKind};
    use crate::sync::Mutex;

    /// A caller that records the call to which a question belongs.
    #[derive(Default)]
    struct Caller(Mutex<Option<CallKey>>);

    impl Link for Caller {
        fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
            *self.0.lock() = call.related_key();
            Box::pin(std::future::ready(Ok(Reply::empty())))
        }
    }

    #[tokio::test]
    async fn a_question_of_a_forwarded_call_belongs_to_the_call_that_was_received() {
        let caller: Arc<Caller> = Arc::default();
        let peer = Peer::new(Arc::clone(&caller) as Arc<dyn Link>);
        let mut cx = Context::new(peer.clone(), Scope::new(ScopeKind::Session), Principal::local());
        let mut facts = PeerInfo::new(Revision::V2025_06_18);
        facts.accepts.elicitation = true;
        (cx.caller, cx.caller_access) = (Arc::new(facts), CallerAccess::Peer(peer));
        let received = cx.key;
        let call = Call::request(Method::from_static(ToolsCall::METHOD), Params::none(), cx);
        let forwarded = call.forward(Peer::none()).forward(Peer::none());
        let ask = CallerRequest::new(ElicitationCreate::METHOD, Payload::empty_object());
        forwarded.cx().ask("form", ask).await.unwrap();
        assert_eq!(*caller.0.lock(), Some(received));
    }
}
