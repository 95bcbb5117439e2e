//! Tests of the audit events about tools and about decisions on them, and of the time at which these events are
//! recorded.

use mgp_testkit::{FaultyStore, store_busy};
use mgp_types::mgp::{AccessGrantParams, AuditEvent, AuditResult, EventType, Validator};
use mgp_types::service::{AuditFuture, AuditSink, CallRecord, Ticket};
use mgp_types::store::Store as _;

use super::*;
use crate::tool::{Assessment, Validate, Violation};
use crate::{AuditLayer, Governance, ValidateLayer};

const SAFE: &str =
    r#"{"name":"read","description":"Adds.","inputSchema":{},"security":{"risk_level":"safe"}}"#;

fn says_safe() -> Policies {
    let mut policy = ServerPolicy::default();
    policy.risk.insert("read".to_owned(), RiskLevel::Safe);
    Policies::with_default(policy)
}

fn overrides(audit: &MemoryAudit) -> usize {
    let is_override = |event: &AuditEvent| event.event_type.as_str() == "RISK_LEVEL_OVERRIDE";
    audit.events().iter().filter(|event| is_override(event)).count()
}

/// A sink that takes some time for each event.
struct Slow(MemoryAudit);

impl AuditSink for Slow {
    fn begin(&self, start: CallRecord) -> AuditFuture<Ticket> {
        self.0.begin(start)
    }

    fn record(&self, event: AuditEvent) -> AuditFuture<()> {
        let audit = self.0.clone();
        AuditFuture::Later(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            audit.record(event).await
        }))
    }
}

