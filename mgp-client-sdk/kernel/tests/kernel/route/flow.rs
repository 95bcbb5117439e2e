//! Tests of progress, chunks, log messages and cancellation, for all four pairs of the eras of host and server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{Client, ToolResult};
use mgp_discovery::{GovernanceConfig, Isolation};
use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{LogLevel, Logger};
use mgp_testkit::temp_dir;
use mgp_transport::{Connection, duplex};
use mgp_types::Payload;
use mgp_types::mcp::{ElicitAction, ElicitResult, Era};
use mgp_types::method::LoggingSetLevel;
use mgp_types::mgp::ServerState;
use mgp_types::service::{
    Call, CallerRequest, InputRequired, Outlet, OutletItem, Principal, Reply, Stack, around,
};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::world::{
    NotifyOnDrop, PAIRS, build_with_tools, host, host_of, kernel_with, limit_era, open,
    recorded_calls, until, wait_for_tools,
};

fn worker(era: Era, begun: Arc<Notify>, dropped: Arc<Notify>) -> Server {
    let steps = Tool::new("steps", "Works", |cx: Context, log: Logger| async move {
        for step in 1..=3 {
            let _ = cx.outlet.text(&format!("{step} ")).await;
            let _ = cx.outlet.progress(step.into(), 3.0).await;
            log.clone().named("w").log(LogLevel::Info, &format!("step {step}")).await;
            log.log(LogLevel::Debug, "hidden").await;
        }
        "1 2 3 "
    });
    let waits = Tool::new("waits", "Waits", move || {
        let (begun, dropped) = (Arc::clone(&begun), Arc::clone(&dropped));
        async move {
            let _rings = NotifyOnDrop(dropped);
            begun.notify_one();
            std::future::pending::<()>().await;
            "never"
        }
    });
    limit_era(Server::new("w", "1").tool(steps).tool(waits).logging(), era)
}

async fn world(era: Era) -> (Kernel, Arc<Notify>, Arc<Notify>) {
    let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let parts = (Arc::clone(&begun), Arc::clone(&dropped));
    let make = move || worker(era, Arc::clone(&parts.0), Arc::clone(&parts.1));
    let kernel = kernel_with("w", open(&["steps", "waits"]), 2, make).await;
    (kernel, begun, dropped)
}

#[tokio::test]
async fn progress_and_logs_of_a_call_reach_its_caller() {
    for (above, below) in PAIRS {
        let (kernel, ..) = world(below).await;
        let logs: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = Arc::clone(&logs);
        let builder = host_of(above).on_log(move |message| {
            sink.lock().unwrap().push(format!(
                "{} {:?}",
                message.logger.unwrap_or_default(),
                message.data
            ));
        });
        let host = host(&kernel, "ann", builder).await;
        let items: Arc<Mutex<Vec<OutletItem>>> = Arc::default();
        let taken = Arc::clone(&items);
        let mut call = host
            .call("steps")
            .outlet(Outlet::from_fn(move |item| taken.lock().unwrap().push(item)));
        if above == Era::Modern {
            call = call.log_level(LogLevel::Info);
        }
        let result = call.await.unwrap();
        assert_eq!(result.to_text(), "1 2 3 ", "{above:?} {below:?}");
        let pair = format!("{above:?} {below:?}");
        until(&format!("all logs {pair}"), || async { logs.lock().unwrap().len() == 3 }).await;
        let items = items.lock().unwrap().clone();
        let steps = items.iter().filter(|item| matches!(item, OutletItem::Progress(_))).count();
        let chunks = items.iter().filter(|item| matches!(item, OutletItem::Chunk(_))).count();
        // The tool sent other items after its third chunk, so a fourth, empty chunk ends the stream.
        assert_eq!((steps, chunks), (3, 4), "{pair} {items:?}");
        let logs = logs.lock().unwrap().clone();
        assert!(logs.iter().all(|line| line.starts_with("w/w ")), "{pair} {logs:?}");
    }
}

