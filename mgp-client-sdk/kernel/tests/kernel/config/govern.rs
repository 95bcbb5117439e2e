//! Tests of the keys in `[servers.mgp]` and `[kernel]` that set rules for calls and for the audit log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use mgp_client_sdk::{Client, ToolResult as _};
use mgp_security::PermissionChange;
use mgp_types::Payload;
use mgp_types::method::{KernelApprovals, KernelTools};
use mgp_types::mgp::{
    AccessGrantParams, KernelApprovalsParams, KernelToolsParams, Permission, RiskLevel, Validator,
};
use mgp_types::service::{Principal, ServerId};
use tokio::time::timeout;

use super::world::{CALL_TIMEOUT, World, until};
use crate::route::world::{grant, recorded_calls};

/// Returns a configuration with a server that all callers may use. `mgp` has further keys of `[servers.mgp]`, and
/// `more` further sections.
fn open(mgp: &str, more: &str) -> String {
    format!(
        "[[servers]]\nid = 'a'\n{{SERVER}}\n[servers.mgp]\ndefault_policy = 'opt-out'\n{mgp}\n{more}"
    )
}

/// Calls a tool and returns 0 if the call runs, otherwise the code of the refusal. A call that waits for a person
/// counts as refused with code 1000 (permission denied).
async fn code_of_call(world: &World, tool: &str) -> i32 {
    let agent = world.agent("ada").await;
    let call = async { agent.call(tool).arg("url", "https://example.com").await };
    let Ok(answer) = timeout(CALL_TIMEOUT, call).await else { return 1000 };
    match answer {
        Ok(result) if result.is_error != Some(true) => 0,
        Ok(result) => panic!("{}", result.to_text()),
        Err(error) => error.code().0,
    }
}

#[tokio::test]
async fn permissions_follow_the_configured_policy() {
    let network = "risk = { fetch_url = 'safe' }\n";
    for (mgp, kernel, expected) in [
        ("", "", false),
        ("permissions = ['network.outbound']", "", true),
        ("permission_policy = 'deny_all'", "", false),
        ("permission_policy = 'config_only'", "", false),
        ("permission_policy = 'config_only'\npermissions = ['network.outbound']", "", true),
        ("permission_policy = 'auto_approve'", "", true),
        ("", "[kernel]\npermission_policy = 'auto_approve'", true),
        ("permission_policy = 'deny_all'", "[kernel]\npermission_policy = 'auto_approve'", false),
        (
            "",
            "[kernel]\npermission_policy = 'auto_approve'\nauto_approve_except = ['network']",
            false,
        ),
    ] {
        let world = World::with_tools(&open(&format!("{network}{mgp}"), kernel)).await;
        let server = ServerId::from("a");
        let needed = world.kernel.governance().definitions().assessment(Some(&server), "fetch_url");
        let needed = needed.permissions.clone();
        assert!(needed.contains(&Permission::NetworkOutbound), "{needed:?}");
        let code = code_of_call(&world, "fetch_url").await;
        assert_eq!(code == 0, expected, "{mgp} {kernel}: {code}");
        world.end().await;
    }
}

#[tokio::test]
async fn an_operator_sees_which_denied_permission_makes_a_tool_unusable() {
    let safe = "risk = { fetch_url = 'safe' }\n";
    for (mgp, expected) in [
        ("", ""),
        ("permission_policy = 'config_only'\npermissions = ['network.outbound']", ""),
        ("permission_policy = 'deny_all'", "network.outbound: deny_all"),
    ] {
        let world = World::with_tools(&open(&format!("{safe}{mgp}"), "")).await;
        let mut params = KernelToolsParams::new();
        params.agent_id = Some("ada".to_owned());
        let tools = world.operator().await.request::<KernelTools>(&params).await.unwrap().tools;
        let tool = tools.iter().find(|tool| tool.tool_id == "a.fetch_url").unwrap();
        assert_eq!(tool.seen_by_agent, Some(true), "{mgp}: {tool:?}");
        let why = tool.hidden_because.as_deref().unwrap_or_default();
        assert_eq!(why.split(": n").next(), Some(expected), "{mgp}");
        world.end().await;
    }
}

