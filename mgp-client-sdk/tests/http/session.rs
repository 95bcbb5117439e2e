//! Tests of the legacy session: its headers, its end, and its replacement when the server has lost it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mgp_client_sdk::ToolResult as _;
use mgp_types::ErrorCode;
use tokio::sync::Notify;

use crate::script::{
    Received, Response, Server, Step, client, events, initialized, json_of, status,
};

fn session(seen: &Received) -> Option<&str> {
    seen.header("mcp-session-id")
}

#[tokio::test]
async fn a_session_is_opened_named_and_ended() {
    let server = Server::legacy(|_| None).await;
    let client = client().connect_url(&server.url).await.unwrap();
    assert_eq!(client.call("t").await.unwrap().to_text(), "done");
    server.wait_for(|seen| seen.verb == "GET").await;
    client.close().await;

    let seen = server.seen();
    let one = |what: &dyn Fn(&Received) -> bool| seen.iter().find(|seen| what(seen)).unwrap();
    let opening = one(&|seen| seen.method() == "initialize");
    assert_eq!((session(opening), opening.header("mcp-protocol-version")), (None, None));
    assert_eq!(opening.header("accept"), Some("application/json, text/event-stream"));
    for part in [
        one(&|seen| seen.method() == "notifications/initialized"),
        one(&|seen| seen.method() == "tools/call"),
        one(&|seen| seen.verb == "GET"),
        one(&|seen| seen.verb == "DELETE"),
    ] {
        assert_eq!(session(part), Some("s-1"), "{part:?}");
        assert_eq!(part.header("mcp-protocol-version"), Some("2025-11-25"), "{part:?}");
        assert_eq!(part.header("mcp-method"), None, "{part:?}");
    }
    let error = client.call("t").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::SERVER_NOT_READY);
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn one_connection_serves_call_after_call() {
    let server = Server::legacy(|seen| {
        let streams = seen.method() == "tools/call" && seen.body["params"]["name"] == "stream";
        streams.then(|| crate::script::events([crate::script::say(&seen.text("done"))]))
    })
    .await;
    let client = client().connect_url(&server.url).await.unwrap();
    for tool in ["a", "stream", "b", "stream", "c"] {
        client.call(tool).await.unwrap();
    }
    let calls: Vec<_> =
        server.seen().into_iter().filter(|seen| seen.method() == "tools/call").collect();
    assert_eq!(calls.len(), 5);
    // One of two connections may be used by the stream of the session; the calls share the other.
    let mut connections: Vec<_> = calls.iter().map(|call| call.connection).collect();
    connections.sort_unstable();
    connections.dedup();
    assert!(connections.len() <= 2, "{connections:?}");
}

/// Returns a counter of the tool calls that ran, and answers that refuse some tool calls with 404: the first `lose`
/// calls, and all calls outside the newest session.
fn forgetful(lose: usize) -> (Arc<AtomicUsize>, impl Fn(&Received) -> Option<Response>) {
    let (opened, left) = (AtomicUsize::new(0), AtomicUsize::new(lose));
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let answer = move |seen: &Received| {
        let current = opened.load(Ordering::SeqCst);
        match seen.method() {
            "initialize" => {
                let number = opened.fetch_add(1, Ordering::SeqCst) + 1;
                Some(initialized(seen, &format!("f-{number}")))
            }
            "tools/call" => {
                let is_lost = session(seen) != Some(&format!("f-{current}"));
                let loses = left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                if is_lost || loses.is_ok() {
                    return Some(status(404));
                }
                counted.fetch_add(1, Ordering::SeqCst);
                Some(json_of(&seen.text("ran")))
            }
            _ => None,
        }
    };
    (runs, answer)
}

