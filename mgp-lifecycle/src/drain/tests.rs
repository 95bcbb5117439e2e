//! Tests of every rule of a drain, with a paused clock (MGP §11.4).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mgp_types::mcp::{Revision, TaskSupport};
use mgp_types::method::{Kind, methods};
use mgp_types::mgp::{
    PingResult, ServerState, ShutdownParams, ShutdownReason, ShutdownResult, StatusResult,
};
use mgp_types::service::{Context, PeerInfo, Principal, Reply, ServerId, Stack, mock};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError};
use tokio::time::{Instant, sleep, timeout};
use tower_layer::Layer;

use super::gate::Gate;
use super::{Drain, DrainLayer, ProcessOwner};
use crate::fleet::Fleet;
use crate::tasks::{TasksConfig, TasksLayer};

const TOOL: (&str, &str) = ("tools/call", r#"{"name":"a"}"#);
const LONG: Duration = Duration::from_secs(30);

/// Returns a client of a stack whose tool takes the given time.
fn takes(drain: &Drain, time: Duration) -> mock::Client {
    let slow = Stack::from_fn(move |_| async move {
        sleep(time).await;
        Ok(Reply::empty())
    });
    mock::client(Stack::new(DrainLayer::new(drain.clone()).layer(slow)))
}

type Running = tokio::task::JoinHandle<Result<Reply, RpcError>>;

async fn started(client: &mut mock::Client) -> Running {
    let running = tokio::spawn(client.call(TOOL.0, TOOL.1));
    tokio::task::yield_now().await;
    running
}

fn hints(error: &RpcError) -> serde_json::Value {
    serde_json::to_value(error.as_recovery().unwrap()).unwrap()
}

#[test]
fn nothing_enters_once_closing_the_gate_has_returned() {
    for _ in 0..200 {
        let gate = Gate::default();
        let (entered, closed) = (AtomicUsize::new(0), std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        let was_closed = closed.load(Ordering::SeqCst);
                        if gate.enter() {
                            assert!(!was_closed, "a call entered a closed gate");
                            entered.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                });
            }
            assert!(gate.close());
            closed.store(true, Ordering::SeqCst);
        });
        assert_eq!(
            gate.count(),
            entered.load(Ordering::SeqCst),
            "each call that entered is counted"
        );
        assert!(!gate.close());
    }
}

#[tokio::test(start_paused = true)]
async fn running_calls_complete_new_ones_are_refused_and_the_end_does_not_wait_for_the_deadline() {
    let drain = Drain::default();
    let mut client = takes(&drain, Duration::from_secs(5));
    let mut changes = drain.state().changes();
    let running = started(&mut client).await;
    let begun = Instant::now();
    let remaining = drain.begin(ShutdownReason::OperatorRequest, LONG);
    assert_eq!((remaining.calls, remaining.estimate), (1, LONG), "nothing is known of the tool");

    let late = client.request(TOOL.0, TOOL.1).await.unwrap_err();
    assert_eq!(late.code().0, 2001);
    assert_eq!(
        late.message(),
        "the server is shutting down (operator_request) and starts no new calls; use another one"
    );
    drain.wait_ended().await;
    assert_eq!(begun.elapsed().as_secs(), 5);
    assert!(running.await.unwrap().is_ok());
    let seen = [changes.recv().await.unwrap(), changes.recv().await.unwrap()];
    let edges = seen.map(|change| (change.from, change.to, change.reason.to_string()));
    let reason = || "operator_request".to_owned();
    assert_eq!(
        edges,
        [
            (ServerState::Connected, ServerState::Draining, reason()),
            (ServerState::Draining, ServerState::Disconnected, reason())
        ]
    );
    assert_eq!(client.request(TOOL.0, TOOL.1).await.unwrap_err().code().0, 2001, "still refused");
}

