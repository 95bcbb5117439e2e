//! The rules about JSON-RPC and the handshake of MCP.

use std::time::Duration;

use serde_json::json;

use crate::json::{member, object, shown, text};
use crate::rule::{Check, ensure, server_rules, skip};
use crate::session::{Answer, LEGACY_REVISIONS, MODERN, Session};

server_rules! { Mcp;
    "mcp.initialize.result", "MCP lifecycle", Must, Legacy,
        "`initialize` is answered with the revision, capabilities, name and version" => initialize_result at_once;
    "mcp.initialize.older", "MCP lifecycle", Must, Bare alone,
        "a client that asks for an older revision is answered with a revision that exists" => older_revision;
    "mcp.initialize.unknown", "MCP lifecycle", Must, Bare alone,
        "an unknown revision is answered with a known one, or refused" => unknown_revision;
    "mcp.initialize.no_revision", "MCP lifecycle", Should, Bare alone,
        "`initialize` without a revision fails with -32602" => no_revision;
    "mcp.initialize.modern", "MCP lifecycle", Must, Bare alone,
        "`initialize` never negotiates a revision of the modern era" => never_modern;
    "mcp.ping", "MCP ping", Must, Legacy,
        "`ping` is answered with an empty result" => ping;
    "mcp.method.unknown", "JSON-RPC §5.1", Must, Legacy,
        "an unknown method fails with -32601" => unknown_method;
    "mcp.id.text", "JSON-RPC §4", Must, Legacy,
        "a text as id comes back unchanged" => text_id;
    "mcp.notification.silent", "JSON-RPC §4.1", Must, Legacy,
        "an unknown notification is not answered" => silent_notification;
    "mcp.cancelled.unknown", "MCP cancellation", Must, Legacy,
        "a cancellation of an unknown request is ignored" => unknown_cancellation;
    "mcp.request.invalid", "JSON-RPC §5.1", Should, Legacy alone,
        "a request whose method is not a text fails with -32600" => invalid_request;
    "mcp.parse_error", "JSON-RPC §5.1", Must, Legacy alone,
        "input that is not JSON does not end the connection" => parse_error;
    "mcp.close", "MCP shutdown", Should, Legacy alone,
        "a server over standard input ends when its input ends" => closed_input;
}

fn initialize_result(session: &mut Session) -> Check {
    let hello = &session.hello;
    let revision = text(hello, "protocolVersion")?;
    object(hello, "capabilities")?;
    let info = object(hello, "serverInfo")?;
    text(info, "name")?;
    text(info, "version")?;
    ensure(LEGACY_REVISIONS.contains(&revision), || {
        format!("`{revision}` is not a revision of MCP")
    })
}

/// Sends `initialize` with a revision, and returns the revision of the answer. Returns `None` if the server refuses it
/// with code −32602 (invalid params), −32600 (invalid request), −32022 (unsupported version) or −32020 (header
/// mismatch); any other error is a failure.
async fn negotiated(session: &mut Session, revision: &str) -> Result<Option<String>, String> {
    let mut params = session.initialize();
    params["protocolVersion"] = json!(revision);
    match session.ask("initialize", params).await? {
        crate::session::Answer::Result(result) => {
            Ok(Some(text(&result, "protocolVersion")?.to_owned()))
        }
        refused @ crate::session::Answer::Error { .. } => {
            refused.error("initialize", &[-32602, -32600, -32022, -32020])?;
            Ok(None)
        }
    }
}

async fn older_revision(session: &mut Session) -> Check {
    let found = negotiated(session, "2025-03-26").await?;
    let found = found.ok_or("a server of a legacy revision must answer a client of another one")?;
    ensure(LEGACY_REVISIONS.contains(&found.as_str()), || {
        format!("`{found}` is not a revision of MCP")
    })
}

async fn unknown_revision(session: &mut Session) -> Check {
    let Some(found) = negotiated(session, "1999-01-01").await? else { return Ok(()) };
    ensure(LEGACY_REVISIONS.contains(&found.as_str()), || {
        format!("the unknown revision `1999-01-01` was answered with `{found}`")
    })
}

