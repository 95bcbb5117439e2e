//! Tests of responses that are event streams: partial results, streams that are cut, and the server's own stream.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{ServerChange, ToolResult as _};
use mgp_types::ErrorCode;
use serde_json::json;
use tokio::sync::Notify;

use crate::script::{Received, Response, Server, Step, client, events, json_of, say, status};

fn is_call(seen: &Received) -> bool {
    seen.method() == "tools/call"
}

fn progress(seen: &Received, step: u32) -> Step {
    let token = &seen.body["params"]["_meta"]["progressToken"];
    say(&json!({
        "jsonrpc": "2.0", "method": "notifications/progress",
        "params": { "progressToken": token, "progress": step, "total": 1000 },
    }))
}

#[tokio::test]
async fn progress_comes_before_the_answer_and_in_order() {
    let server = Server::legacy(|seen| {
        // The server sends more steps in one burst than the client's buffer holds.
        let steps = (1..=1000).map(|step| progress(seen, step));
        is_call(seen).then(|| events(steps.chain([say(&seen.text("done"))])))
    })
    .await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&heard);
    let client = client().connect_url(&server.url).await.unwrap();
    let call = client.call("t").progress(move |step| own.lock().unwrap().push(step.progress));
    assert_eq!(call.await.unwrap().to_text(), "done");
    let expected: Vec<_> = (1..=1000).map(f64::from).collect();
    assert_eq!(*heard.lock().unwrap(), expected);
}

#[tokio::test]
async fn an_answer_after_a_byte_order_mark_or_under_its_id_as_text_is_read() {
    let server = Server::legacy(|seen| {
        let tool = seen.body["params"]["name"].as_str()?;
        let mut answer = seen.text(tool);
        if tool == "mark" {
            let marked = format!("\u{feff}{answer}");
            return Some(Response::Whole(200, Vec::new(), "application/json", marked));
        }
        answer["id"] = match tool {
            "text" => seen.body["id"].to_string().into(),
            _ => seen.body["id"].as_f64()?.into(),
        };
        Some(if tool == "event" { events([say(&answer)]) } else { json_of(&answer) })
    })
    .await;
    let client = client().connect_url(&server.url).await.unwrap();
    for tool in ["mark", "text", "float", "event"] {
        assert_eq!(client.call(tool).await.unwrap().to_text(), tool);
    }
}

#[tokio::test]
async fn a_cut_stream_is_resumed() {
    let call = Arc::new(Mutex::new(None::<Received>));
    let tries = AtomicUsize::new(0);
    let server = Server::legacy(move |seen| {
        if is_call(seen) {
            *call.lock().unwrap() = Some(seen.clone());
            let priming = Step::Say("id: e-1\nretry: 3000\ndata:\n\n".to_owned());
            return Some(events([priming, progress(seen, 1), Step::Break]));
        }
        let last = seen.header("last-event-id").filter(|_| seen.verb == "GET")?;
        let call = call.lock().unwrap().clone()?;
        Some(match (last, tries.fetch_add(1, Ordering::SeqCst)) {
            // The server is down for a moment, so the client must try again.
            ("e-1", 0) => status(503),
            ("e-1", 1) => {
                events([Step::Say("id: e-2\nretry: 30\ndata:\n\n".to_owned()), progress(&call, 2)])
            }
            ("e-2", _) => events([say(&call.text("late"))]),
            _ => status(400),
        })
    })
    .await;
    let client = client().connect_url(&server.url).await.unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&heard);
    let call = client.call("t").progress(move |step| own.lock().unwrap().push(step.progress));
    assert_eq!(call.await.unwrap().to_text(), "late");
    assert_eq!(*heard.lock().unwrap(), [1.0, 2.0]);
    assert_eq!(server.count("tools/call"), 1);
    let seen = server.seen();
    let called = seen.iter().find(|seen| is_call(seen)).unwrap().at;
    let resumed: Vec<_> = seen
        .iter()
        .filter(|seen| seen.header("last-event-id").is_some())
        .map(|seen| seen.at)
        .collect();
    // Before each attempt, the client must wait at least for the time that the server asked for.
    assert_eq!(resumed.len(), 3);
    assert!(resumed[0] - called >= Duration::from_secs(3));
    assert!(resumed[1] - resumed[0] >= Duration::from_secs(3));
    assert!(resumed[2] - resumed[1] >= Duration::from_millis(30));
    assert!(resumed[2] - resumed[1] < Duration::from_secs(3));
}

/// Makes a call, which must fail, to a server with these answers; returns the server and the error.
async fn failing(
    answer: impl Fn(&Received) -> Option<Response> + Send + Sync + 'static,
) -> (Server, String) {
    let server = Server::legacy(answer).await;
    let client = client().connect_url(&server.url).await.unwrap();
    let error = client.call("t").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::UPSTREAM_ERROR);
    assert!(!error.is_retryable() && error.to_string().contains("may have run"), "{error}");
    assert_eq!(server.count("tools/call"), 1);
    (server, error.to_string())
}

