//! Tests of transactions: steps, rollbacks, and the state after a kill.

mod interruptions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use mgp_types::mcp::Tool;
use mgp_types::mgp::{ExtensionSet, RiskLevel};
use mgp_types::proposal::{
    BeginTransactionParams, EndTransactionParams, IdempotencyHeader, IdempotencyKey, StepStatus,
    TransactionRecord, TransactionStatus,
};
use mgp_types::service::{
    BoxFuture, Call, Context, PeerInfo, Principal, Reply, ServerId, Stack, connection_lost, mock,
};
use mgp_types::store::{Change, LoadedRecords, MemoryStore, PendingEvent, Store, StoreError};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Payload, RawObject, RpcError};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tower_layer::Layer as _;

use super::saga::now_ms;
use super::{CompensationCall, TransactionLayer, TransactionTools, Transactions};
use crate::{
    Idempotency, IdempotencyLayer, ProposalLayer, RepeatPolicy, RetryConfig, RetryLayer,
    ToolRetryInfo,
};

/// A server's tools, which record the compensations that are called. Compensations named `broken_…` fail.
#[derive(Default)]
struct Tools {
    undone: Mutex<Vec<String>>,
    keys: Mutex<Vec<String>>,
    reported: Mutex<Vec<String>>,
    /// The errors that the next compensations return; these compensations do not run.
    refusals: Mutex<Vec<RpcError>>,
    /// `true` if compensations never complete.
    hangs: bool,
    /// The server that gets the compensations instead, if any.
    server: Option<Stack>,
    has_ended: AtomicBool,
}

impl TransactionTools for Tools {
    fn check(&self, _: &Context, _: &ServerId, tool: &str) -> Result<(), RpcError> {
        match tool {
            "secret" => Err(RpcError::new(ErrorCode::ACCESS_DENIED, "no access")),
            _ => Ok(()),
        }
    }

    fn only_reads(&self, _: &ServerId, tool: &str) -> bool {
        tool == "read"
    }

