//! Tests that check which calls must be confirmed, and for which calls a confirmation is valid (MGP §4.4).

use std::future::{pending, ready};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use mgp_types::mcp::Revision;
use mgp_types::mgp::{AccessGrantParams, GrantDecision, RiskLevel};
use mgp_types::proposal::{CallMembers, DataReference};
use mgp_types::service::{
    AcceptedRequests, AskCheck, Call, CallerAccess, CallerRequest, Context, InputRequired,
    MemoryAudit, PeerInfo, Principal, Reply, RoundState, Rounds, Rule, ServerId, Stack, mock,
};
use mgp_types::{ErrorCode, Payload, RpcError, Timestamp};
use tower_layer::Layer;

use crate::{
    Access, Approver, Assessment, AuditLayer, ConfirmConfig, ConfirmFrom, ConfirmLayer,
    Confirmations, Decision, Definitions, ElicitApprover, NamedTool, Policies, Question,
    QuestionSubject, ServerPolicy,
};

const CALL: &str = r#"{"name":"rm","arguments":{"b":1,"a":2}}"#;

/// An approver that gives the answer set by the test, and stores the questions.
#[derive(Clone)]
struct Judge {
    answer: Option<GrantDecision>,
    asked: Arc<Mutex<Vec<Question>>>,
}

impl Judge {
    fn says(answer: GrantDecision) -> Self {
        Self { answer: Some(answer), asked: Arc::default() }
    }

    fn silent() -> Self {
        Self { answer: None, asked: Arc::default() }
    }

    fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Approver for Judge {
    async fn decide(&self, _: &Context, question: Question) -> Result<Decision, RpcError> {
        self.asked.lock().unwrap().push(question);
        match self.answer {
            Some(answer) => {
                let mut decision = Decision::new(answer, "judge");
                decision.details.encode("justification", "it is fine").unwrap();
                Ok(decision)
            }
            None => pending().await,
        }
    }
}

fn assessment(risk: &str, wants: bool) -> Assessment {
    let mut assessment = Assessment::unknown();
    assessment.effective_risk = RiskLevel::from(risk);
    assessment.confirmation_required = wants;
    assessment
}

/// Creates a stack whose tools are dangerous, and a counter of the calls that run.
fn guarded(confirmations: Confirmations) -> (Stack, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let tools = Stack::from_fn(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Reply::empty()))
    });
    let unknown = |_: Option<&ServerId>, _: &str| Arc::new(Assessment::unknown());
    (Stack::new(ConfirmLayer::new(confirmations, unknown).server("files").layer(tools)), ran)
}

fn confirmations(approver: impl Approver + 'static) -> Confirmations {
    Confirmations::new(Policies::default(), approver)
}

/// Returns the text of the member `name` in the details of an error.
fn detail(error: &RpcError, name: &str) -> String {
    error.as_recovery().unwrap().details.as_ref().unwrap().decode(name).unwrap().unwrap()
}

#[test]
fn the_table() {
    let named = NamedTool::by("grant");
    let never = NamedTool::by("grant").never_confirm();
    // The columns are the risk, `confirmation_required` and `confirm = moderate`, and then the result for a tool that
    // no entry names, that an entry names, or that an entry with `never` names.
    let rows = [
        ("safe", false, false, [false, false, false]),
        ("safe", false, true, [false, false, false]),
        ("safe", true, false, [true, true, false]),
        ("moderate", false, false, [false, false, false]),
        ("moderate", false, true, [true, false, false]),
        ("moderate", true, false, [true, true, false]),
        ("dangerous", false, false, [true, false, false]),
        ("dangerous", false, true, [true, false, false]),
        ("dangerous", true, false, [true, true, false]),
        ("harmless", false, false, [true, false, false]),
    ];
    for (risk, wants, moderate, expected) in rows {
        let confirm = if moderate { ConfirmFrom::Moderate } else { ConfirmFrom::Dangerous };
        let policy = ServerPolicy { confirm, ..ServerPolicy::default() };
        let assessment = assessment(risk, wants);
        let asks = [None, Some(&named), Some(&never)]
            .map(|named| assessment.needs_confirmation(&policy, named));
        assert_eq!(asks, expected, "{risk} {wants} {moderate}");
        assert!(!assessment.is_harmless() || asks == [false; 3]);
    }
}

