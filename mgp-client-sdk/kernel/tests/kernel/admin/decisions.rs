//! Tests of operators' decisions about definitions and permissions.

use std::sync::atomic::Ordering;

use mgp_types::method::{
    KernelExplain, KernelPermissions, KernelPermissionsApprove, KernelPermissionsDeny,
    KernelPermissionsReset, KernelPermissionsRevoke, KernelServersRestart, KernelTools,
    KernelToolsApprove, KernelToolsReject,
};
use mgp_types::mgp::{
    ExplainedOutcome, KernelExplainParams, KernelPermissionChangeParams, KernelPermissionsParams,
    KernelServerParams, KernelTool, KernelToolDecisionParams, KernelToolsParams, ToolStanding,
};

use super::world::World;
use crate::route::world::wait_for_tasks;

#[tokio::test]
async fn a_changed_definition_waits_and_is_approved() {
    let world = World::new().await;
    let (operator, agent) = (world.operator().await, world.agent().await);
    let mut params = KernelToolsParams::new();
    params.agent_id = Some("ada".to_owned());
    let now = async || -> KernelTool {
        let all = operator.request::<KernelTools>(&params).await.unwrap().tools;
        all.into_iter().find(|tool| tool.tool_id == "clock.now").unwrap()
    };
    let before = now().await;
    assert_eq!((before.standing, before.seen_by_agent), (ToolStanding::Pinned, Some(true)));

    world.has_new_text.store(true, Ordering::Relaxed);
    operator.request::<KernelServersRestart>(&KernelServerParams::new("clock")).await.unwrap();
    world
        .until("the definition waits", |world| {
            !world.kernel.governance().definitions().waiting().unwrap().is_empty()
        })
        .await;
    let waits = now().await;
    assert_eq!((waits.standing, waits.seen_by_agent), (ToolStanding::Changed, Some(false)));
    assert!(waits.hidden_because.unwrap().contains("waits for an operator"));
    assert!(waits.reasons[0].contains("at last"), "{:?}", waits.reasons);
    assert!(agent.call("now").await.is_err());

    let mut decision = KernelToolDecisionParams::new("clock", "now");
    // A decision must require a fingerprint. Otherwise an operator could approve a definition that changed after the
    // operator read it.
    for unnamed in [None, Some(String::new())] {
        decision.fingerprint = unnamed;
        let error = operator.request::<KernelToolsApprove>(&decision).await.unwrap_err();
        assert_eq!(error.code().0, -32602, "{error}");
    }
    decision.fingerprint = Some("0".repeat(64));
    let error = operator.request::<KernelToolsApprove>(&decision).await.unwrap_err();
    assert!(error.to_string().contains("another definition"), "{error}");
    decision.fingerprint = waits.fingerprint;
    let result = operator.request::<KernelToolsApprove>(&decision).await.unwrap();
    assert_eq!(result.status, "approved");
    // The answer to the approval waits until the tools are read again.
    let now = world.kernel.index().get("clock", "now").unwrap();
    assert_eq!(now.description(), Some("The time, at last"));
    assert!(agent.call("now").await.is_ok());
}

#[tokio::test]
async fn a_permission_of_a_disabled_or_removed_server_can_be_revoked_but_not_approved() {
    let notes = "[[servers]]\nid = 'notes'\ncommand = '/no/such/program'\n";
    let world = World::configured(notes).await;
    let operator = world.operator().await;
    let (info, read) = ("system.info", "filesystem.read");
    let of = |permission: &str| KernelPermissionChangeParams::new("notes", vec![permission.into()]);
    for permission in [info, read] {
        operator.request::<KernelPermissionsApprove>(&of(permission)).await.unwrap();
    }
    let revoked = async |permission: &str| {
        let result = operator.request::<KernelPermissionsRevoke>(&of(permission)).await.unwrap();
        assert_eq!(result.permissions[0].decision, "revoked", "{permission}");
    };
    world.configure(&format!("{notes}enabled = false\n")).await;
    revoked(info).await;
    let error = operator.request::<KernelPermissionsApprove>(&of(info)).await.unwrap_err();
    assert!(error.to_string().contains("run `mgp servers enable notes`"), "{error}");

    world.configure("").await;
    revoked(read).await;
    let other = KernelPermissionChangeParams::new("nots", vec![info.into()]);
    let error = operator.request::<KernelPermissionsRevoke>(&other).await.unwrap_err();
    assert!(error.to_string().contains("there is no server `nots`"), "{error}");
}

