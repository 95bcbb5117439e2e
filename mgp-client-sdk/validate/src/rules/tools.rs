//! The rules about tools of MCP.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::json::{Wrong, list, member, object, shown, text, texts};
use crate::rule::{Check, Outcome, callable_tool, ensure, needs_tools, server_rules, skip};
use crate::session::{Answer, Session};

server_rules! { Mcp;
    "mcp.tools.capability", "MCP tools", Must, Legacy,
        "`tools/list` is served exactly if the capability `tools` is declared" => capability;
    "mcp.tools.list", "MCP tools", Must, Legacy,
        "each tool has a name and an input schema of type `object`" => definitions;
    "mcp.tools.unique", "MCP tools", Must, Legacy,
        "no two tools have the same name" => unique_names;
    "mcp.tools.names", "MCP tools (2025-11-25)", Should, Legacy,
        "names have 1 to 128 letters, digits, `_`, `-`, `.`" => plain_names;
    "mcp.tools.described", "MCP tools", Should, Legacy,
        "each tool has a description" => described;
    "mcp.tools.required", "JSON Schema", Should, Legacy,
        "`required` of an input schema is a list of names of properties" => required_names;
    "mcp.tools.annotations", "MCP tools", Must, Legacy,
        "hints in annotations are true or false" => annotations;
    "mcp.tools.output_schema", "MCP tools (2025-06-18)", Must, Legacy,
        "an output schema is an object" => output_schemas;
    "mcp.tools.stable", "MCP tools", Should, Legacy,
        "two lists one after the other are equal" => stable;
    "mcp.tools.cursor", "MCP pagination", Should, Legacy,
        "an invalid cursor fails with -32602" => invalid_cursor;
    "mcp.tools.call.unknown", "MCP tools", Must, Legacy,
        "a call of an unknown tool fails" => unknown_tool;
    "mcp.tools.call.unknown.code", "MCP tools", Should, Legacy,
        "the error of a call of an unknown tool has the code -32602" => unknown_tool_code;
    "mcp.tools.call.no_name", "JSON-RPC §5.1", Should, Legacy,
        "a call without a name fails with -32602" => no_name;
    "mcp.tools.call.arguments", "MCP tools", Must, Legacy,
        "a call without a required argument fails" => missing_argument;
    "mcp.tools.call.result", "MCP tools", Must, Legacy,
        "a result has content blocks with a type" => result;
    "mcp.progress", "MCP progress", Must, Legacy,
        "progress carries the token of its call, and increases" => progress;
}

async fn capability(session: &mut Session) -> Check {
    let declares = session.capability("tools").is_some();
    let answer = session.ask("tools/list", json!({})).await?;
    match answer {
        Answer::Result(_) => ensure(declares, || {
            "`tools/list` is served, and the capability `tools` is missing".to_owned()
        }),
        refused @ Answer::Error { .. } if !declares => refused.check_error("tools/list", &[-32601]),
        refused @ Answer::Error { .. } => {
            Err(refused.result("tools/list").err().unwrap_or_default().into())
        }
    }
}

/// Returns the tools of the server; skips the rule if it has none.
async fn some_tools(session: &mut Session) -> Result<Vec<Value>, Outcome> {
    needs_tools(session)?;
    let tools = session.tools().await?;
    if tools.is_empty() { Err(skip("the server lists no tools")) } else { Ok(tools) }
}

/// Checks each tool; a failure names the tool.
async fn each(session: &mut Session, check: impl Fn(&Value) -> Result<(), Wrong>) -> Check {
    for tool in some_tools(session).await? {
        let name = || tool["name"].as_str().map_or_else(|| shown(&tool), str::to_owned);
        check(&tool).map_err(|wrong| format!("the tool `{}`: {wrong}", name()))?;
    }
    Ok(())
}

async fn definitions(session: &mut Session) -> Check {
    each(session, |tool| {
        text(tool, "name")?;
        let schema = object(tool, "inputSchema")?;
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => Ok(()),
            _ => Err("`inputSchema.type` must be `object`".to_owned()),
        }
    })
    .await
}

async fn unique_names(session: &mut Session) -> Check {
    let mut known = HashSet::new();
    for tool in some_tools(session).await? {
        let name = text(&tool, "name")?;
        ensure(known.insert(name.to_owned()), || format!("`{name}` is listed twice"))?;
    }
    Ok(())
}

async fn plain_names(session: &mut Session) -> Check {
    each(session, |tool| {
        let name = text(tool, "name")?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if (1..=128).contains(&name.len()) && name.chars().all(is_plain) {
            return Ok(());
        }
        Err("its name has other characters, or too many".to_owned())
    })
    .await
}

