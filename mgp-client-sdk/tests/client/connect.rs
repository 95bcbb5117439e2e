//! Tests of the negotiation of versions and capabilities.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{Client, EraChoice, Error, TestClient};
use mgp_lifecycle::ConnectError;
use mgp_server_sdk::Server;
use mgp_types::mcp::{CreateMessageResult, ElicitAction, ElicitResult, Era, Revision, Root};
use mgp_types::mgp::Extension;
use mgp_types::service::gate;
use mgp_types::{ErrorCode, RpcError};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::script::{Script, plain};

fn speaks(revisions: &[Revision]) -> Server {
    let revisions = revisions.to_vec();
    Server::new("s", "1").offer(move |offer| offer.revisions = revisions)
}

#[tokio::test]
async fn every_revision_is_negotiated() {
    for revision in Revision::LEGACY {
        let client = TestClient::legacy(speaks(std::slice::from_ref(revision))).await;
        assert_eq!(client.server().revision, *revision);
        client.ping().await.unwrap();

        // If the server supports both eras, the client must use the modern era, unless it is restricted to the legacy
        // era.
        let both = || speaks(&[revision.clone(), Revision::MODERN]);
        assert_eq!(TestClient::new(both()).await.server().revision, Revision::MODERN);
        assert_eq!(TestClient::legacy(both()).await.server().revision, *revision);
    }
    let client = TestClient::new(speaks(&[Revision::MODERN])).await;
    assert_eq!(client.server().era, Era::Modern);
    client.ping().await.unwrap();
}

/// Connects to a server, and returns the error. `answer` completes the server's answer to `initialize`. The client must
/// disconnect.
async fn refused(answer: impl FnOnce(&mut Value)) -> Error {
    let (end, mut script) = Script::new();
    let server = tokio::spawn(async move {
        let request = script.read().await.unwrap();
        assert_eq!(request["method"], "initialize");
        assert_eq!(request["params"]["protocolVersion"], "2025-11-25");
        (script, request)
    });
    let connecting = tokio::spawn(plain().era(EraChoice::Legacy).connect(end.reader, end.writer));
    let (mut script, request) = server.await.unwrap();
    let mut message = json!({ "jsonrpc": "2.0", "id": request["id"] });
    answer(&mut message);
    script.write(&message).await;
    let error = connecting.await.unwrap().unwrap_err();
    assert!(script.read().await.is_none(), "the client must disconnect");
    error
}

#[tokio::test]
async fn an_unsupported_counter_offer_ends_the_connection() {
    for revision in ["2030-01-01", "2026-07-28", "nonsense"] {
        let error = refused(|message| {
            message["result"] = json!({
                "protocolVersion": revision,
                "capabilities": {},
                "serverInfo": { "name": "s", "version": "1" },
            });
        })
        .await;
        let Error::UnsupportedVersion { requested, supported } = &error else {
            panic!("{error:?}")
        };
        assert_eq!((requested.as_str(), supported[0].as_str()), ("2025-11-25", revision));
        assert_eq!(error.code(), ErrorCode::UNSUPPORTED_VERSION);
    }
}

/// Without this rule, the client would wait ten seconds for another answer to its probe.
#[tokio::test]
async fn an_error_without_an_id_is_the_answer_to_the_probe() {
    let (end, mut script) = Script::new();
    let connecting = plain().connect(end.reader, end.writer);
    let server = async {
        assert_eq!(script.read().await.unwrap()["method"], "server/discover");
        let error = json!({ "code": -32700, "message": "unknown variant" });
        script.write(&json!({ "jsonrpc": "2.0", "id": null, "error": error })).await;
        script.initialize("2025-06-18", json!({})).await;
    };
    let both = async { tokio::join!(connecting, server) };
    let (client, ()) = timeout(Duration::from_secs(5), both).await.unwrap();
    assert_eq!(client.unwrap().server().revision.as_str(), "2025-06-18");
}