#[tokio::test]
async fn a_lost_session_is_replaced_once_for_all_calls() {
    let (runs, answer) = forgetful(5);
    let server = Server::legacy(answer).await;
    let client = client().connect_url(&server.url).await.unwrap();
    let calls = (0..5).map(|_| client.call("t"));
    for result in client.call_many(calls, 5).await {
        assert_eq!(result.unwrap().to_text(), "ran");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 5, "no call ran twice");
    let methods = server.methods();
    let count = |word: &str| methods.iter().filter(|known| *known == word).count();
    assert_eq!((count("initialize"), count("notifications/initialized")), (2, 2), "{methods:?}");
    // The handshake must be complete before any call is sent again.
    let ready = methods.iter().rposition(|word| word == "notifications/initialized").unwrap();
    assert_eq!(
        methods[ready..].iter().filter(|word| *word == "tools/call").count(),
        5,
        "{methods:?}"
    );
}

#[tokio::test]
async fn a_session_that_is_lost_again_is_an_error() {
    let (runs, answer) = forgetful(2);
    let server = Server::legacy(answer).await;
    let client = client().connect_url(&server.url).await.unwrap();
    let error = client.call("t").await.unwrap_err();
    assert!(error.to_string().contains("session"), "{error}");
    assert_eq!((runs.load(Ordering::SeqCst), server.count("initialize")), (0, 2));
    // The server refuses only the first two requests of the call, so a later call succeeds.
    assert_eq!(client.call("t").await.unwrap().to_text(), "ran");
}

#[tokio::test]
async fn a_refused_new_session_is_reported() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let own = Arc::clone(&is_gone);
    let server = Server::legacy(move |seen| {
        (seen.verb == "POST" && own.load(Ordering::SeqCst)).then(|| status(404))
    })
    .await;
    let client = client().connect_url(&server.url).await.unwrap();
    is_gone.store(true, Ordering::SeqCst);
    let error = client.call("t").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::SERVER_RESTARTING);
    assert!(error.to_string().contains("refused a new one"), "{error}");
}

#[tokio::test]
async fn a_client_that_is_dropped_ends_its_session() {
    let server = Server::legacy(|_| None).await;
    let other = client().connect_url(&server.url).await.unwrap();
    let client = client().connect_url(&server.url).await.unwrap();
    client.call("t").await.unwrap();
    let clone = client.clone();
    drop(client);
    clone.call("t").await.unwrap();
    assert_eq!(server.count("DELETE"), 0);
    // The last clone of the client may be dropped on any thread.
    std::thread::spawn(move || drop(clone)).join().unwrap();
    let ended = server.wait_for(|seen| seen.verb == "DELETE").await;
    assert_eq!(session(&ended), Some("s-2"));
    drop(other);
    server.wait_for(|seen| seen.verb == "DELETE" && session(seen) == Some("s-1")).await;
    assert_eq!(server.count("DELETE"), 2);
}

#[tokio::test]
async fn a_session_opened_while_the_client_closes_is_ended() {
    let word = Arc::new(Notify::new());
    let own = Arc::clone(&word);
    let server = Server::legacy(move |seen| match seen.method() {
        "tools/call" => Some(status(404)),
        // The second handshake is not finished before the client is closed.
        "notifications/initialized" if session(seen) == Some("s-2") => {
            Some(events([Step::Until(Arc::clone(&own))]))
        }
        _ => None,
    })
    .await;
    let client = client().connect_url(&server.url).await.unwrap();
    let own = client.clone();
    let calling = tokio::spawn(async move { own.call("t").await });
    let renews = |seen: &Received| session(seen) == Some("s-2");
    server.wait_for(renews).await;
    client.close().await;
    word.notify_one();
    calling.await.unwrap().unwrap_err();
    server.wait_for(|seen| seen.verb == "DELETE" && renews(seen)).await;
    assert_eq!(server.count("DELETE"), 2);
}

#[tokio::test]
async fn a_client_that_was_closed_ends_its_session_once() {
    let server = Server::legacy(|_| None).await;
    let client = client().connect_url(&server.url).await.unwrap();
    client.close().await;
    drop(client);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!(server.count("DELETE"), 1);
}

#[test]
fn a_client_may_outlive_its_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(async {
        let server = Server::legacy(|_| None).await;
        client().connect_url(&server.url).await.unwrap()
    });
    drop(runtime);
    drop(client);
}
