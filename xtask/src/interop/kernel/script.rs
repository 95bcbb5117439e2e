//! The steps that every client performs through the kernel, and the expected results.

use super::super::servers::TEXT;
use crate::run::{Context, Failure, Outcome};
use serde_json::{Value, json};
use std::path::Path;

/// One step: the request to the driver script, and what its result must contain.
struct Step {
    name: &'static str,
    asked: Value,
    /// The texts that the result of the step must contain.
    wanted: Vec<String>,
    /// The kind of request, e.g. `sampling`, that the client must have received during the step.
    question: Option<&'static str>,
}

impl Step {
    fn new(name: &'static str, verb: &str, mut asked: Value, wanted: &[&str]) -> Self {
        asked["step"] = name.into();
        asked["do"] = verb.into();
        let wanted = wanted.iter().map(ToString::to_string).collect();
        Self { name, asked, wanted, question: None }
    }

    fn asks(mut self, question: &'static str) -> Self {
        self.question = Some(question);
        self
    }
}

/// The two tools that the kernel lists for every caller: search for tools, and call a found tool.
const LISTED: [&str; 2] = ["mgp_tools_discover", "mgp_tools_call"];

const DOCUMENT: &str = "demo://resource/static/document/features.md";
const DYNAMIC: &str = "demo://resource/dynamic/text/7";

/// Returns all steps in order. `root` is the folder that the client offers as an MCP root; `folder` is a git repository
/// with a file.
fn steps(root: &str, folder: &Path) -> Vec<Step> {
    let find = |name, query: &str, arguments: Value, wanted: &[&str]| {
        Step::new(name, "find", json!({"query": query, "arguments": arguments}), wanted)
    };
    let call = |name, tool: &str, arguments: Value, wanted: &[&str]| {
        Step::new(name, "call", json!({"name": tool, "arguments": arguments}), wanted)
    };
    let noon = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let tokyo = "T21:00:00+09:00";
    let mut all = vec![
        Step::new("list", "tools", json!({}), &LISTED),
        // Finds one tool of each server by a description, and calls it by the found name.
        find(
            "find-time",
            "convert a time between time zones",
            noon.clone(),
            &["convert_time", tokyo],
        ),
        find(
            "find-git",
            "show the working tree status of a git repository",
            json!({"repo_path": folder}),
            &["git_status", "turtle.txt"],
        ),
        find(
            "find-filesystem",
            "read the text of a file",
            json!({"path": folder.join("turtle.txt")}),
            &["read_text_file", TEXT],
        ),
        find(
            "find-memory",
            "search the knowledge graph for nodes",
            json!({"query": "turtle"}),
            &["search_nodes", "relations"],
        ),
        find("find-everything", "sum of two numbers", json!({"a": 2, "b": 40}), &["get-sum", "42"]),
        call("by-name", "convert_time", noon, &[tokyo]),
        call("by-server", "everything.echo", json!({"message": TEXT}), &[TEXT]),
        call("wrong", "get-sum", json!({"a": "two"}), &[]),
        call("unknown", "no_such_tool", json!({}), &["no_such_tool"]),
    ];
    all.extend(reading());
    all.extend(calling(root));
    all
}

/// Returns the steps about resources, prompts and completions.
fn reading() -> Vec<Step> {
    vec![
        Step::new("resources", "resources", json!({}), &[DOCUMENT]),
        Step::new("templates", "templates", json!({}), &["demo://resource/dynamic/text/{"]),
        Step::new("read", "read", json!({"uri": DOCUMENT}), &[DOCUMENT, "# Everything Server"]),
        Step::new("read-made", "read", json!({"uri": DYNAMIC}), &[DYNAMIC, "Resource 7"]),
        Step::new("prompts", "prompts", json!({}), &["args-prompt", "completable-prompt"]),
        Step::new(
            "prompt",
            "prompt",
            json!({"name": "args-prompt", "arguments": {"city": "Oslo"}}),
            &["weather in Oslo"],
        ),
        Step::new(
            "complete",
            "complete",
            json!({
                "ref": {"type": "ref/prompt", "name": "completable-prompt"},
                "argument": {"name": "department", "value": "E"},
            }),
            &["Engineering"],
        ),
        Step::new(
            "complete-uri",
            "complete",
            json!({
                "ref": {"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"},
                "argument": {"name": "resourceId", "value": "3"},
            }),
            &["\"3\""],
        ),
    ]
}