#[tokio::test]
async fn under_deny_all_a_tool_without_a_permission_in_force_is_listed_as_its_calls_end() {
    let hours = Arc::new(AtomicU64::new(0));
    let rules = "risk = { fetch_url = 'safe' }\npermission_policy = 'deny_all'";
    let world = World::with_tools(&open(rules, "")).await;
    let (governance, by) = (world.kernel.governance(), Principal::local().operator());
    let (start, passed) = (SystemTime::now(), Arc::clone(&hours));
    let clock = move || start + Duration::from_hours(passed.load(Ordering::Relaxed));
    drop(governance.access().clone().clock(clock.clone()));
    let permissions = governance.permissions().clone().clock(clock);
    let change = || PermissionChange::of("a", [Permission::NetworkOutbound]);
    let mut params = KernelToolsParams::new();
    params.agent_id = Some("ada".to_owned());
    let operator = world.operator().await;
    let reason = async || {
        let tools = operator.request::<KernelTools>(&params).await.unwrap().tools;
        let tool = tools.into_iter().find(|tool| tool.tool_id == "a.fetch_url").unwrap();
        tool.hidden_because.unwrap_or_default()
    };

    permissions.approve(&by, change()).await.unwrap();
    assert_eq!((reason().await.as_str(), code_of_call(&world, "fetch_url").await), ("", 0));
    permissions.revoke(&by, change()).await.unwrap();
    assert!(reason().await.contains("revoked it"), "{}", reason().await);
    assert_eq!(code_of_call(&world, "fetch_url").await, 1000);

    permissions.approve(&by, change().until(start + Duration::from_hours(1))).await.unwrap();
    assert_eq!((reason().await.as_str(), code_of_call(&world, "fetch_url").await), ("", 0));
    hours.store(2, Ordering::Relaxed);
    assert!(reason().await.contains("ended"), "{}", reason().await);
    assert_eq!(code_of_call(&world, "fetch_url").await, 1000);
    world.end().await;
}

/// Regression test: the refusal also named the configuration, which cannot grant a permission that was revoked.
#[tokio::test]
async fn a_refusal_after_a_revocation_names_only_a_new_approval() {
    let rules = "risk = { fetch_url = 'safe' }\npermission_policy = 'auto_approve'\npermissions = ['network.outbound']";
    let world = World::with_tools(&open(rules, "")).await;
    assert_eq!(code_of_call(&world, "fetch_url").await, 0);
    let change = PermissionChange::of("a", [Permission::NetworkOutbound]);
    let by = Principal::local().operator();
    world.kernel.governance().permissions().revoke(&by, change).await.unwrap();
    let agent = world.agent("ada").await;
    let refused = agent.call("fetch_url").arg("url", "https://example.com").await.unwrap_err();
    let expected = "(local revoked it); ask an operator to approve `network.outbound` for `a`";
    assert!(refused.message().ends_with(expected), "{refused:?}");
    world.end().await;
}

/// Regression test: the kernel listed `permissions_required` of the configuration, but only the permissions that a
/// server requires in its handshake had an effect.
#[tokio::test]
async fn a_permission_the_file_requires_is_needed_before_the_first_handshake() {
    let safe = "risk = { look = 'safe' }\npermissions_required = ['camera']\n";
    for (mgp, expected) in [
        ("permission_policy = 'deny_all'", 1000),
        ("permission_policy = 'deny_all'\npermissions = ['camera']", 0),
        ("permission_policy = 'auto_approve'", 0),
    ] {
        let world = World::with_tools(&open(&format!("{safe}{mgp}"), "")).await;
        assert_eq!(code_of_call(&world, "look").await, expected, "{mgp}");
        world.end().await;
    }
}

#[tokio::test]
async fn auto_approve_asks_for_shell_and_code_all_the_same() {
    let world = World::new(&open("", "[kernel]\npermission_policy = 'auto_approve'")).await;
    let policy = world.kernel.governance().policies().get(Some(&"a".into()));
    let except = [Permission::ShellExecute, Permission::CodeExecution];
    assert_eq!(policy.auto_approve_except, except);
    world.end().await;
}

#[tokio::test]
async fn risk_confirm_and_validators_apply_to_single_tools() {
    for (keys, tool, expected) in [
        // The name of the tool suggests danger, so the call needs a confirmation. The agent's user cannot be asked, so
        // the call does not run.
        ("", "wipe_disk", false),
        ("risk = { wipe_disk = 'safe' }", "wipe_disk", true),
        ("risk = { look = 'moderate' }", "look", true),
        ("risk = { look = 'moderate' }\nconfirm = 'moderate'", "look", false),
    ] {
        let all = "permission_policy = 'auto_approve'\n";
        let world =
            World::with_tools(&open(&format!("{all}{keys}"), "[kernel]\nauto_approve_except = []"))
                .await;
        let code = code_of_call(&world, tool).await;
        assert_eq!(code == 0, expected, "{keys}: {code}");
        world.end().await;
    }
    let world =
        World::new(&open("validators = { look = 'readonly' }\nrisk = { look = 'safe' }", "")).await;
    let policy = world.kernel.governance().policies().get(Some(&"a".into()));
    assert_eq!(policy.validators["look"], Validator::from("readonly"));
    assert_eq!(policy.risk["look"], RiskLevel::Safe);
    world.end().await;
    let keys = "validators = { look = 'sandbox' }\nrisk = { look = 'safe' }";
    let world = World::with_tools(&open(keys, "")).await;
    let agent = world.agent("ada").await;
    let refused = agent.call("look").arg("word", "rm -rf /").await.unwrap_err();
    assert_eq!(refused.code().0, 1010);
    assert!(!refused.to_string().contains("validators ="), "the key is not for a model: {refused}");
    world.end().await;
}

