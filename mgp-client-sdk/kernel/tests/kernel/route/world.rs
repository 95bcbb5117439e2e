//! The fixture of these tests: kernels, servers and hosts.

use std::path::Path;
use std::sync::Arc;

use mgp_client_sdk::{Client, ClientBuilder};
use mgp_discovery::{Config, GovernanceConfig};
use mgp_kernel::{Kernel, KernelBuilder};
use mgp_lifecycle::EraChoice;
use mgp_security::AuditQuery;
use mgp_server_sdk::Server;
use mgp_testkit::RawPeer;
pub(crate) use mgp_testkit::until;
use mgp_transport::{Connection, duplex};
use mgp_types::mcp::{ElicitParams, Era, Revision};
use mgp_types::mgp::{AccessGrantParams, DefaultPolicy, RiskLevel};
use mgp_types::service::{Principal, Stack};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Notify;

/// All four pairs of eras: first the era of the host, then that of the servers.
pub(crate) const PAIRS: [(Era, Era); 4] = [
    (Era::Legacy, Era::Legacy),
    (Era::Legacy, Era::Modern),
    (Era::Modern, Era::Legacy),
    (Era::Modern, Era::Modern),
];

/// An empty list of arguments, for requests without arguments.
pub(crate) const NO_ARGUMENTS: [(&str, &str); 0] = [];

/// The fields of the form with which a tool asks its caller.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Guest {
    /// The guest's name.
    pub(crate) name: String,
}

/// Returns settings for a server that all callers may use, with these tools marked as safe.
pub(crate) fn open(tools: &[&str]) -> GovernanceConfig {
    let mut mgp = GovernanceConfig::default();
    mgp.default_policy = DefaultPolicy::OptOut;
    for tool in tools {
        mgp.risk.insert((*tool).to_owned(), RiskLevel::Safe);
    }
    mgp
}

pub(crate) fn limit_era(server: Server, era: Era) -> Server {
    server.offer(|offer| offer.revisions.retain(|revision: &Revision| revision.era() == era))
}

pub(crate) fn config_of(text: &str) -> Config {
    Config::parse("mgp.toml", text).unwrap().config
}

/// Returns a configuration with which the kernel lists only the discovery tools, even if there are few other tools.
pub(crate) fn search() -> Config {
    config_of("[kernel]\nsurface = 'search'")
}

pub(crate) async fn build(builder: KernelBuilder) -> Kernel {
    builder.build().await.unwrap()
}

/// Builds a kernel, and waits until its index has, for each of these servers, this number of tools.
pub(crate) async fn build_with_tools<const N: usize>(
    builder: KernelBuilder,
    servers: [(&str, usize); N],
) -> Kernel {
    let kernel = build(builder).await;
    for (server, tools) in servers {
        wait_for_tools(&kernel, server, tools).await;
    }
    kernel
}

/// Builds a kernel with one server, and waits until its index has this number of tools of the server.
pub(crate) async fn kernel_with(
    id: &str,
    mgp: GovernanceConfig,
    tools: usize,
    server: impl Fn() -> Server + Send + Sync + 'static,
) -> Kernel {
    build_with_tools(Kernel::builder().local_with(id, mgp, server), [(id, tools)]).await
}

/// Starts a kernel with the state of a stopped kernel. Waits, because the folder stays locked until all tasks of the
/// stopped kernel have ended.
pub(crate) async fn reopen(folder: &Path, builder: impl Fn() -> KernelBuilder) -> Kernel {
    let mut kernel = None;
    until("the state folder is free", async || {
        kernel = builder().in_folder(folder).await.ok();
        kernel.is_some()
    })
    .await;
    kernel.unwrap()
}

/// Waits half a second, until the kernel has announced or stored what it has read.
pub(crate) async fn wait_for_tasks() {
    mgp_testkit::sleep_in_parts(std::time::Duration::from_millis(500)).await;
}

/// Adds an entry to the access rules of a kernel, as an operator.
pub(crate) async fn grant(kernel: &Kernel, entry: AccessGrantParams) {
    let operator = Principal::local().operator();
    kernel.governance().access().grant(&operator, entry).await.unwrap();
}

/// Returns the events in a kernel's audit log that match a query, as JSON.
pub(crate) async fn recorded(kernel: &Kernel, query: AuditQuery) -> String {
    let log = kernel.governance().log().unwrap();
    log.flush().await.unwrap();
    serde_json::to_string(&log.query(query).await.unwrap().events).unwrap()
}

/// Returns the recorded calls of a server's tools, as JSON.
pub(crate) async fn recorded_calls(kernel: &Kernel, server: &str) -> String {
    recorded(kernel, AuditQuery::new().server(server).event_type("TOOL_EXECUTED")).await
}

/// Connects a host to a kernel as the local user's agent with this name.
pub(crate) async fn host(kernel: &Kernel, agent: &str, builder: ClientBuilder) -> Client {
    host_as(kernel, Principal::local().agent(agent), builder).await
}

/// Connects a host to a kernel, as a principal.
pub(crate) async fn host_as(
    kernel: &Kernel,
    principal: Principal,
    builder: ClientBuilder,
) -> Client {
    let (here, there) = duplex();
    let stack = kernel.server().into_stack().unwrap();
    let connection = Connection::new(there.reader, there.writer, stack).principal(principal);
    tokio::spawn(connection.run());
    builder.connect(here.reader, here.writer).await.unwrap()
}

/// Connects a peer without an SDK to a kernel, as the local user's agent with this name.
pub(crate) fn raw_peer(kernel: &Kernel, agent: &str) -> RawPeer {
    raw_peer_of(kernel.server().into_stack().unwrap(), agent)
}

/// Connects an agent to a stack, which several of them can share.
pub(crate) fn raw_peer_of(stack: Stack, agent: &str) -> RawPeer {
    raw_peer_as(stack, Principal::local().agent(agent))
}

/// Connects a peer without an SDK to a stack, as a principal.
pub(crate) fn raw_peer_as(stack: Stack, principal: Principal) -> RawPeer {
    let (here, there) = duplex();
    let connection = Connection::new(there.reader, there.writer, stack);
    tokio::spawn(connection.principal(principal).run());
    RawPeer::new(here.reader, here.writer)
}

pub(crate) fn host_of(era: Era) -> ClientBuilder {
    let choice = if era == Era::Legacy { EraChoice::Legacy } else { EraChoice::Modern };
    Client::builder("host", "1").era(choice)
}

/// A guard that sends a notification when the call that contains it is dropped.
pub(crate) struct NotifyOnDrop(pub(crate) Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Returns the builder of a host that fills in forms on behalf of its user.
pub(crate) fn answering(era: Era) -> ClientBuilder {
    host_of(era).on_elicitation(|question: ElicitParams| async move {
        question.accept_with(&serde_json::json!({ "name": "Ann" }))
    })
}

/// Waits until the index has this number of tools of a server.
pub(crate) async fn wait_for_tools(kernel: &Kernel, server: &str, tools: usize) {
    until("its tools are known", || async { kernel.index().tools_of(server).len() == tools }).await;
}