#[tokio::test(start_paused = true)]
async fn a_late_call_is_retryable_only_if_the_server_restarts() {
    for reason in ShutdownReason::KNOWN {
        let drain = Drain::default();
        let mut client = takes(&drain, LONG);
        drain.begin(reason.clone(), LONG);
        let hints = hints(&client.request(TOOL.0, TOOL.1).await.unwrap_err());
        let restarts = ["configuration_change", "resource_limit"].contains(&reason.as_str());
        assert_eq!(hints["retryable"], restarts, "{reason}");
        assert_eq!(hints["details"]["started"], false);
        assert_eq!(hints["details"]["reason"], reason.as_str());
        let waits = (hints["retry_after_ms"].as_u64(), hints["max_retries"].as_u64());
        assert_eq!(waits, if restarts { (Some(1000), Some(5)) } else { (None, None) });
    }
}

#[tokio::test(start_paused = true)]
async fn calls_still_running_at_the_deadline_are_answered_3003_and_dropped() {
    let drain = Drain::default();
    let mut client = takes(&drain, Duration::from_hours(1));
    let running = started(&mut client).await;
    let begun = Instant::now();
    drain.begin(ShutdownReason::ConfigurationChange, Duration::from_secs(7));
    drain.wait_ended().await;
    assert_eq!(begun.elapsed().as_secs(), 7);
    let error = running.await.unwrap().unwrap_err();
    let hints = hints(&error);
    assert_eq!(error.code().0, 3003);
    assert_eq!((&hints["retryable"], &hints["details"]["started"]), (&false.into(), &true.into()));
    assert_eq!(drain.remaining().calls, 0);
    assert_eq!(drain.state().get(), ServerState::Disconnected);
}

