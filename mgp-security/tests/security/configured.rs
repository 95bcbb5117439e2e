//! Tests of changes to the operator's configuration at run time: only operators may make such changes, and the audit
//! log records them (MGP §5.5).

use std::sync::Arc;

use mgp_security::{Governance, ServerPolicy};
use mgp_types::mgp::DefaultPolicy;
use mgp_types::service::{MemoryAudit, Principal, ServerId};

#[tokio::test]
async fn changes_of_groups_and_policies_are_recorded_and_made_by_operators_only() {
    let log = MemoryAudit::new();
    let governance = Governance::builder().audit(Arc::new(log.clone())).build();
    let (ann, eve) = (Principal::local().operator(), Principal::local());
    let files = ServerId::from("files");
    let mut open = ServerPolicy::default();
    open.default_policy = DefaultPolicy::OptOut;

    for by in [&eve, &ann] {
        let is_operator = by == &ann;
        let set = governance.set_policy(by, &files, open.clone(), None).await;
        assert_eq!(set.is_ok(), is_operator);
        let joined = governance.set_groups(by, "ada", ["interns"], Some("she begins")).await;
        assert_eq!(joined.is_ok(), is_operator);
        assert_eq!(
            governance.access().groups().names("local", "ada").len(),
            usize::from(is_operator)
        );
        let removed = governance.remove_policy(by, &files, None).await;
        assert_eq!(removed.is_ok(), is_operator);
    }
    assert_eq!(governance.policies().get(Some(&files)).default_policy, DefaultPolicy::OptIn);
    let events = log.events();
    let types: Vec<_> = events.iter().map(|event| event.event_type.as_str()).collect();
    let (denied, changed) = ("PERMISSION_DENIED", "dev.cloto.policy_changed");
    assert_eq!(types, [denied, denied, denied, changed, changed, changed]);
    let details = serde_json::to_string(&events[4].details).unwrap();
    assert!(details.contains(r#""agent_id":"ada","before":[],"after":["interns"]"#), "{details}");
}

#[tokio::test]
async fn an_operator_of_another_tenant_changes_no_policy_that_tenants_share() {
    let governance = Governance::builder().build();
    let (boss, files) = (Principal::new("acme", "boss").operator(), ServerId::from("files"));
    let refused = governance.set_policy(&boss, &files, ServerPolicy::default(), None).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code().0, 1000);
    assert!(refused.message().contains("only an operator of the tenant `local`"), "{refused}");
    governance.remove_policy(&boss, &files, None).await.unwrap_err();
    governance.set_groups(&boss, "ada", ["interns"], None).await.unwrap();
    assert!(governance.access().groups().names("local", "ada").is_empty());
}
