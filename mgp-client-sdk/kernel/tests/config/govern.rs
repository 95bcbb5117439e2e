//! Tests of the keys in `[servers.mgp]` and `[kernel]` that set rules for calls and for the audit log.

use mgp_client_sdk::ToolResult as _;
use mgp_security::AuditQuery;
use mgp_types::mgp::{Permission, RiskLevel, Validator};
use mgp_types::service::ServerId;
use tokio::time::timeout;

use crate::world::{CALL_TIMEOUT, World};

/// Returns a configuration with a server that all callers may use, and with further keys and sections.
fn open(mgp: &str, more: &str) -> String {
    format!(
        "[[servers]]\nid = 'a'\n{{SERVER}}\n[servers.mgp]\ndefault_policy = 'opt-out'\n{mgp}\n{more}"
    )
}

/// Calls a tool and returns the code of the refusal; 0 if the call runs, and 1000 if it waits for a person.
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
async fn default_policy_applies_without_an_entry() {
    let closed =
        World::new("[[servers]]\nid = 'a'\n{SERVER}\n[servers.mgp]\nrisk = { look = 'safe' }")
            .await;
    closed.knows("a").await;
    assert_eq!(code_of_call(&closed, "look").await, 1001);
    closed.end().await;
    let opened = World::new(&open("risk = { look = 'safe' }", "")).await;
    opened.knows("a").await;
    assert_eq!(code_of_call(&opened, "look").await, 0);
    opened.end().await;
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
        let world = World::new(&open(&format!("{network}{mgp}"), kernel)).await;
        world.knows("a").await;
        let server = ServerId::from("a");
        let needed = world.kernel.governance().definitions().assessment(Some(&server), "fetch_url");
        let needed = needed.permissions.clone();
        assert!(needed.contains(&Permission::NetworkOutbound), "{needed:?}");
        let code = code_of_call(&world, "fetch_url").await;
        assert_eq!(code == 0, expected, "{mgp} {kernel}: {code}");
        world.end().await;
    }
}

/// Regression test: `permissions_required` in the configuration was listed, but only the permissions that a server
/// requires in its handshake had an effect.
#[tokio::test]
async fn a_permission_the_file_requires_is_needed_before_the_first_handshake() {
    let safe = "risk = { look = 'safe' }\npermissions_required = ['camera']\n";
    for (mgp, expected) in [
        ("permission_policy = 'deny_all'", 1000),
        ("permission_policy = 'deny_all'\npermissions = ['camera']", 0),
        ("permission_policy = 'auto_approve'", 0),
    ] {
        let world = World::new(&open(&format!("{safe}{mgp}"), "")).await;
        world.knows("a").await;
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
        // The name of the tool suggests danger, so it needs a confirmation, and the agent is not interactive.
        ("", "wipe_disk", false),
        ("risk = { wipe_disk = 'safe' }", "wipe_disk", true),
        ("risk = { look = 'moderate' }", "look", true),
        ("risk = { look = 'moderate' }\nconfirm = 'moderate'", "look", false),
    ] {
        let all = "permission_policy = 'auto_approve'\n";
        let world =
            World::new(&open(&format!("{all}{keys}"), "[kernel]\nauto_approve_except = []")).await;
        world.knows("a").await;
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
    let world = World::new(&open(keys, "")).await;
    world.knows("a").await;
    let agent = world.agent("ada").await;
    let refused = agent.call("look").arg("word", "rm -rf /").await.unwrap_err();
    assert_eq!(refused.code().0, 1010);
    assert!(!refused.to_string().contains("validators ="), "the key is not for a model: {refused}");
    world.end().await;
}

#[tokio::test]
async fn the_audit_log_is_kept_as_configured() {
    let kernel =
        "[kernel.audit]\ndir = '{DIR}/elsewhere'\narguments = 'full'\nfsync = 'always'\nkeep = 3";
    let world = World::new(&open("risk = { look = 'safe' }", kernel)).await;
    world.knows("a").await;
    let agent = world.agent("ada").await;
    agent.call("look").arg("word", "hello there").await.unwrap();
    let log = world.kernel.governance().log().unwrap();
    assert_eq!(log.location().0, world.folder().join("elsewhere"));
    log.flush().await.unwrap();
    let page = log.query(AuditQuery::new().tool("look").event_type("TOOL_EXECUTED")).await.unwrap();
    let text = serde_json::to_string(&page.events).unwrap();
    assert!(text.contains("hello there"), "{text}");
    world.end().await;
    let world = World::new(&open("risk = { look = 'safe' }", "")).await;
    assert!(world.folder().join("state/audit").exists());
    world.end().await;
}
