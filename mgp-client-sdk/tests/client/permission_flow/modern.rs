//! Tests of permissions with a modern server, which has no `initialize`. It receives its permissions in a request
//! before the first call and with each request, and asks for missing permissions.

use std::time::Duration;

use mgp_client_sdk::{Client, ClientBuilder, EraChoice, Hop, ToolResult as _};
use mgp_types::mgp::GrantDecision::{Approved, Denied};
use mgp_types::service::{CallerAccess, Reply, Stack, mock};
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

/// Connects to a server that needs permissions; returns the client, the server and the request with the decisions.
async fn connect(builder: ClientBuilder, capabilities: Value) -> (Client, Script, Value) {
    let (end, mut script) = Script::new();
    let connecting = builder.era(EraChoice::Modern).connect(end.reader, end.writer);
    let serving = async {
        script.discover(capabilities).await;
        script.serve("mgp/permission/grant", json!({ "acknowledged": true })).await
    };
    let (client, notified) = tokio::join!(connecting, serving);
    (client.unwrap(), script, notified)
}

/// Calls a tool, and returns the request that the server received.
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
        let (client, mut script, notified) = connect(authority.client(), needs).await;
        let approved = json!({ "shell": "approved", "shell.execute": "approved" });
        assert_eq!(notified["params"]["grants"], approved);
        assert_eq!(notified["params"]["request_id"], "perm-1");
        let notification = call(&client, &mut script).await;
        assert_eq!(*grants(&notification), approved);
        assert_eq!(notification["params"]["_meta"]["dev.cloto/mgp/grants"], approved);

        // The next request must already contain both changes, and one notification must report both.
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
        let changed = script.serve("mgp/permission/grant", json!({})).await;
        assert_eq!(changed["params"]["grants"], *grants(&listed));
        assert!(timeout(Duration::from_secs(10), script.read()).await.is_err(), "no messages");
        assert_eq!(authority.asked().len(), 1);
    }
}

#[tokio::test]
async fn expired_grants_are_not_carried_as_granted() {
    let authority = TestAuthority::new(&[("camera", Approved)]).until("2020-01-01T00:00:00Z");
    let needs = extension(&["permissions"], &["camera"]);
    let (client, mut script, notified) = connect(authority.client(), needs).await;
    assert_eq!(notified["params"]["grants"]["camera"], "deferred");
    assert_eq!(grants(&call(&client, &mut script).await)["camera"], "deferred");
}

#[tokio::test]
async fn a_server_that_reads_grants_of_later_revisions_learns_what_was_granted() {
    // A server of a later revision grants nothing to a call without the member `dev.cloto/mgp/grants`, and does not
    // know the request `mgp/permission/grant`.
    let authority = TestAuthority::new(&[("camera", Approved)]);
    let (end, mut script) = Script::new();
    let connecting = authority.client().era(EraChoice::Modern).connect(end.reader, end.writer);
    let serving = async {
        script.discover(extension(&["permissions", "audit"], &["camera"])).await;
        let request = script.read().await.unwrap();
        assert_eq!(request["method"], "mgp/permission/grant");
        let error = json!({ "code": -32601, "message": "unknown" });
        script.refuse(&request, error).await;
    };
    let (client, ()) = tokio::join!(connecting, serving);
    let client = client.unwrap();
    let request = call(&client, &mut script).await;
    let approved = json!({ "camera": "approved" });
    assert_eq!(request["params"]["_meta"]["dev.cloto/mgp/grants"], approved);
    // The next request must also contain a decision that was made later.
    authority.set("camera", Some(Denied.into()));
    let request = call(&client, &mut script).await;
    assert_eq!(request["params"]["_meta"]["dev.cloto/mgp/grants"]["camera"], "denied");
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
async fn the_caller_of_a_task_never_decides_about_the_permissions_of_the_server() {
    let authority = TestAuthority::new(&[("shell.execute", Approved)]);
    let (client, mut script) =
        Script::modern(authority.client(), extension(&["permissions"], &[])).await;
    let hop = Hop::new("files", client);
    let caller_peer = mock::peer(Stack::from_fn(|_| async { Reply::of(&json!({})) }));
    let mut caller = mock::client(Stack::from_fn(move |call| hop.send(call)));
    caller.cx.caller_access = CallerAccess::Peer(caller_peer.peer());

    let time = "2026-07-28T10:00:00Z";
    let task = |status: &str, name: &str, value: Value| {
        json!({
            "resultType": "complete", "taskId": "t1", "status": status, "createdAt": time,
            "lastUpdatedAt": time, "ttlMs": 60000, "pollIntervalMs": 500, name: value,
        })
    };
    let ask = json!({ "request_id": "r8", "permissions": ["shell", "camera"] });
    let asked = json!({ "p": { "method": "mgp/permission/request", "params": ask } });
    let answering = async {
        script.serve("tools/call", task("working", "resultType", json!("task"))).await;
        script.serve("tasks/get", task("input_required", "inputRequests", asked)).await;
        let update = script.serve("tasks/update", json!({ "resultType": "complete" })).await;
        let result = json!({ "resultType": "complete", "content": [] });
        script.serve("tasks/get", task("completed", "result", result)).await;
        update
    };
    let calling = caller.request("tools/call", r#"{"name":"t","arguments":{}}"#);
    let (called, update) = tokio::join!(calling, answering);
    called.unwrap();
    assert_eq!(
        update["params"]["inputResponses"]["p"]["grants"],
        json!({ "shell": "approved", "shell.execute": "approved", "camera": "deferred" })
    );
    assert!(caller_peer.received().is_empty());
}

/// Answers a call with a request for the permission `camera`.
async fn ask_for_camera(script: &mut Script) {
    let ask = json!({ "request_id": "r", "permissions": ["camera"] });
    let asked = json!({
        "resultType": "input_required",
        "inputRequests": { "p": { "method": "mgp/permission/request", "params": ask } },
    });
    script.serve("tools/call", asked).await;
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_is_deferred_and_the_call_continues() {
    let authority = TestAuthority::new(&[]).with_decision_time(DecisionTime::Forever);
    let (client, mut script) =
        Script::modern(authority.client(), extension(&["permissions"], &[])).await;
    let answering = async {
        ask_for_camera(&mut script).await;
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
    let (called, ()) = tokio::join!(client.call_tool("t", ()), ask_for_camera(&mut script));
    assert_eq!(called.unwrap_err().code().0, -32601);
}