async fn described(session: &mut Session) -> Check {
    each(session, |tool| match tool.get("description").and_then(Value::as_str) {
        Some(text) if !text.trim().is_empty() => Ok(()),
        _ => Err("no description".to_owned()),
    })
    .await
}

async fn required_names(session: &mut Session) -> Check {
    /// The keywords that can describe properties which are not in `properties`.
    const ELSEWHERE: [&str; 5] = ["patternProperties", "allOf", "anyOf", "oneOf", "$ref"];
    each(session, |tool| {
        let schema = member(tool, "inputSchema")?;
        if schema.get("required").is_none() {
            return Ok(());
        }
        let names = texts(schema, "required")?;
        if ELSEWHERE.iter().any(|keyword| schema.get(keyword).is_some()) {
            return Ok(());
        }
        let unknown = names
            .iter()
            .find(|name| schema.pointer("/properties").is_none_or(|all| all.get(**name).is_none()));
        match unknown {
            Some(name) if schema.get("properties").is_some() => {
                Err(format!("`required` names `{name}`, which is no property"))
            }
            _ => Ok(()),
        }
    })
    .await
}

async fn annotations(session: &mut Session) -> Check {
    const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
    each(session, |tool| {
        let Some(annotations) = tool.get("annotations").filter(|value| !value.is_null()) else {
            return Ok(());
        };
        for hint in HINTS {
            if annotations.get(hint).is_some_and(|value| !value.is_boolean() && !value.is_null()) {
                return Err(format!(
                    "`{hint}` must be true or false, not {}",
                    shown(&annotations[hint])
                ));
            }
        }
        Ok(())
    })
    .await
}

async fn output_schemas(session: &mut Session) -> Check {
    each(session, |tool| match tool.get("outputSchema") {
        None | Some(Value::Null | Value::Object(_)) => Ok(()),
        Some(other) => Err(format!("`outputSchema` must be an object, not {}", shown(other))),
    })
    .await
}

async fn stable(session: &mut Session) -> Check {
    some_tools(session).await?;
    let first = session.ask("tools/list", json!({})).await?.result("tools/list")?;
    let second = session.ask("tools/list", json!({})).await?.result("tools/list")?;
    ensure(first["tools"] == second["tools"], || "two lists one after the other differ".to_owned())
}

async fn invalid_cursor(session: &mut Session) -> Check {
    some_tools(session).await?;
    let params = json!({ "cursor": "no-such-cursor-7f3a" });
    session
        .ask("tools/list", params)
        .await?
        .check_error("tools/list with an invalid cursor", &[-32602])
}

async fn unknown_tool(session: &mut Session) -> Check {
    some_tools(session).await?;
    call_unknown(session).await
}

/// Checks that a call of an unknown tool fails: with any error, or with a result that is an error.
pub(super) async fn call_unknown(session: &mut Session) -> Check {
    match session.ask("tools/call", unknown_call()).await? {
        Answer::Result(result) => ensure(result["isError"] == json!(true), || {
            format!("a call of an unknown tool was answered with {}", shown(&result))
        }),
        Answer::Error { .. } => Ok(()),
    }
}

async fn unknown_tool_code(session: &mut Session) -> Check {
    some_tools(session).await?;
    check_unknown_code(session, &[-32602, -32601, 4001]).await
}

/// Checks the code of the error for a call of an unknown tool; skips the rule if the answer is a result.
pub(super) async fn check_unknown_code(session: &mut Session, codes: &[i64]) -> Check {
    match session.ask("tools/call", unknown_call()).await? {
        Answer::Result(_) => Err(skip("the call was answered with a result")),
        answer @ Answer::Error { .. } => answer.check_error("a call of an unknown tool", codes),
    }
}

fn unknown_call() -> Value {
    json!({ "name": "no_such_tool_7f3a", "arguments": {} })
}

async fn no_name(session: &mut Session) -> Check {
    some_tools(session).await?;
    let answer = session.ask("tools/call", json!({ "arguments": {} })).await?;
    answer.check_error("a call without a name", &[-32602, -32600, 4000])
}

