//! Mock clients and peers without a transport, for tests of layers.

use std::sync::Arc;

use super::{
    BoxFuture, Call, Context, Link, Method, Params, Peer, Principal, Reply, Scope, ScopeKind, Stack,
};
use crate::sync::Mutex;
use crate::wire::{Id, Payload, RpcError};

/// A client for tests, which calls a stack as a transport would.
#[derive(Debug)]
pub struct Client {
    stack: Stack,
    /// The context that is cloned for each call. A test can set its caller, peer, outlet and other fields.
    pub cx: Context,
    next_id: i64,
}

/// Creates a client of a stack, with its own connection scope.
#[must_use]
pub fn client(stack: Stack) -> Client {
    let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local());
    Client { stack, cx, next_id: 0 }
}

impl Client {
    /// Sends a request and waits for its result.
    ///
    /// # Errors
    /// Returns the error of the stack, or −32603 (internal error) if the reply has no complete result.
    pub async fn request(&mut self, method: &str, params: &str) -> Result<Payload, RpcError> {
        let reply = self.call(method, params).await?;
        match reply.as_body() {
            Some(body) => Payload::parse(String::from_utf8_lossy(&body.to_json()).into_owned()),
            None => Err(RpcError::internal(format!("no complete result: {reply:?}"))),
        }
    }

    /// Sends a request and returns the future of its reply; the stack is called immediately.
    pub fn call(
        &mut self,
        method: &str,
        params: &str,
    ) -> BoxFuture<'static, Result<Reply, RpcError>> {
        self.next_id += 1;
        let mut cx = self.cx.clone();
        cx.key = super::CallKey::next();
        cx.wire_id = Some(Id::Number(self.next_id));
        match Params::split(method, params.into()) {
            Ok(params) => self.stack.send(Call::request(Method::of(method), params, cx)),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// Returns the error of the stack.
    pub async fn notify(&mut self, method: &str, params: &str) -> Result<(), RpcError> {
        let mut cx = self.cx.clone();
        cx.key = super::CallKey::next();
        let params = Params::split(method, params.into())?;
        self.stack.send(Call::notification(Method::of(method), params, cx)).await.map(drop)
    }
}

/// A peer that records the calls it receives, and passes them to a stack, which answers them.
#[derive(Clone, Debug)]
pub struct MockPeer {
    received: Arc<Mutex<Vec<Call>>>,
    stack: Stack,
}

/// Creates a peer that answers its calls with a stack.
#[must_use]
pub fn peer(stack: Stack) -> MockPeer {
    MockPeer { received: Arc::default(), stack }
}

impl MockPeer {
    /// Returns the peer as a [`Peer`], for use at the end of an outbound stack.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer::new(Arc::new(self.clone()))
    }

    /// Returns the calls that the peer has received.
    #[must_use]
    pub fn received(&self) -> Vec<Call> {
        self.received.lock().clone()
    }
}

impl Link for MockPeer {
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        self.received.lock().push(call.clone());
        self.stack.send(call)
    }
}
