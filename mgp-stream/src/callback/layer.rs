//! The layer that answers `mgp/callback/respond` and enables inner services to ask callbacks (MGP §13.4).
//!
//! Applies to: inbound.

use std::future::{Ready, ready};

use mgp_types::method::{CallbackRespond, Request as _};
use mgp_types::mgp::{CallbackRespondParams, CallbackRespondResult, Extension};
use mgp_types::service::{Call, Context, Either, Kind, MgpService, Params, Reply, Router, Stack};
use mgp_types::{Id, RpcError};
use tower_service::Service;

use super::table::{CallbackTable, Owner};

/// Layer that passes the answers to callbacks on to the calls that wait for them.
///
/// Place it outside every layer that can make a call wait. Otherwise an answer might have to wait until the call ends
/// that needs this answer.
///
/// ```
/// use mgp_stream::CallbackLayer;
/// use mgp_types::service::{Reply, Stack, mock};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let callbacks = CallbackLayer::default();
/// let inner = Stack::from_fn(|_| async { Ok(Reply::empty()) });
/// let mut client = mock::client(Stack::new(callbacks.layer(inner)));
/// let late = r#"{"callback_id":"old","response":"confirm"}"#;
/// // This client did not negotiate callbacks, so the layer leaves the method to the inner service.
/// assert!(client.request("mgp/callback/respond", late).await.is_ok());
/// assert_eq!(callbacks.open(), 0);
/// # });
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CallbackLayer(CallbackTable);

impl CallbackLayer {
    /// Returns a router for `mgp/callback/respond`. A server or gateway can use it to offer the method as a tool.
    #[must_use]
    pub fn router(&self) -> Router {
        let layer = self.clone();
        let answer = Stack::from_fn(move |call: Call| {
            ready(if call.cx().caller.has(Extension::Callbacks) {
                layer.respond(call.cx(), call.params())
            } else {
                Err(RpcError::method_not_found(CallbackRespond::METHOD))
            })
        });
        Router::new().route(CallbackRespond::METHOD, answer)
    }

    /// Returns the number of callbacks that wait for an answer.
    #[must_use]
    pub fn open(&self) -> usize {
        self.0.len()
    }

    /// Answers a call of `mgp/callback/respond`. Stores a channel for callbacks in the context of any other request
    /// that has an id, and returns `None`. Does nothing if the caller did not negotiate callbacks.
    pub(crate) fn intercept(&self, call: &mut Call) -> Option<Result<Reply, RpcError>> {
        if call.kind() != Kind::Request || !call.cx().caller.has(Extension::Callbacks) {
            return None;
        }
        if call.is::<CallbackRespond>() {
            return Some(self.respond(call.cx(), call.params()));
        }
        if let Some(request) = call.cx().wire_id.clone() {
            let (table, owner) = (self.0.clone(), Owner::of(call.cx()));
            call.cx_mut().extensions.insert(CallbackChannel { table, owner, request });
        }
        None
    }

    fn respond(&self, cx: &Context, params: &Params) -> Result<Reply, RpcError> {
        let CallbackRespondParams { callback_id, response, .. } = params.get()?;
        let status = self.0.answer(&Owner::of(cx), &callback_id, &response)?;
        Reply::of(&CallbackRespondResult::new(callback_id, status))
    }
}

/// The channel through which a running call sends callbacks to its caller; an extension of the call's context. If the
/// call is forwarded to another server, the channel still leads to the original caller.
pub(super) struct CallbackChannel {
    pub(super) table: CallbackTable,
    pub(super) owner: Owner,
    /// The request id that the caller chose for the call.
    pub(super) request: Id,
}

mgp_types::layer_service! {
    /// The service that [`CallbackLayer`] creates.
    pub CallbackService for CallbackLayer
}

impl<S: MgpService> Service<Call> for CallbackService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, Ready<Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        match self.layer.intercept(&mut call) {
            Some(answer) => Either::Right { future: ready(answer) },
            None => Either::Left { future: self.inner.call(call) },
        }
    }
}