#[tokio::test]
async fn a_call_cancelled_by_the_host_ends_at_the_server() {
    for (above, below) in PAIRS {
        let (kernel, begun, dropped) = world(below).await;
        let host = host(&kernel, "ann", host_of(above)).await;
        let call = host.call("waits");
        let running = tokio::spawn(async move { call.await });
        begun.notified().await;
        running.abort();
        let ended = tokio::time::timeout(Duration::from_secs(10), dropped.notified()).await;
        assert!(ended.is_ok(), "{above:?} {below:?}");
        assert_eq!(host.call("steps").await.unwrap().to_text(), "1 2 3 ");
    }
}

/// Connects a legacy host of an agent. Also returns the list of the levels of the log messages that the host receives.
async fn logging_host(kernel: &Kernel, agent: &str) -> (Client, Arc<Mutex<Vec<LogLevel>>>) {
    let logs: Arc<Mutex<Vec<LogLevel>>> = Arc::default();
    let sink = Arc::clone(&logs);
    let builder =
        host_of(Era::Legacy).on_log(move |message| sink.lock().unwrap().push(message.level));
    (host(kernel, agent, builder).await, logs)
}

/// Requests debug messages, and checks that they arrive.
async fn check_debug_messages(host: &Client, logs: &Mutex<Vec<LogLevel>>) {
    host.set_level(LogLevel::Debug).await.unwrap();
    until("debug messages arrive", || async {
        host.call("steps").await.unwrap();
        logs.lock().unwrap().contains(&LogLevel::Debug)
    })
    .await;
}

#[tokio::test]
async fn a_log_level_set_by_the_host_is_set_at_the_server() {
    let (kernel, ..) = world(Era::Legacy).await;
    let (host, logs) = logging_host(&kernel, "ann").await;
    check_debug_messages(&host, &logs).await;
}

