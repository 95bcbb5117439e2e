//! Logging of the program: to standard error, or for a detached kernel to files of bounded size.

mod json;

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use mgp_types::sync::Mutex;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::escape::escape_lines;
use crate::{pipe, state_option};

/// The maximum size of a log. A larger log is renamed, e.g. `kernel.log` to `kernel.log.old`, and a new log is started.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The target of the events about lines that a server writes to standard error.
const SERVER_TARGET: &str = "mgp::child";

/// The number of bytes that a pipe accepts without blocking if it polls as writable (`PIPE_BUF` on Linux).
const MAX_PIPE_WRITE: usize = 4096;

/// `true` if this process writes JSON to standard error.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// The form of the log on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of text for each event
    Text,
    /// A line of JSON for each event
    Json,
}

/// Sets the form of the log on standard error: the one of the command line, else the one that `MGP_LOG_FORMAT` names,
/// else text. Returns the reason if the variable names none.
pub(crate) fn set_format(of_command: Option<LogFormat>) -> Result<(), String> {
    let named = std::env::var("MGP_LOG_FORMAT").unwrap_or_default();
    let format = match of_command {
        Some(format) => format,
        None if named.is_empty() => LogFormat::Text,
        None => LogFormat::from_str(&named, false)
            .map_err(|_| format!("`MGP_LOG_FORMAT` is `{named}`; write `text` or `json`"))?,
    };
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
    Ok(())
}

/// Returns whether everything on standard error must be a line of JSON.
pub(crate) fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Writes a message to standard error as a line of JSON.
pub(crate) fn print_json(level: Level, message: &str) {
    // Ignore an error: without standard error, the message has no reader.
    let _ = io::stderr().lock().write_all(json::line(level, message).as_bytes());
}

/// Starts logging to standard error; `MGP_LOG` overrides the level.
pub(crate) fn init_stderr(level: &str) {
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter(level))
        .with_writer(StderrLog)
        // Do not enable colours: without the feature `ansi` of `tracing-subscriber`, this would panic.
        .with_ansi(false)
        .log_internal_errors(false);
    if is_json() {
        log.fmt_fields(json::JsonFields).event_format(json::JsonEvents).init();
    } else {
        log.init();
    }
}

/// Starts logging to `kernel.log` in the state folder, at level `info` or more verbose. The lines of servers are logged
/// to `servers.log`, so that a server that writes much does not displace the lines of the kernel.
pub(crate) fn init_file(folder: &Path, verbose: u8) {
    tracing_subscriber::fmt()
        .with_env_filter(filter(level(verbose.max(1))))
        .with_writer(LogFiles::new(folder, true))
        .with_ansi(false)
        .log_internal_errors(false)
        .init();
}

/// Returns the path of a detached kernel's log file.
pub(crate) fn file(folder: &Path) -> PathBuf {
    folder.join("kernel.log")
}

/// Opens a log for appending; a new file is readable only by its owner.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    pipe::refuse(path)?;
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
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
    filter_with(level, &std::env::var("MGP_LOG").unwrap_or_default())
}

/// Returns the filter of a level and of directives. The directives come last, so that a level among them replaces the
/// first one. Directives without a level, e.g. a misspelled one, which counts as a target, leave the warnings on.
fn filter_with(level: &str, directives: &str) -> EnvFilter {
    EnvFilter::try_new(format!("{level},{directives}")).unwrap_or_else(|_| EnvFilter::new(level))
}

/// The writer of log lines to standard error.
struct StderrLog;

impl<'a> MakeWriter<'a> for StderrLog {
    type Writer = NonBlockingStderr;

    fn make_writer(&'a self) -> NonBlockingStderr {
        NonBlockingStderr { is_verbatim: is_json() }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> NonBlockingStderr {
        NonBlockingStderr { is_verbatim: is_json() || metadata.target() == SERVER_TARGET }
    }
}

/// A writer to standard error that discards text instead of blocking, because a host might never read the pipe.
struct NonBlockingStderr {
    /// `true` for a line that is shown unchanged: one that a server has written, or one of JSON.
    is_verbatim: bool,
}

impl Write for NonBlockingStderr {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        // Hold one lock for both the check and the write: two threads that both saw room for a line could together
        // exceed the room.
        let mut stderr = io::stderr().lock();
        if !is_writable(&stderr) {
            return Ok(text.len());
        }
        let shown = escape_lines(&line(text, self.is_verbatim));
        // The text is lost if the host has closed the pipe. Do not return the error: the logger would panic, because it
        // cannot print the error either.
        let _ = stderr.write_all(cut(&shown).as_bytes());
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a line for the log. Commands of `mgp` in it get the option `--state` of this process, unless it is shown
/// unchanged.
fn line(text: &[u8], is_verbatim: bool) -> Cow<'_, str> {
    match String::from_utf8_lossy(text) {
        line if is_verbatim => line,
        Cow::Borrowed(line) => state_option::add_to(line),
        Cow::Owned(line) => state_option::add_to(&line).into_owned().into(),
    }
}

/// Cuts a line that is too long for one write to a pipe, but keeps its line break, so that the following text begins on
/// a new line.
fn cut(line: &str) -> Cow<'_, str> {
    if line.len() <= MAX_PIPE_WRITE {
        return line.into();
    }
    let end = line.floor_char_boundary(MAX_PIPE_WRITE - 1);
    format!("{}\n", &line[..end]).into()
}

