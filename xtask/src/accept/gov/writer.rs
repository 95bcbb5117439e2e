//! Starts the program `auditlog`, which writes and verifies audit logs, for `gov.audit`.

use crate::run::{Context, Failure, Outcome, now};
use serde_json::json;
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

/// A running process `auditlog write`.
pub(super) struct Writer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Writer {
    pub(super) fn start(program: &Path, log: &Path) -> Outcome<Self> {
        let mut child = Command::new(program)
            .arg("write")
            .arg(log)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("its input")?;
        let output = BufReader::new(child.stdout.take().context("its output")?);
        Ok(Self { child, input, output })
    }

    /// Returns the process with its input and output.
    pub(super) fn parts(self) -> (Child, ChildStdin, BufReader<ChildStdout>) {
        (self.child, self.input, self.output)
    }

    /// Writes an event and waits for its acknowledgement.
    fn write(&mut self) -> Outcome {
        self.input.write_all(event("0").as_bytes())?;
        ack(&mut self.output)?.context("the writer ended").map(drop)
    }

    /// Closes the input and waits until the writer exits successfully.
    fn end(mut self) -> Outcome {
        drop(self.input);
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(Failure::new(format!("the writer: {status}"))) }
    }
}

/// Returns the sequence number of the next acknowledged event; `None` once the writer has ended.
pub(super) fn ack(output: &mut BufReader<ChildStdout>) -> Outcome<Option<u64>> {
    let mut line = String::new();
    // An incomplete last line acknowledges nothing.
    if output.read_line(&mut line).is_err() || !line.ends_with('\n') {
        return Ok(None);
    }
    let number = line.trim().strip_prefix("ack ").context(format!("not an ack: {line}"))?;
    Ok(Some(number.parse()?))
}

/// Returns an event as a line of JSON; its trace id distinguishes it from other events.
pub(super) fn event(trace: &str) -> String {
    let event = json!({
        "timestamp": "2026-03-01T12:00:00.000Z",
        "trace_id": trace,
        "event_type": "ACCESS_GRANTED",
        "actor": {"type": "user", "id": "ann"},
        "target": {"server_id": "files", "tool_name": "read"},
        "result": "SUCCESS",
        "details": {"justification": "a check", "expires_at": null},
    });
    format!("{event}\n")
}

/// Runs `auditlog verify`, and returns whether the log is sound.
pub(super) fn is_sound(program: &Path, log: &Path) -> Outcome<bool> {
    let status = Command::new(program).arg("verify").arg(log).stdout(Stdio::null()).status()?;
    match status.code() {
        Some(code @ (0 | 1)) => Ok(code == 0),
        _ => Err(Failure::new(format!("verify ended with {status}"))),
    }
}

/// Returns the files of a log that contain events, in order.
pub(super) fn segments(log: &Path) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(log).context(log.display())? {
        let path = entry?.path();
        let text = if path.is_file() { fs::read(&path)? } else { Vec::new() };
        // Recognises the files by their contents, so that this check does not depend on file names.
        if text.windows(14).any(|word| word == b"ACCESS_GRANTED") && text.first() == Some(&b'{') {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Starts a writer on an existing log; returns the time until its first acknowledgement.
pub(super) fn reopening(program: &Path, log: &Path) -> Outcome<Duration> {
    let begin = now();
    let mut writer = Writer::start(program, log)?;
    writer.write()?;
    let took = begin.elapsed();
    writer.end()?;
    Ok(took)
}
