//! Tests of permissions: the rule, the policies, questions to approvers, administration, and the layer.

mod administration;
mod asking;
mod policies;
mod slow;
mod worlds;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mgp_types::RpcError;
use mgp_types::mgp::{ApprovalPolicy, AuditEvent, GrantDecision, Permission};
use mgp_types::service::{
    BoxFuture, Context, MemoryAudit, Principal, Reply, ServerId, Stack, mock,
};
use mgp_types::store::MemoryStore;
use mgp_types::sync::Mutex;
use tokio::sync::Semaphore;
use tower_layer::Layer as _;

use super::*;
use crate::PermissionLayer;
use crate::approval::{Approver, Decision, Question, QuestionSubject};
use crate::policy::{ConfirmRule, Policies, ServerPolicy};
use crate::tool::Assessment;

/// An approver that gives the answer set by the test, but only after the test allows it to answer.
struct Clerk {
    answer: Mutex<Result<Decision, RpcError>>,
    questions: Mutex<Vec<Question>>,
    gate: Semaphore,
}

impl Clerk {
    fn new(answer: GrantDecision) -> Arc<Self> {
        Arc::new(Self {
            answer: Mutex::new(Ok(Decision::new(answer, "grace"))),
            questions: Mutex::default(),
            gate: Semaphore::new(1000),
        })
    }

    /// Creates a clerk that does not answer until the test adds a permit to its gate.
    fn silent(answer: GrantDecision) -> Arc<Self> {
        let clerk = Self::new(answer);
        clerk.gate.forget_permits(1000);
        clerk
    }

    fn says(&self, answer: Result<Decision, RpcError>) {
        *self.answer.lock() = answer;
    }

    fn asked(&self) -> Vec<Question> {
        self.questions.lock().clone()
    }

    /// Waits until a number of questions was asked.
    async fn was_asked(&self, times: usize) {
        while self.questions.lock().len() < times {
            tokio::task::yield_now().await;
        }
    }

    /// Returns the permissions and the tool in each question that was asked.
    fn asked_for(&self) -> Vec<String> {
        let words = |question: &Question| match &question.about {
            QuestionSubject::Permissions { permissions, tool } => {
                let names: Vec<_> = permissions.iter().map(Permission::as_str).collect();
                format!("{} for {}", names.join("+"), tool.as_deref().unwrap_or("-"))
            }
            QuestionSubject::Call { .. } => "a call".to_owned(),
        };
        self.asked().iter().map(words).collect()
    }
}

/// The approver that passes questions to a [`Clerk`].
struct Desk(Arc<Clerk>);

#[async_trait]
impl Approver for Desk {
    async fn decide(&self, _: &Context, question: Question) -> Result<Decision, RpcError> {
        let clerk = Arc::clone(&self.0);
        clerk.questions.lock().push(question);
        clerk.gate.acquire().await.unwrap().forget();
        clerk.answer.lock().clone()
    }
}

/// A [`PermissionLayer`] in front of tools. The name of each tool lists the permissions that it needs, e.g.
/// `read+camera`.
struct World {
    permissions: Permissions,
    policies: Policies,
    audit: MemoryAudit,
    store: MemoryStore,
    client: mock::Client,
    ran: Arc<AtomicUsize>,
}

impl World {
    fn new(policy: ApprovalPolicy, clerk: Option<&Arc<Clerk>>) -> Self {
        let (store, audit) = (MemoryStore::new(), MemoryAudit::new());
        let policies = Policies::with_default(governed(policy));
        let approver: Option<Arc<dyn Approver>> =
            clerk.map(|clerk| Arc::new(Desk(Arc::clone(clerk))) as _);
        let permissions = Permissions::new(
            Arc::new(store.clone()),
            Arc::new(audit.clone()),
            policies.clone(),
            approver,
        );
        let ran = Arc::new(AtomicUsize::new(0));
        let mut client = mock::client(stack(&permissions, &ran));
        client.cx.principal = agent();
        client.cx.server = Some("files".into());
        client.cx.trace = Some("trace-1".into());
        Self { permissions, policies, audit, store, client, ran }
    }

