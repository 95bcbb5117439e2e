//! Starts the program `auditlog`, which writes and verifies audit logs, for the two parts of `gov.audit`.

use crate::run::{Context, Failure, Outcome, now};
use serde_json::json;
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// A temporary folder for one log; it is removed on drop.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mgp-gov-{}-{number}", std::process::id()));
        // Removes the folder of an earlier process that had the same process id.
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

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

    /// Writes `count` events and waits for their acknowledgements; returns the acknowledged sequence numbers.
    pub(super) fn write(&mut self, from: usize, count: usize) -> Outcome<Vec<u64>> {
        // Waits after every 64 events: their acknowledgements fit into the pipe, so the writer and this check cannot
        // block each other.
        let mut acks = Vec::new();
        for number in from..from + count {
            self.input.write_all(event(&number.to_string()).as_bytes())?;
            if number % 64 == 63 || number + 1 == from + count {
                self.input.flush()?;
                while acks.len() < number + 1 - from {
                    acks.push(ack(&mut self.output)?.context("the writer ended")?);
                }
            }
        }
        Ok(acks)
    }

    /// Closes the input and waits until the writer exits successfully.
    pub(super) fn end(mut self) -> Outcome {
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

/// Runs `auditlog verify`; the inner error is the sequence number of the bad record, if the verifier printed one.
pub(super) fn verify(program: &Path, log: &Path) -> Outcome<Result<(), Option<u64>>> {
    let output = Command::new(program).arg("verify").arg(log).stderr(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(Ok(()));
    }
    if output.status.code() != Some(1) {
        return Err(Failure::new(format!("verify ended with {}", output.status)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.split(|c: char| !c.is_ascii_digit()).find(|word| !word.is_empty());
    Ok(Err(number.and_then(|number| number.parse().ok())))
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
    writer.write(0, 1)?;
    let took = begin.elapsed();
    writer.end()?;
    Ok(took)
}
