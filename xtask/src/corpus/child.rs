//! Rows about a child that misbehaves: our own client drives it, and says what it saw.
//!
//! The client is the example `child_probe` of mgp-transport.
//! `child_probe KIND [BYTES]` starts such a child, makes one call with id 1, and prints one line:
//! `{"ok": BOOL, "rss_growth": N, "why": "…", "replies": [MESSAGE…]}`.
//! `replies`, if it is there, are those its caller received, not those the child wrote.

use super::{
    Report,
    input::Input,
    judge::{Line, judge, read, show},
    row::Row,
};
use crate::run::{Outcome, Program, now, root, target};
use serde_json::Value;
use std::{
    io::Read,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// How long the client may take for one row.
const WHOLE: Duration = Duration::from_mins(1);

/// Builds the client, if it is there.
pub(super) fn prober() -> Outcome<Option<String>> {
    if !root().join("mgp-transport/examples/child_probe.rs").is_file() {
        return Ok(None);
    }
    // All examples: the client starts another of them as its child.
    let build = ["build", "--quiet", "--release", "-p", "mgp-transport", "--examples"];
    Program::cargo(&build).run()?;
    Ok(Some(target()?.join("release/examples/child_probe").to_string_lossy().into_owned()))
}

/// Runs a row through the client and judges what it saw.
pub(super) fn run(row: &Row, prober: Option<&str>) -> Report {
    let mut report = Report::default();
    match attempt(row, prober, &mut report) {
        Ok(()) => report.ok = true,
        Err(why) => report.why = why,
    }
    report
}

fn attempt(row: &Row, prober: Option<&str>, report: &mut Report) -> Result<(), String> {
    let Some(Input::Child { kind, settings }) = &row.input else {
        return Err("not about a child".to_owned());
    };
    let prober = prober.ok_or("not run: the example child_probe of mgp-transport is missing")?;
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

/// Runs the client with a time limit and reads its last line.
fn probe(prober: &str, kind: &str, settings: &Value) -> Result<Value, String> {
    let fail = |error: std::io::Error| format!("child_probe: {error}");
    let mut child = Command::new(prober)
        .arg(kind)
        .args(settings["bytes"].as_u64().map(|bytes| bytes.to_string()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(fail)?;
    let mut stdout = child.stdout.take().ok_or("child_probe: no output")?;
    let reader = thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.read_to_string(&mut text);
        text
    });
    let end = now() + WHOLE;
    let status = loop {
        match child.try_wait().map_err(fail)? {
            Some(status) => break status,
            None if now() > end => {
                // It may leave at this very moment.
                let _ = child.kill();
                let _ = child.wait();
                return Err("child_probe did not end in time".to_owned());
            }
            None => thread::sleep(Duration::from_millis(10)),
        }
    };
    let text = reader.join().map_err(|_| "child_probe: its output was lost")?;
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).map_err(|error| format!("child_probe: {status}: {error}"))
}
