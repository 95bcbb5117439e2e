//! Tests of transactions over the tools of one server of the SDK (extension `transactions`), whose caller is connected
//! to it directly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::{Client, ClientBuilder, EraChoice, Error, TestClient, ToolResult as _};
use mgp_security::Governance;
use mgp_server_sdk::auth::{ApiKeys, AuthLayer, KeyGrant, NewKey};
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{Idempotency, Transactions};
use mgp_testkit::{FaultyStore, store_busy, until};
use mgp_transport::duplex;
use mgp_types::mcp::{CallToolResult, ToolAnnotations, ToolIdempotency};
use mgp_types::method::{ToolsCall, TransactionBegin, TransactionCommit, TransactionRollback};
use mgp_types::mgp::{AccessGrantParams, Extension, ShutdownReason};
use mgp_types::proposal::{
    BeginTransactionParams, Compensation, EndTransactionParams, EndTransactionResult,
    IdempotencyKey, StepId, TransactionId, TransactionStatus,
};
use mgp_types::service::{Call, Principal, Stack, around};
use mgp_types::store::{MemoryStore, Store};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RawObject};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

#[derive(Deserialize, JsonSchema)]
struct Ticket {
    name: String,
}

/// The tickets of a server and what it stores; both outlast the server.
struct Desk {
    tickets: Arc<Mutex<Vec<String>>>,
    /// A store that is busy at the next change of a transaction after `set_failing(true)`.
    store: FaultyStore,
    transactions: Transactions,
    keys: Idempotency,
    /// The number of tool calls that reached the author's layer.
    calls: Arc<AtomicUsize>,
    /// The permits for two calls that wait: a call that opens a ticket named `slow`, and a call that deletes a ticket
    /// named `held`.
    gate: Arc<Semaphore>,
}

impl Desk {
    async fn new() -> Self {
        let store = FaultyStore::default().on_commit(|store, change| {
            if store.is_failing() && change.writes_to("transactions").next().is_some() {
                store.set_failing(false);
                return store_busy("another process uses it");
            }
            store.inner().commit(change)
        });
        let transactions = Transactions::open(Arc::new(store.clone())).await.unwrap();
        let keys = Idempotency::open(Arc::new(store.clone())).await.unwrap();
        let (tickets, calls, gate) = (Arc::default(), Arc::default(), Arc::new(Semaphore::new(0)));
        Self { tickets, store, transactions, keys, calls, gate }
    }

    /// Returns the desk as a new process would find it after the end of this process.
    async fn restarted(self) -> Self {
        let store: Arc<dyn Store> = Arc::new(self.store.clone());
        let transactions = Transactions::open(Arc::clone(&store)).await.unwrap();
        Self { transactions, keys: Idempotency::open(store).await.unwrap(), ..self }
    }

    fn server(&self) -> Server {
        let (opened, deleted) = (Arc::clone(&self.tickets), Arc::clone(&self.tickets));
        let (opens, deletes) = (Arc::clone(&self.gate), Arc::clone(&self.gate));
        let open = Tool::new("open", "Opens a ticket", move |ticket: Args<Ticket>, cx: Context| {
            let (name, gate) = (ticket.0.name, Arc::clone(&opens));
            opened.lock().push(name.clone());
            async move {
                if name == "slow" {
                    gate.acquire().await.unwrap().forget();
                }
                let mut undo = Compensation::new("delete");
                undo.arguments = Some(RawObject::of(&json!({ "name": name }))?);
                cx.add_to_result(&undo)?;
                Ok::<_, RpcError>("opened")
            }
        });
        let delete = Tool::new("delete", "Deletes a ticket", move |ticket: Args<Ticket>| {
            let (name, gate, tickets) = (ticket.0.name, Arc::clone(&deletes), Arc::clone(&deleted));
            async move {
                if name == "held" {
                    gate.acquire().await.unwrap().forget();
                }
                let mut tickets = tickets.lock();
                let place = tickets.iter().rposition(|ticket| *ticket == name);
                let removed = place.map(|place| tickets.remove(place));
                removed.ok_or_else(|| RpcError::invalid_params("no such ticket"))
            }
        });
        let purge = Tool::new("purge", "Deletes all tickets", || async { "purged" });
        let calls = Arc::clone(&self.calls);
        let counted = around(move |call: Call, next: Stack| {
            calls.fetch_add(usize::from(call.is::<ToolsCall>()), Ordering::Relaxed);
            next.send(call)
        });
        Server::new("desk", "1.0")
            .tool(open)
            .tool(delete)
            .tool(purge.permissions(["com.example.purge"]))
            .extension(self.transactions.clone())
            .extension(self.keys.clone())
            .layer(counted)
    }

