//! The servers, clients and hops of these tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::{Client, ClientConfig, Hop, ToolRouter};
use mgp_lifecycle::{
    CatchPanicLayer, EraChoice, HandshakeLayer, MgpOffer, RoundsLayer, ServerOffer,
};
use mgp_server_sdk::Server;
use mgp_stream::{CancelLayer, EmitLayer};
use mgp_transport::{Connection, duplex};
use mgp_types::mcp::{ElicitationCapability, Implementation};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::{MgpService, OutletItem, Router, Stack};
use mgp_types::{Payload, Sealer};
use tower_layer::Layer;

/// Runs a test on both runtimes; a test that hangs fails.
pub(crate) fn both<F: Future<Output = ()> + Send + 'static>(story: impl Fn() -> F) {
    let mut current = tokio::runtime::Builder::new_current_thread();
    let mut multi = tokio::runtime::Builder::new_multi_thread();
    for runtime in [&mut current, multi.worker_threads(2)] {
        let runtime = runtime.enable_all().build().unwrap();
        let told = story();
        runtime.block_on(async move {
            let told = tokio::spawn(told);
            tokio::time::timeout(Duration::from_secs(30), told)
                .await
                .expect("the story hangs")
                .unwrap();
        });
    }
}

/// Serves a server over memory and returns the client's end.
pub(crate) fn serve(server: Server) -> mgp_transport::DuplexEnd {
    let (here, there) = duplex();
    tokio::spawn(async move { server.serve(there.reader, there.writer).await });
    here
}

/// Returns the configuration of a client of one era that offers MGP streaming and elicitation.
pub(crate) fn config(era: EraChoice) -> ClientConfig {
    let mut config = ClientConfig::new("test", "1");
    config.connect.era = era;
    config.offer.mgp = Some(MgpOffer::new(ExtensionSet::EMPTY.with(Extension::Streaming)));
    config.offer.capabilities.elicitation = Some(ElicitationCapability::new());
    config
}

pub(crate) async fn connect(server: Server, config: ClientConfig) -> Client {
    let end = serve(server);
    Client::connect(end.reader, end.writer, config).await.unwrap()
}

/// Serves a tool router with the layers of a minimal kernel around it; returns the client's end of the connection.
pub(crate) fn kernel(board: ToolRouter) -> mgp_transport::DuplexEnd {
    let mut offer = ServerOffer::new(Implementation::new("kernel", "1"));
    offer.mgp = Some(MgpOffer::new(ExtensionSet::EMPTY.with(Extension::Streaming)));
    let stack = Stack::new(
        CatchPanicLayer::new().layer(
            HandshakeLayer::new(offer).layer(
                RoundsLayer::new(Sealer::random().unwrap())
                    .layer(CancelLayer::default().layer(EmitLayer::new().layer(board))),
            ),
        ),
    );
    let (here, there) = duplex();
    tokio::spawn(Connection::new(there.reader, there.writer, stack).run());
    here
}

/// Returns a hop to a server, with gates on its outbound stack.
pub(crate) async fn hop<L>(server: Server, config: ClientConfig, gates: L) -> Hop
where
    L: Layer<Stack>,
    L::Service: MgpService,
{
    let end = serve(server);
    Hop::new("below", Client::connect_through(end.reader, end.writer, config, gates).await.unwrap())
}

/// Answers elicitations with a value, and counts them.
pub(crate) fn person(answer: &'static str, asked: &Arc<AtomicUsize>) -> Router {
    let asked = Arc::clone(asked);
    Router::new().route(
        "elicitation/create",
        Stack::from_fn(move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            async move {
                // Simulate the time that a person needs to answer.
                tokio::task::yield_now().await;
                Ok(mgp_types::service::Reply::raw(Payload::parse(answer)?))
            }
        }),
    )
}

pub(crate) fn chunk(text: &str) -> OutletItem {
    OutletItem::chunk(Payload::of(&mgp_types::mcp::ContentBlock::text(text)).unwrap())
}
