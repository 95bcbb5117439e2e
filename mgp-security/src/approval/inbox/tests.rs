//! Tests of the inbox: waiting calls, decisions, limits, and restarts.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_testkit::FaultyStore;
use mgp_types::mgp::{GrantDecision, Permission, RiskLevel};
use mgp_types::service::{Context, MemoryAudit, Principal, Router, Rule, ServerId, Stack, mock};
use mgp_types::store::{MemoryStore, Store as _};
use mgp_types::{ErrorCode, Payload, Sha256Hash};

use super::*;
use crate::approval::{
    AnswerPlace, ApprovalTerm, Approver as _, Decision, LeftOpen, Question, QuestionSubject,
};
use crate::permission::{Approval, PermissionChange, Permissions};
use crate::policy::Policies;

mod beside;
mod later_calls;
mod reviews;

struct World {
    store: Arc<MemoryStore>,
    audit: Arc<MemoryAudit>,
    inbox: Inbox,
    cx: Context,
}

impl World {
    async fn open() -> Self {
        Self::over(Arc::new(MemoryStore::new())).await
    }

    async fn over(store: Arc<MemoryStore>) -> Self {
        let audit = Arc::new(MemoryAudit::new());
        let config = InboxConfig { max_open_per_caller: 2, max_open: 3, ..InboxConfig::default() };
        let inbox = Inbox::with_config(store.clone(), audit.clone(), config);
        inbox.open().await.unwrap();
        let cx = mock::client(Stack::new(Router::new())).cx;
        Self { store, audit, inbox, cx }
    }

    async fn ask(&self, question: &Question) -> Decision {
        self.inbox.decide(&self.cx, question.clone()).await.unwrap()
    }

    fn events(&self) -> Vec<String> {
        let events = self.audit.events();
        events.iter().map(|event| event.event_type.as_str().to_owned()).collect()
    }
}

fn agent(name: &str) -> Principal {
    Principal::local().agent(name)
}

fn ann() -> Principal {
    Principal::new("local", "ann").operator()
}

