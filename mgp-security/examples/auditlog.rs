//! An audit log in a directory: written from lines of JSON, and verified (MGP §6).
//!
//! `auditlog write DIR` reads one event of §6.3 a line and prints `ack SEQ` once it is kept.
//! `auditlog verify DIR` prints `ok N`, or `bad SEQ: why` for the first record that is not what was written.
//!
//! Applies to: both.

use std::io::{self, BufRead as _, Write};
use std::path::Path;
use std::process::ExitCode;

use mgp_security::{AuditLog, Bad, Head, LogConfig, LogError, verify};
use mgp_types::mgp::AuditEvent;
use mgp_types::service::Audited;
use tokio::sync::mpsc;

/// The log's name, under which its files and its head stand.
const NAME: &str = "audit";

/// How many events may wait for their acknowledgement; then no more lines are read.
const WAITING: usize = 4096;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", dir] => write(dir.as_ref()).await,
        ["verify", dir] => check(dir.as_ref()),
        _ => Err("usage: auditlog write DIR, or auditlog verify DIR".into()),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Writes an event for each line of standard input.
async fn write(dir: &Path) -> Result<ExitCode, Failure> {
    let log = AuditLog::open(LogConfig::new(dir).name(NAME), None).await?;
    let (waiting, mut appended) = mpsc::channel(WAITING);
    let appending = log.clone();
    // Reading lines blocks; what was read is handed over at once, so that many are written together.
    let reader = std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            match line.map_err(Failure::from).and_then(|line| append(&appending, &line)) {
                Ok(Some(answer)) => {
                    if waiting.blocking_send(answer).is_err() {
                        return;
                    }
                }
                Ok(None) => {}
                Err(error) => complain(&error),
            }
        }
    });
    let mut out = io::BufWriter::new(io::stdout().lock());
    while let Some(answer) = appended.recv().await {
        match answer.await {
            Ok(seq) => writeln!(out, "ack {seq}")?,
            Err(error) => complain(&error.into()),
        }
        if appended.is_empty() {
            out.flush()?;
        }
    }
    out.flush()?;
    reader.join().map_err(|_| "reading failed")?;
    log.flush().await?;
    Ok(ExitCode::SUCCESS)
}

fn append(log: &AuditLog, line: &str) -> Result<Option<Audited<u64>>, Failure> {
    if line.trim().is_empty() {
        return Ok(None);
    }
    let event: AuditEvent = serde_json::from_str(line)?;
    Ok(Some(log.append(&event)))
}

/// Reads the whole log.
fn check(dir: &Path) -> Result<ExitCode, Failure> {
    let checked = match Head::beside(dir, NAME) {
        Ok(Some(head)) => verify(dir, NAME, &head),
        Ok(None) => Err(Bad::no_head().into()),
        Err(error) => Err(error),
    };
    let (said, code) = match checked {
        Ok(records) => (format!("ok {records}"), ExitCode::SUCCESS),
        Err(LogError::Bad(bad)) => (format!("bad {}: {}", bad.seq, bad.why), ExitCode::FAILURE),
        Err(error) => return Err(error.into()),
    };
    writeln!(io::stdout(), "{said}")?;
    Ok(code)
}

fn complain(error: &Failure) {
    // Where nobody listens there is nobody to tell.
    let _ = writeln!(io::stderr(), "error {error}");
}
