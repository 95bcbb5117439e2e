//! The conversations (cells) in which the command line of the MCP Inspector uses servers through a kernel, with one
//! process per request.

use super::{
    super::{Cell, Stage, clients::at_home, install::Places, pins::INSPECTOR, servers::TEXT},
    Connection, TIMEOUT, agent, cell,
};
use crate::{
    child,
    run::{Failure, Outcome},
};
use serde_json::json;
use std::{fs, path::Path, process::Command};

/// The requests as Inspector arguments, each with a text that the result must contain.
const ASKED: &[(&[&str], &str)] = &[
    (&["tools/list", "--strict"], "mgp_tools_discover"),
    (
        &[
            "tools/call",
            "--tool-name",
            "mgp_tools_discover",
            "--tool-args-json",
            r#"{"query":"sum of two numbers"}"#,
        ],
        "get-sum",
    ),
    (
        &[
            "tools/call",
            "--tool-name",
            "mgp_tools_call",
            "--tool-args-json",
            r#"{"name":"get-sum","arguments":{"a":2,"b":40}}"#,
        ],
        "42",
    ),
    (&["tools/call", "--tool-name", "echo", "--tool-args-json", r#"{"message":"żółw 🦀"}"#], TEXT),
    (&["resources/list"], "demo://resource/static/document/features.md"),
    (&["resources/read", "--uri", "demo://resource/dynamic/text/7"], "Resource 7"),
    (&["prompts/list"], "args-prompt"),
    (
        &["prompts/get", "--prompt-name", "args-prompt", "--prompt-args", "city=Oslo"],
        "weather in Oslo",
    ),
];

/// Returns a cell for each connection and protocol era.
pub(super) fn cells() -> Vec<Cell> {
    let eras = [("legacy", "2025-11-25"), ("modern", "2026-07-28")];
    let mut cells = Vec::new();
    for connection in [Connection::Stdio, Connection::Http] {
        for (era, revision) in eras {
            let shown = (format!("{}/inspector/{era}", connection.shown()), era, INSPECTOR);
            cells
                .push(cell(shown, revision, move |cell, stage| talk(connection, era, cell, stage)));
        }
    }
    cells
}

/// Returns the agent names of the Inspector's cells. In the configuration, these agents have a pinned tool, because the
/// Inspector calls listed tools only.
pub(super) fn agents() -> Vec<String> {
    cells().iter().map(agent).collect()
}

fn talk(connection: Connection, era: &str, cell: &Cell, stage: &Stage) -> Outcome<String> {
    let world = stage.kernel()?;
    let target: Vec<String> = if connection == Connection::Http {
        let bearer = format!("Authorization: Bearer {}", world.key(&agent(cell))?);
        let url = format!("http://127.0.0.1:{}/mcp", world.port());
        [&url, "--transport", "http", "--header", &bearer].map(str::to_owned).into()
    } else {
        let file = stage.places.log(&cell.name, "json");
        let words = world.shim(&agent(cell));
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let kernel = json!({"type": "stdio", "command": words[0], "args": words[1..]});
        fs::write(&file, json!({"mcpServers": {"kernel": kernel}}).to_string())?;
        ["--config", &file.to_string_lossy(), "--server", "kernel"].map(str::to_owned).into()
    };
    let errors = stage.places.log(&cell.name, "stderr");
    for (asked, wanted) in ASKED {
        let answer = inspect(&target, era, asked, &stage.places, &errors)?;
        if !answer.contains(wanted) {
            return Err(Failure::new(format!(
                "{wanted:?} is not in the answer to {asked:?}: {answer}"
            )));
        }
    }
    Ok(format!("{} requests, the list with `--strict`", ASKED.len()))
}

/// Runs the Inspector once and returns its output; fails if the Inspector fails. `target` are the arguments that name
/// the server, and `asked` is the method with its arguments.
fn inspect(
    target: &[String],
    era: &str,
    asked: &[&str],
    places: &Places,
    errors: &Path,
) -> Outcome<String> {
    let mut command = Command::new(Places::node(INSPECTOR)?);
    command.arg(places.package(INSPECTOR).join("clients/launcher/build/index.js")).arg("--cli");
    command.args(target).args(["--protocol-era", era, "--method"]).args(asked);
    command.args(["-q", "--format", "json"]);
    at_home(&mut command, places);
    let ended = child::run(command, "", errors, TIMEOUT)?;
    if !ended.success {
        let why = fs::read_to_string(errors).unwrap_or_default();
        let output = format!("{} {}", ended.stdout.trim(), why.trim());
        return Err(Failure::new(format!("{} failed: {}", asked[0], output.trim())));
    }
    Ok(ended.stdout)
}
