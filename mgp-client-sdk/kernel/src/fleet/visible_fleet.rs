//! The fleet in the form in which the server registry and the lifecycle methods use it (MGP §11, §15.2).

use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::Client;
use mgp_discovery::KnownServer;
use mgp_security::{Administration, Event, Governance, Refusal};
use mgp_toolindex::IndexedTool;
use mgp_types::method::{LifecycleShutdown, Request as _};
use mgp_types::mgp::{
    Extension, ExtensionSet, HealthStatus, MgpVersion, Permission, PingResult, ServerState,
    ServerSummary, ShutdownParams, ShutdownResult, StatusResult,
};
use mgp_types::service::{BoxFuture, Context, ServerId, Visibility};
use mgp_types::{Lenient, RpcError, Timestamp, millis};

use super::managed_server::ManagedServer;
use super::servers::Fleet;
use crate::caller_view::CallerView;

/// The maximum duration of a drain: half of the default of `SuperviseConfig::stop_timeout`.
const MAX_DRAIN: Duration = Duration::from_secs(30);

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
    let policy = context.governance.policies().get(Some(server.id()));
    summary.trust_level = Some(policy.trust.clone());
    let declared = declaration_of(server);
    summary.mgp_version = declared.version;
    let words = declared.extensions.without(Extension::ErrorHandling).iter();
    summary.extensions = words.map(|extension| extension.to_string()).collect();
    let required = tools.iter().filter_map(IndexedTool::security);
    let required = required.flat_map(|security| security.permissions_required.iter().cloned());
    let config = server.config();
    let configured = config.mgp.iter().flat_map(|mgp| mgp.permissions_required.iter());
    let mut permissions = declared.permissions;
    permissions.extend(required.chain(configured.cloned()));
    permissions.sort_unstable();
    permissions.dedup();
    KnownServer::new(summary, permissions)
}

/// The declarations of a server in its handshake (§2.3), without extensions that the kernel had not offered.
#[derive(Default)]
struct Declaration {
    version: Option<MgpVersion>,
    extensions: ExtensionSet,
    permissions: Vec<Permission>,
}

/// Returns the declarations of the current connection. If the server is not connected, returns those of its last
/// connection, with its extensions limited to the configured ones if there are any. If the last connection is unknown,
/// returns the configured extensions.
fn declaration_of(server: &ManagedServer) -> Declaration {
    if let Ok(client) = server.latest().client() {
        let facts = client.server();
        let permissions = facts.permissions_required.iter();
        return Declaration {
            version: facts.mgp_version.clone(),
            extensions: facts.mgp.unwrap_or_default(),
            permissions: permissions.map(|name| name.as_str().into()).collect(),
        };
    }
    let config = server.config();
    let Some(configured) = &config.mgp else { return Declaration::default() };
    let configured = ExtensionSet::from_names(&configured.extensions);
    let known = server.lists().capabilities().and_then(|known| known.find_mgp());
    let Some(Lenient::Valid(known)) = known else {
        return Declaration { extensions: configured, ..Declaration::default() };
    };
    let negotiated = server.all_extensions();
    let extensions = if configured.is_empty() { negotiated } else { negotiated & configured };
    let permissions = known.permissions_required.iter().cloned().collect();
    Declaration { version: Some(known.version), extensions, permissions }
}

/// The fleet as a caller sees it: without the servers to which the caller has no access.
pub(crate) struct VisibleFleet {
    pub(crate) fleet: Fleet,
    pub(crate) view: CallerView,
}

impl VisibleFleet {
    /// Returns a server if the caller is an operator or has access to any of the server's tools.
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

    /// Counts the tools of a server that a caller sees. An operator sees all tools.
    fn count_seen(&self, cx: &Context, server: &ServerId) -> u64 {
        let context = self.fleet.context();
        let is_operator = context.governance.is_operator(cx, Administration::Reads);
        let tools = context.index.tools_of(server.as_str());
        let sees = |tool: &&IndexedTool| self.view.sees(cx, Some(server), tool.name()).is_ok();
        tools.iter().filter(|tool| is_operator || sees(tool)).count() as u64
    }
}