#[tokio::test]
async fn the_error_of_the_specification_names_the_versions() {
    let error = refused(|message| {
        message["error"] = json!({
            "code": -32602,
            "message": "Unsupported protocol version",
            "data": { "supported": ["2023-01-01"], "requested": "2025-11-25" },
        });
    })
    .await;
    assert_eq!(
        error.to_string(),
        "the server does not speak revision `2025-11-25`, but `2023-01-01`"
    );
    let error = refused(|message| {
        message["error"] = json!({ "code": -32602, "message": "no" });
    })
    .await;
    assert!(matches!(error, Error::Connect(ConnectError::Refused(_))));
    assert_eq!(error.code(), ErrorCode::INVALID_PARAMS);
}

#[tokio::test]
async fn a_refusal_that_names_a_revision_we_speak_is_an_offer() {
    let (end, mut script) = Script::new();
    let connecting = tokio::spawn(plain().era(EraChoice::Legacy).connect(end.reader, end.writer));
    let hello = script.read().await.unwrap();
    let data = json!({ "supported": ["2024-11-05", "2025-03-26"], "requested": "2025-11-25" });
    let error = json!({ "code": -32602, "message": "Unsupported protocol version", "data": data });
    script.refuse(&hello, error).await;
    let hello = script.initialize("2025-03-26", json!({})).await;
    assert_eq!(hello["params"]["protocolVersion"], "2025-03-26");
    assert_eq!(connecting.await.unwrap().unwrap().server().revision, Revision::V2025_03_26);
}

#[tokio::test]
async fn a_client_of_one_era_reports_the_missing_revision() {
    let legacy = speaks(Revision::LEGACY).try_into().unwrap();
    let (here, there) = mgp_transport::duplex();
    tokio::spawn(mgp_transport::Connection::new(there.reader, there.writer, legacy).run());
    let connecting = plain().era(EraChoice::Modern).connect(here.reader, here.writer);
    let Err(Error::UnsupportedVersion { requested, .. }) = connecting.await else { panic!() };
    assert_eq!(requested, Revision::MODERN);
}

#[tokio::test]
async fn a_server_may_ping_before_it_answers() {
    let (end, mut script) = Script::new();
    let connecting = tokio::spawn(plain().era(EraChoice::Legacy).connect(end.reader, end.writer));
    let hello = script.read().await.unwrap();
    script.write(&json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" })).await;
    assert_eq!(script.read().await.unwrap(), json!({ "jsonrpc": "2.0", "id": "p", "result": {} }));
    let result = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "serverInfo": { "name": "s", "version": "1" },
    });
    script.answer(&hello, result).await;
    assert_eq!(connecting.await.unwrap().unwrap().server().revision, Revision::V2025_06_18);
}

