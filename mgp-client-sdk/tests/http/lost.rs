//! A session that the server lost while something of it was still under way here.

use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::ToolResult as _;
use mgp_types::ErrorCode;
use mgp_types::mcp::{ElicitAction, ElicitResult};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::script::{Said, Seen, Server, Step, client, events, say, status};

fn session(seen: &Seen) -> Option<&str> {
    seen.header("mcp-session-id")
}

fn calls(seen: &Seen, tool: &str) -> bool {
    seen.method() == "tools/call" && seen.body["params"]["name"] == tool
}

/// Loses the first session at a call of the tool `lose`.
fn lost(seen: &Seen) -> Option<Said> {
    (calls(seen, "lose") && session(seen) == Some("s-1")).then(|| status(404))
}

/// What came in the second session and speaks of something in the first.
fn strays(server: &Server) -> Vec<Seen> {
    let is_stray = |seen: &Seen| {
        session(seen) == Some("s-2")
            && (seen.header("last-event-id").is_some()
                || seen.method() == "notifications/cancelled"
                || (seen.verb == "POST" && seen.method().is_empty()))
    };
    server.seen().into_iter().filter(is_stray).collect()
}

#[tokio::test]
async fn an_answer_was_given_to_the_question_of_another_session() {
    let server = Server::legacy(|seen| {
        let question = json!({
            "jsonrpc": "2.0", "id": 1, "method": "elicitation/create",
            "params": { "message": "sure?", "requestedSchema": { "type": "object", "properties": {} } },
        });
        lost(seen).or_else(|| calls(seen, "ask").then(|| events([say(&question), Step::Hold])))
    })
    .await;
    let (asked, thinks) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (own_asked, own_thinks) = (Arc::clone(&asked), Arc::clone(&thinks));
    let client = client()
        .on_elicitation(move |_| {
            let (asked, thinks) = (Arc::clone(&own_asked), Arc::clone(&own_thinks));
            async move {
                asked.notify_one();
                thinks.notified().await;
                Ok(ElicitResult::new(ElicitAction::Accept))
            }
        })
        .connect_url(&server.url)
        .await
        .unwrap();
    let own = client.clone();
    let asking = tokio::spawn(async move { own.call("ask").await });
    asked.notified().await;
    assert_eq!(client.call("lose").await.unwrap().to_text(), "done");
    thinks.notify_one();
    // Nor is its end told where it is not known.
    asking.abort();
    server.wait_left("tools/call").await;
    client.call("t").await.unwrap();
    sleep(Duration::from_millis(50)).await;
    assert!(strays(&server).is_empty(), "{:?}", strays(&server));
}

#[tokio::test]
async fn a_cut_call_was_taken_up_in_another_session() {
    let word = Arc::new(Notify::new());
    let own = Arc::clone(&word);
    let server = Server::legacy(move |seen| {
        let primed = |id: &str| Step::Say(format!("id: {id}\nretry: 20\ndata:\n\n"));
        if seen.verb == "GET" {
            return Some(match (session(seen), seen.header("last-event-id")) {
                (Some("s-1"), None) => events([primed("1"), Step::Hold]),
                _ => status(405),
            });
        }
        lost(seen).or_else(|| {
            let steps = [primed("1"), Step::Until(Arc::clone(&own)), Step::Break];
            calls(seen, "walk").then(|| events(steps))
        })
    })
    .await;
    let client = client().connect_url(&server.url).await.unwrap();
    let own = client.clone();
    let walking = tokio::spawn(async move { own.call("walk").await });
    server.wait_for(|seen| calls(seen, "walk")).await;
    client.call("lose").await.unwrap();
    word.notify_one();
    let error = walking.await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::UPSTREAM_ERROR);
    assert!(error.to_string().contains("may have run"), "{error}");
    assert!(strays(&server).is_empty(), "{:?}", strays(&server));
}