fn wipe(principal: &Principal, what: &str) -> Question {
    let arguments = format!(r#"{{"what":"{what}"}}"#);
    let binding = Sha256Hash::digest(format!("{principal:?} {arguments}").as_bytes());
    let about = QuestionSubject::Call {
        tool: "wipe".to_owned(),
        arguments,
        risk: RiskLevel::Dangerous,
        permissions: Vec::new(),
    };
    Question::new(about, Some("disk".into()), principal.clone(), binding)
}

fn id(decision: &Decision) -> String {
    decision.details.decode("approval_id").unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_is_approved_and_runs_once() {
    let world = World::open().await;
    let question = wipe(&agent("eve"), "all");
    let waits = world.ask(&question).await;
    assert_eq!(waits.answer, GrantDecision::Deferred);
    let status: String = waits.details.decode("status").unwrap().unwrap();
    assert_eq!(status, "approval_pending");
    // Repeating the question finds the same request.
    assert_eq!(id(&world.ask(&question).await), id(&waits));
    let listed = world.inbox.list(&ann()).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert!(listed[0].question.contains("wipe") && listed[0].agent_id.as_deref() == Some("eve"));

    world.inbox.approve(&ann(), &id(&waits), Some("fine")).await.unwrap();
    // A different call creates a different request.
    assert_eq!(world.ask(&wipe(&agent("eve"), "home")).await.answer, GrantDecision::Deferred);
    assert_eq!(world.ask(&wipe(&agent("bob"), "all")).await.answer, GrantDecision::Deferred);
    let runs = world.ask(&question).await;
    assert_eq!((runs.answer, runs.by.as_str()), (GrantDecision::Approved, "ann"));
    let again = world.ask(&question).await;
    assert_eq!(again.answer, GrantDecision::Deferred);
    assert_ne!(id(&again), id(&waits));
    let events_of = world.events();
    assert_eq!(events_of[..2], ["dev.cloto.approval_requested", "dev.cloto.approval_decided"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_counts_once_for_all_inboxes_over_one_store() {
    let one = World::open().await;
    let other = World::over(Arc::clone(&one.store)).await;
    let question = wipe(&agent("eve"), "all");
    let waits = one.ask(&question).await;
    one.inbox.approve(&ann(), &id(&waits), None).await.unwrap();
    // Both inboxes have read the approval. The second inbox has not read that the first one used it.
    other.inbox.open().await.unwrap();
    assert_eq!(one.ask(&question).await.answer, GrantDecision::Approved);
    let waits = other.ask(&question).await;
    assert_eq!(waits.answer, GrantDecision::Deferred);

    one.inbox.open().await.unwrap();
    other.inbox.approve(&ann(), &id(&waits), None).await.unwrap();
    let refused = one.inbox.deny(&ann(), &id(&waits), None).await.unwrap_err();
    assert!(refused.to_string().contains("is approved already"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_calls_like_one_also_answers_the_open_requests_that_it_covers() {
    let world = World::open().await;
    let wipe_file = |principal: &Principal, file: &str| {
        let mut question = wipe(principal, file);
        let QuestionSubject::Call { arguments, .. } = &mut question.about else { panic!() };
        *arguments = format!(r#"{{"path":"/srv/a/{file}.txt"}}"#);
        question
    };
    let (first, second) = (wipe_file(&agent("eve"), "1"), wipe_file(&agent("eve"), "2"));
    let other = wipe_file(&agent("bob"), "2");
    let waits = id(&world.ask(&first).await);
    let (covered, foreign) = (id(&world.ask(&second).await), id(&world.ask(&other).await));
    let like = ApprovalTerm::Like { until: None };
    world.inbox.approve_for(&ann(), &waits, &like, Some("its folder")).await.unwrap();
    let state = |wanted: String, all: &[Arc<ApprovalRequest>]| {
        all.iter().find(|request| request.id == wanted).unwrap().state
    };
    let all = world.inbox.list(&ann()).await.unwrap();
    assert_eq!(state(covered, &all), RequestState::Approved);
    assert_eq!(state(foreign, &all), RequestState::Open, "another agent asks");
    assert_eq!(world.ask(&second).await.answer, GrantDecision::Approved);
    let decided = world.events().into_iter().filter(|kind| kind.ends_with("approval_decided"));
    assert_eq!(decided.count(), 3, "two requests and the approval of later calls");
}

#[tokio::test(start_paused = true)]
async fn a_question_and_its_answer_are_recorded_with_the_call_the_rule_and_the_place() {
    let world = World::open().await;
    let mut question = wipe(&agent("eve"), "all");
    question.trace = Some("trace-7".to_owned());
    question.rule = Some(Rule::new("confirmation of dangerous calls"));
    let waits = id(&world.ask(&question).await);
    let page = world.inbox.answered_at(AnswerPlace::Page);
    page.approve(&ann(), &waits, None).await.unwrap();
    let listed = world.inbox.list(&ann()).await.unwrap().remove(0).to_listed(false);
    assert_eq!(
        (listed.via.as_deref(), listed.trace_id.as_deref()),
        (Some("page"), Some("trace-7"))
    );
    let events = world.audit.events();
    assert!(events.iter().all(|event| event.trace_id.as_deref() == Some("trace-7")), "{events:?}");
    let detail = |at: usize, name: &str| {
        let details = events[at].details.as_ref().unwrap();
        details.decode::<String>(name).unwrap()
    };
    assert_eq!(detail(0, "rule").as_deref(), Some("confirmation of dangerous calls"));
    assert_eq!((detail(0, "via"), detail(1, "via").as_deref()), (None, Some("page")));
    // The place is still known after a restart.
    let again = World::over(world.store.clone()).await;
    assert_eq!(again.inbox.list(&ann()).await.unwrap()[0].via, Some(AnswerPlace::Page));
}

#[tokio::test(start_paused = true)]
async fn an_operator_neither_sees_nor_decides_what_another_tenant_asks() {
    let world = World::open().await;
    let question = wipe(&Principal::new("acme", "eve").agent("eve"), "all");
    let waits = id(&world.ask(&question).await);
    assert!(world.inbox.list(&ann()).await.unwrap().is_empty());
    for decided in [
        world.inbox.approve(&ann(), &waits, None).await,
        world.inbox.deny(&ann(), &waits, None).await,
    ] {
        assert_eq!(decided.unwrap_err().code(), ErrorCode::INVALID_PARAMS);
    }
    // The same call by the same agent in another tenant creates a different request.
    let own = world.ask(&wipe(&agent("eve"), "all")).await;
    assert_ne!(id(&own), waits);
    let ada = Principal::new("acme", "ada").operator();
    world.inbox.approve(&ada, &waits, None).await.unwrap();
    assert_eq!(world.ask(&question).await.answer, GrantDecision::Approved);
    assert_eq!(world.inbox.list(&ann()).await.unwrap()[0].state, RequestState::Open);
}

/// Returns an operator's approvals of permissions of the server `disk`.
async fn approvals(permissions: &[Permission]) -> Vec<Approval> {
    let change = PermissionChange::of("disk", permissions.iter().cloned());
    Permissions::in_memory(Policies::default()).approve(&ann(), change).await.unwrap()
}

/// Returns the question about a call that lacks permissions.
fn lacking(permissions: &[Permission]) -> Question {
    let mut question = wipe(&agent("eve"), "all");
    question.call = Some(question.binding);
    question.binding = Sha256Hash::digest(format!("{permissions:?}").as_bytes());
    let QuestionSubject::Call { permissions: lacked, .. } = &mut question.about else {
        unreachable!("it is about a call")
    };
    *lacked = permissions.to_vec();
    question
}

/// Returns the question about permissions of the server `disk`.
fn asking_for(permissions: &[Permission]) -> Question {
    let about = QuestionSubject::Permissions { permissions: permissions.to_vec(), tool: None };
    let binding = Sha256Hash::digest(format!("all calls {permissions:?}").as_bytes());
    Question::new(about, Some("disk".into()), agent("eve"), binding)
}

#[tokio::test(start_paused = true)]
async fn a_question_about_a_call_no_longer_names_what_was_granted_elsewhere() {
    let world = World::open().await;
    let both = [Permission::Camera, Permission::SystemInfo];
    let asked = id(&world.ask(&lacking(&both)).await);
    let listed = async || world.inbox.list(&ann()).await.unwrap();
    let names = |text: &str| both.clone().map(|name| text.contains(name.as_str()));
    assert_eq!(names(&listed().await[0].question), [true, true]);

    let granted = approvals(&both[..1]).await;
    world.inbox.settle(&ann(), &"disk".into(), &granted).await.unwrap();
    let open = listed().await;
    assert_eq!((open.len(), &*open[0].id, names(&open[0].question)), (1, &*asked, [false, true]));
    // The call now lacks no permission, and its question still finds the same request.
    assert_eq!(id(&world.ask(&lacking(&[])).await), asked);
    assert_eq!(names(&listed().await[0].question), [false, false]);

    // Then the call lacks a permission again. The approved request no longer names this permission, so the approval
    // does not cover the call.
    world.inbox.approve(&ann(), &asked, None).await.unwrap();
    let more = id(&world.ask(&lacking(&both[..1])).await);
    assert_ne!(more, asked);
    assert_eq!(world.ask(&lacking(&[])).await.answer, GrantDecision::Approved);
    // An approval that grants more permissions than the call lacks also answers the call.
    world.inbox.approve(&ann(), &more, None).await.unwrap();
    assert_eq!(world.ask(&lacking(&[])).await.answer, GrantDecision::Approved);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_was_decided_elsewhere_does_not_stay_open() {
    let world = World::open().await;
    let both = [Permission::Camera, Permission::SystemInfo];
    let question = asking_for(&both);
    let disk = ServerId::from("disk");
    let decided = approvals(&both).await;
    let deciding = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        // One decided permission of two does not close the request, and neither do decisions for another server.
        world.inbox.settle(&ann(), &disk, &decided[..1]).await.unwrap();
        world.inbox.settle(&ann(), &"other".into(), &decided).await.unwrap();
        assert_eq!(world.inbox.list(&ann()).await.unwrap()[0].state, RequestState::Open);
        world.inbox.settle(&ann(), &disk, &decided).await.unwrap();
    };
    let start = tokio::time::Instant::now();
    let (waits, ()) = tokio::join!(world.ask(&question), deciding);
    assert!(start.elapsed() < Duration::from_secs(5), "the call does not wait any longer");
    assert_eq!(waits.answer, GrantDecision::Deferred);
    let listed = world.inbox.list(&ann()).await.unwrap();
    assert_eq!((listed.len(), listed[0].state), (1, RequestState::Settled));
    assert_eq!(listed[0].decided_by.as_deref(), Some("ann"));
    assert_eq!(world.events().last().unwrap(), "dev.cloto.approval_decided");
    // A closed request is not the answer to a later question.
    world.ask(&question).await;
    assert_eq!(world.inbox.list(&ann()).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_has_expired_closes_no_question() {
    let world = World::open().await;
    let camera = [Permission::Camera];
    world.ask(&asking_for(&camera)).await;
    let mut expired = approvals(&camera).await;
    expired[0].expires_at = Some(SystemTime::UNIX_EPOCH.into());
    world.inbox.settle(&ann(), &"disk".into(), &expired).await.unwrap();
    assert_eq!(world.inbox.list(&ann()).await.unwrap()[0].state, RequestState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_decision_of_another_process_is_not_overwritten_by_one_about_the_permissions() {
    let other = World::open().await;
    let both = [Permission::Camera, Permission::SystemInfo];
    let asked = id(&other.ask(&lacking(&both)).await);
    // The other process denies the request after this process has read it, and before this process stores its change.
    let deciding = other.inbox.clone();
    let shared = FaultyStore::new(MemoryStore::clone(&other.store));
    let store = shared.on_commit(move |store, change| {
        let (store, deciding, asked) = (store.inner().clone(), deciding.clone(), asked.clone());
        Box::pin(async move {
            if deciding.list(&ann()).await.unwrap()[0].state == RequestState::Open {
                deciding.deny(&ann(), &asked, None).await.unwrap();
            }
            store.commit(change).await
        })
    });
    let inbox = Inbox::new(Arc::new(store), Arc::new(MemoryAudit::new()));
    inbox.open().await.unwrap();
    inbox.settle(&ann(), &"disk".into(), &approvals(&both[..1]).await).await.unwrap();
    assert_eq!(inbox.list(&ann()).await.unwrap()[0].state, RequestState::Denied);
}

#[tokio::test(start_paused = true)]
async fn unused_approvals_of_revoked_permissions_are_removed() {
    let world = World::open().await;
    let questions = [Permission::Camera, Permission::SystemInfo].map(|one| asking_for(&[one]));
    for question in &questions {
        let waits = world.ask(question).await;
        world.inbox.approve(&ann(), &id(&waits), None).await.unwrap();
    }
    let (camera, disk) = ([Permission::Camera], ServerId::from("disk"));
    let (bob, other) = (Principal::new("acme", "bob").operator(), ServerId::from("other"));
    for (by, server) in [(&bob, &disk), (&ann(), &other)] {
        let none = world.inbox.forget_approvals(by, server, &camera).await.unwrap();
        assert!(none.is_empty(), "{by:?} {server}");
    }
    assert_eq!(world.inbox.forget_approvals(&ann(), &disk, &camera).await.unwrap(), camera);
    assert_eq!(world.events().last().unwrap(), "dev.cloto.approval_decided");
    let answers = [world.ask(&questions[0]).await, world.ask(&questions[1]).await];
    let answers = answers.map(|decision| decision.answer);
    assert_eq!(answers, [GrantDecision::Deferred, GrantDecision::Approved]);
    // A request that is still open is not removed.
    assert!(world.inbox.forget_approvals(&ann(), &disk, &camera).await.unwrap().is_empty());
    assert_eq!(world.inbox.list(&ann()).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_denial_of_revoked_permissions_does_not_answer_the_next_question() {
    let world = World::open().await;
    let camera = [Permission::Camera];
    let (all, one) = (asking_for(&camera), lacking(&camera));
    for question in [&all, &one] {
        let waits = world.ask(question).await;
        world.inbox.deny(&ann(), &id(&waits), None).await.unwrap();
        assert_eq!(world.ask(question).await.answer, GrantDecision::Denied);
    }
    let recorded = world.events().len();
    let forgotten = world.inbox.forget_approvals(&ann(), &"disk".into(), &camera).await.unwrap();
    assert!(forgotten.is_empty() && world.events().len() == recorded);
    assert_eq!(world.ask(&all).await.answer, GrantDecision::Deferred);
    assert_eq!(world.ask(&one).await.answer, GrantDecision::Denied, "it denied the call");
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_permissions_cannot_be_used_after_their_end() {
    let world = World::open().await;
    let waits = id(&world.ask(&asking_for(&[Permission::Camera])).await);
    let until = mgp_types::Timestamp::from(SystemTime::now() + Duration::from_mins(10));
    let term = ApprovalTerm::Tool { until: until.clone() };
    let decided = world.inbox.approve_for(&ann(), &waits, &term, None).await.unwrap();
    assert_eq!((decided.holds_until.as_ref(), &decided.expires_at), (Some(&until), &until));
}

#[tokio::test(start_paused = true)]
async fn a_revoked_approval_of_later_calls_leaves_no_answer_that_runs_a_call() {
    let world = World::open().await;
    let questions = [wipe(&agent("eve"), "1"), wipe(&agent("eve"), "2")];
    let waits = id(&world.ask(&questions[0]).await);
    world.ask(&questions[1]).await;
    let until = (SystemTime::now() + Duration::from_hours(1)).into();
    let all_calls = ApprovalTerm::Tool { until };
    world.inbox.approve_for(&ann(), &waits, &all_calls, None).await.unwrap();
    let kept = world.inbox.calls().list(&ann(), None).await.unwrap();
    let names = [Permission::from(kept[0].id.as_str())];
    let revoked = world.inbox.revoke_calls(&ann(), &"disk".into(), &names).await.unwrap();
    assert_eq!(revoked, kept);
    for question in &questions {
        assert_eq!(world.ask(question).await.answer, GrantDecision::Deferred);
    }
}

#[tokio::test(start_paused = true)]
async fn an_ended_approval_of_later_calls_leaves_no_answer_that_runs_a_call() {
    let world = World::open().await;
    let question = wipe(&agent("eve"), "all");
    let waits = id(&world.ask(&question).await);
    let until = SystemTime::now() + Duration::from_secs(1);
    let ends = ApprovalTerm::Tool { until: until.into() };
    world.inbox.approve_for(&ann(), &waits, &ends, None).await.unwrap();
    // The approval ends by the system clock, which is not paused, so wait until its end has really passed.
    while SystemTime::now() <= until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(world.ask(&question).await.answer, GrantDecision::Deferred);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_the_permissions_cannot_take_over_leaves_the_request_open() {
    let world = World::open().await;
    let waits = id(&world.ask(&asking_for(&[Permission::Camera])).await);
    let past = ApprovalTerm::Tool { until: SystemTime::UNIX_EPOCH.into() };
    let unreadable = ApprovalTerm::Like { until: Some("tomorrow".into()) };
    let long = "x".repeat(1025);
    for refused in [
        world.inbox.approve_for(&ann(), &waits, &past, None).await,
        world.inbox.approve_for(&ann(), &waits, &unreadable, None).await,
        world.inbox.approve(&ann(), &waits, Some(&long)).await,
        world.inbox.deny(&ann(), &waits, Some(&long)).await,
    ] {
        assert_eq!(refused.unwrap_err().code(), ErrorCode::INVALID_PARAMS);
    }
    assert_eq!(world.inbox.list(&ann()).await.unwrap()[0].state, RequestState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_asks_no_more_about_a_server_that_was_removed() {
    let world = World::open().await;
    let question = wipe(&agent("eve"), "all");
    let removing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.inbox.forget_server(&"disk".into()).await.unwrap();
    };
    let (decision, ()) = tokio::join!(world.ask(&question), removing);
    let closed = (GrantDecision::Deferred, Some(LeftOpen::Closed));
    assert_eq!((decision.answer, decision.left_open()), closed);
    assert!(world.inbox.list(&ann()).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_short_name_revokes_the_approvals_of_calls_that_need_its_permissions() {
    let world = World::open().await;
    let waits = id(&world.ask(&lacking(&[Permission::MemoryRead])).await);
    let like = ApprovalTerm::Like { until: None };
    world.inbox.approve_for(&ann(), &waits, &like, None).await.unwrap();
    let revoke = async |name: &str| {
        let names = [Permission::from(name)];
        world.inbox.revoke_calls(&ann(), &"disk".into(), &names).await.unwrap().len()
    };
    assert_eq!((revoke("code").await, revoke("memory").await), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn approval_of_calls_like_one_covers_no_other_arguments_of_its_command() {
    let world = World::open().await;
    let running = |path: &str| {
        let mut question = wipe(&agent("eve"), path);
        let QuestionSubject::Call { arguments, .. } = &mut question.about else { panic!() };
        *arguments = format!(r#"{{"args":["-rf","{path}"],"command":"rm"}}"#);
        question
    };
    let (first, other) = (running("/tmp/x"), running("/home/ann"));
    let (waits, open) = (id(&world.ask(&first).await), id(&world.ask(&other).await));
    let like = ApprovalTerm::Like { until: None };
    world.inbox.approve_for(&ann(), &waits, &like, None).await.unwrap();
    assert_eq!(world.ask(&first).await.answer, GrantDecision::Approved);
    let again = world.ask(&other).await;
    assert_eq!((again.answer, id(&again)), (GrantDecision::Deferred, open));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_gets_the_decision_at_once() {
    let world = World::open().await;
    let question = wipe(&agent("eve"), "all");
    let (inbox, cx) = (world.inbox.clone(), world.cx.clone());
    let asked = tokio::spawn(async move { inbox.decide(&cx, question).await.unwrap() });
    let began = tokio::time::Instant::now();
    let open = loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if let [open] = &world.inbox.list(&ann()).await.unwrap()[..] {
            break open.id.clone();
        }
    };
    world.inbox.deny(&ann(), &open, Some("never")).await.unwrap();
    let denied = asked.await.unwrap();
    assert_eq!(denied.answer, GrantDecision::Denied);
    let why: String = denied.details.decode("justification").unwrap().unwrap();
    assert_eq!(why, "never");
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn only_an_operator_decides_and_never_for_itself() {
    let world = World::open().await;
    let eve = agent("eve").operator();
    let waits = id(&world.ask(&wipe(&eve, "all")).await);
    let refused = world.inbox.approve(&agent("eve"), &waits, None).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PERMISSION_DENIED);
    let refused = world.inbox.approve(&eve, &waits, None).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PERMISSION_DENIED);
    let refused = world.inbox.list(&agent("eve")).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PERMISSION_DENIED);
    world.inbox.approve(&ann(), &waits, None).await.unwrap();
    let twice = world.inbox.deny(&ann(), &waits, None).await.unwrap_err();
    assert_eq!(twice.code(), ErrorCode::INVALID_PARAMS);
    let unknown = world.inbox.approve(&ann(), "nothing", None).await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::INVALID_PARAMS);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_open_requests_is_bounded() {
    let world = World::open().await;
    let full = |question: Question| {
        let (inbox, cx) = (world.inbox.clone(), world.cx.clone());
        async move { inbox.decide(&cx, question).await.unwrap_err().code() }
    };
    for what in ["a", "b"] {
        world.ask(&wipe(&agent("eve"), what)).await;
    }
    assert_eq!(full(wipe(&agent("eve"), "c")).await, ErrorCode::RESOURCE_EXHAUSTED);
    world.ask(&wipe(&agent("bob"), "a")).await;
    assert_eq!(full(wipe(&agent("ada"), "a")).await, ErrorCode::RESOURCE_EXHAUSTED);
    // The requests of one tenant do not use up the limits of another.
    let foreign = wipe(&Principal::new("acme", "eve").agent("eve"), "a");
    assert_eq!(world.ask(&foreign).await.answer, GrantDecision::Deferred);
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_is_refused_until_the_denial_is_taken_back() {
    let world = World::open().await;
    let question = wipe(&agent("eve"), "all");
    let waits = id(&world.ask(&question).await);
    world.inbox.deny(&ann(), &waits, Some("not today")).await.unwrap();
    assert_eq!(world.ask(&question).await.answer, GrantDecision::Denied);
    let about = |what: &str| {
        let arguments = Payload::from_trusted(format!(r#"{{ "what": "{what}" }}"#));
        world.inbox.about_call(&agent("eve"), &"disk".into(), "wipe", &arguments)
    };
    assert_eq!(about("all").map(|request| request.state), Some(RequestState::Denied));
    assert_eq!(about("home"), None);

    world.inbox.approve(&ann(), &waits, None).await.unwrap();
    assert_eq!(about("all").map(|request| request.state), Some(RequestState::Approved));
    assert_eq!(world.ask(&question).await.answer, GrantDecision::Approved);
    // The approval is used, so the next call is a new question.
    assert_eq!(world.ask(&question).await.answer, GrantDecision::Deferred);
    let refused = world.inbox.approve(&ann(), &waits, None).await.unwrap_err();
    assert!(refused.message().contains("is used already"), "{refused}");

    // A form with the same question was declined, perhaps by the host without asking the person. An operator may still
    // approve the call.
    let waits = id(&world.ask(&question).await);
    let declined = Decision::new(GrantDecision::Denied, "eve");
    assert!(world.inbox.close(&waits, &declined).await.unwrap());
    assert!(world.inbox.deny(&ann(), &waits, None).await.is_err());
    world.inbox.approve(&ann(), &waits, None).await.unwrap();
    assert_eq!(world.ask(&question).await.answer, GrantDecision::Approved);
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_an_open_request_does_not_overturn_a_denial() {
    let world = World::open().await;
    let question = wipe(&agent("eve"), "all");
    let waits = id(&world.ask(&question).await);
    world.inbox.deny(&ann(), &waits, Some("not today")).await.unwrap();
    let late = world.inbox.expecting(Some("open")).approve(&ann(), &waits, None).await.unwrap_err();
    assert_eq!(late.code(), ErrorCode::INVALID_PARAMS);
    let expected = format!("invalid params: `{waits}` is denied already, by ann: not today");
    assert_eq!(late.message(), expected);
    assert_eq!(world.ask(&question).await.answer, GrantDecision::Denied);
    // An operator who saw the denial takes it back.
    let page = world.inbox.expecting(Some("denied")).answered_at(AnswerPlace::Page);
    page.approve(&ann(), &waits, None).await.unwrap();
    assert_eq!(world.ask(&question).await.answer, GrantDecision::Approved);
}

#[tokio::test(start_paused = true)]
async fn answers_of_programs_do_not_fill_the_inbox() {
    let world = World::open().await;
    let denied = id(&world.ask(&wipe(&agent("eve"), "denied")).await);
    world.inbox.deny(&ann(), &denied, None).await.unwrap();
    for file in 0..300 {
        let question = wipe(&agent("eve"), &file.to_string());
        let waits = id(&world.ask(&question).await);
        world.inbox.approve(&ann(), &waits, None).await.unwrap();
        assert_eq!(world.ask(&question).await.answer, GrantDecision::Approved);
    }
    let listed = world.inbox.list(&ann()).await.unwrap();
    let used = listed.iter().filter(|request| request.state == RequestState::Used);
    assert_eq!(used.count(), 257, "256 are kept when a request is added, which is then used too");
    let newest = &listed.last().unwrap().question;
    assert!(newest.contains("299"), "the oldest are removed: {newest}");
    let again = world.ask(&wipe(&agent("eve"), "denied")).await;
    assert_eq!(again.answer, GrantDecision::Denied, "a denial is kept");
}