/// PHP writes an empty object as an empty list.
#[tokio::test]
async fn a_server_that_writes_empty_objects_as_lists_is_connected() {
    let (end, mut script) = Script::new();
    let connecting = tokio::spawn(plain().era(EraChoice::Legacy).connect(end.reader, end.writer));
    let hello = script.read().await.unwrap();
    let result = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": { "tools": [], "logging": [], "prompts": false },
        "serverInfo": { "name": "s", "version": 1.5 },
    });
    script.answer(&hello, result).await;
    let client = connecting.await.unwrap().unwrap();
    assert!(client.capabilities().tools.is_some() && client.capabilities().prompts.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up() {
    for era in [EraChoice::Legacy, EraChoice::Modern, EraChoice::Auto] {
        let (end, _script) = Script::new();
        let began = tokio::time::Instant::now();
        let connecting =
            plain().era(era).init_timeout(Duration::from_secs(7)).connect(end.reader, end.writer);
        let error = connecting.await.unwrap_err();
        assert_eq!(error.to_string(), "the server did not finish the handshake within 7 s");
        assert_eq!((error.code(), began.elapsed().as_secs()), (ErrorCode::TIMEOUT, 7));
    }
}

#[tokio::test]
async fn only_handled_requests_are_offered() {
    let hello = |builder: mgp_client_sdk::ClientBuilder| async move {
        let (end, mut script) = Script::new();
        let builder = builder.era(EraChoice::Legacy);
        let connecting = builder.connect(end.reader, end.writer);
        let (client, hello) = tokio::join!(connecting, script.initialize("2025-11-25", json!({})));
        client.unwrap();
        hello["params"]["capabilities"].clone()
    };
    assert_eq!(hello(plain()).await, json!({}));
    let all = plain()
        .roots([Root::new("file:///work")])
        .on_elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Cancel)) })
        .on_sampling(|_| async { Err::<CreateMessageResult, _>(RpcError::internal("no model")) });
    let offered =
        json!({ "roots": { "listChanged": true }, "sampling": {}, "elicitation": { "form": {} } });
    assert_eq!(hello(all).await, offered);
    let mgp = hello(Client::builder("c", "1")).await;
    // In the legacy era, the client must offer MGP only as a capability, and not also as an extension.
    assert_eq!(mgp["extensions"], serde_json::Value::Null);
    // The names of the first specification come first, for servers that know no others. The names that need a handler
    // for permissions or callbacks are missing.
    let default = "security access_control audit lifecycle streaming bidirectional discovery tool_discovery \
         tool_security events progress error_handling";
    let default: Vec<_> = default.split(' ').collect();
    assert_eq!(mgp["mgp"]["extensions"], json!(default));
    let handled = hello(
        Client::builder("c", "1")
            .on_callback(async |_| Ok(mgp_client_sdk::CallbackAnswer::Declined)),
    )
    .await;
    let names = handled["mgp"]["extensions"].as_array().unwrap().clone();
    assert!(names.contains(&json!("bidirectional")) && names.contains(&json!("callbacks")));
    assert!(names.contains(&json!("events")));
}

#[tokio::test]
async fn a_server_of_the_first_specification_is_understood() {
    // A server of the first specification knows nine extensions, and accepts the extensions among them that the client
    // offers.
    let mgp = json!({ "version": "0.1.0", "extensions": ["security", "streaming"] });
    let builder = Client::builder("c", "1");
    let (client, _script) = Script::legacy(builder, json!({ "mgp": mgp })).await;
    let server = client.server();
    assert!(server.has(Extension::ToolSecurity) && server.has(Extension::Streaming));
    // The client has no approver for permissions, so it does not offer that part of `security`.
    assert!(!server.has(Extension::Permissions));
    assert_eq!(server.mgp_version.as_ref().unwrap().as_str(), "0.1.0");
}

#[tokio::test]
async fn layers_stand_between_the_caller_and_the_wire() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watch = |name: &'static str| {
        let seen = Arc::clone(&seen);
        gate(move |call| {
            if let Some(tool) = call.tool() {
                assert!(call.cx().callee.supports_mgp(), "a gate knows whom a call goes to");
                seen.lock().unwrap().push(format!("{name} {}", tool.name));
            }
            Ok(())
        })
    };
    let no_shell = gate(|call| match call.tool() {
        Some(tool) if tool.name == "shell" => {
            Err(RpcError::new(ErrorCode::PERMISSION_DENIED, "no shell here"))
        }
        _ => Ok(()),
    });
    let builder =
        Client::builder("c", "1").layer(watch("inner")).layer(no_shell).layer(watch("outer"));
    let client = TestClient::with_builder(Server::new("s", "1"), builder).await;
    let refused = client.refusal("shell", ()).await;
    assert_eq!(
        (refused.code(), &*refused.message()),
        (ErrorCode::PERMISSION_DENIED, "no shell here")
    );
    assert_eq!(client.refusal("later", ()).await.code(), ErrorCode::TOOL_NOT_FOUND);
    assert_eq!(*seen.lock().unwrap(), ["outer shell", "outer later", "inner later"]);
}

#[tokio::test]
async fn the_server_info_is_available() {
    let server = || Server::new("s", "2").instructions("Ask twice.");
    for client in [TestClient::legacy(server()).await, TestClient::modern(server()).await] {
        assert_eq!(client.instructions(), Some("Ask twice."));
        assert_eq!(client.server_info().unwrap().version, "2");
        assert!(client.capabilities().tools.is_none());
    }
}
