//! Tests of charges, refunds and resets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use mgp_types::Payload;
use mgp_types::service::{CallerRequest, InputRequired, Stack, mock};
use tokio::time::sleep;
use tower_layer::Layer;

use super::*;
use crate::limit::{ConcurrencyLimitLayer, LimitConfig};

const CALL: &str = r#"{"name":"t"}"#;

/// Returns a layer whose clock shows the given number of seconds since 1970.
fn at(quota: Quota, clock: &Arc<AtomicU64>) -> QuotaLayer {
    let clock = Arc::clone(clock);
    let now = move || SystemTime::UNIX_EPOCH + Duration::from_secs(clock.load(Ordering::Relaxed));
    QuotaLayer(Arc::new(QuotaCounters::with_clock(quota, now)))
}

fn client(layer: &QuotaLayer, tools: impl MgpService) -> mock::Client {
    mock::client(Stack::new(layer.layer(tools)))
}

fn answers(outcome: impl Fn(&str) -> Result<Reply, RpcError> + Send + Sync + 'static) -> Stack {
    Stack::from_fn(move |call: Call| {
        let outcome = outcome(call.tool().map_or("", |tool| tool.name));
        async move { outcome }
    })
}

fn used(layer: &QuotaLayer) -> (u64, u64) {
    let used = layer.used(&Principal::local());
    (used.calls, used.units)
}

#[tokio::test]
async fn a_quota_is_reset_at_the_start_of_the_next_day() {
    let clock = Arc::new(AtomicU64::new(86_400 * 3 + 7));
    let layer = at(Quota::per_day(2), &clock);
    let mut client = client(&layer, answers(|_| Ok(Reply::empty())));
    for _ in 0..2 {
        client.request("tools/call", CALL).await.unwrap();
    }
    let refused = client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(
        serde_json::to_string(&refused).unwrap(),
        r#"{"code":3002,"message":"the quota of 2 calls a day is used up; it is reset at 1970-01-05T00:00:00.000Z","data":{"_mgp":{"category":"resource","retryable":false,"details":{"quota":2,"used":2,"of":"calls","period_secs":86400,"resets_at":"1970-01-05T00:00:00.000Z"}}}}"#
    );
    client.request("tools/list", "{}").await.unwrap();
    client.cx.principal = Principal::local().agent("other");
    client.request("tools/call", CALL).await.unwrap();
    client.cx.principal = Principal::local().operator();
    assert!(client.request("tools/call", CALL).await.is_err(), "an operator has one share");
    clock.store(86_400 * 4, Ordering::Relaxed);
    client.request("tools/call", CALL).await.unwrap();
    assert_eq!(used(&layer), (1, 0));
}

#[tokio::test]
async fn a_refused_call_is_refunded_and_a_failed_one_is_not() {
    for (code, refunded) in [
        (1000, true),
        (1010, true),
        (2001, true),
        (3000, true),
        (3001, true),
        (3002, true),
        (4000, true),
        (4001, true),
        (-32602, true),
        (2000, false),
        (3003, false),
        (5000, false),
        (-32603, false),
    ] {
        let layer = QuotaLayer::new(Quota::per_day(9));
        let mut client =
            client(&layer, answers(move |_| Err(RpcError::new(ErrorCode(code), "no"))));
        client.request("tools/call", CALL).await.unwrap_err();
        assert_eq!(used(&layer).0, u64::from(!refunded), "{code}");
    }
}

