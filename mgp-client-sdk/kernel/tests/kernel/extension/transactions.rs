//! Tests of transactions over the tools of several servers that do not support transactions themselves (extension
//! `transactions`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::{Client, Error, ToolResult};
use mgp_kernel::Kernel;
use mgp_lifecycle::{CompensationCall, TransactionTools, Transactions};
use mgp_server_sdk::prelude::*;
use mgp_testkit::{FaultyStore, temp_dir};
use mgp_types::mcp::{CallToolResult, ElicitParams, Era, TaskSupport};
use mgp_types::method::{
    KernelTransactions, KernelTransactionsResolve, KernelTransactionsRetry, TransactionBegin,
    TransactionCommit, TransactionRollback, TxBegin,
};
use mgp_types::mgp::{Extension, RiskLevel};
use mgp_types::proposal::{
    BeginTransactionParams, Compensation, EndTransactionParams, EndTransactionResult,
    ListTransactionsParams, SettleTransactionParams, StepId, StepStatus, TransactionId,
    TransactionRecord, TransactionStatus,
};
use mgp_types::service::{BoxFuture, Principal, Reply, ServerId};
use mgp_types::sync::Mutex;
use serde_json::json;

use crate::route::world::{
    PAIRS, build_with_tools, config_of, host, host_as, host_of, limit_era, open, recorded_calls,
    until, wait_for_tools,
};

/// The names of the things that the three servers of a test have made and have not removed since.
#[derive(Clone, Default)]
struct Things(Arc<Mutex<Vec<String>>>);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Thing {
    name: String,
}

