//! The layer of governance: it records every call and decides about it.
//!
//! Applies to: inbound and outbound.

use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::service::{Call, MgpService, ServerId};
use tower::util::Either;
use tower_layer::Layer;

use super::Governance;
use crate::access::{KernelToolsLayer, KernelToolsService};
use crate::audit::{Audit, AuditLayer};
use crate::decision::{Sources, ToolOrigin};
use crate::definition::ServerTools;
use crate::gate::{self, DecisionService};

/// The layer that [`Governance::layer`] and [`Governance::own`] return.
#[derive(Clone, Debug)]
#[must_use]
pub struct GovernLayer {
    pub(super) governance: Governance,
    pub(super) server: ServerId,
    pub(super) origin: ToolOrigin,
}

/// The service that a [`GovernLayer`] creates around another service. In front of this process's own tools, it also
/// answers the methods for operators.
pub type Governed<S> = Audit<Either<KernelToolsService<DecisionService<S>>, DecisionService<S>>>;

impl<S: MgpService> Layer<S> for GovernLayer {
    type Service = Governed<S>;

    fn layer(&self, inner: S) -> Governed<S> {
        // One decision covers access, definitions, permissions, validators and confirmations.
        let decided = DecisionService::new(inner, Arc::new(self.sources()));
        let inner = match self.origin {
            // Tool calls that name a method for operators are answered by this process; each method itself checks the
            // caller's authority.
            ToolOrigin::Own => {
                Either::Left(KernelToolsLayer::new(self.governance.router()).layer(decided))
            }
            // Pass such calls on, because the other server answers them itself.
            ToolOrigin::Foreign => Either::Right(decided),
        };
        // The audit layer is outermost, so that every call is recorded, whatever its outcome. The call's risk is
        // determined before the call is decided.
        self.recording().layer(inner)
    }
}

impl GovernLayer {
    /// Returns a function that decides again about a call. A layer further in that made the call
    /// [wait](mgp_types::service::WaitMark) must call it immediately before it runs the call.
    ///
    /// If this layer itself made a call wait, it decides again without this function.
    ///
    /// # Errors
    /// The function returns the refusal if the call is no longer allowed to run.
    pub fn recheck(&self) -> impl Fn(&Call) -> Result<(), RpcError> + Send + Sync + use<> {
        let sources = self.sources();
        move |call| gate::recheck(&sources, call)
    }

    fn sources(&self) -> Sources {
        let sources = self.governance.sources(&self.server, self.origin);
        Sources { server_tools: Some(self.server_tools()), ..sources }
    }

    fn server_tools(&self) -> Arc<ServerTools> {
        self.governance.0.definitions.server(&self.server)
    }

    fn recording(&self) -> AuditLayer {
        let books = &*self.governance.0;
        let (definitions, server) = (books.definitions.clone(), self.server.clone());
        let tools = self.server_tools();
        AuditLayer::new(Arc::clone(&books.audit))
            .config(&books.recording)
            .server(self.server.clone())
            .risk(move |call| Some(definitions.risk(&tools, &server, call.tool()?.name)))
    }
}
