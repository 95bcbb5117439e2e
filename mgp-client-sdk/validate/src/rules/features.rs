//! The rules about resources, prompts, logging, and the server's output as a whole.

use serde_json::{Value, json};

use crate::json::{Wrong, list, shown, text};
use crate::rule::{Check, ensure, server_rules, skip};
use crate::session::{Answer, Session};

server_rules! { Mcp;
    "mcp.resources.capability", "MCP resources", Must, Legacy,
        "`resources/list` is served exactly if the capability `resources` is declared" => resources_capability;
    "mcp.resources.list", "MCP resources", Must, Legacy,
        "each resource has a URI and a name" => resources;
    "mcp.resources.templates", "MCP resources", Must, Legacy,
        "each resource template has a template and a name" => templates;
    "mcp.resources.read.unknown", "MCP resources", Should, Legacy,
        "an unknown resource fails with -32002" => unknown_resource;
    "mcp.prompts.capability", "MCP prompts", Must, Legacy,
        "`prompts/list` is served exactly if the capability `prompts` is declared" => prompts_capability;
    "mcp.prompts.list", "MCP prompts", Must, Legacy,
        "each prompt has a name, and each argument of it" => prompts;
    "mcp.prompts.get.unknown", "MCP prompts", Should, Legacy,
        "an unknown prompt fails with -32602" => unknown_prompt;
    "mcp.logging.level", "MCP logging", Should, Legacy,
        "an unknown log level fails with -32602" => unknown_level;
    "mcp.output.json", "MCP stdio", Must, Legacy,
        "the output contains nothing but messages" => only_messages;
    "mcp.output.jsonrpc", "JSON-RPC §4", Must, Legacy,
        "each message has `\"jsonrpc\": \"2.0\"`" => envelopes at_once;
}

async fn served_if_declared(session: &mut Session, capability: &str) -> Check {
    let method = format!("{capability}/list");
    let declares = session.capability(capability).is_some();
    match session.ask(&method, json!({})).await? {
        Answer::Result(_) => ensure(declares, || {
            format!("`{method}` is served, and the capability `{capability}` is missing")
        }),
        refused @ Answer::Error { .. } if declares => {
            Err(refused.result(&method).err().unwrap_or_default().into())
        }
        refused @ Answer::Error { .. } => refused.check_error(&method, &[-32601]),
    }
}

async fn listed(
    session: &mut Session,
    method: &str,
    name: &str,
) -> Result<Vec<Value>, crate::rule::Outcome> {
    let capability = method.split('/').next().unwrap_or_default();
    if session.capability(capability).is_none() {
        return Err(skip("the capability is not declared"));
    }
    let result = session.ask(method, json!({})).await?.result(method)?;
    Ok(list(&result, name)?.to_vec())
}

fn each(all: &[Value], members: &[&str]) -> Result<(), Wrong> {
    for one in all {
        for name in members {
            text(one, name).map_err(|wrong| format!("{}: {wrong}", shown(one)))?;
        }
    }
    Ok(())
}

async fn resources_capability(session: &mut Session) -> Check {
    served_if_declared(session, "resources").await
}

async fn prompts_capability(session: &mut Session) -> Check {
    served_if_declared(session, "prompts").await
}

async fn resources(session: &mut Session) -> Check {
    let all = listed(session, "resources/list", "resources").await?;
    Ok(each(&all, &["uri", "name"])?)
}

async fn templates(session: &mut Session) -> Check {
    const METHOD: &str = "resources/templates/list";
    if session.capability("resources").is_none() {
        return Err(skip("the capability is not declared"));
    }
    let answer = session.ask(METHOD, json!({})).await?;
    if matches!(answer, Answer::Error { code: -32601, .. }) {
        return Err(skip("the server has no resource templates"));
    }
    let result = answer.result(METHOD)?;
    Ok(each(list(&result, "resourceTemplates")?, &["uriTemplate", "name"])?)
}

async fn unknown_resource(session: &mut Session) -> Check {
    listed(session, "resources/list", "resources").await?;
    let params = json!({ "uri": "judge://no/such/resource-7f3a" });
    session
        .ask("resources/read", params)
        .await?
        .check_error("a read of an unknown resource", &[-32002, -32602])
}

async fn prompts(session: &mut Session) -> Check {
    let all = listed(session, "prompts/list", "prompts").await?;
    each(&all, &["name"])?;
    for prompt in &all {
        let arguments = prompt.get("arguments").and_then(Value::as_array);
        each(arguments.map(Vec::as_slice).unwrap_or_default(), &["name"])?;
    }
    Ok(())
}

async fn unknown_prompt(session: &mut Session) -> Check {
    listed(session, "prompts/list", "prompts").await?;
    let params = json!({ "name": "no_such_prompt_7f3a" });
    session.ask("prompts/get", params).await?.check_error("an unknown prompt", &[-32602, 4001])
}

async fn unknown_level(session: &mut Session) -> Check {
    if session.capability("logging").is_none() {
        return Err(skip("the server declares no logging"));
    }
    let answer = session.ask("logging/setLevel", json!({ "level": "loud" })).await?;
    answer.check_error("an unknown log level", &[-32602])
}

async fn only_messages(session: &mut Session) -> Check {
    session.listen().await;
    match session.garbage.first() {
        None => Ok(()),
        Some(text) => Err(format!("this is not a message: {text}").into()),
    }
}

fn envelopes(session: &mut Session) -> Check {
    match session.malformed.first() {
        None => Ok(()),
        Some(wrong) => Err(wrong.clone().into()),
    }
}
