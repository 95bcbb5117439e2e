//! Tests of two conversations of one caller that share a session and use equal request ids and progress tokens.

use mgp_testkit::until_shown;
use serde_json::{Value, json};

use super::caller::{Caller, result_text};
use super::wire::Response;
use super::world::World;

/// Reads a response to its end; returns the steps that the progress notifications report, and the answer.
async fn followed(mut response: Response) -> (Vec<f64>, Value) {
    let mut events = response.rest().await;
    let answer = events.pop().unwrap().data;
    let steps = events.iter().map(|event| {
        assert_eq!(event.data["params"]["progressToken"], "p");
        event.data["params"]["progress"].as_f64().unwrap()
    });
    (steps.collect(), answer)
}

#[tokio::test]
async fn equal_ids_and_tokens_are_distinguished() {
    let world = World::open(|server| server).await;
    let caller = Caller::legacy(&world, json!({}), None).await;
    world.hold.step(1);
    let one = caller.follow(7, "steps", json!({ "n": 3 })).await;
    let other = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.follow(7, "steps", json!({ "n": 5 })).await })
    };
    until_shown(|| (world.hold.alive() == 2, world.hold.alive())).await;
    // The two calls take turns, so after two steps each call has reported one step.
    world.hold.step(2);
    let other = other.await.unwrap();
    // Two calls have this id, so the server cancels neither of them.
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    assert_eq!(caller.post(&cancel).await.status, 202);
    assert_eq!(world.hold.alive(), 2);
    world.hold.step(5);
    let (one, other) = tokio::join!(followed(one), followed(other));
    assert_eq!((one.0, result_text(&one.1)), (vec![1.0, 2.0, 3.0], "took 3"));
    assert_eq!((other.0, result_text(&other.1)), (vec![1.0, 2.0, 3.0, 4.0, 5.0], "took 5"));
    assert_eq!((&one.1["id"], &other.1["id"]), (&json!(7), &json!(7)));
    world.quiet().await;
}

#[tokio::test]
async fn questions_reach_the_conversation_they_belong_to() {
    let world = World::open(|server| server).await;
    let caller = Caller::legacy(&world, json!({ "elicitation": {} }), None).await;
    let (mut one, mut other) =
        tokio::join!(caller.call(7, "ask", json!({})), caller.call(7, "ask", json!({})));
    let mut asked = Vec::new();
    for response in [&mut one, &mut other] {
        let question = response.event().await.unwrap().data;
        assert_eq!(question["method"], "elicitation/create");
        asked.push(question["id"].clone());
    }
    assert_ne!(asked[0], asked[1]);
    // Answer the questions in the opposite order: each answer must still reach its own call.
    for (id, name) in [(&asked[1], "Bob"), (&asked[0], "Ann")] {
        let result = json!({ "action": "accept", "content": { "name": name } });
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        assert_eq!(caller.post(&answer).await.status, 202);
    }
    for (mut response, name) in [(one, "Ann"), (other, "Bob")] {
        let rest = response.rest().await;
        assert_eq!((rest.len(), result_text(&rest[0].data)), (1, name));
    }
    world.quiet().await;
}
