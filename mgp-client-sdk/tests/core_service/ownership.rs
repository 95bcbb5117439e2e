//! The owner of a call decides when it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, ToolRouter};
use mgp_lifecycle::EraChoice;
use mgp_server_sdk::prelude::*;
use mgp_types::Payload;
use mgp_types::service::{BoxFuture, Call, ConsumerGone, Reply, Sink, Stack};
use tower_layer::layer_fn;

use crate::world::{DropCounter, ItemLog, both, chunk, config, hop, kernel, serve};

#[test]
fn the_end_of_a_connection_ends_its_calls() {
    both(|| async {
        let dropped = DropCounter::default();
        let (inside, (started, running)) = (dropped.clone(), tokio::sync::oneshot::channel());
        let started = Arc::new(std::sync::Mutex::new(Some(started)));
        let hang = Tool::new("hang", "Hangs", move || {
            let guard = inside.guard();
            let _ = started.lock().unwrap().take().unwrap().send(());
            async move {
                let _guard = guard;
                std::future::pending::<&str>().await
            }
        });
        let end = serve(Server::new("s", "1").tool(hang));
        let client =
            Client::connect(end.reader, end.writer, config(EraChoice::Legacy)).await.unwrap();
        let calling = client.clone();
        let call =
            tokio::spawn(async move { calling.call_tool("hang", &Payload::empty_object()).await });
        running.await.unwrap();
        call.abort();
        let _ = call.await;
        drop(client);
        dropped.reach(1).await;
    });
}

/// A counter of the items that pass through a wrapped outlet.
#[derive(Clone, Default)]
struct Watch(Arc<AtomicUsize>);

struct Watching(Arc<dyn Sink>, Watch);

impl Sink for Watching {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        self.1.0.fetch_add(1, Ordering::SeqCst);
        self.0.send(item)
    }

    fn wants(&self, kind: mgp_types::service::OutletItemKind) -> bool {
        self.0.wants(kind)
    }
}

#[test]
fn a_gate_that_wraps_the_outlet_sees_each_chunk() {
    both(|| async {
        let watch = Watch::default();
        let gate = {
            let watch = watch.clone();
            layer_fn(move |inner: Stack| {
                let watch = watch.clone();
                Stack::from_fn(move |mut call: Call| {
                    let (inner, watch) = (inner.clone(), watch.clone());
                    let cx = call.cx_mut();
                    cx.outlet =
                        std::mem::take(&mut cx.outlet).wrap(|sink| Arc::new(Watching(sink, watch)));
                    async move { inner.send(call).await }
                })
            })
        };
        let think = Tool::new("think", "Thinks aloud", |outlet: Outlet| async move {
            for _ in 0..50 {
                let _ = outlet.send(chunk("x")).await;
            }
            "x".repeat(50)
        });
        let hop = hop(Server::new("below", "1").tool(think), config(EraChoice::Legacy), gate).await;
        let end = kernel(ToolRouter::new().route("think", hop));
        let client =
            Client::connect(end.reader, end.writer, config(EraChoice::Legacy)).await.unwrap();
        let (seen, outlet) = ItemLog::outlet();
        let reply = client.call_tool_with("think", &Payload::empty_object(), outlet).await.unwrap();
        assert!(matches!(reply, Reply::Complete(_)));
        assert_eq!(seen.text().len(), 50);
        assert_eq!(watch.0.load(Ordering::SeqCst), 50);
    });
}
