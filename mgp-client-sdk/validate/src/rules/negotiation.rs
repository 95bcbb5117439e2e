//! The rules about the negotiation of MGP, and about the absence of MGP messages if it was not negotiated (MGP §2).

use serde_json::{Value, json};

use crate::json::{list, object, one_of, shown, text, texts};
use crate::rule::{Check, ensure, needs_tools, server_rules, skip};
use crate::session::{Answer, EXTENSIONS, Session};

server_rules! { Tier1;
    "mgp.silence.initialize", "MGP §2.4", Must, Legacy,
        "a client that does not offer MGP is not answered with it" => silent_handshake at_once;
    "mgp.silence.methods", "MGP §2.4", Must, Legacy,
        "without MGP its methods do not exist" => silent_methods;
    "mgp.silence.tools", "MGP §2.4", Must, Legacy,
        "without MGP tools and results have no members of it" => silent_tools;
    "mgp.silence.notifications", "MGP §2.4", Must, Legacy,
        "without MGP no notification of it is sent" => silent_notifications;
    "mgp.silence.modern", "MGP §2.4", Must, Modern,
        "a modern client that does not offer MGP is not answered with it" => silent_discover at_once;
    "mgp.answer.version", "MGP §2.3", Must, LegacyMgp,
        "the answer has a version of the same major number" => answer_version at_once;
    "mgp.answer.extensions", "MGP §2.4", Must, LegacyMgp,
        "the answer has only extensions that the client offered" => answer_extensions at_once;
    "mgp.answer.permissions", "MGP §2.3", Must, LegacyMgp,
        "required permissions are names" => answer_permissions at_once;
    "mgp.answer.trust", "MGP §2.3", Must, LegacyMgp,
        "a claimed trust level is one of the known words" => answer_trust at_once;
    "mgp.answer.subset", "MGP §2.4", Must, Bare alone,
        "a client that offers one extension is answered with no other" => one_extension;
    "mgp.version.major", "MGP §2.4", Must, Bare alone,
        "another major version means plain MCP" => other_major;
    "mgp.version.minor", "MGP §2.4", Must, Bare alone,
        "another minor version is compatible" => other_minor;
    "mgp.extensions.unknown", "MGP §2.4", Must, Bare alone,
        "unknown extensions are ignored" => unknown_extension;
    "mgp.malformed", "MGP §2.4", Must, Bare alone,
        "a malformed offer means plain MCP, or is refused" => malformed_offer;
    "mgp.modern.answer", "MGP §2.3", Must, ModernMgp,
        "`server/discover` answers an offer of MGP with version and extensions" => modern_answer at_once;
}

/// Returns the member of a handshake's result that contains the server's answer to an offer of MGP.
fn mgp_of(hello: &Value) -> Option<&Value> {
    crate::session::mgp_of(hello.get("capabilities")?)
}

fn silent(hello: &Value) -> Check {
    match mgp_of(hello) {
        None => Ok(()),
        Some(mgp) => {
            Err(format!("the client offered no MGP, and was answered with {}", shown(mgp)).into())
        }
    }
}

fn silent_handshake(session: &mut Session) -> Check {
    silent(&session.hello)
}

fn silent_discover(session: &mut Session) -> Check {
    silent(&session.hello)
}

async fn silent_methods(session: &mut Session) -> Check {
    let mut codes = vec![-32601];
    // The rule `mcp.method.unknown` judges the code for unknown methods, so another code is not reported twice.
    if let Answer::Error { code, .. } = session.ask("does/not/exist", json!({})).await?
        && code != -32601
    {
        codes.push(code);
    }
    // Send valid params, because a method that exists could refuse others with the code for unknown methods.
    let access = json!({ "agent_id": "judge", "server_id": "judge", "tool_name": "judge" });
    for (method, params) in [
        ("mgp/health/ping", json!({})),
        ("mgp/tools/discover", json!({ "query": "list files" })),
        ("mgp/access/query", access),
    ] {
        session.ask(method, params).await?.error(method, &codes)?;
    }
    Ok(())
}

async fn silent_tools(session: &mut Session) -> Check {
    needs_tools(session)?;
    let tools = session.tools().await?;
    let with = tools.iter().find(|tool| tool.get("security").is_some());
    ensure(with.is_none(), || "a tool has the member `security`".to_owned())?;
    let Some((name, arguments)) = session.callable().await? else { return Ok(()) };
    let params = json!({ "name": name, "arguments": arguments });
    if let Answer::Result(result) = session.ask("tools/call", params).await? {
        ensure(result.get("_mgp").is_none(), || "a result has the member `_mgp`".to_owned())?;
    }
    Ok(())
}

