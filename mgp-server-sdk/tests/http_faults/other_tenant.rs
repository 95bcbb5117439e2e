//! Tests that a caller gains nothing if it knows the id of another caller's session, or of an event in the stream of
//! that session.

use serde_json::json;

use super::caller::Caller;
use super::world::World;

#[tokio::test]
async fn session_of_another_is_unknown() {
    let world = World::guarded().await;
    let key = world.key("acme", "ann").await;
    let ann = Caller::legacy(&world, json!({}), Some(&key)).await;
    for (tenant, subject) in [("evil", "ann"), ("acme", "eve")] {
        let key = world.key(tenant, subject).await;
        let mut eve = Caller::legacy(&world, json!({}), Some(&key)).await;
        let own = eve.session.clone();
        eve.session.clone_from(&ann.session);
        let called = eve.call(1, "now", json!({})).await;
        let mut unknown = eve.clone();
        unknown.session = Some("0".repeat(32));
        let wrong = unknown.call(1, "now", json!({})).await;
        assert_eq!((called.status, wrong.status), (404, 404));
        // Another caller's session and an id that does not exist get the same answer.
        assert_eq!(called.text().await, wrong.text().await);
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
        for message in [ready, answer] {
            assert_eq!(eve.post(&message).await.status, 404);
        }
        assert_eq!(eve.get(None).await.status, 404);
        assert_eq!(eve.get(Some("0-0")).await.status, 404);
        assert_eq!(eve.delete().await.status, 404);
        eve.session = own;
        assert_eq!(eve.delete().await.status, 204);
    }
    assert_eq!(ann.call(1, "now", json!({})).await.status, 200);
    let mut nobody = ann.clone();
    nobody.session = None;
    assert_eq!(nobody.call(1, "now", json!({})).await.status, 400);
}

#[tokio::test]
async fn events_of_another_stream_are_unknown() {
    let world = World::open(|server| server).await;
    let [ann, eve] = [
        Caller::legacy(&world, json!({}), None).await,
        Caller::legacy(&world, json!({}), None).await,
    ];
    world.hold.step(1);
    let mut response = ann.follow(1, "steps", json!({ "n": 2 })).await;
    let id = response.event().await.unwrap().id.unwrap();
    drop(response);
    for wrong in [id.as_str(), "99-0", "1", "", "-", "1-", "x-y", "1-1-1", "18446744073709551616-0"]
    {
        let answer = eve.get(Some(wrong)).await;
        // The status must not be 404, which would mean that eve's own session has ended.
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(answer.text().await.contains("no event stream"), "{wrong}");
    }
    let mut back = ann.get(Some(&id)).await;
    world.hold.step(1);
    assert_eq!(back.rest().await.len(), 2);
}
