//! Tests that a peer without the extension for permissions receives the same bytes as from a client without this
//! extension.

use mgp_client_sdk::Client;
use mgp_types::mgp::GrantDecision::Approved;
use serde_json::{Value, json};

use super::authority::TestAuthority;
use crate::script::Script;

/// Returns everything that a client sends after its handshake, while a decision changes.
async fn received(client: Client, mut script: Script, authority: &TestAuthority) -> Vec<String> {
    authority.set("shell.execute", None);
    authority.set("shell.execute", Some(Approved.into()));
    let result = json!({ "resultType": "complete", "content": [], "tools": [] });
    let mut lines = Vec::new();
    let calling = tokio::spawn(async move {
        client.list_tools().await.unwrap();
        client.call_tool("t", ()).await.unwrap();
        client.ping().await.ok();
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        client.close().await;
    });
    while let Some(line) = script.read_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        lines.push(line);
        if message.get("id").is_some() {
            script.answer(&message, result.clone()).await;
        }
    }
    calling.await.unwrap();
    lines
}

#[tokio::test]
async fn a_plain_peer_receives_no_notification_and_no_request() {
    let empty = json!({ "tools": {} });
    let streaming = json!({ "tools": {}, "mgp": {
        "version": "0.3.0", "extensions": ["streaming"], "permissions_required": ["shell"],
    } });
    for capabilities in [empty, streaming] {
        for modern in [false, true] {
            let authority = TestAuthority::new(&[("shell.execute", Approved)]);
            let (client, script) = if modern {
                Script::modern(authority.client(), capabilities.clone()).await
            } else {
                Script::legacy(authority.client(), capabilities.clone()).await
            };
            let lines = received(client, script, &authority).await;
            assert!(lines.len() >= 2, "{lines:?}");
            for line in lines {
                // Each modern request names the extensions that the client offers. Leave this name out: an offer to
                // decide about permissions is not a decision.
                let line = line.replace("\"permissions\"", "");
                for word in ["permission", "grants", "shell", "approved", "files"] {
                    assert!(!line.contains(word), "{modern}: {line}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_plain_client_with_an_operator_stays_plain() {
    let offers = json!({ "tools": {}, "mgp": {
        "version": "0.3.0", "extensions": ["security"], "permissions_required": ["shell"],
    } });
    for modern in [false, true] {
        let authority = TestAuthority::new(&[("shell.execute", Approved)]);
        let builder = authority.over(crate::script::plain());
        let (client, script) = if modern {
            Script::modern(builder, offers.clone()).await
        } else {
            Script::legacy(builder, offers.clone()).await
        };
        assert!(authority.asked().is_empty(), "what was not offered is not active");
        for line in received(client, script, &authority).await {
            assert!(!line.to_lowercase().contains("mgp"), "{modern}: {line}");
        }
    }
}
