//! The rules about the era without a handshake (2026-07-28).

use serde_json::{Value, json};

use crate::json::{number, object, shown, text, texts};
use crate::rule::{Check, callable_tool, ensure, needs_tools, server_rules};
use crate::session::{MODERN, Session};

server_rules! { Mcp;
    "modern.discover", "MCP 2026-07-28 discovery", Must, Modern,
        "`server/discover` names the revisions and capabilities" => discover at_once;
    "modern.discover.cache", "MCP 2026-07-28 caching", Must, Modern,
        "`server/discover` and lists have `ttlMs` and `cacheScope`" => cache_hints;
    "modern.result_type", "MCP 2026-07-28 results", Must, Modern,
        "each result has a `resultType`" => result_type;
    "modern.server_info", "MCP 2026-07-28 results", Should, Modern,
        "results name the server in `_meta`" => server_info at_once;
    "modern.version.unknown", "MCP 2026-07-28 versions", Must, Modern,
        "an unknown revision fails with -32022 and the supported ones" => unknown_version;
    "modern.method.unknown", "JSON-RPC §5.1", Must, Modern,
        "an unknown method fails with -32601" => unknown_method;
    "modern.tools.list", "MCP tools", Must, Modern,
        "each tool has a name and an input schema" => tools;
    "modern.tools.call.unknown", "MCP tools", Must, Modern,
        "a call of an unknown tool fails" => unknown_tool;
    "modern.tools.call.unknown.code", "MCP tools", Should, Modern,
        "the error of a call of an unknown tool has the code -32602" => unknown_tool_code;
    "modern.tools.call.result", "MCP tools", Must, Modern,
        "a result has content blocks and the type `complete`" => result;
    "modern.no_requests", "MCP 2026-07-28", Must, Modern,
        "the server sends no requests of its own" => no_requests;
}

fn discover(session: &mut Session) -> Check {
    let versions = texts(&session.hello, "supportedVersions")?;
    ensure(versions.contains(&MODERN), || format!("`supportedVersions` lacks {MODERN}"))?;
    object(&session.hello, "capabilities")?;
    Ok(())
}

fn check_cache(result: &Value) -> Check {
    number(result, "ttlMs")?;
    crate::json::one_of(result, "cacheScope", &["public", "private"])?;
    Ok(())
}

async fn cache_hints(session: &mut Session) -> Check {
    check_cache(&session.hello)?;
    if session.capability("tools").is_some() {
        check_cache(&session.ask("tools/list", json!({})).await?.result("tools/list")?)?;
    }
    Ok(())
}

async fn result_type(session: &mut Session) -> Check {
    let complete = |result: &Value| -> Check {
        let kind = text(result, "resultType")?;
        ensure(kind == "complete", || format!("`resultType` is `{kind}`"))
    };
    complete(&session.hello)?;
    if session.capability("tools").is_some() {
        complete(&session.ask("tools/list", json!({})).await?.result("tools/list")?)?;
    }
    Ok(())
}

fn server_info(session: &mut Session) -> Check {
    let info = session.hello.pointer("/_meta/io.modelcontextprotocol~1serverInfo");
    let info = info.ok_or("`_meta[\"io.modelcontextprotocol/serverInfo\"]` is missing")?;
    text(info, "name")?;
    Ok(())
}

async fn unknown_version(session: &mut Session) -> Check {
    let params = json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2099-01-01" } });
    let error =
        session.ask("tools/list", params).await?.error("a request of 2099-01-01", &[-32022])?;
    let data = object(&error, "data")?;
    let supported = texts(data, "supported")?;
    ensure(!supported.is_empty(), || "`data.supported` is empty".to_owned())
}

async fn unknown_method(session: &mut Session) -> Check {
    session.ask("does/not/exist", json!({})).await?.check_error("does/not/exist", &[-32601])
}

async fn tools(session: &mut Session) -> Check {
    needs_tools(session)?;
    for tool in session.tools().await? {
        text(&tool, "name")?;
        object(&tool, "inputSchema").map_err(|wrong| format!("{}: {wrong}", shown(&tool)))?;
    }
    Ok(())
}

async fn unknown_tool(session: &mut Session) -> Check {
    needs_tools(session)?;
    super::tools::call_unknown(session).await
}

async fn unknown_tool_code(session: &mut Session) -> Check {
    needs_tools(session)?;
    super::tools::check_unknown_code(session, &[-32602, 4001]).await
}

async fn result(session: &mut Session) -> Check {
    let (name, arguments) = callable_tool(session).await?;
    let params = json!({ "name": name, "arguments": arguments });
    let result = super::tools::call(session, params).await?;
    let kind = text(&result, "resultType")?;
    if kind == "complete" {
        return Ok(super::tools::check_result(&result)?);
    }
    ensure(kind == "input_required" || kind == "task", || format!("`{kind}` is no type of result"))
}

async fn no_requests(session: &mut Session) -> Check {
    session.listen().await;
    let request = session.notices.iter().find(|message| {
        message.get("method").is_some() && message.get("id").is_some_and(|id| !id.is_null())
    });
    match request {
        None => Ok(()),
        Some(request) => Err(format!("the server sent the request {}", shown(request)).into()),
    }
}
