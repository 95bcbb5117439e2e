//! Writes an audit log to a directory from lines of JSON, or verifies one (MGP §6).
//!
//! - `auditlog write DIR` reads one event of §6.3 per line of standard input, and prints `ack SEQ` once it is durable.
//! - `auditlog verify DIR` prints `ok N`, or `bad SEQ: why` for the first record that has been changed.
//!
//! The head of the log, which identifies its last record, is saved in a database in the same directory. This detects
//! changes to the log files only. An attacker who can change the database too remains undetected, unless the database
//! is stored elsewhere.

use std::io::{self, BufRead as _, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use mgp_security::{AuditLog, BadRecord, LogConfig, LogError, verify};
use mgp_types::mgp::AuditEvent;
use mgp_types::service::AuditFuture;
use mgp_types::store::{Store, StoreError};
use tokio::sync::mpsc;

/// The name of the log: the beginning of its file names, and the key of its head in the database.
const NAME: &str = "audit";

/// The maximum number of events that wait for their acknowledgement. At this number, the program stops reading input.
const WAITING: usize = 4096;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", dir] => write(dir.as_ref()).await,
        ["verify", dir] => check(dir.as_ref()).await,
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

/// Writes an event for each line of standard input, until it ends.
async fn write(dir: &Path) -> Result<ExitCode, Failure> {
    let store = store::open(dir).await?;
    let kept = store.clone().map(|store| -> Arc<dyn Store> { Arc::new(store) });
    let log = AuditLog::open(LogConfig::new(dir).name(NAME), kept).await?;
    let (waiting, mut appended) = mpsc::channel(WAITING);
    let appending = log.clone();
    // A separate thread reads the input, because reading blocks. It appends each line without waiting for its
    // acknowledgement, so that the log can write many lines together.
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
    drop(log);
    store::close(dir, store).await?;
    Ok(ExitCode::SUCCESS)
}

fn append(log: &AuditLog, line: &str) -> Result<Option<AuditFuture<u64>>, Failure> {
    if line.trim().is_empty() {
        return Ok(None);
    }
    let event: AuditEvent = serde_json::from_str(line)?;
    Ok(Some(log.append(&event)))
}

/// Verifies the whole log against its saved head.
async fn check(dir: &Path) -> Result<ExitCode, Failure> {
    let checked = match store::head(dir).await {
        Ok(Some(head)) => verify(dir, NAME, &head),
        Ok(None) => Err(BadRecord::no_head().into()),
        Err(error) => Err(error),
    };
    let (line, code) = match checked {
        Ok(records) => (format!("ok {records}"), ExitCode::SUCCESS),
        Err(LogError::BadRecord(bad)) => {
            (format!("bad {}: {}", bad.seq, bad.why), ExitCode::FAILURE)
        }
        Err(LogError::Lost { seq, .. }) => (format!("bad {seq}: it is missing"), ExitCode::FAILURE),
        Err(LogError::Store(StoreError::Unreadable(why))) => {
            (format!("bad 0: {why}"), ExitCode::FAILURE)
        }
        Err(error) => return Err(error.into()),
    };
    writeln!(io::stdout(), "{line}")?;
    Ok(code)
}

/// The database with the head of the log, in the directory of the log.
mod store {
    use std::fs;
    use std::io;
    use std::path::Path;

    use mgp_security::{LogError, LogHead};
    use mgp_types::store::{Db, StoreError};

    const DATABASE: &str = "store.db";

    /// The name of the file with a checksum of the database. The file is written when the database is closed. It
    /// detects damage in the database's free space, which is about half of the database. A process that was killed
    /// leaves no checksum; then only the head is checked.
    const SUM: &str = "store.sum";

    pub(super) async fn open(dir: &Path) -> Result<Option<Db>, super::Failure> {
        if !dir.exists() {
            fs::create_dir_all(dir)?;
        }
        if fs::read_dir(dir)?.next().is_none() {
            private(dir)?;
        }
        match fs::remove_file(dir.join(SUM)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(Some(Db::open(dir.join(DATABASE)).await?)),
        }
    }

    pub(super) async fn close(dir: &Path, db: Option<Db>) -> io::Result<()> {
        if let Some(db) = db {
            db.close().await;
        }
        fs::write(dir.join(SUM), sum(dir)?)
    }

    pub(super) async fn head(dir: &Path) -> Result<Option<LogHead>, LogError> {
        let path = dir.join(DATABASE);
        if !path.exists() {
            return Ok(None);
        }
        let unreadable = |why: String| StoreError::Unreadable(why);
        let read = |error: io::Error| unreadable(error.to_string());
        if let Ok(kept) = fs::read(dir.join(SUM))
            && kept != sum(dir).map_err(read)?
        {
            return Err(unreadable(format!("`{}` was changed", path.display())).into());
        }
        let db = Db::open(path).await?;
        let head = LogHead::in_store(&db, super::NAME).await;
        db.close().await;
        head
    }

    fn sum(dir: &Path) -> io::Result<Vec<u8>> {
        let hash = blake3::hash(&fs::read(dir.join(DATABASE))?);
        Ok(format!("{hash}\n").into_bytes())
    }

    #[cfg(unix)]
    fn private(dir: &Path) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
    }

    #[cfg(not(unix))]
    fn private(_: &Path) -> io::Result<()> {
        Ok(())
    }
}

fn complain(error: &Failure) {
    // Ignores errors, because standard error may be closed.
    let _ = writeln!(io::stderr(), "error {error}");
}