#[tokio::test(start_paused = true)]
async fn a_zero_timeout_ends_at_once_and_a_long_one_is_capped() {
    for (requested, seconds) in [(Duration::ZERO, 0), (Duration::MAX, 60)] {
        let drain = Drain::default();
        drain.configure(|config| config.max_timeout = Duration::from_mins(1));
        let mut client = takes(&drain, Duration::from_hours(1));
        let running = started(&mut client).await;
        let begun = Instant::now();
        drain.begin(ShutdownReason::OperatorRequest, requested);
        drain.wait_ended().await;
        assert_eq!(begun.elapsed().as_secs(), seconds);
        assert_eq!(running.await.unwrap().unwrap_err().code().0, 3003);
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_what_callers_ask_for_does_not_cut_the_configured_time() {
    let drain = Drain::default();
    drain.configure(|config| config.timeout = Duration::from_mins(20));
    let mut client = takes(&drain, Duration::from_hours(1));
    let _running = started(&mut client).await;
    let remaining = drain.begin(ShutdownReason::OperatorRequest, drain.config().timeout);
    assert_eq!(remaining.estimate.as_secs(), 1200);
}

#[tokio::test(start_paused = true)]
async fn a_second_request_shortens_the_time_and_never_lengthens_it() {
    let drain = Drain::default();
    let mut client = takes(&drain, Duration::from_hours(1));
    let _running = started(&mut client).await;
    let begun = Instant::now();
    drain.begin(ShutdownReason::ResourceLimit, Duration::from_secs(20));
    drain.begin(ShutdownReason::OperatorRequest, Duration::from_secs(200));
    sleep(Duration::from_secs(1)).await;
    let again = drain.begin(ShutdownReason::OperatorRequest, Duration::from_secs(9));
    assert_eq!((again.calls, again.estimate.as_secs()), (1, 9));
    let late = client.request(TOOL.0, TOOL.1).await.unwrap_err();
    assert!(late.message().contains("resource_limit"), "the first reason is kept: {late}");
    drain.wait_ended().await;
    assert_eq!(begun.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn dropped_calls_delay_no_drain() {
    let drain = Drain::default();
    let mut client = takes(&drain, Duration::from_hours(1));
    let (unpolled, running) = (client.call(TOOL.0, TOOL.1), started(&mut client).await);
    let remaining = drain.begin(ShutdownReason::OperatorRequest, LONG);
    assert_eq!(remaining.calls, 2, "a dispatched call counts, polled or not");
    drop(unpolled);
    running.abort();
    let begun = Instant::now();
    drain.wait_ended().await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn messages_that_help_running_calls_pass_and_new_work_does_not() {
    let drain = Drain::default();
    let ok = Stack::from_fn(|_| async { Ok(Reply::empty()) });
    let mut client = mock::client(Stack::new(DrainLayer::new(drain.clone()).layer(ok)));
    ProcessOwner::mark(&client.cx.scope);
    drain.begin(ShutdownReason::OperatorRequest, LONG);
    let mut refused = BTreeSet::new();
    for info in methods() {
        let params = r#"{"name":"a","uri":"a:b"}"#;
        match info.kind {
            Kind::Notification => client.notify(info.name, params).await.unwrap(),
            Kind::Request => {
                if let Err(error) = client.request(info.name, params).await {
                    assert_eq!(error.code().0, 2001);
                    refused.insert(info.name);
                }
            }
        }
    }
    let passed = methods().filter(|info| info.kind == Kind::Request);
    let passed: BTreeSet<_> =
        passed.map(|info| info.name).filter(|name| !refused.contains(name)).collect();
    let expected = "initialize mgp/access/revoke mgp/callback/respond mgp/events/unsubscribe mgp/health/ping \
         mgp/health/status mgp/lifecycle/shutdown mgp/permission/grant mgp/permission/response \
         mgp/stream/cancel ping resources/unsubscribe server/discover tasks/cancel tasks/get \
         tasks/list tasks/result tasks/update";
    assert_eq!(passed.into_iter().collect::<Vec<_>>().join(" "), expected);
}

#[tokio::test(start_paused = true)]
async fn streams_of_notifications_are_not_waited_for() {
    let drain = Drain::default();
    let mut client = takes(&drain, Duration::from_hours(1));
    let mut listening = client.call("subscriptions/listen", r#"{"notifications":{}}"#);
    assert!(timeout(Duration::from_secs(1), &mut listening).await.is_err());
    assert_eq!(drain.begin(ShutdownReason::OperatorRequest, LONG).calls, 0);
    drain.wait_ended().await;
    let late = client.request("subscriptions/listen", r#"{"notifications":{}}"#).await;
    assert_eq!(late.unwrap_err().code().0, 2001);
}

#[tokio::test(start_paused = true)]
async fn the_estimate_is_the_typical_duration_of_such_calls() {
    let drain = Drain::default();
    let mut client = takes(&drain, Duration::from_secs(4));
    assert_eq!(drain.remaining().estimate, Duration::ZERO);
    for _ in 0..3 {
        client.request(TOOL.0, TOOL.1).await.unwrap();
    }
    let _running = started(&mut client).await;
    assert_eq!(drain.remaining().estimate.as_secs(), 4);
    let remaining = drain.begin(ShutdownReason::OperatorRequest, Duration::from_secs(2));
    assert_eq!(remaining.estimate.as_secs(), 2, "never longer than the time left");
}

#[tokio::test(start_paused = true)]
async fn peers_are_notified_in_order_and_a_slow_one_is_not_waited_for() {
    let drain = Drain::default();
    let received = Arc::new(Mutex::new(Vec::new()));
    let record_on = |drain: &Drain| {
        let own = Arc::clone(&received);
        drain.on_transition(move |change| {
            own.lock().push(change.new_state.to_string());
            Box::pin(async move { sleep(Duration::from_millis(10)).await })
        });
    };
    record_on(&drain);
    drain.on_transition(|_| Box::pin(std::future::pending()));
    let begun = Instant::now();
    drain.begin(ShutdownReason::OperatorRequest, LONG);
    drain.wait_ended().await;
    assert_eq!(begun.elapsed(), Duration::from_millis(500));
    assert_eq!(*received.lock(), ["draining"], "the second never overtakes the first");

    let drain = Drain::default();
    record_on(&drain);
    drain.begin(ShutdownReason::OperatorRequest, LONG);
    drain.wait_ended().await;
    assert_eq!(*received.lock(), ["draining", "draining", "disconnected"]);
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_hangs_does_not_delay_the_others() {
    let drain = Drain::default();
    let received = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&received);
    drain.on_transition(|_| Box::pin(std::future::pending()));
    drain.on_transition(move |change| {
        own.lock().push(change.new_state.to_string());
        Box::pin(std::future::ready(()))
    });
    drain.begin(ShutdownReason::OperatorRequest, LONG);
    drain.wait_ended().await;
    assert_eq!(*received.lock(), ["draining"]);
}

// === The method ===

#[tokio::test]
async fn only_the_owner_may_shut_the_server_down() {
    let drain = Drain::default();
    let mut client = mock::client(Stack::new(drain.router()));
    let refused = client.request("mgp/lifecycle/shutdown", "{}").await.unwrap_err();
    assert_eq!(refused.code().0, 1000);
    assert!(refused.message().contains("operator authority"), "{refused}");
    let refused = client.request("mgp/lifecycle/shutdown", r#"{"reason":3}"#).await.unwrap_err();
    assert_eq!(refused.code().0, 1000, "authority is checked before the params");
    assert!(!drain.is_draining());

    // An operator of another tenant is not allowed to shut the server down, because several tenants use it.
    client.cx.principal = Principal::new("acme", "ada").operator();
    client.request("mgp/lifecycle/shutdown", "{}").await.unwrap_err();
    assert!(!drain.is_draining());
    client.cx.principal = Principal::new("local", "ada").operator();
    let params = r#"{"reason":"tidying_up","timeout_ms":18446744073709551615}"#;
    client.request("mgp/lifecycle/shutdown", params).await.unwrap();
    assert!(drain.is_draining());
    let again = client.request("mgp/lifecycle/shutdown", "{}").await.unwrap();
    let again: ShutdownResult = again.get().unwrap();
    assert_eq!((again.accepted, again.pending_requests), (true, Some(0)));
    drain.wait_ended().await;
    assert!(client.request("mgp/lifecycle/shutdown", "{}").await.is_ok());
}

struct FleetOfFiles;

#[async_trait]
impl Fleet for FleetOfFiles {
    async fn ping(&self, _: &Context, _: &ServerId) -> Option<Result<PingResult, RpcError>> {
        None
    }

    async fn status(&self, _: &Context, _: &ServerId) -> Option<Result<StatusResult, RpcError>> {
        None
    }

    async fn shutdown(
        &self,
        _: &Context,
        server: &ServerId,
        params: ShutdownParams,
    ) -> Option<Result<ShutdownResult, RpcError>> {
        (server.as_str() == "files").then(|| {
            let mut result = ShutdownResult::new(true);
            result.estimated_drain_ms = params.timeout_ms;
            Ok(result)
        })
    }
}

#[tokio::test]
async fn servers_of_the_fleet_are_found_by_their_id_or_not_at_all() {
    let (alone, fleet) = (Drain::default(), Drain::default());
    for drain in [&alone, &fleet] {
        drain.configure(|config| config.server_id = Some("kernel".into()));
    }
    fleet.fleet(Arc::new(FleetOfFiles));
    let unknown = r#"{"accepted":false,"server_id":"mail","status":"not_found"}"#;
    for (drain, id, expected) in [
        (&alone, "mail", unknown),
        (&fleet, "mail", unknown),
        (&fleet, "files", r#"{"accepted":true,"estimated_drain_ms":7}"#),
        (&fleet, "kernel", r#"{"accepted":true,"pending_requests":0,"estimated_drain_ms":0}"#),
    ] {
        let mut client = mock::client(Stack::new(drain.router()));
        ProcessOwner::mark(&client.cx.scope);
        let params = format!(r#"{{"server_id":"{id}","timeout_ms":7}}"#);
        let answer = client.request("mgp/lifecycle/shutdown", &params).await.unwrap();
        assert_eq!(answer.as_str(), expected);
    }
    assert!(fleet.is_draining() && !alone.is_draining());
}

// === Tasks ===

fn with_tasks(drain: &Drain, time: Duration) -> mock::Client {
    let slow = Stack::from_fn(move |_| async move {
        sleep(time).await;
        Ok(Reply::raw(Payload::from_trusted(r#"{"content":[]}"#)))
    });
    let tasks = TasksLayer::new(TasksConfig::default(), |_| TaskSupport::Optional);
    let inner = tasks.drain(drain.clone()).layer(slow);
    let mut client = mock::client(Stack::new(DrainLayer::new(drain.clone()).layer(inner)));
    let mut facts = PeerInfo::new(Revision::MODERN);
    let offers = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    facts.capabilities = Some(Payload::from_trusted(offers));
    client.cx.caller = Arc::new(facts);
    client
}

async fn task(client: &mut mock::Client) -> String {
    let task: serde_json::Value = client.request(TOOL.0, TOOL.1).await.unwrap().get().unwrap();
    format!(r#"{{"taskId":{}}}"#, task["taskId"])
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_tasks_and_gives_their_callers_time_to_poll() {
    let drain = Drain::default();
    let mut client = with_tasks(&drain, Duration::from_secs(5));
    let (_unpolled, polled) = (task(&mut client).await, task(&mut client).await);
    let begun = Instant::now();
    assert_eq!(drain.begin(ShutdownReason::OperatorRequest, LONG).calls, 2);
    sleep(Duration::from_secs(6)).await;
    assert_eq!(drain.remaining().calls, 2, "both ended, and no outcome was delivered");
    assert!(client.request("tasks/get", &polled).await.unwrap().as_str().contains("completed"));
    tokio::task::yield_now().await;
    assert_eq!(drain.remaining().calls, 1);
    drain.wait_ended().await;
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn tasks_that_take_too_long_fail_with_3003() {
    let drain = Drain::default();
    let mut client = with_tasks(&drain, Duration::from_hours(1));
    let params = task(&mut client).await;
    let begun = Instant::now();
    drain.begin(ShutdownReason::OperatorRequest, Duration::from_secs(3));
    drain.wait_ended().await;
    assert_eq!(begun.elapsed().as_secs(), 3);
    let failed = client.request("tasks/get", &params).await.unwrap();
    // A caller without MGP gets the refusal as a tool result, whose text contains the code.
    assert!(failed.as_str().contains(r#""code":3003"#), "{failed:?}");
    assert!(failed.as_str().contains(r#""started":true"#), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_does_not_keep_the_server_from_ending() {
    let drain = Drain::default();
    drain.on_transition(|change| {
        assert_eq!(change.new_state, ServerState::Draining, "this observer panics at the end");
        Box::pin(std::future::ready(()))
    });
    drain.begin(ShutdownReason::OperatorRequest, LONG);
    timeout(LONG, drain.wait_ended()).await.unwrap();
    assert_eq!(drain.state().get(), ServerState::Disconnected);
}

#[test]
fn a_drain_that_cannot_begin_changes_nothing() {
    let drain = Drain::default();
    let begin = || drain.begin(ShutdownReason::IdleTimeout, LONG);
    let begun = std::panic::catch_unwind(std::panic::AssertUnwindSafe(begin));
    assert!(begun.is_err(), "there is no runtime");
    assert!(!drain.is_draining());
    assert_eq!(drain.state().get(), ServerState::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_long_reason_is_clipped_and_an_empty_one_replaced() {
    for (reason, bytes) in
        [("\u{e4}".repeat(9_999), 512), (" ".to_owned(), "operator_request".len())]
    {
        let drain = Drain::default();
        let mut client = takes(&drain, LONG);
        ProcessOwner::mark(&client.cx.scope);
        let running = started(&mut client).await;
        let params = format!(r#"{{"reason":"{reason}"}}"#);
        client.request("mgp/lifecycle/shutdown", &params).await.unwrap();
        assert_eq!(drain.reason().as_str().len(), bytes);
        running.abort();
    }
}
