//! Tests of questions that are asked when a call is made, in both protocol eras, and of the notifications to servers.

use async_trait::async_trait;
use mgp_types::mcp::{Era, key};
use mgp_types::mgp::{Grant, ScopedGrant};
use mgp_types::service::{
    CallerAccess, CallerChannel as _, CallerRequest, InputRequired, PeerInfo,
    PermissionAuthority as _, RoundState, Rounds,
};
use mgp_types::{Payload, Timestamp};

use super::*;

fn approved() -> Decision {
    Decision::new(GrantDecision::Approved, "grace")
}

#[tokio::test]
async fn an_approval_is_remembered() {
    let clerk = Clerk::new(GrantDecision::Approved);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    world.runs("read+camera").await;
    world.runs("camera").await;
    assert_eq!(clerk.asked_for(), ["filesystem.read+camera for read+camera"]);
    assert_eq!(
        world.events(),
        [
            "PERMISSION_GRANTED filesystem.read was - by user grace",
            "PERMISSION_GRANTED camera was - by user grace",
        ]
    );
    // The approver is also asked about a permission that MGP does not define.
    world.runs("camera+com.example.x").await;
    assert_eq!(clerk.asked_for()[1], "com.example.x for camera+com.example.x");
}

#[tokio::test]
async fn a_decline_is_remembered_and_refused_at_once() {
    let clerk = Clerk::new(GrantDecision::Denied);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    assert_eq!(world.lacks("camera").await, "camera denied");
    assert_eq!(world.lacks("camera").await, "camera denied");
    // No question is asked if the call would be refused in any case.
    assert_eq!(world.lacks("camera+read").await, "camera denied, filesystem.read undecided");
    assert_eq!(clerk.asked().len(), 1);
    assert_eq!(world.events(), ["PERMISSION_DENIED camera was - by user grace"]);
    world.permissions.revoke(&operator(), files(&["camera"])).await.unwrap();
    clerk.says(Ok(approved()));
    world.runs("camera").await;
    assert_eq!(clerk.asked().len(), 2);
}

#[tokio::test]
async fn what_is_deferred_is_asked_again_at_the_next_call() {
    let clerk = Clerk::new(GrantDecision::Deferred);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    let mut decision = Decision::new(GrantDecision::Deferred, "inbox");
    decision.details.encode("approval_id", "a-7").unwrap();
    clerk.says(Ok(decision));
    let error = world.call("camera").await.unwrap_err();
    assert_eq!(lacking(&error), "camera deferred");
    let details = error.as_recovery().unwrap().details.clone().unwrap();
    assert_eq!(details.decode::<String>("status").unwrap().as_deref(), Some("approval_pending"));
    assert_eq!(details.decode::<String>("approval_id").unwrap().as_deref(), Some("a-7"));
    assert!(world.events().is_empty());
    clerk.says(Ok(approved()));
    world.runs("camera").await;
    assert_eq!(clerk.asked().len(), 2);
}

