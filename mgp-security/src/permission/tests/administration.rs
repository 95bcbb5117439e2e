//! Tests of changes by operators, which are refused for all other callers and recorded.

use super::*;

const NOW: Duration = Duration::ZERO;

#[tokio::test]
async fn each_change_is_in_force_at_once_and_writes_one_event() {
    let mut world = World::new(ApprovalPolicy::DenyAll, None);
    let (permissions, by) = (world.permissions.clone(), operator());
    let end = from_now(Duration::from_mins(1));
    let change = files(&["filesystem.read"]).because("for the report").until(end);
    permissions.approve(&by, change).await.unwrap();
    world.runs("read").await;
    permissions.deny(&by, files(&["filesystem.read"])).await.unwrap();
    assert_eq!(world.lacks("read").await, "filesystem.read denied");
    permissions.approve(&by, files(&["filesystem.read"])).await.unwrap();
    let taken = permissions.revoke(&by, files(&["filesystem.read"])).await.unwrap();
    assert_eq!(taken[0].decision, ApprovalDecision::Revoked);
    assert_eq!(world.lacks("read").await, "filesystem.read undecided");
    assert!(permissions.revoke(&by, files(&["filesystem.read"])).await.unwrap().is_empty());
    assert!(permissions.revoke(&by, files(&["camera"])).await.unwrap().is_empty());
    assert_eq!(
        world.events(),
        [
            "PERMISSION_GRANTED filesystem.read was - by user olga",
            "PERMISSION_DENIED filesystem.read was approved by user olga",
            "PERMISSION_GRANTED filesystem.read was denied by user olga",
            "PERMISSION_REVOKED filesystem.read was approved by user olga",
        ]
    );
    let event = &world.audit.events()[0];
    let details = event.details.as_ref().unwrap();
    assert_eq!(
        details.decode::<String>("justification").unwrap().as_deref(),
        Some("for the report")
    );
    let end = mgp_types::Timestamp::from(end);
    assert_eq!(details.decode::<String>("expires_at").unwrap().as_deref(), Some(end.as_str()));
    assert_eq!(event.target.as_ref().unwrap().server_id.as_deref(), Some("files"));
}

#[tokio::test]
async fn only_an_operator_changes_or_sees_anything() {
    let world = World::new(ApprovalPolicy::DenyAll, None);
    let (permissions, by) = (&world.permissions, agent());
    let change = || files(&["camera"]);
    let errors = [
        permissions.approve(&by, change()).await.unwrap_err(),
        permissions.deny(&by, change()).await.unwrap_err(),
        permissions.revoke(&by, change()).await.unwrap_err(),
        permissions.list(&by, Some(&server())).await.unwrap_err(),
    ];
    for error in &errors {
        assert_eq!(error.code().0, 1000, "{error}");
        assert!(mgp_types::service::Rule::of(error).is_some());
    }
    assert!(permissions.list(&operator(), None).await.unwrap().is_empty());
    let events = world.events();
    assert_eq!(events, vec!["PERMISSION_DENIED - was - by agent agent.one"; errors.len()]);
}