#[tokio::test]
async fn a_call_reaches_a_local_host_only_while_the_configuration_names_it() {
    let keys = "permission_policy = 'auto_approve'\nrisk = { fetch_url = 'safe' }\n";
    let named = |hosts: &str| open(&format!("{keys}local_hosts = [{hosts}]"), "");
    let world = World::with_tools(&named("'localhost:3000', 'wiki.corp:443'")).await;
    assert_eq!(world.server("a").local_hosts.as_deref(), Some("localhost:3000, wiki.corp:443"));
    let agent = world.agent("ada").await;
    let code = async |url: &str| match agent.call("fetch_url").arg("url", url).await {
        Ok(_) => 0,
        Err(error) => error.code().0,
    };
    for (url, expected) in [
        ("http://localhost:3000/x", 0),
        ("http://127.0.0.1:3000/x", 0),
        ("https://wiki.corp/x", 0),
        ("http://localhost:3001/x", 1010),
        ("http://localhost:3000@evil.example/", 1010),
        ("http://localhost:3000\\@10.0.0.1/", 1010),
        ("http://169.254.169.254/latest", 1010),
        ("http://10.0.0.1:3000/", 1010),
    ] {
        assert_eq!(code(url).await, expected, "{url}");
    }
    world.write(&named(""));
    world.kernel.reload().await.unwrap();
    until("the host is no longer named", || world.server("a").local_hosts.is_none()).await;
    assert_eq!(code("http://localhost:3000/x").await, 1010);
    world.end().await;
}

#[tokio::test]
async fn search_finds_a_tool_by_its_risk_of_today() {
    let risk_of = |world: &World| world.kernel.index().get("a", "look").map(|tool| tool.risk());
    let mut world = World::with_tools(&open("risk = { look = 'safe' }", "")).await;
    assert_eq!(risk_of(&world), Some(RiskLevel::Safe));
    // The kernel may apply the changed file by itself, before the test requests this. In both cases the index must have
    // the new risk.
    world.write(&open("risk = { look = 'dangerous' }", ""));
    world.kernel.reload().await.unwrap();
    until("the index has the new risk", || risk_of(&world) == Some(RiskLevel::Dangerous)).await;

    world.write(&open("risk = { look = 'moderate' }", ""));
    world.restart().await;
    until("the next kernel has the newest risk", || risk_of(&world) == Some(RiskLevel::Moderate))
        .await;
    world.end().await;
}

