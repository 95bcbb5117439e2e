//! Tests that repeated calls run only once, with servers that do not support idempotency themselves (extension
//! `idempotency`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mgp_client_sdk::{Client, TestClient, ToolCall, ToolResult};
use mgp_kernel::Kernel;
use mgp_lifecycle::Idempotency;
use mgp_security::{Approver, Decision, Governance, Policies, Question, ServerPolicy};
use mgp_server_sdk::prelude::*;
use mgp_testkit::temp_dir;
use mgp_types::mcp::{Era, TaskSupport};
use mgp_types::mgp::{DefaultPolicy, Extension, GrantDecision, RiskLevel};
use mgp_types::proposal::{IdempotencyKey, OriginalTimestamp, WasReplay};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::route::world::{
    Guest, PAIRS, answering, build_with_tools, config_of, host, host_of, kernel_with, limit_era,
    open, recorded_calls, until, wait_for_tools,
};

/// A server for the tests in `matrix.rs`: its tool `list` runs once per idempotency key.
pub(crate) fn server() -> Server {
    let list = Tool::new("list", "Lists orders", || async { "none" });
    let other = Tool::new("recent", "Lists recent orders", || async { "none" });
    Server::new("orders", "1").tool(list).tool(other).extension(Idempotency::in_memory())
}

/// Counts the runs of a tool and delays their end: each run ends when the semaphore `gate` has a permit for it.
#[derive(Clone)]
struct Runs {
    begun: Arc<AtomicU32>,
    count: Arc<AtomicU32>,
    gate: Arc<Semaphore>,
}

impl Runs {
    fn new() -> Self {
        Self { begun: Arc::default(), count: Arc::default(), gate: Arc::new(Semaphore::new(1_000)) }
    }

    fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns a server without MGP that has the tool `pay`.
    fn server(&self) -> Server {
        self.server_with(TaskSupport::Forbidden)
    }

    fn server_with(&self, support: TaskSupport) -> Server {
        let runs = self.clone();
        let is_task = support == TaskSupport::Required;
        let pay = Tool::new("pay", "Pays an order", move |order: Args<Order>| {
            let runs = runs.clone();
            async move {
                runs.begun.fetch_add(1, Ordering::Relaxed);
                runs.gate.acquire().await.unwrap().forget();
                let run = runs.count.fetch_add(1, Ordering::Relaxed) + 1;
                if is_task {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                format!("paid {} in run {run}", order.0.to)
            }
        });
        Server::new("shop", "1").tool(pay.task(support))
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    to: String,
}

async fn kernel_of(server: impl Fn() -> Server + Send + Sync + 'static) -> Kernel {
    kernel_with("shop", open(&["pay"]), 1, server).await
}

async fn payer(kernel: &Kernel, agent: &str, era: Era) -> Client {
    host(kernel, agent, host_of(era).extension(Extension::Idempotency)).await
}

fn pay(client: &Client, key: &str, to: &str) -> ToolCall {
    client.call("pay").args(json!({ "to": to })).with(&IdempotencyKey(key.to_owned()))
}

fn was_replay(result: &impl ToolResult) -> bool {
    assert!(result.member::<OriginalTimestamp>().unwrap().is_some());
    result.member::<WasReplay>().unwrap().unwrap().0
}

#[tokio::test]
async fn a_key_runs_once_in_each_pair_of_eras() {
    for (above, below) in PAIRS {
        let runs = Runs::new();
        let behind = runs.clone();
        let kernel = kernel_of(move || limit_era(behind.server(), below)).await;
        let client = payer(&kernel, "ada", above).await;
        let first = pay(&client, "k", "ann").await.unwrap();
        let second = pay(&client, "k", "ann").await.unwrap();
        assert_eq!((was_replay(&first), was_replay(&second)), (false, true), "{above:?} {below:?}");
        assert_eq!(second.to_text(), "paid ann in run 1");
        let key = second.member::<IdempotencyKey>().unwrap().unwrap();
        assert_eq!(key.0, "k", "the caller's own");
        let conflict = pay(&client, "k", "bob").await.unwrap_err();
        assert!(conflict.to_string().contains("other arguments"), "{conflict}");
        let calls: Vec<_> = (0..4).map(|_| tokio::spawn(pay(&client, "l", "ann").send())).collect();
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap().to_text(), "paid ann in run 2");
        }
        // Each key belongs to an agent. So a call of another agent with the same key runs.
        let other = payer(&kernel, "bob", above).await;
        assert_eq!(pay(&other, "k", "ann").await.unwrap().to_text(), "paid ann in run 3");
    }
}

