//! Tests of the stream of changes over HTTP, in the modern era.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::ServerChange;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::script::{Received, Step, client, discovered, events, refused, say, status};

type Heard = Arc<Mutex<Vec<ServerChange>>>;

async fn until(heard: &Heard, expected: &[ServerChange]) {
    let all = async {
        while heard.lock().unwrap().len() < expected.len() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let _ = timeout(Duration::from_secs(30), all).await;
    assert_eq!(std::mem::take(&mut *heard.lock().unwrap()), expected);
}

fn agreed(seen: &Received) -> Step {
    say(&json!({
        "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
            "notifications": seen.body["params"]["notifications"],
            "_meta": { "io.modelcontextprotocol/subscriptionId": seen.body["id"] },
        },
    }))
}

fn announces(seen: &Received) -> Option<crate::script::Response> {
    (seen.method() == "server/discover")
        .then(|| discovered(seen, &json!({ "tools": { "listChanged": true } })))
}

#[tokio::test]
async fn a_cut_stream_is_opened_again_and_closed_with_the_client() {
    let server = crate::script::Server::modern(|seen| {
        announces(seen).or_else(|| {
            (seen.method() == "subscriptions/listen").then(|| match seen.body["id"].as_i64() {
                Some(id) if id < 3 => events([agreed(seen), Step::Break]),
                _ => events([agreed(seen), Step::Hold]),
            })
        })
    })
    .await;
    let heard = Heard::default();
    let hook = Arc::clone(&heard);
    let client = client()
        .config(|config| config.listen.retry = Duration::from_millis(20))
        // One request at a time is enough, because the stream of changes does not count as a running call.
        .http(|http| http.requests = 1)
        .on_change(move |what| hook.lock().unwrap().push(what.clone()))
        .connect_url(&server.url)
        .await
        .unwrap();
    until(&heard, &[ServerChange::Tools]).await;
    assert_eq!(server.count("subscriptions/listen"), 2);
    assert_eq!(server.count("GET"), 0);
    client.call("t").await.unwrap();
    drop(client);
    server.wait_left("subscriptions/listen").await;
}

#[tokio::test]
async fn a_server_without_streams_is_asked_once() {
    for code in [200, 404] {
        let server = crate::script::Server::modern(move |seen| {
            announces(seen).or_else(|| {
                (seen.method() == "subscriptions/listen").then(|| refused(code, seen, -32601))
            })
        })
        .await;
        let client = client()
            .config(|config| config.listen.retry = Duration::from_millis(1))
            .on_change(|_| {})
            .connect_url(&server.url)
            .await
            .unwrap();
        server.wait_for(|seen| seen.method() == "subscriptions/listen").await;
        sleep(Duration::from_millis(100)).await;
        client.call("t").await.unwrap();
        assert_eq!(server.count("subscriptions/listen"), 1, "{code}");
    }
}

#[tokio::test]
async fn a_failing_server_is_asked_rarely_after_the_configured_attempts() {
    let server = crate::script::Server::modern(|seen| {
        announces(seen).or_else(|| (seen.method() == "subscriptions/listen").then(|| status(502)))
    })
    .await;
    let client = client()
        .config(|config| {
            config.listen.retry = Duration::from_millis(1);
            config.listen.attempts = 3;
        })
        .on_change(|_| {})
        .connect_url(&server.url)
        .await
        .unwrap();
    let count = || server.count("subscriptions/listen");
    mgp_testkit::until("the attempts are made", async || count() >= 4).await;
    sleep(Duration::from_millis(300)).await;
    assert_eq!(count(), 4);
    client.call("t").await.unwrap();
}

#[tokio::test]
async fn changes_are_reported_again_after_a_long_outage() {
    // A proxy, or a gateway that answers with JSON-RPC errors, answers in place of the server.
    let answers = [
        (502, None, client()),
        (404, None, client()),
        (401, None, client()),
        (401, None, client().bearer("secret")),
        (403, None, client()),
        (404, Some(-32601), client()),
    ];
    for (code, error, builder) in answers {
        let opened = AtomicUsize::new(0);
        let server = crate::script::Server::modern(move |seen| {
            announces(seen).or_else(|| {
                (seen.method() == "subscriptions/listen").then(|| {
                    match opened.fetch_add(1, Ordering::Relaxed) {
                        0 => events([agreed(seen), Step::Break]),
                        1..=30 => {
                            error.map_or_else(|| status(code), |error| refused(code, seen, error))
                        }
                        _ => events([agreed(seen), Step::Hold]),
                    }
                })
            })
        })
        .await;
        let heard = Heard::default();
        let hook = Arc::clone(&heard);
        let _client = builder
            .config(|config| {
                config.listen.retry = Duration::from_millis(1);
                config.listen.max_retry = Duration::from_millis(5);
            })
            .on_change(move |what| hook.lock().unwrap().push(what.clone()))
            .connect_url(&server.url)
            .await
            .unwrap();
        until(&heard, &[ServerChange::Tools]).await;
        assert_eq!(server.count("subscriptions/listen"), 32, "{code}");
    }
}
