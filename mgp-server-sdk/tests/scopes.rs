//! Scopes of a server's own tools; over HTTP, a header has the token of the session (proposal 4).

#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use mgp_security::auth::{ApiKeys, AuthLayer, KeyGrant};
use mgp_security::{Governance, Policies, Scopes, ServerPolicy};
use mgp_server_sdk::prelude::*;
use mgp_types::mgp::{DefaultPolicy, RiskLevel};
use mgp_types::proposal::NegotiateScopesParams;
use mgp_types::service::MemoryAudit;
use mgp_types::store::MemoryStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"drop","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// Calls the tool over HTTP with a key and further headers.
async fn drop_ticket(address: std::net::SocketAddr, key: &str, headers: &str) -> String {
    let head = "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: drop";
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let text = format!(
        "{head}\r\nAuthorization: Bearer {key}{headers}\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn over_http_a_header_names_the_session() {
    let keys = ApiKeys::new();
    let key = keys.issue(KeyGrant::new("acme", "ci")).await.unwrap();
    let open = ServerPolicy::default().default_policy(DefaultPolicy::OptOut);
    let governance = Governance::builder().policies(Policies::with_default(open)).build();
    let allowed = |_: &Principal| Some(Arc::from(["delete".to_owned(), "read".to_owned()]));
    let scopes = Scopes::new(Arc::new(MemoryStore::new()), Arc::new(MemoryAudit::new()), allowed);
    let tool = Tool::new("drop", "Drops a ticket", || async { "dropped" });
    let bound = Server::new("tickets", "1")
        .tool(tool.risk(RiskLevel::Safe).required_scopes(["delete"]))
        .governed(&governance, "tickets")
        .extension(scopes.clone())
        .http("127.0.0.1:0")
        .auth(AuthLayer::new().keys(keys.clone()))
        .bind()
        .await
        .unwrap();
    let address = bound.local_addr();
    tokio::spawn(bound.run());
    let (key, ci) = (key.reveal(), Principal::new("acme", "ci"));
    let negotiate = async |scope: &str| {
        let mut params = NegotiateScopesParams::new();
        params.requested_scopes = vec![scope.to_owned()].into();
        let session = scopes.negotiate(&ci, params).await.unwrap().session.unwrap();
        format!("\r\nX-MCP-Session-Token: {}", session.token)
    };
    // Without a session the caller holds what the operator allows to it.
    assert!(drop_ticket(address, key, "").await.contains("dropped"));
    let (deletes, reads) = (negotiate("delete").await, negotiate("read").await);
    for (headers, expected) in [
        (deletes.as_str(), "dropped"),
        (reads.as_str(), "requires the scope `delete`"),
        ("", "requires the scope `delete`"),
        ("\r\nX-MCP-Session-Token: made-up", "the session token is unknown"),
    ] {
        let answer = drop_ticket(address, key, headers).await;
        assert!(answer.contains(expected), "{headers}: {answer}");
    }
    let token = deletes.rsplit(' ').next().unwrap();
    assert!(scopes.revoke(&ci, token).await.unwrap());
    assert!(drop_ticket(address, key, &deletes).await.contains("the session was revoked"));
}
