//! Model tests of a call that ends, is cancelled and is dropped at the same time.

use std::pin::pin;
use std::sync::Arc;

use mgp_types::mcp::Revision;
use mgp_types::method::{Cancelled, Notification as _, Request as _, StreamCancel, ToolsCall};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::{Call, PeerInfo, Reply, Stack, mock};
use mgp_types::{Payload, RpcError};
use serde_json::{Value, json};
use shuttle::future::{block_on, spawn};
use tokio::sync::{Notify, oneshot};
use tower_layer::Layer as _;

use super::{CancelLayer, CancelSignal};
use crate::model::explore;

const ORDERS: usize = 200;
const CALL: &str = r#"{"name":"a"}"#;

/// A call that is running, and a second client on the same connection. The tool of the call sends chunks before and
/// after a wait.
struct Running {
    layer: CancelLayer,
    call: mgp_types::service::BoxFuture<'static, Result<Reply, RpcError>>,
    other: mock::Client,
    /// Notified to end the wait of the tool.
    go_on: Arc<Notify>,
}

fn running() -> Running {
    let go_on = Arc::new(Notify::new());
    let waiting = Arc::clone(&go_on);
    let tool = Stack::from_fn(move |call: Call| {
        let waiting = Arc::clone(&waiting);
        async move {
            let signal = call.cx().extensions.get_shared::<CancelSignal>().unwrap();
            signal.record_chunk(&block("a"));
            waiting.notified().await;
            signal.record_chunk(&block("b"));
            signal.record_chunk(&block("c"));
            Reply::of(&json!({"content": [{"type": "text", "text": "abc"}]}))
        }
    });
    let layer = CancelLayer::default();
    let mut client = mock::client(Stack::new(layer.layer(tool)));
    let mut facts = PeerInfo::new(Revision::V2025_11_25);
    facts.mgp = Some(ExtensionSet::EMPTY.with(Extension::Streaming));
    client.cx.caller = Arc::new(facts);
    let call = client.call(ToolsCall::METHOD, CALL);
    Running { layer, call, other: client, go_on }
}

fn block(text: &str) -> Payload {
    Payload::of(&json!({"type": "text", "text": text})).unwrap()
}

async fn cancel(mut client: mock::Client) -> Value {
    let params = r#"{"request_id":1,"reason":"stop"}"#;
    client.request(StreamCancel::METHOD, params).await.unwrap().get().unwrap()
}

/// Returns the result of a call; `null` if the call got no result.
fn result(reply: &Result<Reply, RpcError>) -> Value {
    let Ok(Reply::Complete(body)) = reply else { return Value::Null };
    serde_json::from_slice(&body.to_json()).unwrap()
}

fn assert_empty(layer: &CancelLayer) {
    assert_eq!((layer.running(), layer.kept_bytes()), (0, 0), "nothing is left of the call");
}

/// The answer to the cancellation and the answer to the call agree on whether the call was cancelled or completed.
#[test]
fn a_cancellation_against_the_end_of_its_call() {
    explore(ORDERS, || {
        let Running { layer, call, other, go_on } = running();
        let call = spawn(call);
        let cancelling = spawn(cancel(other));
        let going_on = spawn(async move { go_on.notify_one() });
        let (reply, answer) = block_on(async {
            going_on.await.unwrap();
            (call.await.unwrap(), cancelling.await.unwrap())
        });
        let result = result(&reply);
        assert_eq!(
            result["_mgp"]["cancelled"] == true,
            answer["cancelled"] == true,
            "{result} {answer}"
        );
        let is_whole = result["content"][0]["text"] == "abc";
        if answer["cancelled"] == true && !is_whole {
            assert_eq!(result["content"], answer["partial_result"]["content"]);
        } else {
            assert!(is_whole, "{result}");
        }
        assert_empty(&layer);
    });
}

/// A cancellation always wakes the call that it cancels, even if the call only begins to wait at that moment. Nothing
/// else would end the call.
#[test]
fn a_cancellation_against_a_call_that_begins_to_wait() {
    explore(ORDERS, || {
        let Running { layer, call, mut other, go_on: _go_on } = running();
        let call = spawn(call);
        let answer = block_on(async {
            let silent = r#"{"requestId":1}"#;
            other.notify(Cancelled::METHOD, silent).await.unwrap();
            call.await.unwrap()
        });
        assert!(matches!(answer, Ok(Reply::None)), "{answer:?}");
        assert_empty(&layer);
    });
}

/// If the caller disconnects, its call is dropped, even if the call completes or is cancelled at the same time.
#[test]
fn a_caller_that_leaves_against_a_cancellation_and_the_end() {
    explore(ORDERS, || {
        let Running { layer, call, other, go_on } = running();
        let (leave, left) = oneshot::channel::<()>();
        let call = spawn(async move {
            let mut call = pin!(call);
            tokio::select! {
                biased;
                reply = &mut call => result(&reply),
                _ = left => Value::Null,
            }
        });
        let cancelling = spawn(cancel(other));
        let going_on = spawn(async move { go_on.notify_one() });
        let leaving = spawn(async move { drop(leave) });
        block_on(async {
            leaving.await.unwrap();
            going_on.await.unwrap();
            let (result, answer) = (call.await.unwrap(), cancelling.await.unwrap());
            let is_cancelled = answer["cancelled"] == true;
            assert!(
                result.is_null() || is_cancelled == (result["_mgp"]["cancelled"] == true),
                "{result} {answer}"
            );
        });
        assert_empty(&layer);
    });
}
