//! Transactions over the tools of one server of the SDK (proposal 5), whose caller is connected to it directly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, EraChoice, Error, ToolResult as _};
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{Idempotency, Transactions};
use mgp_types::mcp::CallToolResult;
use mgp_types::method::{ToolsCall, TransactionBegin, TransactionCommit, TransactionRollback};
use mgp_types::mgp::Extension;
use mgp_types::proposal::{
    BeginTransactionParams, Compensation, EndTransactionParams, EndTransactionResult, StepId,
    TransactionId, TransactionStatus,
};
use mgp_types::service::{Call, Stack, around};
use mgp_types::store::{MemoryStore, Store};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RawObject};
use serde_json::json;

use crate::core_service::world::serve;

const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

#[derive(Deserialize, JsonSchema)]
struct Ticket {
    name: String,
}

/// The tickets of a server and what it stores; both outlast the server.
#[derive(Default)]
struct Desk {
    tickets: Arc<Mutex<Vec<String>>>,
    store: Arc<MemoryStore>,
    /// The number of tool calls that reached the author's layer.
    calls: Arc<AtomicUsize>,
}

impl Desk {
    async fn server(&self) -> Server {
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
        let store: Arc<dyn Store> = Arc::<MemoryStore>::clone(&self.store);
        Server::new("desk", "1.0")
            .tool(open)
            .tool(delete)
            .tool(purge.permissions(["com.example.purge"]))
            .extension(Transactions::open(Arc::clone(&store)).await.unwrap())
            .extension(Idempotency::open(store).await.unwrap())
            .layer(counted)
    }

    async fn client(&self, era: EraChoice) -> Client {
        let end = serve(self.server().await);
        let builder = Client::builder("test", "1").era(era).extension(Extension::Transactions);
        builder.connect(end.reader, end.writer).await.unwrap()
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
        let desk = Desk::default();
        let client = desk.client(era).await;
        begin(&client, "tx").await;
        let first = open(&client, "tx", "a").await.unwrap();
        assert_eq!(first.member::<StepId>().unwrap().unwrap().0, "step-1");
        open(&client, "tx", "b").await.unwrap();
        client.call("open").args(json!({ "name": "kept" })).await.unwrap();
        let result = roll_back(&client, "tx").await;
        assert_eq!(result.status, TransactionStatus::RolledBack, "{era:?} {result:?}");
        let order: Vec<_> = result.steps_compensated.iter().map(|step| &*step.step_id).collect();
        assert_eq!(order, ["step-2", "step-1"]);
        assert_eq!(desk.tickets(), ["kept"]);
        assert_eq!(desk.calls.load(Ordering::Relaxed), 5, "three calls and two that undo them");
        open(&client, "tx", "late").await.unwrap_err();
        assert_eq!(desk.tickets(), ["kept"]);
    }
}

#[tokio::test]
async fn a_transaction_outlasts_its_server_and_a_committed_one_is_kept() {
    let desk = Desk::default();
    let before = desk.client(EraChoice::Modern).await;
    for id in ["kept", "undone"] {
        begin(&before, id).await;
        open(&before, id, id).await.unwrap();
    }
    let kept = EndTransactionParams::new("kept");
    before.request::<TransactionCommit>(&kept).await.unwrap();
    before.close().await;
    let after = desk.client(EraChoice::Modern).await;
    assert_eq!(roll_back(&after, "undone").await.status, TransactionStatus::RolledBack);
    after.request::<TransactionRollback>(&kept).await.unwrap_err();
    assert_eq!(desk.tickets(), ["kept"]);
}

#[tokio::test]
async fn a_compensation_with_an_unknown_tool_or_one_that_needs_a_permission_is_refused() {
    let desk = Desk::default();
    let client = desk.client(EraChoice::Modern).await;
    begin(&client, "tx").await;
    for (tool, code) in
        [("purge", ErrorCode::PERMISSION_DENIED), ("nothing", ErrorCode::TOOL_NOT_FOUND)]
    {
        let call = client.call("open").args(json!({ "name": "a" }));
        let call = call.with(&TransactionId("tx".to_owned())).with(&Compensation::new(tool));
        let error = call.await.unwrap_err();
        assert_eq!(error.code(), code, "{tool}: {error}");
    }
    assert_eq!(desk.tickets(), [""; 0]);
}

#[tokio::test]
async fn transactions_without_idempotency_keys_are_an_error_of_the_server() {
    let transactions = Transactions::open(Arc::new(MemoryStore::new())).await.unwrap();
    let error = Server::new("desk", "1.0").extension(transactions).into_stack().unwrap_err();
    assert!(error.message().contains("`.extension(Idempotency::open(…))`"), "{error}");
}
