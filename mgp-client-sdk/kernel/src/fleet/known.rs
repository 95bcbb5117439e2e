//! The fleet as the registry and the lifecycle methods see it (MGP §11, §15.2).
//!
//! Applies to: inbound.

use std::sync::Arc;

use mgp_discovery::Known;
use mgp_security::{Administration, Event, Governance, Refusal};
use mgp_toolindex::Listed;
use mgp_types::RpcError;
use mgp_types::method::{LifecycleShutdown, Request as _};
use mgp_types::mgp::{
    MgpVersion, PingResult, ServerSummary, ShutdownParams, ShutdownReason, ShutdownResult,
    StatusResult,
};
use mgp_types::service::{BoxFuture, Context, ServerId, Visibility};

use super::node::Node;
use super::servers::Fleet;
use crate::seen::Seen;

impl mgp_discovery::Fleet for Fleet {
    fn known(&self) -> Vec<Known> {
        let all = self.all();
        all.values().map(|node| self.summary(node)).collect()
    }
}

impl Fleet {
    fn summary(&self, node: &Node) -> Known {
        let ground = self.ground();
        let mut summary = ServerSummary::new(node.id().as_str(), node.state());
        let tools = ground.index.tools_of(node.id().as_str());
        summary.tools = tools.iter().map(|tool| tool.name().to_owned()).collect();
        let policy = ground.governance.policies().of(Some(node.id()));
        summary.trust_level = Some(policy.trust.clone());
        if let Ok(client) = node.client().client()
            && let Some(extensions) = &client.server().mgp
        {
            summary.mgp_version = Some(MgpVersion::default());
            summary.extensions = extensions.iter().map(|name| name.to_string()).collect();
        }
        let needed = tools.iter().filter_map(Listed::security);
        let needed = needed.flat_map(|security| security.permissions_required.iter().cloned());
        let config = node.config();
        let configured = config.mgp.iter().flat_map(|mgp| mgp.permissions_required.iter());
        let mut all: Vec<_> = needed.chain(configured.cloned()).collect();
        all.sort_unstable();
        all.dedup();
        Known::new(summary, all)
    }
}

/// The fleet as a caller sees it: what it may not use is not there.
pub(crate) struct Shown {
    pub(crate) fleet: Fleet,
    pub(crate) seen: Seen,
}

impl Shown {
    /// A server, for those who may use some of it.
    fn node(&self, cx: &Context, server: &ServerId) -> Option<Arc<Node>> {
        let node = self.fleet.get(server.as_str())?;
        let is_operator = self.fleet.ground().governance.is_operator(cx, Administration::Reads);
        let sees = || {
            let tools = self.fleet.ground().index.tools_of(server.as_str());
            tools.iter().any(|tool| self.seen.sees(cx, Some(server), tool.name()).is_ok())
        };
        (is_operator || sees()).then_some(node)
    }
}

impl mgp_lifecycle::Fleet for Shown {
    fn ping(
        &self,
        cx: &Context,
        server: &ServerId,
    ) -> BoxFuture<'static, Option<Result<PingResult, RpcError>>> {
        let node = self.node(cx, server);
        Box::pin(async move {
            let client = match node?.client().client() {
                Ok(client) => client,
                Err(error) => return Some(Err(error.into())),
            };
            Some(client.mgp().health_ping().await.map_err(RpcError::from))
        })
    }

    fn status(
        &self,
        cx: &Context,
        server: &ServerId,
    ) -> BoxFuture<'static, Option<Result<StatusResult, RpcError>>> {
        let node = self.node(cx, server);
        Box::pin(async move {
            let client = match node?.client().client() {
                Ok(client) => client,
                Err(error) => return Some(Err(error.into())),
            };
            Some(client.mgp().health_status().await.map_err(RpcError::from))
        })
    }

    fn admit(&self, cx: &Context) -> BoxFuture<'static, Result<(), RpcError>> {
        let (governance, cx) = (self.fleet.ground().governance.clone(), cx.clone());
        Box::pin(async move { admitted(&governance, &cx, None).await })
    }

    /// As `mgp/kernel/servers/stop`: it stays down until an operator starts it.
    fn shutdown(
        &self,
        cx: &Context,
        server: &ServerId,
        _: ShutdownParams,
    ) -> BoxFuture<'static, Option<Result<ShutdownResult, RpcError>>> {
        let (node, cx) = (self.node(cx, server), cx.clone());
        let governance = self.fleet.ground().governance.clone();
        Box::pin(async move {
            let node = node?;
            if let Err(refused) = admitted(&governance, &cx, Some(node.id())).await {
                return Some(Err(refused));
            }
            // Another reason, a configuration that changed for one, would have it started anew.
            drop(Fleet::halting(&node, ShutdownReason::OperatorRequest));
            Some(Ok(ShutdownResult::new(true)))
        })
    }
}

/// Refuses a shutdown by whoever may not change anything; either is on the record.
async fn admitted(
    governance: &Governance,
    cx: &Context,
    server: Option<&ServerId>,
) -> Result<(), RpcError> {
    let method = LifecycleShutdown::METHOD;
    governance.operators_only_at(cx, server.cloned(), Administration::Changes, method).await?;
    let event = Event::administered(&cx.principal, server, method).of_call(cx);
    governance.audit().record(event.build()).await.map_err(|error| Refusal::Unaudited(error).into())
}
