//! Tests of a session that the server lost while requests of the session were still running.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{ServerChange, ToolResult as _};
use mgp_testkit::until;
use mgp_types::ErrorCode;
use mgp_types::mcp::{ElicitAction, ElicitResult, LogLevel};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::script::{
    Received, Response, Server, Step, client, events, json_of, refused, say, status,
};

fn session(seen: &Received) -> Option<&str> {
    seen.header("mcp-session-id")
}

fn calls(seen: &Received, tool: &str) -> bool {
    seen.method() == "tools/call" && seen.body["params"]["name"] == tool
}

/// Answers a call of the tool `lose` in the first session with 404, as if the server had lost that session.
fn lost(seen: &Received) -> Option<Response> {
    (calls(seen, "lose") && session(seen) == Some("s-1")).then(|| status(404))
}

/// Returns the messages in the second session that refer to the first.
fn strays(server: &Server) -> Vec<Received> {
    let is_stray = |seen: &Received| {
        session(seen) == Some("s-2")
            && (seen.header("last-event-id").is_some()
                || seen.method() == "notifications/cancelled"
                || (seen.verb == "POST" && seen.method().is_empty()))
    };
    server.seen().into_iter().filter(is_stray).collect()
}

#[tokio::test]
async fn an_answer_is_not_sent_into_another_session() {
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
    // The new session does not know the call `ask`, so its cancellation must not be sent in that session either.
    asking.abort();
    server.wait_left("tools/call").await;
    client.call("t").await.unwrap();
    sleep(Duration::from_millis(50)).await;
    assert!(strays(&server).is_empty(), "{:?}", strays(&server));
}

#[tokio::test]
async fn a_cut_call_is_not_resumed_in_another_session() {
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

/// Returns a server that loses its first session once `word` is notified. Only a request for the stream shows the loss.
async fn quiet(
    word: &Arc<Notify>,
    more: impl Fn(&Received) -> Option<Response> + Send + Sync + 'static,
) -> Server {
    let (word, is_lost) = (Arc::clone(word), AtomicBool::new(false));
    Server::legacy(move |seen| {
        if let Some(response) = more(seen) {
            return Some(response);
        }
        let primed = Step::Say("id: 1\nretry: 20\ndata: \n\n".to_owned());
        match (&*seen.verb, session(seen)) {
            ("GET", Some("s-1")) if is_lost.swap(true, Ordering::SeqCst) => Some(status(404)),
            ("GET", Some("s-1")) => {
                Some(events([primed, Step::Until(Arc::clone(&word)), Step::Break]))
            }
            ("GET", _) => {
                let told = json!({
                    "jsonrpc": "2.0", "method": "notifications/resources/updated",
                    "params": { "uri": "a:1" },
                });
                Some(events([say(&told), Step::Hold]))
            }
            _ => None,
        }
    })
    .await
}

#[tokio::test]
async fn notifications_arrive_after_an_idle_session_was_lost() {
    let word = Arc::new(Notify::new());
    let server = quiet(&word, |_| None).await;
    let told = Arc::new(Notify::new());
    let own = Arc::clone(&told);
    let client = client()
        .on_change(move |change| {
            if matches!(change, ServerChange::Resource(uri) if uri == "a:1") {
                own.notify_one();
            }
        })
        .connect_url(&server.url)
        .await
        .unwrap();
    for uri in ["a:1", "a:2"] {
        client.subscribe(uri).await.unwrap();
    }
    client.unsubscribe("a:2").await.unwrap();
    client.set_level(LogLevel::Debug).await.unwrap();
    word.notify_one();
    // The test makes no call, because the client must detect the lost session by itself.
    let again = |method: &'static str| {
        server.wait_for(move |seen| seen.method() == method && session(seen) == Some("s-2"))
    };
    assert_eq!(again("logging/setLevel").await.body["params"]["level"], "debug");
    assert_eq!(again("resources/subscribe").await.body["params"]["uri"], "a:1");
    timeout(Duration::from_secs(20), told.notified()).await.unwrap();
    assert_eq!((server.count("initialize"), server.count("resources/subscribe")), (2, 3));
    assert!(strays(&server).is_empty(), "{:?}", strays(&server));
}

/// Regression test: the client waited without limit for the answer to the handshake of the new session, and each later
/// call waited for that handshake.
#[tokio::test]
async fn a_handshake_without_an_answer_is_repeated_after_an_idle_session_was_lost() {
    let (word, handshakes) = (Arc::new(Notify::new()), AtomicUsize::new(0));
    let server = quiet(&word, move |seen| {
        let is_second =
            seen.method() == "initialize" && handshakes.fetch_add(1, Ordering::SeqCst) == 1;
        is_second.then(|| events([Step::Hold]))
    })
    .await;
    let client = client()
        .http(|http| http.message_timeout = Duration::from_secs(3))
        .connect_url(&server.url)
        .await
        .unwrap();
    word.notify_one();
    server.wait_for(|seen| seen.verb == "GET" && session(seen) == Some("s-2")).await;
    assert_eq!(client.call("t").await.unwrap().to_text(), "done");
    assert_eq!(server.count("initialize"), 3);
}

#[tokio::test]
async fn a_404_for_an_unknown_method_opens_no_new_session() {
    let server =
        Server::legacy(|seen| calls(seen, "unknown").then(|| refused(404, seen, -32601))).await;
    let client = client().connect_url(&server.url).await.unwrap();
    let error = client.call("unknown").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::METHOD_NOT_FOUND, "{error}");
    assert_eq!(client.call("known").await.unwrap().to_text(), "done");
    assert_eq!((server.count("initialize"), server.count("tools/call")), (1, 2));
}

