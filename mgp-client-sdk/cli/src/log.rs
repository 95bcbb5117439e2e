//! The log: to standard error, or for a detached kernel to a file with a bound; warnings only unless more is wanted.
//!
//! Applies to: both.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::EnvFilter;

use crate::cli::Cli;

/// The longest log of a detached kernel; then it becomes `kernel.log.old`, in place of the one before, and a new one begins.
const FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Begins to log; `MGP_LOG` says more precisely than the options what.
pub(crate) fn begin(cli: &Cli) {
    let filter = filter(cli.global.verbose);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Aside)
        // Colours are left out of the build: to ask for them is a panic.
        .with_ansi(false)
        .init();
}

/// Begins to log into the file of a state folder.
pub(crate) fn begin_in(folder: &Path, cli: &Cli) {
    // What a kernel does that nobody watches is worth a line.
    let filter = filter(cli.global.verbose.max(1));
    let kept = Kept(Arc::new(Mutex::new(Bounded { path: file(folder), open: None, written: 0 })));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || kept.clone())
        .with_ansi(false)
        .init();
}

/// Where a detached kernel logs.
pub(crate) fn file(folder: &Path) -> PathBuf {
    folder.join("kernel.log")
}

fn filter(verbose: u8) -> EnvFilter {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    EnvFilter::try_from_env("MGP_LOG").unwrap_or_else(|_| EnvFilter::new(level))
}

/// Standard error. A host that started the kernel may never read it: what it does not take at once is left out.
struct Aside;

/// How much a pipe takes at once where it says that it takes something.
const PIECE: usize = 4096;

impl Write for Aside {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        // Two lines at once would need more room than each was told of.
        let mut stderr = io::stderr().lock();
        if !takes(&stderr) {
            return Ok(text.len());
        }
        stderr.write(&text[..text.len().min(PIECE)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether it takes something without making us wait.
#[cfg(unix)]
fn takes(stderr: &io::StderrLock<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let mut asked = [PollFd::new(stderr, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Where nobody can tell, as of some devices, it is tried.
    poll(&mut asked, Some(&at_once)).is_err() || !asked[0].revents().is_empty()
}

#[cfg(not(unix))]
fn takes(_: &io::StderrLock<'_>) -> bool {
    true
}

#[derive(Clone)]
struct Kept(Arc<Mutex<Bounded>>);

/// A file that begins anew when it is long.
struct Bounded {
    path: PathBuf,
    open: Option<File>,
    written: u64,
}

impl Bounded {
    fn open(&mut self) -> io::Result<&mut File> {
        if self.open.is_some() && self.written >= FILE_BYTES {
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
            // What is written past us, as the words of a panic, belongs into the same file.
            #[cfg(unix)]
            let _ = rustix::stdio::dup2_stderr(&file);
            self.open = Some(file);
        }
        self.open.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Write for Kept {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = kept.open()?.write(text)?;
        kept.written = kept.written.saturating_add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
