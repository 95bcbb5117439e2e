//! The rules about the discovery of servers and of tools (MGP §15, §16).

use serde_json::{Value, json};

use crate::json::{list, number, object, one_of, shown, text};
use crate::rule::{Check, ensure, server_rules};
use crate::session::{Answer, Session};

server_rules! { Tier4;
    "mgp.discovery.list", "MGP §15.2", Must, LegacyMgp ["discovery"],
        "each listed server has an id and a state" => servers;
    "mgp.discovery.filter", "MGP §15.2", Must, LegacyMgp ["discovery"],
        "a filter by an extension that no server has leaves no server" => filtered_servers;
    "mgp.discovery.register", "MGP §15.4", Must, LegacyMgp ["discovery"],
        "a registration without a program is refused" => empty_registration;
    "mgp.discovery.deregister", "MGP §15.5", Must, LegacyMgp ["discovery"],
        "an unknown server cannot be removed" => unknown_server;
    "mgp.tools.discover", "MGP §16.5", Must, LegacyMgp ["tool_discovery"],
        "a search returns tools with their schemas and scores, and counts" => discover;
    "mgp.tools.discover.max", "MGP §16.5", Must, LegacyMgp ["tool_discovery"],
        "a search returns no more tools than asked for" => max_results;
    "mgp.tools.discover.order", "MGP §16.5", Must, LegacyMgp ["tool_discovery"],
        "the best tool comes first" => order;
    "mgp.tools.discover.params", "MGP §16.5", Must, LegacyMgp ["tool_discovery"],
        "a search without a query is refused" => no_query;
    "mgp.tools.request", "MGP §16.6", Must, LegacyMgp ["tool_discovery"],
        "a request for a capability is answered with one of the five states" => request;
    "mgp.tools.session", "MGP §16.7", Must, LegacyMgp ["tool_discovery"],
        "the session lists pinned and cached tools, and tokens" => tool_session;
    "mgp.tools.evict", "MGP §16.7", Must, LegacyMgp ["tool_discovery"],
        "an unknown tool is not evicted" => evict;
}

async fn servers(session: &mut Session) -> Check {
    let result =
        session.ask("mgp/discovery/list", json!({})).await?.result("mgp/discovery/list")?;
    for server in list(&result, "servers")? {
        text(server, "id")?;
        text(server, "status")?;
    }
    Ok(())
}

async fn filtered_servers(session: &mut Session) -> Check {
    let params = json!({ "filter": { "extensions": ["com.example.nobody"] } });
    let result = session.ask("mgp/discovery/list", params).await?.result("mgp/discovery/list")?;
    let left = list(&result, "servers")?.len();
    ensure(left == 0, || format!("{left} servers are left"))
}

const REFUSALS: &[i64] = &[-32602, 1000, 1001, 4000, 4001, 4004, 4100, 4102];

async fn empty_registration(session: &mut Session) -> Check {
    let answer = session.ask("mgp/discovery/register", json!({ "id": "judge" })).await?;
    answer.check_error("mgp/discovery/register", REFUSALS)
}

async fn unknown_server(session: &mut Session) -> Check {
    let params = json!({ "id": "judge-no-such-server", "reason": "test" });
    match session.ask("mgp/discovery/deregister", params).await? {
        // The specification does not demand an error for an unknown server. So a result is accepted too, unless it
        // reports a removal.
        Answer::Result(result) => ensure(result["status"] != "deregistered", || {
            format!("an unknown server was removed: {}", shown(&result))
        }),
        refused @ Answer::Error { .. } => refused.check_error("mgp/discovery/deregister", REFUSALS),
    }
}

/// Calls `mgp/tools/discover` with these parameters, and returns its result.
async fn search(session: &mut Session, params: Value) -> Result<Value, String> {
    session.ask("mgp/tools/discover", params).await?.result("mgp/tools/discover")
}

async fn discover(session: &mut Session) -> Check {
    let result = search(session, json!({ "query": "list files read data get time" })).await?;
    for tool in list(&result, "tools")? {
        text(tool, "name")?;
        text(tool, "server_id")?;
        object(tool, "inputSchema")?;
        let score = number(tool, "relevance_score")?;
        ensure((0.0..=1.0).contains(&score), || {
            format!("the score {score} is not between 0 and 1")
        })?;
    }
    number(&result, "total_available")?;
    text(&result, "search_strategy")?;
    number(&result, "query_time_ms")?;
    Ok(())
}

async fn max_results(session: &mut Session) -> Check {
    let params = json!({ "query": "list files read data get time", "max_results": 1 });
    let found = list(&search(session, params).await?, "tools")?.len();
    ensure(found <= 1, || format!("{found} tools were returned for `max_results: 1`"))
}

async fn order(session: &mut Session) -> Check {
    let result = search(session, json!({ "query": "list files read data get time" })).await?;
    let scores: Result<Vec<f64>, _> =
        list(&result, "tools")?.iter().map(|tool| number(tool, "relevance_score")).collect();
    let scores = scores?;
    ensure(scores.windows(2).all(|pair| pair[0] >= pair[1]), || {
        format!("the scores are {scores:?}")
    })
}

async fn no_query(session: &mut Session) -> Check {
    let answer = session.ask("mgp/tools/discover", json!({ "query": 7 })).await?;
    answer.check_error("mgp/tools/discover", &[-32602, 4000])
}

async fn request(session: &mut Session) -> Check {
    const STATES: &[&str] =
        &["fulfilled", "partial", "unavailable", "pending_approval", "creating"];
    let params = json!({
        "reason": "capability_gap",
        "context": "test",
        "requirements": { "capabilities": ["translate whale songs into sheet music"] },
    });
    let result = session.ask("mgp/tools/request", params).await?.result("mgp/tools/request")?;
    one_of(&result, "status", STATES)?;
    list(&result, "tools_loaded")?;
    Ok(())
}

async fn tool_session(session: &mut Session) -> Check {
    let result = session.ask("mgp/tools/session", json!({})).await?.result("mgp/tools/session")?;
    list(&result, "pinned")?;
    list(&result, "cached")?;
    number(&result, "total_tokens")?;
    number(&result, "max_tokens")?;
    Ok(())
}

async fn evict(session: &mut Session) -> Check {
    let params = json!({ "tools": ["judge.no_such_tool"], "reason": "test" });
    let method = "mgp/tools/session/evict";
    let result = session.ask(method, params).await?.result(method)?;
    // Accept a list and a number, because the specification does not define whether the result names the tools or
    // counts them.
    let has_evicted = match &result["evicted"] {
        Value::Array(tools) => !tools.is_empty(),
        count => count.as_f64().is_some_and(|count| count > 0.0),
    };
    ensure(!has_evicted, || format!("tools were evicted: {}", shown(&result)))
}
