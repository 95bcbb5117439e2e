//! Tests of every way a call can end, and of the record that each leaves.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_types::mgp::{AuditEvent, RiskLevel};
use mgp_types::service::{
    AuditError, AuditFuture, AuditSink, Body, Call, CallRecord, CallerAccess, CallerChannel,
    CallerRequest, Hidden, InputRequired, MemoryAudit, Principal, Reply, RoundState, Rounds, Stack,
    Ticket, gate, mock,
};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Payload, RpcError};
use tokio::time::{Instant, sleep};
use tower_layer::Layer;

use super::future::ResponseFuture;
use super::{Arguments, Audit, AuditConfig, AuditLayer};

const CALL: &str = r#"{"name":"water","arguments":{"litres":4}}"#;

fn audited(log: &MemoryAudit, inner: Stack) -> Stack {
    Stack::new(AuditLayer::new(Arc::new(log.clone())).server("garden").layer(inner))
}

fn answers(answer: Result<Reply, RpcError>) -> Stack {
    Stack::from_fn(move |_| std::future::ready(answer.clone()))
}

/// Describes an event as `TYPE/RESULT` and its details, without time and arguments.
fn shown(event: &AuditEvent) -> String {
    let mut details = event.details.clone().unwrap_or_default();
    details.remove("duration_ms");
    details.remove("arguments");
    let details = serde_json::to_string(&details).unwrap();
    format!("{}/{} {details}", event.event_type, event.result)
}

#[track_caller]
fn check(log: &MemoryAudit, expected: &[&str]) {
    let events: Vec<_> = log.events().iter().map(shown).collect();
    assert_eq!(events, expected);
    assert!(log.intents().is_empty());
}

async fn one(answer: Result<Reply, RpcError>, expected: &str) {
    let log = MemoryAudit::new();
    let mut client = mock::client(audited(&log, answers(answer)));
    let _ = client.call("tools/call", CALL).await;
    check(&log, &[expected]);
}

fn raw(text: &'static str) -> Reply {
    Reply::raw(Payload::from_trusted(text))
}

fn error(code: i32) -> RpcError {
    RpcError::new(ErrorCode(code), "no")
}