/// The example servers of an official SDK report a lost session with status 400 and a text like the one below.
#[tokio::test]
async fn a_text_with_status_400_about_the_session_opens_a_new_session() {
    let server = Server::legacy(|seen| {
        let is_lost = calls(seen, "lose") && session(seen) == Some("s-1");
        let text = "Invalid or missing session ID".to_owned();
        is_lost.then(|| Response::Whole(400, Vec::new(), "text/html", text.clone()))
    });
    let server = server.await;
    let client = client().connect_url(&server.url).await.unwrap();
    assert_eq!(client.call("lose").await.unwrap().to_text(), "done");
    assert_eq!(server.count("initialize"), 2);
}

#[tokio::test]
async fn a_404_without_a_lost_session_opens_no_new_session() {
    // This server has no stream, so it answers a request for a stream with 404, although the session is not lost.
    let server = Server::legacy(|seen| (seen.verb == "GET").then(|| status(404))).await;
    let connected = client().connect_url(&server.url).await.unwrap();
    server.wait_for(|seen| seen.verb == "GET").await;
    connected.call("t").await.unwrap();
    assert_eq!(server.count("initialize"), 1);

    // This server answers subscriptions with 404 in its second session.
    let word = Arc::new(Notify::new());
    let forgets = |seen: &Received| {
        let is_watch = seen.method() == "resources/subscribe" && session(seen) == Some("s-2");
        is_watch.then(|| status(404))
    };
    let server = quiet(&word, forgets).await;
    let client = client().connect_url(&server.url).await.unwrap();
    client.subscribe("a:1").await.unwrap();
    word.notify_one();
    server.wait_for(|seen| forgets(seen).is_some()).await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!((server.count("initialize"), server.count("resources/subscribe")), (2, 2));
}

#[tokio::test]
async fn notifications_arrive_after_a_long_outage() {
    let opened = AtomicUsize::new(0);
    let server = Server::legacy(move |seen| {
        (seen.verb == "GET").then(|| match opened.fetch_add(1, Ordering::Relaxed) {
            0 => events([Step::Break]),
            1..=30 => status(503),
            _ => {
                let changed =
                    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
                events([say(&changed), Step::Hold])
            }
        })
    })
    .await;
    let changed = Arc::new(Notify::new());
    let own = Arc::clone(&changed);
    let _client = client()
        .http(|http| {
            http.retry = Duration::from_millis(1);
            http.max_retry = Duration::from_millis(5);
        })
        .on_change(move |change| {
            if *change == ServerChange::Tools {
                own.notify_one();
            }
        })
        .connect_url(&server.url)
        .await
        .unwrap();
    timeout(Duration::from_secs(20), changed.notified()).await.unwrap();
    assert_eq!((server.count("GET"), server.count("initialize")), (32, 1));
}

/// Returns the answers of a server that declares to announce changes of its tools, although it has no stream for that;
/// its list has one tool more each time.
fn growing(sessions: bool, ttl_ms: Option<u64>) -> impl Fn(&Received) -> Option<Response> {
    let (opened, listed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    move |seen| match seen.method() {
        "initialize" => {
            let result = json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "script", "version": "1" },
            });
            let number = opened.fetch_add(1, Ordering::SeqCst) + 1;
            let id = ("Mcp-Session-Id", format!("s-{number}"));
            let headers = sessions.then_some(id).into_iter().collect();
            let body = seen.result(&result).to_string();
            Some(Response::Whole(200, headers, "application/json", body))
        }
        "tools/list" => {
            let count = listed.fetch_add(1, Ordering::SeqCst) + 1;
            let tool = |number| json!({ "name": format!("t{number}"), "inputSchema": { "type": "object" } });
            let tools: Vec<_> = (0..count).map(tool).collect();
            let mut result = json!({ "tools": tools });
            if let Some(ttl_ms) = ttl_ms {
                result["ttlMs"] = json!(ttl_ms);
            }
            Some(json_of(&seen.result(&result)))
        }
        _ => lost(seen),
    }
}

#[tokio::test]
async fn a_list_whose_changes_cannot_be_received_is_requested_again() {
    let server = Server::legacy(growing(false, None)).await;
    let client = client().connect_url(&server.url).await.unwrap();
    server.wait_for(|seen| seen.verb == "GET").await;
    for expected in 1..=3 {
        assert_eq!(client.tools().await.unwrap().len(), expected);
    }
}

#[tokio::test]
async fn all_lists_are_reported_as_changed_in_a_new_session() {
    let server = Server::legacy(growing(true, Some(3_600_000))).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&heard);
    let client = client()
        .on_change(move |what| hook.lock().unwrap().push(what.clone()))
        .connect_url(&server.url)
        .await
        .unwrap();
    for _ in 0..2 {
        assert_eq!(client.tools().await.unwrap().len(), 1, "it is kept for its time");
    }
    assert_eq!(client.call("lose").await.unwrap().to_text(), "done");
    until("all changes are reported", async || heard.lock().unwrap().len() >= 3).await;
    let expected = [ServerChange::Tools, ServerChange::Prompts, ServerChange::Resources];
    assert_eq!(*heard.lock().unwrap(), expected);
    assert_eq!(client.tools().await.unwrap().len(), 2);
    assert_eq!(server.count("initialize"), 2);
}
