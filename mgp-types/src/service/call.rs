//! Calls: requests and notifications on their way through a stack.

use super::hop::HopMembers;
use super::params::Target;
use super::{CallKey, Context, Method, Params};
use crate::method::{Kind, Notification, Request};
use crate::wire::{Payload, RpcError};

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
        inner.params.forget_hop();
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
        static NOTHING: HopMembers = HopMembers::nothing();
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