impl Things {
    fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    /// Returns a server without MGP that has the tools `make_X` and `remove_X`. `remove_X` fails for a thing that does
    /// not exist. The tools `make_job` and `make_visit` run only as tasks, and `make_visit` asks its caller a question.
    fn server(&self, kind: &'static str, era: Era) -> Server {
        let is_task = kind == "job";
        let (made, removed) = (self.clone(), self.clone());
        let make = Tool::new(format!("make_{kind}"), "Makes a thing", move |thing: Args<Thing>| {
            let name = thing.0.name;
            let fails = name == "bad";
            if !fails {
                made.0.lock().push(format!("{kind} {name}"));
            }
            async move {
                if is_task {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                if fails { Err(ToolError("bad name".to_owned())) } else { Ok("made") }
            }
        });
        let make = match kind {
            "job" => make.task(TaskSupport::Required),
            "visit" => self.asking_tool(),
            _ => make,
        };
        let remove = Tool::new(
            format!("remove_{kind}"),
            "Removes it",
            move |thing: Args<Thing>| {
                let mut all = removed.0.lock();
                let before = all.len();
                all.retain(|one| *one != format!("{kind} {}", thing.0.name));
                let is_gone = all.len() < before;
                async move { if is_gone { Ok("removed") } else { Err(ToolError("unknown".to_owned())) } }
            },
        );
        limit_era(Server::new(kind, "1").tool(make).tool(remove), era)
    }

    /// Returns the tool `make_visit`, which makes its thing before it asks its caller.
    fn asking_tool(&self) -> Tool {
        let made = self.clone();
        let make = move |Args(thing): Args<Thing>, cx: Context| {
            let made = made.clone();
            async move {
                cx.begin_task().await?;
                made.0.lock().push(format!("visit {}", thing.name));
                cx.elicit::<Thing>("Who comes?").await?;
                Ok::<_, RpcError>("made")
            }
        };
        Tool::new("make_visit", "Makes a thing", make).task(TaskSupport::Required)
    }

    async fn kernel(&self, folder: &Path, era: Era) -> Kernel {
        self.kernel_of(&["ticket", "page", "post"], folder, era).await
    }

    async fn kernel_of(&self, kinds: &[&'static str], folder: &Path, era: Era) -> Kernel {
        let mut builder = Kernel::builder();
        for &kind in kinds {
            let things = self.clone();
            let (make, remove) = (format!("make_{kind}"), format!("remove_{kind}"));
            // The operator's `risk = safe` does not make a step one that only reads.
            let policy = open(&[&make, &remove]);
            builder = builder.local_with(kind, policy, move || things.server(kind, era));
        }
        let kernel = builder.in_folder(folder).await.unwrap();
        for kind in kinds {
            wait_for_tools(&kernel, kind, 2).await;
        }
        kernel
    }
}

async fn ada(kernel: &Kernel, era: Era) -> Client {
    host(kernel, "ada", host_of(era).extension(Extension::Transactions)).await
}

/// Connects a host that answers the questions of servers if `answers` is `true`; otherwise it fails to answer.
async fn ada_asked(kernel: &Kernel, era: Era, answers: bool) -> Client {
    let answer = move |question: ElicitParams| async move {
        if !answers {
            return Err(RpcError::internal("the window was closed"));
        }
        question.accept_with(&json!({ "name": "Ann" }))
    };
    let builder = host_of(era).extension(Extension::Transactions).on_elicitation(answer);
    host(kernel, "ada", builder).await
}

async fn begin(client: &Client, id: &str) {
    let mut params = BeginTransactionParams::new();
    params.transaction_id = Some(id.to_owned());
    client.request::<TransactionBegin>(&params).await.unwrap();
}

async fn make(client: &Client, id: &str, kind: &str, name: &str) -> Result<CallToolResult, Error> {
    let mut undo = Compensation::new(format!("remove_{kind}"));
    undo.arguments = Some(mgp_types::RawObject::of(&json!({ "name": name })).unwrap());
    let call = client.call(format!("make_{kind}")).args(json!({ "name": name }));
    call.with(&TransactionId(id.to_owned())).with(&undo).await
}

async fn roll_back(client: &Client, id: &str) -> EndTransactionResult {
    client.request::<TransactionRollback>(&EndTransactionParams::new(id)).await.unwrap()
}

#[tokio::test]
async fn a_failed_step_is_the_end_of_the_earlier_ones_in_each_pair_of_eras() {
    for (above, below) in PAIRS {
        let (folder, things) = (temp_dir(), Things::default());
        let kernel = things.kernel(folder.path(), below).await;
        let client = ada(&kernel, above).await;
        begin(&client, "tx").await;
        let first = make(&client, "tx", "ticket", "a").await.unwrap();
        assert_eq!(first.member::<StepId>().unwrap().unwrap().0, "step-1");
        make(&client, "tx", "page", "a").await.unwrap();
        assert!(make(&client, "tx", "post", "bad").await.unwrap().is_error.unwrap());
        let result = roll_back(&client, "tx").await;
        assert_eq!(result.status, TransactionStatus::RolledBack, "{above:?} {below:?}");
        let order: Vec<_> = result.steps_compensated.iter().map(|step| &*step.step_id).collect();
        assert_eq!(order, ["step-2", "step-1"]);
        assert_eq!(things.all(), [""; 0]);
        // The audit log records the compensations (calls that undo steps) as calls of the agent.
        let events = recorded_calls(&kernel, "ticket").await;
        assert!(events.contains("remove_ticket") && events.contains("compensate-"), "{events}");
        client.close().await;
        kernel.stop().await;
    }
}

#[tokio::test]
async fn a_step_of_a_batch_has_a_valid_id_that_no_other_step_of_the_caller_has() {
    let (folder, things) = (temp_dir(), Things::default());
    let kernel = things.kernel(folder.path(), Era::Modern).await;
    let client = ada(&kernel, Era::Modern).await;
    begin(&client, "tx").await;
    let transaction = TransactionId("tx".to_owned());
    let step = client.call("make_ticket").args(json!({ "name": "a" }));
    step.with(&transaction).with(&StepId("x:1".to_owned())).await.unwrap();
    for (id, name) in [("x".to_owned(), "b"), ("y".repeat(128), "c")] {
        let calls = json!([{ "name": "make_ticket", "arguments": { "name": name } }]);
        let batch = client.call("mgp_tools_call_many").arg("calls", &calls);
        batch.with(&transaction).with(&StepId(id)).await.unwrap();
    }
    assert_eq!(things.all(), ["ticket a", "ticket b", "ticket c"]);
    client.close().await;
    kernel.stop().await;
}

#[tokio::test]
async fn a_step_that_runs_as_a_task_is_undone_whether_the_task_asked_or_not() {
    for (above, below) in PAIRS {
        // The tool `visit` asks its caller.
        for tool in ["job", "visit"] {
            let (folder, things) = (temp_dir(), Things::default());
            let kernel = things.kernel_of(&[tool], folder.path(), below).await;
            let client = ada_asked(&kernel, above, true).await;
            begin(&client, "tx").await;
            make(&client, "tx", tool, "a").await.unwrap();
            let result = roll_back(&client, "tx").await;
            assert_eq!(result.status, TransactionStatus::RolledBack, "{above:?} {below:?} {tool}");
            assert_eq!(result.steps_compensated.iter().count(), 1, "{above:?} {below:?} {tool}");
            assert_eq!(things.all(), [""; 0], "{above:?} {below:?} {tool}");
            client.close().await;
            kernel.stop().await;
        }
    }
}

#[tokio::test]
async fn a_rollback_leaves_a_step_whose_task_got_no_answer_to_a_person() {
    let (folder, things) = (temp_dir(), Things::default());
    let kernel = things.kernel_of(&["visit"], folder.path(), Era::Modern).await;
    let client = ada_asked(&kernel, Era::Modern, false).await;
    begin(&client, "tx").await;
    make(&client, "tx", "visit", "a").await.unwrap_err();
    assert_eq!(things.all(), ["visit a"], "the task had an effect before it asked");
    let result = client.request::<TransactionCommit>(&EndTransactionParams::new("tx")).await;
    assert!(result.is_err(), "it is not known how the step ended");
    let result = roll_back(&client, "tx").await;
    assert_eq!(result.status, TransactionStatus::PartiallyRolledBack);
    assert_eq!(result.steps_compensated[0].status, StepStatus::CompensationFailed);
    client.close().await;
    let admin = host_as(&kernel, Principal::local().operator(), host_of(Era::Modern)).await;
    let settle = SettleTransactionParams::new("tx");
    let again = admin.request::<KernelTransactionsRetry>(&settle).await.unwrap();
    assert_eq!(again.status, TransactionStatus::RolledBack);
    assert_eq!(things.all(), [""; 0]);
    admin.close().await;
    kernel.stop().await;
}

#[tokio::test]
async fn a_committed_transaction_keeps_its_steps_and_its_id() {
    let (folder, things) = (temp_dir(), Things::default());
    let kernel = things.kernel(folder.path(), Era::Modern).await;
    let client = ada(&kernel, Era::Modern).await;
    // A client can call the methods for transactions as tools, also under their alternative names.
    let begun = client.call("begin_transaction").args(json!({"transaction_id": "tx"})).await;
    assert!(begun.unwrap().to_text().contains("begun"));
    let mut same = BeginTransactionParams::new();
    same.transaction_id = Some("tx".to_owned());
    client.request::<TxBegin>(&same).await.unwrap_err();
    make(&client, "tx", "ticket", "a").await.unwrap();
    let result = client.request::<TransactionCommit>(&EndTransactionParams::new("tx")).await;
    let result = serde_json::to_value(result.unwrap()).unwrap();
    assert_eq!(result["status"], "committed");
    assert_eq!(result["steps_compensated"], json!([]), "the proposal requires this member");
    assert_eq!(things.all(), ["ticket a"]);
    make(&client, "tx", "page", "a").await.unwrap_err();
    client.close().await;
    // The methods must be unknown to a caller that did not negotiate transactions.
    let plain = host(&kernel, "ada", host_of(Era::Modern)).await;
    let refused = plain.request::<TransactionBegin>(&BeginTransactionParams::new()).await;
    assert_eq!(refused.unwrap_err().code().0, -32601);
    plain.close().await;
    kernel.stop().await;
}

#[tokio::test]
async fn a_compensation_must_be_a_tool_of_the_caller() {
    let (folder, things) = (temp_dir(), Things::default());
    let kernel = things.kernel(folder.path(), Era::Modern).await;
    let client = ada(&kernel, Era::Modern).await;
    begin(&client, "tx").await;
    let undo = Compensation::new("remove_everything");
    let call = client.call("make_ticket").args(json!({"name": "a"}));
    call.with(&TransactionId("tx".to_owned())).with(&undo).await.unwrap_err();
    assert_eq!(things.all(), [""; 0], "not run");
    client.close().await;
    kernel.stop().await;
}

/// Returns a server whose tool `make` declares the tool `undo` as its compensation.
fn declaring(undo: &'static str, era: Era) -> Server {
    let make = Tool::new("make", "Makes a thing", move |cx: Context| async move {
        cx.add_to_result(&Compensation::new(undo))?;
        Ok::<_, RpcError>("made")
    });
    let remove = Tool::new("remove", "Removes it", || async { "removed" });
    let server = Server::new("things", "1").tool(make).tool(remove);
    limit_era(server.extension(Extension::Transactions), era)
}

#[tokio::test]
async fn a_declared_compensation_names_its_tool_as_the_caller_knows_it() {
    for (above, below) in PAIRS {
        for (undo, expected) in [("remove", Some("a.remove")), ("missing", None)] {
            let server = move || declaring(undo, below);
            let policy = || open(&["make", "remove"]);
            let builder = Kernel::builder().local_with("a", policy(), server);
            let builder = builder.local_with("b", policy(), server);
            let kernel = build_with_tools(builder, [("a", 2), ("b", 2)]).await;
            let client = ada(&kernel, above).await;
            let made = client.call("a.make").await.unwrap();
            let declared = made.member::<Compensation>().unwrap().map(|undo| undo.tool);
            assert_eq!(declared.as_deref(), expected, "{above:?} {below:?}");
            if let Some(tool) = declared {
                assert_eq!(client.call(tool).await.unwrap().to_text(), "removed");
            }
            client.close().await;
            kernel.stop().await;
        }
    }
}

#[tokio::test]
async fn a_step_that_cannot_begin_is_refused_before_an_operator_is_asked() {
    let things = Things::default();
    let behind = things.clone();
    let mut policy = open(&[]);
    policy.risk.insert("make_ticket".to_owned(), RiskLevel::Dangerous);
    let config = config_of("[kernel]\napproval_timeout = '100ms'");
    let builder = Kernel::builder().config(config);
    let server = move || behind.server("ticket", Era::Modern);
    let kernel =
        build_with_tools(builder.local_with("ticket", policy, server), [("ticket", 2)]).await;
    for era in [Era::Legacy, Era::Modern] {
        let client = ada(&kernel, era).await;
        let id = format!("tx-{era:?}");
        let step = |step: &str| {
            let call = client.call("make_ticket").args(json!({ "name": "a" }));
            call.with(&TransactionId(id.clone())).with(&StepId(step.to_owned()))
        };
        let refused = step("a").await.unwrap_err();
        assert!(refused.to_string().contains("begin it first"), "{era:?}: {refused}");
        begin(&client, &id).await;
        let refused = step("two words").await.unwrap_err();
        assert!(refused.to_string().contains("`step_id` must be"), "{era:?}: {refused}");
        let unanswered = step("a").await.unwrap_err();
        assert!(unanswered.to_string().contains("did not run"), "{era:?}: {unanswered}");
        client.close().await;
    }
    assert_eq!(things.all(), [""; 0]);
    kernel.stop().await;
}

#[tokio::test]
async fn what_is_not_undone_is_shown_to_an_operator_who_settles_it() {
    let (folder, things) = (temp_dir(), Things::default());
    let kernel = things.kernel(folder.path(), Era::Modern).await;
    let client = ada(&kernel, Era::Modern).await;
    begin(&client, "tx").await;
    for kind in ["ticket", "page"] {
        make(&client, "tx", kind, "a").await.unwrap();
    }
    // A person has already removed the page, so the compensation of its step fails.
    things.0.lock().retain(|one| one != "page a");
    let result = roll_back(&client, "tx").await;
    assert_eq!(result.status, TransactionStatus::PartiallyRolledBack);
    assert_eq!(result.steps_compensated[0].status, StepStatus::CompensationFailed);
    assert_eq!(things.all(), [""; 0]);
    client.close().await;

    let operator = Principal::local().operator();
    let admin = host_as(&kernel, operator, host_of(Era::Modern)).await;
    let list = async || admin.request::<KernelTransactions>(&ListTransactionsParams::new()).await;
    let stuck = list().await.unwrap().transactions;
    assert_eq!((stuck.len(), &*stuck[0].agent), (1, "ada"));
    assert!(stuck[0].steps[1].error.as_ref().unwrap().contains("unknown"));
    let mut settle = SettleTransactionParams::new("tx");
    let again = admin.request::<KernelTransactionsRetry>(&settle).await.unwrap();
    assert_eq!(again.status, TransactionStatus::PartiallyRolledBack);
    things.0.lock().push("page a".to_owned());
    let again = admin.request::<KernelTransactionsRetry>(&settle).await.unwrap();
    assert_eq!(again.status, TransactionStatus::RolledBack);
    settle.note = Some("done".to_owned());
    admin.request::<KernelTransactionsResolve>(&settle).await.unwrap_err();
    admin.close().await;
    let plain = ada(&kernel, Era::Modern).await;
    let refused = plain.request::<KernelTransactions>(&ListTransactionsParams::new()).await;
    assert_eq!(refused.unwrap_err().code().0, 1000);
    plain.close().await;
    kernel.stop().await;
}

#[tokio::test]
async fn an_open_transaction_survives_a_restart_and_is_rolled_back_when_it_is_not_used() {
    let (folder, things) = (temp_dir(), Things::default());
    let kernel = things.kernel(folder.path(), Era::Modern).await;
    let client = ada(&kernel, Era::Modern).await;
    let mut params = BeginTransactionParams::new();
    (params.transaction_id, params.timeout_seconds) = (Some("tx".to_owned()), Some(2));
    client.request::<TransactionBegin>(&params).await.unwrap();
    make(&client, "tx", "ticket", "a").await.unwrap();
    client.close().await;
    kernel.stop().await;
    drop(kernel);
    let kernel = things.kernel(folder.path(), Era::Modern).await;
    assert_eq!(things.all(), ["ticket a"]);
    until("it is rolled back", || async { things.all().is_empty() }).await;
    kernel.stop().await;
}

#[tokio::test]
async fn a_rollback_names_the_server_that_was_removed() {
    let (folder, things) = (temp_dir(), Things::default());
    let kernel = things.kernel(folder.path(), Era::Modern).await;
    let client = ada(&kernel, Era::Modern).await;
    begin(&client, "tx").await;
    make(&client, "tx", "page", "a").await.unwrap();
    client.close().await;
    kernel.stop().await;
    drop(kernel);
    let kernel = things.kernel_of(&["ticket"], folder.path(), Era::Modern).await;
    let client = ada(&kernel, Era::Modern).await;
    let result = roll_back(&client, "tx").await;
    assert_eq!(result.status, TransactionStatus::PartiallyRolledBack);
    let error = result.steps_compensated[0].error.as_deref().unwrap();
    assert!(error.contains("the server `page` was removed"), "{error}");
    client.close().await;
    kernel.stop().await;
}

/// The tools of a coordinator whose transactions have no steps.
struct NoTools;

impl TransactionTools for NoTools {
    fn check(&self, _: &Context, _: &ServerId, _: &str) -> Result<(), RpcError> {
        Ok(())
    }

    fn only_reads(&self, _: &ServerId, _: &str) -> bool {
        false
    }

    fn compensate(&self, _: CompensationCall) -> BoxFuture<'static, Result<Reply, RpcError>> {
        Box::pin(async { Ok(Reply::empty()) })
    }

    fn report(&self, _: &str, _: &TransactionRecord) {}
}

#[tokio::test(start_paused = true)]
async fn an_inactive_transaction_is_rolled_back_soon_after_the_store_works_again() {
    let store = FaultyStore::of_space("transactions");
    let transactions = Transactions::open(Arc::new(store.clone())).await.unwrap();
    let mut params = BeginTransactionParams::new();
    params.timeout_seconds = Some(0);
    transactions.begin(&Principal::local(), params).await.unwrap();
    store.set_failing(true);
    transactions.start(Arc::new(NoTools));
    for (is_failing, status) in
        [(true, TransactionStatus::Begun), (false, TransactionStatus::RolledBack)]
    {
        store.set_failing(is_failing);
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(transactions.list("local", true)[0].status, status);
    }
}
