//! Tests of the four approval policies, and of the decisions that take precedence over them.

use super::*;

#[tokio::test]
async fn a_tool_that_needs_nothing_runs_whatever_the_policy() {
    for policy in [
        ApprovalPolicy::Interactive,
        ApprovalPolicy::AutoApprove,
        ApprovalPolicy::DenyAll,
        ApprovalPolicy::ConfigOnly,
        ApprovalPolicy::Other("odd".into()),
    ] {
        World::new(policy, None).runs("nothing").await;
    }
}

#[tokio::test]
async fn what_is_undecided_is_refused_with_the_remedy() {
    let mut world = World::new(ApprovalPolicy::Interactive, None);
    let error = world.call("read+camera").await.unwrap_err();
    assert_eq!(lacking(&error), "filesystem.read undecided, camera undecided");
    let details = error.as_recovery().unwrap().details.clone().unwrap();
    assert_eq!(details.decode::<String>("server_id").unwrap().as_deref(), Some("files"));
    let remedy: String = details.decode("remedy").unwrap().unwrap();
    assert!(remedy.contains("approve `filesystem.read`, `camera` for `files`"), "{remedy}");
    let rule = mgp_types::service::Rule::of(&error).unwrap();
    assert!(rule.as_str().contains("`filesystem.read` undecided"), "{rule}");
    assert_eq!(world.ran(), 0);
}

#[tokio::test]
async fn the_configuration_grants_under_every_policy() {
    for policy in [
        ApprovalPolicy::Interactive,
        ApprovalPolicy::AutoApprove,
        ApprovalPolicy::DenyAll,
        ApprovalPolicy::ConfigOnly,
    ] {
        let mut world = World::new(policy, None);
        world.list(&["filesystem", "com.example.x"]);
        world.runs("read+write+com.example.x").await;
    }
    let mut world = World::new(ApprovalPolicy::Other("odd".into()), None);
    world.list(&["filesystem"]);
    assert_eq!(world.lacks("read").await, "filesystem.read denied");
}