async fn missing_argument(session: &mut Session) -> Check {
    let tools = some_tools(session).await?;
    let needs = |tool: &&Value| {
        let required = tool.pointer("/inputSchema/required").and_then(Value::as_array);
        required.is_some_and(|names| !names.is_empty())
    };
    let may_be_called = |tool: &&Value| {
        session.recording.is_some()
            || tool.pointer("/annotations/readOnlyHint") == Some(&json!(true))
            || session.tool.as_ref().is_some_and(|(name, _)| tool["name"] == **name)
    };
    let Some(tool) = tools.iter().filter(needs).find(may_be_called) else {
        return Err(skip("no read-only tool has a required argument: name one with `--tool`"));
    };
    let name = text(tool, "name")?;
    match session.ask("tools/call", json!({ "name": name, "arguments": {} })).await? {
        Answer::Result(result) => ensure(result["isError"] == json!(true), || {
            format!("`{name}` ran without its required arguments: {}", shown(&result))
        }),
        Answer::Error { .. } => Ok(()),
    }
}

pub(super) fn check_result(result: &Value) -> Result<(), Wrong> {
    for block in list(result, "content")? {
        match text(block, "type")? {
            "text" => text(block, "text").map(drop)?,
            "image" | "audio" => {
                text(block, "data")?;
                text(block, "mimeType")?;
            }
            "resource" => object(block, "resource").map(drop)?,
            "resource_link" => text(block, "uri").map(drop)?,
            other => return Err(format!("`{other}` is no type of content")),
        }
    }
    match result.get("isError") {
        None | Some(Value::Bool(_)) => Ok(()),
        Some(other) => Err(format!("`isError` must be true or false, not {}", shown(other))),
    }
}

/// Calls a tool and returns the result. Skips the rule if the server refuses the call, e.g. because of a rate limit.
pub(super) async fn call(session: &mut Session, params: Value) -> Result<Value, Outcome> {
    let name = shown(&params["name"]);
    match session.ask("tools/call", params).await? {
        Answer::Error { code, error } if code != -32601 => {
            Err(skip(&format!("the call of {name} was refused: {}", shown(&error))))
        }
        answer => Ok(answer.result("tools/call")?),
    }
}

async fn result(session: &mut Session) -> Check {
    let (name, arguments) = callable_tool(session).await?;
    let declared = session.tools().await?.into_iter().find(|tool| tool["name"] == json!(name));
    let params = json!({ "name": name, "arguments": arguments });
    let result = call(session, params).await?;
    check_result(&result)?;
    let schema = declared.as_ref().and_then(|tool| tool.get("outputSchema"));
    let is_error = result["isError"] == json!(true);
    match schema.filter(|schema| schema.is_object() && !is_error) {
        Some(schema) => check_structured(&name, schema, result.get("structuredContent")),
        None => Ok(()),
    }
}

/// Checks that a structured result has all members that the output schema requires, and that its members have the
/// declared types. Values inside of members are not judged.
fn check_structured(name: &str, schema: &Value, structured: Option<&Value>) -> Check {
    let structured = structured.ok_or_else(|| {
        format!("`{name}` has an output schema, and its result no `structuredContent`")
    })?;
    let required = schema["required"].as_array().filter(|_| structured.is_object());
    for member in required.into_iter().flatten().filter_map(Value::as_str) {
        ensure(structured.get(member).is_some(), || {
            format!("the output schema of `{name}` requires `{member}`, which its result lacks")
        })?;
    }
    for (member, own) in schema["properties"].as_object().into_iter().flatten() {
        if let (Some(value), Some(kind)) = (structured.get(member), own["type"].as_str()) {
            ensure(is_of_type(value, kind), || {
                format!("`{member}` of `{name}` must be of type `{kind}`, not {}", shown(value))
            })?;
        }
    }
    Ok(())
}

/// Returns whether a value has a type of JSON Schema; `true` for a type that JSON Schema does not know.
fn is_of_type(value: &Value, kind: &str) -> bool {
    match kind {
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        _ => true,
    }
}

async fn progress(session: &mut Session) -> Check {
    let (name, arguments) = callable_tool(session).await?;
    session.notices.clear();
    let params =
        json!({ "name": name, "arguments": arguments, "_meta": { "progressToken": "judge-7" } });
    session.ask("tools/call", params).await?;
    let token = session.sent().pointer("/params/_meta/progressToken");
    let mut last = f64::NEG_INFINITY;
    for notice in
        session.notices.iter().filter(|notice| notice["method"] == "notifications/progress")
    {
        let params = member(notice, "params")?;
        ensure(params.get("progressToken") == token, || {
            format!("progress with a token of no call: {}", shown(params))
        })?;
        let now = crate::json::number(params, "progress")?;
        ensure(now > last, || format!("progress must increase: {last}, then {now}"))?;
        last = now;
    }
    Ok(())
}