    /// Makes the configuration grant permissions.
    fn list(&self, permissions: &[&str]) {
        let mut policy = ServerPolicy::clone(&self.policies.get(None));
        policy.permissions = permissions.iter().map(|name| (*name).into()).collect();
        self.policies.set("files", policy);
    }

    /// Calls a tool; its name lists the permissions it needs.
    fn call(&mut self, tool: &str) -> BoxFuture<'static, Result<Reply, RpcError>> {
        self.call_with(tool, "{}")
    }

    fn call_with(
        &mut self,
        tool: &str,
        arguments: &str,
    ) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
        self.client.call("tools/call", &params)
    }

    /// Calls a tool, which is expected to run.
    async fn runs(&mut self, tool: &str) {
        let before = self.ran();
        self.call(tool).await.unwrap();
        assert_eq!(self.ran(), before + 1, "{tool} was answered and did not run");
    }

    /// Calls a tool, which is expected not to run; returns `PERMISSION STATUS` for each missing permission.
    async fn lacks(&mut self, tool: &str) -> String {
        let before = self.ran();
        let error = self.call(tool).await.unwrap_err();
        assert_eq!(error.code().0, 1000, "{error}");
        assert_eq!(self.ran(), before, "{tool} ran");
        lacking(&error)
    }

    fn ran(&self) -> usize {
        self.ran.load(Ordering::Relaxed)
    }

    /// Returns a description of each event so far.
    fn events(&self) -> Vec<String> {
        self.audit.events().iter().map(words).collect()
    }
}

fn stack(permissions: &Permissions, ran: &Arc<AtomicUsize>) -> Stack {
    let count = Arc::clone(ran);
    let tools = Stack::from_fn(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(Reply::empty()) }
    });
    let needs = |_: Option<&ServerId>, tool: &str| {
        let mut assessment = Assessment::unknown();
        let names = tool.split('+').filter(|name| *name != "nothing");
        assessment.permissions = names.map(|name| standard_name(name).into()).collect();
        Arc::new(assessment)
    };
    Stack::new(PermissionLayer::new(permissions.clone(), needs).layer(tools))
}

fn standard_name(short: &str) -> &str {
    match short {
        "read" => "filesystem.read",
        "write" => "filesystem.write",
        "shell" => "shell.execute",
        other => other,
    }
}

/// Returns `PERMISSION STATUS` for each missing permission that an error names.
fn lacking(error: &RpcError) -> String {
    let details = error.as_recovery().and_then(|recovery| recovery.details.clone()).unwrap();
    assert!(details.get("remedy").is_some() && details.get("tool").is_some(), "{details:?}");
    let missing: Vec<serde_json::Value> = details.decode("missing").unwrap().unwrap();
    let words = |missing: &serde_json::Value| {
        assert!(!missing["why"].as_str().unwrap().is_empty());
        format!(
            "{} {}",
            missing["permission"].as_str().unwrap(),
            missing["status"].as_str().unwrap()
        )
    };
    missing.iter().map(words).collect::<Vec<_>>().join(", ")
}

/// Describes an event as `TYPE PERMISSION was BEFORE by ACTOR`.
fn words(event: &AuditEvent) -> String {
    let details = event.details.clone().unwrap_or_default();
    let text =
        |name: &str| details.decode::<String>(name).unwrap().unwrap_or_else(|| "-".to_owned());
    format!(
        "{} {} was {} by {} {}",
        event.event_type,
        text("permission"),
        text("before"),
        event.actor.kind,
        event.actor.id
    )
}

fn governed(policy: ApprovalPolicy) -> ServerPolicy {
    ServerPolicy { permission_policy: policy, ..ServerPolicy::default() }
}

fn agent() -> Principal {
    Principal::new("acme", "ada").agent("agent.one")
}

fn operator() -> Principal {
    Principal::new("acme", "olga").operator()
}

fn files(permissions: &[&str]) -> PermissionChange {
    PermissionChange::new(Some("files".into()), permissions.iter().map(|name| (*name).into()))
}

fn from_now(after: Duration) -> std::time::SystemTime {
    std::time::SystemTime::now() + after
}

fn server() -> ServerId {
    "files".into()
}
