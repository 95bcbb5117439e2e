//! Adds to each request the context that its handlers need: the log level and the counter of its questions.
//!
//! Applies to: inbound.

use mgp_types::RpcError;
use mgp_types::service::{Call, CallerAccess, Kind, MgpService, Reply};
use tower_service::Service;

use crate::ask::QuestionCounter;
use crate::log;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestContextLayer {
    /// `true` if the server sends log messages; each request then gets the level of its caller.
    pub(crate) logging: bool,
}

mgp_types::layer_service! {
    /// Service of [`RequestContextLayer`].
    pub(crate) RequestContext for RequestContextLayer
}

impl<S: MgpService> Service<Call> for RequestContext<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = S::Future;
    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> S::Future {
        if call.kind() == Kind::Request {
            if self.layer.logging {
                log::store_level(&mut call);
            }
            // Number the questions only for callers that answer with their next request. The handler then runs again,
            // and its questions must get the same numbers.
            if let CallerAccess::Channel(_) = call.cx().caller_access {
                call.cx_mut().extensions.insert(QuestionCounter::default());
            }
        }
        self.inner.call(call)
    }
}
