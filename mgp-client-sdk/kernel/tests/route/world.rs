//! The kernels, servers and hosts the stories are told with.

use std::time::Duration;

use mgp_client_sdk::{Client, ClientBuilder};
use mgp_discovery::ServerMgp;
use mgp_kernel::{Kernel, KernelBuilder};
use mgp_lifecycle::EraChoice;
use mgp_server_sdk::Server;
use mgp_transport::{Connection, duplex};
use mgp_types::mcp::{Era, Revision};
use mgp_types::mgp::{DefaultPolicy, RiskLevel};
use mgp_types::service::Principal;

/// The four pairs: a host of an era above, servers of an era below.
pub(crate) const PAIRS: [(Era, Era); 4] = [
    (Era::Legacy, Era::Legacy),
    (Era::Legacy, Era::Modern),
    (Era::Modern, Era::Legacy),
    (Era::Modern, Era::Modern),
];

/// A server that everyone may use, whose tools harm nobody.
pub(crate) fn open(tools: &[&str]) -> ServerMgp {
    let mut mgp = ServerMgp::default();
    mgp.default_policy = DefaultPolicy::OptOut;
    for tool in tools {
        mgp.risk.insert((*tool).to_owned(), RiskLevel::Safe);
    }
    mgp
}

/// The same server, speaking one era only.
pub(crate) fn of(server: Server, era: Era) -> Server {
    server.offer(|offer| offer.revisions.retain(|revision: &Revision| revision.era() == era))
}

/// Builds a kernel and waits until its servers are there and known.
pub(crate) async fn kernel(builder: KernelBuilder) -> Kernel {
    builder.build().await.unwrap()
}

/// A host of this kernel, as an agent.
pub(crate) async fn host(kernel: &Kernel, agent: &str, builder: ClientBuilder) -> Client {
    let (here, there) = duplex();
    let stack = kernel.server().into_stack().unwrap();
    let connection = Connection::new(there.reader, there.writer, stack)
        .principal(Principal::local().agent(agent));
    tokio::spawn(connection.run());
    builder.connect(here.reader, here.writer).await.unwrap()
}

/// Begins a host of an era.
pub(crate) fn begins(era: Era) -> ClientBuilder {
    let choice = if era == Era::Legacy { EraChoice::Legacy } else { EraChoice::Modern };
    Client::builder("host", "1").era(choice)
}

/// Waits until something is so; a story that hangs fails.
pub(crate) async fn until<F, Fut>(what: &str, mut is_so: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    for _ in 0..2_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}

/// Waits until a tool can be called.
pub(crate) async fn knows(kernel: &Kernel, server: &str, tools: usize) {
    until("its tools are known", || async { kernel.index().tools_of(server).len() == tools }).await;
}
