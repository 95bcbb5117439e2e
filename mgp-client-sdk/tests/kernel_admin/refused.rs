//! An agent tries every method of an operator, in every spelling, with params and nonsense: 1000, on the record.

use mgp_client_sdk::security::AuditQuery;
use mgp_types::method::{Kind, methods, tool_spelling};
use mgp_types::mgp::ServerState;
use mgp_types::service::{Call, Method, Params};
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn nobody_but_an_operator_and_in_no_spelling() {
    let world = World::new().await;
    let agent = world.agent().await;
    let mut tried = 0;
    let all = methods().filter(|info| info.is_kernels() && info.kind == Kind::Request);
    let all: Vec<_> = all.map(|info| info.name).collect();
    assert_eq!(all.len(), 23);
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
    assert!(listed.iter().all(|tool| !tool.name.contains("kernel")), "in no list");
    let found = agent.call("mgp_tools_discover").arg("query", "stop kernel server").await.unwrap();
    assert!(!serde_json::to_string(&found).unwrap().contains("mgp_kernel"));

    // Nothing happened, and all of it is on the record.
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
    world.end().await;
}

#[tokio::test]
async fn an_operator_calls_them_as_tools_too() {
    let world = World::new().await;
    let operator = world.operator().await;
    let told = operator.call("mgp_kernel_servers").await.unwrap();
    let told = told.structured_content.unwrap();
    assert!(told.as_str().contains(r#""id":"clock""#), "{told:?}");
    let listed = operator.tools().await.unwrap();
    assert!(listed.iter().all(|tool| !tool.name.contains("kernel")), "listed to nobody");
    world.end().await;
}
