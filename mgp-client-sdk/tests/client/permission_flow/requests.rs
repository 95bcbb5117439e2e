//! Tests of a legacy server that requests permissions itself, i.e. that reads §3.5 and §3.6 of MGP as a request and its
//! response.

use std::time::Duration;

use mgp_types::mgp::GrantDecision::{Approved, Denied};
use serde_json::json;
use tokio::time::timeout;

use super::authority::{DecisionTime, TestAuthority};
use super::legacy::needing;
use crate::script::Script;

const REQUEST: &str = "mgp/permission/request";

#[tokio::test(start_paused = true)]
async fn its_request_is_answered_with_the_decision() {
    for word in ["security", "permissions"] {
        let authority = TestAuthority::new(&[("shell.execute", Approved), ("camera", Denied)]);
        let (_client, mut script) = Script::legacy(authority.client(), needing(&[word], &[])).await;
        let names = json!(["shell", "camera", "network.listen", "what"]);
        let params = json!({ "request_id": "r1", "permissions": names });
        let id = script.send(REQUEST, params).await;
        let answer = script.read().await.unwrap();
        assert_eq!(answer["id"], id);
        let result = json!({
            "request_id": "r1",
            "grants": {
                "shell": "approved", "shell.execute": "approved", "camera": "denied",
                "network.listen": "deferred", "what": "denied",
            },
            "approved_by": "ada",
        });
        assert_eq!(answer["result"], result);
        let asked = ["shell.execute", "camera", "network.listen"].map(str::to_owned).to_vec();
        assert_eq!(authority.asked(), [("files".into(), asked)]);
        // The decision that the server received as an answer must not be sent to it again.
        authority.set("camera", Some(Denied.into()));
        assert!(timeout(Duration::from_secs(10), script.read()).await.is_err());
        authority.set("camera", Some(Approved.into()));
        let notification = script.read().await.unwrap();
        assert_eq!(notification["params"]["grants"]["camera"], "approved");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_cannot_have_many_requests_open() {
    let authority =
        TestAuthority::new(&[]).with_decision_time(DecisionTime::Time(Duration::from_secs(30)));
    let (_client, mut script) =
        Script::legacy(authority.client(), needing(&["permissions"], &[])).await;
    let params = json!({ "request_id": "r", "permissions": ["camera"] });
    for _ in 0..6 {
        script.send(REQUEST, params.clone()).await;
    }
    for _ in 0..2 {
        let refused = script.read().await.unwrap();
        assert_eq!(refused["error"]["code"], 3001, "{refused}");
    }
    for _ in 0..4 {
        assert_eq!(script.read().await.unwrap()["result"]["grants"]["camera"], "deferred");
    }
    // Once a request was answered, the server may send another request.
    script.send(REQUEST, params).await;
    assert!(script.read().await.unwrap()["result"].is_object());
    assert_eq!(authority.asked().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn endless_requests_are_answered_for_the_first_names_only() {
    let authority = TestAuthority::new(&[]);
    let (_client, mut script) =
        Script::legacy(authority.client(), needing(&["permissions"], &[])).await;
    for number in 0..200 {
        let name = format!("com.example.p{number}");
        let params = json!({ "request_id": "r", "permissions": [name] });
        script.send(REQUEST, params).await;
        assert_eq!(script.read().await.unwrap()["result"]["grants"][name], "deferred");
    }
    authority.set("camera", Some(Approved.into()));
    let notification = script.read().await.unwrap();
    assert_eq!(notification["params"]["grants"].as_object().unwrap().len(), 64 + 1);
}
