//! A modern server receives its permissions with each request, and asks for missing ones; there is no `initialize`.

use std::time::Duration;

use mgp_client_sdk::{Client, ToolResult as _};
use mgp_types::mgp::GrantDecision::{Approved, Denied};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::authority::{DecisionTime, TestAuthority};
use crate::script::Script;

fn extension(extensions: &[&str], permissions: &[&str]) -> Value {
    json!({ "tools": {}, "extensions": { "dev.cloto/mgp": {
        "version": "0.3.0", "extensions": extensions, "permissions_required": permissions,
    } } })
}

fn grants(request: &Value) -> &Value {
    &request["params"]["_meta"]["dev.cloto/mgp"]["grants"]
}

/// Calls a tool; returns the request and the client's answer.
async fn call(client: &Client, script: &mut Script) -> Value {
    let result = json!({ "resultType": "complete", "content": [] });
    let (called, request) =
        tokio::join!(client.call_tool("t", ()), script.serve("tools/call", result));
    called.unwrap();
    request
}

#[tokio::test(start_paused = true)]
async fn every_request_carries_the_current_decisions() {
    for word in ["security", "permissions"] {
        let authority = TestAuthority::new(&[("shell.execute", Approved)]);
        let needs = extension(&[word], &["shell"]);
        let (client, mut script) = Script::modern(authority.client(), needs).await;
        let notification = call(&client, &mut script).await;
        assert_eq!(
            *grants(&notification),
            json!({ "shell": "approved", "shell.execute": "approved" })
        );
        assert_eq!(notification["params"]["_meta"]["dev.cloto/mgp/grants"], Value::Null);

        // Without a notification, from the very next request on.
        authority.set("shell.execute", Some(Denied.into()));
        authority.set("camera", Some(Approved.into()));
        let notification = call(&client, &mut script).await;
        assert_eq!(
            *grants(&notification),
            json!({ "shell": "denied", "shell.execute": "denied", "camera": "approved" })
        );
        let (_, listed) =
            tokio::join!(client.list_tools(), script.serve("tools/list", json!({ "tools": [] })));
        assert_eq!(grants(&listed)["shell"], "denied");
        assert!(timeout(Duration::from_secs(10), script.read()).await.is_err(), "no messages");
        assert_eq!(authority.asked().len(), 1);
    }
}

#[tokio::test]
async fn expired_grants_are_not_carried_as_granted() {
    let authority = TestAuthority::new(&[("camera", Approved)]).until("2020-01-01T00:00:00Z");
    let needs = extension(&["permissions"], &["camera"]);
    let (client, mut script) = Script::modern(authority.client(), needs).await;
    assert_eq!(grants(&call(&client, &mut script).await)["camera"], "deferred");
}

#[tokio::test]
async fn the_older_key_is_written_for_a_server_that_uses_it() {
    let authority = TestAuthority::new(&[("camera", Approved)]);
    let mut needs = extension(&["permissions"], &["camera"]);
    needs["extensions"]["dev.cloto/mgp/grants"] = json!({});
    let (client, mut script) = Script::modern(authority.client(), needs).await;
    let notification = call(&client, &mut script).await;
    assert_eq!(
        notification["params"]["_meta"]["dev.cloto/mgp/grants"],
        json!({ "camera": "approved" })
    );
    assert_eq!(grants(&notification)["camera"], "approved");
}

#[tokio::test]
async fn a_server_that_needs_nothing_is_answered_when_it_asks() {
    let authority = TestAuthority::new(&[("shell.execute", Approved)]);
    let (client, mut script) =
        Script::modern(authority.client(), extension(&["permissions"], &[])).await;
    let notification = call(&client, &mut script).await;
    assert_eq!(notification["params"]["_meta"]["dev.cloto/mgp"], Value::Null);
    assert!(authority.asked().is_empty());

    let answering = async {
        let first = script.read().await.unwrap();
        let ask = json!({ "request_id": "r7", "permissions": ["shell", "camera"] });
        let asked = json!({
            "resultType": "input_required",
            "inputRequests": { "p": { "method": "mgp/permission/request", "params": ask } },
            "requestState": "s",
        });
        script.answer(&first, asked).await;
        script.serve("tools/call", json!({ "content": [{ "type": "text", "text": "ran" }] })).await
    };
    let (called, again) = tokio::join!(client.call_tool("t", ()), answering);
    assert_eq!(called.unwrap().to_text(), "ran");
    let expected =
        json!({ "shell": "approved", "shell.execute": "approved", "camera": "deferred" });
    let answer = &again["params"]["inputResponses"]["p"];
    assert_eq!(answer["request_id"], "r7");
    assert_eq!(answer["approved_by"], "ada");
    assert_eq!(answer["grants"], expected);
    assert_eq!(again["params"]["requestState"], "s");
    assert_eq!(*grants(&again), expected, "the next round carries it as well");
    let names = ["shell.execute", "camera"].map(str::to_owned).to_vec();
    assert_eq!(authority.asked(), [("files".into(), names)]);
    assert_eq!(*grants(&call(&client, &mut script).await), expected, "and so do later calls");
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_is_deferred_and_the_call_continues() {
    let authority = TestAuthority::new(&[]).with_decision_time(DecisionTime::Forever);
    let (client, mut script) =
        Script::modern(authority.client(), extension(&["permissions"], &[])).await;
    let answering = async {
        let first = script.read().await.unwrap();
        let ask = json!({ "request_id": "r", "permissions": ["camera"] });
        let asked = json!({
            "resultType": "input_required",
            "inputRequests": { "p": { "method": "mgp/permission/request", "params": ask } },
        });
        script.answer(&first, asked).await;
        script.serve("tools/call", json!({ "content": [] })).await
    };
    let calling = client.call("t").timeout(Duration::from_mins(3));
    let (called, again) = tokio::join!(calling, answering);
    called.unwrap();
    assert_eq!(again["params"]["inputResponses"]["p"]["grants"], json!({ "camera": "deferred" }));
}

#[tokio::test]
async fn without_an_authority_the_request_is_refused() {
    let builder = Client::builder("test", "1").mgp(mgp_types::mgp::ExtensionSet::STANDARD);
    let (client, mut script) = Script::modern(builder, extension(&["permissions"], &[])).await;
    let answering = async {
        let first = script.read().await.unwrap();
        let ask = json!({ "request_id": "r", "permissions": ["camera"] });
        let asked = json!({
            "resultType": "input_required",
            "inputRequests": { "p": { "method": "mgp/permission/request", "params": ask } },
        });
        script.answer(&first, asked).await;
    };
    let (called, ()) = tokio::join!(client.call_tool("t", ()), answering);
    assert_eq!(called.unwrap_err().code().0, -32601);
}
