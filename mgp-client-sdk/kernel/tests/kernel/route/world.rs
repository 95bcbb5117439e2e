//! The fixture of these tests: kernels, servers and hosts.

use mgp_client_sdk::{Client, ClientBuilder};
use mgp_discovery::{Config, GovernanceConfig};
use mgp_kernel::{Kernel, KernelBuilder};
use mgp_lifecycle::EraChoice;
use mgp_server_sdk::Server;
pub(crate) use mgp_testkit::until;
use mgp_transport::{Connection, duplex};
use mgp_types::mcp::{Era, Revision};
use mgp_types::mgp::{DefaultPolicy, RiskLevel};
use mgp_types::service::Principal;

/// All four pairs of eras; the first is the era of the host, and the second that of the servers.
pub(crate) const PAIRS: [(Era, Era); 4] = [
    (Era::Legacy, Era::Legacy),
    (Era::Legacy, Era::Modern),
    (Era::Modern, Era::Legacy),
    (Era::Modern, Era::Modern),
];

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

/// Returns a configuration with which the kernel lists only the discovery tools, even if there are few other tools.
pub(crate) fn search() -> Config {
    Config::parse("mgp.toml", "[kernel]\nsurface = 'search'").unwrap().config
}

pub(crate) async fn build(builder: KernelBuilder) -> Kernel {
    builder.build().await.unwrap()
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

pub(crate) fn host_of(era: Era) -> ClientBuilder {
    let choice = if era == Era::Legacy { EraChoice::Legacy } else { EraChoice::Modern };
    Client::builder("host", "1").era(choice)
}

/// Waits until the index has this number of tools of a server.
pub(crate) async fn wait_for_tools(kernel: &Kernel, server: &str, tools: usize) {
    until("its tools are known", || async { kernel.index().tools_of(server).len() == tools }).await;
}
