//! Tests of changes while an approval is pending: a call that was approved but is no longer allowed does not run.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use mgp_security::{
    Approver, Assess, Assessment, CallOutcome, ConfirmLayer, Confirmations, DecideOnly, Decision,
    Governance, PermissionChange, Policies, Question, QuestionSubject, Requirement, ServerPolicy,
};
use mgp_types::mgp::{
    AccessGrantParams, AccessRevokeParams, DefaultPolicy, GrantDecision, Permission,
    PermissionScope, RiskLevel, Validator,
};
use mgp_types::service::{
    Call, Context, CredentialGrant, MemoryAudit, Method, Params, Principal, Recheck, Reply,
    ServerId, Stack, WaitMark, mock,
};
use mgp_types::{ErrorCode, Payload, RpcError, Sha256Hash};
use tokio::sync::Semaphore;
use tower_layer::Layer;

const CALL: &str = r#"{"name":"wipe","arguments":{}}"#;

/// An approver that answers "yes" when the test allows it to answer.
#[derive(Clone)]
struct Person {
    asked: Arc<AtomicUsize>,
    permits: Arc<Semaphore>,
}

impl Person {
    fn new() -> Self {
        Self { asked: Arc::default(), permits: Arc::new(Semaphore::new(0)) }
    }

    async fn was_asked(&self, times: usize) {
        while self.asked.load(Ordering::Relaxed) < times {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl Approver for Person {
    async fn decide(&self, _: &Context, question: Question) -> Result<Decision, RpcError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let permits = Arc::clone(&self.permits);
        assert!(matches!(
            question.about,
            QuestionSubject::Permissions { .. } | QuestionSubject::Call { .. }
        ));
        permits.acquire().await.unwrap().forget();
        Ok(Decision::new(GrantDecision::Approved, "ada"))
    }
}

/// A governed server with one dangerous tool, which needs `shell.execute`.
struct World {
    governance: Governance,
    person: Person,
    audit: MemoryAudit,
    client: mock::Client,
    /// The lists that the server returns in turn.
    lists: Arc<Mutex<[&'static str; 2]>>,
    /// The number of further list requests that the server answers only after it has announced a change.
    announces: Arc<AtomicUsize>,
    /// `true` if the server announces a change immediately before each call reaches it.
    announces_calls: Arc<AtomicBool>,
    /// The number of requests for the list of tools so far.
    listings: Arc<AtomicUsize>,
    ran: Arc<AtomicUsize>,
}

const TOOL: &str = r#"{"tools":[{"name":"wipe","inputSchema":{},"security":{"risk_level":"dangerous","permissions_required":["shell.execute"],"side_effects":["none"],"validator":"none"}}]}"#;
const OTHER: &str = r#"{"tools":[{"name":"wipe","inputSchema":{},"description":"Another.","security":{"risk_level":"dangerous","permissions_required":["shell.execute"],"side_effects":["none"],"validator":"none"}}]}"#;
/// A definition that differs from [`TOOL`] only in a member that needs no new approval.
const NEXT: &str = r#"{"tools":[{"name":"wipe","inputSchema":{},"_meta":{"version":2},"security":{"risk_level":"dangerous","permissions_required":["shell.execute"],"side_effects":["none"],"validator":"none"}}]}"#;

fn policy() -> ServerPolicy {
    let mut policy = ServerPolicy::default();
    policy.validators.insert("wipe".to_owned(), Validator::None);
    policy
}

fn disk() -> ServerId {
    "disk".into()
}

fn operator() -> Principal {
    Principal::local().operator()
}

impl World {
    fn new() -> Self {
        let (person, audit) = (Person::new(), MemoryAudit::new());
        let policies = Policies::default();
        policies.set("disk", policy());
        let governance = Governance::builder()
            .audit(Arc::new(audit.clone()))
            .policies(policies)
            .approver(person.clone())
            .build();
        let (ran, lists) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new([TOOL; 2])));
        let (count, listed) = (Arc::clone(&ran), Arc::clone(&lists));
        let (announces, listings) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (announced, counted) = (Arc::clone(&announces), Arc::clone(&listings));
        let announces_calls = Arc::<AtomicBool>::default();
        let is_announced = Arc::clone(&announces_calls);
        let definitions = governance.definitions().clone();
        let recheck = governance.layer("disk").recheck();
        let tools = Stack::from_fn(move |call| {
            if call.tool().is_some() && is_announced.load(Ordering::Relaxed) {
                definitions.mark_stale(&disk());
            }
            // A layer that makes calls wait decides about each call again before it runs.
            let allowed = recheck(&call);
            let answer = if call.tool().is_some() {
                count.fetch_add(usize::from(allowed.is_ok()), Ordering::Relaxed);
                "{}"
            } else {
                let list = counted.fetch_add(1, Ordering::Relaxed) % 2;
                let left = announced.load(Ordering::Relaxed);
                if left > 0 {
                    announced.store(left - 1, Ordering::Relaxed);
                    definitions.mark_stale(&disk());
                }
                listed.lock().unwrap()[list]
            };
            async move { allowed.map(|()| Reply::raw(Payload::from_trusted(answer))) }
        });
        let client = mock::client(Stack::new(governance.layer("disk").layer(tools)));
        Self { governance, person, audit, client, lists, announces, announces_calls, listings, ran }
    }

    /// Creates a world whose caller has access to the server.
    async fn with_access() -> Self {
        let world = Self::new();
        world.grant_access(None).await;
        world
    }

    /// Creates a world whose caller has access, and whose server announces a change with each answer.
    async fn announcing() -> Self {
        let world = Self::with_access().await;
        world.announces.store(usize::MAX, Ordering::Relaxed);
        world
    }

    async fn grant_access(&self, until: Option<SystemTime>) {
        let mut grant = AccessGrantParams::allow("local", "disk");
        grant.expires_at = until.map(Into::into);
        self.governance.access().grant(&operator(), grant).await.unwrap();
    }

    async fn revoke_access(&self) {
        let revoke = AccessRevokeParams::server_grant("local", "disk");
        self.governance.access().revoke(&operator(), revoke).await.unwrap();
    }

    fn shell() -> PermissionChange {
        PermissionChange::new(Some(disk()), [Permission::ShellExecute])
    }

    async fn change_definition(&mut self) {
        *self.lists.lock().unwrap() = [OTHER; 2];
        self.client.request("tools/list", "{}").await.unwrap();
    }

    /// Starts a call about which the layer asks the approver one of the [`QUESTIONS`]. Waits until the approver has
    /// received the question.
    async fn ask(&mut self, question: usize) -> tokio::task::JoinHandle<Result<Reply, RpcError>> {
        if question == 2 {
            self.governance.permissions().approve(&operator(), Self::shell()).await.unwrap();
        }
        let call = tokio::spawn(self.client.call("tools/call", CALL));
        self.person.was_asked(1).await;
        call
    }

    /// Checks that a call was refused with a code and did not run, and that this is recorded once.
    #[track_caller]
    fn refused(&self, outcome: Result<Reply, RpcError>, code: i64, what: &str) {
        let error = outcome.expect_err(what);
        assert_eq!(i64::from(error.code().0), code, "{what}: {error}");
        assert_eq!(self.ran.load(Ordering::Relaxed), 0, "{what}: it ran");
        let events = self.audit.events();
        let blocked = events.iter().filter(|event| event.event_type.as_str() == "TOOL_BLOCKED");
        assert_eq!(blocked.count(), 1, "{what}");
        let executed = events.iter().any(|event| event.event_type.as_str() == "TOOL_EXECUTED");
        assert!(!executed, "{what}");
    }
}

/// The two kinds of questions: the first is about the call and its permission together, the second about the call only.
const QUESTIONS: [usize; 2] = [1, 2];

#[tokio::test]
async fn an_approved_call_that_may_still_run_runs() {
    let mut world = World::with_access().await;
    let call = world.ask(2).await;
    world.person.permits.add_permits(1);
    call.await.unwrap().unwrap();
    assert_eq!(world.ran.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_call_that_must_only_be_decided_is_refused_before_a_person_is_asked() {
    for has_permission in [false, true] {
        let mut world = World::with_access().await;
        world.client.cx.extensions.insert(DecideOnly);
        if has_permission {
            world.governance.permissions().approve(&operator(), World::shell()).await.unwrap();
        }
        world.person.permits.add_permits(2);
        let outcome = world.client.call("tools/call", CALL).await;
        world.refused(outcome, 4002, "only decided");
        assert_eq!(world.person.asked.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test]
async fn a_running_call_goes_on_with_the_credentials_of_the_request_that_continues_it() {
    let (mut world, recheck) = (World::with_access().await, Recheck::default());
    let is_first_valid = Arc::new(AtomicBool::new(true));
    let first = Arc::clone(&is_first_valid);
    let first = CredentialGrant::new(["tools.call"], move || first.load(Ordering::Relaxed));
    world.client.cx.extensions.insert(first);
    world.client.cx.extensions.insert(recheck.clone());
    let call = world.ask(2).await;
    world.person.permits.add_permits(1);
    call.await.unwrap().unwrap();

    let old = world.client.cx.clone();
    recheck.run(&old).unwrap();
    is_first_valid.store(false, Ordering::Relaxed);
    assert!(recheck.run(&old).is_err(), "its credentials have expired");
    for (words, is_enough) in [("tools.call", true), ("tools.list", false)] {
        let mut renewed = old.clone();
        renewed.extensions.insert(CredentialGrant::new([words], || true));
        assert_eq!(recheck.run(&renewed).is_ok(), is_enough, "{words}");
    }
    assert_eq!(world.person.asked.load(Ordering::Relaxed), 1, "no second question");
}

#[tokio::test]
async fn access_that_was_revoked_while_an_approver_was_asked_does_not_count() {
    for question in QUESTIONS {
        let mut world = World::with_access().await;
        let call = world.ask(question).await;
        world.revoke_access().await;
        world.person.permits.add_permits(2);
        world.refused(call.await.unwrap(), 1001, "revoked access");
    }
}

#[tokio::test]
async fn access_that_ended_while_an_approver_was_asked_does_not_count() {
    for question in QUESTIONS {
        let mut world = World::new();
        let end = SystemTime::now() + Duration::from_secs(3);
        world.grant_access(Some(end)).await;
        let call = world.ask(question).await;
        tokio::time::sleep(Duration::from_millis(3_100)).await;
        world.person.permits.add_permits(2);
        world.refused(call.await.unwrap(), 1001, "ended access");
    }
}

#[tokio::test]
async fn a_definition_that_changed_while_an_approver_was_asked_is_not_called() {
    for question in QUESTIONS {
        let mut world = World::with_access().await;
        let call = world.ask(question).await;
        world.change_definition().await;
        world.person.permits.add_permits(2);
        // The confirmation was for the previous definition, so the call must be refused.
        world.refused(call.await.unwrap(), 1000, "changed definition");
    }
}

#[tokio::test]
async fn a_confirmation_is_not_valid_for_a_definition_that_was_listed_after_it() {
    for question in QUESTIONS {
        let mut world = World::with_access().await;
        let call = world.ask(question).await;
        *world.lists.lock().unwrap() = [NEXT; 2];
        world.governance.definitions().mark_stale(&disk());
        world.person.permits.add_permits(2);
        world.refused(call.await.unwrap(), 1000, "listed after the confirmation");
    }
}

#[tokio::test]
async fn a_list_that_went_stale_while_an_approver_was_asked_is_read_again() {
    for (question, tools) in QUESTIONS.into_iter().flat_map(|one| [(one, TOOL), (one, OTHER)]) {
        let mut world = World::with_access().await;
        let call = world.ask(question).await;
        let listings = world.listings.load(Ordering::Relaxed);
        *world.lists.lock().unwrap() = [tools; 2];
        world.governance.definitions().mark_stale(&disk());
        world.person.permits.add_permits(2);
        let outcome = call.await.unwrap();
        assert!(world.listings.load(Ordering::Relaxed) > listings, "{question}: {tools}");
        if tools == TOOL {
            outcome.unwrap();
        } else {
            world.refused(outcome, 4002, "changed while a person was asked");
        }
    }
}

#[tokio::test]
async fn a_change_that_was_announced_while_a_list_was_read_is_not_lost() {
    for is_first in [true, false] {
        let mut world = World::with_access().await;
        if !is_first {
            world.client.request("tools/list", "{}").await.unwrap();
        }
        world.announces.store(1, Ordering::Relaxed);
        world.client.request("tools/list", "{}").await.unwrap();
        let listings = world.listings.load(Ordering::Relaxed);
        let call = world.ask(2).await;
        assert_eq!(world.listings.load(Ordering::Relaxed), listings + 1, "{is_first}");
        call.abort();
    }
    // If the server announces a change while a call lists the tools, the call lists them once more.
    let mut world = World::with_access().await;
    world.announces.store(1, Ordering::Relaxed);
    let call = world.ask(2).await;
    assert_eq!(world.listings.load(Ordering::Relaxed), 2);
    world.person.permits.add_permits(1);
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn tools_of_a_server_that_announces_a_change_with_each_answer_can_be_called() {
    let mut world = World::announcing().await;
    let call = world.ask(2).await;
    assert_eq!(world.listings.load(Ordering::Relaxed), 2);
    world.person.permits.add_permits(1);
    call.await.unwrap().unwrap();

    let mut world = World::announcing().await;
    let call = world.ask(2).await;
    world.governance.definitions().mark_stale(&disk());
    world.person.permits.add_permits(1);
    call.await.unwrap().unwrap();
    assert_eq!(world.listings.load(Ordering::Relaxed), 4, "announced again");

    let mut world = World::announcing().await;
    let call = world.ask(2).await;
    *world.lists.lock().unwrap() = [OTHER; 2];
    world.governance.definitions().mark_stale(&disk());
    world.person.permits.add_permits(1);
    world.refused(call.await.unwrap(), 4002, "changed while a person was asked");

    let mut world = World::announcing().await;
    *world.lists.lock().unwrap() = [TOOL, OTHER];
    let outcome = world.client.call("tools/call", CALL).await;
    world.refused(outcome, 4002, "two lists");

    let mut world = World::announcing().await;
    let definitions = world.governance.definitions().clone();
    // The server announces a change while the kernel reviews a list that it has received. The call then lists the tools
    // again.
    world.governance.definitions().restrict(move |server, _| {
        definitions.mark_stale(server);
        None
    });
    world.person.permits.add_permits(2);
    world.client.call("tools/call", CALL).await.unwrap();
}

#[tokio::test]
async fn a_call_waits_until_a_server_has_finished_the_changes_of_its_tools() {
    let mut world = World::with_access().await;
    *world.lists.lock().unwrap() = [TOOL, NEXT];
    world.announces.store(2, Ordering::Relaxed);
    let call = world.ask(2).await;
    assert_eq!(world.listings.load(Ordering::Relaxed), 3);
    world.person.permits.add_permits(1);
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn false_announcements_delay_no_call_and_refuse_none_that_waited() {
    let mut world = World::with_access().await;
    world.person.permits.add_permits(10);
    world.announces.store(usize::MAX, Ordering::Relaxed);
    world.announces_calls.store(true, Ordering::Relaxed);
    world.client.call("tools/call", CALL).await.unwrap();
    for _ in 0..2 {
        world.client.request("tools/list", "{}").await.unwrap();
    }
    let later = async |seconds| {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(seconds)).await;
        tokio::time::resume();
    };
    for (age, listings) in [(0, 4), (31, 5), (0, 5)] {
        later(age).await;
        world.client.call("tools/call", CALL).await.unwrap();
        assert_eq!(world.listings.load(Ordering::Relaxed), listings, "after {age} s");
    }
    *world.lists.lock().unwrap() = [OTHER; 2];
    later(31).await;
    let error = world.client.call("tools/call", CALL).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::TOOL_DISABLED, "{error}");
    assert_eq!(world.listings.load(Ordering::Relaxed), 7, "the change was true");
}

#[tokio::test]
async fn previews_use_the_last_list_of_a_server_that_has_announced_a_change() {
    let mut world = World::with_access().await;
    world.governance.permissions().approve(&operator(), World::shell()).await.unwrap();
    world.client.request("tools/list", "{}").await.unwrap();
    world.governance.definitions().mark_stale(&disk());
    let (governance, cx) = (&world.governance, &world.client.cx);
    for verdict in [
        governance.explain_for(cx, &disk(), "wipe", None),
        governance.explain_pinned(cx, &disk(), "wipe", None),
    ] {
        assert!(matches!(verdict.outcome(), CallOutcome::Ask(Requirement::Confirmation)));
    }
}

#[tokio::test]
async fn a_preview_without_arguments_checks_the_limits_of_a_tool_without_arguments_only() {
    const RUNS: &str = r#"{"tools":[{"name":"wipe","inputSchema":{"type":"object","properties":{"command":{"type":"string"}}},"security":{"risk_level":"dangerous","permissions_required":["shell.execute"],"side_effects":["none"],"validator":"none"}}]}"#;
    let none = Payload::empty_object();
    for (tools, arguments, is_refused) in
        [(RUNS, None, false), (RUNS, Some(&none), true), (TOOL, None, true)]
    {
        let mut world = World::with_access().await;
        *world.lists.lock().unwrap() = [tools; 2];
        let mut limits = PermissionScope::default();
        limits.commands = vec!["cargo test".to_owned()].into();
        let limited = World::shell().scope(limits);
        world.governance.permissions().approve(&operator(), limited).await.unwrap();
        world.client.request("tools/list", "{}").await.unwrap();
        let cx = &world.client.cx;
        let verdict = world.governance.explain_pinned(cx, &disk(), "wipe", arguments);
        let is_asked = matches!(verdict.outcome(), CallOutcome::Ask(Requirement::Confirmation));
        assert_eq!(is_asked, !is_refused, "{tools} {arguments:?}: {verdict:?}");
        assert_eq!(verdict.refusal().is_some(), is_refused, "{tools} {arguments:?}: {verdict:?}");
    }
}

#[tokio::test]
async fn a_call_that_may_exceed_the_limits_of_a_permission_must_be_confirmed() {
    const FETCHES: &str = r#"{"tools":[{"name":"wipe","inputSchema":{"type":"object","properties":{"url":{"type":"string"},"via":{"type":"string"}}},"security":{"risk_level":"safe","permissions_required":["network.outbound"],"side_effects":["none"],"validator":"none"}}]}"#;
    let mut world = World::with_access().await;
    let mut safe = policy();
    safe.risk.insert("wipe".to_owned(), RiskLevel::Safe);
    world.governance.policies().set("disk", safe);
    *world.lists.lock().unwrap() = [FETCHES; 2];
    let mut limits = PermissionScope::default();
    limits.hosts = vec!["ok.example".to_owned()].into();
    let limited = PermissionChange::new(Some(disk()), [Permission::NetworkOutbound]).scope(limits);
    world.governance.permissions().approve(&operator(), limited).await.unwrap();
    world.client.request("tools/list", "{}").await.unwrap();
    for (via, is_asked) in [("direct", false), ("evil.example", true)] {
        let arguments = format!(r#"{{"url":"https://ok.example/a","via":"{via}"}}"#);
        let arguments = Payload::parse(arguments).unwrap();
        let cx = &world.client.cx;
        let verdict = world.governance.explain_pinned(cx, &disk(), "wipe", Some(&arguments));
        let asks = matches!(verdict.outcome(), CallOutcome::Ask(Requirement::Confirmation));
        assert_eq!(asks, is_asked, "{via}: {verdict:?}");
        assert!(asks || matches!(verdict.outcome(), CallOutcome::Allow), "{via}: {verdict:?}");
    }
}

#[tokio::test]
async fn a_permission_that_was_revoked_while_a_person_confirmed_does_not_count() {
    let mut world = World::with_access().await;
    let call = world.ask(2).await;
    world.governance.permissions().revoke(&operator(), World::shell()).await.unwrap();
    world.person.permits.add_permits(1);
    world.refused(call.await.unwrap(), 1000, "revoked permission");
    assert_eq!(world.person.asked.load(Ordering::Relaxed), 1, "no second question");
}

#[tokio::test]
async fn a_permission_that_ended_while_a_person_confirmed_does_not_count() {
    let mut world = World::with_access().await;
    let end = SystemTime::now() + Duration::from_secs(3);
    world.governance.permissions().approve(&operator(), World::shell().until(end)).await.unwrap();
    let call = world.ask(1).await;
    tokio::time::sleep(Duration::from_millis(3_100)).await;
    world.person.permits.add_permits(1);
    world.refused(call.await.unwrap(), 1000, "ended permission");
}

#[tokio::test]
async fn an_entry_that_spared_the_confirmation_and_was_revoked_does_not_count_for_a_waiting_call() {
    let mut world = World::with_access().await;
    world.governance.permissions().approve(&operator(), World::shell()).await.unwrap();
    let sparing = AccessGrantParams::allow("local", "disk").tool("wipe").without_confirmation();
    world.governance.access().grant(&operator(), sparing).await.unwrap();
    // This call also lists the tools.
    world.client.request("tools/call", CALL).await.unwrap();
    assert_eq!(world.person.asked.load(Ordering::Relaxed), 0);

    let mut cx = world.client.cx.clone();
    WaitMark::mark(&mut cx);
    let params = Params::tool("wipe", &Payload::empty_object());
    let waiting = Call::request(Method::of("tools/call"), params, cx);
    let recheck = world.governance.layer("disk").recheck();
    recheck(&waiting).unwrap();
    let revoke = AccessRevokeParams::server_grant("local", "disk").tool("wipe");
    world.governance.access().revoke(&operator(), revoke).await.unwrap();
    let refused = recheck(&waiting).unwrap_err();
    assert_eq!(i64::from(refused.code().0), 1000, "{refused}");
    let details = refused.as_recovery().unwrap().details.clone().unwrap();
    assert_eq!(details.decode::<String>("status").unwrap().unwrap(), "newly_needed");
}

#[tokio::test]
async fn a_policy_that_changed_while_an_approver_was_asked_counts() {
    for question in QUESTIONS {
        let mut world = World::new();
        let mut open = policy();
        open.default_policy = DefaultPolicy::OptOut;
        world.governance.policies().set("disk", open.clone());
        let call = world.ask(question).await;
        world.governance.policies().set("disk", policy());
        world.person.permits.add_permits(2);
        world.refused(call.await.unwrap(), 1001, "another default policy");

        let mut world = World::new();
        world.governance.policies().set("disk", open.clone());
        let call = world.ask(question).await;
        let mut checked = open;
        checked.validators.insert("wipe".to_owned(), Validator::from("sandbox"));
        world.governance.policies().set("disk", checked);
        world.person.permits.add_permits(2);
        world.refused(call.await.unwrap(), 1010, "a validator that is not there");
    }
}

/// A tool whose risk and definition the test can change.
#[derive(Clone)]
struct Changing(Arc<Mutex<(RiskLevel, &'static str)>>);

impl Assess for Changing {
    fn assessment(&self, _: Option<&ServerId>, _: &str) -> Arc<Assessment> {
        let mut assessment = Assessment::unknown();
        assessment.effective_risk = self.0.lock().unwrap().0.clone();
        Arc::new(assessment)
    }

    fn definition(&self, _: Option<&ServerId>, _: &str) -> Option<Sha256Hash> {
        Some(Sha256Hash::digest(self.0.lock().unwrap().1.as_bytes()))
    }
}

#[tokio::test]
async fn alone_the_confirmation_is_for_the_tool_that_was_asked_about() {
    for (after, runs) in [
        ((RiskLevel::Dangerous, "first"), true),
        ((RiskLevel::Dangerous, "second"), false),
        ((RiskLevel::from("deadly"), "first"), false),
    ] {
        let (person, ran) = (Person::new(), Arc::new(AtomicUsize::new(0)));
        let changing = Changing(Arc::new(Mutex::new((RiskLevel::Dangerous, "first"))));
        let confirmations = Confirmations::new(Policies::default(), person.clone());
        let count = Arc::clone(&ran);
        let tools = Stack::from_fn(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok(Reply::empty()) }
        });
        let layer = ConfirmLayer::new(confirmations, changing.clone());
        let mut client = mock::client(Stack::new(layer.layer(tools)));
        let call = tokio::spawn(client.call("tools/call", CALL));
        person.was_asked(1).await;
        *changing.0.lock().unwrap() = after;
        person.permits.add_permits(1);
        let outcome = call.await.unwrap();
        assert_eq!(outcome.is_ok(), runs, "{outcome:?}");
        assert_eq!(ran.load(Ordering::Relaxed), usize::from(runs));
        if let Err(error) = outcome {
            let details = error.as_recovery().unwrap().details.clone().unwrap();
            assert_eq!(details.decode::<String>("status").unwrap().unwrap(), "changed");
        }
    }
}