#[tokio::test]
async fn a_call_that_its_check_refuses_is_not_asked_about() {
    let judge = Judge::says(GrantDecision::Approved);
    let (stack, ran) = guarded(confirmations(judge.clone()));
    let mut client = mock::client(stack);
    let refuse = |call: &Call| {
        let is_used = call.tool_arguments().as_str().contains(r#""a":2"#);
        if is_used { Err(RpcError::invalid_params("the key was used before")) } else { Ok(()) }
    };
    client.cx.extensions.insert(AskCheck::new(refuse));
    let refused = client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::INVALID_PARAMS);
    assert!(judge.asked().is_empty());
    client.request("tools/call", &CALL.replace('2', "3")).await.unwrap();
    assert_eq!((judge.asked().len(), ran.load(Ordering::Relaxed)), (1, 1));
}

#[tokio::test]
async fn a_confirmed_call_runs_and_a_denied_one_does_not() {
    let audit = MemoryAudit::new();
    let judge = Judge::says(GrantDecision::Approved);
    let (stack, ran) = guarded(confirmations(judge.clone()).audit(Arc::new(audit.clone())));
    let mut client = mock::client(Stack::new(
        AuditLayer::new(Arc::new(audit.clone())).server("files").layer(stack),
    ));
    client.request("tools/call", CALL).await.unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    let asked = judge.asked().remove(0);
    let QuestionSubject::Call { tool, arguments, risk, .. } = asked.about else {
        panic!("it is about a call")
    };
    assert_eq!((tool.as_str(), arguments.as_str()), ("rm", r#"{"a":2,"b":1}"#));
    assert_eq!(risk, RiskLevel::Dangerous);
    let events = audit.events();
    let types: Vec<_> = events.iter().map(|event| event.event_type.to_string()).collect();
    assert_eq!(types, ["dev.cloto.confirmation_given", "TOOL_EXECUTED"]);
    let details = |index: usize| events[index].details.clone().unwrap();
    assert_eq!(details(0).decode::<String>("justification").unwrap().unwrap(), "it is fine");
    assert_eq!(details(1).decode::<String>("confirmed_by").unwrap().unwrap(), "judge");

    let audit = MemoryAudit::new();
    let denies = confirmations(Judge::says(GrantDecision::Denied)).audit(Arc::new(audit.clone()));
    let (stack, ran) = guarded(denies);
    let error = mock::client(stack).request("tools/call", CALL).await.unwrap_err();
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED);
    assert!(Rule::of(&error).unwrap().as_str().contains("denied"));
    assert_eq!(audit.events()[0].event_type.as_str(), "dev.cloto.confirmation_denied");
}

#[tokio::test]
async fn a_call_as_a_notification_does_not_run_without_a_confirmation() {
    let (stack, ran) = guarded(confirmations(Judge::says(GrantDecision::Approved)));
    let refused = mock::client(stack).notify("tools/call", CALL).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::INVALID_REQUEST);
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn an_answer_in_another_tenant_is_recorded_with_it() {
    for answer in [GrantDecision::Approved, GrantDecision::Denied] {
        let audit = MemoryAudit::new();
        let confirmations = confirmations(Judge::says(answer)).audit(Arc::new(audit.clone()));
        let mut client = mock::client(guarded(confirmations).0);
        client.cx.principal = Principal::new("acme", "ada");
        let is_run = client.request("tools/call", CALL).await.is_ok();
        assert_eq!(is_run, answer == GrantDecision::Approved);
        let details = audit.events()[0].details.clone().unwrap();
        assert_eq!(details.decode::<String>("tenant").unwrap().as_deref(), Some("acme"));
    }
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_refusal_says_what_would_help() {
    let (stack, ran) = guarded(confirmations(ElicitApprover::default()));
    let mut client = mock::client(stack);
    client.request("tools/list", "{}").await.unwrap();
    let error = client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(ran.load(Ordering::Relaxed), 1, "only the list");
    assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED);
    let word = |name: &str| detail(&error, name);
    assert_eq!(word("status"), "nobody_to_ask");
    assert_eq!(word("effective_risk_level"), "dangerous");
    assert_eq!((word("tool"), word("server_id")), ("rm".to_owned(), "files".to_owned()));
    assert_eq!(word("remedy"), "ask an operator to allow it");
}

#[tokio::test]
async fn an_entry_that_names_the_tool_spares_the_question() {
    let judge = Judge::says(GrantDecision::Denied);
    let grants = |_: &Context, server: Option<&ServerId>, tool: &str| {
        (server.is_some_and(|server| server.as_str() == "files") && tool == "rm")
            .then(|| NamedTool::by("tool_grant of local"))
    };
    let audit = MemoryAudit::new();
    let (stack, ran) = guarded(confirmations(judge.clone()).named(grants));
    let stack = AuditLayer::new(Arc::new(audit.clone())).layer(stack);
    let mut client = mock::client(Stack::new(stack));
    client.request("tools/call", CALL).await.unwrap();
    assert!(judge.asked().is_empty() && ran.load(Ordering::Relaxed) == 1);
    let details = audit.events()[0].details.clone().unwrap();
    let by: String = details.decode("confirmation_spared_by").unwrap().unwrap();
    assert_eq!(by, "tool_grant of local");
    let other = r#"{"name":"rmdir","arguments":{}}"#;
    client.request("tools/call", other).await.unwrap_err();
    assert_eq!(judge.asked().len(), 1);
}

#[tokio::test]
async fn a_question_is_bound_to_caller_server_tool_arguments_and_data_reference() {
    let judge = Judge::says(GrantDecision::Approved);
    let (stack, _) = guarded(confirmations(judge.clone()));
    let mut client = mock::client(stack);
    let calls = [
        CALL,
        r#"{"name":"rm","arguments":{ "a": 2, "b": 1 }}"#,
        r#"{"name":"rm","arguments":{"a":2,"b":2}}"#,
        r#"{"name":"rm2","arguments":{"b":1,"a":2}}"#,
    ];
    for call in calls {
        client.request("tools/call", call).await.unwrap();
    }
    for principal in [
        Principal::new("local", "eve"),
        Principal::new("other", "local"),
        Principal::local().agent("a"),
    ] {
        client.cx.principal = principal;
        client.request("tools/call", CALL).await.unwrap();
    }
    client.cx.principal = Principal::local();
    client.cx.server = Some("other".into());
    client.request("tools/call", CALL).await.unwrap();
    for id in ["r1", "/etc/passwd"] {
        let of_exporter =
            DataReference::new(id.to_owned(), "exporter".to_owned(), "text/csv".to_owned());
        let mut members = CallMembers::default();
        members.set(&of_exporter).unwrap();
        client.cx.extensions.insert(members);
        client.request("tools/call", CALL).await.unwrap();
    }
    let shown = |at: usize| format!("{:?}", judge.asked()[at].about);
    assert!(shown(8).contains("r1 of exporter"), "{}", shown(8));
    assert!(!shown(9).contains("passwd"), "not taken for a path: {}", shown(9));
    let mut bindings: Vec<_> = judge.asked().iter().map(|question| question.binding).collect();
    assert_eq!(bindings[0], bindings[1], "the same arguments in another order");
    bindings.sort_unstable();
    bindings.dedup();
    assert_eq!(bindings.len(), 9);
}

#[tokio::test]
async fn arguments_that_name_a_member_twice_are_shown_to_nobody() {
    let judge = Judge::says(GrantDecision::Approved);
    let (stack, ran) = guarded(confirmations(judge.clone()));
    let twice = r#"{"name":"rm","arguments":{"path":"a","path":"b"}}"#;
    let error = mock::client(stack).request("tools/call", twice).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::INVALID_TOOL_ARGS);
    assert!(judge.asked().is_empty() && ran.load(Ordering::Relaxed) == 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_and_open_questions_are_bounded() {
    let config = ConfirmConfig { open_each: 1, open_all: 2, ..ConfirmConfig::default() };
    let audit = MemoryAudit::new();
    let silent = confirmations(Judge::silent()).config(&config).audit(Arc::new(audit.clone()));
    let (stack, ran) = guarded(silent);
    let mut client = mock::client(stack);
    let mut first = client.call("tools/call", CALL);
    assert!(polled_once(&mut first).await.is_none());
    let error = client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
    let began = tokio::time::Instant::now();
    let error = first.await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED);
    assert_eq!(began.elapsed(), Duration::from_secs(30));
    assert_eq!(detail(&error, "status"), "unanswered");
    let told = audit.events().remove(0);
    assert_eq!(told.event_type.as_str(), "dev.cloto.confirmation_denied");
    assert_eq!(told.actor.kind, "kernel");
    // If the caller drops its call, the open question is withdrawn, too.
    let mut second = client.call("tools/call", CALL);
    assert!(polled_once(&mut second).await.is_none());
    drop(second);
    let mut third = client.call("tools/call", CALL);
    assert!(polled_once(&mut third).await.is_none());
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

/// Polls a future once.
async fn polled_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|task| {
        let polled = std::pin::Pin::new(&mut *future).poll(task);
        std::task::Poll::Ready(match polled {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn a_grant_of_the_tool_spares_the_question_where_definitions_are_known() {
    let policies = Policies::default();
    let files = ServerId::from("files");
    let definitions = Definitions::in_memory(policies.clone());
    let tool = r#"{"name":"rm","inputSchema":{},"security":{"risk_level":"dangerous"}}"#;
    definitions.learn(Some(&files), &[serde_json::from_str(tool).unwrap()]);
    let access = Access::in_memory(policies.clone());
    let confirmations =
        Confirmations::new(policies, ElicitApprover::default()).named(access.clone());
    let tools = Stack::from_fn(|_| ready(Ok(Reply::empty())));
    let layer = ConfirmLayer::new(confirmations, definitions).server("files");
    let mut client = mock::client(Stack::new(layer.layer(tools)));
    let error = client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED);
    let grant = AccessGrantParams::allow("local", "files").tool("rm");
    access.grant(&Principal::local().operator(), grant).await.unwrap();
    client.request("tools/call", CALL).await.unwrap();
    let other = CALL.replace("rm", "rmdir");
    client.request("tools/call", &other).await.unwrap_err();
}

// === Rounds of a modern caller ===

/// A caller of the modern protocol version, with the state of its rounds.
struct Modern {
    stack: Stack,
    state: RoundState,
}

impl Modern {
    fn new(stack: &Stack) -> Self {
        let state = RoundState { logical: "call-1".to_owned(), ..RoundState::default() };
        Self { stack: stack.clone(), state }
    }

    /// Sends one round; returns the reply, and the state with which the next round begins.
    async fn round(&self) -> (Result<Reply, RpcError>, RoundState) {
        let rounds = Rounds::new(self.state.clone());
        let mut client = mock::client(self.stack.clone());
        let mut facts = PeerInfo::new(Revision::MODERN);
        let mut asks = AcceptedRequests::default();
        asks.elicitation = true;
        facts.accepts = asks;
        client.cx.caller = Arc::new(facts);
        client.cx.logical = Some(self.state.logical.as_str().into());
        let asking = CallerAccess::Channel(Arc::new(rounds.clone()));
        client.cx.caller_access = asking.clone();
        let outcome = asking.run_round(client.call("tools/call", CALL)).await;
        (outcome, rounds.state())
    }

    /// Sends one round and stores answers to its questions for the next round; returns the names of the questions.
    async fn go_on(&mut self, answer: &str) -> Vec<String> {
        let (outcome, mut state) = self.round().await;
        let Ok(Reply::InputRequired(needed)) = outcome else { panic!("it must ask: {outcome:?}") };
        let keys: Vec<_> = needed.asks.into_iter().map(|(key, _)| key).collect();
        for key in std::mem::take(&mut state.asked) {
            state.answers.insert(key, Payload::parse(answer.to_owned()).unwrap());
        }
        self.state = state;
        keys
    }
}

const YES: &str = r#"{"action":"accept","content":{"confirm":true}}"#;

#[tokio::test]
async fn an_answered_question_is_good_for_one_run() {
    let audit = MemoryAudit::new();
    let (stack, ran) =
        guarded(confirmations(ElicitApprover::everyone()).audit(Arc::new(audit.clone())));
    let mut caller = Modern::new(&stack);
    let keys = caller.go_on(YES).await;
    assert!(keys.len() == 1 && keys[0].starts_with("mgp.confirm"), "{keys:?}");
    caller.round().await.0.unwrap();
    for _ in 0..3 {
        let error = caller.round().await.0.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED);
        assert_eq!(detail(&error, "status"), "used");
    }
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    assert_eq!(audit.events().len(), 1, "it was given once");
}

#[tokio::test]
async fn an_answer_that_came_before_its_question_is_none() {
    let (stack, ran) = guarded(confirmations(ElicitApprover::everyone()));
    let mut caller = Modern::new(&stack);
    let key = caller.go_on(YES).await.remove(0);
    let mut early = Modern::new(&stack);
    early.state.answers.insert(key.clone(), Payload::from_trusted(YES));
    early.state.early.insert(key.clone());
    assert_eq!(early.go_on(YES).await, [key]);
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_confirmation_covers_all_rounds_of_its_call_but_no_round_twice() {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let tool = Stack::from_fn(move |call: Call| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            let ask = CallerRequest::new("elicitation/create", Payload::empty_object());
            Ok(Reply::raw(call.cx().ask("own", ask).await?))
        }
    });
    let judge = Judge::says(GrantDecision::Approved);
    let unknown = |_: Option<&ServerId>, _: &str| Arc::new(Assessment::unknown());
    let layer = ConfirmLayer::new(confirmations(judge.clone()), unknown);
    let mut caller = Modern::new(&Stack::new(layer.layer(tool)));
    let beginning = caller.state.clone();
    assert_eq!(caller.go_on("7").await, ["own"]);
    caller.round().await.0.unwrap();
    assert_eq!(judge.asked().len(), 1, "the second round is the same call");
    assert_eq!(ran.load(Ordering::Relaxed), 2);
    caller.round().await.0.unwrap_err();
    caller.state = beginning;
    caller.round().await.0.unwrap_err();
    assert_eq!(ran.load(Ordering::Relaxed), 2);
}

/// An approver whose approvals have already expired.
struct Late;

#[async_trait]
impl Approver for Late {
    async fn decide(&self, _: &Context, _: Question) -> Result<Decision, RpcError> {
        let mut decision = Decision::new(GrantDecision::Approved, "late");
        decision.expires_at = Some(Timestamp::from(SystemTime::UNIX_EPOCH));
        Ok(decision)
    }
}

#[tokio::test]
async fn a_confirmation_expires() {
    let config = ConfirmConfig { lives: Duration::ZERO, ..ConfirmConfig::default() };
    let (stack, ran) = guarded(confirmations(Judge::says(GrantDecision::Approved)).config(&config));
    let error = mock::client(stack).request("tools/call", CALL).await.unwrap_err();
    assert_eq!(detail(&error, "status"), "expired");
    for part in ["the clock was changed", "no longer counts: call again to be asked again"] {
        assert!(error.message().contains(part), "{error}");
    }
    assert_eq!(ran.load(Ordering::Relaxed), 0);

    let (stack, ran) = guarded(confirmations(Late));
    mock::client(stack).request("tools/call", CALL).await.unwrap_err();
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_confirmation_is_valid_for_as_long_as_a_form_waits_now() {
    let wait = Arc::new(Mutex::new(Duration::from_mins(10)));
    let current = Arc::clone(&wait);
    let approver = ElicitApprover::everyone().wait_by(move || *current.lock().unwrap());
    let (stack, ran) = guarded(confirmations(approver));
    *wait.lock().unwrap() = Duration::from_hours(2);
    let mut caller = Modern::new(&stack);
    caller.go_on(YES).await;
    // The person answers after an hour.
    assert_eq!(caller.state.kept.len(), 1);
    for kept in caller.state.kept.values_mut() {
        let mut confirmation: serde_json::Value = serde_json::from_str(kept.as_str()).unwrap();
        let asked_at = confirmation["asked_at"].as_u64().unwrap();
        confirmation["asked_at"] = (asked_at - 3_600_000).into();
        *kept = Payload::of(&confirmation).unwrap();
    }
    caller.round().await.0.unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_first_round_that_comes_twice_runs_once() {
    let tool = Stack::from_fn(|_| {
        ready(Ok(Reply::InputRequired(InputRequired { asks: Vec::new(), state: Some("s".into()) })))
    });
    let unknown = |_: Option<&ServerId>, _: &str| Arc::new(Assessment::unknown());
    let judge = Judge::says(GrantDecision::Approved);
    let layer = ConfirmLayer::new(confirmations(judge.clone()), unknown);
    let caller = Modern::new(&Stack::new(layer.layer(tool)));
    assert!(matches!(caller.round().await.0, Ok(Reply::InputRequired(_))));
    assert!(caller.round().await.0.is_err(), "the first round came twice");
    assert_eq!(judge.asked().len(), 2);
}
