//! The test cases (rows) of the corpus about faulty child processes: our own client starts such a child and reports
//! what the client observes.
//!
//! The client is the program `child_probe` of `xtask/programs`. `child_probe KIND [BYTES]` starts a child, sends it
//! pings, and prints one line: `{"ok": BOOL, "rss_growth": N, "why": "…", "replies": [MESSAGE…]}`. Only `ok` is always
//! present. `replies` contains only the replies that the client accepted, not all replies that the child wrote.

use super::{
    Report,
    input::Input,
    judge::{Line, judge, read, show},
    row::Row,
};
use crate::{
    child,
    run::{Failure, Outcome, release_program, target},
};
use serde_json::Value;
use std::{process::Command, time::Duration};

/// The time limit of the client for one row of the corpus.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Builds the client and its faulty child, and returns the client's path.
pub(super) fn prober() -> Outcome<String> {
    release_program("child_zoo")?;
    Ok(release_program("child_probe")?.to_string_lossy().into_owned())
}

/// Runs the client for a row, and judges its report.
pub(super) fn run(row: &Row, prober: Option<&str>) -> Report {
    Report::of(|report| attempt(row, prober, report))
}

fn attempt(row: &Row, prober: Option<&str>, report: &mut Report) -> Result<(), String> {
    let Some(Input::Child { kind, settings }) = &row.input else {
        return Err("not about a child".to_owned());
    };
    let prober = prober.ok_or("child_probe was not built")?;
    let seen = probe(prober, kind, settings)?;
    report.alive = seen["ok"] == true;
    if !report.alive {
        return Err(seen["why"].as_str().unwrap_or("the client did not survive").to_owned());
    }
    let growth = seen["rss_growth"].as_u64();
    if let Some((bound, growth)) = row.expect.growth().zip(growth)
        && growth > bound
    {
        return Err(format!("grew by {growth} bytes, at most {bound} expected"));
    }
    let Some(messages) = seen["replies"].as_array() else { return Ok(()) };
    let mut replies = Vec::new();
    for message in messages {
        match read(&message.to_string()) {
            Line::Replies(more) => replies.extend(more),
            _ => return Err(format!("not a reply: {message}")),
        }
    }
    report.got = replies.iter().take(3).map(show).collect();
    judge(&row.expect, None, row.expect.max_replies.unwrap_or(1), &replies)
}

/// Runs the client with a time limit, and parses the last line of its output.
fn probe(prober: &str, kind: &str, settings: &Value) -> Result<Value, String> {
    let mut command = Command::new(prober);
    command.arg(kind).args(settings["bytes"].as_u64().map(|bytes| bytes.to_string()));
    let fail = |failure: Failure| format!("child_probe: {failure}");
    let errors = target().map_err(fail)?.join(format!("scratch/child_probe-{kind}.stderr"));
    let ended = child::run(command, "", &errors, TIMEOUT).map_err(fail)?;
    let last = ended.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(last).map_err(|error| format!("child_probe: {error}"))
}