#[tokio::test]
async fn a_log_level_that_one_agent_has_set_is_also_set_at_the_instance_of_another() {
    let mut mgp = open(&["steps", "waits"]);
    mgp.isolation = Isolation::PerAgent;
    let make = || worker(Era::Legacy, Arc::default(), Arc::default());
    let kernel = kernel_with("w", mgp, 2, make).await;
    let (ann, of_ann) = logging_host(&kernel, "ann").await;
    check_debug_messages(&ann, &of_ann).await;
    let (bob, of_bob) = logging_host(&kernel, "bob").await;
    bob.call("steps").await.unwrap();
    check_debug_messages(&bob, &of_bob).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_does_not_delay_the_log_level_of_another() {
    let silent = || {
        let hangs = around(|call: Call, inner: Stack| async move {
            if call.is::<LoggingSetLevel>() {
                std::future::pending::<()>().await;
            }
            inner.send(call).await
        });
        limit_era(Server::new("silent", "1").logging().layer(hangs), Era::Legacy)
    };
    let builder = Kernel::builder().local_with("silent", open(&[]), silent).local_with(
        "w",
        open(&["steps", "waits"]),
        || worker(Era::Legacy, Arc::default(), Arc::default()),
    );
    let kernel = build_with_tools(builder, [("w", 2)]).await;
    until("both are connected", async || {
        kernel.servers().iter().all(|server| server.status == ServerState::Connected)
    })
    .await;
    let (host, logs) = logging_host(&kernel, "ann").await;
    host.set_level(LogLevel::Error).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The kernel passes this change on only after its first request to the silent server has timed out.
    host.set_level(LogLevel::Debug).await.unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    host.call("steps").await.unwrap();
    until("debug messages arrive", || async { logs.lock().unwrap().contains(&LogLevel::Debug) })
        .await;
}

#[tokio::test]
async fn calls_in_a_batch_succeed_and_fail_by_themselves() {
    for (above, below) in PAIRS {
        let closed = GovernanceConfig::default();
        let secret = || Tool::new("secret", "Secret", || async { "secret" });
        let parts = (Arc::<Notify>::default(), Arc::<Notify>::default());
        let builder = Kernel::builder()
            .local_with("closed", closed, move || Server::new("closed", "1").tool(secret()))
            .local_with("w", open(&["steps", "waits"]), move || {
                worker(below, Arc::clone(&parts.0), Arc::clone(&parts.1))
            });
        let kernel = build_with_tools(builder, [("w", 2), ("closed", 1)]).await;
        let plain = host(&kernel, "ann", host_of(above).without_mgp()).await;
        let host = host(&kernel, "ann", host_of(above)).await;
        let calls = json!([
            { "name": "steps", "arguments": {} },
            { "name": "no_such_tool", "arguments": {} },
            { "name": "w.steps", "arguments": {} },
            { "name": "steps", "server_id": "w", "arguments": {} },
            { "name": "secret", "arguments": {} },
        ]);
        let batch = host.call("mgp_tools_call_many").arg("calls", &calls).await.unwrap();
        let results: Value = batch.structured_content.as_ref().unwrap().get().unwrap();
        for place in [0, 2, 3] {
            assert_eq!(results["results"][place]["result"]["content"][0]["text"], "1 2 3 ");
        }
        let error = &results["results"][1]["error"];
        assert!(error["message"].as_str().unwrap().contains("no_such_tool"), "{error}");
        // Each call of the batch is checked separately, so the call without access is refused and the others run.
        let refused = &results["results"][4]["error"];
        assert_eq!(refused["code"], 1001, "{results}");
        // As outside of a batch, only a caller with MGP gets the hints.
        assert_eq!(refused["data"]["_mgp"]["category"], "security", "{results}");
        let batch = plain.call("mgp_tools_call_many").arg("calls", &calls).await.unwrap();
        let results: Value = batch.structured_content.as_ref().unwrap().get().unwrap();
        assert_eq!(results["results"][4]["error"]["code"], 1001, "{results}");
        assert!(!results.to_string().contains("_mgp"), "{results}");
        let many = vec![json!({ "name": "steps", "arguments": {} }); 33];
        let refused = host.call("mgp_tools_call_many").arg("calls", &many).await.unwrap_err();
        assert!(refused.to_string().contains("at most 32"), "{refused}");
    }
}

#[tokio::test]
async fn a_slow_call_does_not_hold_up_the_rest_of_its_batch() {
    let server = || {
        let end = Arc::<Notify>::default();
        let ended = Arc::clone(&end);
        let first = Tool::new("first", "Waits", move || {
            let ended = Arc::clone(&ended);
            async move {
                ended.notified().await;
                "first"
            }
        });
        let quick = Tool::new("quick", "Works", || async { "quick" });
        let last = Tool::new("last", "Works", move || {
            end.notify_one();
            async { "last" }
        });
        Server::new("b", "1").tool(first).tool(quick).tool(last)
    };
    let kernel = kernel_with("b", open(&["first", "quick", "last"]), 3, server).await;
    let host = host(&kernel, "ann", host_of(Era::Legacy)).await;
    let names = [vec!["first"], vec!["quick"; 9], vec!["last"]].concat();
    let calls: Vec<_> = names.iter().map(|name| json!({ "name": name, "arguments": {} })).collect();
    let batch = host.call("mgp_tools_call_many").arg("calls", &calls).await.unwrap();
    let results: Value = batch.structured_content.as_ref().unwrap().get().unwrap();
    for (place, name) in names.iter().enumerate() {
        let text = &results["results"][place]["result"]["content"][0]["text"];
        assert_eq!(text, name, "{results}");
    }
}

/// Returns a server that asks the caller a question if the arguments of a call contain `true`.
fn asker() -> Server {
    #[derive(Deserialize, JsonSchema)]
    struct Wish {
        asks: bool,
    }
    let form = Tool::new("form", "May ask", |Args(wish): Args<Wish>| async move {
        format!("asks: {}", wish.asks)
    });
    let asks = around(|call: Call, inner: Stack| async move {
        if call.tool().is_none() || !call.tool_arguments().as_str().contains("true") {
            return inner.send(call).await;
        }
        let form = json!({ "message": "Who?", "requestedSchema": { "type": "object" } });
        let ask = CallerRequest::new("elicitation/create", Payload::of(&form)?);
        let asks = vec![("who".to_owned(), ask)];
        Ok(Reply::InputRequired(InputRequired { asks, state: None }))
    });
    limit_era(Server::new("f", "1").tool(form).layer(asks), Era::Modern)
}

#[tokio::test]
async fn a_call_in_a_batch_is_not_recorded_as_a_round_of_another() {
    let folder = temp_dir();
    let builder = Kernel::builder().local_with("f", open(&["form"]), asker);
    let kernel = builder.in_folder(folder.path()).await.unwrap();
    wait_for_tools(&kernel, "f", 1).await;
    let builder = host_of(Era::Modern)
        .on_elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Decline)) });
    let host = host(&kernel, "ann", builder).await;
    // At most eight calls run at the same time. So the last call begins after a call that asks in vain has ended.
    let call = |asks: bool| json!({ "name": "form", "arguments": { "asks": asks } });
    let mut calls = vec![call(true); 8];
    calls.push(call(false));
    let batch = host.call("mgp_tools_call_many").arg("calls", &calls).await.unwrap();
    let results: Value = batch.structured_content.as_ref().unwrap().get().unwrap();
    assert!(results["results"][0]["error"].is_object(), "{results}");
    assert_eq!(results["results"][8]["result"]["content"][0]["text"], "asks: false", "{results}");
    let events = recorded_calls(&kernel, "f").await;
    let mut done: Vec<Value> = serde_json::from_str(&events).unwrap();
    done.retain(|event| event["result"] == "SUCCESS");
    assert_eq!(done.len(), 1, "{events}");
    assert!(done[0]["details"].get("rounds").is_none(), "{events}");
    host.close().await;
    kernel.stop().await;
}

