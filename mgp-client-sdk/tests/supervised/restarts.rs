//! Tests of the guarantees to users of a client whose server ends from time to time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use mgp_client_sdk::gateway::{FailsAtProbe, share_probe_failure};
use mgp_client_sdk::{
    Client, EraChoice, RetryConfig, SuperviseConfig, SupervisedClient, ToolResult,
};
use mgp_testkit::{Stopwatch, until};
use mgp_types::mcp::Era;
use mgp_types::mgp::{AuditEvent, RestartPolicy, ServerState, ShutdownReason};
use mgp_types::service::{
    AuditError, AuditFuture, AuditSink, CallRecord, MemoryAudit, Stack, Ticket, around, gate,
};
use mgp_types::{ErrorCode, RpcError};
use tokio::time::{sleep, timeout};
use tower_layer::layer_fn;

use crate::world::{
    HELLO, WAIT_TIMEOUT, again, answer, echo, hello, is_alive, kill, quick, recorded,
    recorded_events, script,
};

async fn say(client: &Client, what: &str) -> Result<String, ErrorCode> {
    let result = client.call("echo").arg("message", what).await;
    result.map(|result| result.to_text()).map_err(|error| error.code())
}

async fn reaches(server: &SupervisedClient, wanted: ServerState) {
    let mut state = server.state().watch();
    timeout(WAIT_TIMEOUT, state.wait_for(|state| *state == wanted)).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_that_exits_is_restarted_and_called_again() {
    let builder = Client::builder("test", "1").server_id("echo");
    let server = builder.supervise(echo(), quick(5)).unwrap();
    assert_eq!(server.client().unwrap_err().code(), ErrorCode::SERVER_NOT_READY);
    server.start().await;
    let first = server.ready().await.unwrap();
    assert_eq!(say(&first, "one").await.unwrap(), "one");
    for round in 1..=3 {
        kill(&server.ready().await.unwrap());
        let next = again(&server, round).await;
        assert_eq!(say(&next, "two").await.unwrap(), "two");
        // The handshake must have been repeated, including the negotiation of MGP.
        assert!(next.server().supports_mgp());
        assert_eq!(next.server().mgp, first.server().mgp);
    }
    // Calls of a client of an earlier run must be sent to the current run.
    assert!(first.is_closed());
    assert_eq!(say(&first, "three").await.unwrap(), "three");
    assert_eq!(server.restarts(), 3);
    server.stop(ShutdownReason::OperatorRequest).await;
    assert_eq!(server.state().get(), ServerState::Disconnected);
    let error = first.call("echo").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::SERVER_NOT_READY);
    assert_eq!(error.message(), "server `echo` is stopped; start it first");
    // The stopped server must start again when a person requests it.
    server.start().await;
    assert_eq!(say(&server.ready().await.unwrap(), "four").await.unwrap(), "four");
}

#[tokio::test]
async fn a_server_that_ends_at_the_probe_is_started_in_the_legacy_era_without_a_restart() {
    let hello = HELLO.strip_prefix("read -r _; ").unwrap();
    let server = script(&format!(
        r#"read -r first; case "$first" in *'"initialize"'*) ;; *) exit 1;; esac; {hello}sleep 60"#
    ));
    let (_, log) = recorded();
    for policy in [RestartPolicy::Never, RestartPolicy::OnFailure] {
        let mut config = quick(3);
        config.policy = policy.clone();
        let builder =
            Client::builder("test", "1").server_id("old").audit(Arc::<MemoryAudit>::clone(&log));
        let server = builder.supervise(server.clone(), config).unwrap();
        server.start().await;
        let client = again(&server, 0).await;
        assert_eq!(client.server().era, Era::Legacy);
        assert_eq!(server.restarts(), 0);
        if policy == RestartPolicy::OnFailure {
            // Later starts must not send the probe either.
            kill(&client);
            again(&server, 1).await;
            assert_eq!(server.restarts(), 1);
        }
    }
    let has_failed =
        |(what, result): &(String, String)| what == "SERVER_CONNECTED" && result == "FAILURE";
    assert!(!recorded_events(&log).iter().any(has_failed), "{:?}", recorded_events(&log));
}

#[tokio::test]
async fn a_server_that_is_known_to_fail_at_the_probe_is_not_probed_again() {
    let hello = HELLO.strip_prefix("read -r _; ").unwrap();
    let known = FailsAtProbe::default();
    // The first program ends at the probe; the second program answers neither the probe nor any later message.
    for at_probe in ["exit 1", "exec sleep 60"] {
        let server = script(&format!(
            r#"read -r first; case "$first" in *'"initialize"'*) ;; *) {at_probe};; esac; {hello}sleep 60"#
        ));
        let builder = share_probe_failure(Client::builder("test", "1"), known.clone());
        let server = builder.supervise(server, quick(0)).unwrap();
        server.start().await;
        let client = timeout(Duration::from_secs(8), server.ready()).await.unwrap().unwrap();
        assert_eq!((client.server().era, server.restarts()), (Era::Legacy, 0), "{at_probe}");
        assert!(known.get(), "{at_probe}");
    }
}

