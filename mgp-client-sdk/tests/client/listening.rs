//! Tests of the stream on which a modern server reports changes; the client opens, keeps and closes it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use mgp_client_sdk::{Client, ClientBuilder, EraChoice, ListenConfig, ServerChange};
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{Prompt, Resource};
use mgp_transport::duplex;
use mgp_types::ErrorCode;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::script::{Script, plain};

type Heard = Arc<Mutex<Vec<ServerChange>>>;

fn hearing(builder: ClientBuilder) -> (ClientBuilder, Heard) {
    let received = Heard::default();
    let hook = Arc::clone(&received);
    (builder.on_change(move |what| hook.lock().unwrap().push(what.clone())), received)
}

fn taken(received: &Heard) -> Vec<ServerChange> {
    std::mem::take(&mut *received.lock().unwrap())
}

async fn until(received: &Heard, expected: &[ServerChange]) {
    let all = async {
        while received.lock().unwrap().len() < expected.len() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let _ = timeout(Duration::from_secs(5), all).await;
    assert_eq!(taken(received), expected);
}

fn everything() -> Value {
    let announced = json!({ "listChanged": true });
    json!({
        "tools": announced, "prompts": announced, "resources": { "listChanged": true, "subscribe": true },
    })
}

/// Receives the request that opens a stream, and returns it.
async fn opened(script: &mut Script) -> Value {
    let request = timeout(Duration::from_mins(10), script.read()).await.unwrap().unwrap();
    assert_eq!(request["method"], "subscriptions/listen", "{request}");
    request
}

/// Confirms everything that a request asks for.
async fn agree(script: &mut Script, request: &Value) {
    let announced = json!({
        "notifications": request["params"]["notifications"],
        "_meta": { "io.modelcontextprotocol/subscriptionId": request["id"] },
    });
    script.notify("notifications/subscriptions/acknowledged", announced).await;
}

async fn says_nothing(script: &mut Script) {
    let received = timeout(Duration::from_hours(1), script.read()).await;
    assert!(received.is_err(), "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn the_stream_requests_what_the_server_announces() {
    let (builder, received) = hearing(plain());
    let capabilities = json!({ "tools": { "listChanged": true }, "prompts": {}, "resources": {} });
    let (client, mut script) = Script::modern(builder, capabilities).await;
    let request = opened(&mut script).await;
    assert_eq!(request["params"]["notifications"], json!({ "toolsListChanged": true }));
    agree(&mut script, &request).await;
    let list = json!({ "resultType": "complete", "tools": [], "ttlMs": 3_600_000 });
    for _ in 0..2 {
        let (tools, _) = tokio::join!(client.tools(), script.serve("tools/list", list.clone()));
        assert!(tools.unwrap().is_empty());
        assert!(client.tools().await.unwrap().is_empty(), "it is kept");
        script.notify("notifications/tools/list_changed", json!({})).await;
        until(&received, &[ServerChange::Tools]).await;
    }
    says_nothing(&mut script).await;
}

#[tokio::test(start_paused = true)]
async fn no_stream_is_opened_without_hooks() {
    let (_client, mut unheard) = Script::modern(plain(), everything()).await;
    says_nothing(&mut unheard).await;
    let (builder, _) = hearing(plain());
    let silent = json!({ "tools": {}, "resources": { "subscribe": true } });
    let (_client, mut untold) = Script::modern(builder, silent).await;
    says_nothing(&mut untold).await;
    let (builder, _) = hearing(plain());
    let (_client, mut legacy) = Script::legacy(builder, everything()).await;
    says_nothing(&mut legacy).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streams_is_asked_once() {
    let (builder, _) = hearing(plain());
    let (client, mut script) = Script::modern(builder, everything()).await;
    let request = opened(&mut script).await;
    let error = json!({ "code": -32601, "message": "what?" });
    script.refuse(&request, error).await;
    says_nothing(&mut script).await;
    for _ in 0..2 {
        let error = client.subscribe("file:///a").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::METHOD_NOT_FOUND);
    }
    says_nothing(&mut script).await;
}

#[tokio::test(start_paused = true)]
async fn an_ended_stream_is_opened_again_and_everything_is_reported_as_changed() {
    let (builder, received) = hearing(plain());
    let (_client, mut script) = Script::modern(builder, everything()).await;
    let mut request = opened(&mut script).await;
    agree(&mut script, &request).await;
    for _ in 0..30 {
        sleep(Duration::from_secs(10)).await;
        let ended = json!({ "resultType": "complete" });
        script.answer(&request, ended).await;
        let before = tokio::time::Instant::now();
        request = opened(&mut script).await;
        let pause = before.elapsed();
        assert!(pause >= Duration::from_secs(1) && pause < Duration::from_secs(2), "{pause:?}");
        assert!(taken(&received).is_empty(), "it is announced once the server agreed");
        agree(&mut script, &request).await;
        until(&received, &[ServerChange::Tools, ServerChange::Prompts, ServerChange::Resources])
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_never_lasts_is_requested_rarely() {
    let (builder, received) = hearing(plain());
    let (client, mut script) = Script::modern(builder, everything()).await;
    // The client makes a first attempt and ten further attempts.
    for _ in 0..=10 {
        let request = opened(&mut script).await;
        script.answer(&request, json!({ "resultType": "complete" })).await;
    }
    let began = tokio::time::Instant::now();
    let request = opened(&mut script).await;
    assert!(began.elapsed() >= ListenConfig::default().max_retry, "{:?}", began.elapsed());
    script.answer(&request, json!({ "resultType": "complete" })).await;
    assert!(taken(&received).is_empty());
    // After a new subscription, the client must try again to open the stream.
    let served = async {
        let request = opened(&mut script).await;
        agree(&mut script, &request).await;
    };
    let (watched, ()) = tokio::join!(client.subscribe("file:///a"), served);
    watched.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_agree_in_time_is_asked_again() {
    let (builder, _) = hearing(plain().timeout(Duration::from_secs(5)));
    let (_client, mut script) = Script::modern(builder, everything()).await;
    let first = opened(&mut script).await;
    let cancelled = script.read().await.unwrap();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], first["id"]);
    opened(&mut script).await;
}

#[tokio::test(start_paused = true)]
async fn changes_before_the_first_stream_are_reported_if_it_opens_late() {
    let (builder, received) = hearing(plain());
    let capabilities = json!({ "tools": { "listChanged": true } });
    let (_client, mut script) = Script::modern(builder, capabilities).await;
    let refused = opened(&mut script).await;
    let error = json!({ "code": 3001, "message": "busy" });
    script.refuse(&refused, error).await;
    let request = opened(&mut script).await;
    assert!(taken(&received).is_empty(), "it is announced once the server agreed");
    agree(&mut script, &request).await;
    until(&received, &[ServerChange::Tools]).await;
}

#[tokio::test(start_paused = true)]
async fn subscriptions_join_the_stream() {
    let (builder, received) = hearing(plain());
    let capabilities =
        json!({ "tools": { "listChanged": true }, "resources": { "subscribe": true } });
    let (client, mut script) = Script::modern(builder, capabilities).await;
    let mut old = opened(&mut script).await;
    agree(&mut script, &old).await;
    let announced = async |script: &mut Script, old: &Value| {
        let new = opened(script).await;
        // The client must close the old stream when the new stream is open.
        agree(script, &new).await;
        let left = script.read().await.unwrap();
        assert_eq!(left["method"], "notifications/cancelled");
        assert_eq!(left["params"]["requestId"], old["id"]);
        new
    };
    for (uri, watched) in
        [("file:///b", json!(["file:///b"])), ("file:///a", json!(["file:///a", "file:///b"]))]
    {
        let (done, new) = tokio::join!(client.subscribe(uri), announced(&mut script, &old));
        done.unwrap();
        let asked = &new["params"]["notifications"];
        assert_eq!(*asked, json!({ "toolsListChanged": true, "resourceSubscriptions": watched }));
        old = new;
    }
    client.subscribe("file:///a").await.unwrap();
    script.notify("notifications/resources/updated", json!({ "uri": "file:///a" })).await;
    until(&received, &[ServerChange::Resource("file:///a".into())]).await;
    let (done, new) = tokio::join!(client.unsubscribe("file:///b"), announced(&mut script, &old));
    done.unwrap();
    assert_eq!(new["params"]["notifications"]["resourceSubscriptions"], json!(["file:///a"]));
    client.unsubscribe("file:///b").await.unwrap();
    says_nothing(&mut script).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_subscription_changes_nothing() {
    let (builder, received) = hearing(plain());
    let (client, mut script) = Script::modern(builder, everything()).await;
    let old = opened(&mut script).await;
    agree(&mut script, &old).await;
    for _ in 0..2 {
        let refused = async {
            let new = opened(&mut script).await;
            let error = json!({ "code": -32602, "message": "no such resource" });
            script.refuse(&new, error).await;
        };
        let (outcome, ()) = tokio::join!(client.subscribe("file:///x"), refused);
        assert_eq!(outcome.unwrap_err().message(), "no such resource");
    }
    says_nothing(&mut script).await;
    script.notify("notifications/tools/list_changed", json!({})).await;
    until(&received, &[ServerChange::Tools]).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_unsubscription_can_be_repeated() {
    let (builder, _received) = hearing(plain());
    let (client, mut script) = Script::modern(builder, everything()).await;
    let old = opened(&mut script).await;
    agree(&mut script, &old).await;
    let served = async {
        let new = opened(&mut script).await;
        agree(&mut script, &new).await;
        assert_eq!(script.read().await.unwrap()["method"], "notifications/cancelled");
    };
    let (done, ()) = tokio::join!(client.subscribe("file:///a"), served);
    done.unwrap();
    let refused = async {
        let new = opened(&mut script).await;
        script.refuse(&new, json!({ "code": 3001, "message": "busy" })).await;
    };
    let (failed, ()) = tokio::join!(client.unsubscribe("file:///a"), refused);
    assert_eq!(failed.unwrap_err().message(), "busy");
    let served = async {
        let new = opened(&mut script).await;
        agree(&mut script, &new).await;
        new["params"]["notifications"]["resourceSubscriptions"].clone()
    };
    let repeated = async { tokio::join!(client.unsubscribe("file:///a"), served) };
    let (done, left) = timeout(Duration::from_mins(1), repeated).await.unwrap();
    done.unwrap();
    assert_eq!(left, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_subscription_reports_that_the_stream_is_lost() {
    let (client, mut script) = Script::modern(plain(), everything()).await;
    let served = async {
        let request = opened(&mut script).await;
        agree(&mut script, &request).await;
        request
    };
    let (done, request) = tokio::join!(client.subscribe("file:///a"), served);
    done.unwrap();
    script.answer(&request, json!({ "resultType": "complete" })).await;
    let lost = opened(&mut script).await;
    script.refuse(&lost, json!({ "code": -32601, "message": "what?" })).await;
    sleep(Duration::from_millis(10)).await;
    let error = client.subscribe("file:///a").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::METHOD_NOT_FOUND);
    // The subscription remains, so the client asks for it when it tries again to open the stream.
    let request = opened(&mut script).await;
    assert_eq!(request["params"]["notifications"]["resourceSubscriptions"], json!(["file:///a"]));
    agree(&mut script, &request).await;
    sleep(Duration::from_millis(10)).await;
    client.subscribe("file:///a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn subscribing_needs_no_hook_and_leaves_no_stream_behind() {
    let (client, mut script) = Script::modern(plain(), everything()).await;
    let agreed = async {
        let request = opened(&mut script).await;
        agree(&mut script, &request).await;
        request
    };
    let (done, request) = tokio::join!(client.subscribe("file:///a"), agreed);
    done.unwrap();
    assert_eq!(
        request["params"]["notifications"],
        json!({ "resourceSubscriptions": ["file:///a"] })
    );
    client.unsubscribe("file:///a").await.unwrap();
    assert_eq!(script.read().await.unwrap()["method"], "notifications/cancelled");
    assert_eq!(client.monitor().pending(), 0);
    let (silent, mut script) = Script::modern(plain(), json!({ "resources": {} })).await;
    let error = silent.subscribe("file:///a").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::METHOD_NOT_FOUND);
    says_nothing(&mut script).await;
}

#[tokio::test(start_paused = true)]
async fn the_stream_ends_with_the_client() {
    for drops in [true, false] {
        let (builder, _) = hearing(plain());
        let (client, mut script) = Script::modern(builder, everything()).await;
        let request = opened(&mut script).await;
        agree(&mut script, &request).await;
        if drops {
            drop(client);
        } else {
            client.close().await;
            // A server with a running request would wait before it exits.
            let cancelled = script.read().await.unwrap();
            assert_eq!(cancelled["method"], "notifications/cancelled");
            assert_eq!(cancelled["params"]["requestId"], request["id"]);
        }
        while let Some(last) = timeout(Duration::from_mins(1), script.read()).await.unwrap() {
            assert_eq!(last["method"], "notifications/cancelled");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_is_closed_although_the_future_of_its_end_is_dropped() {
    let (builder, _) = hearing(plain());
    let (client, mut script) = Script::modern(builder, everything()).await;
    let request = opened(&mut script).await;
    agree(&mut script, &request).await;
    assert!(client.close().now_or_never().is_none(), "it waits for the end of the stream");
    assert!(client.is_closed());
}

/// A hook runs in the task of the stream if changes may have been missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hook_that_blocks_does_not_keep_a_client_open() {
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let (running, mut runs) = tokio::sync::mpsc::unbounded_channel();
    let blocked = Mutex::new(blocked);
    let builder = plain().on_change(move |_| {
        let _ = running.send(());
        let _ = blocked.lock().unwrap().recv();
    });
    let (client, mut script) = Script::modern(builder, everything()).await;
    let lost = opened(&mut script).await;
    agree(&mut script, &lost).await;
    script.answer(&lost, json!({ "resultType": "complete" })).await;
    let request = opened(&mut script).await;
    agree(&mut script, &request).await;
    runs.recv().await.unwrap();
    timeout(Duration::from_mins(1), client.close()).await.expect("the client closes");
    assert!(client.is_closed());
    drop(release);
}

#[tokio::test]
async fn our_server_reports_changes_to_our_client() {
    let server = Server::new("changing", "1")
        .tool(Tool::new("a", "A tool", || async { "a" }))
        .prompt(Prompt::new("p", "A prompt", || async { "" }))
        .resource(Resource::text("test://watched", "watched", "now"));
    let (tools, prompts, resources) = (server.tools(), server.prompts(), server.resources());
    let (here, there) = duplex();
    tokio::spawn(server.serve(there.reader, there.writer));
    let (builder, received) = hearing(Client::builder("c", "1").era(EraChoice::Modern));
    let client = builder.connect(here.reader, here.writer).await.unwrap();
    client.subscribe("test://watched").await.unwrap();
    assert_eq!(client.tools().await.unwrap().len(), 1);
    tools.add(Tool::new("b", "Another", || async { "b" }));
    until(&received, &[ServerChange::Tools]).await;
    assert_eq!(client.tools().await.unwrap().len(), 2);
    prompts.add(Prompt::new("q", "Another", || async { "" }));
    until(&received, &[ServerChange::Prompts]).await;
    resources.updated("test://watched");
    until(&received, &[ServerChange::Resource("test://watched".into())]).await;
    let error = client.subscribe("test://nowhere").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::INVALID_PARAMS);
    client.unsubscribe("test://watched").await.unwrap();
    resources.updated("test://watched");
    resources.add(Resource::text("test://more", "more", "")).unwrap();
    until(&received, &[ServerChange::Resources]).await;
}