#[tokio::test]
async fn an_agent_with_many_running_calls_does_not_hold_up_the_others() {
    const CALLS: usize = 256;
    let running = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&running);
    let make = move || {
        let count = Arc::clone(&count);
        let waits = Tool::new("waits", "Waits", move || {
            count.fetch_add(1, Ordering::Relaxed);
            async {
                std::future::pending::<()>().await;
                "never"
            }
        });
        Server::new("w", "1").tool(waits)
    };
    let look = || Server::new("o", "1").tool(Tool::new("look", "Looks out", || async { "sun" }));
    let builder = Kernel::builder();
    let builder = builder.local_with("w", open(&["waits"]), make);
    let builder = builder.local_with("o", open(&["look"]), look);
    let kernel = build_with_tools(builder, [("w", 1), ("o", 1)]).await;
    // All hosts of a served kernel share one stack, and thus its limits.
    let stack = kernel.server().into_stack().unwrap();
    let connect = async |agent: &str| {
        let (here, there) = duplex();
        let connection = Connection::new(there.reader, there.writer, stack.clone());
        tokio::spawn(connection.principal(Principal::local().agent(agent)).run());
        Client::builder("host", "1").connect(here.reader, here.writer).await.unwrap()
    };
    let (busy, other) = (connect("ann").await, connect("bob").await);
    let mut calls = JoinSet::new();
    for _ in 0..CALLS {
        let call = busy.call("waits");
        calls.spawn(async move { call.await });
    }
    until("all calls run", || async { running.load(Ordering::Relaxed) == CALLS }).await;
    let answers = async {
        other.call("mgp_tools_discover").arg("query", "look out").await.unwrap();
        assert_eq!(other.call("look").await.unwrap().to_text(), "sun");
    };
    assert!(tokio::time::timeout(Duration::from_secs(5), answers).await.is_ok());
    calls.shutdown().await;
}
