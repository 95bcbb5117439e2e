//! Calls: requests and notifications on their way through a stack, and their context.

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

/// A request or notification; one word wide, so that layers pass it on cheaply.
#[derive(Clone, Debug)]
pub struct Call(Box<CallData>);

#[derive(Clone, Debug)]
struct CallData {
    method: Method,
    kind: Kind,
    params: Params,
    /// Rare on inbound calls, so it takes only one word.
    hop: Option<Box<HopMembers>>,
    related: Option<CallKey>,
    cx: Context,
}

/// The name and arguments of a `tools/call`, as gates need them.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ToolCall<'a> {
    /// The tool's name.
    pub name: &'a str,
    /// The arguments as text, if there are any.
    pub arguments: Option<&'a str>,
}

impl Call {
    /// Creates a request.
    #[must_use]
    pub fn request(method: Method, params: Params, cx: Context) -> Self {
        Self::new(method, Kind::Request, params, cx)
    }

    /// Creates a notification.
    #[must_use]
    pub fn notification(method: Method, params: Params, cx: Context) -> Self {
        Self::new(method, Kind::Notification, params, cx)
    }

    /// Creates a typed request.
    ///
    /// # Errors
    /// Returns −32603 if the params cannot be written as JSON.
    pub fn ask<R: Request>(params: &R::Params, cx: Context) -> Result<Self, RpcError> {
        Ok(Self::request(Method::from_static(R::METHOD), Params::of(R::METHOD, params)?, cx))
    }

    /// Creates a typed notification.
    ///
    /// # Errors
    /// Returns −32603 if the params cannot be written as JSON.
    pub fn tell<N: Notification>(params: &N::Params, cx: Context) -> Result<Self, RpcError> {
        Ok(Self::notification(Method::from_static(N::METHOD), Params::of(N::METHOD, params)?, cx))
    }

    fn new(method: Method, kind: Kind, params: Params, cx: Context) -> Self {
        Self(Box::new(CallData { method, kind, params, hop: None, related: None, cx }))
    }

    /// Sets the call that this one belongs to, so that the transport uses the stream of that call.
    #[must_use]
    pub fn related(mut self, key: CallKey) -> Self {
        self.0.related = Some(key);
        self
    }

    /// Redirects the call to another peer: body, principal, trace and outlet are kept, hop-by-hop members are removed.
    #[must_use]
    pub fn forward(mut self, to: super::Peer) -> Self {
        let inner = &mut *self.0;
        inner.params.remove_hop_members();
        inner.hop = None;
        inner.related = None;
        inner.cx.key = CallKey::next();
        inner.cx.wire_id = None;
        inner.cx.peer = to;
        self
    }

    /// Returns the method.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.0.method
    }

    /// Returns whether this is a call of the method of a marker type.
    #[must_use]
    pub fn is<R: Request>(&self) -> bool {
        self.0.method.as_str() == R::METHOD
    }

    /// Returns whether this is the notification of a marker type.
    #[must_use]
    pub fn tells<N: Notification>(&self) -> bool {
        self.0.method.as_str() == N::METHOD
    }

    /// Returns whether this is a request or a notification.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Returns the call that this one belongs to.
    #[must_use]
    pub fn related_key(&self) -> Option<CallKey> {
        self.0.related
    }

    /// Returns the parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.0.params
    }

    /// Returns the parameters mutably, e.g. to change the target.
    #[must_use]
    pub fn params_mut(&mut self) -> &mut Params {
        &mut self.0.params
    }

    /// Returns the members that this hop adds to the params when it sends them.
    #[must_use]
    pub fn hop(&self) -> &HopMembers {
        static NOTHING: HopMembers = HopMembers::new();
        self.0.hop.as_deref().unwrap_or(&NOTHING)
    }

    /// Returns the members that this hop adds, mutably.
    #[must_use]
    pub fn hop_mut(&mut self) -> &mut HopMembers {
        self.0.hop.get_or_insert_default()
    }

    /// Returns the context.
    #[must_use]
    pub fn cx(&self) -> &Context {
        &self.0.cx
    }

    /// Returns the context mutably, for values that a layer provides.
    #[must_use]
    pub fn cx_mut(&mut self) -> &mut Context {
        &mut self.0.cx
    }

    /// Returns the tool name and arguments if this is a `tools/call`; they were decoded when the call was read.
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

    /// Returns the arguments of a tool call, without copying.
    #[must_use]
    pub fn tool_arguments(&self) -> Payload {
        self.0.params.arguments_payload().unwrap_or_else(Payload::empty_object)
    }

    /// Splits the call into its parts.
    #[must_use]
    pub fn into_parts(self) -> (Method, Params, Context) {
        let CallData { method, params, cx, .. } = *self.0;
        (method, params, cx)
    }
}

// === Context ===

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
    pub caller_access: CallerAccess,
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
            caller_access: CallerAccess::Unavailable,
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
        if !self.caller.accepts.accepts(ask.method()) {
            return Err(not_offered(self, ask.method()));
        }
        match &self.caller_access {
            CallerAccess::Unavailable => Err(cannot_ask(key)),
            CallerAccess::Channel(asker) => asker.ask(key, ask).await,
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
    pub async fn ask_again(&self, key: &str, ask: CallerRequest) -> Result<Payload, RpcError> {
        if let CallerAccess::Channel(asker) = &self.caller_access {
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
    cannot_ask(name)
}

fn cannot_ask(key: &str) -> RpcError {
    RpcError::new(
        ErrorCode::PERMISSION_DENIED,
        format!("the caller cannot be asked: it does not offer `{key}`"),
    )
}
