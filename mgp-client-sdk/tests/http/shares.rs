//! Tests of several principals that call one server through one client, as through a gateway.

use std::time::Duration;

use mgp_testkit::until;
use mgp_types::mcp::CallToolParams;
use mgp_types::method::ToolsCall;
use mgp_types::service::{Call, Principal};
use tokio::time::timeout;

use crate::script::{Server, Step, client, events};

#[tokio::test]
async fn slow_calls_of_one_principal_leave_room_for_those_of_another() {
    let server = Server::legacy(|seen| {
        (seen.body["params"]["name"] == "slow").then(|| events([Step::Hold]))
    })
    .await;
    let client = client().http(|http| http.requests = 9).connect_url(&server.url).await.unwrap();
    let call = |user: &str, tool: &str| {
        let mut cx = client.context();
        cx.principal = Principal::new("acme", user);
        let params = CallToolParams::new(tool);
        client.stack().send(Call::ask::<ToolsCall>(&params, cx).unwrap())
    };
    let slow: Vec<_> = (0..20).map(|_| tokio::spawn(call("ann", "slow"))).collect();
    until("the calls run", async || server.count("tools/call") == 8).await;
    let quick = timeout(Duration::from_secs(5), call("bob", "quick")).await;
    quick.expect("the call of another principal need not wait").unwrap();
    assert_eq!(server.count("tools/call"), 9);
    // When a call ends, a waiting call must start in its place.
    slow[0].abort();
    until("the next call runs", async || server.count("tools/call") == 10).await;
    for call in slow {
        call.abort();
    }
}
