//! Logging of the program: to standard error, or for a detached kernel to a file of bounded size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgp_types::sync::Mutex;
use tracing_subscriber::EnvFilter;

use crate::output::escape_lines;

/// The size at which `kernel.log` is renamed to `kernel.log.old` and a new log is started.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The number of bytes that a pipe accepts without blocking if it polls as writable (`PIPE_BUF` on Linux).
const MAX_PIPE_WRITE: usize = 4096;

/// Starts logging to standard error; `MGP_LOG` overrides the level.
pub(crate) fn init_stderr(level: &str) {
    tracing_subscriber::fmt()
        .with_env_filter(filter(level))
        .with_writer(|| NonBlockingStderr)
        // The `ansi` feature of `tracing-subscriber` is off; enabling colours would panic.
        .with_ansi(false)
        .init();
}

/// Starts logging to `kernel.log` in the state folder, at level `info` or more verbose.
pub(crate) fn init_file(folder: &Path, verbose: u8) {
    let file = RotatingFile { path: file(folder), open: None, written: 0 };
    let log = SharedLog(Arc::new(Mutex::new(file)));
    tracing_subscriber::fmt()
        .with_env_filter(filter(level(verbose.max(1))))
        .with_writer(move || log.clone())
        .with_ansi(false)
        .init();
}

/// Returns the path of a detached kernel's log file.
pub(crate) fn file(folder: &Path) -> PathBuf {
    folder.join("kernel.log")
}

/// Returns the level that `-v` sets.
pub(crate) fn level(verbose: u8) -> &'static str {
    match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    }
}

fn filter(level: &str) -> EnvFilter {
    EnvFilter::try_from_env("MGP_LOG").unwrap_or_else(|_| EnvFilter::new(level))
}

/// Writes to standard error, and discards text instead of blocking, because a host might never read the pipe.
struct NonBlockingStderr;

impl Write for NonBlockingStderr {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        // One lock for the check and the write: two threads that both saw room for a line could together exceed it.
        let mut stderr = io::stderr().lock();
        if !is_writable(&stderr) {
            return Ok(text.len());
        }
        let shown = escape_lines(&String::from_utf8_lossy(text));
        let shown = &shown.as_bytes()[..shown.len().min(MAX_PIPE_WRITE)];
        stderr.write_all(shown).map(|()| text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
fn is_writable(stderr: &io::StderrLock<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let mut descriptors = [PollFd::new(stderr, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // If a device cannot be polled, the text is written anyway.
    poll(&mut descriptors, Some(&at_once)).is_err() || !descriptors[0].revents().is_empty()
}

#[cfg(not(unix))]
fn is_writable(_: &io::StderrLock<'_>) -> bool {
    true
}

#[derive(Clone)]
struct SharedLog(Arc<Mutex<RotatingFile>>);

struct RotatingFile {
    path: PathBuf,
    open: Option<File>,
    written: u64,
}

impl RotatingFile {
    fn open(&mut self) -> io::Result<&mut File> {
        if self.open.is_some() && self.written >= MAX_FILE_BYTES {
            self.open = None;
            fs::rename(&self.path, self.path.with_extension("log.old"))?;
        }
        if self.open.is_none() {
            let mut options = OpenOptions::new();
            options.append(true).create(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let file = options.open(&self.path)?;
            self.written = file.metadata()?.len();
            // Output that does not pass through this logger, e.g. the message of a panic, is written to the same file.
            #[cfg(unix)]
            let _ = rustix::stdio::dup2_stderr(&file);
            self.open = Some(file);
        }
        self.open.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Write for SharedLog {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock();
        let written = log.open()?.write(text)?;
        log.written = log.written.saturating_add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