#[tokio::test]
async fn the_result_of_a_call_that_asked_has_the_members_of_its_key() {
    for above in [Era::Legacy, Era::Modern] {
        let kernel = kernel_of(|| {
            let pay = Tool::new("pay", "Asks who is paid", |cx: Context| async move {
                let guest = cx.elicit::<Guest>("Who is paid?").await?.accepted();
                Ok::<_, RpcError>(guest.map_or_else(String::new, |guest| guest.name))
            });
            limit_era(Server::new("shop", "1").tool(pay), Era::Legacy)
        })
        .await;
        let client = answering(above).extension(Extension::Idempotency);
        let client = host(&kernel, "ada", client).await;
        let key = IdempotencyKey("k".to_owned());
        let first = client.call("pay").with(&key).await.unwrap();
        assert_eq!(first.to_text(), "Ann", "{above:?}");
        assert!(!was_replay(&first), "{above:?}");
        assert!(was_replay(&client.call("pay").with(&key).await.unwrap()), "{above:?}");
    }
}

#[tokio::test]
async fn a_key_of_a_tool_that_runs_only_as_a_task_keeps_the_result_of_the_task() {
    for (above, below) in PAIRS {
        let runs = Runs::new();
        let behind = runs.clone();
        let make = move || limit_era(behind.server_with(TaskSupport::Required), below);
        let kernel = kernel_of(make).await;
        let client = payer(&kernel, "ada", above).await;
        let first = pay(&client, "k", "ann").await.unwrap();
        let second = pay(&client, "k", "ann").await.unwrap();
        assert_eq!((was_replay(&first), was_replay(&second)), (false, true), "{above:?} {below:?}");
        assert_eq!(second.to_text(), "paid ann in run 1", "{above:?} {below:?}");
        assert_eq!(runs.count(), 1, "{above:?} {below:?}");
    }
}

#[tokio::test]
async fn keys_of_two_agents_are_two_keys_for_a_server_with_keys_of_its_own() {
    let runs = Runs::new();
    let behind = runs.clone();
    let kernel = kernel_of(move || behind.server().extension(Idempotency::in_memory())).await;
    for (agent, to) in [("ada", "ann"), ("bob", "eve")] {
        let client = payer(&kernel, agent, Era::Modern).await;
        let result = pay(&client, "k", to).await.unwrap();
        assert!(result.to_text().contains(to) && !was_replay(&result), "{agent}");
        client.close().await;
    }
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_client_that_left_finds_the_result_of_its_call() {
    let runs = Runs::new();
    let behind = runs.clone();
    let kernel = kernel_of(move || behind.server()).await;
    let client = payer(&kernel, "ada", Era::Modern).await;
    runs.gate.forget_permits(1_000);
    let lost = tokio::spawn(pay(&client, "k", "ann").send());
    until("the call runs", || async { runs.begun.load(Ordering::Relaxed) == 1 }).await;
    lost.abort();
    client.close().await;
    runs.gate.add_permits(10);
    let client = payer(&kernel, "ada", Era::Modern).await;
    let result = pay(&client, "k", "ann").await.unwrap();
    assert!(was_replay(&result));
    assert_eq!(runs.count(), 1);
}

async fn in_folder(folder: &Path, runs: &Runs) -> Kernel {
    let behind = runs.clone();
    let builder = Kernel::builder().local_with("shop", open(&["pay"]), move || behind.server());
    let kernel = builder.in_folder(folder).await.unwrap();
    wait_for_tools(&kernel, "shop", 1).await;
    kernel
}

#[tokio::test]
async fn a_replay_after_a_restart_is_decided_and_recorded_like_a_call() {
    let (folder, runs) = (temp_dir(), Runs::new());
    let kernel = in_folder(folder.path(), &runs).await;
    let client = payer(&kernel, "ada", Era::Modern).await;
    pay(&client, "k", "ann").await.unwrap();
    client.close().await;
    kernel.stop().await;
    drop(kernel);

    let kernel = in_folder(folder.path(), &runs).await;
    let client = payer(&kernel, "ada", Era::Modern).await;
    assert!(was_replay(&pay(&client, "k", "ann").await.unwrap()));
    assert_eq!(runs.count(), 1);
    until("the replay is recorded", || async {
        recorded_calls(&kernel, "shop").await.matches("replay_of").count() == 1
    })
    .await;
    kernel.governance().policies().set("shop", ServerPolicy::default());
    let refused = pay(&client, "k", "ann").await.unwrap_err();
    assert!(refused.to_string().contains("access"), "{refused}");
    client.close().await;
    kernel.stop().await;
}

#[tokio::test]
async fn each_call_of_a_batch_has_a_key_of_its_own() {
    let runs = Runs::new();
    let behind = runs.clone();
    let kernel = kernel_of(move || behind.server()).await;
    let client = payer(&kernel, "ada", Era::Modern).await;
    let order = json!({ "name": "pay", "arguments": { "to": "ann" } });
    let calls = json!([order, order]);
    let mut texts = Vec::new();
    for is_repeated in [false, true] {
        let batch = client.call("mgp_tools_call_many").arg("calls", &calls);
        let batch = batch.with(&IdempotencyKey("k".to_owned())).await.unwrap();
        assert_eq!(batch.member::<WasReplay>().unwrap(), None, "it is a member of each call");
        let outcomes: Value = batch.structured_content.as_ref().unwrap().get().unwrap();
        let results = [0, 1].map(|place| outcomes["results"][place]["result"].clone());
        for result in &results {
            assert_eq!(result["_meta"]["was_replay"], is_repeated, "{outcomes}");
        }
        texts.push(results.map(|result| result["content"][0]["text"].clone()));
    }
    assert_eq!(runs.count(), 2);
    assert_ne!(texts[0][0], texts[0][1], "each result is that of its own run");
    assert_eq!(texts[0], texts[1], "and a repeated batch has the same results");
    assert_eq!(pay(&client, "k", "ann").await.unwrap().to_text(), "paid ann in run 3");
}

#[tokio::test]
async fn a_malformed_key_is_refused_before_an_operator_is_asked() {
    let runs = Runs::new();
    let behind = runs.clone();
    let mut policy = open(&[]);
    policy.risk.insert("pay".to_owned(), RiskLevel::Dangerous);
    let config = config_of("[kernel]\napproval_timeout = '100ms'");
    let builder = Kernel::builder().config(config);
    let builder = builder.local_with("shop", policy, move || behind.server());
    let kernel = build_with_tools(builder, [("shop", 1)]).await;
    for era in [Era::Legacy, Era::Modern] {
        let client = payer(&kernel, "ada", era).await;
        let unanswered = pay(&client, "k", "ann").await.unwrap_err();
        assert!(unanswered.to_string().contains("did not run"), "{era:?}: {unanswered}");
        let refused = pay(&client, "bad!key", "ann").await.unwrap_err();
        assert!(refused.to_string().contains("`idempotency_key` must be"), "{era:?}: {refused}");
        let brief = pay(&client, "k", "ann").meta("idempotency_ttl_seconds", "brief");
        let refused = brief.await.unwrap_err();
        assert!(refused.to_string().contains("idempotency_ttl_seconds"), "{era:?}: {refused}");
    }
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn a_key_of_other_arguments_is_refused_before_an_operator_is_asked() {
    let runs = Runs::new();
    let behind = runs.clone();
    let config = config_of("[kernel]\napproval_timeout = '100ms'");
    let builder = Kernel::builder().config(config);
    let builder = builder.local_with("shop", open(&["pay"]), move || behind.server());
    let kernel = build_with_tools(builder, [("shop", 1)]).await;
    let client = payer(&kernel, "ada", Era::Modern).await;
    pay(&client, "k", "ann").await.unwrap();
    let mut policy = ServerPolicy::default().default_policy(DefaultPolicy::OptOut);
    policy.risk.insert("pay".to_owned(), RiskLevel::Dangerous);
    kernel.governance().policies().set("shop", policy);
    let unanswered = pay(&client, "k", "ann").await.unwrap_err();
    assert!(unanswered.to_string().contains("did not run"), "{unanswered}");
    let refused = pay(&client, "k", "bob").await.unwrap_err();
    assert!(refused.to_string().contains("other arguments"), "{refused}");
}

/// A person who approves everything, and counts the questions.
#[derive(Clone, Default)]
struct Person(Arc<AtomicU32>);

#[async_trait]
impl Approver for Person {
    async fn decide(&self, _: &Context, _: Question) -> Result<Decision, RpcError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Decision::new(GrantDecision::Approved, "ann"))
    }
}

