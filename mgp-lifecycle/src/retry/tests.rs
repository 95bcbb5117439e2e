//! Tests of the layer with a scripted server, in virtual time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::service::{
    AuditOutcome as Ending, AuditSink, BoxFuture, Call, CallKey, CallRecord, CallerRequest,
    Deadline, InputRequired, MemoryAudit, Outlet, OutletItem, Reply, RetryAttempt, Stack, WaitMark,
    connection_lost, mock,
};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Payload, Recovery, RetryStrategy, RpcError};
use tokio::time::{Instant, advance, sleep};
use tower_layer::Layer;

use super::failure::Outcome;
use super::{RetryBudget, RetryConfig, RetryLayer};

mod circuits;
mod fallbacks;

/// A server that records the calls it receives. A function determines its answers.
#[derive(Clone)]
struct Server(Arc<Record>);

type Answer = dyn Fn(usize, &Call) -> Outcome + Send + Sync;

struct Record {
    calls: Mutex<Vec<(Call, Instant)>>,
    answer: Box<Answer>,
}

impl Server {
    /// Creates a server; the function gets the number of each call, from 0.
    fn new(answer: impl Fn(usize, &Call) -> Outcome + Send + Sync + 'static) -> Self {
        Self(Arc::new(Record { calls: Mutex::default(), answer: Box::new(answer) }))
    }

    /// Creates a server that returns these outcomes, and then succeeds.
    fn script(answers: impl IntoIterator<Item = Outcome>) -> Self {
        let answers: Mutex<VecDeque<_>> = Mutex::new(answers.into_iter().collect());
        Self::new(move |_, _| answers.lock().pop_front().unwrap_or(Ok(Reply::empty())))
    }

    /// Creates a server whose calls all fail with one error.
    fn failing(error: RpcError) -> Self {
        Self::new(move |_, _| Err(error.clone()))
    }

    fn stack(&self) -> Stack {
        let seen = Arc::clone(&self.0);
        Stack::from_fn(move |call| {
            let seen = Arc::clone(&seen);
            async move {
                let number = {
                    let mut calls = seen.calls.lock();
                    calls.push((call.clone(), Instant::now()));
                    calls.len() - 1
                };
                tokio::task::yield_now().await;
                (seen.answer)(number, &call)
            }
        })
    }

    fn client(&self, layer: &RetryLayer) -> mock::Client {
        mock::client(Stack::new(layer.layer(self.stack())))
    }

    fn calls(&self) -> Vec<Call> {
        self.0.calls.lock().iter().map(|(call, _)| call.clone()).collect()
    }

    fn count(&self) -> usize {
        self.0.calls.lock().len()
    }

    /// Returns the times between calls, in milliseconds.
    fn waits(&self) -> Vec<u128> {
        let calls = self.0.calls.lock();
        calls.windows(2).map(|pair| (pair[1].1 - pair[0].1).as_millis()).collect()
    }

    /// Returns the names of the called methods, or of the tools for tool calls.
    fn names(&self) -> Vec<String> {
        let name = |call: &Call| {
            call.tool().map_or_else(|| call.method().to_string(), |tool| tool.name.to_owned())
        };
        self.calls().iter().map(name).collect()
    }
}

const CALL: &str = r#"{"name":"send","arguments":{"to":"ann"}}"#;

fn code(code: ErrorCode) -> RpcError {
    RpcError::new(code, "no")
}

fn with_hints(number: i32, hints: &str) -> RpcError {
    let hints: Recovery = serde_json::from_str(hints).unwrap();
    RpcError::new(ErrorCode(number), "no").recovery(hints)
}

fn layer() -> RetryLayer {
    RetryLayer::new(RetryConfig::default())
}

