//! Adds to each request the context its handlers need: the log level and the order of its questions.
//!
//! Applies to: inbound.

use std::task::{Context as Task, Poll};

use mgp_types::RpcError;
use mgp_types::service::{Asking, Call, Kind, MgpService, Reply};
use tower_layer::Layer;
use tower_service::Service;

use crate::ask::Order;
use crate::log;


#[derive(Clone, Copy, Debug)]
pub(crate) struct FurnishLayer(pub(crate) Logging);

impl<S> Layer<S> for FurnishLayer {
    type Service = Furnish<S>;

    fn layer(&self, inner: S) -> Furnish<S> {
        Furnish { inner, logging: self.0 }
    }
}

/// Service of [`FurnishLayer`].
#[derive(Clone)]
pub(crate) struct Furnish<S> {
    inner: S,
    logging: Logging,
}

impl<S: MgpService> Service<Call> for Furnish<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = S::Future;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> S::Future {
        if call.kind() == Kind::Request {
            if self.logging == Logging::On {
                log::note_level(&mut call);
            }
            // Questions need names only if the handler runs again in the next round.
            if let Asking::Via(_) = call.cx().asking {
                call.cx_mut().extensions.insert(Order::default());
            }
        }
        self.inner.call(call)
    }
}
