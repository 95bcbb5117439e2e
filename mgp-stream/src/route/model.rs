//! A model test of chunks that arrive on two streams of a connection while their call ends.

use std::sync::Arc;

use mgp_types::method::{Notification as _, StreamChunk};
use mgp_types::service::{
    BoxFuture, Call, Context, InFlight, Inbox, ItemReceiver, Link, Outlet, OutletItem, Peer,
    QueueRoom, Reply, Stack, mock,
};
use mgp_types::sync::Mutex;
use mgp_types::{Id, RpcError};
use serde_json::Value;
use shuttle::future::{block_on, spawn};
use tower_layer::Layer as _;

use super::RouteLayer;
use crate::chunk::ChunkReceiver;
use crate::model::explore;

const ORDERS: usize = 200;

/// A connection with one call that waits for its answer.
#[derive(Default)]
struct Waiting(Mutex<Option<InFlight>>);

impl Link for Waiting {
    fn send(&self, _: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        Box::pin(std::future::ready(Ok(Reply::None)))
    }

    fn in_flight(&self, _: &Id) -> Option<InFlight> {
        self.0.lock().clone()
    }
}

/// A queue for a call's partial results that has room for only three chunks.
#[derive(Default)]
struct SmallInbox(Mutex<Vec<String>>);

impl ItemReceiver for SmallInbox {
    fn push(&self, item: OutletItem) -> QueueRoom {
        let OutletItem::Chunk(chunk) = item else { return QueueRoom::Free };
        let mut texts = self.0.lock();
        if texts.len() == 3 {
            return QueueRoom::Full;
        }
        texts.push(chunk.content.get::<Value>().unwrap()["text"].as_str().unwrap().to_owned());
        QueueRoom::Free
    }
}

async fn read(link: Arc<Waiting>, indices: [u64; 2]) {
    let inner = Stack::from_fn(|_| async { Ok(Reply::None) });
    let mut client = mock::client(Stack::new(RouteLayer::new().layer(inner)));
    client.cx.peer = Peer::new(link);
    for index in indices {
        let params = format!(
            r#"{{"request_id":1,"index":{index},"content":{{"type":"text","text":"{index}"}}}}"#
        );
        client.notify(StreamChunk::METHOD, &params).await.unwrap();
    }
}

/// The caller gets the first chunks, in order and without a gap. All other chunks that arrive are counted as dropped.
#[test]
fn two_streams_of_chunks_against_the_end_of_their_call() {
    explore(ORDERS, || {
        let (link, inbox) = (Arc::new(Waiting::default()), Arc::new(SmallInbox::default()));
        let receiver = Arc::new(ChunkReceiver::default());
        let mut cx =
            Context::clone(&mock::client(Stack::from_fn(|_| async { Ok(Reply::None) })).cx);
        cx.outlet = Outlet::from_fn(|_| {});
        cx.extensions.insert_shared(Arc::clone(&receiver));
        let waiting = InFlight { id: 1.into(), cx, inbox: Inbox::new(inbox.clone()) };
        *link.0.lock() = Some(waiting);
        let streams = [[0, 2], [1, 3]].map(|indices| spawn(read(Arc::clone(&link), indices)));
        let ending = Arc::clone(&link);
        let ending = spawn(async move { drop(ending.0.lock().take()) });
        block_on(async {
            ending.await.unwrap();
            for stream in streams {
                stream.await.unwrap();
            }
        });
        let texts = inbox.0.lock();
        assert!(
            ["0", "1", "2"].starts_with(&texts.iter().map(String::as_str).collect::<Vec<_>>()),
            "{texts:?}"
        );
        assert_eq!(texts.len() as u64 + receiver.dropped(), receiver.arrived());
    });
}
