//! Transactions over the tools of one server of the SDK (proposal 5), whose caller is connected to it directly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, EraChoice, Error, ToolResult as _};
use mgp_security::Governance;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{Idempotency, Transactions};
use mgp_testkit::until;
use mgp_transport::duplex;
use mgp_types::mcp::CallToolResult;
use mgp_types::method::{ToolsCall, TransactionBegin, TransactionCommit, TransactionRollback};
use mgp_types::mgp::AccessGrantParams;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{
    BeginTransactionParams, Compensation, EndTransactionParams, EndTransactionResult,
    IdempotencyKey, StepId, TransactionId, TransactionStatus,
};
use mgp_types::service::{Call, Principal, Stack, around};
use mgp_types::store::{MemoryStore, Store};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RawObject};
use serde_json::json;
use tokio::task::JoinHandle;

const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

#[derive(Deserialize, JsonSchema)]
struct Ticket {
    name: String,
}

/// The tickets of a server and what it stores; both outlast the server.
struct Desk {
    tickets: Arc<Mutex<Vec<String>>>,
    store: Arc<MemoryStore>,
    transactions: Transactions,
    keys: Idempotency,
    /// The number of tool calls that reached the author's layer.
    calls: Arc<AtomicUsize>,
}

impl Desk {
    async fn new() -> Self {
        let store = Arc::new(MemoryStore::new());
        let transactions = Transactions::open(Arc::<MemoryStore>::clone(&store)).await.unwrap();
        let keys = Idempotency::open(Arc::<MemoryStore>::clone(&store)).await.unwrap();
        let (tickets, calls) = Default::default();
        Self { tickets, store, transactions, keys, calls }
    }

    /// Returns the desk as a process finds it that starts after the end of this one.
    async fn restarted(self) -> Self {
        let store: Arc<dyn Store> = Arc::<MemoryStore>::clone(&self.store);
        let transactions = Transactions::open(Arc::clone(&store)).await.unwrap();
        Self { transactions, keys: Idempotency::open(store).await.unwrap(), ..self }
    }

    fn server(&self) -> Server {
        let (opened, deleted) = (Arc::clone(&self.tickets), Arc::clone(&self.tickets));
        let open = Tool::new("open", "Opens a ticket", move |ticket: Args<Ticket>, cx: Context| {
            let name = ticket.0.name;
            opened.lock().push(name.clone());
            async move {
                let mut undo = Compensation::new("delete");
                undo.arguments = Some(RawObject::of(&json!({ "name": name }))?);
                cx.add_to_result(&undo)?;
                Ok::<_, RpcError>("opened")
            }
        });
        let delete = Tool::new("delete", "Deletes a ticket", move |ticket: Args<Ticket>| {
            let mut tickets = deleted.lock();
            let place = tickets.iter().rposition(|name| *name == ticket.0.name);
            let removed = place.map(|place| tickets.remove(place));
            async move { removed.ok_or_else(|| RpcError::invalid_params("no such ticket")) }
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
        let builder = Client::builder("test", "1").era(era).extension(Extension::Transactions);
        let builder = builder.extension(Extension::Idempotency);
        (builder.connect(here.reader, here.writer).await.unwrap(), serving)
    }

    fn tickets(&self) -> Vec<String> {
        self.tickets.lock().clone()
    }
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
    // The end of a second connection does not end the transactions of the first one.
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
async fn transactions_without_idempotency_keys_are_an_error_of_the_server() {
    let transactions = Transactions::open(Arc::new(MemoryStore::new())).await.unwrap();
    let error = Server::new("desk", "1.0").extension(transactions).into_stack().unwrap_err();
    assert!(error.message().contains("`.extension(Idempotency::open(…))`"), "{error}");
}