    fn compensate(&self, call: CompensationCall) -> BoxFuture<'static, Result<Reply, RpcError>> {
        if self.hangs {
            return Box::pin(std::future::pending());
        }
        if let Some(server) = &self.server {
            return server.send(call.into_call().unwrap().0);
        }
        if let Some(refusal) = self.refusals.lock().pop() {
            return Box::pin(std::future::ready(Err(refusal)));
        }
        let mut cx = mock::client(Stack::from_fn(|_| async { Ok(Reply::empty()) })).cx;
        cx.extensions.insert(call.members);
        let key = cx.member::<IdempotencyKey>().unwrap().unwrap();
        self.keys.lock().push(key.0);
        let entry =
            format!("{} {} {}", call.server, call.tool, call.arguments.as_payload().as_str());
        let is_broken = call.tool.starts_with("broken");
        self.undone.lock().push(entry);
        let result =
            format!(r#"{{"content":[{{"type":"text","text":"no"}}],"isError":{is_broken}}}"#);
        Box::pin(async { Ok(Reply::raw(Payload::from_trusted(result))) })
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    fn report(&self, _: &str, transaction: &TransactionRecord) {
        self.reported.lock().push(transaction.transaction_id.clone());
    }
}

struct World {
    store: Arc<MemoryStore>,
    transactions: Transactions,
    tools: Arc<Tools>,
    client: mock::Client,
    gate: Arc<Semaphore>,
}

/// Runs a tool of a server: `make` declares a compensation, `fail` fails, `lose` loses its connection, `slow` waits for
/// the gate, `fail_odd` fails with the argument 1, `become_task` answers with a task.
async fn run(call: Call, gate: Arc<Semaphore>) -> Result<Reply, RpcError> {
    let name = call.tool().unwrap().name.to_owned();
    let arguments = call.tool_arguments();
    let declared = |tool: &str| {
        let arguments = arguments.as_str();
        format!(
            r#"{{"content":[],"_meta":{{"compensation":{{"tool":"{tool}","parameters":{arguments}}}}}}}"#
        )
    };
    let result = match &*name {
        "make" => declared("unmake"),
        "make_badly" => declared("broken_unmake"),
        "make_secretly" => declared("secret"),
        "fail" => r#"{"content":[],"isError":true}"#.to_owned(),
        "lose" => return Err(connection_lost("it died")),
        "fail_odd" if arguments.as_str().contains('1') => {
            r#"{"content":[],"isError":true}"#.to_owned()
        }
        "become_task" => {
            let Reply::Complete(task) = Reply::empty() else {
                panic!("an empty result is complete")
            };
            return Ok(Reply::Task(task));
        }
        "slow" => {
            gate.acquire().await.unwrap().forget();
            declared("unmake")
        }
        _ => r#"{"content":[]}"#.to_owned(),
    };
    Ok(Reply::raw(Payload::from_trusted(result)))
}

async fn world_of(store: Arc<MemoryStore>, tools: Tools) -> World {
    let transactions = Transactions::open(store.clone()).await.unwrap();
    let tools = Arc::new(tools);
    transactions.start(tools.clone());
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let tool = Stack::from_fn(move |call| run(call, Arc::clone(&held)));
    let client = client(&transactions, tool);
    World { store, transactions, tools, client, gate }
}

fn client(transactions: &Transactions, server: Stack) -> mock::Client {
    client_of(Stack::new(TransactionLayer::new(transactions.clone()).layer(server)))
}

fn client_of(steps: Stack) -> mock::Client {
    let mut client = mock::client(Stack::new(ProposalLayer::new().layer(steps)));
    let mut caller = PeerInfo::default();
    caller.mgp = Some(ExtensionSet::PROPOSALS);
    client.cx.caller = caller.into();
    client.cx.server = Some("tickets".into());
    client
}

/// Returns a test world (server, store and transactions) whose server runs a call with an idempotency key only once.
async fn keyed_world() -> World {
    let mut world = world().await;
    let held = Arc::clone(&world.gate);
    let tool = Stack::from_fn(move |call| run(call, Arc::clone(&held)));
    let once = IdempotencyLayer::new(Idempotency::in_memory()).layer(tool);
    world.client = client(&world.transactions, Stack::new(once));
    world
}

async fn world() -> World {
    world_of(Arc::default(), Tools::default()).await
}

/// Creates a world in which the transaction `tx` has begun.
async fn begun_world() -> World {
    let world = world().await;
    world.begin().await;
    world
}

fn params(tool: &str, n: u32, meta: &str) -> String {
    format!(
        r#"{{"name":"{tool}","arguments":{{"n":{n}}},"_meta":{{"transaction_id":"tx"{meta}}}}}"#
    )
}

impl World {
    async fn begin(&self) {
        let mut begin = BeginTransactionParams::new();
        begin.transaction_id = Some("tx".to_owned());
        self.transactions.begin(&Principal::local(), begin).await.unwrap();
    }

    async fn step(&mut self, tool: &str, n: u32, meta: &str) -> Result<Payload, RpcError> {
        self.client.request("tools/call", &params(tool, n, meta)).await
    }

    async fn roll_back(&self) -> mgp_types::proposal::EndTransactionResult {
        let end = EndTransactionParams::new("tx");
        self.transactions.roll_back(&Principal::local(), &end).await.unwrap()
    }

    async fn commit(&self) -> Result<mgp_types::proposal::EndTransactionResult, RpcError> {
        self.transactions.commit(&Principal::local(), &EndTransactionParams::new("tx")).await
    }