#[tokio::test]
async fn each_ending_has_its_event() {
    one(Ok(Reply::empty()), "TOOL_EXECUTED/SUCCESS {}").await;
    one(Ok(raw(r#"{"content":[],"isError":true}"#)), r#"TOOL_EXECUTED/FAILURE {"is_error":true}"#)
        .await;
    one(
        Ok(Reply::Task(Body::new(Payload::empty_object()))),
        r#"TOOL_EXECUTED/SUCCESS {"task":true}"#,
    )
    .await;
    one(Ok(Reply::None), r#"TOOL_EXECUTED/FAILURE {"cancelled":true}"#).await;
    for code in [1001, 2000, 2001, 2002, 3000, 3001, 3002, 4000, 4001, 4002, 4003] {
        let reason = ErrorCode(code).name().unwrap();
        let shown = format!(r#"TOOL_BLOCKED/BLOCKED {{"reason":"{reason}","code":{code}}}"#);
        one(Err(error(code)), &shown).await;
    }
    one(Err(error(1099)), r#"TOOL_BLOCKED/BLOCKED {"code":1099}"#).await;
    for code in [2003, 2099, 3003, 5000, 5001, 5002, -32603, -32602, 17] {
        one(Err(error(code)), &format!(r#"TOOL_EXECUTED/FAILURE {{"code":{code}}}"#)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_event_names_actor_target_and_time() {
    let log = MemoryAudit::new();
    let slow = Stack::from_fn(|_| async {
        sleep(Duration::from_millis(1200)).await;
        Ok(Reply::empty())
    });
    let layer =
        AuditLayer::new(Arc::new(log.clone())).risk(|_| Some(RiskLevel::Safe)).server("garden");
    let layer = layer.config(&AuditConfig::new().key([7; 32]));
    let mut client = mock::client(Stack::new(layer.layer(slow)));
    client.cx.trace = Some("trace-77".into());
    client.request("tools/call", CALL).await.unwrap();
    client.cx.principal = Principal::local().agent("agent.one");
    client.request("tools/call", CALL).await.unwrap();
    let parts = |event: &AuditEvent| {
        let json = serde_json::to_string(event).unwrap();
        json.split_once(r#","trace_id""#).unwrap().1.to_owned()
    };
    let expected = |kind: &str, id: &str, server: &str| {
        format!(
            r#":"trace-77","event_type":"TOOL_EXECUTED","actor":{{"type":"{kind}","id":"{id}"}},"target":{{"server_id":"{server}","tool_name":"water"}},"result":"SUCCESS","details":{{"arguments":{{"digest":"eb37d7f93bb9d2427296ef945643900e","bytes":12}},"risk_level":"safe","duration_ms":1200}}}}"#
        )
    };
    let events: Vec<_> = log.events().iter().map(parts).collect();
    assert_eq!(
        events,
        [expected("user", "local", "garden"), expected("agent", "agent.one", "garden")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_has_its_golden_file() {
    let log = MemoryAudit::new();
    let slow = Stack::from_fn(|_| async {
        sleep(Duration::from_millis(12)).await;
        Ok(Reply::empty())
    });
    let no_mowing = gate(|call| match call.tool() {
        Some(tool) if tool.name == "mow" => {
            Err(error(1001).because(Hidden::new("server_grant deny")))
        }
        _ => Ok(()),
    });
    let layer = AuditLayer::new(Arc::new(log.clone())).risk(|_| Some(RiskLevel::Safe));
    let layer = layer.config(&AuditConfig::new().key([7; 32]));
    let mut client = mock::client(Stack::new(layer.server("garden").layer(no_mowing.layer(slow))));
    client.cx.principal = Principal::local().agent("agent.one");
    client.cx.trace = Some("trace-77".into());
    client.request("tools/call", CALL).await.unwrap();
    client.request("tools/call", r#"{"name":"mow"}"#).await.unwrap_err();
    for mut event in log.events() {
        event.timestamp = "2026-03-04T05:06:07.089Z".into();
        super::event::tests::check(&event);
    }
}

#[tokio::test]
async fn other_messages_are_not_recorded() {
    let log = MemoryAudit::new();
    let mut client = mock::client(audited(&log, answers(Ok(Reply::empty()))));
    client.request("tools/list", "{}").await.unwrap();
    check(&log, &[]);
}

#[tokio::test]
async fn a_refusal_names_its_rule() {
    let log = MemoryAudit::new();
    let no = gate(|_| Err(error(1001).because(Hidden::new("server_grant deny"))));
    let mut client = mock::client(audited(&log, Stack::new(no.layer(answers(Ok(Reply::empty()))))));
    client.request("tools/call", CALL).await.unwrap_err();
    check(
        &log,
        &[
            r#"TOOL_BLOCKED/BLOCKED {"reason":"ACCESS_DENIED","code":1001,"rule":"server_grant deny"}"#,
        ],
    );
}

#[tokio::test]
async fn a_refusal_with_its_own_event_type_is_recorded_twice() {
    for (code, second) in
        [(1000, "PERMISSION_DENIED"), (1010, "VALIDATION_FAILED"), (1011, "CODE_REJECTED")]
    {
        for slow in [false, true] {
            let log = MemoryAudit::new();
            let wait = if slow { Duration::from_millis(5) } else { Duration::ZERO };
            let no = gate(move |_| Err(error(code).because(Hidden::new("the rule"))));
            let sink = Slow(log.clone(), wait);
            let layer = AuditLayer::new(Arc::new(sink)).server("garden");
            let stack = Stack::new(layer.layer(no.layer(answers(Ok(Reply::empty())))));
            mock::client(stack).request("tools/call", CALL).await.unwrap_err();
            let events = log.events();
            let reason = ErrorCode(code).name().unwrap();
            assert_eq!(
                events.iter().map(shown).collect::<Vec<_>>(),
                [
                    format!(
                        r#"TOOL_BLOCKED/BLOCKED {{"reason":"{reason}","code":{code},"rule":"the rule"}}"#
                    ),
                    format!(
                        r#"{second}/BLOCKED {{"code":{code},"reason":"{reason}","rule":"the rule"}}"#
                    ),
                ]
            );
            assert!(events[0].trace_id.is_some());
            let same = |event: &AuditEvent| {
                (event.trace_id.clone(), event.actor.clone(), event.target.clone())
            };
            assert_eq!(same(&events[0]), same(&events[1]));
        }
    }
}

#[tokio::test]
async fn the_message_of_a_refusal_is_not_recorded() {
    let log = MemoryAudit::new();
    let no = gate(|_| Err(RpcError::new(ErrorCode::VALIDATION_BLOCKED, "`hunter2` is not a URL")));
    let layer = AuditLayer::new(Arc::new(log.clone()));
    let mut client = mock::client(Stack::new(layer.layer(no.layer(answers(Ok(Reply::empty()))))));
    let call = r#"{"name":"water","arguments":{"url":"hunter2"}}"#;
    client.request("tools/call", call).await.unwrap_err();
    assert_eq!(log.events().len(), 2);
    assert!(!serde_json::to_string(&log.events()).unwrap().contains("hunter2"));
}

#[tokio::test]
async fn each_call_has_a_trace_and_its_arguments_as_configured() {
    let log = MemoryAudit::new();
    let config = AuditConfig::new().arguments(Arguments::Full);
    let layer = AuditLayer::new(Arc::new(log.clone())).config(&config);
    let mut client = mock::client(Stack::new(layer.layer(answers(Ok(Reply::empty())))));
    for params in [CALL, CALL, r#"{"name":"water"}"#] {
        client.request("tools/call", params).await.unwrap();
    }
    let events = log.events();
    let trace = |event: &AuditEvent| event.trace_id.clone().unwrap();
    assert!(trace(&events[0]).len() == 32 && trace(&events[0]) != trace(&events[1]));
    let arguments = |event: &AuditEvent| event.details.as_ref().unwrap().get("arguments").cloned();
    assert!(arguments(&events[0]).unwrap().as_str().ends_with(r#","value":{"litres":4}}"#));
    assert_eq!(arguments(&events[0]), arguments(&events[1]));
    assert_eq!(arguments(&events[2]), None);
}

#[tokio::test]
async fn a_peer_cannot_pass_a_failure_for_a_refusal() {
    let log = MemoryAudit::new();
    let liar = mock::peer(answers(Err(error(1001)))).peer();
    // A call that crosses two audited stacks is recorded by both, and both record that it ran.
    let inner = audited(&log, Stack::new(liar));
    let mut client = mock::client(audited(&log, inner));
    client.request("tools/call", CALL).await.unwrap_err();
    check(&log, &[r#"TOOL_EXECUTED/FAILURE {"code":1001}"#; 2]);
}

#[tokio::test]
async fn a_task_is_recorded_when_its_future_ends() {
    let log = MemoryAudit::new();
    let yields = Stack::from_fn(|_| async {
        tokio::task::yield_now().await;
        Ok(Reply::empty())
    });
    let mut client = mock::client(audited(&log, yields));
    let mut future = client.call("tools/call", CALL);
    // Poll the future once and then move it, as a layer does that runs calls as tasks.
    poll_fn(|task| {
        assert!(future.as_mut().poll(task).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    assert_eq!(log.intents().len(), 1);
    assert!(log.events().is_empty());
    tokio::spawn(future).await.unwrap().unwrap();
    check(&log, &["TOOL_EXECUTED/SUCCESS {}"]);
}

#[tokio::test]
async fn a_panic_leaves_a_failure() {
    let log = MemoryAudit::new();
    let panics = Stack::from_fn(|_| async { std::panic::resume_unwind(Box::new(())) });
    let mut client = mock::client(audited(&log, panics));
    assert!(tokio::spawn(client.call("tools/call", CALL)).await.is_err());
    check(&log, &[r#"TOOL_EXECUTED/FAILURE {"code":-32603}"#]);
}

#[test]
fn handles_and_futures_cross_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    fn sent<T: Send + 'static>() {}
    shared::<AuditLayer>();
    shared::<Audit<Stack>>();
    shared::<MemoryAudit>();
    sent::<ResponseFuture<Stack>>();
    sent::<Ticket>();
}

// === Rounds ===

/// Sends one request (round) of a call. Like the outermost layer of a stack, it converts the questions to the reply.
async fn round(stack: &Stack, state: RoundState) -> (Result<Reply, RpcError>, RoundState) {
    let rounds = Rounds::new(state);
    let mut client = mock::client(stack.clone());
    client.cx.logical = Some("logical-1".into());
    client.cx.caller_access = CallerAccess::Channel(Arc::new(rounds.clone()));
    let running = client.call("tools/call", CALL);
    let asking: Arc<dyn CallerChannel> = Arc::new(rounds.clone());
    let reply = CallerAccess::Channel(asking).run_round(running).await;
    (reply, rounds.state())
}

/// Creates a stack that asks one question before the tool and one in the tool.
fn asking_gate(inner: Stack) -> Stack {
    Stack::from_fn(move |call: Call| {
        let inner = inner.clone();
        async move {
            call.cx().ask("gate", CallerRequest::new("x/confirm", Payload::empty_object())).await?;
            inner.send(call).await
        }
    })
}

#[tokio::test]
async fn rounds_are_counted_once() {
    let log = MemoryAudit::new();
    let tool = Stack::from_fn(|call: Call| async move {
        let asking = call.cx().caller_access.clone();
        let answer = async {
            call.cx().ask("tool", CallerRequest::new("x/name", Payload::empty_object())).await
        };
        asking.run_round(async { answer.await.map(Reply::raw) }).await
    });
    let stack = audited(&log, asking_gate(tool));
    let mut state = RoundState::default();
    for key in ["gate", "tool"] {
        let (reply, next) = round(&stack, state).await;
        let Ok(Reply::InputRequired(InputRequired { asks, .. })) = reply else {
            panic!("it must ask")
        };
        assert_eq!(asks[0].0, key);
        check(&log, &[]);
        state = next;
        state.answers.insert(key.to_owned(), Payload::null());
    }
    assert!(round(&stack, state).await.0.is_ok());
    check(&log, &[r#"TOOL_EXECUTED/SUCCESS {"rounds":3}"#]);
}

// === Sinks that wait or fail ===

/// A sink that returns its tickets late. It creates them immediately, so that a call dropped in between is recorded.
struct Slow(MemoryAudit, Duration);

impl AuditSink for Slow {
    fn begin(&self, start: CallRecord) -> AuditFuture<Ticket> {
        let (begun, wait) = (self.0.begin(start), self.1);
        AuditFuture::Later(Box::pin(async move {
            let ticket = begun.await?;
            sleep(wait).await;
            Ok(ticket)
        }))
    }

    fn record(&self, event: AuditEvent) -> AuditFuture<()> {
        let (recorded, wait) = (self.0.record(event), self.1);
        AuditFuture::Later(Box::pin(async move {
            sleep(wait).await;
            recorded.await
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn no_call_runs_before_a_slow_sink_has_answered() {
    let log = MemoryAudit::new();
    let called = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&called);
    let tool = Stack::from_fn(move |_| {
        *seen.lock() = Some(Instant::now());
        std::future::ready(Ok(Reply::empty()))
    });
    let sink = Slow(log.clone(), Duration::from_millis(250));
    let mut client = mock::client(Stack::new(AuditLayer::new(Arc::new(sink)).layer(tool)));
    let begin = Instant::now();
    let future = client.call("tools/call", CALL);
    assert!(called.lock().is_none());
    future.await.unwrap();
    assert_eq!(called.lock().unwrap() - begin, Duration::from_millis(250));
    check(&log, &["TOOL_EXECUTED/SUCCESS {}"]);
}

/// A sink that returns an error, immediately or after a delay.
#[derive(Clone)]
struct Fails(AuditError, Option<Duration>);

impl AuditSink for Fails {
    fn begin(&self, _: CallRecord) -> AuditFuture<Ticket> {
        let reason = self.0.clone();
        match self.1 {
            None => AuditFuture::Ready(Err(reason)),
            Some(wait) => AuditFuture::Later(Box::pin(async move {
                sleep(wait).await;
                Err(reason)
            })),
        }
    }

    fn record(&self, _: AuditEvent) -> AuditFuture<()> {
        AuditFuture::Ready(Err(self.0.clone()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_recorded_does_not_run() {
    let reasons = [
        (
            AuditError::Full,
            "the call was not run: the audit log is full; make room in it, or try again later (3001)",
        ),
        (
            AuditError::failed(std::io::Error::other("disk on fire")),
            "the call was not run: the audit log cannot be written; see the log of the program that writes it (2000)",
        ),
        (
            AuditError::Closed,
            "the call was not run: the audit log is closed; the program that writes it is stopping, or must be restarted (2000)",
        ),
    ];
    for (reason, expected) in reasons {
        for wait in [None, Some(Duration::from_millis(5))] {
            let runs = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&runs);
            let tool = Stack::from_fn(move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                std::future::ready(Ok(Reply::empty()))
            });
            let layer = AuditLayer::new(Arc::new(Fails(reason.clone(), wait)));
            let mut client = mock::client(Stack::new(layer.layer(tool)));
            let refused = client.request("tools/call", CALL).await.unwrap_err();
            assert_eq!(refused.to_string(), expected);
            assert!(client.request("tools/list", "{}").await.is_ok());
            assert_eq!(runs.load(Ordering::SeqCst), 1);
        }
    }
}

#[tokio::test]
async fn a_tool_call_as_a_notification_is_blocked_and_recorded() {
    let log = MemoryAudit::new();
    let tools = mock::peer(answers(Ok(Reply::empty())));
    let seen = tools.clone();
    let inner = Stack::from_fn(move |call| {
        let tools = tools.clone();
        async move { tools.peer().send(call).await }
    });
    let mut client = mock::client(audited(&log, inner));
    let refused = client.notify("tools/call", CALL).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::INVALID_REQUEST);
    client.notify("notifications/initialized", "{}").await.unwrap();
    assert_eq!(seen.received().len(), 1, "other notifications pass");
    let events = log.events();
    assert_eq!((events.len(), events[0].event_type.as_str()), (1, "TOOL_BLOCKED"));
    let shown = serde_json::to_string(&events[0]).unwrap();
    assert!(shown.contains(r#""server_id":"garden","tool_name":"water""#), "{shown}");
    assert!(shown.contains(r#""code":-32600"#) && shown.contains(r#""rule":"#), "{shown}");
}

#[tokio::test]
async fn the_server_of_the_layer_wins_over_that_of_the_context() {
    let log = MemoryAudit::new();
    let mut client = mock::client(audited(&log, answers(Ok(Reply::empty()))));
    client.cx.server = Some("elsewhere".into());
    client.request("tools/call", CALL).await.unwrap();
    let target = log.events()[0].target.clone().unwrap();
    assert_eq!(target.server_id.as_deref(), Some("garden"));
}

/// Returns the text of the member `name` in the details of each event; an empty text if the member is absent.
fn in_each_event(log: &MemoryAudit, name: &str) -> Vec<String> {
    let text = |event: &AuditEvent| {
        event.details.as_ref().unwrap().decode::<String>(name).unwrap().unwrap_or_default()
    };
    log.events().iter().map(text).collect()
}

#[tokio::test]
async fn callers_of_two_tenants_with_one_name_are_distinguished() {
    let log = MemoryAudit::new();
    let refused = answers(Err(error(1000)));
    let mut client = mock::client(audited(&log, refused));
    for tenant in ["acme", "zeta", "local"] {
        client.cx.principal = Principal::new(tenant, "ada");
        client.request("tools/call", CALL).await.unwrap_err();
    }
    let tenants = in_each_event(&log, "tenant");
    assert_eq!(tenants, ["acme", "acme", "zeta", "zeta", "", ""], "each call, and its denial");
}

#[tokio::test]
async fn the_users_of_one_agent_are_distinguished() {
    let log = MemoryAudit::new();
    let mut client = mock::client(audited(&log, answers(Err(error(1000)))));
    for user in ["ann", "bob", "local"] {
        client.cx.principal = Principal::new("local", user).agent("app");
        client.request("tools/call", CALL).await.unwrap_err();
    }
    let users = in_each_event(&log, "user");
    assert_eq!(users, ["ann", "ann", "bob", "bob", "", ""], "each call, and its denial");
}
