//! Tests of steps that a caller or a kill interrupts, of refused compensations, and of the size of transactions.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mgp_types::proposal::{
    BeginTransactionParams, Compensation, EndTransactionParams, TransactionStatus,
};
use mgp_types::service::{Call, Principal, Reply, RetryAttempt, Stack, is_connection_lost};
use mgp_types::store::{Change, MemoryStore, Store as _};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Payload, Recovery, RetryStrategy, RpcError};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tower_layer::Layer as _;

use super::{SlowStore, Tools, begun_world, client, client_of, params, run, world, world_of};
use crate::transaction::saga::SPACE;
use crate::{Idempotency, IdempotencyLayer, IdempotencyLimits, Transactions};

/// Begins the transaction `tx` of the returned caller.
async fn begun(store: Arc<SlowStore>) -> (Transactions, Arc<Tools>, Principal) {
    let transactions = Transactions::open(store).await.unwrap();
    let tools = Arc::new(Tools::default());
    transactions.start(tools.clone());
    let mut begin = BeginTransactionParams::new();
    begin.transaction_id = Some("tx".to_owned());
    let caller = Principal::local();
    transactions.begin(&caller, begin).await.unwrap();
    (transactions, tools, caller)
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_caller_leaves_while_its_beginning_is_stored_runs_and_is_undone() {
    let (transactions, tools, caller) = begun(Arc::new(SlowStore::default())).await;
    let gate = Arc::new(Semaphore::new(0));
    let tool = Stack::from_fn(move |call| run(call, Arc::clone(&gate)));
    let step = client(&transactions, tool).call("tools/call", &params("make", 1, ""));
    timeout(Duration::from_millis(10), step).await.unwrap_err();
    let end = EndTransactionParams::new("tx");
    let result = transactions.roll_back(&caller, &end).await.unwrap();
    assert_eq!(result.status, TransactionStatus::RolledBack);
    assert_eq!(*tools.undone.lock(), [r#"tickets unmake {"n":1}"#]);
}

#[tokio::test]
async fn a_later_tenant_does_not_see_the_transactions_of_a_removed_one() {
    let mut world = world().await;
    let transactions = world.transactions.clone();
    for tenant in ["acme", "acme-2"] {
        world.client.cx.principal = Principal::new(tenant, "ann");
        for id in ["tx", "open"] {
            let mut begin = BeginTransactionParams::new();
            begin.transaction_id = Some(id.to_owned());
            transactions.begin(&world.client.cx.principal, begin).await.unwrap();
        }
        world.step("other", 1, "").await.unwrap();
        let end = EndTransactionParams::new("tx");
        let ended = transactions.roll_back(&world.client.cx.principal, &end).await.unwrap();
        assert_eq!(ended.status, TransactionStatus::PartiallyRolledBack);
    }
    transactions.remove_tenant(&"acme".into()).await.unwrap();
    let of_next_process = Transactions::open(world.store.clone()).await.unwrap();
    for transactions in [transactions, of_next_process] {
        assert!(transactions.list("acme", true).is_empty());
        assert_eq!(transactions.list("acme-2", true).len(), 2);
        assert_eq!(transactions.callers(), vec![Principal::new("acme-2", "ann"); 2]);
    }
}

#[tokio::test]
async fn a_repeated_step_whose_end_a_kill_prevented_is_undone_as_its_tool_declared() {
    let (store, at_kill) = (Arc::new(MemoryStore::new()), Arc::new(Mutex::new(Vec::new())));
    let start = async || {
        let (read, kept) = (Arc::clone(&store), Arc::clone(&at_kill));
        let tool = Stack::from_fn(move |call: Call| {
            let (read, kept) = (Arc::clone(&read), Arc::clone(&kept));
            async move {
                call.cx().add_to_result(&Compensation::new("unmake"))?;
                *kept.lock() = read.load(SPACE).await.unwrap().records;
                Ok::<_, RpcError>(Reply::raw(Payload::from_trusted(r#"{"content":[]}"#)))
            }
        });
        let keys = Idempotency::open(store.clone()).await.unwrap();
        let mut world = world_of(Arc::clone(&store), Tools::default()).await;
        let once = IdempotencyLayer::new(keys).layer(tool);
        world.client = client(&world.transactions, Stack::new(once));
        world
    };
    let mut world = start().await;
    world.begin().await;
    let key = r#","idempotency_key":"k""#;
    world.step("make", 1, key).await.unwrap();
    // The process is killed after the result was stored with the key, and before the end of the step.
    let mut change = Change::new();
    for record in std::mem::take(&mut *at_kill.lock()) {
        change = change.put(SPACE, record.key, record.value.unwrap());
    }
    store.commit(change).await.unwrap();
    let mut world = start().await;
    assert!(world.commit().await.unwrap_err().message().contains("has not ended"));
    world.step("make", 1, key).await.unwrap();
    assert_eq!(world.roll_back().await.status, TransactionStatus::RolledBack);
    assert_eq!(world.undone(), ["tickets unmake {}"]);
}

fn refused_for_30_s() -> RpcError {
    let hints = Recovery::default().retry(RetryStrategy::FixedDelay, 30_000, 1);
    RpcError::new(ErrorCode::RATE_LIMITED, "too many calls").recovery(hints)
}

#[tokio::test(start_paused = true)]
async fn a_stopping_server_does_not_wait_for_another_attempt_to_undo_a_step() {
    let mut world = begun_world().await;
    world.step("make", 1, "").await.unwrap();
    world.tools.refusals.lock().push(refused_for_30_s());
    let transactions = world.transactions.clone();
    let rollback = tokio::spawn(async move {
        transactions.roll_back(&Principal::local(), &EndTransactionParams::new("tx")).await
    });
    sleep(Duration::from_secs(2)).await;
    world.tools.has_ended.store(true, Ordering::Relaxed);
    let paused = timeout(Duration::from_secs(5), rollback).await.unwrap().unwrap().unwrap_err();
    assert!(paused.message().contains("its next start continues"), "{paused}");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_cannot_be_stored_pauses_when_its_server_stops() {
    let store = Arc::new(SlowStore::default());
    let (transactions, tools, caller) = begun(store.clone()).await;
    let gate = Arc::new(Semaphore::new(0));
    let tool = Stack::from_fn(move |call| run(call, Arc::clone(&gate)));
    let step = client(&transactions, tool).call("tools/call", &params("make", 1, ""));
    step.await.unwrap();
    tools.refusals.lock().push(refused_for_30_s());
    let rollback = tokio::spawn(async move {
        transactions.roll_back(&caller, &EndTransactionParams::new("tx")).await
    });
    sleep(Duration::from_secs(2)).await;
    store.is_closed.store(true, Ordering::Relaxed);
    sleep(Duration::from_mins(1)).await;
    assert!(!rollback.is_finished());
    tools.has_ended.store(true, Ordering::Relaxed);
    let paused = timeout(Duration::from_secs(10), rollback).await.unwrap().unwrap().unwrap_err();
    assert!(paused.message().contains("its next start continues"), "{paused}");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_waits_as_long_as_a_refusal_demands() {
    let mut world = begun_world().await;
    world.step("make", 1, "").await.unwrap();
    world.tools.refusals.lock().push(refused_for_30_s());
    let begun = tokio::time::Instant::now();
    assert_eq!(world.roll_back().await.status, TransactionStatus::RolledBack);
    assert!(begun.elapsed() >= Duration::from_secs(30));
}

#[tokio::test]
async fn a_step_that_reaches_a_stopping_server_is_refused_as_not_started() {
    let mut world = begun_world().await;
    world.tools.has_ended.store(true, Ordering::Relaxed);
    let refused = world.step("make", 1, "").await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::SERVER_DRAINING);
}

#[tokio::test]
async fn a_full_transaction_takes_another_attempt_of_its_step() {
    let mut world = begun_world().await;
    world.client.cx.logical = Some("call".into());
    world.step("lose", 1, "").await.unwrap_err();
    world.client.cx.logical = None;
    let text = "x".repeat(60_000);
    let given = format!(r#","compensation":{{"tool":"unmake","description":"{text}"}}"#);
    while world.step("other", 1, &given).await.is_ok() {}
    world.client.cx.logical = Some("call".into());
    let attempt = RetryAttempt::new(1, ErrorCode::UPSTREAM_UNAVAILABLE, Duration::ZERO);
    world.client.cx.extensions.insert(attempt);
    let lost = world.step("lose", 1, "").await.unwrap_err();
    assert!(is_connection_lost(&lost), "{lost}");
}

#[tokio::test]
async fn the_size_of_a_transaction_is_bounded() {
    let mut world = begun_world().await;
    let unknown = world.step(&"x".repeat(300), 1, "").await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::TOOL_NOT_FOUND);
    let given = |size| {
        let text = "x".repeat(size);
        format!(r#","compensation":{{"tool":"unmake","description":"{text}"}}"#)
    };
    let refused = world.step("other", 1, &given(70_000)).await.unwrap_err();
    assert!(refused.message().contains("a compensation may have"), "{refused}");
    let mut steps = 0;
    let full = loop {
        match world.step("other", 1, &given(60_000)).await {
            Ok(_) => steps += 1,
            Err(full) => break full,
        }
    };
    assert!(full.message().contains("more than 1048576 bytes"), "{full}");
    assert!(steps < 20, "{steps}");
    assert_eq!(world.commit().await.unwrap().status, TransactionStatus::Committed);
    let kept = world.transactions.list("local", true);
    assert!(kept[0].steps.iter().all(|step| step.compensation.is_none()), "{kept:?}");
}

#[tokio::test]
async fn steps_are_undone_although_their_caller_has_as_many_keys_as_it_may() {
    let limits = IdempotencyLimits { caller_keys: 1, ..IdempotencyLimits::default() };
    let keys = Idempotency::with_limits(Arc::new(MemoryStore::new()), limits).await.unwrap();
    let tool =
        Stack::from_fn(|_| async { Ok(Reply::raw(Payload::from_trusted(r#"{"content":[]}"#))) });
    let once = Stack::new(IdempotencyLayer::new(keys.clone()).layer(tool));
    let mut caller = client_of(once.clone());
    let keyed = |key| format!(r#"{{"name":"pay","_meta":{{"idempotency_key":"{key}"}}}}"#);
    caller.request("tools/call", &keyed("own")).await.unwrap();
    let refused = caller.request("tools/call", &keyed("second")).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::RESOURCE_EXHAUSTED);

    let tools = Tools { server: Some(once), ..Tools::default() };
    let mut world = world_of(Arc::default(), tools).await;
    world.begin().await;
    for n in 0..3 {
        world.step("make", n, "").await.unwrap();
    }
    assert_eq!(world.roll_back().await.status, TransactionStatus::RolledBack);
    assert_eq!(keys.callers().len(), 1, "the keys of the ended compensations are removed");
}