#[tokio::test]
async fn arguments_that_cannot_be_checked_do_not_reach_a_server() {
    let open_to_checks = |keys: &str| {
        let mgp = "risk = { fetch_url = 'safe' }\npermission_policy = 'auto_approve'\n";
        let server = format!("[[servers]]\nid = 'a'\n{{SERVER}}\n{keys}[servers.mgp]\n");
        format!("{server}default_policy = 'opt-out'\n{mgp}")
    };
    let call = async |world: &World, text: &str| {
        let arguments = Payload::from_trusted(text.to_owned());
        let answer = world.agent("ada").await.call("fetch_url").args(&arguments).await;
        answer.map_or_else(|error| error.code().0, |_| 0)
    };
    let padded = format!(r#"{{"url":5,"pad":"{}"}}"#, "x".repeat(1_100_000));
    let wrong = [
        r#"{"url":5}"#,
        r#"{"url":5,"n":1e400}"#,
        r#"{"url":5,"n":"\ud800"}"#,
        r#"{"url":5,"url":"https://example.com"}"#,
        &padded,
    ];
    let world = World::with_tools(&open_to_checks("")).await;
    assert_eq!(call(&world, r#"{"url":"https://example.com"}"#).await, 0);
    for text in wrong {
        let shown = mgp_types::clip(text, 60);
        assert_eq!(call(&world, text).await, 4000, "{shown}");
    }
    world.end().await;
    let world = World::with_tools(&open_to_checks("check_arguments = false\n")).await;
    assert_ne!(call(&world, wrong[0]).await, 4000, "the check is left to the server");
    world.end().await;
}

#[tokio::test]
async fn a_call_that_waits_for_a_person_takes_no_place_of_a_running_call() {
    let rules = "permission_policy = 'auto_approve'\nrisk = { look = 'safe' }\n";
    let limits = "[servers.limits]\nrunning = 1\n[kernel]\napproval_timeout = '1m'";
    let world = World::with_tools(&open(rules, limits)).await;
    let (ada, operator) = (world.agent("ada").await, world.operator().await);
    let waiting = tokio::spawn(async move { ada.call("wipe_disk").await });
    let is_open = async || {
        let all = operator.request::<KernelApprovals>(&KernelApprovalsParams::new()).await.unwrap();
        all.approvals.iter().any(|one| one.state == "open")
    };
    mgp_testkit::until("the call waits for a person", is_open).await;
    let bob = world.agent("bob").await;
    let other = timeout(CALL_TIMEOUT * 10, async { bob.call("look").await }).await;
    assert!(other.is_ok_and(|called| called.is_ok()), "it waited for the other call");
    assert!(!waiting.is_finished());
    waiting.abort();
    world.end().await;
}

#[tokio::test]
async fn a_call_that_waited_for_its_turn_is_decided_again() {
    // A call takes four seconds.
    let env = "env = { STEPS = '1 2 3 4 5 6 7 8 9 10' }";
    let server = format!("[[servers]]\nid = 'a'\n{{SERVER}}\n{env}\n[servers.mgp]\n");
    let rules = "default_policy = 'opt-out'\nrisk = { look = 'safe' }\n";
    let world = World::with_tools(&format!("{server}{rules}[servers.limits]\nrunning = 1")).await;
    let (ada, bob) = (world.agent("ada").await, world.agent("bob").await);
    let first = tokio::spawn(async move { ada.call("look").await });
    tokio::time::sleep(Duration::from_millis(250)).await;
    let second = tokio::spawn(async move { bob.call("look").await });
    tokio::time::sleep(Duration::from_millis(250)).await;
    grant(&world.kernel, AccessGrantParams::deny("bob", "a")).await;
    assert!(first.await.unwrap().is_ok());
    assert_eq!(second.await.unwrap().unwrap_err().code().0, 1001);
    world.end().await;
}

#[tokio::test]
async fn a_refused_call_uses_up_no_quota() {
    let rules =
        "permission_policy = 'auto_approve'\nrisk = { look = 'safe', fetch_url = 'safe' }\n";
    let world = World::with_tools(&open(rules, "[servers.limits]\ncalls_per_day = 2")).await;
    let ada = world.agent("ada").await;
    for _ in 0..3 {
        let refused = ada.call("fetch_url").arg("url", 5).await.unwrap_err();
        assert_eq!(refused.code().0, 4000, "{refused}");
    }
    for _ in 0..2 {
        ada.call("look").await.unwrap();
    }
    let used_up = ada.call("look").await.unwrap_err();
    assert_eq!(used_up.code().0, 3002, "{used_up}");
    world.end().await;
}

#[tokio::test]
async fn agents_of_different_tenants_never_share_a_quota() {
    let limits = "[limits]\ncalls_per_day = 2";
    let world = World::with_tools(&open("risk = { look = 'safe' }", limits)).await;
    let host = async |tenant: &str, agent: &str| {
        let principal = Principal::new(tenant, "user").agent(agent);
        world.connect(principal, Client::builder("host", "1")).await
    };
    for (tenant, agent) in [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c")] {
        let client = host(tenant, agent).await;
        for _ in 0..2 {
            client.call("look").await.unwrap();
        }
        let used_up = client.call("look").await.unwrap_err();
        assert_eq!(used_up.code().0, 3002, "{tenant} {agent}: {used_up}");
    }
    world.end().await;
}

#[tokio::test]
async fn the_audit_log_is_kept_as_configured() {
    let kernel =
        "[kernel.audit]\ndir = '{DIR}/elsewhere'\narguments = 'full'\nfsync = 'always'\nkeep = 3";
    let world = World::with_tools(&open("risk = { look = 'safe' }", kernel)).await;
    let agent = world.agent("ada").await;
    agent.call("look").arg("word", "hello there").await.unwrap();
    let log = world.kernel.governance().log().unwrap();
    assert_eq!(log.location().0, world.folder().join("elsewhere"));
    let events = recorded_calls(&world.kernel, "a").await;
    assert!(events.contains("hello there"), "{events}");
    world.end().await;
    let world = World::new(&open("risk = { look = 'safe' }", "")).await;
    assert!(world.folder().join("state/audit").exists());
    world.end().await;
}
