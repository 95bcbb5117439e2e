//! Tests of approvals of later calls: equal calls that wait at the same time, and revocations while the store fails.

use mgp_types::mgp::{AccessGrantParams, Actor, AuditEvent};

use super::*;
use crate::approval::CalledTool;

fn for_an_hour() -> ApprovalTerm {
    ApprovalTerm::Tool { until: (SystemTime::now() + Duration::from_hours(1)).into() }
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_later_calls_also_answers_an_equal_call_that_waits() {
    let world = World::open().await;
    let ask = || {
        let (inbox, cx) = (world.inbox.clone(), world.cx.clone());
        tokio::spawn(async move { inbox.decide(&cx, wipe(&agent("eve"), "all")).await.unwrap() })
    };
    let asked = [ask(), ask()];
    tokio::time::sleep(Duration::from_secs(1)).await;
    let listed = world.inbox.list(&ann()).await.unwrap();
    assert_eq!(listed.len(), 1, "equal calls share a request");
    world.inbox.approve_for(&ann(), &listed[0].id, &for_an_hour(), None).await.unwrap();
    for asked in asked {
        assert_eq!(asked.await.unwrap().answer, GrantDecision::Approved);
    }
    let listed = world.inbox.list(&ann()).await.unwrap();
    assert!(listed.iter().all(|request| request.state != RequestState::Open), "{listed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_revocation_that_failed_half_way_can_be_repeated() {
    let store = Arc::new(FaultyStore::of_space("approvals"));
    let inbox = Inbox::new(store.clone(), Arc::new(MemoryAudit::new()));
    inbox.open().await.unwrap();
    let cx = mock::client(Stack::new(Router::new())).cx;
    let question = wipe(&agent("eve"), "all");
    let waits = id(&inbox.decide(&cx, question.clone()).await.unwrap());
    inbox.approve_for(&ann(), &waits, &for_an_hour(), None).await.unwrap();
    let kept = inbox.calls().list(&ann(), None).await.unwrap();
    let names = [Permission::from(kept[0].id.as_str())];

    store.set_failing(true);
    inbox.revoke_calls(&ann(), &"disk".into(), &names).await.unwrap_err();
    store.set_failing(false);
    assert_eq!(inbox.revoke_calls(&ann(), &"disk".into(), &names).await.unwrap(), kept);
    assert!(inbox.calls().list(&ann(), None).await.unwrap().is_empty());
    assert_eq!(inbox.decide(&cx, question).await.unwrap().answer, GrantDecision::Deferred);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_failed_approves_no_later_calls() {
    let store = Arc::new(FaultyStore::of_space("approvals"));
    let inbox = Inbox::new(store.clone(), Arc::new(MemoryAudit::new()));
    inbox.open().await.unwrap();
    let cx = mock::client(Stack::new(Router::new())).cx;
    let waits = id(&inbox.decide(&cx, wipe(&agent("eve"), "all")).await.unwrap());
    store.set_failing(true);
    inbox.approve_for(&ann(), &waits, &for_an_hour(), None).await.unwrap_err();
    assert!(inbox.calls().list(&ann(), None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_expired_approval_of_later_calls_does_not_apply_again_if_the_clock_is_set_back() {
    let world = World::open().await;
    let (now, calls) = (SystemTime::now(), world.inbox.calls());
    let request = ApprovalRequest::of(&wipe(&agent("eve"), "all"), String::new(), now, now);
    let end = now - Duration::from_mins(1);
    let term = ApprovalTerm::Tool { until: end.into() };
    calls.keep(&request, &term, Actor::of(&ann()), None).await.unwrap();
    // The task that records the end of the approval runs meanwhile.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let call = CalledTool { tool: "wipe", arguments: None, definition: None };
    let (disk, before) = (ServerId::from("disk"), end - Duration::from_mins(1));
    let found = calls.find(&agent("eve"), Some(&disk), &call, before, |_| true);
    assert!(found.is_none(), "{found:?}");
    let events = world.audit.events();
    let details = events.last().unwrap().details.as_ref().unwrap();
    let [decision, cause] = ["decision", "cause"].map(|name| details.decode::<String>(name));
    assert_eq!(
        (decision.unwrap().as_deref(), cause.unwrap().as_deref()),
        (Some("revoked"), Some("expired"))
    );
}

#[tokio::test(start_paused = true)]
async fn decisions_about_calls_of_another_tenant_are_recorded_with_it() {
    let world = World::open().await;
    let waits = id(&world.ask(&wipe(&Principal::new("acme", "eve").agent("eve"), "all")).await);
    let ada = Principal::new("acme", "ada").operator();
    world.inbox.approve_for(&ada, &waits, &for_an_hour(), None).await.unwrap();
    world.inbox.forget_server(&"disk".into()).await.unwrap();
    let events = world.audit.events();
    let decided = events.iter().filter(|event| event.event_type.as_str().ends_with("_decided"));
    let tenant = |event: &AuditEvent| event.details.as_ref()?.decode::<String>("tenant").ok()?;
    let tenants: Vec<_> = decided.map(tenant).collect();
    let is_acme = |tenant: &Option<String>| tenant.as_deref() == Some("acme");
    assert!(tenants.len() > 2 && tenants.iter().all(is_acme), "{tenants:?}");
}

#[tokio::test]
async fn of_several_approvals_of_a_call_one_that_grants_its_permissions_counts() {
    let governance = crate::Governance::builder().inbox(InboxConfig::default()).build();
    governance.open().await.unwrap();
    let (disk, calls) = (ServerId::from("disk"), governance.inbox().unwrap().calls().clone());
    let security = r#"{"risk_level":"dangerous","permissions_required":["camera"]}"#;
    let tool = format!(r#"{{"name":"wipe","inputSchema":{{}},"security":{security}}}"#);
    governance.definitions().learn(Some(&disk), &[serde_json::from_str(&tool).unwrap()]);
    governance.access().grant(&ann(), AccessGrantParams::allow("eve", "disk")).await.unwrap();
    let keep = async |permissions: &[Permission]| {
        let now = SystemTime::now();
        let request = ApprovalRequest::of(&lacking(permissions), String::new(), now, now);
        calls.keep(&request, &for_an_hour(), Actor::of(&ann()), None).await.unwrap();
    };
    let is_allowed = || {
        let arguments = Payload::empty_object();
        governance.explain(&agent("eve"), &disk, "wipe", &arguments).is_allowed()
    };
    // These approvals grant no permission: the server already had it when the calls were approved.
    for _ in 0..8 {
        keep(&[]).await;
    }
    assert!(!is_allowed());
    keep(&[Permission::Camera]).await;
    assert!(is_allowed());
}
