//! Tests that a connected legacy server is notified of permissions that are revoked, granted or expire.

use std::time::{Duration, SystemTime};

use mgp_client_sdk::Client;
use mgp_client_sdk::security::prelude::*;
use mgp_types::Timestamp;
use mgp_types::mgp::ApprovalPolicy;
use mgp_types::mgp::GrantDecision::{Approved, Denied};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::authority::TestAuthority;
use super::legacy::{SPELLINGS, begin, finish, needing};

#[tokio::test(start_paused = true)]
async fn a_connected_server_is_notified_of_changes_only() {
    for (extension, _, method) in SPELLINGS {
        let authority = TestAuthority::new(&[("shell.execute", Approved)]);
        let (mut script, connecting) =
            begin(authority.client(), needing(&[extension], &["shell"])).await;
        script.serve(method, json!({})).await;
        let client = finish(&mut script, connecting).await;

        // The same decision is set again, which is not a change, so the server must not be notified.
        authority.set("shell.execute", Some(Approved.into()));
        assert!(timeout(Duration::from_secs(10), script.read()).await.is_err());

        // The server must be notified of several changes in one message.
        authority.set("shell.execute", Some(Denied.into()));
        authority.set("camera", Some(Approved.into()));
        authority.set("com.example.x", Some(Denied.into()));
        let notification = script.serve(method, json!({})).await;
        assert_eq!(notification["params"]["request_id"], "perm-2");
        let grants = json!({
            "shell": "denied", "shell.execute": "denied",
            "camera": "approved", "com.example.x": "denied",
        });
        assert_eq!(notification["params"]["grants"], grants);

        // The server must also be notified of a decision that was withdrawn.
        authority.set("camera", None);
        let notification = script.serve(method, json!({})).await;
        assert_eq!(notification["params"]["request_id"], "perm-3");
        assert_eq!(notification["params"]["grants"]["camera"], "deferred");
        assert!(timeout(Duration::from_secs(10), script.read()).await.is_err());
        drop(client);
        authority.set("camera", Some(Approved.into()));
        assert!(script.read().await.is_none(), "nothing is sent after the client is dropped");
    }
}

#[tokio::test]
async fn an_expiry_is_reported_when_it_happens() {
    let soon = Timestamp::from(SystemTime::now() + Duration::from_secs(3));
    let authority = TestAuthority::new(&[("camera", Approved)]).until(soon.as_str());
    let (mut script, connecting) =
        begin(authority.client(), needing(&["permissions"], &["camera"])).await;
    let notification = script.serve("mgp/permission/grant", json!({})).await;
    assert_eq!(notification["params"]["grants"]["camera"], "approved");
    let _client = finish(&mut script, connecting).await;
    let serving = script.serve("mgp/permission/grant", json!({}));
    let notification = timeout(Duration::from_secs(10), serving).await.unwrap();
    assert_eq!(notification["params"]["grants"]["camera"], "deferred");
    assert_eq!(notification["params"]["expires_at"], Value::Null);
}

#[tokio::test]
async fn a_change_leaves_denied_what_the_policy_denies() {
    let policies = Policies::default();
    policies.set("files", ServerPolicy::default().permission_policy(ApprovalPolicy::DenyAll));
    let governance = Governance::builder().policies(policies).build();
    let builder = Client::builder("test", "1").governed(&governance, "files");
    let (mut script, connecting) = begin(builder, needing(&["permissions"], &["camera"])).await;
    let notification = script.serve("mgp/permission/grant", json!({})).await;
    assert_eq!(notification["params"]["grants"], json!({ "camera": "denied" }));
    let _client = finish(&mut script, connecting).await;

    // The server also requests a permission that it did not declare.
    let params = json!({ "request_id": "r1", "permissions": ["network.listen"] });
    let answer = script.ask("mgp/permission/request", params).await;
    assert_eq!(answer["result"]["grants"], json!({ "network.listen": "denied" }));

    let operator = Principal::new("local", "ann").operator();
    let change = PermissionChange::of("files", [Permission::MemoryRead]);
    governance.permissions().approve(&operator, change).await.unwrap();
    let changed = script.asked("mgp/permission/grant");
    let notification = timeout(Duration::from_secs(10), changed).await.unwrap();
    assert_eq!(
        notification["params"]["grants"],
        json!({ "camera": "denied", "memory.read": "approved", "network.listen": "denied" })
    );
}
