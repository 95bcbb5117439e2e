//! The layer of governance: a record of every call, and one decision about it.
//!
//! Applies to: both.

use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::service::{Call, MgpService, ServerId};
use tower::util::Either;
use tower_layer::Layer;

use super::Governance;
use crate::access::{KernelTools, KernelToolsLayer};
use crate::audit::{Audit, AuditLayer};
use crate::decision::{Sources, ToolOrigin};
use crate::definition::ServerTools;
use crate::gate::{self, DecisionService};

/// Layer of [`Governance::layer`] and [`Governance::own`].
#[derive(Clone, Debug)]
#[must_use]
pub struct GovernLayer {
    pub(super) governance: Governance,
    pub(super) server: ServerId,
    pub(super) origin: ToolOrigin,
}

/// A service behind all layers; only our own tools have methods of operators beside them.
pub type Governed<S> = Audit<Either<KernelTools<DecisionService<S>>, DecisionService<S>>>;

impl<S: MgpService> Layer<S> for GovernLayer {
    type Service = Governed<S>;

    fn layer(&self, inner: S) -> Governed<S> {
        // Access, definitions, permissions, validators and confirmations, in one decision.
        let decided = DecisionService::new(inner, Arc::new(self.sources()));
        let inner = match self.origin {
            // The methods of operators under the names of tools are answered here: access to them is never granted.
            ToolOrigin::Own => {
                Either::Left(KernelToolsLayer::new(self.governance.router()).layer(decided))
            }
            // Another server has its own.
            ToolOrigin::Foreign => Either::Right(decided),
        };
        // Every call is recorded, whatever its outcome; its risk is known before it is decided.
        self.recording().layer(inner)
    }
}

impl GovernLayer {
    /// Returns a check that decides again about calls that [waited](mgp_types::service::WaitMark) further in than this
    /// layer, for the moment right before they run.
    ///
    /// The layer itself decides again after each of its own waits.
    ///
    /// # Errors
    /// As the layer, if the call may not run any more.
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