    async fn client(&self, era: EraChoice) -> Client {
        self.serve(era, self.server()).await.0
    }

    /// Serves one client; the task ends with the server.
    async fn serve(&self, era: EraChoice, server: Server) -> (Client, JoinHandle<()>) {
        let (here, there) = duplex();
        let serving = tokio::spawn(async move {
            server.serve(there.reader, there.writer).await.unwrap();
        });
        (builder(era).connect(here.reader, here.writer).await.unwrap(), serving)
    }

    fn tickets(&self) -> Vec<String> {
        self.tickets.lock().clone()
    }
}

fn builder(era: EraChoice) -> ClientBuilder {
    let builder = Client::builder("test", "1").era(era).extension(Extension::Transactions);
    builder.extension(Extension::Idempotency)
}

async fn begin(client: &Client, id: &str) {
    let mut params = BeginTransactionParams::new();
    params.transaction_id = Some(id.to_owned());
    client.request::<TransactionBegin>(&params).await.unwrap();
}

async fn open(client: &Client, id: &str, name: &str) -> Result<CallToolResult, Error> {
    let call = client.call("open").args(json!({ "name": name }));
    call.with(&TransactionId(id.to_owned())).await
}

async fn roll_back(client: &Client, id: &str) -> EndTransactionResult {
    client.request::<TransactionRollback>(&EndTransactionParams::new(id)).await.unwrap()
}

#[tokio::test]
async fn a_server_undoes_the_steps_of_a_caller_in_reverse_order_through_its_layers() {
    for era in ERAS {
        let desk = Desk::new().await;
        let client = desk.client(era).await;
        begin(&client, "tx").await;
        let first = open(&client, "tx", "a").await.unwrap();
        assert_eq!(first.member::<StepId>().unwrap().unwrap().0, "step-1");
        let second = client.call("open").args(json!({ "name": "b" }));
        let second = second.with(&TransactionId("tx".to_owned()));
        second.with(&IdempotencyKey("b".to_owned())).await.unwrap();
        client.call("open").args(json!({ "name": "kept" })).await.unwrap();
        let result = roll_back(&client, "tx").await;
        assert_eq!(result.status, TransactionStatus::RolledBack, "{era:?} {result:?}");
        let order: Vec<_> = result.steps_compensated.iter().map(|step| &*step.step_id).collect();
        assert_eq!(order, ["b", "step-1"]);
        assert_eq!(desk.tickets(), ["kept"]);
        assert_eq!(desk.calls.load(Ordering::Relaxed), 5, "three calls and two that undo them");
        open(&client, "tx", "late").await.unwrap_err();
        assert_eq!(desk.tickets(), ["kept"]);
    }
}

#[tokio::test]
async fn a_step_of_a_read_only_tool_is_undone_if_it_has_a_compensation() {
    let mut hints = ToolAnnotations::new();
    hints.read_only_hint = Some(true);
    for era in ERAS {
        let desk = Desk::new().await;
        let tickets = Arc::clone(&desk.tickets);
        let visit = Tool::new("visit", "Visits the desk", move |cx: Context| {
            tickets.lock().push("visitor".to_owned());
            async move {
                let mut undo = Compensation::new("delete");
                undo.arguments = Some(RawObject::of(&json!({ "name": "visitor" }))?);
                cx.add_to_result(&undo)?;
                Ok::<_, RpcError>("visited")
            }
        });
        let server = desk.server().tool(visit.annotations(hints.clone()));
        let (client, _) = desk.serve(era, server).await;
        begin(&client, "tx").await;
        client.call("visit").with(&TransactionId("tx".to_owned())).await.unwrap();
        let result = roll_back(&client, "tx").await;
        assert_eq!(result.steps_compensated.len(), 1, "{era:?} {result:?}");
        assert!(desk.tickets().is_empty(), "{era:?}");
    }
}

#[tokio::test]
async fn a_transaction_outlasts_its_server_and_a_committed_one_is_kept() {
    let desk = Desk::new().await;
    let before = desk.client(EraChoice::Modern).await;
    for id in ["kept", "undone"] {
        begin(&before, id).await;
        open(&before, id, id).await.unwrap();
    }
    let kept = EndTransactionParams::new("kept");
    before.request::<TransactionCommit>(&kept).await.unwrap();
    before.close().await;
    let desk = desk.restarted().await;
    let after = desk.client(EraChoice::Modern).await;
    assert_eq!(roll_back(&after, "undone").await.status, TransactionStatus::RolledBack);
    after.request::<TransactionRollback>(&kept).await.unwrap_err();
    assert_eq!(desk.tickets(), ["kept"]);
}

