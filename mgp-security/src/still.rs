//! Decides anew about calls that waited: what let them pass may have been taken back meanwhile (MGP §3.6, §5).
//!
//! Applies to: both.

use std::fmt;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::SystemTime;

use mgp_types::service::{Call, Either, MgpService, Reply, ServerId, Waited};
use mgp_types::{Object, RpcError};
use tower_layer::Layer;
use tower_service::Service;

use crate::access::Access;
use crate::definition::Definitions;
use crate::error::Refusal;
use crate::permission::{PermissionRefused, Permissions};
use crate::tool::ValidateLayer;

/// The innermost gate: a call that waited must still have access, its permissions and its definition, and pass its checks.
///
/// It reads snapshots and never waits, so nothing can change between its word and the start of the call.
#[derive(Clone)]
pub(crate) struct Still {
    pub(crate) access: Access,
    pub(crate) definitions: Definitions,
    pub(crate) permissions: Permissions,
    /// The checks of arguments: the operator may have named another one meanwhile.
    pub(crate) checks: ValidateLayer,
    pub(crate) server: ServerId,
    /// Whether the tools are somebody else's, so that their definitions are pinned.
    pub(crate) are_pinned: bool,
}

impl Still {
    /// Refuses a call that waited and may not run any more.
    pub(crate) fn check(&self, call: &Call) -> Result<(), RpcError> {
        if Waited::is(call.cx()) { self.decide(call) } else { Ok(()) }
    }

    fn decide(&self, call: &Call) -> Result<(), RpcError> {
        let Some(tool) = call.tool() else { return Ok(()) };
        let cx = call.cx();
        let server = cx.server.as_ref().unwrap_or(&self.server);
        self.access.allow(cx, Some(server), Some(tool.name))?;
        if self.are_pinned {
            self.definitions.allow(server, call)?;
        }
        let assessment = self.definitions.assessment(Some(server), tool.name);
        let (needed, at) = (assessment.permissions.as_slice(), SystemTime::now());
        let (principal, name) = (&cx.principal, tool.name);
        let permissions = &self.permissions;
        let missing =
            permissions.missing(principal, Some(server), name, needed, tool.arguments, at);
        if missing.is_empty() {
            return self.checks.check(call).map_err(RpcError::from);
        }
        let refused = PermissionRefused::call(Some(server), name, &missing, &Object::new());
        Err(Refusal::from(Box::new(refused)).into())
    }
}

impl fmt::Debug for Still {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Still")
    }
}

impl<S> Layer<S> for Still {
    type Service = StillGate<S>;

    fn layer(&self, inner: S) -> StillGate<S> {
        StillGate { inner, still: Arc::new(self.clone()) }
    }
}

/// The service that decides anew about calls that waited, right before they run.
#[derive(Clone)]
pub struct StillGate<S> {
    inner: S,
    still: Arc<Still>,
}

impl<S> fmt::Debug for StillGate<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.still.fmt(f)
    }
}

impl<S: MgpService> Service<Call> for StillGate<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, Ready<Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        match self.still.check(&call) {
            Ok(()) => Either::Left { future: self.inner.call(call) },
            Err(refused) => Either::Right { future: ready(Err(refused)) },
        }
    }
}
