//! Tests of the scopes of tools, of checks before a call, and of sessions with scopes (extension `scopes`).

use mgp_client_sdk::{Client, ToolResult as _};
use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::Era;
use mgp_types::method::{PermissionsCheck, ScopesNegotiate, ScopesRevoke};
use mgp_types::mgp::Extension;
use mgp_types::proposal::{
    CheckPermissionsParams, CheckPermissionsResult, NegotiateScopesParams, NegotiateScopesResult,
    RevokeScopesParams, SessionToken,
};
use serde_json::json;

use crate::route::world::{PAIRS, build_with_tools, config_of, host, host_of, limit_era, open};

const CONFIG: &str = "[agents.ada]\nscopes = ['read:*', 'delete']\n[agents.bob]\nscopes = ['read:*']\n\
                      [agents.none]\nscopes = []";

async fn kernel(below: Era) -> Kernel {
    let make = move || {
        let tool = |name: &'static str, scope: &str| {
            Tool::new(name, "A tool", || async { "done" }).required_scopes([scope])
        };
        let server = Server::new("tickets", "1").tool(tool("find", "read:tickets"));
        limit_era(server.tool(tool("drop", "delete")).extension(Extension::Scopes), below)
    };
    let config = config_of(CONFIG);
    let builder =
        Kernel::builder().config(config).local_with("tickets", open(&["find", "drop"]), make);
    build_with_tools(builder, [("tickets", 2)]).await
}

async fn check(client: &Client, tool: &str, token: Option<&str>) -> CheckPermissionsResult {
    let mut params = CheckPermissionsParams::new(tool);
    let meta = token.map(|token| json!({ "session_token": token }));
    if let Some(meta) = meta {
        params.extra.encode("_meta", &meta).unwrap();
    }
    client.request::<PermissionsCheck>(&params).await.unwrap()
}

async fn negotiate(client: &Client, scopes: &[&str]) -> NegotiateScopesResult {
    let mut params = NegotiateScopesParams::new();
    params.requested_scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    client.request::<ScopesNegotiate>(&params).await.unwrap()
}

#[tokio::test]
async fn a_session_holds_what_was_granted_in_each_pair_of_eras() {
    for (above, below) in PAIRS {
        let kernel = kernel(below).await;
        let client = host(&kernel, "ada", host_of(above).extension(Extension::Scopes)).await;
        assert!(check(&client, "drop", None).await.allowed, "{above:?} {below:?}");

        let granted = negotiate(&client, &["read:tickets", "write"]).await;
        assert_eq!(granted.granted_scopes, ["read:tickets"]);
        assert_eq!(granted.denied_scopes[0].scope, "write");
        let token = granted.session.unwrap().token;
        let told = check(&client, "drop", Some(&token)).await;
        assert!(!told.allowed && told.code == Some(1000), "{told:?}");
        assert_eq!(*told.missing_scopes, ["delete"]);
        let with = |tool: &str| client.call(tool).with(&SessionToken(token.clone()));
        let refused = with("drop").await.unwrap_err();
        assert!(refused.to_string().contains("`delete`"), "{refused}");
        assert!(check(&client, "find", Some(&token)).await.allowed);
        assert_eq!(with("find").await.unwrap().to_text(), "done");
        assert!(client.call("find").await.is_err(), "its session is not named");

        let params = RevokeScopesParams::new(token.as_str());
        assert!(client.request::<ScopesRevoke>(&params).await.unwrap().revoked);
        let told = check(&client, "find", Some(&token)).await;
        assert_eq!((told.allowed, told.code), (false, Some(1003)), "{told:?}");
        assert!(with("find").await.is_err());
    }
}

#[tokio::test]
async fn an_agent_is_limited_whether_it_knows_scopes_or_not() {
    let kernel = kernel(Era::Modern).await;
    let negotiated = host_of(Era::Modern).extension(Extension::Scopes);
    for (builder, remedy) in [
        (host_of(Era::Legacy), "an operator can add it"),
        (negotiated, "request it with `mgp/scopes/negotiate`"),
    ] {
        let bob = host(&kernel, "bob", builder).await;
        let refused = bob.call("drop").await.unwrap_err();
        let told = format!("requires the scope `delete`; {remedy}");
        assert!(refused.to_string().contains(&told), "{refused}");
        assert_eq!(bob.call("find").await.unwrap().to_text(), "done");
        bob.close().await;
    }
    let none = host(&kernel, "none", host_of(Era::Modern)).await;
    let refused = none.call("find").await.unwrap_err();
    assert!(refused.to_string().contains("requires the scope `read:tickets`"), "{refused}");
    let eve = host(&kernel, "eve", host_of(Era::Modern)).await;
    assert_eq!(
        eve.call("drop").await.unwrap().to_text(),
        "done",
        "no scopes are configured for it"
    );
}

#[tokio::test]
async fn the_tools_of_the_proposal_answer_too_with_all_required_members() {
    let kernel = kernel(Era::Legacy).await;
    let client = host(&kernel, "bob", host_of(Era::Legacy).extension(Extension::Scopes)).await;
    for (tool, arguments, member) in [
        ("check_permissions", json!({ "tool": "drop" }), r#""missing_scopes":["delete"]"#),
        ("check_permissions", json!({ "tool": "find" }), r#""missing_scopes":[]"#),
        ("negotiate_scopes", json!({ "requested_scopes": ["read:x"] }), r#""denied_scopes":[]"#),
    ] {
        let answer = client.call(tool).args(arguments).await.unwrap();
        assert!(answer.to_text().contains(member), "{}", answer.to_text());
    }
}