#[tokio::test]
async fn an_operator_rules_in_his_own_tenant_only() {
    let mut world = World::new(ApprovalPolicy::DenyAll, None);
    let other = Principal::new("other", "otto").operator();
    world.permissions.approve(&other, files(&["camera"])).await.unwrap();
    assert_eq!(world.lacks("camera").await, "camera denied");
    assert!(world.permissions.list(&operator(), None).await.unwrap().is_empty());
    assert_eq!(world.permissions.list(&other, Some(&server())).await.unwrap().len(), 1);
    assert!(world.permissions.list(&other, Some(&"x".into())).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_makes_no_sense_is_not_kept() {
    let world = World::new(ApprovalPolicy::DenyAll, None);
    let scope = |json: &str| serde_json::from_str(json).unwrap();
    let long = "x".repeat(2000);
    for change in [
        files(&[]),
        files(&["a b"]),
        files(&["*"]),
        files(&[long.as_str()]),
        files(&["camera"]).until(from_now(NOW) - Duration::from_secs(1)),
        files(&["camera"]).until("tomorrow"),
        files(&["camera"]).because(long.as_str()),
        files(&["camera"]).tools([""]),
        files(&["camera"]).confirm(ConfirmRule::Never),
        files(&["camera"]).scope(scope(r#"{"max_rows":1}"#)),
    ] {
        let error = world.permissions.approve(&operator(), change).await.unwrap_err();
        assert_eq!(error.code().0, -32602, "{error}");
    }
    let limited = files(&["camera"]).tools(["look"]);
    assert_eq!(world.permissions.deny(&operator(), limited).await.unwrap_err().code().0, -32602);
    assert!(world.events().is_empty());
}

#[tokio::test]
async fn an_approval_that_ended_grants_nothing_and_is_told_once() {
    let mut world = World::new(ApprovalPolicy::DenyAll, None);
    // The configuration grants the permission as well, but a recorded decision takes precedence even after it has
    // expired.
    world.list(&["camera"]);
    let other = Permissions::new(
        Arc::new(world.store.clone()),
        Arc::new(world.audit.clone()),
        world.policies.clone(),
        None,
    );
    other.open().await.unwrap();
    let mut moves = world.permissions.changes();
    let change = files(&["camera"]).until(from_now(Duration::from_secs(2)));
    world.permissions.approve(&operator(), change).await.unwrap();
    world.runs("camera").await;
    tokio::time::sleep(Duration::from_millis(2_050)).await;
    assert_eq!(world.lacks("camera").await, "camera expired");
    let told = async {
        while world.events().len() < 2 {
            moves.changed().await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), told).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(
        world.events(),
        [
            "PERMISSION_GRANTED camera was - by user olga",
            "PERMISSION_REVOKED camera was approved by kernel kernel",
        ]
    );
    let details = world.audit.events()[1].details.clone().unwrap();
    assert_eq!(details.decode::<String>("cause").unwrap().as_deref(), Some("expired"));
    // The approval stays over if the clock is set back to before its end.
    let (needed, before) = (["camera".into()], from_now(NOW) - Duration::from_mins(1));
    let missing =
        world.permissions.missing(&operator(), Some(&server()), "camera", &needed, None, before);
    assert_eq!(missing.len(), 1);
    world.permissions.approve(&operator(), files(&["camera"])).await.unwrap();
    world.runs("camera").await;
    assert_eq!(world.events()[2], "PERMISSION_GRANTED camera was expired by user olga");
}

#[tokio::test]
async fn what_an_operator_decides_elsewhere_holds_here() {
    let mut world = World::new(ApprovalPolicy::DenyAll, None);
    world.permissions.open().await.unwrap();
    let other = Permissions::new(
        Arc::new(world.store.clone()),
        Arc::new(world.audit.clone()),
        Policies::default(),
        None,
    );
    let mut moves = world.permissions.changes();
    moves.mark_unchanged();
    other.approve(&operator(), files(&["camera"])).await.unwrap();
    moves.changed().await.unwrap();
    world.runs("camera").await;
    other.revoke(&operator(), files(&["camera"])).await.unwrap();
    moves.changed().await.unwrap();
    assert_eq!(world.lacks("camera").await, "camera undecided");
}

#[tokio::test]
async fn a_revocation_closes_what_the_configuration_opened() {
    let mut world = World::new(ApprovalPolicy::Interactive, None);
    world.list(&["camera"]);
    world.runs("camera").await;
    world.permissions.revoke(&operator(), files(&["camera"])).await.unwrap();
    assert_eq!(world.lacks("camera").await, "camera undecided");
}

#[tokio::test]
async fn a_reset_returns_to_what_the_configuration_decides() {
    let mut world = World::new(ApprovalPolicy::Interactive, None);
    world.list(&["camera"]);
    let (permissions, by) = (world.permissions.clone(), operator());
    let camera = || files(&["camera"]);
    permissions.revoke(&by, camera()).await.unwrap();
    assert_eq!(world.lacks("camera").await, "camera undecided");
    let removed = permissions.reset(&by, camera().because("a mistake")).await.unwrap();
    assert_eq!(removed[0].decision, ApprovalDecision::Revoked);
    world.runs("camera").await;
    permissions.deny(&by, camera()).await.unwrap();
    assert_eq!(world.lacks("camera").await, "camera denied");
    for refused in [
        permissions.reset(&agent(), camera()).await,
        permissions.reset(&by, camera().tools(["look"])).await,
        permissions.reset(&by, camera().until(from_now(Duration::from_mins(1)))).await,
    ] {
        refused.unwrap_err();
    }
    // Another tenant's decision about the same permission stays.
    let other = Principal::new("other", "otto").operator();
    permissions.deny(&other, camera()).await.unwrap();
    assert_eq!(permissions.reset(&by, files(&["camera", "microphone"])).await.unwrap().len(), 1);
    world.runs("camera").await;
    assert!(permissions.reset(&by, camera()).await.unwrap().is_empty());
    assert_eq!(permissions.list(&other, Some(&server())).await.unwrap().len(), 1);
    let events = world.events();
    assert_eq!(events[1], "PERMISSION_REVOKED camera was revoked by user olga");
    assert_eq!(events.last().unwrap(), "PERMISSION_REVOKED camera was denied by user olga");
    let details = world.audit.events()[1].details.clone().unwrap();
    let text = |name: &str| details.decode::<String>(name).unwrap();
    assert_eq!(text("cause").as_deref(), Some("reset"));
    assert_eq!(text("justification").as_deref(), Some("a mistake"));
    assert_eq!(text("tenant").as_deref(), Some("acme"));
}

#[tokio::test]
async fn an_approval_that_names_a_tool_is_found_for_confirmations() {
    let world = World::new(ApprovalPolicy::Interactive, None);
    let (permissions, by) = (&world.permissions, operator());
    let of = |tool: &str, at: Duration| {
        permissions.names_tool(&agent(), Some(&server()), tool, from_now(at))
    };
    permissions.approve(&by, files(&["camera"])).await.unwrap();
    assert!(of("look", NOW).is_none(), "it names no tool");
    let usual = files(&["camera"]).tools(["look"]).confirm(ConfirmRule::Usual);
    permissions.approve(&by, usual).await.unwrap();
    assert!(of("look", NOW).is_none(), "it leaves confirmations as they are");
    permissions.approve(&by, files(&["camera"]).tools(["look"])).await.unwrap();
    assert_eq!(of("look", NOW).unwrap().confirm, None);
    let change = files(&["shell"]).tools(["look", "run"]).confirm(ConfirmRule::Never);
    let change = change.until(from_now(Duration::from_mins(1)));
    permissions.approve(&by, change).await.unwrap();
    assert_eq!(of("look", NOW).unwrap().confirm, Some(ConfirmRule::Never));
    assert_eq!(of("look", Duration::from_mins(2)).unwrap().confirm, None);
    assert!(of("run", Duration::from_mins(2)).is_none());
    assert!(of("other", NOW).is_none());
    permissions.revoke(&by, files(&["camera", "shell"])).await.unwrap();
    assert!(of("look", NOW).is_none());
    permissions.approve(&by, files(&["camera"]).tools(["look"])).await.unwrap();
    assert!(of("look", NOW).is_some());
    let mut denies = governed(ApprovalPolicy::Interactive);
    denies.denied = vec![Permission::Camera];
    world.policies.set("files", denies);
    assert!(of("look", NOW).is_none(), "the policy denies the permission");
}

#[tokio::test]
async fn a_change_is_recorded_once_for_each_permission_and_with_its_tenant() {
    let world = World::new(ApprovalPolicy::DenyAll, None);
    let (permissions, by) = (&world.permissions, operator());
    let made = permissions.approve(&by, files(&["camera", "camera"])).await.unwrap();
    assert_eq!(made.len(), 1);
    permissions.revoke(&by, files(&["camera"])).await.unwrap();
    let tenant = |event: &AuditEvent| event.details.as_ref()?.decode::<String>("tenant").ok()?;
    let tenants: Vec<_> = world.audit.events().iter().map(tenant).collect();
    assert_eq!(tenants, [Some("acme".to_owned()), Some("acme".to_owned())]);
}

#[tokio::test]
async fn no_approval_is_proposed_that_has_no_effect() {
    let mut world = World::new(ApprovalPolicy::ConfigOnly, None);
    let mut denies = governed(ApprovalPolicy::Interactive);
    denies.denied = vec![Permission::Camera];
    for (policy, expected) in [(None, "list `camera`"), (Some(denies), "denies `camera`")] {
        if let Some(policy) = policy {
            world.policies.set("files", policy);
        }
        world.permissions.approve(&operator(), files(&["camera"])).await.unwrap();
        let error = world.call("camera").await.unwrap_err();
        let details = error.as_recovery().and_then(|recovery| recovery.details.clone()).unwrap();
        let remedy: String = details.decode("remedy").unwrap().unwrap();
        assert!(remedy.contains(expected) && remedy.contains("no effect"), "{remedy}");
    }
}