async fn silent_notifications(session: &mut Session) -> Check {
    session.listen().await;
    let sent = session.notices.iter().filter_map(|notice| notice["method"].as_str());
    match sent.into_iter().find(|method| method.starts_with("notifications/mgp.")) {
        None => Ok(()),
        Some(method) => Err(format!("`{method}` was sent").into()),
    }
}

/// Returns the server's answer to the offer of MGP; skips the rule if there is none.
fn answered(session: &Session) -> Result<&Value, crate::rule::Outcome> {
    session.mgp().ok_or_else(|| skip("the server does not offer MGP"))
}

fn check_version(mgp: &Value) -> Check {
    let version = text(mgp, "version")?;
    let major = version.split('.').next().and_then(|major| major.parse::<u64>().ok());
    ensure(major == Some(0), || format!("the version `{version}` is not compatible with 0.3.0"))
}

fn answer_version(session: &mut Session) -> Check {
    check_version(answered(session)?)
}

fn check_extensions(mgp: &Value, offered: &[&str]) -> Check {
    let extra = texts(mgp, "extensions")?.into_iter().find(|name| !offered.contains(name));
    match extra {
        None => Ok(()),
        Some(name) => Err(format!("the answer has `{name}`, which was not offered").into()),
    }
}

fn offered(session: &Session) -> Vec<&str> {
    session.offered.iter().map(String::as_str).collect()
}

fn answer_extensions(session: &mut Session) -> Check {
    check_extensions(answered(session)?, &offered(session))
}

fn answer_permissions(session: &mut Session) -> Check {
    let mgp = answered(session)?;
    if mgp.get("permissions_required").is_some() {
        texts(mgp, "permissions_required")?;
    }
    Ok(())
}

fn answer_trust(session: &mut Session) -> Check {
    const WORDS: &[&str] =
        &["trusted", "standard", "sandboxed", "core", "experimental", "untrusted"];
    let mgp = answered(session)?;
    if mgp.get("trust_level").is_some() {
        one_of(mgp, "trust_level", WORDS)?;
    }
    Ok(())
}

/// Sends `initialize` with this offer of MGP, and returns the result.
pub(crate) async fn hello_to(session: &mut Session, offer: Value) -> Result<Value, String> {
    let mut params = session.initialize();
    params["capabilities"]["mgp"] = offer;
    session.ask("initialize", params).await?.result("initialize")
}

/// Skips a rule if the server does not accept a valid offer of MGP.
pub(crate) fn speaks_mgp(session: &Session) -> Result<(), crate::rule::Outcome> {
    if session.speaks_mgp { Ok(()) } else { Err(skip("the server does not offer MGP")) }
}

async fn one_extension(session: &mut Session) -> Check {
    speaks_mgp(session)?;
    let hello =
        hello_to(session, json!({ "version": "0.3.0", "extensions": ["lifecycle"] })).await?;
    match mgp_of(&hello) {
        None => Ok(()),
        Some(mgp) => check_extensions(mgp, &["lifecycle"]),
    }
}

async fn other_major(session: &mut Session) -> Check {
    speaks_mgp(session)?;
    silent(&hello_to(session, json!({ "version": "9.0.0", "extensions": EXTENSIONS })).await?)
}

async fn other_minor(session: &mut Session) -> Check {
    speaks_mgp(session)?;
    let hello = hello_to(session, json!({ "version": "0.1.0", "extensions": EXTENSIONS })).await?;
    ensure(mgp_of(&hello).is_some(), || "a client of MGP 0.1.0 was answered without MGP".to_owned())
}

async fn unknown_extension(session: &mut Session) -> Check {
    speaks_mgp(session)?;
    let offer = json!({ "version": "0.3.0", "extensions": ["lifecycle", "com.example.unknown"] });
    let hello = hello_to(session, offer).await?;
    let mgp =
        mgp_of(&hello).ok_or("an offer with an unknown extension was answered without MGP")?;
    check_extensions(mgp, &["lifecycle"])
}

async fn malformed_offer(session: &mut Session) -> Check {
    let mut params = session.initialize();
    params["capabilities"]["mgp"] = json!("yes");
    match session.ask("initialize", params).await? {
        Answer::Result(hello) => silent(&hello),
        refused @ Answer::Error { .. } => {
            refused.check_error("initialize with a malformed offer", &[-32602, -32600])
        }
    }
}

fn modern_answer(session: &mut Session) -> Check {
    let mgp = answered(session)?;
    check_version(mgp)?;
    list(mgp, "extensions")?;
    check_extensions(mgp, &offered(session))?;
    object(&session.hello, "capabilities")?;
    Ok(())
}