fn list(tool: &str) -> Reply {
    Reply::raw(Payload::parse(format!(r#"{{"tools":[{tool}]}}"#)).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_started_is_retried_until_it_succeeds() {
    for number in [2000, 2002, 3001] {
        let server = Server::script([Err(code(ErrorCode(number))), Err(code(ErrorCode(number)))]);
        assert!(server.client(&layer()).request("tools/call", CALL).await.is_ok(), "{number}");
        assert_eq!(server.count(), 3, "{number}");
        assert!(server.waits().iter().all(|wait| *wait >= 1000), "{:?}", server.waits());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_must_not_be_retried_fails_at_once() {
    for error in [
        with_hints(3000, r#"{"retryable":false,"retry_after_ms":1,"max_retries":9}"#),
        with_hints(3000, "{}"),
        code(ErrorCode::ACCESS_DENIED),
        code(ErrorCode::QUOTA_EXCEEDED),
        code(ErrorCode::INTERNAL_ERROR),
        // After these errors the call may have run, so it is not retried.
        with_hints(5000, r#"{"retryable":true}"#),
        with_hints(3003, r#"{"retryable":true}"#),
        code(ErrorCode::UPSTREAM_UNAVAILABLE),
        connection_lost("the child died"),
        // The required wait is longer than the maximum wait, so the call is not retried.
        with_hints(3000, r#"{"retryable":true,"retry_after_ms":1000000000000}"#),
        with_hints(3000, r#"{"retryable":true,"max_retries":0}"#),
    ] {
        let (server, began) = (Server::failing(error.clone()), Instant::now());
        let answer = server.client(&layer()).request("tools/call", CALL).await;
        assert_eq!(answer.unwrap_err(), error);
        let calls = server.names().iter().filter(|name| *name == "send").count();
        assert_eq!((calls, began.elapsed()), (1, Duration::ZERO), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_server_sets_waits_and_number_within_the_callers_bounds() {
    for (hints, waits) in [
        (r#"{"retryable":true,"retry_after_ms":70,"max_retries":2}"#, &[70, 70][..]),
        (r#"{"retryable":true,"retry_after_ms":70,"max_retries":1000000000}"#, &[70, 70, 70]),
        (r#"{"retryable":true,"retry_strategy":"immediate"}"#, &[0, 0, 0]),
        (r#"{"retryable":true,"retry_strategy":"by_moonlight","retry_after_ms":5}"#, &[5, 5, 5]),
    ] {
        let server = Server::failing(with_hints(3000, hints));
        server.client(&layer()).request("tools/call", CALL).await.unwrap_err();
        assert_eq!(server.waits(), waits, "{hints}");
    }
    let server = Server::failing(with_hints(
        3000,
        r#"{"retryable":true,"retry_after_ms":100,"retry_strategy":"exponential_backoff"}"#,
    ));
    server.client(&layer()).request("tools/call", CALL).await.unwrap_err();
    for (wait, least) in server.waits().into_iter().zip([100, 200, 400]) {
        assert!((least..=least * 3 / 2 + 1).contains(&wait), "{:?}", server.waits());
    }
}

#[tokio::test(start_paused = true)]
async fn no_wait_is_begun_that_outlives_the_deadline_or_the_total() {
    let slow = with_hints(3000, r#"{"retryable":true,"retry_after_ms":4000}"#);
    let (server, began) = (Server::failing(slow.clone()), Instant::now());
    let mut client = server.client(&layer());
    client.cx.deadline = Deadline::after(Duration::from_secs(9));
    client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!((server.count(), began.elapsed().as_secs()), (3, 8));

    let mut config = RetryConfig::default();
    (config.max_retries, config.total_timeout) = (100, Duration::from_secs(10));
    let (server, began) = (Server::failing(slow), Instant::now());
    server.client(&RetryLayer::new(config)).request("tools/call", CALL).await.unwrap_err();
    assert_eq!((server.count(), began.elapsed().as_secs()), (3, 8));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_run_is_retried_if_its_definition_or_the_caller_allows_it() {
    let failed = || with_hints(5000, r#"{"retryable":true,"retry_after_ms":1}"#);
    let listing = |tool: &'static str| {
        Server::new(move |_, call| match call.tool() {
            Some(_) => Err(with_hints(5000, r#"{"retryable":true,"retry_after_ms":1}"#)),
            None => Ok(list(tool)),
        })
    };
    // The list is requested once, when it is needed for the first time.
    let reads = listing(r#"{"name":"send","inputSchema":{},"annotations":{"readOnlyHint":true}}"#);
    let (retry, mut twice) = (layer(), Vec::new());
    let mut client = reads.client(&retry);
    for _ in 0..2 {
        client.request("tools/call", CALL).await.unwrap_err();
        twice.push(reads.count());
    }
    assert_eq!(twice, [5, 9], "{:?}", reads.names());
    assert_eq!(reads.names().iter().filter(|name| *name == "tools/list").count(), 1);

    let changes = listing(r#"{"name":"send","inputSchema":{}}"#);
    changes.client(&layer()).request("tools/call", CALL).await.unwrap_err();
    assert_eq!(changes.names(), ["send", "tools/list"]);

    let allowed =
        RetryConfig::default().repeat(|call| call.tool().is_some_and(|tool| tool.name == "send"));
    let opted = Server::failing(failed());
    opted.client(&RetryLayer::new(allowed)).request("tools/call", CALL).await.unwrap_err();
    assert_eq!(opted.names(), ["send"; 4]);
}

#[tokio::test(start_paused = true)]
async fn a_dangerous_and_irreversible_call_is_retried_only_if_the_caller_allows_it() {
    const WIPE: &str = r#"{"name":"send","inputSchema":{},"annotations":{"idempotentHint":true},"security":{"risk_level":"dangerous","reversible":false}}"#;
    let server = || {
        Server::new(|_, call| match call.tool() {
            Some(_) => Err(with_hints(3000, r#"{"retryable":true,"retry_after_ms":1}"#)),
            None => Ok(list(WIPE)),
        })
    };
    let (wipe, retry) = (server(), layer());
    let mut client = wipe.client(&retry);
    client.request("tools/list", "{}").await.unwrap();
    client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(wipe.names(), ["tools/list", "send"]);

    let (wipe, retry) = (server(), RetryLayer::new(RetryConfig::default().repeat(|_| true)));
    let mut client = wipe.client(&retry);
    client.request("tools/list", "{}").await.unwrap();
    client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(wipe.count(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_a_result_counts_as_one() {
    let refusal = |rest: &str| {
        let text = format!(
            r#"{{"content":[{{"type":"text","text":"busy (3001)"}}],"structuredContent":{{"status":"rejected","code":3001,"reason":"busy"{rest}}},"isError":true}}"#
        );
        Ok(Reply::raw(Payload::parse(text).unwrap()))
    };
    let busy = r#","retryable":true,"retry_after_ms":50"#;
    let server = Server::script([refusal(busy), refusal(busy)]);
    let answer = server.client(&layer()).request("tools/call", CALL).await.unwrap();
    assert_eq!((answer.as_str(), server.waits()), ("{}", vec![50, 50]));

    let server = Server::new(move |_, _| refusal(busy));
    let answer = server.client(&layer()).request("tools/call", CALL).await.unwrap();
    assert!(answer.as_str().contains("rejected"), "the server's own answer is returned");
    assert_eq!(server.count(), 4);

    let server = Server::script([refusal(r#","retryable":false"#)]);
    server.client(&layer()).request("tools/call", CALL).await.unwrap();
    assert_eq!(server.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_requests_that_read_are_retried() {
    let away = || Server::failing(with_hints(5000, r#"{"retryable":true,"retry_after_ms":1}"#));
    for (method, params) in [
        ("resources/read", r#"{"uri":"a:b"}"#),
        ("resources/list", "{}"),
        ("resources/templates/list", "{}"),
        ("prompts/list", "{}"),
        ("prompts/get", r#"{"name":"p"}"#),
        ("completion/complete", "{}"),
        ("tools/list", "{}"),
    ] {
        let server = away();
        server.client(&layer()).request(method, params).await.unwrap_err();
        assert_eq!(server.count(), 4, "{method}");
    }
    for method in [
        "initialize",
        "server/discover",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "subscriptions/listen",
        "tasks/get",
        "tasks/cancel",
        "mgp/health/ping",
        "mgp/access/grant",
        "example/other",
    ] {
        let server = away();
        server.client(&layer()).request(method, "{}").await.unwrap_err();
        assert_eq!(server.count(), 1, "{method}");
    }
    for method in ["tools/call", "notifications/cancelled", "tools/list"] {
        let server = away();
        server.client(&layer()).notify(method, CALL).await.unwrap_err();
        assert_eq!(server.count(), 1, "{method} as a notification");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_is_not_a_failure() {
    let asks = vec![(
        "name".to_owned(),
        CallerRequest::new("elicitation/create", Payload::empty_object()),
    )];
    let asked = Reply::InputRequired(InputRequired { asks, state: Some("sealed".into()) });
    let server = Server::new(move |_, _| Ok(asked.clone()));
    let reply = server.client(&layer()).call("tools/call", CALL).await.unwrap();
    assert!(matches!(reply, Reply::InputRequired(_)));
    assert_eq!(server.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn attempts_are_of_one_logical_call_and_one_trace_with_a_key_each() {
    let busy = with_hints(3000, r#"{"retryable":true,"retry_after_ms":20}"#);
    let server = Server::script([Err(busy.clone()), Err(busy)]);
    server.client(&layer()).request("tools/call", CALL).await.unwrap();
    let calls = server.calls();
    let [first, second, third] = &*calls else { panic!("{} calls", calls.len()) };
    let logical = Some(first.cx().key.to_string());
    assert_eq!(first.cx().logical, None, "as with the first of several rounds");
    for again in [second, third] {
        assert_eq!(again.cx().logical.as_deref().map(str::to_owned), logical);
        assert_eq!(again.cx().trace, first.cx().trace);
        assert!(WaitMark::is_set(again.cx()) && !WaitMark::is_set(first.cx()));
        assert_eq!(again.tool().unwrap().arguments, first.tool().unwrap().arguments);
    }
    assert!(first.cx().trace.is_some());
    let mut keys: Vec<CallKey> = calls.iter().map(|call| call.cx().key).collect();
    keys.dedup();
    assert_eq!(keys.len(), 3);
    let attempt = |call: &Call| call.cx().extensions.get::<RetryAttempt>().cloned();
    let waited = Duration::from_millis(20);
    assert_eq!(attempt(first), None);
    assert_eq!(attempt(third), Some(RetryAttempt::new(2, ErrorCode::RATE_LIMITED, waited)));
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_an_event_of_its_own() {
    let log = MemoryAudit::new();
    let server = Server::script([Err(code(ErrorCode::RATE_LIMITED))]);
    let (sink, below) = (log.clone(), server.stack());
    let audited = Stack::from_fn(move |call: Call| {
        let (sink, below) = (sink.clone(), below.clone());
        async move {
            let ticket = sink.begin(CallRecord::from_call(&call).unwrap()).await.unwrap();
            let outcome = below.send(call).await;
            ticket.finish(match &outcome {
                Ok(_) => Ending::Success,
                Err(error) => Ending::Blocked { code: error.code(), rule: None },
            });
            outcome
        }
    });
    let mut client = mock::client(Stack::new(layer().layer(audited)));
    client.request("tools/call", CALL).await.unwrap();
    let events = log.events();
    let [refused, executed] = &*events else { panic!("{events:?}") };
    assert_eq!(
        (refused.event_type.as_str(), executed.event_type.as_str()),
        ("TOOL_BLOCKED", "TOOL_EXECUTED")
    );
    assert!(refused.trace_id.is_some() && refused.trace_id == executed.trace_id);
    let detail = |event: &mgp_types::mgp::AuditEvent, name: &str| {
        event.details.as_ref().unwrap().get(name).map(|value| value.as_str().to_owned())
    };
    assert_eq!(detail(refused, "retry_attempt"), None);
    assert_eq!(detail(executed, "retry_attempt").as_deref(), Some("1"));
    assert_eq!(detail(executed, "retry_of_code").as_deref(), Some("3000"));
    assert!(detail(executed, "waited_ms").unwrap().parse::<u64>().unwrap() >= 500);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_not_retried() {
    let server = Server::failing(with_hints(3000, r#"{"retryable":true,"retry_after_ms":5000}"#));
    let mut client = server.client(&layer());
    let call: BoxFuture<'_, _> = client.call("tools/call", CALL);
    assert!(tokio::time::timeout(Duration::from_secs(6), call).await.is_err());
    assert_eq!(server.count(), 2);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(server.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_connection_has_ended_is_not_retried() {
    let server = Server::failing(code(ErrorCode::SERVER_NOT_READY));
    let mut client = server.client(&layer());
    let scope = client.cx.scope.clone();
    let call = client.call("tools/call", CALL);
    let ending = async {
        sleep(Duration::from_millis(1500)).await;
        scope.end();
    };
    let (answer, ()) = tokio::join!(call, ending);
    answer.unwrap_err();
    assert_eq!(server.count(), 2, "it ended during the second wait");
    let (began, answer) = (Instant::now(), client.request("tools/call", CALL).await);
    answer.unwrap_err();
    assert_eq!((server.count(), began.elapsed()), (3, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn after_a_chunk_a_call_is_not_retried() {
    let streaming = |item: OutletItem| {
        let tries = Arc::new(Mutex::new(0));
        let count = Arc::clone(&tries);
        let stack = Stack::from_fn(move |call: Call| {
            let (item, count) = (item.clone(), Arc::clone(&count));
            async move {
                if call.tool().is_none() {
                    return Err(RpcError::method_not_found("tools/list"));
                }
                *count.lock() += 1;
                let _ = call.cx().outlet.send(item).await;
                Err(with_hints(3000, r#"{"retryable":true,"retry_after_ms":1}"#))
            }
        });
        (stack, tries)
    };
    let step = || OutletItem::Progress(mgp_types::service::Progress::default());
    let repeated = || RetryLayer::new(RetryConfig::default().repeat(|_| true));
    for (item, retry, expected) in
        [(OutletItem::text("once"), repeated(), 1), (step(), layer(), 1), (step(), repeated(), 4)]
    {
        let (stack, tries) = streaming(item.clone());
        let mut client = mock::client(Stack::new(retry.layer(stack)));
        let delivered = Arc::new(Mutex::new(0));
        let count = Arc::clone(&delivered);
        client.cx.outlet = Outlet::from_fn(move |_| *count.lock() += 1);
        client.request("tools/call", CALL).await.unwrap_err();
        assert_eq!((*tries.lock(), *delivered.lock()), (expected, expected), "{item:?}");
        // Without an outlet, nothing can be delivered, so the call is retried.
        client.cx.outlet = Outlet::none();
        client.request("tools/call", CALL).await.unwrap_err();
        assert_eq!(*tries.lock(), expected + 4, "{item:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failing_calls_are_retried_by_a_tenth_of_their_number() {
    for together in [1_usize, 500] {
        let server = Server::failing(with_hints(
            3000,
            r#"{"retryable":true,"retry_strategy":"immediate","max_retries":1000000000}"#,
        ));
        let mut client = server.client(&layer());
        for _ in 0..10_000 / together {
            let calls: Vec<_> =
                (0..together).map(|_| tokio::spawn(client.call("tools/call", CALL))).collect();
            for call in calls {
                call.await.unwrap().unwrap_err();
            }
        }
        assert_eq!(server.count(), 11_000, "{together} at once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_a_call_that_is_dropped_meanwhile_stays_in_the_budget() {
    let mut config = RetryConfig::default();
    config.budget = RetryBudget { percent: 0, floor: 1 };
    let busy = || Err(with_hints(3000, r#"{"retryable":true,"retry_after_ms":5000}"#));
    let server = Server::script([busy(), busy()]);
    let mut client = server.client(&RetryLayer::new(config));
    let call = client.call("tools/call", CALL);
    assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err());
    client.request("tools/call", CALL).await.unwrap();
    assert_eq!(server.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_observer_receives_code_and_wait_of_each_attempt() {
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&attempts);
    let config = RetryConfig::default().on_attempt(move |attempt| {
        let tool = attempt.tool.map(str::to_owned);
        let code = attempt.code.map(|code| code.0);
        let server = attempt.server.map(ToString::to_string);
        sink.lock().push((attempt.attempt, code, attempt.waited.as_millis(), server, tool));
    });
    let server =
        Server::script([Err(with_hints(3000, r#"{"retryable":true,"retry_after_ms":9}"#))]);
    let retry = RetryLayer::new(config).server("shop");
    let mut client = server.client(&retry);
    client.request("tools/call", CALL).await.unwrap();
    client.request("resources/list", "{}").await.unwrap();
    let (shop, send) = (Some("shop".to_owned()), Some("send".to_owned()));
    let expected = [
        (1, Some(3000), 0, shop.clone(), send.clone()),
        (2, None, 9, shop.clone(), send),
        (1, None, 0, shop, None),
    ];
    assert_eq!(*attempts.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_list_its_tools_delays_no_call_for_long() {
    let stack = Stack::from_fn(|call: Call| async move {
        match call.tool() {
            Some(_) => Err(with_hints(5000, r#"{"retryable":true,"retry_strategy":"immediate"}"#)),
            None => std::future::pending().await,
        }
    });
    let mut client = mock::client(Stack::new(layer().layer(stack)));
    for longest in [2, 0] {
        let began = Instant::now();
        client.request("tools/call", CALL).await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), longest);
    }
    advance(Duration::from_secs(61)).await;
    client.cx.deadline = Deadline::after(Duration::from_millis(100));
    let began = Instant::now();
    client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(began.elapsed().as_millis(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_requested_before_a_change_of_the_tools_is_not_used() {
    const READS: &str = r#"{"name":"send","inputSchema":{},"annotations":{"readOnlyHint":true}}"#;
    let retry = layer();
    let changing = retry.clone();
    let server = Server::new(move |_, call| {
        if call.tool().is_some() {
            return Err(with_hints(5000, r#"{"retryable":true,"retry_after_ms":1}"#));
        }
        changing.tools_changed(None);
        Ok(list(READS))
    });
    let mut client = server.client(&retry);
    client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(server.names(), ["send", "tools/list"]);
    client.request("tools/list", "{}").await.unwrap();
    client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(server.names(), ["send", "tools/list", "tools/list", "send", "tools/list"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_tools_ends_with_an_empty_or_repeated_cursor() {
    for (cursor, pages) in [(r#""""#, 1), (r#""a""#, 2), ("7", 2)] {
        let page = format!(r#"{{"tools":[],"nextCursor":{cursor}}}"#);
        let server = Server::new(move |_, call| match call.tool() {
            Some(_) => Err(with_hints(5000, r#"{"retryable":true,"retry_after_ms":1}"#)),
            None => Ok(Reply::raw(Payload::parse(page.clone()).unwrap())),
        });
        server.client(&layer()).request("tools/call", CALL).await.unwrap_err();
        assert_eq!(server.count(), 1 + pages, "{cursor}");
    }
}

#[test]
fn the_futures_are_send() {
    fn assert_send<T: Send>() {}
    assert_send::<super::future::ResponseFuture<Stack>>();
    assert_eq!(RetryStrategy::from("x").effective(), RetryStrategy::FixedDelay);
}
