//! Starts the shared kernel as a detached process that logs to `kernel.log`, and waits until it serves.

#[cfg(windows)]
mod handles;

use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::exit::{CliResult, Failure};
use crate::log;
use crate::output::print_stderr;

/// The maximum time that a newly started kernel takes until it serves.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The flags that make Windows start a process without a window, in a process group of its own.
#[cfg(windows)]
const HIDDEN_GROUP: u32 = 0x0800_0000 | 0x0000_0200;

/// Explains to a person who runs `mgp serve --stdio` in a terminal why it prints nothing.
pub(crate) fn print_stdin_hint() {
    if io::stdin().is_terminal() {
        print_stderr(
            "mgp: waiting for messages on standard input; hosts start this command by themselves, see `mgp connect --help`",
        );
    }
}

/// The one line of JSON that a detached kernel writes to its standard output.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct StartReport {
    /// The exit code of a kernel that failed to start; `None` if it serves.
    code: Option<u8>,
    error: String,
    /// `true` if another kernel uses the state folder.
    taken: bool,
}

/// Reports to the launching process that this kernel serves.
pub(crate) fn report_served() {
    write_report(&StartReport::default());
}

/// Reports to the launching process why this kernel does not serve.
pub(crate) fn report_failure(failure: &Failure) {
    write_report(&StartReport {
        code: Some(failure.code()),
        error: failure.to_string(),
        taken: failure.is_state_in_use(),
    });
}

fn write_report(report: &StartReport) {
    let mut line = serde_json::to_vec(report).unwrap_or_default();
    line.push(b'\n');
    let mut output = io::stdout();
    // Ignore an error: if the launching process has ended, the kernel continues without it.
    let _ = output.write_all(&line).and_then(|()| output.flush());
    #[cfg(unix)]
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LaunchOutcome {
    Serving,
    /// Another kernel uses the state folder: it will serve soon, or is about to stop.
    StateInUse,
}

/// Returns the path of this program. If an upgrade has replaced the running file, Linux appends ` (deleted)` to its
/// path; without that suffix, the path names the new file.
fn current_program() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let replaced = program.to_str().and_then(|name| name.strip_suffix(" (deleted)"));
    Ok(replaced.map(PathBuf::from).unwrap_or(program))
}

/// Creates the failure for a program of this kernel that cannot be started, e.g. because it was removed.
fn not_started(program: &Path, error: &io::Error) -> Failure {
    let fix = match error.kind() {
        io::ErrorKind::NotFound => "; install mgp there again",
        _ => "",
    };
    let program = program.display();
    Failure::failed(format!("the kernel cannot be started: `{program}`: {error}{fix}"))
}

/// Starts a kernel in a process of its own, and waits up to [`START_TIMEOUT`] until the kernel reports that it serves.
pub(crate) fn start_detached(
    folder: &Path,
    config: Option<&Path>,
    linger: Option<u64>,
) -> CliResult<LaunchOutcome> {
    let log = log::file(folder);
    let output = log::open_private(&log).map_err(|error| {
        let log = log.display();
        Failure::failed(format!("the kernel cannot be started: `{log}`: {error}"))
    })?;
    let program = current_program()?;
    let mut command = Command::new(&program);
    // Separate the kernel from the host's console; otherwise it would end when that console is closed. On Unix, the
    // kernel itself begins a new session.
    #[cfg(windows)]
    {
        std::os::windows::process::CommandExt::creation_flags(&mut command, HIDDEN_GROUP);
        handles::keep_standard_handles();
    }
    command.arg("__kernel").arg("--state").arg(folder);
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    if let Some(linger) = linger {
        command.arg("--linger").arg(linger.to_string());
    }
    let mut child = command
        // `${cmd:…}` and servers that agents register have the kernel's own `PATH`, and a host with a window often has
        // a short one.
        .env("PATH", mgp_transport::search_path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(output)
        .spawn()
        .map_err(|error| not_started(&program, &error))?;
    let report = child.stdout.take().map_or(Ok(None), |output| read_report(output, START_TIMEOUT));
    let log = log.display();
    let outcome = match report {
        Ok(Some(StartReport { code: None, .. })) => Ok(LaunchOutcome::Serving),
        Ok(Some(StartReport { taken: true, .. })) => Ok(LaunchOutcome::StateInUse),
        Ok(Some(StartReport { code: Some(code), error, .. })) => {
            Err(Failure::with_code(code, error))
        }
        Ok(None) => {
            let status = child.wait()?;
            Err(Failure::failed(format!(
                "the kernel ended before it served ({status}); see `{log}`"
            )))
        }
        Err(_) => Err(Failure::failed(format!(
            "the kernel takes more than {} to start; see `{log}`",
            mgp_types::duration_words(START_TIMEOUT)
        ))),
    };
    // Wait for the kernel's process in a thread; otherwise a kernel that ends before this process would stay in the
    // list of processes.
    thread::spawn(move || child.wait());
    outcome
}

/// Reads the report of a kernel, ignoring other lines; `None` if the kernel ends without a report. Fails if the time
/// limit passes before the kernel reports or ends.
fn read_report(
    output: ChildStdout,
    timeout: Duration,
) -> Result<Option<StartReport>, RecvTimeoutError> {
    let (sender, receiver) = mpsc::channel();
    // If the kernel never reports, the thread waits until the kernel or this process ends.
    thread::spawn(move || {
        let mut lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
        sender.send(lines.find_map(|line| serde_json::from_slice(&line).ok()))
    });
    receiver.recv_timeout(timeout)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_kernel_without_a_report_is_not_a_slow_start() {
        let read = |script: &str, timeout| {
            let mut command = Command::new("/bin/sh");
            let mut child = command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
            let report = read_report(child.stdout.take().unwrap(), timeout);
            child.kill().unwrap();
            child.wait().unwrap();
            report
        };
        assert!(read("exit 1", Duration::from_mins(1)).unwrap().is_none());
        assert!(read("exec sleep 60", Duration::from_millis(10)).is_err());
        let noted = r#"echo note; echo '{"code":null,"error":"","taken":true}'"#;
        assert!(read(noted, Duration::from_mins(1)).unwrap().unwrap().taken);
    }
}
