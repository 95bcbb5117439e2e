//! A request or notification on its way through a stack.

use super::hop::OutMeta;
use super::params::Target;
use super::{CallKey, Context, Method, Params};
use crate::method::{Kind, Notification, Request};
use crate::wire::{Payload, RpcError};

/// One call; a word wide, so that layers pass it on for nothing.
#[derive(Clone, Debug)]
pub struct Call(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    method: Method,
    kind: Kind,
    params: Params,
    /// Rare on the way in, so it costs a word only.
    hop: Option<Box<OutMeta>>,
    related: Option<CallKey>,
    cx: Context,
}

/// What gates look at in a `tools/call`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ToolCall<'a> {
    /// The tool's name.
    pub name: &'a str,
    /// The arguments as text; `None` where there are none.
    pub arguments: Option<&'a str>,
}

impl Call {
    /// A request.
    #[must_use]
    pub fn request(method: Method, params: Params, cx: Context) -> Self {
        Self::new(method, Kind::Request, params, cx)
    }

    /// A notification.
    #[must_use]
    pub fn notification(method: Method, params: Params, cx: Context) -> Self {
        Self::new(method, Kind::Notification, params, cx)
    }

    /// A typed request.
    ///
    /// # Errors
    /// −32603 when the params cannot be written as JSON.
    pub fn ask<R: Request>(params: &R::Params, cx: Context) -> Result<Self, RpcError> {
        Ok(Self::request(Method::from_static(R::METHOD), Params::of(R::METHOD, params)?, cx))
    }

    /// A typed notification.
    ///
    /// # Errors
    /// −32603 when the params cannot be written as JSON.
    pub fn tell<N: Notification>(params: &N::Params, cx: Context) -> Result<Self, RpcError> {
        Ok(Self::notification(Method::from_static(N::METHOD), Params::of(N::METHOD, params)?, cx))
    }

    fn new(method: Method, kind: Kind, params: Params, cx: Context) -> Self {
        Self(Box::new(Inner { method, kind, params, hop: None, related: None, cx }))
    }

    /// Says which call this one belongs to, so that the transport finds its stream.
    #[must_use]
    pub fn related(mut self, key: CallKey) -> Self {
        self.0.related = Some(key);
        self
    }

    /// Sends the call on to another peer: body, principal, trace and outlet stay, the hop's own members go.
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

    /// The method.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.0.method
    }

    /// Whether it calls the method of a marker type.
    #[must_use]
    pub fn is<R: Request>(&self) -> bool {
        self.0.method.as_str() == R::METHOD
    }

    /// Whether it is the notification of a marker type.
    #[must_use]
    pub fn tells<N: Notification>(&self) -> bool {
        self.0.method.as_str() == N::METHOD
    }

    /// Whether it is answered.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The call it belongs to.
    #[must_use]
    pub fn related_key(&self) -> Option<CallKey> {
        self.0.related
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.0.params
    }

    /// The parameters, to aim the call elsewhere.
    #[must_use]
    pub fn params_mut(&mut self) -> &mut Params {
        &mut self.0.params
    }

    /// What this hop adds to the params when they are sent.
    #[must_use]
    pub fn hop(&self) -> &OutMeta {
        static NOTHING: OutMeta = OutMeta::nothing();
        self.0.hop.as_deref().unwrap_or(&NOTHING)
    }

    /// The same, to add to it.
    #[must_use]
    pub fn hop_mut(&mut self) -> &mut OutMeta {
        self.0.hop.get_or_insert_default()
    }

    /// The surroundings.
    #[must_use]
    pub fn cx(&self) -> &Context {
        &self.0.cx
    }

    /// The surroundings, to set what a layer provides.
    #[must_use]
    pub fn cx_mut(&mut self) -> &mut Context {
        &mut self.0.cx
    }

    /// The tool call, where this is one: decoded once, for every gate.
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

    /// The arguments of a tool call, shared.
    #[must_use]
    pub fn tool_arguments(&self) -> Payload {
        self.0.params.arguments_payload().unwrap_or_else(Payload::empty_object)
    }

    /// Takes the call apart.
    #[must_use]
    pub fn into_parts(self) -> (Method, Params, Context) {
        let Inner { method, params, cx, .. } = *self.0;
        (method, params, cx)
    }
}