#[tokio::test]
async fn permissions_are_decided_one_by_one() {
    let clerk = Clerk::new(GrantDecision::Approved);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    let mut decision = approved();
    let mut scoped = ScopedGrant::new(GrantDecision::Approved);
    scoped.scope = Some(serde_json::from_str(r#"{"paths":["/srv"]}"#).unwrap());
    decision.per_permission.insert(Permission::FilesystemRead, Grant::Scoped(Box::new(scoped)));
    decision.per_permission.insert(Permission::Camera, GrantDecision::Denied.into());
    // A decision about a permission that was not requested is ignored.
    decision.per_permission.insert(Permission::ShellExecute, GrantDecision::Approved.into());
    decision.expires_at = Some(from_now(Duration::from_mins(1)).into());
    clerk.says(Ok(decision));
    let needed = "read+camera+system.info";
    assert_eq!(world.lacks(needed).await, "filesystem.read out_of_scope, camera denied");
    let kept = world.permissions.list(&operator(), None).await.unwrap();
    assert_eq!(kept.len(), 3);
    assert!(kept.iter().all(|approval| approval.expires_at.is_some()));
    world.call_with("read", r#"{"path":"/srv/x"}"#).await.unwrap();
}

#[tokio::test]
async fn an_approval_that_is_over_when_it_comes_grants_nothing() {
    let clerk = Clerk::new(GrantDecision::Approved);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    for end in ["2020-01-01T00:00:00Z", "soon"] {
        let mut decision = approved();
        decision.expires_at = Some(Timestamp::from(end));
        clerk.says(Ok(decision));
        assert_eq!(world.lacks("camera").await, "camera expired");
    }
    assert_eq!(clerk.asked().len(), 2);
}

#[tokio::test]
async fn whoever_fails_to_answer_grants_nothing() {
    let clerk = Clerk::new(GrantDecision::Approved);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    clerk.says(Err(RpcError::internal("the terminal is gone")));
    let error = world.call("camera").await.unwrap_err();
    assert_eq!(lacking(&error), "camera undecided");
    assert!(error.message().contains("the terminal is gone"), "{error}");
    clerk.says(Ok(approved()));
    world.runs("camera").await;
}

#[tokio::test]
async fn questions_are_bound_to_server_principal_and_permissions() {
    let clerk = Clerk::new(GrantDecision::Deferred);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    let mut ask = async |tool: &str, change: &dyn Fn(&mut Context)| {
        change(&mut world.client.cx);
        world.call(tool).await.unwrap_err();
        clerk.asked().last().unwrap().binding
    };
    let first = ask("camera", &|_| {}).await;
    assert_eq!(ask("camera", &|_| {}).await, first, "it is the same in each round");
    let others = [
        ask("camera+read", &|_| {}).await,
        ask("camera", &|cx| cx.server = Some("other".into())).await,
        ask("camera", &|cx| cx.server = None).await,
        ask("camera", &|cx| {
            cx.server = Some(server());
            cx.principal = Principal::new("acme", "ada").agent("agent.two");
        })
        .await,
        ask("camera", &|cx| cx.principal = Principal::new("acme", "ada")).await,
        ask("camera", &|cx| cx.principal = Principal::new("other", "ada").agent("agent.one")).await,
    ];
    for (at, binding) in others.iter().enumerate() {
        assert!(*binding != first && !others[..at].contains(binding), "{at}");
    }
}

#[tokio::test]
async fn calls_that_need_the_same_share_one_question() {
    for (answer, expected) in
        [(GrantDecision::Approved, 3), (GrantDecision::Denied, 0), (GrantDecision::Deferred, 0)]
    {
        let clerk = Clerk::silent(answer);
        let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
        let calls = [world.call("camera"), world.call("camera"), world.call("camera+camera")];
        let waiting: Vec<_> = calls.into_iter().map(tokio::spawn).collect();
        clerk.was_asked(1).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        clerk.gate.add_permits(1);
        let mut ran = 0;
        for call in waiting {
            ran += usize::from(call.await.unwrap().is_ok());
        }
        assert_eq!((ran, clerk.asked().len()), (expected, 1), "{answer}");
    }
}

#[tokio::test]
async fn a_call_that_needs_more_asks_for_the_rest() {
    let clerk = Clerk::silent(GrantDecision::Approved);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    let (first, second) = (tokio::spawn(world.call("camera")), world.call("camera+read"));
    clerk.was_asked(1).await;
    let second = tokio::spawn(second);
    clerk.gate.add_permits(2);
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    assert_eq!(clerk.asked_for(), ["camera for camera", "filesystem.read for camera+read"]);
}

#[tokio::test]
async fn others_do_not_answer_for_a_principal() {
    let clerk = Clerk::silent(GrantDecision::Deferred);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    let first = tokio::spawn(world.call("camera"));
    world.client.cx.principal = Principal::new("acme", "bob").agent("agent.two");
    let second = tokio::spawn(world.call("camera"));
    clerk.was_asked(2).await;
    clerk.gate.add_permits(2);
    assert!(first.await.unwrap().is_err() && second.await.unwrap().is_err());
}

#[tokio::test]
async fn when_whoever_asked_leaves_the_next_one_asks() {
    let clerk = Clerk::silent(GrantDecision::Approved);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    let first = tokio::spawn(world.call("camera"));
    clerk.was_asked(1).await;
    let second = tokio::spawn(world.call("camera"));
    tokio::task::yield_now().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    clerk.was_asked(2).await;
    clerk.gate.add_permits(1);
    second.await.unwrap().unwrap();
    assert_eq!(world.ran(), 1, "the call that left did not run");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let clerk = Clerk::silent(GrantDecision::Approved);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    let begun = tokio::time::Instant::now();
    let (first, second) = (world.call("camera"), world.call("camera"));
    let (first, second) = tokio::join!(first, second);
    assert_eq!(begun.elapsed().as_secs(), 30);
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert_eq!(lacking(&error), "camera deferred");
        let details = error.as_recovery().unwrap().details.clone().unwrap();
        assert_eq!(
            details.decode::<String>("status").unwrap().as_deref(),
            Some("approval_pending")
        );
    }
    let brief = world.permissions.clone().waits(Duration::from_secs(1), Duration::from_secs(2));
    let begun = tokio::time::Instant::now();
    let decision = brief.decide(&world.client.cx, &server(), vec![Permission::Camera]).await;
    assert_eq!(begun.elapsed().as_secs(), 2);
    assert_eq!(decision.grants[&Permission::Camera].decision(), GrantDecision::Deferred);
    assert!(world.events().is_empty());
}

#[tokio::test]
async fn an_operator_who_decides_meanwhile_wins() {
    let clerk = Clerk::silent(GrantDecision::Approved);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    let call = tokio::spawn(world.call("camera"));
    clerk.was_asked(1).await;
    world.permissions.deny(&operator(), files(&["camera"])).await.unwrap();
    clerk.gate.add_permits(1);
    assert_eq!(lacking(&call.await.unwrap().unwrap_err()), "camera denied");
    assert_eq!(world.events(), ["PERMISSION_DENIED camera was - by user olga"]);
}

/// An approver that asks the caller itself, as the approver for interactive agents does.
struct AsksCaller;

#[async_trait]
impl Approver for AsksCaller {
    async fn decide(&self, cx: &Context, question: Question) -> Result<Decision, RpcError> {
        let cx = cx.clone();
        let ask = CallerRequest::new("elicitation/create", Payload::empty_object());
        let answer = cx.ask_again(&question.binding.to_string(), ask).await?;
        let yes: bool = answer.get()?;
        let word = if yes { GrantDecision::Approved } else { GrantDecision::Denied };
        Ok(Decision::new(word, "the person at the keyboard"))
    }
}

#[tokio::test]
async fn a_modern_call_is_asked_in_rounds() {
    let permissions = Permissions::new(
        Arc::new(MemoryStore::new()),
        Arc::new(MemoryAudit::new()),
        Policies::default(),
        Some(Arc::new(AsksCaller)),
    );
    let ran = Arc::new(AtomicUsize::new(0));
    let mut client = mock::client(stack(&permissions, &ran));
    let mut facts = PeerInfo::default();
    facts.era = Era::Modern;
    facts.accepts.elicitation = true;
    client.cx.caller = Arc::new(facts);
    let mut round = async |state: RoundState| {
        let rounds = Rounds::new(state);
        client.cx.caller_access = CallerAccess::Channel(Arc::new(rounds.clone()));
        let call = client.call("tools/call", r#"{"name":"camera"}"#);
        let reply = client.cx.caller_access.run_round(call).await.unwrap();
        (reply, rounds.state())
    };
    // The caller sends "yes" before a question was asked, under the exact name of the question.
    let (reply, state) = round(RoundState::default()).await;
    let Reply::InputRequired(InputRequired { asks, .. }) = reply else { panic!("{reply:?}") };
    let name = asks[0].0.clone();
    let mut early = RoundState::default();
    early.answers.insert(name.clone(), Payload::of(&true).unwrap());
    early.early.insert(name.clone());
    let (reply, _) = round(early).await;
    assert!(matches!(reply, Reply::InputRequired(_)), "{reply:?}");
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    // The caller sends "yes" in answer to the question.
    assert_eq!(state.asked, [name.as_str()]);
    let mut next = state;
    next.answers.insert(name, Payload::of(&true).unwrap());
    let (reply, _) = round(next).await;
    assert!(matches!(reply, Reply::Complete(_)), "{reply:?}");
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    assert!(Rounds::default().take_suspended().is_none());
}

#[tokio::test]
async fn servers_are_told_what_stands() {
    let clerk = Clerk::new(GrantDecision::Deferred);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    world.list(&["memory", "com.example.x"]);
    let (permissions, by, cx) = (world.permissions.clone(), operator(), world.client.cx.clone());
    let mut moves = permissions.changes();
    moves.mark_unchanged();
    let soon = from_now(Duration::from_mins(1));
    let scope = serde_json::from_str(r#"{"paths":["/srv"]}"#).unwrap();
    permissions.approve(&by, files(&["filesystem.read"]).scope(scope).until(soon)).await.unwrap();
    let later = from_now(Duration::from_mins(2));
    permissions.approve(&by, files(&["system.info"]).until(later)).await.unwrap();
    permissions.deny(&by, files(&["camera"])).await.unwrap();
    assert!(moves.has_changed().unwrap());

    let declared = ["shell", "filesystem.read", "camera", "memory"].map(Permission::from).to_vec();
    let decision = permissions.decide(&cx, &server(), declared).await;
    let words = |decision: &mgp_types::mgp::PermissionDecision| -> Vec<String> {
        let grants = decision.grants.iter();
        grants.map(|(name, grant)| format!("{name} {}", grant.decision())).collect()
    };
    assert_eq!(
        words(&decision),
        [
            "camera denied",
            "filesystem.read approved",
            "memory.read approved",
            "memory.write approved",
            "shell.execute deferred",
        ]
    );
    assert_eq!(decision.grants[&Permission::FilesystemRead].scope().unwrap().paths[..], ["/srv"]);
    assert_eq!(decision.expires_at, Some(soon.into()));
    assert_eq!(decision.approved_by.as_deref(), Some("configuration, olga"));
    assert_eq!(clerk.asked_for(), ["shell.execute for -"]);
    assert_eq!(
        words(&permissions.standing(&cx, &server(), &[])),
        [
            "camera denied",
            "com.example.x approved",
            "filesystem.read approved",
            "memory.read approved",
            "memory.write approved",
            "system.info approved",
        ]
    );
    assert_eq!(clerk.asked().len(), 1);
    // The server can read the decision that the client sends.
    let params = serde_json::json!({ "_meta": { key::MGP: { "grants": decision.grants } } });
    let params = mgp_types::service::Params::of("tools/call", &params).unwrap();
    let grants = Grants::default();
    grants.apply(&Grants::carried_by(&params).unwrap());
    assert_eq!(grants.standing(&Permission::Camera), GrantState::Denied);
    assert_eq!(grants.standing(&Permission::FilesystemRead), GrantState::Granted);
    world.runs("com.example.x").await;
}

#[tokio::test]
async fn a_server_that_connects_gets_what_auto_approve_grants() {
    let world = World::new(ApprovalPolicy::AutoApprove, None);
    let declared = vec![Permission::Camera, "odd".into()];
    // Recording the grant takes time, but the server must not be notified that an operator is asked.
    assert!(!world.permissions.asks_operator(&world.client.cx, &server(), &declared));
    let decision = world.permissions.decide(&world.client.cx, &server(), declared).await;
    assert_eq!(decision.grants[&Permission::Camera].decision(), GrantDecision::Approved);
    assert_eq!(decision.grants[&"odd".into()].decision(), GrantDecision::Denied);
    assert_eq!(decision.approved_by.as_deref(), Some("auto_approve"));
    assert_eq!(world.events(), ["PERMISSION_GRANTED camera was - by kernel kernel"]);
}
