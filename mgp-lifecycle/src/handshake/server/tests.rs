//! Tests of the server side of the handshake.

use mgp_types::method::{AuditNotification, Notification as _};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::{Stack, mock};

use mgp_types::ErrorCode;
use tower_layer::Layer;

use super::*;
use crate::handshake::MgpOffer;

fn server(mgp: Option<ExtensionSet>) -> mock::Client {
    let mut offer = ServerOffer::new(Implementation::new("s", "1"));
    offer.mgp = mgp.map(MgpOffer::new);
    let inner = Stack::from_fn(|call: Call| async move {
        match call.tool().map(|tool| tool.name.to_owned()).as_deref() {
            Some("slow") => Err(RpcError::new(ErrorCode::RATE_LIMITED, "slow down")),
            Some("none") => Err(RpcError::new(ErrorCode::TOOL_NOT_FOUND, "unknown tool `none`")),
            _ => Reply::of(&format!("{:?}", call.cx().caller.mgp)),
        }
    });
    mock::client(Stack::new(HandshakeLayer::new(offer).layer(inner)))
}

fn hello(capabilities: &str) -> String {
    format!(
        r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"clientInfo":{{"name":"c","version":"1"}}}}"#
    )
}

fn modern(capabilities: &str) -> String {
    format!(
        r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capabilities}}}"#
    )
}

const MGP: &str = r#"{"mgp":{"version":"0.1.0","extensions":["streaming","audit"]}}"#;

#[tokio::test]
async fn the_answer_is_the_intersection() {
    let mut client =
        server(Some([Extension::Streaming, Extension::Lifecycle].into_iter().collect()));
    let result: InitializeResult =
        client.request("initialize", &hello(MGP)).await.unwrap().get().unwrap();
    let mgp = result.capabilities.mgp.as_ref().and_then(|mgp| mgp.valid()).unwrap();
    assert_eq!(mgp.extensions, ["streaming"]);
    assert_eq!(
        client.request("mgp/health/ping", "{}").await.unwrap_err().code(),
        ErrorCode::METHOD_NOT_FOUND
    );
}

