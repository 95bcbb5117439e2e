//! A server with its whole stack, and clients connected to it in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_lifecycle::{
    ClientOffer, ConnectConfig, EraChoice, HandshakeState, MgpOffer, RequestMetaLayer, connect,
};
use mgp_server_sdk::ServerMonitor;
use mgp_server_sdk::prelude::*;
use mgp_stream::{CollectLayer, RouteLayer};
use mgp_testkit::until_shown;
pub(crate) use mgp_testkit::{Alive, Life};
use mgp_transport::{CloseReason, Connection, ConnectionMonitor, Limits, duplex};
use mgp_types::Payload;
use mgp_types::mcp::Implementation;
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::{
    BoxFuture, Call, ConsumerGone, Method, Params, Reply, Router, Scope, Sink, Stack,
};
use tokio::task::JoinHandle;
use tower::ServiceBuilder;

#[derive(Deserialize, JsonSchema)]
struct Amount {
    #[serde(default)]
    n: u64,
}

/// Creates a server whose tools return immediately, sleep, stream, block or hang; `alive` counts their running
/// functions.
pub(crate) fn server(alive: &Alive) -> Server {
    let begin = |alive: &Alive| {
        let alive = alive.clone();
        move || alive.begin()
    };
    let [now, task, sleep, stream, pour, hang, block] = [(); 7].map(|()| begin(alive));
    Server::new("zoo", "1.0")
        .tool(
            Tool::new("now", "Ends at once", move || {
                let life = now();
                async move {
                    let _life = life;
                    "done"
                }
            })
            .inline(),
        )
        .tool(Tool::new("task", "Ends at once, on a task", move |Args(size): Args<Amount>| {
            let life = task();
            async move {
                let _life = life;
                "x".repeat(usize::try_from(size.n).unwrap_or(0))
            }
        }))
        .tool(Tool::new("sleep", "Sleeps n milliseconds", move |Args(time): Args<Amount>| {
            let life = sleep();
            async move {
                let _life = life;
                tokio::time::sleep(Duration::from_millis(time.n)).await;
                "slept"
            }
        }))
        .tool(Tool::new(
            "stream",
            "Sends n chunks",
            move |Args(count): Args<Amount>, outlet: Outlet| send_chunks(stream(), count.n, outlet),
        ))
        .tool(
            Tool::new(
                "pour",
                "Sends n chunks on the blocking pool, for a second",
                move |Args(count): Args<Amount>, outlet: Outlet| {
                    send_chunks(pour(), count.n, outlet)
                },
            )
            .on_blocking_pool()
            .timeout(Duration::from_secs(1)),
        )
        .tool(Tool::new("hang", "Never ends", move || {
            let life = hang();
            async move {
                let _life = life;
                std::future::pending::<()>().await;
            }
        }))
        .tool(Tool::blocking("block", "Blocks its thread a moment", move |_: Amount| {
            let _life = block();
            std::thread::yield_now();
            "blocked"
        }))
}

async fn send_chunks(life: Life, count: u64, outlet: Outlet) -> Result<String, RpcError> {
    let _life = life;
    for index in 0..count {
        let text = serde_json::json!({ "type": "text", "text": index.to_string() });
        if outlet.send(OutletItem::chunk(Payload::of(&text)?)).await.is_err() {
            break;
        }
    }
    Ok(format!("all {count}"))
}

/// The two ends of a connection between a client and a server; a task drives each end.
pub(crate) struct Pair {
    pub(crate) stack: Stack,
    pub(crate) cx: Context,
    pub(crate) client: ConnectionMonitor,
    pub(crate) server: ConnectionMonitor,
    pub(crate) server_scope: Scope,
    pub(crate) client_run: JoinHandle<CloseReason>,
    pub(crate) server_run: JoinHandle<CloseReason>,
}

