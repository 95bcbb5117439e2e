//! The acceptance checks `sdk.first-server` and `sdk.first-client`: the programs in the README are short, compile
//! outside the workspace, and work.

use super::scratch::{Scratch, lines, program_below};
use crate::{
    accept::Verdict,
    bench,
    child::talk,
    run::{Context, Failure, Outcome, Rigour, root},
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The maximum number of lines of a program in the README.
const MAX_LINES: usize = 15;

/// The maximum difference, as a share, between the instructions of two tools: one is written with the macro, the other
/// with the builder.
const MAX_SHARE: f64 = 0.02;

/// Builds programs of the README, each given by a name and the heading above it; returns their texts and the folder of
/// the binaries.
fn readme<const N: usize>(wanted: [(&str, &str); N]) -> Outcome<([String; N], PathBuf)> {
    let page = fs::read_to_string(root().join("README.md")).context("README.md")?;
    let texts = wanted.map(|(_, heading)| program_below(&page, heading));
    let mut programs = [const { String::new() }; N];
    for (program, text) in programs.iter_mut().zip(texts) {
        *program = text?;
    }
    let named: Vec<_> =
        wanted.iter().zip(&programs).map(|((name, _), text)| (*name, text.as_str())).collect();
    let built = Scratch::new("first", &named)?.build()?;
    Ok((programs, built))
}

const SERVER: (&str, &str) = ("server", "## A server");
const CLIENT: (&str, &str) = ("client", "## A client");

/// Checks that the server is short and has two tools, and that the macro costs as many instructions as the builder.
pub(in crate::accept) fn first_server(rigour: Rigour) -> Outcome<Verdict> {
    let ([program], built) = readme([SERVER])?;
    let tools = tools(&built.join("server"))?;
    let programs = [
        ("by_builder", include_str!("programs/by_builder.rs")),
        ("by_macro", include_str!("programs/by_macro.rs")),
    ];
    let built = Scratch::new("cost", &programs)?.build()?;
    let Some(by_builder) = bench::instructions_of(&built.join("by_builder"), &[], rigour)? else {
        return Ok(Verdict {
            pass: lines(&program) <= MAX_LINES && tools == 2,
            figure: format!("{} lines, {tools} tools", lines(&program)),
            bound: format!("{MAX_LINES} lines, 2 tools"),
        });
    };
    let by_macro =
        bench::instructions_of(&built.join("by_macro"), &[], rigour)?.context("valgrind")?;
    let share = by_macro / by_builder - 1.0;
    Ok(Verdict {
        pass: lines(&program) <= MAX_LINES && tools == 2 && share.abs() <= MAX_SHARE,
        figure: format!(
            "{} lines, {tools} tools, macro {:+.2} % ({by_macro:.0} instructions, builder {by_builder:.0})",
            lines(&program),
            share * 100.0
        ),
        bound: format!("{MAX_LINES} lines, 2 tools, ±{:.0} %", MAX_SHARE * 100.0),
    })
}

/// Checks that the README's client calls the tools of the README's server.
pub(in crate::accept) fn first_client() -> Outcome<Verdict> {
    let ([_, program], built) = readme([SERVER, CLIENT])?;
    let mut command = Command::new(built.join("client"));
    command.arg(built.join("server"));
    let ended = talk(command, "")?;
    print!("{}", ended.stdout);
    let lines_printed = ended.stdout.lines().count();
    Ok(Verdict {
        pass: ended.success && lines(&program) <= MAX_LINES && lines_printed >= 2,
        figure: format!("{} lines, prints {lines_printed}", lines(&program)),
        bound: format!("{MAX_LINES} lines, prints 2 or more"),
    })
}

/// Returns the number of tools of a server; fails if one has no description or no properties.
fn tools(server: &Path) -> Outcome<usize> {
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "first", "version": "0"}});
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    ];
    let input: Vec<_> = messages.iter().map(|message| format!("{message}\n")).collect();
    let ended = talk(Command::new(server), &input.concat())?;
    let answers = ended.stdout.lines().map(serde_json::from_str::<Value>);
    let answer = answers.flatten().find(|answer| answer["id"] == 2).context("the list of tools")?;
    let tools = answer["result"]["tools"].as_array().context("the list of tools")?;
    for tool in tools {
        let described = tool["description"].as_str().is_some_and(|text| !text.is_empty());
        if !described || tool["inputSchema"]["properties"].is_null() {
            return Err(Failure::new(format!(
                "a tool without a description or properties: {tool}"
            )));
        }
    }
    Ok(tools.len())
}