#[tokio::test]
async fn a_start_without_the_probe_that_fails_or_takes_too_long_is_followed_by_one_with_it() {
    let refusal =
        r#"printf '%s\n' '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'; "#;
    let hello = HELLO.replace(r#""id":1"#, r#""id":2"#);
    for (at_initialize, restarts) in [("exit 1", 0), ("exec sleep 60", 1)] {
        let server = script(&format!(
            r#"read -r first; case "$first" in *'"initialize"'*) {at_initialize};; esac; {refusal}{hello}sleep 60"#
        ));
        let known = FailsAtProbe::default();
        known.set(true);
        let mut config = quick(restarts);
        config.start_timeout = Duration::from_secs(6);
        let builder = share_probe_failure(Client::builder("test", "1"), known.clone());
        let server = builder.supervise(server, config).unwrap();
        server.start().await;
        let client = again(&server, u64::from(restarts)).await;
        assert_eq!((client.server().era, server.restarts()), (Era::Legacy, u64::from(restarts)));
        assert!(!known.get(), "{at_initialize}");
    }
}

/// An audit log that refuses its first event only.
struct FullAtFirst(AtomicBool);

impl AuditSink for FullAtFirst {
    fn begin(&self, _: CallRecord) -> AuditFuture<Ticket> {
        AuditFuture::Ready(Err(AuditError::Full))
    }

    fn record(&self, _: AuditEvent) -> AuditFuture<()> {
        let is_full = self.0.swap(false, Ordering::SeqCst);
        AuditFuture::Ready(if is_full { Err(AuditError::Full) } else { Ok(()) })
    }
}

#[tokio::test]
async fn a_start_that_cannot_be_recorded_does_not_change_the_era() {
    let log = Arc::new(FullAtFirst(AtomicBool::new(true)));
    let builder = Client::builder("test", "1").server_id("echo").audit(log);
    let server = builder.supervise(echo(), quick(3)).unwrap();
    server.start().await;
    let client = again(&server, 1).await;
    assert_eq!(client.server().era, Era::Modern);
}

#[tokio::test]
async fn a_hook_that_panics_stops_neither_a_restart_nor_other_hooks() {
    let changes = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&changes);
    let builder = Client::builder("test", "1")
        .era(EraChoice::Legacy)
        .on_change(|what| panic!("no receiver for {what:?}"))
        .on_change(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        });
    let server = builder.supervise(echo(), quick(5)).unwrap();
    server.start().await;
    kill(&server.ready().await.unwrap());
    let client = again(&server, 1).await;
    assert_eq!(say(&client, "hi").await.unwrap(), "hi");
    assert_eq!((changes.load(Ordering::SeqCst), server.restarts()), (3, 1));
}

#[tokio::test]
async fn refusals_name_the_state_of_the_server() {
    let mut config = quick(1);
    (config.backoff_base, config.backoff_max) = (Duration::from_mins(5), Duration::from_mins(5));
    let server = Client::builder("test", "1").supervise(echo(), config).unwrap();
    server.start().await;
    let client = server.ready().await.unwrap();
    kill(&client);
    reaches(&server, ServerState::Restarting).await;
    let error = client.call("echo").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::SERVER_RESTARTING);
    assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(server.client().unwrap_err().code(), ErrorCode::SERVER_RESTARTING);
    // A restart that a person requests must not wait for the back-off.
    server.restart().await;
    let client = timeout(WAIT_TIMEOUT, server.ready()).await.unwrap().unwrap();
    assert_eq!(say(&client, "hi").await.unwrap(), "hi");
}

#[tokio::test]
async fn calls_wait_for_a_restart_if_they_may() {
    let mut config = quick(5);
    config.backoff_base = Duration::from_millis(300);
    let builder = Client::builder("test", "1").ready_timeout(WAIT_TIMEOUT);
    let server = builder.supervise(echo(), config).unwrap();
    server.start().await;
    // Send a call through the supervisor's stack, which belongs to no single run of the server.
    assert_eq!(say_through(server.stack(), &server.ready().await.unwrap()).await, Ok(()));
    let client = server.ready().await.unwrap();
    kill(&client);
    reaches(&server, ServerState::Restarting).await;
    assert_eq!(say(&client, "patience").await.unwrap(), "patience");
    assert_eq!(server.restarts(), 1);
    // The supervisor has not noticed the loss of the connection yet.
    let client = server.ready().await.unwrap();
    kill(&client);
    client.closed().await;
    assert_eq!(say(&client, "again").await.unwrap(), "again");
    assert_eq!(server.restarts(), 2);
}