impl Pair {
    /// Connects a client to a server's stack, and completes the handshake.
    pub(crate) async fn join(to: &Stack, limits: Limits) -> Self {
        let (here, there) = duplex();
        let server = Connection::new(there.reader, there.writer, to.clone()).limits(limits);
        let inbound = ServiceBuilder::new().layer(RouteLayer::new()).service(Router::new());
        let client = Connection::new(here.reader, here.writer, Stack::new(inbound));

        let mut offer = ClientOffer::new(Implementation::new("test", "1.0"));
        offer.mgp = Some(MgpOffer::new(ExtensionSet::EMPTY.with(Extension::Streaming)));
        let cx = client.context();
        let stamp = RequestMetaLayer::new(cx.scope.state::<HandshakeState>(), &offer).unwrap();
        let outbound =
            ServiceBuilder::new().layer(stamp).layer(CollectLayer::new()).service(client.peer());
        let pair = Self {
            stack: Stack::new(outbound),
            cx,
            client: client.monitor(),
            server: server.monitor(),
            server_scope: server.scope().clone(),
            client_run: tokio::spawn(client.run()),
            server_run: tokio::spawn(server.run()),
        };
        let mut config = ConnectConfig::default();
        config.era = EraChoice::Legacy;
        connect(&pair.stack, &pair.cx, &offer, &config).await.unwrap();
        pair
    }

    pub(crate) fn call(&self, tool: &str, n: u64) -> BoxFuture<'static, Result<Reply, RpcError>> {
        self.call_with(tool, n, Outlet::none())
    }

    pub(crate) fn call_with(
        &self,
        tool: &str,
        n: u64,
        outlet: Outlet,
    ) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let arguments = Payload::of(&serde_json::json!({ "n": n })).unwrap();
        let mut cx = self.cx.clone();
        cx.outlet = outlet;
        self.stack.send(Call::request(Method::of("tools/call"), Params::tool(tool, &arguments), cx))
    }

    /// Returns counts for the client and then for the server: of pending calls, running calls, and bytes of messages in
    /// two stores.
    pub(crate) fn left(&self) -> [usize; 8] {
        let [ours, theirs] = [&self.client, &self.server].map(|monitor| {
            [monitor.pending(), monitor.running(), monitor.held_bytes(), monitor.inbox_bytes()]
        });
        [ours[0], ours[1], ours[2], ours[3], theirs[0], theirs[1], theirs[2], theirs[3]]
    }
}

pub(crate) fn text(reply: &Reply) -> String {
    reply.get::<serde_json::Value>().unwrap()["content"][0]["text"].as_str().unwrap().to_owned()
}

/// An outlet that counts its items, and takes some time for each.
#[derive(Debug, Default)]
pub(crate) struct CountingOutlet {
    pub(crate) taken: AtomicUsize,
    pub(crate) pause: Duration,
}

impl CountingOutlet {
    pub(crate) fn outlet(self: &Arc<Self>) -> Outlet {
        Outlet::new(Arc::clone(self) as Arc<dyn Sink>)
    }
}

impl Sink for CountingOutlet {
    fn send(&self, _: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        Box::pin(async {
            if !self.pause.is_zero() {
                tokio::time::sleep(self.pause).await;
            }
            self.taken.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    }
}

/// Waits for the end of a connection, for a minute at most.
pub(crate) async fn end(run: JoinHandle<CloseReason>) -> CloseReason {
    tokio::time::timeout(Duration::from_mins(1), run).await.unwrap().unwrap()
}

/// Waits until no call is running on the server, and neither side of any pair stores calls or messages.
#[track_caller]
pub(crate) fn quiet<'a>(
    pairs: &'a [Pair],
    calls: &'a ServerMonitor,
    alive: &'a Alive,
) -> impl Future<Output = ()> + 'a {
    until_shown(move || {
        let left: Vec<_> = pairs.iter().map(Pair::left).collect();
        let all = (left.iter().flatten().sum::<usize>(), calls.running(), alive.now());
        (all == (0, 0, 0), (left, calls.running(), alive.now()))
    })
}