#[tokio::test]
async fn an_operators_word_on_a_tool_of_ones_own_is_told_once() {
    let audit = MemoryAudit::new();
    let governance =
        Governance::builder().audit(Arc::new(audit.clone())).policies(says_safe()).build();
    governance.open().await.unwrap();
    let tools: Vec<mgp_types::mcp::Tool> = vec![serde_json::from_str(READ).unwrap()];
    governance.definitions().learn(Some(&files()), &tools);
    let grant = AccessGrantParams::allow(Principal::local().subject().as_str(), "files");
    governance.access().grant(&operator(), grant).await.unwrap();
    let own = governance.own("files").layer(Liar::default().stack());
    let mut client = mock::client(Stack::new(own));
    for _ in 0..2 {
        client.request("tools/call", r#"{"name":"read"}"#).await.unwrap();
        governance.definitions().learn(Some(&files()), &tools);
    }
    assert_eq!(overrides(&audit), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_that_come_at_once_tell_an_operators_word_once_and_none_runs_before() {
    let audit = MemoryAudit::new();
    let sink = Arc::new(Slow(audit.clone()));
    let definitions = Definitions::new(Arc::new(MemoryStore::new()), sink, says_safe());
    definitions.open().await.unwrap();
    definitions.observe(&files(), &[Payload::parse(READ.to_owned()).unwrap()]).await.unwrap();
    let (seen, policies) = (audit.clone(), definitions.clone());
    let inner = Stack::from_fn(move |_| {
        let told = overrides(&seen);
        // Publish a new table during each call. The event must not be recorded again because of that.
        policies.0.publish();
        async move {
            assert_eq!(told, 1);
            Ok(Reply::empty())
        }
    });
    let mut client = mock::client(Stack::new(
        DefinitionLayer::new(definitions.clone()).server("files").layer(inner),
    ));
    let calls: Vec<_> =
        (0..5).map(|_| tokio::spawn(client.call("tools/call", r#"{"name":"read"}"#))).collect();
    definitions.0.publish();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(overrides(&audit), 1);
}

#[tokio::test]
async fn the_first_call_of_a_safe_tool_is_not_recorded_as_dangerous() {
    let World { liar, definitions, audit, .. } = world();
    liar.lists(&[SAFE]);
    let known = definitions.clone();
    let risk = move |call: &mgp_types::service::Call| {
        Some(known.assessment(Some(&files()), call.tool()?.name).effective_risk.clone())
    };
    let pinning = DefinitionLayer::new(definitions).server("files").layer(liar.stack());
    let layer = AuditLayer::new(Arc::new(audit.clone())).risk(risk);
    let mut client = mock::client(Stack::new(layer.layer(pinning)));
    for _ in 0..2 {
        client.request("tools/call", r#"{"name":"read"}"#).await.unwrap();
    }
    let is_call = |event: &AuditEvent| event.event_type == EventType::ToolExecuted;
    let risks: Vec<Option<String>> = audit
        .events()
        .into_iter()
        .filter(is_call)
        .map(|event| event.details.unwrap().decode("risk_level").unwrap())
        .collect();
    assert_eq!(risks, [Some("safe".to_owned()), Some("safe".to_owned())]);
}

struct Likes;

impl Validate for Likes {
    fn check(&self, checked: &crate::CheckedCall<'_>) -> Result<(), Violation> {
        match checked.call.tool().and_then(|tool| tool.arguments) {
            Some(_) => Err(Violation::new("no arguments")),
            None => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_record_names_the_validators_that_looked_at_the_call() {
    let audit = MemoryAudit::new();
    let known = |_: Option<&ServerId>, tool: &str| {
        let mut assessment = Assessment::unknown();
        assessment.validators = tool.split('+').map(Validator::from).collect();
        Arc::new(assessment)
    };
    let checks = ValidateLayer::new(known)
        .validator(Validator::Sandbox, Likes)
        .validator(Validator::Readonly, Likes);
    let tools = Stack::from_fn(|_| async { Ok(Reply::empty()) });
    let layer = AuditLayer::new(Arc::new(audit.clone()));
    let mut client = mock::client(Stack::new(layer.layer(checks.layer(tools))));
    client.request("tools/call", r#"{"name":"sandbox+readonly"}"#).await.unwrap();
    let bad = r#"{"name":"sandbox+readonly","arguments":{"a":1}}"#;
    client.request("tools/call", bad).await.unwrap_err();
    client.request("tools/call", r#"{"name":"code_safety"}"#).await.unwrap_err();
    let is_call = |event: &AuditEvent| {
        matches!(event.event_type, EventType::ToolExecuted | EventType::ToolBlocked)
    };
    let applied: Vec<Option<String>> = audit
        .events()
        .into_iter()
        .filter(is_call)
        .map(|event| event.details.unwrap().decode("validator_applied").unwrap())
        .collect();
    let words = |text: &str| Some(text.to_owned());
    assert_eq!(applied, [words("sandbox, readonly"), words("sandbox"), None]);
}

#[tokio::test]
async fn who_decides_without_being_an_operator_is_recorded() {
    let mut world = world();
    world.liar.lists(&[READ]);
    world.list().await;
    world.liar.lists(&[READ_MORE]);
    world.list().await;
    let (held, definitions) = (world.held("read"), &world.definitions);
    let (bob, hash) = (Principal::new("acme", "bob"), &held.fingerprint);
    definitions.approve(&bob, &files(), "read", hash, None).await.unwrap_err();
    definitions.reject(&bob, &files(), "read", hash, None).await.unwrap_err();
    let refused: Vec<String> = world
        .audit
        .events()
        .into_iter()
        .filter(|event| event.event_type == EventType::PermissionDenied)
        .map(|event| {
            assert_eq!((event.result, event.actor.id.as_str()), (AuditResult::Blocked, "bob"));
            event.details.unwrap().decode("method").unwrap().unwrap()
        })
        .collect();
    assert_eq!(refused, ["approve_definition", "reject_definition"]);
    assert_eq!(world.standing("read").as_str(), "changed");
}

#[tokio::test]
async fn what_is_forgotten_is_pinned_anew_and_told_in_one_event() {
    let mut world = world();
    world.liar.lists(&[READ, SAFE.replace("read", "add").as_str(), TRAP]);
    world.list().await;
    world.liar.lists(&[READ_MORE]);
    world.list().await;
    let copy = Payload::parse(READ.to_owned()).unwrap();
    world.definitions.observe(&"fi1es".into(), std::slice::from_ref(&copy)).await.unwrap();
    world.definitions.remove_server(&files()).await.unwrap();
    let event = world.audit.events().pop().unwrap();
    assert_eq!(event.event_type.as_str(), "dev.cloto.definitions_forgotten");
    assert_eq!(event.details.unwrap().decode::<u64>("count").unwrap(), Some(3));
    assert!(world.definitions.waiting().unwrap().is_empty());
    world.call("read").await.unwrap();
    assert_eq!(world.standing("read"), DefinitionState::Pinned);

    world.definitions.remove_server(&files()).await.unwrap();
    let before = world.audit.events().len();
    world.definitions.remove_server(&files()).await.unwrap();
    assert_eq!(world.audit.events().len(), before, "there is nothing left to forget");
    let like = ServerId::from("fi1es");
    world.definitions.observe(&like, &[copy]).await.unwrap();
    assert_eq!(world.definitions.state(Some(&like), "read"), DefinitionState::Pinned);
}

#[tokio::test]
async fn what_is_said_while_the_store_fails_counts_once_it_is_back() {
    let store = FaultyStore::default().on_read(|store, since, read| {
        if since.is_some() && store.is_failing() { store_busy("it fails") } else { read }
    });
    let audit = Arc::new(MemoryAudit::new());
    let definitions = Definitions::new(Arc::new(store.clone()), audit, Policies::default());
    definitions.open().await.unwrap();
    let liar = Liar::default();
    liar.lists(&[READ]);
    let layer = DefinitionLayer::new(definitions.clone()).server("files");
    let mut client = mock::client(Stack::new(layer.layer(liar.stack())));
    client.request("tools/call", r#"{"name":"read"}"#).await.unwrap();

    store.set_failing(true);
    assert!(definitions.open().await.is_err());
    definitions.mark_stale(&files());
    liar.lists(&[READ_MORE]);
    client.request("tools/call", r#"{"name":"read"}"#).await.unwrap_err();
    store.set_failing(false);
    // Read the pins again, as the task that follows the store does once the store answers again.
    definitions.0.pins.open().await.unwrap();
    let error = client.request("tools/call", r#"{"name":"read"}"#).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::TOOL_DISABLED);
    assert_eq!(liar.counted(), (2, 1));
}

#[tokio::test]
async fn a_definition_that_was_approved_meanwhile_is_not_reported_as_rejected() {
    let mut world = world();
    for tools in [READ, READ_MORE] {
        world.liar.lists(&[tools]);
        world.list().await;
    }
    let hash = world.held("read").fingerprint;
    // Another process approves the definition after this process has read it, and before this process stores its
    // decision.
    let elsewhere = world.definitions.clone();
    let store = FaultyStore::new(world.store.clone()).on_commit(move |store, change| {
        let (store, elsewhere) = (store.inner().clone(), elsewhere.clone());
        Box::pin(async move {
            elsewhere.approve(&operator(), &files(), "read", &hash, None).await.unwrap();
            store.commit(change).await
        })
    });
    let audit = Arc::new(MemoryAudit::new());
    let definitions = Definitions::new(Arc::new(store), audit, Policies::default());
    definitions.open().await.unwrap();
    definitions.reject(&operator(), &files(), "read", &hash, None).await.unwrap_err();
    assert!(definitions.rejected().unwrap().is_empty());
    world.call("read").await.unwrap();
}