#[tokio::test]
async fn a_call_is_refunded_by_whether_it_started_whatever_its_code() {
    for (code, started) in [
        (ErrorCode::RESOURCE_EXHAUSTED, true),
        (ErrorCode::TIMEOUT, false),
        (ErrorCode(2000), false),
    ] {
        let layer = QuotaLayer::new(Quota::per_day(9));
        let hints = format!(r#"{{"details":{{"started":{started}}}}}"#);
        let hints: mgp_types::Recovery = serde_json::from_str(&hints).unwrap();
        let error = RpcError::new(code, "no").recovery(hints);
        let mut client = client(&layer, answers(move |_| Err(error.clone())));
        client.request("tools/call", CALL).await.unwrap_err();
        assert_eq!(used(&layer).0, u64::from(started), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_before_its_permit_is_refunded() {
    let slow = Stack::from_fn(|_| async {
        sleep(Duration::from_secs(9)).await;
        Ok(Reply::empty())
    });
    let config = LimitConfig { max_running: 1, ..LimitConfig::default() };
    let (outer, layer) = (QuotaLayer::new(Quota::per_day(8)), QuotaLayer::new(Quota::per_day(9)));
    let mut client = client(&outer, layer.layer(ConcurrencyLimitLayer::new(config).layer(slow)));
    let running = tokio::spawn(client.call("tools/call", CALL));
    let waiting = tokio::spawn(client.call("tools/call", CALL));
    tokio::task::yield_now().await;
    assert_eq!((used(&outer).0, used(&layer).0), (2, 2));
    waiting.abort();
    let _ = waiting.await;
    assert_eq!((used(&outer).0, used(&layer).0), (1, 1));
    running.abort();
    let _ = running.await;
    assert_eq!(used(&layer).0, 1, "it ran");
}

/// Returns a tool that charges 5 units, and then either asks a question (`ask`) or charges 7 more units and ends.
fn asking() -> Stack {
    Stack::from_fn(|call: Call| async move {
        Quota::charge(call.cx(), 5)?;
        if call.tool().is_some_and(|tool| tool.name == "ask") {
            let asks = vec![(
                "q".to_owned(),
                CallerRequest::new("elicitation/create", Payload::empty_object()),
            )];
            return Ok(Reply::InputRequired(InputRequired { asks, state: None }));
        }
        Quota::charge(call.cx(), 7)?;
        Ok(Reply::empty())
    })
}

#[tokio::test]
async fn rounds_of_a_call_are_charged_once() {
    let layer = QuotaLayer::new(Quota::per_day(9).units(30));
    let mut client = client(&layer, asking());
    let ask = r#"{"name":"ask"}"#;
    client.cx.logical = Some("one".into());
    for _ in 0..3 {
        client.call("tools/call", ask).await.unwrap();
        assert_eq!(used(&layer), (1, 5));
    }
    client.call("tools/call", CALL).await.unwrap();
    assert_eq!(used(&layer), (1, 12));
    // The first call has ended, so another call with the same logical id is a new call.
    client.call("tools/call", CALL).await.unwrap();
    assert_eq!(used(&layer), (2, 24));

    // A caller cannot continue a call of another caller.
    client.call("tools/call", ask).await.unwrap();
    client.cx.principal = Principal::new("local", "eve");
    client.call("tools/call", CALL).await.unwrap();
    let eve = layer.used(&client.cx.principal);
    assert_eq!((eve.calls, eve.units), (1, 12));
}

#[tokio::test]
async fn a_refused_round_of_a_call_is_repeated_without_another_charge() {
    for quota in [Quota::per_day(9), Quota::per_day(1)] {
        let rounds = AtomicU64::new(0);
        let tool = answers(move |_| match rounds.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(Reply::InputRequired(InputRequired { asks: Vec::new(), state: None })),
            1 => Err(RpcError::new(ErrorCode::RATE_LIMITED, "later")),
            _ => Ok(Reply::empty()),
        });
        let layer = QuotaLayer::new(quota);
        let mut client = client(&layer, tool);
        client.cx.logical = Some("one".into());
        client.call("tools/call", CALL).await.unwrap();
        let refused = client.call("tools/call", CALL).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::RATE_LIMITED);
        client.call("tools/call", CALL).await.unwrap();
        assert_eq!(used(&layer), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_round_dropped_before_its_permit_is_repeated_without_another_charge() {
    let tool = Stack::from_fn(|call: Call| async move {
        if call.tool().is_some_and(|tool| tool.name == "ask") {
            return Ok(Reply::InputRequired(InputRequired { asks: Vec::new(), state: None }));
        }
        sleep(Duration::from_secs(9)).await;
        Ok(Reply::empty())
    });
    let config = LimitConfig { max_running: 1, ..LimitConfig::default() };
    let layer = QuotaLayer::new(Quota::per_day(9));
    let mut client = client(&layer, ConcurrencyLimitLayer::new(config).layer(tool));
    client.cx.logical = Some("one".into());
    client.call("tools/call", r#"{"name":"ask"}"#).await.unwrap();
    client.cx.logical = None;
    let running = tokio::spawn(client.call("tools/call", CALL));
    client.cx.logical = Some("one".into());
    let waiting = tokio::spawn(client.call("tools/call", CALL));
    tokio::task::yield_now().await;
    waiting.abort();
    let _ = waiting.await;
    running.await.unwrap().unwrap();
    client.call("tools/call", CALL).await.unwrap();
    assert_eq!(used(&layer).0, 2, "the call in rounds, and the other one");
}

#[tokio::test]
async fn a_client_names_the_next_round_after_the_first() {
    let layer = QuotaLayer::new(Quota::per_day(9));
    let stack = Stack::new(layer.layer(asking()));
    let mut client = mock::client(stack.clone());
    let ask = mgp_types::service::Params::split("tools/call", r#"{"name":"ask"}"#.into()).unwrap();
    let cx = client.cx.clone();
    let first = cx.key;
    let method = mgp_types::service::Method::of("tools/call");
    stack.send(Call::request(method, ask, cx)).await.unwrap();
    client.cx.logical = Some(first.to_string().into());
    client.call("tools/call", CALL).await.unwrap();
    assert_eq!(used(&layer), (1, 12));
}

#[tokio::test]
async fn units_are_charged_to_all_quotas_or_to_none() {
    let outer = QuotaLayer::new(Quota::per_day(9).units(10));
    let inner = QuotaLayer::new(Quota::per_hour(9).units(100));
    let spend = Stack::from_fn(|call: Call| async move {
        let units = call.tool().and_then(|tool| tool.name.parse().ok()).unwrap_or(0);
        Quota::charge(call.cx(), units)?;
        Ok(Reply::empty())
    });
    let mut client = mock::client(Stack::new(outer.layer(inner.layer(spend))));
    client.request("tools/call", r#"{"name":"8"}"#).await.unwrap();
    let refused = client.request("tools/call", r#"{"name":"3"}"#).await.unwrap_err();
    assert!(refused.message().contains("10 units a day"), "{refused}");
    assert_eq!((used(&outer), used(&inner)), ((1, 8), (1, 8)));
    let most = format!(r#"{{"name":"{}"}}"#, u64::MAX);
    assert_eq!(client.request("tools/call", &most).await.unwrap_err().code().0, 3002);
    client.request("tools/call", r#"{"name":"2"}"#).await.unwrap();
    assert_eq!((used(&outer), used(&inner)), ((2, 10), (2, 10)));
}

#[tokio::test]
async fn a_quota_of_zero_refuses_all_calls() {
    let layer = QuotaLayer::new(Quota::every(Duration::ZERO, 0));
    let mut client = client(&layer, answers(|_| Ok(Reply::empty())));
    assert_eq!(client.request("tools/call", CALL).await.unwrap_err().code().0, 3002);
}
