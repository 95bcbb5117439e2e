//! Tests that a server compares arguments with the headers that repeat them (MCP 2026-07-28, `x-mcp-header`).

use mgp_server_sdk::prelude::*;
use mgp_types::service::{HeaderParams, mock};
use mgp_types::{Payload, RawObject};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn tool(name: &str, annotation: &str) -> Tool {
    let schema = format!(
        r#"{{"type":"object","properties":{{"region":{{"type":"string","x-mcp-header":"{annotation}"}}}}}}"#
    );
    Tool::new(name, "Looks up", || async { "found" })
        .input_schema(RawObject::try_from(Payload::parse(schema).unwrap()).unwrap())
}

fn server() -> Server {
    let plain = Tool::new("plain", "Has no headers", || async { "found" });
    Server::new("s", "1").tool(tool("look", "Region")).tool(plain)
}

/// Makes a modern call, over a transport that has headers or over one that has none.
async fn call(tool: &str, arguments: &str, headers: Option<&[(&str, &str)]>) -> Option<i32> {
    let mut client = mock::client(server().into_stack().unwrap());
    if let Some(headers) = headers {
        let mut came = HeaderParams::new();
        for (name, value) in headers {
            came.push(*name, *value);
        }
        client.cx.extensions.insert(came);
    }
    let params = format!(r#"{{"name":"{tool}",{arguments}{META}}}"#);
    client.request("tools/call", &params).await.err().map(|error| error.code().0)
}

#[tokio::test]
async fn headers_and_arguments_must_be_equal() {
    let hello = r#""arguments":{"region":"Hello"},"#;
    for (headers, expected) in [
        (Some(&[("region", "Hello")][..]), None),
        (Some(&[("Region", "=?base64?SGVsbG8=?=")]), None),
        (Some(&[("Region", "=?base64?SGVsbG8?=")]), Some(-32020)),
        (Some(&[("Region", "hello")]), Some(-32020)),
        (Some(&[]), Some(-32020)),
        // The transport has no headers, so the server compares nothing.
        (None, None),
    ] {
        assert_eq!(call("look", hello, headers).await, expected, "{headers:?}");
    }
    assert_eq!(call("look", "", Some(&[])).await, None);
    assert_eq!(call("look", "", Some(&[("Region", "a")])).await, Some(-32020));
    assert_eq!(call("plain", hello, Some(&[("Region", "a")])).await, None);
}

#[tokio::test]
async fn a_legacy_call_has_no_headers_to_compare() {
    let mut client = mock::client(server().into_stack().unwrap());
    client.cx.extensions.insert(HeaderParams::new());
    let hello = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#;
    client.request("initialize", hello).await.unwrap();
    let look = r#"{"name":"look","arguments":{"region":"Hello"}}"#;
    client.request("tools/call", look).await.unwrap();
}

#[test]
fn invalid_annotations_are_build_errors() {
    let error = Server::new("s", "1").tool(tool("look", "My Region")).into_stack().unwrap_err();
    assert!(
        error
            .message()
            .contains("tool `look`: the name `My Region` cannot be part of a header's name"),
        "{error}"
    );
}
