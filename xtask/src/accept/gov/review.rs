//! The acceptance check `valid.review`: the review of tool definitions is quick, and holds back few definitions of real
//! tools.

use crate::{
    accept::{Options, Verdict, shared},
    child::talk,
    run::{Outcome, now, release_example},
};
use serde_json::{Value, json};
use std::{fs, process::Command};

/// The names of the sets of real tool definitions.
const SETS: [&str; 7] =
    ["mcp_large", "livemcp", "bfcl", "sealtools", "stabletoolbench", "metatool", "mcpm_server"];

/// The maximum share of real definitions that are held back because of their content.
const MAX_HELD: f64 = 0.003;

/// The maximum mean time for a definition in microseconds, including reading it and writing the answer.
const MAX_MEAN_US: f64 = 1_000.0;

/// Passes real definitions to the example `guard`, and counts the definitions that it holds back.
pub(in crate::accept) fn review(options: &Options) -> Outcome<Verdict> {
    let Some(folder) = options.data.clone().or_else(|| shared("retrieval")) else {
        let why = "the labelled sets are neither beside the repository nor in --data DIR";
        return options.skip("the review of real definitions", why);
    };
    let (mut lines, mut count) = (String::new(), 0_u32);
    for set in SETS {
        for line in fs::read_to_string(folder.join(set).join("tools.jsonl"))?.lines() {
            let row: Value = serde_json::from_str(line)?;
            let mut schema = row["inputSchema"].clone();
            without_types(&mut schema);
            let tool = json!({"name": "tool", "title": row["name"], "description": row["description"], "inputSchema": schema});
            let line = json!({"id": row["id"], "kind": "definition", "tool": tool});
            lines.push_str(&line.to_string());
            lines.push('\n');
            count += 1;
        }
    }
    let mut command = Command::new(release_example("mgp-security", "guard", &["--all-features"])?);
    command.arg("tooldef");
    let started = now();
    let ended = talk(command, &lines)?;
    let mean = started.elapsed().as_secs_f64() * 1e6 / f64::from(count.max(1));
    let (mut held, mut answers) = (0_u32, 0_u32);
    for answer in ended.stdout.lines() {
        answers += 1;
        let answer: Value = serde_json::from_str(answer)?;
        // Counts only definitions that are held back because of their texts, not because of their schema or size.
        let reason = answer["reason"].as_str().unwrap_or_default();
        let is_form = ["schema.", "definition."].iter().any(|rule| reason.starts_with(rule));
        if answer["decision"] == "block" && !is_form {
            println!("{}: {reason}", answer["id"]);
            held += 1;
        }
    }
    let share = f64::from(held) / f64::from(count.max(1));
    Ok(Verdict {
        pass: count > 0 && answers == count && share <= MAX_HELD && mean <= MAX_MEAN_US,
        figure: format!(
            "{held} of {count} held ({:.2} %), {answers} answers, {mean:.0} µs",
            share * 100.0
        ),
        bound: format!("{:.1} %, an answer to each, {MAX_MEAN_US:.0} µs", MAX_HELD * 100.0),
    })
}

/// Removes the types from a schema, because the collections use type names of other languages.
fn without_types(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|name, member| name != "type" || member.is_object());
            members.values_mut().for_each(without_types);
        }
        Value::Array(items) => items.iter_mut().for_each(without_types),
        _ => {}
    }
}