#[cfg(unix)]
fn is_writable(stderr: &io::StderrLock<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let mut descriptors = [PollFd::new(stderr, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Write the text anyway if the device cannot be polled.
    poll(&mut descriptors, Some(&at_once)).is_err() || !descriptors[0].revents().is_empty()
}

#[cfg(not(unix))]
fn is_writable(_: &io::StderrLock<'_>) -> bool {
    true
}

/// The log files of a detached kernel.
struct LogFiles {
    kernel: SharedLog,
    servers: SharedLog,
}

#[derive(Clone)]
struct SharedLog {
    file: Arc<Mutex<RotatingFile>>,
    is_of_server: bool,
}

struct RotatingFile {
    path: PathBuf,
    /// `true` if the standard error of this process is redirected to this log file.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only on Unix is it written to the file"))]
    takes_stderr: bool,
    open: Option<File>,
    written: u64,
}

impl LogFiles {
    fn new(folder: &Path, takes_stderr: bool) -> Self {
        Self {
            kernel: SharedLog::new(file(folder), takes_stderr),
            servers: SharedLog {
                is_of_server: true,
                ..SharedLog::new(folder.join("servers.log"), false)
            },
        }
    }
}

impl<'a> MakeWriter<'a> for LogFiles {
    type Writer = SharedLog;

    fn make_writer(&'a self) -> SharedLog {
        self.kernel.clone()
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> SharedLog {
        let is_of_server = metadata.target() == SERVER_TARGET;
        if is_of_server { self.servers.clone() } else { self.kernel.clone() }
    }
}

impl SharedLog {
    fn new(path: PathBuf, takes_stderr: bool) -> Self {
        let file = RotatingFile { path, takes_stderr, open: None, written: 0 };
        Self { file: Arc::new(Mutex::new(file)), is_of_server: false }
    }
}

impl RotatingFile {
    fn open(&mut self) -> io::Result<&mut File> {
        if self.open.is_some() && self.written >= MAX_FILE_BYTES {
            self.open = None;
            fs::rename(&self.path, self.path.with_extension("log.old"))?;
        }
        if self.open.is_none() {
            let file = open_private(&self.path)?;
            self.written = file.metadata()?.len();
            // Redirect standard error to the log file, because some output does not pass through this logger, e.g. the
            // message of a panic.
            #[cfg(unix)]
            if self.takes_stderr {
                let _ = rustix::stdio::dup2_stderr(&file);
            }
            self.open = Some(file);
        }
        self.open.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        self.open()?.write_all(text)?;
        self.written = self.written.saturating_add(text.len() as u64);
        Ok(())
    }
}

impl Write for SharedLog {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        // The text is lost while the disk is full. Do not return the error, for the same reason as in
        // `NonBlockingStderr`.
        let _ = self.file.lock().append(line(text, self.is_of_server).as_bytes());
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_server_do_not_displace_those_of_the_kernel() {
        let folder = mgp_testkit::temp_dir();
        let logs = LogFiles::new(folder.path(), false);
        let subscriber = tracing_subscriber::fmt().with_writer(logs).with_ansi(false).finish();
        let long = "z".repeat(8 * 1024);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("a line of the kernel");
            for _ in 0..1200 {
                tracing::info!(target: SERVER_TARGET, "{long}");
            }
        });
        let kernel = fs::read_to_string(file(folder.path())).unwrap();
        assert!(kernel.contains("a line of the kernel"), "{kernel}");
        assert_eq!(kernel.lines().count(), 1);
        let size = |name: &str| fs::metadata(folder.path().join(name)).unwrap().len();
        assert!(size("servers.log") <= MAX_FILE_BYTES + 16 * 1024);
        assert!(size("servers.log.old") <= MAX_FILE_BYTES + 16 * 1024);
    }

    #[test]
    fn directives_without_a_level_for_all_targets_keep_the_usual_level() {
        for (directives, expected) in [
            ("", "warn"),
            ("error", "error"),
            ("verbose", "warn"),
            ("mgp=inf", "warn"),
            ("mgp=debug", "warn"),
        ] {
            let filter = filter_with("warn", directives).to_string();
            let levels: Vec<&str> = filter.split(',').filter(|one| !one.contains('=')).collect();
            assert_eq!(levels, [expected], "{directives}: {filter}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_for_a_pipe_still_ends_with_a_line_break() {
        let long = "é".repeat(MAX_PIPE_WRITE) + "\n";
        let cut = cut(&long);
        assert_eq!(cut.lines().count(), 1);
        assert!(cut.ends_with("é\n") && cut.len() <= MAX_PIPE_WRITE, "{}", cut.len());
    }

    #[test]
    fn a_line_that_cannot_be_written_is_lost_and_later_ones_are_written() {
        let folder = mgp_testkit::temp_dir();
        let path = file(folder.path());
        fs::create_dir(&path).unwrap();
        let mut log = LogFiles::new(folder.path(), false).kernel;
        log.write_all(b"a folder is in the place of the file\n").unwrap();
        fs::remove_dir(&path).unwrap();
        log.write_all(b"later\n").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "later\n");
    }
}
