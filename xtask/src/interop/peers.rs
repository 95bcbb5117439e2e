//! The cell of the interop table in which a server and a host that implement older drafts of MGP communicate through
//! our kernel. The server streams a result, its call is cancelled, it sends requests to the host, and it publishes
//! events.

use super::{Cell, Ours, Quadrant, Stage, clients::at_home, pins::PYTHON_1};
use crate::{
    child,
    run::{Context, Failure, Outcome},
};
use serde_json::{Value, json};
use std::{fs, process::Command, time::Duration};

/// The prefix of the name of the cell.
pub(super) const PREFIX: &str = "peers/";

/// The time limit of the conversation, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Returns this cell, as a list with one element.
pub(super) fn cells() -> Vec<Cell> {
    vec![Cell {
        name: format!("{PREFIX}older"),
        quadrant: Quadrant::Between,
        client: "host of an older MGP".to_owned(),
        server: PYTHON_1.shown(),
        mode: "legacy".to_owned(),
        revision: "2025-06-18",
        pins: vec![PYTHON_1],
        run: Box::new(talk),
    }]
}

fn talk(cell: &Cell, stage: &Stage) -> Outcome<String> {
    let places = &stage.places;
    let folder = places.emptied("peers")?;
    let config = format!(
        "[kernel]\npermission_policy = \"auto_approve\"\n\n[[servers]]\nid = \"older\"\ncommand = {}\nargs = [{}]\n\
         [servers.mgp]\ndefault_policy = \"opt-out\"\n\
         risk = {{ stream = \"safe\", hang = \"safe\", delete = \"safe\", push = \"safe\", received = \"safe\" }}\n",
        json!(places.python(PYTHON_1)),
        json!(places.driver("older_server.py")),
    );
    fs::write(folder.join("mgp.toml"), config)?;
    let mut command = Command::new(places.python(PYTHON_1));
    command.arg(places.driver("older_host.py")).arg(stage.program(Ours::Mgp)?);
    command.args(["serve", "--stdio", "--agent", "older", "--standalone", "--config"]);
    command.arg(folder.join("mgp.toml")).arg("--state").arg(folder.join("state"));
    at_home(&mut command, places);
    let errors = places.log(&cell.name, "stderr");
    let ended = child::run(command, "", &errors, TIMEOUT)?;
    if !ended.success {
        return Err(Failure::new(format!("the host failed; see {}", errors.display())));
    }
    judge(&serde_json::from_str(ended.stdout.trim()).context(&ended.stdout)?)
}

/// Checks what the host observed.
fn judge(seen: &Value) -> Outcome<String> {
    let received = seen["received"].as_str().unwrap_or_default();
    let has = |extension: &str| {
        seen["extensions"].as_array().is_some_and(|all| all.contains(&json!(extension)))
    };
    let mut steps = vec![
        ("streamed", seen["streamed"] == "one two three" && seen["result"] == "one two three"),
        ("cancelled", seen["cancelled"]["cancelled"] == true),
        ("the cancellation arrived", received.contains("cancel")),
        (
            "asked back once",
            seen["questions"] == json!(["The server `older` asks:\nDelete 15 files?"]),
        ),
        ("confirmed", seen["confirmed"] == "deleted"),
    ];
    // Check events only if the kernel offers the extension `events`; otherwise it passes no events on.
    if has("events") {
        steps.push(("events", seen["events"].as_u64().is_some_and(|events| events >= 2)));
    }
    let failed: Vec<_> = steps.iter().filter(|(_, ok)| !ok).map(|(name, _)| *name).collect();
    if failed.is_empty() {
        Ok(steps.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))
    } else {
        Err(Failure::new(format!("not {}: {seen}", failed.join(", not "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_needed() {
        let all = json!({
            "extensions": ["events"], "events": 2, "streamed": "one two three", "result": "one two three",
            "cancelled": { "cancelled": true }, "received": "[\"mgp/stream/cancel\"]",
            "questions": ["The server `older` asks:\nDelete 15 files?"], "confirmed": "deleted",
        });
        assert!(judge(&all).is_ok());
        for member in ["events", "streamed", "cancelled", "received", "questions", "confirmed"] {
            let mut less = all.clone();
            less[member] = Value::Null;
            assert!(judge(&less).is_err(), "{member}");
        }
    }
}