#[tokio::test]
async fn the_answer_uses_only_the_places_that_the_client_used() {
    let offer = r#"{"version":"0.8.0","extensions":["audit"]}"#;
    for (capabilities, places) in [
        (format!(r#"{{"mgp":{offer}}}"#), [true, false, false]),
        (format!(r#"{{"experimental":{{"mgp":{offer}}}}}"#), [false, true, false]),
        (format!(r#"{{"extensions":{{"dev.cloto/mgp":{offer}}}}}"#), [false, false, true]),
        (
            format!(r#"{{"mgp":{offer},"extensions":{{"dev.cloto/mgp":{offer}}}}}"#),
            [true, false, true],
        ),
    ] {
        let mut client = server(Some(ExtensionSet::STANDARD));
        let result: InitializeResult =
            client.request("initialize", &hello(&capabilities)).await.unwrap().get().unwrap();
        let answer = result.capabilities;
        let has = |object: &Option<mgp_types::Object>, name| {
            object.as_ref().is_some_and(|object| object.get(name).is_some())
        };
        let found = [
            answer.mgp.is_some(),
            has(&answer.experimental, "mgp"),
            has(&answer.extensions, key::MGP),
        ];
        assert_eq!(found, places, "{capabilities}");
    }
}

#[tokio::test]
async fn a_client_that_knows_only_the_nine_names_is_answered_in_them() {
    for (ours, theirs, answered, active) in [
        (Extension::ToolSecurity, "\"security\"", "security", "tool_security"),
        (Extension::Permissions, "\"security\"", "security", "permissions"),
        (Extension::Events, "\"bidirectional\"", "bidirectional", "events"),
        // The answer contains the extension that both have, under the names that the client used.
        (
            Extension::Security,
            "\"security\",\"permissions\"",
            "security permissions",
            "permissions",
        ),
        (Extension::ToolSecurity, "\"permissions\"", "", ""),
        (
            Extension::Audit,
            "\"audit\",\"error_handling\"",
            "audit error_handling",
            "audit, error_handling",
        ),
    ] {
        let mut client = server(Some(ExtensionSet::EMPTY.with(ours)));
        let offer = format!(r#"{{"mgp":{{"version":"0.1.0","extensions":[{theirs}]}}}}"#);
        let result: InitializeResult =
            client.request("initialize", &hello(&offer)).await.unwrap().get().unwrap();
        let mgp = result.capabilities.mgp.as_ref().and_then(|mgp| mgp.valid()).unwrap();
        assert_eq!(mgp.extensions.join(" "), answered, "{theirs}");
        let shown = client.request("tools/list", "{}").await.unwrap();
        assert_eq!(shown.as_str(), format!("\"Some({{{active}}})\""), "{theirs}");
    }
}

#[tokio::test]
async fn trust_is_claimed_in_the_words_of_the_client() {
    for (words, trust) in [("\"audit\"", "trusted"), ("\"audit\",\"tool_security\"", "core")] {
        let mut offer = ServerOffer::new(Implementation::new("s", "1"));
        let mut mgp = MgpOffer::new(ExtensionSet::STANDARD);
        mgp.trust_level = Some(mgp_types::mgp::TrustLevel::Trusted);
        offer.mgp = Some(mgp);
        let inner = Stack::from_fn(|_| async { Ok(Reply::empty()) });
        let mut client = mock::client(Stack::new(HandshakeLayer::new(offer).layer(inner)));
        let offer = format!(r#"{{"mgp":{{"version":"0.1.0","extensions":[{words}]}}}}"#);
        let answer = client.request("initialize", &hello(&offer)).await.unwrap();
        assert!(answer.as_str().contains(&format!(r#""trust_level":"{trust}""#)), "{answer:?}");
    }
}

#[tokio::test]
async fn a_malformed_or_foreign_offer_means_plain_mcp() {
    for offer in [
        r#"{"mgp":"yes"}"#,
        r#"{"mgp":{"version":"1.0.0","extensions":["audit"]}}"#,
        r#"{"mgp":{}}"#,
    ] {
        let mut client = server(Some(ExtensionSet::STANDARD));
        let result = client.request("initialize", &hello(offer)).await.unwrap();
        assert!(!result.as_str().contains("mgp"), "{result:?}");
    }
}

#[tokio::test]
async fn a_plain_caller_receives_a_refusal_as_a_result_the_model_can_read() {
    let mut client = server(None);
    client.request("initialize", &hello("{}")).await.unwrap();
    let result = client.request("tools/call", r#"{"name":"slow"}"#).await.unwrap();
    for part in [r#""isError":true"#, r#""code":3000"#, r#""name":"RATE_LIMITED""#, "slow down"] {
        assert!(result.as_str().contains(part), "{part} in {result:?}");
    }
    assert_eq!(
        client.request("tools/call", r#"{"name":"none"}"#).await.unwrap_err().code().0,
        -32602
    );
}

#[tokio::test]
async fn modern_requests_need_no_initialize_and_are_negotiated_one_by_one() {
    let mut client = server(Some(ExtensionSet::STANDARD));
    let with = format!(
        r"{{{}}}",
        modern(r#"{"extensions":{"dev.cloto/mgp":{"version":"0.3.0","extensions":["audit"]}}}"#)
    );
    let without = format!(r"{{{}}}", modern("{}"));
    let discover = client.request("server/discover", &with).await.unwrap();
    assert!(discover.as_str().contains(key::MGP), "{discover:?}");
    let plain = client.request("server/discover", &without).await.unwrap();
    assert!(!plain.as_str().contains("mgp"), "{plain:?}");
    for part in
        ["\"resultType\":\"complete\"", "\"supportedVersions\"", "\"cacheScope\":\"private\""]
    {
        assert!(plain.as_str().contains(part), "{part} in {plain:?}");
    }
    let error = client.request("mgp/health/ping", &without).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::MISSING_CLIENT_CAPABILITY);
    // A method that the modern era removed is unknown there.
    assert_eq!(client.request("ping", &without).await.unwrap_err().code().0, -32601);
}

#[tokio::test]
async fn a_modern_notification_of_an_extension_is_accepted_only_with_the_offer() {
    let received = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = Arc::clone(&received);
    let inner = Stack::from_fn(move |call: Call| {
        sink.lock().unwrap().push(call.method().to_string());
        std::future::ready(Ok(Reply::None))
    });
    let mut offer = ServerOffer::new(Implementation::new("s", "1"));
    offer.mgp = Some(MgpOffer::new(ExtensionSet::STANDARD));
    let mut client = mock::client(Stack::new(HandshakeLayer::new(offer).layer(inner)));
    let with =
        modern(r#"{"extensions":{"dev.cloto/mgp":{"version":"0.3.0","extensions":["audit"]}}}"#);
    for meta in [modern("{}"), modern("7"), with.replace("2026-07-28", "2025-11-25"), with] {
        client.notify(AuditNotification::METHOD, &format!(r#"{{"seen":1,{meta}}}"#)).await.unwrap();
    }
    client.notify(AuditNotification::METHOD, "{}").await.unwrap();
    assert_eq!(*received.lock().unwrap(), [AuditNotification::METHOD]);
}

#[tokio::test]
async fn a_nested_member_named_result_type_does_not_replace_the_one_of_the_result() {
    for (result, expected) in [
        (r#"{"content":[]}"#, r#"{"resultType":"complete","content":[]}"#),
        (
            r#"{"structuredContent":{"resultType":"x"}}"#,
            r#"{"resultType":"complete","structuredContent":{"resultType":"x"}}"#,
        ),
        (r#"{"a":"\"resultType\""}"#, r#"{"resultType":"complete","a":"\"resultType\""}"#),
        (r#"{"resultType":"other"}"#, r#"{"resultType":"other"}"#),
    ] {
        let inner =
            Stack::from_fn(
                move |_| async move { Ok(Reply::raw(Payload::parse(result.to_owned())?)) },
            );
        let offer = ServerOffer::new(Implementation::new("s", "1"));
        let mut client = mock::client(Stack::new(HandshakeLayer::new(offer).layer(inner)));
        let params = format!(r#"{{"name":"a",{}}}"#, modern("{}"));
        let reply = client.call("tools/call", &params).await.unwrap();
        let json: serde_json::Value =
            serde_json::from_slice(&reply.as_body().unwrap().to_json()).unwrap();
        let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
        assert_eq!(json, expected, "{result}");
    }
}

#[tokio::test]
async fn a_legacy_caller_gets_the_results_of_modern_servers_without_their_members() {
    for (result, expected) in [
        (r#"{"resultType":"complete","content":[]}"#, r#"{"content":[]}"#),
        (r#"{"resultType":"complete"}"#, "{}"),
        (
            r#"{"contents":[],"ttlMs":5,"_meta":{"a":1},"cacheScope":"public","resultType":"complete"}"#,
            r#"{"contents":[],"_meta":{"a":1}}"#,
        ),
        (
            r#"{"resultType":"complete","structuredContent":{"resultType":"x","ttlMs":1}}"#,
            r#"{"structuredContent":{"resultType":"x","ttlMs":1}}"#,
        ),
        (r#"{"resultType":"own","ttlMs":5}"#, r#"{"resultType":"own","ttlMs":5}"#),
        (r#"{"content":[],"ttlMs":5}"#, r#"{"content":[],"ttlMs":5}"#),
    ] {
        let inner =
            Stack::from_fn(
                move |_| async move { Ok(Reply::raw(Payload::parse(result.to_owned())?)) },
            );
        let offer = ServerOffer::new(Implementation::new("s", "1"));
        let mut client = mock::client(Stack::new(HandshakeLayer::new(offer).layer(inner)));
        client.request("initialize", &hello("{}")).await.unwrap();
        let answer = client.request("tools/call", r#"{"name":"a"}"#).await.unwrap();
        assert_eq!(answer.as_str(), expected, "{result}");
    }
}
