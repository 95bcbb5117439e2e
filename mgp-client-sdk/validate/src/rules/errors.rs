//! The rules about errors (MGP §14).

use serde_json::{Value, json};

use crate::json::{boolean, object, one_of, shown, text};
use crate::rule::{Check, callable_tool, ensure, needs_tools, server_rules, skip};
use crate::session::{Answer, Session};

server_rules! { Tier3;
    "mgp.errors.unknown_tool", "MGP §14.3", Must, LegacyMgp,
        "a call of an unknown tool fails with 4001" => unknown_tool;
    "mgp.errors.recovery", "MGP §14.4", Must, LegacyMgp,
        "an error of MGP has `data._mgp` with a category and whether it may be retried" => recovery;
    "mgp.errors.category", "MGP §14.2", Must, LegacyMgp,
        "the category fits the range of the code" => category;
    "mgp.errors.codes", "MGP §14.3", Must, LegacyMgp,
        "a method of MCP that does not exist keeps its code of JSON-RPC" => base_codes;
    "mgp.errors.params", "MGP §14.3", Must, LegacyMgp,
        "a call whose arguments are no object fails with 4000 or -32602" => bad_arguments;
}

/// Calls an unknown tool, and returns the code and the error of the answer.
async fn refused(session: &mut Session) -> Result<(i64, Value), crate::rule::Outcome> {
    if session.mgp().is_none() {
        return Err(skip("the server does not offer MGP"));
    }
    needs_tools(session)?;
    let params = json!({ "name": "no_such_tool_7f3a", "arguments": {} });
    match session.ask("tools/call", params).await? {
        Answer::Error { code, error } => Ok((code, error)),
        Answer::Result(result) => {
            Err(format!("an unknown tool was answered with {}", shown(&result)).into())
        }
    }
}

async fn unknown_tool(session: &mut Session) -> Check {
    let (code, error) = refused(session).await?;
    text(&error, "message")?;
    ensure(code == 4001, || format!("the code is {code}, not 4001"))
}

async fn recovery(session: &mut Session) -> Check {
    const STRATEGIES: &[&str] = &["immediate", "fixed_delay", "exponential_backoff"];
    let (_, error) = refused(session).await?;
    let mgp = object(object(&error, "data")?, "_mgp")?;
    text(mgp, "category")?;
    let may = boolean(mgp, "retryable")?;
    ensure(!may, || "an unknown tool is not found by a retry either".to_owned())?;
    if mgp.get("retry_strategy").is_some() {
        one_of(mgp, "retry_strategy", STRATEGIES)?;
    }
    Ok(())
}

async fn category(session: &mut Session) -> Check {
    let (code, error) = refused(session).await?;
    let mgp = object(object(&error, "data")?, "_mgp")?;
    let expected = match code {
        1000..1100 => "security",
        2000..2100 => "lifecycle",
        3000..3100 => "resource",
        4000..4100 => "validation",
        5000..5100 => "external",
        _ => return Err(format!("{code} is no code of MGP").into()),
    };
    Ok(one_of(mgp, "category", &[expected])?)
}

async fn base_codes(session: &mut Session) -> Check {
    if session.mgp().is_none() {
        return Err(skip("the server does not offer MGP"));
    }
    session.ask("does/not/exist", json!({})).await?.check_error("does/not/exist", &[-32601])
}

async fn bad_arguments(session: &mut Session) -> Check {
    let (name, _) = callable_tool(session).await?;
    let listed = session.tools().await.unwrap_or_default();
    let answer = session.ask("tools/call", json!({ "name": name, "arguments": [1] })).await?;
    // The server is not at fault for a name that it does not list, which may be an error of the operator.
    if let Answer::Error { code: 4001, error } = &answer
        && !listed.iter().any(|tool| tool["name"] == name.as_str())
    {
        return Err(skip(&format!("the call of {name:?} was refused: {}", shown(error))));
    }
    answer.check_error("a call with a list as arguments", &[4000, -32602])
}