    fn undone(&self) -> Vec<String> {
        self.tools.undone.lock().clone()
    }
}

#[tokio::test]
async fn steps_are_undone_in_reverse_order() {
    let mut world = begun_world().await;
    for n in 1..=2 {
        let result = world.step("make", n, "").await.unwrap();
        assert!(result.as_str().contains(&format!(r#""step_id":"step-{n}""#)), "{result:?}");
    }
    world.step("read", 1, "").await.unwrap();
    world.step("fail", 3, "").await.unwrap();
    let result = world.roll_back().await;
    assert_eq!(result.status, TransactionStatus::RolledBack);
    let steps: Vec<_> = result.steps_compensated.iter().map(|step| step.step_id.as_str()).collect();
    assert_eq!(steps, ["step-2", "step-1"]);
    assert_eq!(world.undone(), [r#"tickets unmake {"n":2}"#, r#"tickets unmake {"n":1}"#]);
    // Each compensation has its own key, and repeating the rollback has no effect.
    let keys = world.tools.keys.lock().clone();
    assert!(
        keys[0] != keys[1] && keys.iter().all(|key| key.starts_with("compensate-")),
        "{keys:?}"
    );
    assert_eq!(world.roll_back().await, result);
    assert_eq!(world.undone().len(), 2);
    assert!(world.commit().await.unwrap_err().message().contains("rolled back"));
}

#[tokio::test]
async fn a_step_without_an_id_gets_one_that_its_caller_has_not_used() {
    let mut world = begun_world().await;
    world.step("make", 1, r#","step_id":"step-2""#).await.unwrap();
    let result = world.step("make", 2, "").await.unwrap();
    assert!(result.as_str().contains(r#""step_id":"step-3""#), "{result:?}");
}

/// A store in memory that answers a change only after a while.
#[derive(Default)]
struct SlowStore {
    inner: MemoryStore,
    /// `true` if changes are refused.
    is_closed: AtomicBool,
}

impl Store for SlowStore {
    fn load(&self, space: &'static str) -> BoxFuture<'static, Result<LoadedRecords, StoreError>> {
        self.inner.load(space)
    }

    fn changes(
        &self,
        space: &'static str,
        since: u64,
    ) -> BoxFuture<'static, Result<LoadedRecords, StoreError>> {
        self.inner.changes(space, since)
    }

    fn commit(&self, change: Change) -> BoxFuture<'static, Result<u64, StoreError>> {
        let is_closed = self.is_closed.load(Ordering::Relaxed);
        let committed = self.inner.commit(change);
        Box::pin(async move {
            sleep(Duration::from_millis(100)).await;
            if is_closed { Err(StoreError::Closed) } else { committed.await }
        })
    }

    fn revision(&self) -> watch::Receiver<u64> {
        self.inner.revision()
    }

    fn pending_events(
        &self,
        log: &str,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<PendingEvent>, StoreError>> {
        self.inner.pending_events(log, limit)
    }

    fn acknowledge(&self, log: &str, through: u64) -> BoxFuture<'static, Result<(), StoreError>> {
        self.inner.acknowledge(log, through)
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_runs_although_its_caller_leaves_before_its_beginning_is_stored() {
    let store = Arc::new(SlowStore::default());
    let transactions = Transactions::open(store).await.unwrap();
    transactions.start(Arc::new(Tools::default()));
    let mut begin = BeginTransactionParams::new();
    begin.transaction_id = Some("tx".to_owned());
    let (caller, end) = (Principal::local(), EndTransactionParams::new("tx"));
    transactions.begin(&caller, begin).await.unwrap();
    let left = timeout(Duration::from_millis(10), transactions.roll_back(&caller, &end)).await;
    left.unwrap_err();
    let ended = timeout(Duration::from_secs(10), transactions.roll_back(&caller, &end)).await;
    assert_eq!(ended.unwrap().unwrap().status, TransactionStatus::RolledBack);
}

#[tokio::test]
async fn a_forgotten_transaction_and_a_later_one_with_its_id_have_different_keys() {
    let mut keys = Vec::new();
    for _ in 0..2 {
        let before = now_ms();
        while now_ms() == before {}
        let mut world = begun_world().await;
        world.step("make", 1, "").await.unwrap();
        world.roll_back().await;
        keys.extend(world.tools.keys.lock().clone());
    }
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn a_committed_transaction_stays() {
    let mut world = begun_world().await;
    world.step("make", 1, "").await.unwrap();
    assert_eq!(world.commit().await.unwrap().status, TransactionStatus::Committed);
    assert_eq!(world.commit().await.unwrap().status, TransactionStatus::Committed);
    let end = EndTransactionParams::new("tx");
    world.transactions.roll_back(&Principal::local(), &end).await.unwrap_err();
    assert!(world.step("make", 2, "").await.unwrap_err().message().contains("committed"));
    assert_eq!(world.undone(), [""; 0]);
}

#[tokio::test]
async fn what_is_not_undone_waits_for_a_person() {
    let mut world = begun_world().await;
    world.step("make", 1, "").await.unwrap();
    world.step("make_badly", 2, "").await.unwrap();
    world.step("other", 3, "").await.unwrap();
    let result = world.roll_back().await;
    assert_eq!(result.status, TransactionStatus::PartiallyRolledBack);
    let ended: Vec<_> = result.steps_compensated.iter().map(|step| &step.status).collect();
    let failed = &StepStatus::CompensationFailed;
    assert_eq!(ended, [failed, failed, &StepStatus::Compensated]);
    assert_eq!(*world.tools.reported.lock(), ["tx"]);
    let stuck = &world.transactions.list("local", false)[0];
    let errors: Vec<_> = stuck.steps.iter().map(|step| step.error.as_deref()).collect();
    assert_eq!(errors, [None, Some("its compensation failed: no"), Some("it has no compensation")]);
    // An operator repeats, with a new key, the steps that can be repeated, and settles the other steps.
    let again = world.transactions.retry("local", "tx", None).await.unwrap();
    assert_eq!(again.status, TransactionStatus::PartiallyRolledBack);
    assert_eq!(world.undone().len(), 3);
    let keys = world.tools.keys.lock().clone();
    assert!(keys[0].ends_with("-0") && keys[2].ends_with("-1"), "{keys:?}");
    world.transactions.resolve("other", "tx", None, None).await.unwrap_err();
    let note = Some("deleted by hand");
    let settled = world.transactions.resolve("local", "tx", None, note).await.unwrap();
    assert_eq!((settled.status, settled.note.as_deref()), (TransactionStatus::Resolved, note));
    assert!(world.transactions.list("local", false).is_empty());
    assert_eq!(world.transactions.list("local", true).len(), 1);
}

#[tokio::test]
async fn a_step_that_broke_off_is_named_and_not_undone_blindly() {
    let mut world = begun_world().await;
    let given = r#","compensation":{"tool":"unmake","arguments":{"x":1}}"#;
    world.step("lose", 1, given).await.unwrap_err();
    assert!(world.commit().await.unwrap_err().message().contains("has not ended"));
    assert_eq!(world.roll_back().await.status, TransactionStatus::PartiallyRolledBack);
    assert_eq!(world.undone(), [""; 0]);
}

#[tokio::test]
async fn a_step_that_became_a_task_has_not_ended() {
    let mut world = begun_world().await;
    let given = r#","compensation":{"tool":"unmake","arguments":{"x":1}}"#;
    world.client.call("tools/call", &params("become_task", 1, given)).await.unwrap();
    assert!(world.commit().await.unwrap_err().message().contains("has not ended"));
    assert_eq!(world.roll_back().await.status, TransactionStatus::PartiallyRolledBack);
}

#[tokio::test(start_paused = true)]
async fn the_attempts_of_a_call_are_one_step() {
    let mut known = ToolRetryInfo::of(&Tool::new("make", RawObject::empty()), RiskLevel::Moderate);
    known.repeat = RepeatPolicy::Always;
    let retries = RetryLayer::new(RetryConfig::default()).tools(move |_, _| Some(known.clone()));
    for meta in ["", r#","step_id":"a""#] {
        let mut world = begun_world().await;
        let attempts = AtomicU32::new(0);
        let tool = Stack::from_fn(move |call| {
            let is_first = attempts.fetch_add(1, Ordering::Relaxed) == 0;
            let reply = run(call, Arc::new(Semaphore::new(0)));
            async move { if is_first { Err(connection_lost("it died")) } else { reply.await } }
        });
        let steps = TransactionLayer::new(world.transactions.clone()).layer(tool);
        world.client = client_of(Stack::new(retries.layer(steps)));
        world.step("make", 1, meta).await.unwrap();
        assert_eq!(world.transactions.list("local", true)[0].steps.len(), 1, "{meta}");
        assert_eq!(world.commit().await.unwrap().status, TransactionStatus::Committed, "{meta}");
    }
}

#[tokio::test]
async fn a_failed_step_that_is_called_again_has_its_new_place_and_compensation() {
    let mut world = begun_world().await;
    let given = |x: u32| {
        format!(r#","step_id":"a","compensation":{{"tool":"unmake","arguments":{{"x":{x}}}}}"#)
    };
    world.step("fail_odd", 1, &given(1)).await.unwrap();
    world.step("make", 3, r#","step_id":"b""#).await.unwrap();
    world.step("fail_odd", 2, &given(2)).await.unwrap();
    assert_eq!(world.roll_back().await.status, TransactionStatus::RolledBack);
    assert_eq!(world.undone(), [r#"tickets unmake {"x":2}"#, r#"tickets unmake {"n":3}"#]);
}

#[tokio::test]
async fn a_caller_gives_the_compensation_of_a_server_that_declares_none() {
    let mut world = begun_world().await;
    let given = |tool: &str| {
        format!(r#","compensation":{{"tool":"{tool}","server_id":"wiki","arguments":{{"x":1}}}}"#)
    };
    let refused = world.step("other", 1, &given("secret")).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::ACCESS_DENIED);
    world.step("other", 1, &given("unlink")).await.unwrap();
    // A compensation that a server declares may name only a tool that the caller may call.
    world.step("make_secretly", 2, "").await.unwrap();
    assert_eq!(world.roll_back().await.status, TransactionStatus::PartiallyRolledBack);
    assert_eq!(world.undone(), [r#"wiki unlink {"x":1}"#]);
}

#[tokio::test]
async fn a_step_is_called_once_unless_its_key_says_that_it_is_the_same_call() {
    let mut world = world().await;
    assert_eq!(
        world.step("make", 1, "").await.unwrap_err().code(),
        ErrorCode::INVALID_PARAMS,
        "not begun"
    );
    world.begin().await;
    world.step("make", 1, r#","step_id":"a""#).await.unwrap();
    let again = world.step("make", 1, r#","step_id":"a""#).await.unwrap_err();
    assert!(again.message().contains("called before"), "{again}");
    for _ in 0..2 {
        world.step("make", 2, r#","idempotency_key":"k""#).await.unwrap();
    }
    world.roll_back().await;
    assert_eq!(world.undone().len(), 2);
}

#[tokio::test]
async fn a_repeated_call_whose_key_is_in_a_header_is_undone_once() {
    let mut world = keyed_world().await;
    world.begin().await;
    let header = IdempotencyHeader(IdempotencyKey("k".to_owned()));
    world.client.cx.extensions.insert(header);
    for _ in 0..2 {
        world.step("make", 1, "").await.unwrap();
    }
    assert_eq!(world.roll_back().await.status, TransactionStatus::RolledBack);
    assert_eq!(world.undone().len(), 1);
}

#[tokio::test]
async fn a_check_finds_a_step_that_cannot_begin_and_does_not_begin_it() {
    let mut world = world().await;
    let transactions = world.transactions.clone();
    let check = Stack::from_fn(move |call: Call| {
        std::future::ready(transactions.check(&call).map(|()| Reply::empty()))
    });
    let mut checks = mock::client(Stack::new(ProposalLayer::new().layer(check)));
    (checks.cx.caller, checks.cx.server) =
        (world.client.cx.caller.clone(), world.client.cx.server.clone());
    let mut check = async |meta: &str| checks.request("tools/call", &params("make", 1, meta)).await;
    assert!(check("").await.unwrap_err().message().contains("begin it first"));
    world.begin().await;
    for (meta, reason) in [
        (r#","step_id":"two words""#, "`step_id` must be"),
        (r#","compensation":{"tool":"secret"}"#, "no access"),
        (r#","compensation":7"#, "`_meta.compensation`"),
    ] {
        let refused = check(meta).await.unwrap_err();
        assert!(refused.message().contains(reason), "{refused}");
    }
    check(r#","step_id":"a""#).await.unwrap();
    check(r#","step_id":"a""#).await.unwrap();
    world.step("make", 1, r#","step_id":"a""#).await.unwrap();
    let refused = check(r#","step_id":"a""#).await.unwrap_err();
    assert!(refused.message().contains("called before"), "{refused}");
    world.commit().await.unwrap();
    assert!(check("").await.unwrap_err().message().contains("committed"));
}

#[tokio::test]
async fn a_step_that_is_refused_for_its_key_is_no_obstacle_to_a_commit() {
    let mut world = keyed_world().await;
    let before = r#"{"name":"make","arguments":{"n":1},"_meta":{"idempotency_key":"k"}}"#;
    world.client.request("tools/call", before).await.unwrap();
    world.begin().await;
    let refused = world.step("make", 2, r#","idempotency_key":"k""#).await.unwrap_err();
    assert!(refused.message().contains("other arguments"), "{refused}");
    assert_eq!(world.commit().await.unwrap().status, TransactionStatus::Committed);
}

#[tokio::test]
async fn the_key_of_a_step_is_refused_in_another_transaction() {
    let mut world = keyed_world().await;
    let step = params("make", 1, r#","idempotency_key":"k""#);
    for (id, is_first) in [("tx", true), ("other", false)] {
        let mut begin = BeginTransactionParams::new();
        begin.transaction_id = Some(id.to_owned());
        world.transactions.begin(&Principal::local(), begin).await.unwrap();
        let step = step.replace(r#""tx""#, &format!(r#""{id}""#));
        let answer = world.client.request("tools/call", &step).await;
        assert_eq!(answer.is_ok(), is_first, "{answer:?}");
        let end = EndTransactionParams::new(id);
        let ended = world.transactions.roll_back(&Principal::local(), &end).await.unwrap();
        assert_eq!(ended.status, TransactionStatus::RolledBack);
    }
    assert_eq!(world.undone().len(), 1);
}

#[tokio::test]
async fn a_malformed_key_of_a_step_is_refused_by_its_name() {
    let mut world = keyed_world().await;
    world.begin().await;
    let refused = world.step("make", 1, r#","idempotency_key":"order 7""#).await.unwrap_err();
    assert!(refused.message().contains("`idempotency_key` must be"), "{refused}");
    assert_eq!(world.commit().await.unwrap().status, TransactionStatus::Committed);
}

#[tokio::test]
async fn a_call_that_is_refused_for_its_key_does_not_end_the_step_that_runs_with_it() {
    let mut world = keyed_world().await;
    world.begin().await;
    let key = r#","idempotency_key":"k""#;
    let slow = tokio::spawn(world.client.call("tools/call", &params("slow", 1, key)));
    tokio::time::sleep(Duration::from_millis(20)).await;
    let refused = world.step("slow", 2, key).await.unwrap_err();
    assert!(refused.message().contains("other arguments"), "{refused}");
    assert!(world.commit().await.unwrap_err().message().contains("has not ended"));
    world.gate.add_permits(1);
    slow.await.unwrap().unwrap();
    assert_eq!(world.roll_back().await.status, TransactionStatus::RolledBack);
    assert_eq!(world.undone(), [r#"tickets unmake {"n":1}"#]);
}

#[tokio::test]
async fn a_transaction_belongs_to_its_caller() {
    let mut world = begun_world().await;
    let mut same = BeginTransactionParams::new();
    same.transaction_id = Some("tx".to_owned());
    world.transactions.begin(&Principal::local(), same.clone()).await.unwrap_err();
    let bob = Principal::local().agent("bob");
    let end = EndTransactionParams::new("tx");
    world.transactions.commit(&bob, &end).await.unwrap_err();
    world.client.cx.principal = bob.clone();
    world.step("make", 1, "").await.unwrap_err();
    world.transactions.begin(&bob, same).await.unwrap();
    world.step("make", 1, "").await.unwrap();
}

#[tokio::test]
async fn a_rollback_waits_for_a_step_that_runs() {
    let mut world = begun_world().await;
    let slow = tokio::spawn(world.client.call("tools/call", &params("slow", 1, "")));
    tokio::task::yield_now().await;
    let transactions = world.transactions.clone();
    let rollback = tokio::spawn(async move {
        transactions.roll_back(&Principal::local(), &EndTransactionParams::new("tx")).await
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!rollback.is_finished());
    // The caller disconnects; the step still ends, and is undone.
    slow.abort();
    world.gate.add_permits(1);
    let result = rollback.await.unwrap().unwrap();
    assert_eq!(result.status, TransactionStatus::RolledBack);
    assert_eq!(world.undone().len(), 1);
}

#[tokio::test]
async fn a_killed_rollback_goes_on_in_the_next_process() {
    let store: Arc<MemoryStore> = Arc::default();
    let mut world = world_of(store.clone(), Tools { hangs: true, ..Tools::default() }).await;
    world.begin().await;
    world.step("make", 1, "").await.unwrap();
    world.step("make", 2, "").await.unwrap();
    let first = world.transactions.clone();
    let hung = tokio::spawn(async move {
        first.roll_back(&Principal::local(), &EndTransactionParams::new("tx")).await
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let next = world_of(world.store.clone(), Tools::default()).await;
    assert_eq!(next.roll_back().await.status, TransactionStatus::RolledBack);
    assert_eq!(next.undone().len(), 2);
    hung.abort();
}