/// Asks a server for its health. A server without the extension `lifecycle` receives an MCP ping instead.
async fn ping(client: &Client) -> Result<PingResult, RpcError> {
    if client.server().has(Extension::Lifecycle) {
        return Ok(client.mgp().health_ping().await?);
    }
    let status = ping_plain(client).await?;
    let mut result = PingResult::new(status);
    result.timestamp = Some(Timestamp::now());
    Ok(result)
}

/// Sends an MCP ping; a server that answers is healthy.
async fn ping_plain(client: &Client) -> Result<HealthStatus, RpcError> {
    client.ping().await?;
    Ok(HealthStatus::Healthy)
}

/// Returns the health and state of a server that is not connected. An idle server is healthy, because the next call
/// starts it.
fn health_of(server: &ManagedServer) -> (HealthStatus, ServerState) {
    let state = server.state();
    let health = match state {
        ServerState::Error => HealthStatus::Unhealthy,
        ServerState::Registered | ServerState::Disconnected if !server.hold().forbids_start() => {
            HealthStatus::Healthy
        }
        _ => HealthStatus::Degraded,
    };
    (health, state)
}

/// Returns the answer to a ping for a server that is not connected.
fn ping_result_of(server: &ManagedServer) -> PingResult {
    let (health, state) = health_of(server);
    let mut result = PingResult::new(health);
    result.timestamp = Some(Timestamp::now());
    result.state = Some(state);
    result
}

impl VisibleFleet {
    fn ping_server<'a>(
        &'a self,
        cx: &'a Context,
        server: &'a ServerId,
    ) -> BoxFuture<'a, Option<Result<PingResult, RpcError>>> {
        Box::pin(async move {
            let found = self.get(cx, server)?;
            let client = found.latest().client().ok();
            let answer = match &client {
                None => Ok(ping_result_of(&found)),
                Some(client) => match ping(client).await {
                    // The connection has ended, e.g. because the server is being stopped.
                    Err(_) if client.is_closed() => Ok(ping_result_of(&found)),
                    answer => answer,
                },
            };
            Some(answer.map(|mut result| {
                // Use the kernel's id of the server, not the id that the server reports.
                result.server_id = Some(server.to_string());
                result
            }))
        })
    }

    fn status_of<'a>(
        &'a self,
        cx: &'a Context,
        server: &'a ServerId,
    ) -> BoxFuture<'a, Option<Result<StatusResult, RpcError>>> {
        Box::pin(async move {
            let found = self.get(cx, server)?;
            let client = found.latest().client().ok();
            let answer = match &client {
                None => Ok(self.describe(cx, &found, health_of(&found))),
                Some(client) => match self.ask_status(cx, &found, client).await {
                    // The connection has ended, e.g. because the server is being stopped.
                    Err(_) if client.is_closed() => {
                        Ok(self.describe(cx, &found, health_of(&found)))
                    }
                    answer => answer,
                },
            };
            Some(answer.map(|mut result| {
                result.server_id = Some(server.to_string());
                result
            }))
        })
    }

    /// Asks a server for its status. A server without the extension `lifecycle` receives an MCP ping instead.
    async fn ask_status(
        &self,
        cx: &Context,
        server: &ManagedServer,
        client: &Client,
    ) -> Result<StatusResult, RpcError> {
        if client.server().has(Extension::Lifecycle) {
            return Ok(client.mgp().health_status().await?);
        }
        let health = ping_plain(client).await?;
        Ok(self.describe(cx, server, (health, ServerState::Connected)))
    }

    /// Returns the status of a server that does not report it itself.
    fn describe(
        &self,
        cx: &Context,
        server: &ManagedServer,
        (health, state): (HealthStatus, ServerState),
    ) -> StatusResult {
        let tools = self.count_seen(cx, server.id());
        let mut result = StatusResult::new(health);
        result.tools_total = Some(tools);
        result.tools_available = Some(if state == ServerState::Error { 0 } else { tools });
        result.pending_requests = Some(server.running());
        result.state = Some(state);
        result
    }

    /// Stops the server like `mgp/kernel/servers/stop`: it stays stopped until an operator starts it.
    fn stop_server<'a>(
        &'a self,
        cx: &'a Context,
        server: &'a ServerId,
        drain: Option<Duration>,
    ) -> BoxFuture<'a, Option<Result<ShutdownResult, RpcError>>> {
        Box::pin(async move {
            let server = self.get(cx, server)?;
            let governance = &self.fleet.context().governance;
            if let Err(refused) = admit_shutdown(governance, cx, Some(server.id())).await {
                return Some(Err(refused));
            }
            let mut accepted = ShutdownResult::new(true);
            accepted.server_id = Some(server.id().to_string());
            let running = server.running();
            accepted.pending_requests = Some(running);
            // Report the time at which the drain ends at the latest, because the kernel does not know how long the
            // running calls take.
            let latest = drain.map_or(MAX_DRAIN, |drain| drain.min(MAX_DRAIN));
            accepted.estimated_drain_ms = Some(if running == 0 { 0 } else { millis(latest) });
            // Do not use the caller's reason: after some reasons, e.g. a changed configuration, the server would be
            // restarted.
            drop(server.begin_operator_stop(drain));
            Some(Ok(accepted))
        })
    }
}

