//! The end of a connection that an attacker uses to write any bytes as any principal.

use mgp_testkit::{RawPeer, hello, modern_meta};
use mgp_transport::{Connection, duplex};
use mgp_types::service::{Principal, Stack};
use serde_json::{Value, json};

/// Connects as this principal, as a client of the modern era that supports elicitation.
pub(crate) fn modern(stack: &Stack, principal: Principal) -> RawPeer {
    connect(stack, principal).with_meta(modern_meta(&json!({"elicitation": {}})))
}

/// Connects as this principal, as a client of a legacy revision that supports elicitation.
pub(crate) async fn legacy(stack: &Stack, principal: Principal, revision: &str) -> RawPeer {
    legacy_with(stack, principal, revision, &json!({"elicitation": {}})).await
}

/// Connects as this principal, as a client of a legacy revision with these capabilities.
pub(crate) async fn legacy_with(
    stack: &Stack,
    principal: Principal,
    revision: &str,
    capabilities: &Value,
) -> RawPeer {
    let mut raw = connect(stack, principal);
    raw.ask("initialize", hello(revision, capabilities)).await;
    raw.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    raw
}

fn connect(stack: &Stack, principal: Principal) -> RawPeer {
    let (here, there) = duplex();
    let connection = Connection::new(there.reader, there.writer, stack.clone());
    tokio::spawn(connection.principal(principal).run());
    RawPeer::new(here.reader, here.writer)
}

pub(crate) fn accept_answer() -> Value {
    json!({"action": "accept", "content": {"confirm": true}})
}

/// Returns the code of a refusal in either era, or 0 if there is none.
#[track_caller]
pub(crate) fn code(answer: &Value) -> i64 {
    assert!(answer.get("result").is_some() || answer.get("error").is_some(), "{answer}");
    let result = &answer["result"];
    let refused =
        if result["isError"] == true { &result["structuredContent"] } else { &answer["error"] };
    refused["code"].as_i64().unwrap_or(0)
}

/// Returns the key of the only question in a result that asks for input, and the state in that result.
#[track_caller]
pub(crate) fn question(answer: &Value) -> (String, String) {
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let asked = result["inputRequests"].as_object().unwrap();
    assert_eq!(asked.len(), 1, "{answer}");
    (asked.keys().next().unwrap().clone(), result["requestState"].as_str().unwrap().to_owned())
}