#[tokio::test]
async fn a_rollback_pauses_with_its_server_and_goes_on_with_the_next() {
    let desk = Desk::new().await;
    let (client, serving) = desk.serve(EraChoice::Modern, desk.server()).await;
    begin(&client, "tx").await;
    open(&client, "tx", "a").await.unwrap();
    client.close().await;
    serving.await.unwrap();
    let params = EndTransactionParams::new("tx");
    let paused = desk.transactions.roll_back(&Principal::local(), &params).await.unwrap_err();
    assert!(paused.message().contains("its next start continues the rollback"), "{paused}");
    assert_eq!(desk.tickets(), ["a"]);
    let first = desk.client(EraChoice::Modern).await;
    until("the rollback goes on", async || desk.tickets().is_empty()).await;
    // The end of a second connection must not end the transactions of the first connection.
    let (second, serving) = desk.serve(EraChoice::Modern, desk.server()).await;
    second.close().await;
    serving.await.unwrap();
    begin(&first, "later").await;
    open(&first, "later", "b").await.unwrap();
    assert_eq!(roll_back(&first, "later").await.status, TransactionStatus::RolledBack);
    assert_eq!(desk.tickets(), [""; 0]);
}

#[tokio::test]
async fn a_compensation_that_its_caller_may_not_call_is_refused_with_the_step() {
    let desk = Desk::new().await;
    let client = desk.client(EraChoice::Modern).await;
    begin(&client, "tx").await;
    let mut elsewhere = Compensation::new("delete");
    elsewhere.server_id = Some("crm".to_owned());
    for (undo, code) in [
        (Compensation::new("purge"), ErrorCode::PERMISSION_DENIED),
        (Compensation::new("nothing"), ErrorCode::TOOL_NOT_FOUND),
        (elsewhere, ErrorCode::INVALID_PARAMS),
    ] {
        let error = open_with(&client, &undo).await.unwrap_err();
        assert_eq!(error.code(), code, "{}: {error}", undo.tool);
    }
    let governance = Governance::builder().build();
    let ann = Principal::local().operator();
    let grant = AccessGrantParams::allow("local", "desk").tool("open");
    governance.access().grant(&ann, grant).await.unwrap();
    let server = desk.server().governed(&governance, "desk");
    let (client, _serving) = desk.serve(EraChoice::Modern, server).await;
    let error = open_with(&client, &Compensation::new("delete")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::TOOL_NOT_FOUND, "{error}");
    assert_eq!(desk.tickets(), [""; 0]);
}

async fn open_with(client: &Client, undo: &Compensation) -> Result<CallToolResult, Error> {
    let call = client.call("open").args(json!({ "name": "a" }));
    call.with(&TransactionId("tx".to_owned())).with(undo).await
}

#[tokio::test]
async fn transactions_without_stored_idempotency_keys_are_an_error_of_the_server() {
    let transactions = Transactions::open(Arc::new(MemoryStore::new())).await.unwrap();
    let server = || Server::new("desk", "1.0").extension(transactions.clone());
    for server in [server(), server().extension(Idempotency::in_memory())] {
        let error = server.into_stack().unwrap_err();
        assert!(error.message().contains("`.extension(Idempotency::open(…))`"), "{error}");
    }
}

#[tokio::test]
async fn a_step_that_outlasts_its_connection_is_undone() {
    for era in ERAS {
        let desk = Desk::new().await;
        let (client, serving) = desk.serve(era, desk.server()).await;
        begin(&client, "tx").await;
        let step = client.call("open").args(json!({ "name": "slow" }));
        let step = tokio::spawn(step.with(&TransactionId("tx".to_owned())).send());
        until("the step runs", async || desk.tickets() == ["slow"]).await;
        step.abort();
        client.close().await;
        serving.await.unwrap();
        let client = desk.client(era).await;
        let commit = client.request::<TransactionCommit>(&EndTransactionParams::new("tx")).await;
        let refused = commit.unwrap_err();
        assert!(refused.to_string().contains("has not ended"), "{era:?}: {refused}");
        desk.gate.add_permits(1);
        let result = roll_back(&client, "tx").await;
        assert_eq!(result.status, TransactionStatus::RolledBack, "{era:?} {result:?}");
        assert_eq!(desk.tickets(), [""; 0]);
    }
}

