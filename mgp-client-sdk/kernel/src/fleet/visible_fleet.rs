//! The fleet for the registry and for the lifecycle methods (MGP §11, §15.2).

use std::sync::Arc;

use async_trait::async_trait;
use mgp_client_sdk::Client;
use mgp_discovery::KnownServer;
use mgp_security::{Administration, Event, Governance, Refusal};
use mgp_toolindex::IndexedTool;
use mgp_types::RpcError;
use mgp_types::method::{LifecycleShutdown, Request as _};
use mgp_types::mgp::{
    MgpVersion, PingResult, ServerSummary, ShutdownParams, ShutdownResult, StatusResult,
};
use mgp_types::service::{Context, ServerId, Visibility};

use super::managed_server::ManagedServer;
use super::servers::Fleet;
use crate::caller_view::CallerView;

impl mgp_discovery::ServerCatalog for Fleet {
    fn known(&self) -> Vec<KnownServer> {
        let all = self.all();
        all.values().map(|server| summarize(self, server)).collect()
    }
}

fn summarize(fleet: &Fleet, server: &ManagedServer) -> KnownServer {
    let context = fleet.context();
    let mut summary = ServerSummary::new(server.id().as_str(), server.state());
    let tools = context.index.tools_of(server.id().as_str());
    summary.tools = tools.iter().map(|tool| tool.name().to_owned()).collect();
    let policy = context.governance.policies().of(Some(server.id()));
    summary.trust_level = Some(policy.trust.clone());
    if let Ok(client) = server.latest().client()
        && let Some(extensions) = &client.server().mgp
    {
        summary.mgp_version = Some(MgpVersion::default());
        summary.extensions = extensions.iter().map(|name| name.to_string()).collect();
    }
    let required = tools.iter().filter_map(IndexedTool::security);
    let required = required.flat_map(|security| security.permissions_required.iter().cloned());
    let config = server.config();
    let configured = config.mgp.iter().flat_map(|mgp| mgp.permissions_required.iter());
    let mut permissions: Vec<_> = required.chain(configured.cloned()).collect();
    permissions.sort_unstable();
    permissions.dedup();
    KnownServer::new(summary, permissions)
}

/// The fleet as a caller sees it: without the servers it has no access to.
pub(crate) struct VisibleFleet {
    pub(crate) fleet: Fleet,
    pub(crate) view: CallerView,
}

impl VisibleFleet {
    /// Returns a server to operators, and to callers that may use one of its tools.
    fn get(&self, cx: &Context, server: &ServerId) -> Option<Arc<ManagedServer>> {
        let context = self.fleet.context();
        let found = self.fleet.get(server.as_str())?;
        let is_operator = context.governance.is_operator(cx, Administration::Reads);
        let sees_tool = || {
            let tools = context.index.tools_of(server.as_str());
            tools.iter().any(|tool| self.view.sees(cx, Some(server), tool.name()).is_ok())
        };
        (is_operator || sees_tool()).then_some(found)
    }

    fn client(&self, cx: &Context, server: &ServerId) -> Option<Result<Client, RpcError>> {
        Some(self.get(cx, server)?.latest().client().map_err(RpcError::from))
    }
}

#[async_trait]
impl mgp_lifecycle::Fleet for VisibleFleet {
    async fn ping(&self, cx: &Context, server: &ServerId) -> Option<Result<PingResult, RpcError>> {
        Some(match self.client(cx, server)? {
            Ok(client) => client.mgp().health_ping().await.map_err(RpcError::from),
            Err(error) => Err(error),
        })
    }

    async fn status(
        &self,
        cx: &Context,
        server: &ServerId,
    ) -> Option<Result<StatusResult, RpcError>> {
        Some(match self.client(cx, server)? {
            Ok(client) => client.mgp().health_status().await.map_err(RpcError::from),
            Err(error) => Err(error),
        })
    }

    async fn admit(&self, cx: &Context) -> Result<(), RpcError> {
        admit_shutdown(&self.fleet.context().governance, cx, None).await
    }

    /// As `mgp/kernel/servers/stop`: the server stays down until an operator starts it.
    async fn shutdown(
        &self,
        cx: &Context,
        server: &ServerId,
        _: ShutdownParams,
    ) -> Option<Result<ShutdownResult, RpcError>> {
        let server = self.get(cx, server)?;
        let governance = &self.fleet.context().governance;
        if let Err(refused) = admit_shutdown(governance, cx, Some(server.id())).await {
            return Some(Err(refused));
        }
        // The caller's reason is not used: with some, e.g. a changed configuration, the server is started again.
        drop(server.begin_operator_stop());
        Some(Ok(ShutdownResult::new(true)))
    }
}

/// Refuses a shutdown by a caller that may not change anything; records both outcomes.
async fn admit_shutdown(
    governance: &Governance,
    cx: &Context,
    server: Option<&ServerId>,
) -> Result<(), RpcError> {
    let method = LifecycleShutdown::METHOD;
    governance.operators_only_at(cx, server.cloned(), Administration::Changes, method).await?;
    let event = Event::administered(&cx.principal, server, method).of_call(cx);
    governance.audit().record(event.build()).await.map_err(|error| Refusal::Unaudited(error).into())
}