#[tokio::test]
async fn each_limit_of_the_configuration_limits_the_permissions_it_is_about() {
    let mut world = World::new(ApprovalPolicy::DenyAll, None);
    let limits = r#"{"languages":["python"],"allow_sudo":false,"max_execution_time_ms":5000}"#;
    let mut policy = ServerPolicy::clone(&world.policies.get(None))
        .permissions([Permission::ShellExecute, Permission::CodeExecution])
        .permission_limits(serde_json::from_str(limits).unwrap());
    policy.permission_policy = ApprovalPolicy::DenyAll;
    world.policies.set("files", policy);
    for (tool, arguments, runs) in [
        ("shell", r#"{"command":"ls","max_execution_time_ms":10}"#, true),
        ("shell", r#"{"command":"sudo ls","max_execution_time_ms":10}"#, false),
        ("shell", r#"{"command":"ls","max_execution_time_ms":9000}"#, false),
        ("code_execution", r#"{"language":"python","max_execution_time_ms":10}"#, true),
        ("code_execution", r#"{"language":"ruby","max_execution_time_ms":10}"#, false),
    ] {
        let called = world.call_with(tool, arguments).await;
        assert_eq!(called.is_ok(), runs, "{tool} {arguments}: {called:?}");
    }
}

#[tokio::test]
async fn limits_that_are_unknown_or_empty_allow_nothing() {
    let mut world = World::new(ApprovalPolicy::DenyAll, None);
    for (limits, runs) in [
        (r#"{"paths":["/srv"]}"#, true),
        (r#"{"hosts":["a.example"]}"#, true),
        (r#"{"hosts":[]}"#, true),
        ("{}", true),
        (r#"{"paths":[]}"#, false),
        (r#"{"path":["/srv"]}"#, false),
        (r#"{"paths":["/srv"],"path":["/srv"]}"#, false),
    ] {
        let policy = governed(ApprovalPolicy::DenyAll)
            .permissions([Permission::FilesystemRead])
            .permission_limits(serde_json::from_str(limits).unwrap());
        world.policies.set("files", policy);
        let called = world.call_with("read", r#"{"path":"/srv/a"}"#).await;
        assert_eq!(called.is_ok(), runs, "{limits}: {called:?}");
    }
}

#[tokio::test]
async fn limits_of_the_configuration_apply_after_the_policy_approved_by_itself() {
    let mut world = World::new(ApprovalPolicy::AutoApprove, None);
    world.call_with("read", r#"{"path":"/etc/passwd"}"#).await.unwrap();
    let limits = serde_json::from_str(r#"{"paths":["/srv"]}"#).unwrap();
    let policy = ServerPolicy::clone(&world.policies.get(None))
        .permissions([Permission::FilesystemRead])
        .permission_limits(limits);
    world.policies.set("files", policy);
    world.call_with("read", r#"{"path":"/srv/a"}"#).await.unwrap();
    let error = world.call_with("read", r#"{"path":"/etc/passwd"}"#).await.unwrap_err();
    assert_eq!(lacking(&error), "filesystem.read out_of_scope");
}

#[tokio::test]
async fn wildcards_cover_no_unknown_permission() {
    let mut world = World::new(ApprovalPolicy::DenyAll, None);
    world.list(&["filesystem.*", "com.example.*"]);
    world.runs("read+write").await;
    assert_eq!(world.lacks("camera").await, "camera denied");
    assert_eq!(world.lacks("com.example.x").await, "com.example.x denied");
    assert_eq!(world.lacks("filesystem.erase").await, "filesystem.erase denied");
    world.list(&["*"]);
    world.runs("read+camera+shell").await;
    assert_eq!(world.lacks("com.example.x").await, "com.example.x denied");
    assert_eq!(world.lacks("*").await, "*… denied");
    world.list(&["file*"]);
    assert_eq!(world.lacks("read").await, "filesystem.read denied");
}

#[tokio::test]
async fn withheld_permissions_have_every_spelling() {
    let withheld = ["filesystem.*", "com.example.*", "shell"].map(Permission::from);
    let mut world = World::new(ApprovalPolicy::AutoApprove, None);
    world
        .policies
        .set("files", governed(ApprovalPolicy::AutoApprove).auto_approve_except(withheld.clone()));
    assert_eq!(world.lacks("write").await, "filesystem.write undecided");
    assert_eq!(world.lacks("com.example.x").await, "com.example.x undecided");
    assert_eq!(world.lacks("shell").await, "shell.execute undecided");
    world.runs("camera+com.examples.x").await;
    let all =
        governed(ApprovalPolicy::AutoApprove).permissions(["*".into(), "com.example.x".into()]);
    world.policies.set("files", all.clone().deny(withheld));
    assert_eq!(world.lacks("write").await, "filesystem.write denied");
    assert_eq!(world.lacks("com.example.x").await, "com.example.x denied");
    assert_eq!(world.lacks("shell").await, "shell.execute denied");
    assert_eq!(world.lacks("filesystem").await, "filesystem.read denied, filesystem.write denied");
    world.runs("camera").await;
    world.policies.set("files", all.deny(["*".into()]));
    assert_eq!(world.lacks("camera").await, "camera denied");
}

#[tokio::test]
async fn short_names_are_the_permissions_they_stand_for() {
    let mut world = World::new(ApprovalPolicy::DenyAll, None);
    world.permissions.approve(&operator(), files(&["network", "memory"])).await.unwrap();
    world.runs("network+network.outbound+memory.read").await;
    assert_eq!(world.lacks("filesystem").await, "filesystem.read denied, filesystem.write denied");
}

#[tokio::test]
async fn deny_all_grants_what_an_operator_granted_and_asks_nobody() {
    let clerk = Clerk::new(GrantDecision::Approved);
    let mut world = World::new(ApprovalPolicy::DenyAll, Some(&clerk));
    assert_eq!(world.lacks("read").await, "filesystem.read denied");
    world.permissions.approve(&operator(), files(&["filesystem.read"])).await.unwrap();
    world.runs("read").await;
    assert!(clerk.asked().is_empty());
}

#[tokio::test]
async fn config_only_ignores_what_was_decided() {
    let clerk = Clerk::new(GrantDecision::Approved);
    let mut world = World::new(ApprovalPolicy::ConfigOnly, Some(&clerk));
    world.list(&["camera"]);
    let (permissions, by) = (world.permissions.clone(), operator());
    permissions.approve(&by, files(&["filesystem.read"]).tools(["read"])).await.unwrap();
    permissions.deny(&by, files(&["camera"])).await.unwrap();
    assert_eq!(world.lacks("read").await, "filesystem.read denied");
    world.runs("camera").await;
    assert!(clerk.asked().is_empty());
    assert!(
        permissions
            .names_tool(&agent(), Some(&server()), "read", from_now(Duration::ZERO))
            .is_none()
    );
}

#[test]
fn auto_approve_has_exceptions_in_every_spelling() {
    use mgp_types::mgp::Permission;
    let except = ["shell", "network.outbound"].map(Permission::from);
    let policy = crate::policy::ServerPolicy::default()
        .permission_policy(ApprovalPolicy::AutoApprove)
        .auto_approve_except(except);
    for (name, expected) in [
        ("shell.execute", ApprovalPolicy::Interactive),
        ("shell", ApprovalPolicy::Interactive),
        ("network", ApprovalPolicy::Interactive),
        ("camera", ApprovalPolicy::AutoApprove),
    ] {
        assert_eq!(*policy.decides(&name.into()), expected, "{name}");
    }
    let denying = policy.permission_policy(ApprovalPolicy::DenyAll);
    assert_eq!(*denying.decides(&"shell".into()), ApprovalPolicy::DenyAll);
}

#[tokio::test]
async fn auto_approve_writes_down_once_what_it_grants() {
    let mut world = World::new(ApprovalPolicy::AutoApprove, None);
    world.runs("read+com.example.x").await;
    world.runs("read+com.example.x").await;
    assert_eq!(
        world.events(),
        [
            "PERMISSION_GRANTED filesystem.read was - by kernel kernel",
            "PERMISSION_GRANTED com.example.x was - by kernel kernel",
        ]
    );
    assert_eq!(world.audit.events()[0].trace_id.as_deref(), Some("trace-1"));
    let kept = world.permissions.list(&operator(), None).await.unwrap();
    assert!(kept.iter().all(|approval| approval.approved_by == "auto_approve"));
    // A permission with an invalid name is not approved automatically.
    assert_eq!(world.lacks("foo").await, "foo undecided");
    // A recorded decision takes precedence over the policy.
    world.permissions.deny(&operator(), files(&["camera"])).await.unwrap();
    assert_eq!(world.lacks("camera").await, "camera denied");
    world.permissions.revoke(&operator(), files(&["filesystem.read"])).await.unwrap();
    assert_eq!(world.lacks("read").await, "filesystem.read undecided");
}

#[tokio::test]
async fn what_a_policy_granted_goes_with_it() {
    let mut world = World::new(ApprovalPolicy::AutoApprove, None);
    world.runs("read").await;
    for policy in [ApprovalPolicy::Interactive, ApprovalPolicy::DenyAll] {
        world.policies.set("files", governed(policy));
        assert!(world.call("read").await.is_err());
    }
}

#[tokio::test]
async fn a_server_cannot_fill_the_book() {
    let mut world = World::new(ApprovalPolicy::AutoApprove, None);
    for number in 0..256 {
        world.runs(&format!("com.example.p{number}")).await;
    }
    let error = world.call("com.example.more").await.unwrap_err();
    assert_eq!(error.code().0, 1000, "{error}");
    assert!(error.message().contains("256"), "{error}");
    let long = format!("com.example.{}", "x".repeat(200));
    assert_eq!(world.call(&long).await.unwrap_err().code().0, 1000);
    world.runs("com.example.p7").await;
    assert_eq!(world.ran(), 257);
}

#[tokio::test]
async fn grants_are_for_one_server_and_one_tenant() {
    let mut world = World::new(ApprovalPolicy::DenyAll, None);
    world.permissions.approve(&operator(), files(&["camera"])).await.unwrap();
    world.runs("camera").await;
    world.client.cx.server = Some("other".into());
    assert_eq!(world.lacks("camera").await, "camera denied");
    world.client.cx.server = None;
    assert_eq!(world.lacks("camera").await, "camera denied");
    world.client.cx.server = Some(server());
    world.client.cx.principal = Principal::new("other", "ada").agent("agent.one");
    assert_eq!(world.lacks("camera").await, "camera denied");
}

#[tokio::test]
async fn limits_hold_for_each_call() {
    let mut world =
        World::new(ApprovalPolicy::Interactive, Some(&Clerk::new(GrantDecision::Approved)));
    let scope = serde_json::from_str(r#"{"paths":["/srv"]}"#).unwrap();
    let change = files(&["filesystem.read"]).scope(scope).tools(["read", "read+read"]);
    world.permissions.approve(&operator(), change).await.unwrap();
    world.call_with("read", r#"{"path":"/srv/a"}"#).await.unwrap();
    let error = world.call_with("read", r#"{"path":"/etc/passwd"}"#).await.unwrap_err();
    assert_eq!(lacking(&error), "filesystem.read out_of_scope");
    assert!(error.message().contains("/etc/passwd"), "{error}");
    assert_eq!(world.lacks("read").await, "filesystem.read out_of_scope");
    // The grant is restricted to certain tools, and no approver is asked to extend it.
    let error = world.call_with("read+camera", r#"{"path":"/srv/a"}"#).await.unwrap_err();
    assert_eq!(lacking(&error), "filesystem.read out_of_scope, camera undecided");
    assert_eq!(world.ran(), 1);
}

#[tokio::test]
async fn a_book_that_cannot_be_read_grants_nothing() {
    let mut world = World::new(ApprovalPolicy::DenyAll, None);
    world.permissions.open().await.unwrap();
    world.permissions.approve(&operator(), files(&["camera"])).await.unwrap();
    world.runs("camera").await;
    let odd = mgp_types::store::Change::new().put(
        "permissions",
        "x",
        mgp_types::Payload::from_trusted(r#"{"a_newer_limit":1}"#),
    );
    mgp_types::store::Store::commit(&world.store, odd).await.unwrap();
    world.permissions.approve(&operator(), files(&["camera"])).await.unwrap_err();
    let error = world.call("camera").await.unwrap_err();
    assert_eq!(error.code().0, 2000, "{error}");
    assert_eq!(world.ran(), 1);
}

#[tokio::test]
async fn what_a_user_answered_grants_nothing_under_deny_all() {
    let clerk = Clerk::new(GrantDecision::Approved);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    world.runs("camera").await;
    world.policies.set("files", governed(ApprovalPolicy::DenyAll));
    assert_eq!(world.lacks("camera").await, "camera denied");
    world.permissions.approve(&operator(), files(&["camera"])).await.unwrap();
    world.runs("camera").await;
}

#[tokio::test]
async fn what_a_user_declined_stays_declined_under_deny_all() {
    let clerk = Clerk::new(GrantDecision::Denied);
    let mut world = World::new(ApprovalPolicy::Interactive, Some(&clerk));
    assert_eq!(world.lacks("camera").await, "camera denied");
    let mut listing = governed(ApprovalPolicy::DenyAll);
    listing.permissions = vec![Permission::Camera];
    world.policies.set("files", listing);
    assert_eq!(world.lacks("camera").await, "camera denied");
}

#[tokio::test]
async fn what_the_approver_has_configured_is_never_kept() {
    let world = World::new(ApprovalPolicy::Interactive, None);
    let of = |approver: Option<Arc<dyn Approver>>| {
        let (store, audit) = (Arc::new(world.store.clone()), Arc::new(world.audit.clone()));
        Permissions::new(store, audit, world.policies.clone(), approver)
    };
    let missing = async |permissions: &Permissions| {
        permissions.open().await.unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let mut client = mock::client(stack(permissions, &ran));
        client.cx.principal = agent();
        client.cx.server = Some(server());
        client.request("tools/call", r#"{"name":"camera"}"#).await.is_err()
    };
    let lists = || -> Option<Arc<dyn Approver>> {
        Some(Arc::new(crate::approval::ConfiguredApprover::new().permissions([Permission::Camera])))
    };
    let with = of(lists());
    assert!(!missing(&with).await);
    assert!(with.list(&operator(), None).await.unwrap().is_empty(), "nothing was kept");
    // Without the approver's configuration, the permission is missing again.
    assert!(missing(&of(None)).await);
    // Under `deny_all`, the approver's configuration grants nothing.
    world.policies.set("files", governed(ApprovalPolicy::DenyAll));
    assert!(missing(&with).await);
    world.policies.set("files", governed(ApprovalPolicy::Interactive));
    assert!(!missing(&with).await);
    // A revocation by an operator takes precedence over the approver's configuration.
    let taken = with.revoke(&operator(), files(&["camera"])).await.unwrap();
    assert_eq!(taken.len(), 1);
    assert!(missing(&with).await);
}