#[tokio::test]
async fn the_end_of_a_step_is_stored_although_the_store_was_busy() {
    let desk = Desk::new().await;
    let client = desk.client(EraChoice::Modern).await;
    begin(&client, "tx").await;
    let step = client.call("open").args(json!({ "name": "slow" }));
    let step = tokio::spawn(step.with(&TransactionId("tx".to_owned())).send());
    until("the step runs", async || desk.tickets() == ["slow"]).await;
    desk.store.set_failing(true);
    desk.gate.add_permits(1);
    step.await.unwrap().unwrap();
    assert!(!desk.store.is_failing(), "a change was refused");
    assert_eq!(roll_back(&client, "tx").await.status, TransactionStatus::RolledBack);
}

#[tokio::test]
async fn a_server_that_stops_waits_for_the_call_that_undoes_a_step() {
    let desk = Desk::new().await;
    let server = desk.server();
    let drain = server.drain_handle();
    let (client, serving) = desk.serve(EraChoice::Modern, server).await;
    begin(&client, "tx").await;
    for name in ["first", "held"] {
        open(&client, "tx", name).await.unwrap();
    }
    let transactions = desk.transactions.clone();
    let rollback = tokio::spawn(async move {
        transactions.roll_back(&Principal::local(), &EndTransactionParams::new("tx")).await
    });
    until("a step is being undone", async || desk.calls.load(Ordering::Relaxed) == 3).await;
    drain.begin(ShutdownReason::OperatorRequest, Duration::from_secs(30));
    timeout(Duration::from_millis(200), drain.wait_ended()).await.unwrap_err();
    desk.gate.add_permits(1);
    serving.await.unwrap();
    let paused = rollback.await.unwrap().unwrap_err();
    assert!(paused.message().contains("its next start continues the rollback"), "{paused}");
    assert_eq!(desk.tickets(), ["first"]);
    let desk = desk.restarted().await;
    let _client = desk.client(EraChoice::Modern).await;
    until("the rollback goes on", async || desk.tickets().is_empty()).await;
}

#[tokio::test]
async fn a_rollback_whose_last_step_a_stopping_server_undoes_is_answered() {
    let desk = Desk::new().await;
    let server = desk.server();
    let drain = server.drain_handle();
    let (client, serving) = desk.serve(EraChoice::Modern, server).await;
    begin(&client, "tx").await;
    open(&client, "tx", "held").await.unwrap();
    let rollback = tokio::spawn(async move { roll_back(&client, "tx").await });
    until("the step is being undone", async || desk.calls.load(Ordering::Relaxed) == 2).await;
    drain.begin(ShutdownReason::OperatorRequest, Duration::from_secs(30));
    // A change of another transaction must not end the wait for the rollback.
    let other = BeginTransactionParams::new();
    desk.transactions.begin(&Principal::local(), other).await.unwrap();
    desk.gate.add_permits(1);
    assert_eq!(rollback.await.unwrap().status, TransactionStatus::RolledBack);
    serving.await.unwrap();
}

#[tokio::test]
async fn a_call_of_unknown_outcome_runs_again_only_if_its_tool_is_idempotent() {
    for (effect, runs) in [(ToolIdempotency::Yes, 2), (ToolIdempotency::No, 1)] {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let set = Tool::new("set", "Sets a value", move || {
            let is_first = counter.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                if is_first {
                    std::future::pending::<()>().await;
                }
                "set"
            }
        });
        let set = set.idempotency(&effect).timeout(Duration::from_millis(500));
        let server = Server::new("values", "1.0").tool(set).extension(Idempotency::in_memory());
        let client = TestClient::with_builder(server, builder(EraChoice::Modern)).await;
        let call = || client.call("set").with(&IdempotencyKey("k".to_owned()));
        call().await.unwrap_err();
        assert_eq!(call().await.is_ok(), runs == 2, "{effect:?}");
        assert_eq!(count.load(Ordering::Relaxed), runs, "{effect:?}");
    }
}

#[tokio::test]
async fn a_replay_is_refused_if_its_caller_cannot_call_the_tool_any_more() {
    let list = Tool::new("list", "Lists tickets", || async { "none" });
    let server = Server::new("desk", "1.0").tool(list).extension(Idempotency::in_memory());
    let tools = server.tools();
    let client = TestClient::with_builder(server, builder(EraChoice::Modern)).await;
    let call = || client.call("list").with(&IdempotencyKey("k".to_owned()));
    for _ in 0..2 {
        call().await.unwrap();
    }
    assert!(tools.disable("list"));
    call().await.unwrap_err();
}