// Do not use `#[async_trait]` here: because of the bounds that it adds to the methods, the compiler would check again
// for each type of the fleet, in each method, whether threads can share it. This took a third of the time in which the
// package is compiled.
impl mgp_lifecycle::Fleet for VisibleFleet {
    /// Counts a tool as available if its server runs, or will start when the tool is called.
    fn count_tools(&self, cx: &Context) -> Option<(u64, u64)> {
        let (mut total, mut available) = (0, 0);
        for server in self.fleet.all().values() {
            let seen = self.count_seen(cx, server.id());
            total += seen;
            if server.state() != ServerState::Error && !server.hold().forbids_start() {
                available += seen;
            }
        }
        Some((total, available))
    }

    fn count_connections(&self, cx: &Context) -> Option<u64> {
        let all = self.fleet.context().callers.clients().list();
        let own = all.iter().filter(|one| one.principal.tenant() == cx.principal.tenant());
        Some(own.count() as u64)
    }

    fn ping<'s, 'c, 'i, 'f>(
        &'s self,
        cx: &'c Context,
        server: &'i ServerId,
    ) -> BoxFuture<'f, Option<Result<PingResult, RpcError>>>
    where
        's: 'f,
        'c: 'f,
        'i: 'f,
        Self: 'f,
    {
        self.ping_server(cx, server)
    }

    fn status<'s, 'c, 'i, 'f>(
        &'s self,
        cx: &'c Context,
        server: &'i ServerId,
    ) -> BoxFuture<'f, Option<Result<StatusResult, RpcError>>>
    where
        's: 'f,
        'c: 'f,
        'i: 'f,
        Self: 'f,
    {
        self.status_of(cx, server)
    }

    fn admit<'s, 'c, 'f>(&'s self, cx: &'c Context) -> BoxFuture<'f, Result<(), RpcError>>
    where
        's: 'f,
        'c: 'f,
        Self: 'f,
    {
        admit_shutdown(&self.fleet.context().governance, cx, None)
    }

    fn shutdown<'s, 'c, 'i, 'f>(
        &'s self,
        cx: &'c Context,
        server: &'i ServerId,
        params: ShutdownParams,
    ) -> BoxFuture<'f, Option<Result<ShutdownResult, RpcError>>>
    where
        's: 'f,
        'c: 'f,
        'i: 'f,
        Self: 'f,
    {
        self.stop_server(cx, server, params.timeout_ms.map(Duration::from_millis))
    }
}

/// Refuses a shutdown by a caller that is not an operator. Records in the audit log whether the shutdown was allowed.
fn admit_shutdown<'a>(
    governance: &'a Governance,
    cx: &'a Context,
    server: Option<&'a ServerId>,
) -> BoxFuture<'a, Result<(), RpcError>> {
    Box::pin(async move {
        let method = LifecycleShutdown::METHOD;
        governance.operators_only_at(cx, server.cloned(), Administration::Changes, method).await?;
        let event = Event::administered(&cx.principal, server, method).in_call(cx);
        let recorded = governance.audit().record(event.build()).await;
        recorded.map_err(|error| Refusal::Unaudited(error).into())
    })
}
