//! Tests of cancellation by a separate request (MGP §12): it cancels only the call that has this id and the same
//! handle.

use serde_json::json;

use super::caller::{Caller, streaming};
use super::world::World;

#[tokio::test]
async fn modern_call_is_found_by_its_caller_and_id() {
    let world = World::guarded().await;
    let (ann, eve) = (world.key("acme", "ann").await, world.key("evil", "ann").await);
    let mut caller = Caller::modern(&world, streaming(), Some(&ann));
    let mut other = Caller::modern(&world, streaming(), Some(&eve));
    (caller.handle, other.handle) = (Some("h"), Some("h"));

    let params = json!({ "name": "think", "arguments": {}, "_mgp": { "stream": true } });
    let mut thinks = caller.request("call", "tools/call", params).await;
    assert!(thinks.is_events());
    for index in 0..2 {
        let chunk = thinks.event().await.unwrap().data;
        assert_eq!(chunk["method"], "notifications/mgp.stream.chunk");
        assert_eq!(chunk["params"]["index"], index);
    }
    let cancel = json!({ "request_id": "call", "reason": "enough" });
    let answer = other.request(2, "mgp/stream/cancel", cancel.clone()).await.message().await;
    assert_eq!(answer["result"]["cancelled"], false, "{answer}");
    assert_eq!(world.monitor.running(), 1);

    let answer = caller.request(2, "mgp/stream/cancel", cancel.clone()).await.message().await;
    assert_eq!(answer["result"]["cancelled"], true, "{answer}");
    assert!(answer["result"]["partial_result"]["content"].to_string().contains("be"), "{answer}");
    let rest = thinks.rest().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0].data["id"], "call");
    assert_eq!(rest[0].data["result"]["_mgp"]["cancelled"], true, "{rest:?}");
    world.quiet().await;
    let answer = caller.request(3, "mgp/stream/cancel", cancel).await.message().await;
    assert_eq!(answer["result"]["cancelled"], false, "{answer}");
}

/// A cancellation that arrives late must not hit another client's call with the same id: all clients number their
/// requests from 1, and several may use the same API key.
#[tokio::test]
async fn late_cancellation_hits_no_other_call() {
    let world = World::guarded().await;
    let key = world.key("acme", "ann").await;
    let (one, other) = (
        Caller::modern(&world, streaming(), Some(&key)),
        Caller::modern(&world, streaming(), Some(&key)),
    );
    let params = json!({ "name": "think", "arguments": {}, "_mgp": { "stream": true } });
    let mut thinks = other.request(5, "tools/call", params).await;
    thinks.event().await.unwrap();
    // The caller `one` also made a call with this id, which has already ended. So this cancellation must cancel
    // nothing.
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } });
    assert_eq!(one.post(&cancelled).await.status, 202);
    let answer = one.request(6, "mgp/stream/cancel", json!({ "request_id": 5 })).await;
    assert_eq!(answer.message().await["result"]["cancelled"], false);
    assert_eq!(world.monitor.running(), 1);
    drop(thinks);
    world.quiet().await;
}