#[tokio::test]
async fn a_stream_that_cannot_be_resumed_fails_its_call() {
    let (_, error) = failing(|seen| is_call(seen).then(|| events([progress(seen, 1)]))).await;
    assert!(error.contains("no event id"), "{error}");

    let with_id = || events([Step::Say("id: 1\nretry: 1\ndata:\n\n".to_owned()), Step::Break]);
    let (_, error) = failing(move |seen| is_call(seen).then(with_id)).await;
    assert!(error.contains("does not resume it") && !error.contains("POST"), "{error}");

    let (server, error) = failing(move |seen| {
        let resumes = seen.header("last-event-id").is_some();
        if resumes { Some(status(503)) } else { is_call(seen).then(with_id) }
    })
    .await;
    assert!(error.contains("10 attempts"), "{error}");
    let resumes = |seen: &Received| seen.header("last-event-id").is_some();
    assert_eq!(server.seen().iter().filter(|seen| resumes(seen)).count(), 10);
}

#[tokio::test]
async fn a_server_can_let_its_client_poll_more_often_than_the_limit_of_failed_attempts() {
    let call = Arc::new(Mutex::new(None::<Received>));
    let polls = AtomicUsize::new(0);
    let server = Server::legacy(move |seen| {
        if is_call(seen) {
            *call.lock().unwrap() = Some(seen.clone());
            let priming = Step::Say("id: 1\nretry: 1\ndata:\n\n".to_owned());
            return Some(events([priming, Step::Break]));
        }
        seen.header("last-event-id").filter(|_| seen.verb == "GET")?;
        let call = call.lock().unwrap().clone()?;
        Some(match polls.fetch_add(1, Ordering::SeqCst) {
            0..15 => events([Step::Say(": not yet\n\n".to_owned()), Step::Break]),
            _ => events([say(&call.text("late"))]),
        })
    })
    .await;
    let client = client()
        .http(|http| http.retry = Duration::from_millis(50))
        .connect_url(&server.url)
        .await
        .unwrap();
    assert_eq!(client.call("t").await.unwrap().to_text(), "late");
    let seen = server.seen();
    let polls: Vec<_> = seen.iter().filter(|seen| seen.header("last-event-id").is_some()).collect();
    assert_eq!(polls.len(), 16);
    // After many polls without an event, the client must wait longer than the server requests.
    assert!(polls[15].at - polls[10].at >= Duration::from_millis(150));
}

#[tokio::test]
async fn an_oversized_message_fails_its_own_call_only() {
    let server = Server::legacy(|seen| {
        let long = "x".repeat(20_000);
        match seen.body["params"]["name"].as_str()? {
            "event" => Some(events([say(&seen.text(&long)), Step::Hold])),
            "endless" => Some(events([Step::Say(format!("data: {long}")), Step::Hold])),
            "json" => Some(json_of(&seen.text(&long))),
            "head" => Some(Response::Whole(
                200,
                vec![("X-Long", "y".repeat(200_000))],
                "application/json",
                seen.text("done").to_string(),
            )),
            _ => None,
        }
    })
    .await;
    let bounded = |http: &mut mgp_client_sdk::HttpClientConfig| {
        (http.event_bytes, http.response_bytes) = (10_000, 10_000);
    };
    let client = client().http(bounded).connect_url(&server.url).await.unwrap();
    for tool in ["event", "json"] {
        let error = client.call(tool).await.unwrap_err();
        assert!(error.to_string().contains("10000 bytes"), "{tool}: {error}");
    }
    let error = client.call("head").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::UPSTREAM_ERROR, "{error}");
    // A line without an end must not fill the client's memory. Only the time-out of the call ends it.
    let endless = client.call("endless").timeout(Duration::from_millis(200));
    assert_eq!(endless.await.unwrap_err().code(), ErrorCode::TIMEOUT);
    assert_eq!(client.call("t").await.unwrap().to_text(), "done");
}

#[tokio::test]
async fn the_servers_own_stream_is_read_and_resumed() {
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let is_first = AtomicBool::new(true);
    let server = Server::legacy(move |seen| {
        if seen.verb != "GET" {
            return None;
        }
        let event = Step::Say(format!("id: 41\ndata: {changed}\n\n"));
        Some(if is_first.swap(false, Ordering::SeqCst) {
            events([event, Step::Break])
        } else {
            events([say(&changed), Step::Hold])
        })
    })
    .await;
    let (heard, told) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (count, tell) = (Arc::clone(&heard), Arc::clone(&told));
    let client = client()
        .on_change(move |what| {
            assert_eq!(*what, ServerChange::Tools);
            count.fetch_add(1, Ordering::SeqCst);
            tell.notify_one();
        })
        .connect_url(&server.url)
        .await
        .unwrap();
    while heard.load(Ordering::SeqCst) < 2 {
        tokio::time::timeout(Duration::from_secs(5), told.notified()).await.unwrap();
    }
    let again =
        server.wait_for(|seen| seen.verb == "GET" && seen.header("last-event-id").is_some()).await;
    assert_eq!(again.header("last-event-id"), Some("41"));
    client.close().await;
    server.wait_left("").await;
}