/// Returns the steps that call tools: tools that send requests to the client, progress, cancellation, subscriptions and
/// logs.
fn calling(root: &str) -> Vec<Step> {
    let call = |name, tool: &str, arguments: Value, wanted: &[&str]| {
        Step::new(name, "call", json!({"name": tool, "arguments": arguments}), wanted)
    };
    let long = |steps| json!({"duration": f64::from(steps) / 5.0, "steps": steps});
    vec![
        call(
            "sampling",
            "trigger-sampling-request",
            json!({"prompt": "2+2"}),
            &["heard: Resource trigger-sampling-request context: 2+2"],
        )
        .asks("sampling"),
        call(
            "elicitation",
            "trigger-elicitation-request",
            json!({}),
            &["Name: Ada", "Agreed to terms: true"],
        )
        .asks("elicitation"),
        call("roots", "get-roots-list", json!({}), &[root]),
        call(
            "task",
            "simulate-research-query",
            json!({"topic": "python", "ambiguous": true}),
            &["Research Report: python (User accepted"],
        )
        .asks("elicitation"),
        call("progress", "trigger-long-running-operation", long(5), &["Steps: 5"]),
        Step::new(
            "cancel",
            "cancel",
            json!({"name": "trigger-long-running-operation", "arguments": long(100)}),
            &[],
        ),
        Step::new(
            "watch",
            "watch",
            json!({"uri": DYNAMIC, "name": "toggle-subscriber-updates"}),
            &["Stopped"],
        ),
        Step::new(
            "log",
            "log",
            json!({"name": "toggle-simulated-logging", "arguments": {}}),
            &["Stopped"],
        ),
        call("again", "echo", json!({"message": "still here"}), &["still here"]),
    ]
}

/// Returns the JSON input of a driver script; `key` is the API key to use over HTTP.
pub(super) fn script(root: &str, key: Option<&str>, folder: &Path) -> String {
    let steps: Vec<_> = steps(root, folder).into_iter().map(|step| step.asked).collect();
    json!({"root": root, "key": key, "steps": steps}).to_string()
}

/// Checks the report of a driver script; returns the number of steps.
pub(super) fn judge(text: &str, root: &str, folder: &Path, revision: &str) -> Outcome<usize> {
    let account = read(text)?;
    let settled = &step(&account, "connect")?["result"]["revision"];
    if settled != revision {
        return Err(Failure::new(format!("settled on {settled}, expected {revision}")));
    }
    let steps = steps(root, folder);
    for wanted in &steps {
        let seen = step(&account, wanted.name)?;
        right(wanted, seen).context(format!("step `{}`, {}", wanted.name, brief(seen)))?;
    }
    step(&account, "close")?;
    Ok(steps.len())
}

/// Parses the output of a driver script: a JSON value per line.
pub(super) fn read(text: &str) -> Outcome<Vec<Value>> {
    text.lines().map(|line| serde_json::from_str(line).context(line)).collect()
}

/// Returns the report of one step.
pub(super) fn step<'a>(account: &'a [Value], name: &str) -> Outcome<&'a Value> {
    let found = account.iter().find(|step| step["step"] == name);
    found.context(format!("step `{name}`, of {} seen", account.len()))
}

fn right(wanted: &Step, seen: &Value) -> Outcome {
    let failed = seen["error"].is_string() || seen["result"]["isError"] == true;
    if failed != matches!(wanted.name, "wrong" | "unknown") {
        return Err(Failure::new(if failed { "it failed" } else { "it did not fail" }));
    }
    let text = [&seen["result"], &seen["error"]].map(Value::to_string).join(" ");
    // The text of a result may itself be JSON, so one level of escapes is removed.
    let bare = text.replace("\\\\", "\\").replace("\\\"", "\"");
    if let Some(part) =
        wanted.wanted.iter().find(|part| !text.contains(&***part) && !bare.contains(&***part))
    {
        return Err(Failure::new(format!("{part:?} is not there")));
    }
    let has = |list: &str, item: &str| {
        seen[list].as_array().is_some_and(|all| all.iter().any(|one| one == item))
    };
    if let Some(question) = wanted.question
        && !has("asked", question)
    {
        return Err(Failure::new(format!("the client was not asked for {question}")));
    }
    let so = match wanted.name {
        "list" => {
            let tools = seen["result"]["tools"].as_array().context("tools")?;
            tools.iter().map(|tool| tool["name"].as_str()).eq(LISTED.map(Some))
        }
        // The TypeScript SDK can lose one of the five progress notifications: it handles a result at once, but a
        // notification a moment later, when the call may have ended.
        "progress" => seen["progress"].as_u64() >= Some(4),
        "watch" => has("updated", DYNAMIC),
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
