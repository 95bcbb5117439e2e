//! The steps that every client performs through the kernel, and the expected results.

use crate::run::{Context, Failure, Outcome};
use serde_json::{Value, json};
use std::path::Path;

/// The steps in order. `ROOT` in a step is replaced by the folder that the client offers as an MCP root, and `FOLDER`
/// by a git repository with a file.
///
/// In each step, `wanted` has the texts that the result must contain, and `question` the kind of request, e.g.
/// `sampling`, that the client must have received during the step. All other members are for the driver script.
const STEPS: &str = include_str!("steps.json");

/// The two tools that the kernel lists for every caller. One searches for tools, the other calls a found tool.
const LISTED: [&str; 2] = ["mgp_tools_discover", "mgp_tools_call"];

/// The resource to which the step `watch` subscribes.
const WATCHED: &str = "demo://resource/dynamic/text/7";

fn steps(root: &str, folder: &Path) -> Outcome<Vec<Value>> {
    let text = STEPS.replace("ROOT", root).replace("FOLDER", &folder.display().to_string());
    serde_json::from_str(&text).context("steps.json")
}

/// Returns the JSON input of a driver script; `key` is the API key to use over HTTP.
pub(super) fn script(root: &str, key: Option<&str>, folder: &Path) -> Outcome<String> {
    Ok(json!({"root": root, "key": key, "steps": steps(root, folder)?}).to_string())
}

/// Checks the report of a driver script; returns the number of steps.
pub(super) fn judge(text: &str, root: &str, folder: &Path, revision: &str) -> Outcome<usize> {
    let account = read(text)?;
    let settled = &step(&account, "connect")?["result"]["revision"];
    if settled != revision {
        return Err(Failure::new(format!("settled on {settled}, expected {revision}")));
    }
    let steps = steps(root, folder)?;
    for wanted in &steps {
        let name = wanted["step"].as_str().context("the name of a step")?;
        let seen = step(&account, name)?;
        right(name, wanted, seen).context(format!("step `{name}`, {}", brief(seen)))?;
    }
    step(&account, "close")?;
    Ok(steps.len())
}

/// Parses the output of a driver script: a JSON value per line.
pub(super) fn read(text: &str) -> Outcome<Vec<Value>> {
    text.lines().map(|line| serde_json::from_str(line).context(line)).collect()
}

pub(super) fn step<'a>(account: &'a [Value], name: &str) -> Outcome<&'a Value> {
    let found = account.iter().find(|step| step["step"] == name);
    found.context(format!("step `{name}`, of {} seen", account.len()))
}

fn right(name: &str, wanted: &Value, seen: &Value) -> Outcome {
    let failed = seen["error"].is_string() || seen["result"]["isError"] == true;
    if failed != matches!(name, "wrong" | "unknown") {
        return Err(Failure::new(if failed { "it failed" } else { "it did not fail" }));
    }
    let text = [&seen["result"], &seen["error"]].map(Value::to_string).join(" ");
    // The text of a result may itself be JSON, so one level of escapes is removed.
    let bare = text.replace("\\\\", "\\").replace("\\\"", "\"");
    let mut parts = wanted["wanted"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(part) = parts.find(|part| !text.contains(*part) && !bare.contains(*part)) {
        return Err(Failure::new(format!("{part:?} is not there")));
    }
    let has = |list: &str, item: &str| {
        seen[list].as_array().is_some_and(|all| all.iter().any(|one| one == item))
    };
    if let Some(question) = wanted["question"].as_str()
        && !has("asked", question)
    {
        return Err(Failure::new(format!("the client was not asked for {question}")));
    }
    let so = match name {
        "list" => {
            let tools = seen["result"]["tools"].as_array().context("tools")?;
            tools.iter().map(|tool| tool["name"].as_str()).eq(LISTED.map(Some))
        }
        // The TypeScript SDK can lose one of the five progress notifications, so four are enough: it handles a result
        // immediately, but a notification a moment later, when the call may have ended.
        "progress" => seen["progress"].as_u64() >= Some(4),
        "watch" => has("updated", WATCHED),
        // The logger is the name of the server, `everything`.
        "log" => has("logs", "everything"),
        _ => true,
    };
    if so { Ok(()) } else { Err(Failure::new("not what was expected")) }
}

/// Returns the first 300 characters of a step's report, for a failure message.
fn brief(seen: &Value) -> String {
    seen.to_string().chars().take(300).collect()
}
