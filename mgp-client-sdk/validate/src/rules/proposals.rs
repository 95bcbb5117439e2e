//! The rules about extensions beyond MGP that later proposals describe: the manifest of a server, and checks of
//! permissions.

use serde_json::{Value, json};

use crate::json::{boolean, list, member, object, text};
use crate::rule::{Check, Outcome, server_rules, skip};
use crate::rules::negotiation::{hello_to, speaks_mgp};
use crate::session::{Answer, Session, mgp_of};

server_rules! { Tier4;
    "proposals.manifest", "proposal 1", Must, Bare alone,
        "a manifest names the server, its version and its tools" => manifest;
    "proposals.permissions", "proposal 4", Must, Bare alone,
        "a check of permissions answers whether a call is allowed, and what is missing if not" => permissions;
    "proposals.permissions.unknown", "proposal 4", Must, Bare alone,
        "a check of permissions does not allow a tool that does not exist" => unknown_tool;
}

/// Offers one extension; skips the rule if the server does not have it.
async fn negotiate(session: &mut Session, extension: &str) -> Result<(), Outcome> {
    speaks_mgp(session)?;
    let offer = json!({ "version": "0.3.0", "extensions": ["tool_security", extension] });
    let hello = hello_to(session, offer).await?;
    let names = hello.get("capabilities").and_then(mgp_of).map(|mgp| mgp["extensions"].clone());
    let names = names.unwrap_or_default();
    if !names.as_array().is_some_and(|names| names.iter().any(|name| name == extension)) {
        return Err(skip(&format!("the server does not offer `{extension}`")));
    }
    session.tell("notifications/initialized", json!({})).await;
    Ok(())
}

async fn manifest(session: &mut Session) -> Check {
    negotiate(session, "manifest").await?;
    let answer = session.ask("mgp/manifest/get", json!({})).await?;
    let manifest = answer.result("mgp/manifest/get")?;
    text(&manifest, "manifest_version")?;
    let server = object(&manifest, "server")?;
    text(server, "name")?;
    text(server, "version")?;
    for tool in list(&manifest, "tools")? {
        text(tool, "name")?;
    }
    Ok(())
}

async fn check_of(session: &mut Session, tool: &str, parameters: Value) -> Result<Answer, Outcome> {
    negotiate(session, "scopes").await?;
    let params = json!({ "tool": tool, "parameters": parameters, "scopes_held": [] });
    Ok(session.ask("mgp/permissions/check", params).await?)
}

async fn permissions(session: &mut Session) -> Check {
    let Some((tool, parameters)) = session.tool.clone() else {
        return Err(skip("no tool may be called: name one with `--tool`"));
    };
    let answer = check_of(session, &tool, parameters).await?;
    let result = answer.result("mgp/permissions/check")?;
    if !boolean(&result, "allowed")? {
        // A refusal must name missing scopes or another reason.
        let missing = list(&result, "missing_scopes").map(<[Value]>::is_empty);
        if missing != Ok(false) {
            member(&result, "reason")?;
        }
    }
    Ok(())
}

async fn unknown_tool(session: &mut Session) -> Check {
    match check_of(session, "no_such_tool_7f3a", json!({})).await? {
        Answer::Result(result) if boolean(&result, "allowed")? => {
            Err("a tool that does not exist is allowed".into())
        }
        _ => Ok(()),
    }
}
