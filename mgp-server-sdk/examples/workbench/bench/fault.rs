//! The faults that flags enable: a handshake that hangs, and an exit after a number of calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as Task, Poll};

use mgp_server_sdk::prelude::*;
use mgp_types::method::{Initialize, ServerDiscover, ToolsCall};
use mgp_types::service::{BoxFuture, Call, Reply, Stack};
use tower_layer::Layer;
use tower_service::Service;

use super::Settings;

/// The exit status of the process after `--exit-after`.
const EXIT_STATUS: i32 = 3;

/// A layer that adds the faults to a server.
#[derive(Clone, Debug)]
pub(crate) struct FaultLayer {
    hang_init: bool,
    calls_left: Option<Arc<AtomicU64>>,
}

impl FaultLayer {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            hang_init: settings.hang_init,
            calls_left: settings.exit_after.map(|calls| Arc::new(AtomicU64::new(calls))),
        }
    }
}

impl Layer<Stack> for FaultLayer {
    type Service = Fault;

    fn layer(&self, inner: Stack) -> Fault {
        Fault { faults: self.clone(), inner }
    }
}

/// Service of [`FaultLayer`].
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    faults: FaultLayer,
    inner: Stack,
}

impl Service<Call> for Fault {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        if self.faults.hang_init && (call.is::<Initialize>() || call.is::<ServerDiscover>()) {
            return Box::pin(std::future::pending());
        }
        if let Some(left) = self.faults.calls_left.as_ref().filter(|_| call.is::<ToolsCall>()) {
            let spent =
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if spent.is_err() {
                std::process::exit(EXIT_STATUS);
            }
        }
        Box::pin(self.inner.call(call))
    }
}