#[tokio::test]
async fn a_governed_server_refuses_a_key_of_other_arguments_before_a_person_is_asked() {
    let (runs, person) = (Runs::new(), Person::default());
    let mut policy = ServerPolicy::default().default_policy(DefaultPolicy::OptOut);
    policy.risk.insert("pay".to_owned(), RiskLevel::Dangerous);
    let policies = Policies::with_default(policy);
    let governance = Governance::builder().policies(policies).approver(person.clone()).build();
    let server = runs.server().extension(Idempotency::in_memory()).governed(&governance, "shop");
    let builder = host_of(Era::Modern).extension(Extension::Idempotency);
    let client = TestClient::with_builder(server, builder).await;
    pay(&client, "k", "ann").await.unwrap();
    let refused = pay(&client, "k", "bob").await.unwrap_err();
    assert!(refused.to_string().contains("other arguments"), "{refused}");
    assert_eq!((person.0.load(Ordering::Relaxed), runs.count()), (1, 1));
}

#[tokio::test]
async fn a_caller_without_the_extension_calls_as_before() {
    let runs = Runs::new();
    let behind = runs.clone();
    let kernel = kernel_of(move || behind.server()).await;
    let client = host(&kernel, "ada", host_of(Era::Modern)).await;
    for run in 1..=2 {
        let call = client.call("pay").args(json!({"to": "ann"})).meta("idempotency_key", "k");
        let result = call.await.unwrap();
        assert_eq!(result.to_text(), format!("paid ann in run {run}"));
        assert_eq!(result.member::<WasReplay>().unwrap(), None);
    }
}
