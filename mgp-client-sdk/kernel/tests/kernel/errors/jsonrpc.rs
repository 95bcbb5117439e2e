//! Tests of the codes of JSON-RPC and MCP. They are the same for every kind of peer, and have no recovery hints (MGP
//! §14.2).

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{ContextExt, Resource};
use mgp_types::mcp::Era;
use mgp_types::service::Stack;
use serde_json::{Value, json};

use super::http::{CALL, HEADERS, post};
use super::peer::{Dialect, PEERS, Peer};

fn stack() -> Stack {
    let boom = Tool::new("boom", "Fails", || async { panic!("inside") as String });
    let sign_in = Tool::new("sign_in", "Sends to a page", |cx: Context| async move {
        cx.elicit_url("Sign in", "https://example.com/in").id("e1").call_again().await?;
        Ok::<_, RpcError>("in")
    });
    let note = Resource::new("note://one", "one", || async { "text" });
    Server::new("s", "1").tool(boom).tool(sign_in).resource(note).into_stack().unwrap()
}

/// Checks that an answer is an error with this code and without recovery hints, and returns its message.
#[track_caller]
fn coded(answer: &Value, code: ErrorCode) -> &str {
    assert_eq!(answer["error"]["code"], code.0, "{answer}");
    assert!(!answer.to_string().contains("_mgp"), "{answer}");
    answer["error"]["message"].as_str().unwrap()
}

#[tokio::test]
async fn code_minus_32700_parse_error() {
    for kind in PEERS {
        let mut peer = Peer::join(&stack(), kind).await;
        peer.line("{\"jsonrpc\":").await;
        let answer = peer.receive().await;
        assert!(coded(&answer, ErrorCode::PARSE_ERROR).starts_with("parse error: "));
        assert_eq!(answer["id"], Value::Null);
        // The connection stays open after the error.
        let answer = peer.ask("tools/list", json!({})).await;
        assert!(answer["result"]["tools"].is_array(), "{answer}");
    }
}

#[tokio::test]
async fn code_minus_32600_invalid_request() {
    for kind in PEERS {
        let mut peer = Peer::join(&stack(), kind).await;
        peer.line(r#"{"jsonrpc":"2.0","id":77}"#).await;
        coded(&peer.receive().await, ErrorCode::INVALID_REQUEST);
    }
    let mut peer = Peer::connect(&stack(), PEERS[0]);
    let answer = peer.ask("tools/list", json!({})).await;
    assert!(coded(&answer, ErrorCode::INVALID_REQUEST).contains("send `initialize` first"));
}

#[tokio::test]
async fn code_minus_32601_method_not_found() {
    for kind in PEERS {
        let mut peer = Peer::join(&stack(), kind).await;
        let answer = peer.ask("no/such", json!({})).await;
        assert_eq!(coded(&answer, ErrorCode::METHOD_NOT_FOUND), "unknown method `no/such`");
    }
    // Methods of MGP are unknown to a peer that has not offered MGP.
    let mut peer = Peer::join(&stack(), (Era::Legacy, Dialect::Plain)).await;
    let answer = peer.ask("mgp/access/query", json!({})).await;
    assert_eq!(coded(&answer, ErrorCode::METHOD_NOT_FOUND), "unknown method `mgp/access/query`");
}

#[tokio::test]
async fn code_minus_32602_invalid_params() {
    for kind in PEERS {
        let mut peer = Peer::join(&stack(), kind).await;
        for params in [json!({}), json!({ "name": 7 }), json!({ "name": "boom", "arguments": [7] })]
        {
            let answer = peer.ask("tools/call", params.clone()).await;
            assert!(
                coded(&answer, ErrorCode::INVALID_PARAMS).starts_with("invalid params: "),
                "{params}"
            );
        }
    }
}

#[tokio::test]
async fn code_minus_32603_internal_error() {
    for kind in PEERS {
        let mut peer = Peer::join(&stack(), kind).await;
        let answer = peer.call("boom").await;
        let message = coded(&answer, ErrorCode::INTERNAL_ERROR);
        assert_eq!(message, "the handler panicked; see the log of the server");
    }
}

#[tokio::test]
async fn code_minus_32002_mcp_resource_not_found() {
    for kind in PEERS {
        let mut peer = Peer::join(&stack(), kind).await;
        let answer = peer.ask("resources/read", json!({ "uri": "note://two" })).await;
        let code = match peer.era {
            Era::Legacy => ErrorCode::MCP_RESOURCE_NOT_FOUND,
            Era::Modern => ErrorCode::INVALID_PARAMS,
        };
        assert!(coded(&answer, code).contains("note://two"), "{answer}");
    }
}

#[tokio::test]
async fn code_minus_32020_header_mismatch() {
    let now = Tool::new("now", "The time", || async { "noon" });
    let bound = Server::new("s", "1").tool(now).http("127.0.0.1:0").no_auth().bind().await.unwrap();
    let address = bound.local_addr();
    tokio::spawn(bound.run());
    let mut headers = HEADERS.to_vec();
    assert_eq!(post(address, &headers, CALL).await.status, 200);
    headers.retain(|(name, _)| *name != "Mcp-Name");
    headers.push(("Mcp-Name", "noon"));
    let answer = post(address, &headers, CALL).await;
    assert_eq!(answer.status, 400);
    assert!(coded(&answer.body, ErrorCode::HEADER_MISMATCH).contains("Mcp-Name"), "{answer:?}");
}

#[tokio::test]
async fn code_minus_32021_missing_client_capability() {
    // The error names the capabilities that the modern client lacks.
    let mut peer = Peer::join(&stack(), (Era::Modern, Dialect::Plain)).await;
    let answer = peer.ask("mgp/health/ping", json!({})).await;
    coded(&answer, ErrorCode::MISSING_CLIENT_CAPABILITY);
    let needed = &answer["error"]["data"]["requiredCapabilities"]["extensions"]["dev.cloto/mgp"];
    assert_eq!(needed["extensions"], json!(["lifecycle"]), "{answer}");
}

#[tokio::test]
async fn code_minus_32022_unsupported_version() {
    let mut peer = Peer::connect(&stack(), (Era::Modern, Dialect::Plain));
    let request = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/list",
        "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2031-01-01",
            "io.modelcontextprotocol/clientCapabilities": {},
        } },
    });
    peer.line(&request.to_string()).await;
    let answer = peer.receive().await;
    coded(&answer, ErrorCode::UNSUPPORTED_VERSION);
    let supported = answer["error"]["data"]["supported"].as_array().unwrap();
    assert!(supported.contains(&json!("2026-07-28")), "{answer}");
}

#[tokio::test]
async fn code_minus_32042_url_elicitation_required() {
    let mut peer = Peer::connect(&stack(), (Era::Legacy, Dialect::Plain));
    let hello = mgp_testkit::hello("2025-11-25", &json!({ "elicitation": { "url": {} } }));
    peer.ask("initialize", hello).await;
    peer.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    let answer = peer.call("sign_in").await;
    coded(&answer, ErrorCode::URL_ELICITATION_REQUIRED);
    let page = &answer["error"]["data"]["elicitations"][0];
    assert_eq!(page["url"], "https://example.com/in", "{answer}");
}
