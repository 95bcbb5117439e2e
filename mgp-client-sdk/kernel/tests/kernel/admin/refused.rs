//! Tests that an agent cannot call any method for operators, however it writes the name of the method, and even with
//! invalid params: the kernel refuses the call with code 1000 (permission denied) and records it.

use mgp_security::AuditQuery;
use mgp_types::method::{KernelServers, Kind, methods, tool_spelling};
use mgp_types::mgp::{KernelServersParams, ServerState, ShutdownParams, ShutdownReason};
use mgp_types::service::{Call, CredentialGrant, Method, Params, Principal};
use serde_json::{Value, json};

use super::world::World;
use crate::route::world::recorded;

#[tokio::test]
async fn an_agent_is_refused_every_operator_method_in_every_spelling() {
    let world = World::new().await;
    let agent = world.agent().await;
    let mut tried = 0;
    let all = methods().filter(|info| info.is_kernel_only() && info.kind == Kind::Request);
    let all: Vec<_> = all.map(|info| info.name).collect();
    assert_eq!(all.len(), 34);
    for name in &all {
        for params in [r#"{"server_id":"clock"}"#, "{}", r#"{"server_id":[3]}"#] {
            let asked = Params::split(name, params.into()).unwrap();
            let call = Call::request(Method::of(name), asked, agent.context());
            let error = agent.stack().send(call).await.unwrap_err();
            assert_eq!(error.code().0, 1000, "{name} {params}");
            assert!(error.message().contains("operator"), "{error}");
            tried += 1;
        }
        for spelling in [(*name).to_owned(), name.replace('/', "."), tool_spelling(name)] {
            for arguments in [json!({ "server_id": "clock" }), json!({ "server_id": 3 })] {
                let error = agent.call(&spelling).args(&arguments).await.unwrap_err();
                assert_eq!(error.code().0, 1000, "{spelling} {arguments}: {error}");
                tried += 1;
            }
        }
    }
    let listed = agent.tools().await.unwrap();
    assert!(listed.iter().all(|tool| !tool.name.contains("kernel")), "no list has them");
    let found = agent.call("mgp_tools_discover").arg("query", "stop kernel server").await.unwrap();
    assert!(!serde_json::to_string(&found).unwrap().contains("mgp_kernel"));

    // The refused attempts must not change anything, and the audit log must contain every one of them.
    assert_eq!(world.kernel.servers()[0].status, ServerState::Connected);
    let log = world.kernel.governance().log().unwrap();
    log.flush().await.unwrap();
    let (mut denied, mut after) = (0, None);
    loop {
        let query = AuditQuery::new().agent("ada").event_type("PERMISSION_DENIED");
        let query = match after {
            Some(after) => query.after(after),
            None => query,
        };
        let page = log.query(query).await.unwrap();
        denied += page.events.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(denied, tried);
}

#[tokio::test]
async fn an_operator_may_call_the_methods_as_tools() {
    let world = World::new().await;
    let operator = world.operator().await;
    let result = operator.call("mgp_kernel_servers").await.unwrap();
    let result = result.structured_content.unwrap();
    assert!(result.as_str().contains(r#""id":"clock""#), "{result:?}");
    let listed = operator.tools().await.unwrap();
    assert!(listed.iter().all(|tool| !tool.name.contains("kernel")), "no list has them");
}

#[tokio::test]
async fn a_key_that_only_reads_shuts_nothing_down() {
    let world = World::new().await;
    let operator = Principal::local().operator();
    let narrow =
        world.connect_with(operator, Some(CredentialGrant::new(["admin.read"], || true))).await;
    assert!(narrow.request::<KernelServers>(&KernelServersParams::new()).await.is_ok());
    let mut clock = ShutdownParams::new();
    clock.server_id = Some("clock".to_owned());
    for params in [&clock, &ShutdownParams::new()] {
        let error = narrow.mgp().lifecycle_shutdown(params).await.unwrap_err();
        let expected = "only an operator whose key or token permits `admin.write` may call";
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(world.kernel.servers()[0].status, ServerState::Connected);

    // An operator whose key has no limits may shut the server down. After this, no call may start it again.
    let operator = world.operator().await;
    assert!(operator.mgp().lifecycle_shutdown(&clock).await.unwrap().accepted);
    world
        .until("the server is stopped", |world| {
            world.kernel.servers()[0].status == ServerState::Disconnected
        })
        .await;
    assert!(world.agent().await.call("now").await.is_err());
    let accepted = operator
        .mgp()
        .shutdown(ShutdownReason::OperatorRequest, std::time::Duration::from_secs(5))
        .await
        .unwrap();
    assert!(accepted.accepted);

    for event in ["PERMISSION_DENIED", "dev.cloto.administered"] {
        let events = recorded(&world.kernel, AuditQuery::new().event_type(event)).await;
        assert_eq!(events.matches(r#""method":"mgp/lifecycle/shutdown""#).count(), 2, "{events}");
    }
}

/// Regression test: the kernel did not know the tool, so a sink could not request the events that it had missed.
#[tokio::test]
async fn only_operators_replay_the_audit_log_by_a_tool() {
    let world = World::new().await;
    let (agent, operator) = (world.agent().await, world.operator().await);
    for name in ["mgp.audit.replay", "mgp_audit_replay"] {
        let error = agent.call(name).args(json!({})).await.unwrap_err();
        assert_eq!(error.code().0, 1000, "{error}");
        let page = operator.call(name).args(json!({ "limit": 1 })).await.unwrap();
        let page: Value = serde_json::from_str(page.structured_content.unwrap().as_str()).unwrap();
        assert_eq!(page["events"][0]["_mgp"]["seq"], 1, "{page}");
    }
}