/// Connects over HTTP with an API key.
async fn with_key(era: EraChoice, url: &str, key: &NewKey) -> Client {
    builder(era).bearer(key.reveal()).connect_url(url).await.unwrap()
}

impl Desk {
    /// Serves callers with API keys; returns the URL.
    async fn serve_http(&self, keys: &ApiKeys) -> String {
        let auth = AuthLayer::new().keys(keys.clone());
        let bound = self.server().http("127.0.0.1:0").auth(auth).bind().await.unwrap();
        let url = format!("http://{}/mcp", bound.local_addr());
        tokio::spawn(bound.run());
        url
    }
}

#[tokio::test]
async fn the_holders_of_two_keys_neither_see_nor_end_the_transactions_of_each_other() {
    for era in ERAS {
        let (desk, keys) = (Desk::new().await, ApiKeys::new());
        let url = desk.serve_http(&keys).await;
        let ann = keys.issue(KeyGrant::new("acme", "ann")).await.unwrap();
        let bob = keys.issue(KeyGrant::new("acme", "bob")).await.unwrap();
        let (ann, bob) = (with_key(era, &url, &ann).await, with_key(era, &url, &bob).await);
        begin(&ann, "tx").await;
        open(&ann, "tx", "of ann").await.unwrap();
        let end = EndTransactionParams::new("tx");
        for refused in [
            open(&bob, "tx", "of bob").await.unwrap_err(),
            bob.request::<TransactionCommit>(&end).await.unwrap_err(),
            bob.request::<TransactionRollback>(&end).await.unwrap_err(),
        ] {
            assert!(refused.to_string().contains("begin it first"), "{era:?}: {refused}");
        }
        // Bob begins a transaction with the same id. It must be a separate transaction, whose end does not affect
        // Ann's.
        begin(&bob, "tx").await;
        open(&bob, "tx", "of bob").await.unwrap();
        assert_eq!(roll_back(&bob, "tx").await.status, TransactionStatus::RolledBack);
        assert_eq!(desk.tickets(), ["of ann"], "{era:?}");
        assert_eq!(roll_back(&ann, "tx").await.status, TransactionStatus::RolledBack);
        assert_eq!(desk.tickets(), [""; 0], "{era:?}");
    }
}

#[tokio::test]
async fn a_rollback_for_a_key_that_is_not_valid_waits_for_a_person() {
    let (desk, keys) = (Desk::new().await, ApiKeys::new());
    let url = desk.serve_http(&keys).await;
    let key = keys.issue(KeyGrant::new("acme", "ann")).await.unwrap();
    let client = with_key(EraChoice::Modern, &url, &key).await;
    for id in ["revoked", "unknown", "valid"] {
        begin(&client, id).await;
        open(&client, id, id).await.unwrap();
    }
    let ann = Principal::new("acme", "ann");
    let undo = async |desk: &Desk, id: &str| {
        desk.transactions.roll_back(&ann, &EndTransactionParams::new(id)).await.unwrap()
    };
    // The restarted process has never received the key, so it cannot check the key without `live_keys`.
    let desk = desk.restarted().await;
    desk.serve_http(&keys).await;
    let result = undo(&desk, "unknown").await;
    assert_eq!(result.status, TransactionStatus::PartiallyRolledBack);
    let reason = result.steps_compensated[0].error.as_deref().unwrap();
    assert!(reason.contains("cannot be checked"), "{reason}");
    let checked = keys.clone();
    let _with_keys = desk.transactions.clone().live_keys(move |id| {
        let keys = checked.clone();
        Box::pin(async move { keys.is_valid(&id).await })
    });
    assert_eq!(undo(&desk, "valid").await.status, TransactionStatus::RolledBack);
    keys.revoke(key.id()).await.unwrap();
    let result = undo(&desk, "revoked").await;
    assert_eq!(result.status, TransactionStatus::PartiallyRolledBack);
    assert_eq!(desk.tickets(), ["revoked", "unknown"]);
    for id in ["revoked", "unknown"] {
        let settled = desk.transactions.retry("acme", id, None).await.unwrap();
        assert_eq!(settled.status, TransactionStatus::RolledBack, "{settled:?}");
    }
    assert_eq!(desk.tickets(), [""; 0]);
}