#[tokio::test]
async fn a_call_forbidden_while_it_waits_for_a_restart_does_not_run() {
    let mut config = quick(5);
    config.backoff_base = Duration::from_millis(300);
    config.backoff_max = Duration::from_millis(300);
    let is_open = Arc::new(AtomicBool::new(true));
    let door = Arc::clone(&is_open);
    let closed = gate(move |call| match call.tool() {
        Some(_) if !door.load(Ordering::Acquire) => {
            Err(RpcError::new(ErrorCode::ACCESS_DENIED, "not any more"))
        }
        _ => Ok(()),
    });
    let builder = Client::builder("test", "1").ready_timeout(WAIT_TIMEOUT).layer(closed);
    let server = builder.supervise(echo(), config).unwrap();
    server.start().await;
    let client = server.ready().await.unwrap();
    kill(&client);
    reaches(&server, ServerState::Restarting).await;
    let waits = tokio::spawn(async move { say(&client, "late").await });
    sleep(Duration::from_millis(50)).await;
    is_open.store(false, Ordering::Release);
    let late = timeout(WAIT_TIMEOUT, waits).await.unwrap().unwrap();
    assert_eq!(late, Err(ErrorCode::ACCESS_DENIED));
    assert_eq!(server.restarts(), 1, "it waited");
}

/// Sends a call through a stack that belongs to no run.
async fn say_through(stack: &Stack, like: &Client) -> Result<(), RpcError> {
    use mgp_types::service::{Call, Context, Method, Params, Peer, Principal, Scope, ScopeKind};
    let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Handle), Principal::local());
    let arguments = mgp_types::Payload::of(&serde_json::json!({ "message": "hi" })).unwrap();
    let call = Call::request(Method::of("tools/call"), Params::tool("echo", &arguments), cx);
    assert!(!like.is_closed());
    stack.send(call).await.map(drop)
}

