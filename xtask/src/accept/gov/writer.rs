//! A process that writes an audit log, and the one that verifies it.

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

/// A folder for one log; it goes with the check.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mgp-gov-{}-{number}", std::process::id()));
        // What an earlier check of the same process number left.
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing depends on it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running `auditlog write`.
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

    /// Its process, input and output, for those who drive them apart.
    pub(super) fn parts(self) -> (Child, ChildStdin, BufReader<ChildStdout>) {
        (self.child, self.input, self.output)
    }

    /// Writes events and waits for all of them to be acknowledged.
    pub(super) fn write(&mut self, from: usize, count: usize) -> Outcome<Vec<u64>> {
        // Less than a pipe holds at a time, so that neither side waits for the other.
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

    /// Ends it as its user would.
    pub(super) fn end(mut self) -> Outcome {
        drop(self.input);
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(Failure::new(format!("the writer: {status}"))) }
    }
}

/// The next acknowledgement; none once the process is gone.
pub(super) fn ack(output: &mut BufReader<ChildStdout>) -> Outcome<Option<u64>> {
    let mut line = String::new();
    // A line that was cut by the end of the process acknowledges nothing.
    if output.read_line(&mut line).is_err() || !line.ends_with('\n') {
        return Ok(None);
    }
    let number = line.trim().strip_prefix("ack ").context(format!("not an ack: {line}"))?;
    Ok(Some(number.parse()?))
}

/// An event that can be found again by its trace.
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

/// Whether a log verifies; else the number it names.
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

/// The files that hold events, in order.
pub(super) fn segments(log: &Path) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(log).context(log.display())? {
        let path = entry?.path();
        let text = if path.is_file() { fs::read(&path)? } else { Vec::new() };
        // Whatever the log is called, its lines name the types of events.
        if text.windows(14).any(|word| word == b"ACCESS_GRANTED") && text.first() == Some(&b'{') {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// How long a writer takes from its start to the first acknowledgement.
pub(super) fn reopening(program: &Path, log: &Path) -> Outcome<Duration> {
    let begin = now();
    let mut writer = Writer::start(program, log)?;
    writer.write(0, 1)?;
    let took = begin.elapsed();
    writer.end()?;
    Ok(took)
}
