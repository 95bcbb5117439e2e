//! Tests that every request has a time-out, and that a dropped request is cancelled.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{CallbackAnswer, Client, EraChoice, ToolResult as _};
use mgp_server_sdk::prelude::*;
use mgp_transport::duplex;
use mgp_types::mcp::{ElicitAction, ElicitResult};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::script::{Script, plain};

#[tokio::test(start_paused = true)]
async fn a_time_out_cancels_at_the_server() {
    let builder = plain().timeout(Duration::from_secs(9));
    let (client, mut script) = Script::legacy(builder, json!({})).await;
    let began = Instant::now();
    let (error, seen) = tokio::join!(client.list_tools(), async {
        let asked = script.read().await.unwrap();
        (asked, script.read().await.unwrap())
    });
    let error = error.unwrap_err();
    assert_eq!(
        (error.code(), &*error.message()),
        (
            ErrorCode::TIMEOUT,
            "no answer within 9 s; it may have run: call again only if that does no harm"
        )
    );
    assert_eq!(began.elapsed().as_secs(), 9);
    assert_eq!(seen.1["method"], "notifications/cancelled");
    assert_eq!(seen.1["params"]["requestId"], seen.0["id"]);
    assert_eq!(client.monitor().pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_can_be_without_a_time_limit() {
    let builder = plain().init_timeout(Duration::MAX);
    let (client, _script) = Script::legacy(builder, json!({})).await;
    assert!(!client.is_closed());
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_cancels_at_the_server() {
    let (client, mut script) = Script::modern(plain(), json!({})).await;
    let dropped = timeout(Duration::from_millis(5), client.call("slow").send()).await;
    assert!(dropped.is_err());
    let asked = script.read().await.unwrap();
    let cancelled = script.read().await.unwrap();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
}

#[tokio::test(start_paused = true)]
async fn progress_keeps_a_call_alive_up_to_its_cap() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&heard);
    let builder = plain().timeout(Duration::from_secs(10)).max_timeout(Duration::from_mins(1));
    let builder = builder.on_progress(move |tool, step| {
        hook.lock().unwrap().push(format!("{tool} {}", step.progress));
    });
    let (client, mut script) = Script::legacy(builder, json!({})).await;
    let server = tokio::spawn(async move {
        for answers in [true, false] {
            let call = script.read().await.unwrap();
            let token = &call["params"]["_meta"]["progressToken"];
            for step in 1..=9 {
                sleep(Duration::from_secs(8)).await;
                let params = json!({ "progressToken": token, "progress": step });
                script.notify("notifications/progress", params).await;
                if answers && step == 3 {
                    script.answer(&call, json!({ "content": [] })).await;
                    break;
                }
            }
        }
    });
    client.call("long").await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["long 1", "long 2", "long 3"]);
    let began = Instant::now();
    let error = client.call("endless").await.unwrap_err();
    assert_eq!((error.code(), began.elapsed().as_secs()), (ErrorCode::TIMEOUT, 60));
    let words = "not finished within 60 s, although it reported progress; it may have run";
    assert!(error.message().starts_with(words), "{error}");
    server.abort();
}

#[tokio::test(start_paused = true)]
async fn one_call_may_have_its_own_time_out() {
    let (client, _script) = Script::legacy(plain(), json!({})).await;
    for seconds in [2, 900] {
        let began = Instant::now();
        let call = client.call("t").timeout(Duration::from_secs(seconds));
        assert_eq!(call.await.unwrap_err().code(), ErrorCode::TIMEOUT);
        assert_eq!(began.elapsed().as_secs(), seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_the_client_answers_a_question_does_not_count() {
    let builder = plain().timeout(Duration::from_secs(10)).on_elicitation(|_| async {
        sleep(Duration::from_mins(1)).await;
        Ok(ElicitResult::new(ElicitAction::Accept))
    });
    let (client, mut script) = Script::legacy(builder, json!({})).await;
    let server = tokio::spawn(async move {
        for answers in [true, false] {
            let call = script.read().await.unwrap();
            let schema = json!({ "type": "object", "properties": {} });
            let question = json!({ "message": "sure?", "requestedSchema": schema });
            script.send("elicitation/create", question).await;
            let answer = script.read().await.unwrap();
            assert_eq!(answer["result"]["action"], "accept", "{answer}");
            if answers {
                script.answer(&call, json!({ "content": [] })).await;
            }
        }
        // Keep the connection open, although the second call gets no answer.
        std::future::pending::<()>().await;
        drop(script);
    });
    client.call("asks").await.unwrap();
    let began = Instant::now();
    let error = client.call("asks").await.unwrap_err();
    assert_eq!((error.code(), began.elapsed().as_secs()), (ErrorCode::TIMEOUT, 70));
    server.abort();
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_the_client_answers_a_callback_does_not_count() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let ask = Tool::new("ask", "Asks", |cx: Context| async move {
            Ok::<_, RpcError>(cx.confirm("Sure?").await?.to_string())
        });
        let (here, there) = duplex();
        let server = Server::new("s", "1").tool(ask).timeout(Duration::from_mins(5));
        tokio::spawn(server.serve(there.reader, there.writer));
        let builder = Client::builder("c", "1").era(era).timeout(Duration::from_secs(10));
        let builder = builder.on_callback(|_| async {
            sleep(Duration::from_secs(30)).await;
            Ok(CallbackAnswer::text("confirm"))
        });
        let client = builder.connect(here.reader, here.writer).await.unwrap();
        assert_eq!(client.call("ask").await.unwrap().to_text(), "true", "{era:?}");
    }
}
