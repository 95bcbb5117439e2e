//! The rules about security metadata, access and audit (MGP §3 to §7).

use serde_json::{Value, json};

use crate::json::{Wrong, boolean, member, object, one_of, shown, text, texts, time};
use crate::rule::{Check, needs_tools, server_rules, skip};
use crate::session::{Answer, Session};

server_rules! { Tier2;
    "mgp.tools.security", "MGP §4.2", Should, LegacyMgp ["security"],
        "each tool has security metadata" => metadata;
    "mgp.tools.risk", "MGP §4.3", Must, LegacyMgp ["security"],
        "security metadata has a risk level of the three" => risk;
    "mgp.tools.permissions", "MGP §3.2", Must, LegacyMgp ["security"],
        "permissions are those of §3.2 or in reverse domain notation" => permissions;
    "mgp.tools.side_effects", "MGP §4.3", Must, LegacyMgp ["security"],
        "side effects are of the five kinds" => side_effects;
    "mgp.tools.validator", "MGP §4.5", Must, LegacyMgp ["security"],
        "a validator is one of the five" => validator;
    "mgp.tools.switches", "MGP §4.3", Must, LegacyMgp ["security"],
        "`reversible` and `confirmation_required` are true or false" => switches;
    "mgp.tools.code_safety", "MGP §7.3", Must, LegacyMgp ["security"],
        "a declaration of code safety has a level of the four" => code_safety;
    "mgp.access.query", "MGP §5.4", Must, LegacyMgp ["access_control"],
        "a query about access is answered with permission and source" => access_query;
    "mgp.access.unspecific", "MGP §5.4", Must, LegacyMgp ["access_control"],
        "a query that names no agent is refused" => access_query_without_agent;
    "mgp.access.grant", "MGP §5.4", Must, LegacyMgp ["access_control"],
        "a grant without an agent is refused" => empty_grant;
    "mgp.audit.format", "MGP §6.3", Must, LegacyMgp ["audit"],
        "audit events have the format of §6.3" => audit_events;
}

const PERMISSIONS: &[&str] = &[
    "filesystem.read",
    "filesystem.write",
    "network.outbound",
    "network.listen",
    "shell.execute",
    "code_execution",
    "memory.read",
    "memory.write",
    "system.info",
    "camera",
    "notification",
];

/// Checks the security metadata of each tool that has some; a failure names the tool.
async fn each(session: &mut Session, check: impl Fn(&Value) -> Result<(), Wrong>) -> Check {
    needs_tools(session)?;
    let mut found = false;
    for tool in session.tools().await? {
        let Some(security) = tool.get("security") else { continue };
        found = true;
        check(security).map_err(|wrong| format!("the tool {}: {wrong}", shown(&tool["name"])))?;
    }
    if found { Ok(()) } else { Err(skip("no tool has security metadata")) }
}

async fn metadata(session: &mut Session) -> Check {
    needs_tools(session)?;
    let tools = session.tools().await?;
    let without = tools.iter().find(|tool| !tool["security"].is_object());
    match without {
        None => Ok(()),
        Some(tool) => Err(format!("the tool {} has no `security`", shown(&tool["name"])).into()),
    }
}

async fn risk(session: &mut Session) -> Check {
    each(session, |security| one_of(security, "risk_level", &["safe", "moderate", "dangerous"]))
        .await
}

async fn permissions(session: &mut Session) -> Check {
    each(session, |security| {
        if security.get("permissions_required").is_none() {
            return Ok(());
        }
        let names = texts(security, "permissions_required")?;
        let unknown = names.iter().find(|name| {
            !PERMISSIONS.contains(name)
                && name.split('.').filter(|part| !part.is_empty()).count() < 3
        });
        unknown.map_or(Ok(()), |name| Err(format!("`{name}` is no permission")))
    })
    .await
}

async fn side_effects(session: &mut Session) -> Check {
    const KINDS: &[&str] = &["filesystem", "network", "process", "database", "notification"];
    each(session, |security| {
        if security.get("side_effects").is_none() {
            return Ok(());
        }
        let unknown =
            texts(security, "side_effects")?.into_iter().find(|kind| !KINDS.contains(kind));
        unknown.map_or(Ok(()), |kind| Err(format!("`{kind}` is no kind of side effect")))
    })
    .await
}

async fn validator(session: &mut Session) -> Check {
    const NAMES: &[&str] = &["sandbox", "readonly", "network_restricted", "code_safety", "none"];
    each(session, |security| match security.get("validator") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => one_of(security, "validator", NAMES),
    })
    .await
}

async fn switches(session: &mut Session) -> Check {
    each(session, |security| {
        for name in ["reversible", "confirmation_required"] {
            if security.get(name).is_some() {
                boolean(security, name)?;
            }
        }
        Ok(())
    })
    .await
}

async fn code_safety(session: &mut Session) -> Check {
    const LEVELS: &[&str] = &["unrestricted", "standard", "strict", "readonly"];
    each(session, |security| match security.get("code_safety") {
        None | Some(Value::Null) => Ok(()),
        Some(declared) => one_of(declared, "level", LEVELS),
    })
    .await
}

async fn access_query(session: &mut Session) -> Check {
    let params = json!({ "agent_id": "judge", "server_id": "judge", "tool_name": "judge" });
    match session.ask("mgp/access/query", params).await? {
        Answer::Result(result) => {
            one_of(&result, "permission", &["allow", "deny"])?;
            Ok(one_of(&result, "source", &["tool_grant", "server_grant", "default_policy"])?)
        }
        // A server is allowed to refuse this query, so that a caller does not learn what others have access to.
        refused @ Answer::Error { .. } => {
            refused.check_error("mgp/access/query", &[1000, 1001, 4001, 4004])
        }
    }
}

async fn refused_params(session: &mut Session, method: &str, params: Value) -> Check {
    session.ask(method, params).await?.check_error(method, &[-32602, 1000, 1001, 4000])
}

async fn access_query_without_agent(session: &mut Session) -> Check {
    refused_params(session, "mgp/access/query", json!({ "agent_id": 5 })).await
}

async fn empty_grant(session: &mut Session) -> Check {
    refused_params(session, "mgp/access/grant", json!({ "entry_type": "tool_grant" })).await
}

async fn audit_events(session: &mut Session) -> Check {
    if let Some((name, arguments)) = session.callable().await? {
        session.ask("tools/call", json!({ "name": name, "arguments": arguments })).await?;
    }
    session.listen().await;
    let events: Vec<_> = session
        .notices
        .iter()
        .filter(|notice| notice["method"] == "notifications/mgp.audit")
        .collect();
    if events.is_empty() {
        return Err(skip("the server sent no audit event"));
    }
    for event in events {
        let params = member(event, "params")?;
        time(params, "timestamp")?;
        text(params, "trace_id")?;
        text(params, "event_type")?;
        text(object(params, "actor")?, "type")?;
        object(params, "target")?;
        text(params, "result")?;
    }
    Ok(())
}