async fn no_revision(session: &mut Session) -> Check {
    let mut params = session.initialize();
    if let Some(params) = params.as_object_mut() {
        params.remove("protocolVersion");
    }
    session.ask("initialize", params).await?.check_error("initialize", &[-32602, -32600])
}

async fn never_modern(session: &mut Session) -> Check {
    let found = negotiated(session, MODERN).await?;
    ensure(found.as_deref() != Some(MODERN), || {
        format!("`initialize` negotiated `{MODERN}`, a revision without `initialize`")
    })
}

async fn ping(session: &mut Session) -> Check {
    let result = session.ask("ping", json!({})).await?.result("ping")?;
    let members = result
        .as_object()
        .ok_or_else(|| format!("the result must be an object, not {}", shown(&result)))?;
    let unknown = members.keys().find(|name| !name.starts_with('_'));
    ensure(unknown.is_none(), || {
        format!("the result of `ping` must be empty, not {}", shown(&result))
    })
}

async fn unknown_method(session: &mut Session) -> Check {
    let answer = session.ask("does/not/exist", json!({})).await?;
    let error = answer.error("does/not/exist", &[-32601])?;
    text(&error, "message")?;
    Ok(())
}

async fn text_id(session: &mut Session) -> Check {
    check_pong(session.ask_as(json!("a text 7"), "ping", json!({})).await?)
}

async fn silent_notification(session: &mut Session) -> Check {
    session.listen().await;
    if session.notices.has_dropped() {
        // Make room for further messages: with a full list, an answer to the notification would be dropped, and the
        // rule could not see it.
        session.notices.clear();
    }
    let before = session.notices.len();
    session.tell("notifications/does/not/exist", json!({})).await;
    session.listen().await;
    let answer = session.notices[before.min(session.notices.len())..]
        .iter()
        .find(|message| message.get("error").is_some() || message.get("result").is_some());
    if let Some(answer) = answer {
        let wrong = format!("an unknown notification was answered with {}", shown(answer));
        return Err(wrong.into());
    }
    alive(session).await
}

async fn unknown_cancellation(session: &mut Session) -> Check {
    session
        .tell("notifications/cancelled", json!({ "requestId": 987_654, "reason": "test" }))
        .await;
    alive(session).await
}

async fn invalid_request(session: &mut Session) -> Check {
    let id = json!(4711);
    // Send the member `method` with a wrong type. Without this member, the message could also be a response.
    session.send(json!({ "jsonrpc": "2.0", "id": id, "method": 7 })).await;
    session
        .answer_to(&id, "a request whose method is a number")
        .await?
        .check_error("\"method\": 7", &[-32600])
}

async fn parse_error(session: &mut Session) -> Check {
    session.send_raw("{\"jsonrpc\": \"2.0\", \"id\": 1, ").await;
    session.listen().await;
    let error = session.notices.iter().find_map(|message| message.get("error"));
    if let Some(error) = error {
        let code = member(error, "code")?.as_i64();
        ensure(code == Some(-32700) || code == Some(-32600), || {
            format!("input that is not JSON fails with -32700, not {}", shown(error))
        })?;
    }
    alive(session).await
}

async fn closed_input(session: &mut Session) -> Check {
    if session.is_http() {
        return Err(skip("a server at a URL has no input that ends"));
    }
    let ended = session.close_input(Duration::from_secs(5)).await;
    ensure(ended, || "the server still runs 5 s after its input ended".to_owned())
}

/// Checks that the server still answers.
pub(super) async fn alive(session: &mut Session) -> Check {
    let answer = session.ask("ping", json!({})).await;
    match answer {
        Ok(answer) => check_pong(answer),
        Err(reason) => Err(format!("the server does not answer any more: {reason}").into()),
    }
}

/// Checks the answer to a ping that a rule sends only to see whether the server answers. A server without `ping` breaks
/// the rule `mcp.ping`, but not the rules that use it.
fn check_pong(answer: Answer) -> Check {
    if !matches!(answer, Answer::Error { code: -32601, .. }) {
        answer.result("ping")?;
    }
    Ok(())
}