#[tokio::test]
async fn a_reset_removes_the_decision_and_finds_none_the_second_time() {
    let world = World::new().await;
    let operator = world.operator().await;
    let of = |server: &str| KernelPermissionChangeParams::new(server, vec!["camera".into()]);
    operator.request::<KernelPermissionsDeny>(&of("clock")).await.unwrap();
    let reset = async || operator.request::<KernelPermissionsReset>(&of("clock")).await.unwrap();
    assert_eq!(reset().await.permissions[0].decision, "denied");
    let all = operator.request::<KernelPermissions>(&KernelPermissionsParams::new()).await.unwrap();
    assert!(all.permissions.iter().all(|one| one.permission.as_str() != "camera"), "{all:?}");
    assert!(reset().await.permissions.is_empty());
    let unknown = operator.request::<KernelPermissionsReset>(&of("clok")).await.unwrap_err();
    assert!(unknown.to_string().contains("there is no server `clok`"), "{unknown}");
    let agent = world.agent().await;
    assert!(agent.request::<KernelPermissionsReset>(&of("clock")).await.is_err());
}

#[tokio::test]
async fn a_decision_about_a_server_that_comes_later_is_forced() {
    let world = World::new().await;
    let operator = world.operator().await;
    let mut params = KernelPermissionChangeParams::new("later", vec!["system.info".into()]);
    let error = operator.request::<KernelPermissionsApprove>(&params).await.unwrap_err();
    assert!(error.to_string().contains("there is no server `later`"), "{error}");
    params.force = Some(true);
    let approved = operator.request::<KernelPermissionsApprove>(&params).await.unwrap();
    assert_eq!(approved.permissions[0].decision, "approved");
    let denied = operator.request::<KernelPermissionsDeny>(&params).await.unwrap();
    assert_eq!(denied.permissions[0].decision, "denied");
}

#[tokio::test]
async fn a_decision_with_an_expiry_of_another_name_is_refused() {
    let world = World::new().await;
    let operator = world.operator().await;
    let mut params = KernelPermissionChangeParams::new("clock", vec!["system.info".into()]);
    params.extra.encode("expires_at", "2099-01-01T00:00:00Z").unwrap();
    let approved = operator.request::<KernelPermissionsApprove>(&params).await;
    let denied = operator.request::<KernelPermissionsDeny>(&params).await;
    for error in [approved.unwrap_err(), denied.unwrap_err()] {
        assert_eq!(error.code().0, -32602, "{error}");
        assert!(error.to_string().contains("write `until`"), "{error}");
    }
}

#[tokio::test]
async fn a_rejected_definition_is_explained_listed_and_approved_after_a_restart() {
    let world = World::new().await;
    let (operator, agent) = (world.operator().await, world.agent().await);
    world.has_new_text.store(true, Ordering::Relaxed);
    operator.request::<KernelServersRestart>(&KernelServerParams::new("clock")).await.unwrap();
    let waiting = |world: &World| world.kernel.governance().definitions().waiting().unwrap();
    world.until("the definition waits", |world| !waiting(world).is_empty()).await;
    let is_listed = |world: &World| world.kernel.index().get("clock", "now").is_some();
    world.until("the old definition is no longer listed", |world| !is_listed(world)).await;
    let explain = KernelExplainParams::new("ada", "clock.now");
    let explained = operator.request::<KernelExplain>(&explain).await.unwrap();
    assert_eq!(explained.outcome, ExplainedOutcome::Refuse, "{explained:?}");

    let mut decision = KernelToolDecisionParams::new("clock", "now");
    decision.fingerprint = Some(waiting(&world)[0].held.fingerprint.to_string());
    operator.request::<KernelToolsReject>(&decision).await.unwrap();
    let explained = operator.request::<KernelExplain>(&explain).await.unwrap();
    assert!(explained.reason.unwrap().contains("an operator rejected"));
    assert!(agent.call("now").await.is_err());
    // Wait, because the kernel stores a list only some time after it has read the list.
    wait_for_tasks().await;
    drop((operator, agent));

    let world = world.restarted().await;
    let operator = world.operator().await;
    let mut params = KernelToolsParams::new();
    params.tool_id = Some("clock.now".to_owned());
    params.agent_id = Some("ada".to_owned());
    let tools = operator.request::<KernelTools>(&params).await.unwrap().tools;
    let [now] = &tools[..] else { panic!("{tools:?}") };
    assert_eq!((&now.standing, &now.fingerprint), (&ToolStanding::Rejected, &decision.fingerprint));
    assert!(now.seen_by_agent == Some(false) && now.hidden_because.is_some(), "{now:?}");
    assert!(now.definition.as_ref().unwrap().contains("at last"), "{now:?}");
    // Another operator, whose program still shows the definition as waiting, must not be able to approve it.
    decision.expected = Some(ToolStanding::Changed);
    let late = operator.request::<KernelToolsApprove>(&decision).await.unwrap_err();
    assert!(late.to_string().contains("is rejected already, by "), "{late}");
    decision.expected = Some(ToolStanding::Rejected);
    let result = operator.request::<KernelToolsApprove>(&decision).await.unwrap();
    assert_eq!(result.status, "approved");
    assert!(world.agent().await.call("now").await.is_ok());
}