#[tokio::test]
async fn gates_are_built_once_and_a_retry_reaches_the_next_run() {
    let (made, seen) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (counting, passing) = (Arc::clone(&made), Arc::clone(&seen));
    let server = Client::builder("test", "1")
        .server_id("echo")
        .layer(layer_fn(move |stack: Stack| {
            counting.fetch_add(1, Ordering::Relaxed);
            stack
        }))
        .layer(gate(move |call| {
            // A gate must know which server is called, even while the server is not running.
            let cx = call.cx();
            let known = cx.server.as_ref().is_some_and(|id| id.as_str() == "echo");
            let facts = cx.callee.info.is_some() && cx.trace.is_some();
            if call.tool().is_some() && known && facts {
                passing.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }))
        .layer(around(|call, next: Stack| async move {
            for _ in 0..2000 {
                match next.send(call.clone()).await {
                    Err(error) if (2000..=2002).contains(&error.code().0) => {}
                    outcome => return outcome,
                }
                sleep(Duration::from_millis(10)).await;
            }
            Err(RpcError::internal("it did not come back"))
        }))
        .supervise(echo(), quick(5))
        .unwrap();
    server.start().await;
    let client = server.ready().await.unwrap();
    kill(&client);
    // The client may not have noticed yet that the server has ended; the call must succeed nevertheless.
    assert_eq!(say(&client, "again").await.unwrap(), "again");
    assert_eq!((server.restarts(), made.load(Ordering::Relaxed)), (1, 1));
    assert!(seen.load(Ordering::Relaxed) >= 1);
}

#[tokio::test]
async fn retried_calls_reach_the_next_run() {
    let mut config = quick(5);
    config.backoff_base = Duration::from_millis(300);
    let builder = Client::builder("test", "1").server_id("echo").retry(RetryConfig::default());
    let server = builder.supervise(echo(), config).unwrap();
    server.start().await;
    let client = server.ready().await.unwrap();
    kill(&client);
    reaches(&server, ServerState::Restarting).await;
    assert_eq!(say(&client, "once more").await.unwrap(), "once more");
    assert_eq!(server.restarts(), 1);
}

#[tokio::test]
async fn a_restarted_server_does_not_inherit_an_open_circuit() {
    let mut retry = RetryConfig::default();
    (retry.max_retries, retry.circuit.failures) = (0, 1);
    retry.circuit.open_for = Duration::from_hours(1);
    let builder = Client::builder("test", "1").server_id("echo").retry(retry);
    let server = builder.supervise(echo(), quick(5)).unwrap();
    server.start().await;
    let client = server.ready().await.unwrap();
    server.stop(ShutdownReason::OperatorRequest).await;
    assert_eq!(say(&client, "hi").await, Err(ErrorCode::SERVER_NOT_READY));
    assert_eq!(say(&client, "hi").await, Err(ErrorCode::UPSTREAM_UNAVAILABLE));
    server.start().await;
    let client = timeout(WAIT_TIMEOUT, server.ready()).await.unwrap().unwrap();
    assert_eq!(say(&client, "hi").await.unwrap(), "hi");
}

#[tokio::test]
async fn gates_decide_before_the_state_does() {
    let closed = gate(|call| match call.tool() {
        Some(_) => Err(RpcError::new(ErrorCode::ACCESS_DENIED, "denied")),
        None => Ok(()),
    });
    let server = Client::builder("test", "1").layer(closed).supervise(echo(), quick(5)).unwrap();
    server.start().await;
    let client = server.ready().await.unwrap();
    server.stop(ShutdownReason::OperatorRequest).await;
    assert_eq!(say(&client, "let me in").await, Err(ErrorCode::ACCESS_DENIED));
}

#[tokio::test]
async fn connections_are_recorded_under_one_id() {
    let (builder, log) = recorded();
    let server = builder.supervise(echo(), quick(5)).unwrap();
    server.start().await;
    kill(&server.ready().await.unwrap());
    again(&server, 1).await;
    server.stop(ShutdownReason::OperatorRequest).await;
    let expected = [
        ("SERVER_CONNECTED", "SUCCESS"),
        ("SERVER_DISCONNECTED", "FAILURE"),
        ("SERVER_CONNECTED", "SUCCESS"),
        ("SERVER_DISCONNECTED", "SUCCESS"),
    ];
    let expected = expected.map(|(what, how)| (what.to_owned(), how.to_owned()));
    assert_eq!(recorded_events(&log), expected);
    let ids = log.events().into_iter().map(|event| event.target.unwrap().server_id.unwrap());
    assert!(ids.into_iter().all(|id| id == "files"));

    let nameless = Client::builder("test", "1").audit(log);
    assert!(nameless.supervise(echo(), SuperviseConfig::default()).is_err());
}

#[tokio::test]
async fn running_calls_finish_before_a_server_is_stopped() {
    // This server takes four seconds for one call, and then reads until its input ends.
    let slow = hello(&format!("read -r _; sleep 4; {} cat >/dev/null", answer(2)));
    let (builder, log) = recorded();
    let server = builder.supervise(slow, quick(0)).unwrap();
    server.start().await;
    let client = server.ready().await.unwrap();
    let running = tokio::spawn({
        let client = client.clone();
        async move { client.call("slow").await }
    });
    sleep(Duration::from_millis(50)).await;
    let stopping = tokio::spawn({
        let server = server.clone();
        async move { server.stop(ShutdownReason::OperatorRequest).await }
    });
    reaches(&server, ServerState::Draining).await;
    // While the server drains, a further call must be refused.
    let error = client.call("late").await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), (ErrorCode::SERVER_DRAINING, false));
    assert_eq!(running.await.unwrap().unwrap().to_text(), "done");
    stopping.await.unwrap();
    assert_eq!(recorded_events(&log)[1].1, "SUCCESS");
}

#[tokio::test]
async fn an_idle_server_is_stopped_at_once() {
    let server = Client::builder("test", "1").supervise(echo(), quick(5)).unwrap();
    server.start().await;
    let pid = server.ready().await.unwrap().pid().unwrap();
    let before = Stopwatch::start();
    server.stop(ShutdownReason::OperatorRequest).await;
    assert!(before.elapsed() < Duration::from_secs(3), "{:?}", before.elapsed());
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn dropping_the_last_handle_stops_the_server() {
    let (builder, _) = recorded();
    let server = builder.supervise(hello("cat >/dev/null"), quick(5)).unwrap();
    server.start().await;
    let client = server.ready().await.unwrap();
    let pid = client.pid().unwrap();
    let other = server.clone();
    drop(server);
    sleep(Duration::from_millis(50)).await;
    assert!(is_alive(pid));
    drop(other);
    // A client that is not dropped yet must not keep the server alive.
    until("the process is gone", async || !is_alive(pid)).await;
    assert!(client.call("t").await.is_err());
}

#[tokio::test]
async fn cached_lists_are_requested_again_after_a_restart() {
    let changes = Arc::new(AtomicU32::new(0));
    let heard = Arc::clone(&changes);
    let server = Client::builder("test", "1")
        .on_change(move |_| {
            heard.fetch_add(1, Ordering::Relaxed);
        })
        .supervise(echo(), quick(5))
        .unwrap();
    server.start().await;
    let client = server.ready().await.unwrap();
    assert_eq!(changes.load(Ordering::Relaxed), 0);
    kill(&client);
    again(&server, 1).await;
    assert_eq!(changes.load(Ordering::Relaxed), 3);
}
