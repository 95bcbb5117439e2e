//! The keeper process: starts one program, and ends all its descendants.
//!
//! See MGP §11. A keeper has two threads: one reaps processes, the other reads commands from the process that started
//! the keeper. There is one keeper per server, so its memory use must be small.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mgp_types::Backoff;
use mgp_types::sync::Mutex;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid,
    kill_process, kill_process_group, set_child_subreaper, setrlimit, wait, waitid,
};

use super::pre_exec::{inherited, prepare};
use super::process::TERMINATE;
use super::{group, now};

const POLL_DELAYS: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(50));

/// The exit code for a program that cannot be started; shells return the same code.
const EXIT_NOT_STARTED: u8 = 127;

/// State shared by the two threads.
struct KeeperState {
    /// The program's process id; `None` once the program is reaped, because the id can then belong to another process.
    program: Mutex<Option<Pid>>,
    /// If set, all remaining processes are killed without waiting for the grace time.
    is_killing: AtomicBool,
}

/// Runs as a keeper; the arguments are the descriptor of its socket, the grace time in ms, the program and its arguments.
pub(in crate::child) fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut number = || arguments.next()?.to_str()?.parse().ok();
    let (socket, grace) =
        (number().and_then(|socket: u64| inherited(socket.try_into().ok()?)), number());
    let (Some(socket), Some(grace), Some(program)) = (socket, grace, arguments.next()) else {
        return ExitCode::from(2);
    };
    match start(UnixStream::from(socket), program, arguments) {
        Ok((state, program)) => wait_and_end(&state, program, Duration::from_millis(grace)),
        Err(_) => ExitCode::from(EXIT_NOT_STARTED),
    }
}

/// Starts the program and reports the result to the parent.
fn start(
    mut socket: UnixStream,
    program: OsString,
    arguments: impl Iterator<Item = OsString>,
) -> io::Result<(Arc<KeeperState>, Pid)> {
    // The name is only shown in lists of processes, so a failure is ignored.
    let _ = rustix::thread::set_name(c"mgp-keeper");
    // Makes this process the parent of orphaned descendants. A failure is ignored, because the program and its group
    // are ended nevertheless.
    let _ = set_child_subreaper(Some(getpid()));
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    prepare(&mut command, None);
    let started = command.spawn();
    drop(command);
    let report = match &started {
        Ok(program) => [program.id(), 0],
        Err(error) => [0, error.raw_os_error().unwrap_or(0).unsigned_abs()],
    };
    let report: Vec<u8> = report.into_iter().flat_map(u32::to_ne_bytes).collect();
    // A failure is ignored: if the parent process has died, `listen`, which is started below, reads the end of the socket
    // and ends the program.
    let _ = socket.write_all(&report);
    let program = i32::try_from(started?.id()).ok().and_then(Pid::from_raw);
    let program = program.ok_or(io::ErrorKind::Other)?;
    let state = Arc::new(KeeperState {
        program: Mutex::new(Some(program)),
        is_killing: AtomicBool::new(false),
    });
    let listener = Arc::clone(&state);
    let listening =
        thread::Builder::new().stack_size(32 * 1024).spawn(move || listener.listen(socket));
    if listening.is_err() {
        state.kill();
    }
    release_inherited();
    Ok((state, program))
}

/// Releases the standard descriptors and the working directory; otherwise the child's pipes would stay open and its
/// directory would stay in use.
fn release_inherited() {
    let null: io::Result<File> = OpenOptions::new().read(true).write(true).open("/dev/null");
    if let Ok(null) = null {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    let _ = rustix::process::chdir("/");
}

/// Waits until the program has ended, then ends its descendants. Returns the program's exit code, or ends this process
/// by the same signal that ended the program.
fn wait_and_end(state: &KeeperState, program: Pid, grace: Duration) -> ExitCode {
    let mut ended = None;
    while ended.is_none() {
        // A dead process is reaped later under the lock, so that no signal can reach another process with the same id.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        match waitid(WaitId::All, options) {
            Ok(_) => ended = state.reap(program).1,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    end_descendants(state, program, grace);
    let Some(ended) = ended else { return ExitCode::FAILURE };
    if let Some(signal) = ended.terminating_signal().and_then(Signal::from_named_raw) {
        // Prevents a second core file: the crashed program has already written one.
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        let _ = kill_process(getpid(), signal);
    }
    let code =
        ended.exit_status().or_else(|| ended.terminating_signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Ends the remaining descendants: sends SIGTERM once to each, and SIGKILL after the grace time.
fn end_descendants(state: &KeeperState, program: Pid, grace: Duration) {
    let (began, mut delays, mut terminated) = (now(), POLL_DELAYS, Vec::new());
    while state.reap(program).0 {
        let is_late = state.is_killing.load(Ordering::Acquire) || began.elapsed() >= grace;
        for child in children() {
            if is_late {
                let _ = kill_process(child, Signal::KILL);
            } else if !terminated.contains(&child) {
                terminated.push(child);
                let _ = kill_process(child, Signal::TERM);
            }
        }
        thread::sleep(delays.next_delay());
    }
}

/// Returns the child processes of the keeper. Only the calling thread reaps them, so their ids remain valid.
fn children() -> Vec<Pid> {
    let us = getpid().as_raw_nonzero().get();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let ours = processes.flatten().filter_map(|entry| {
        let number: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read(entry.path().join("stat")).ok()?;
        (group::parent(&stat)? == us).then(|| Pid::from_raw(number))?
    });
    ours.collect()
}

impl KeeperState {
    /// Executes the commands of the parent process until the parent ends; then kills the program.
    fn listen(&self, mut socket: UnixStream) {
        let mut command = [0];
        loop {
            match socket.read(&mut command) {
                Ok(1) if command[0] == TERMINATE => self.signal(Signal::TERM),
                Ok(1) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return self.kill(),
            }
        }
    }

    /// Kills the program and its group immediately; the other thread ends the remaining descendants.
    fn kill(&self) {
        self.is_killing.store(true, Ordering::Release);
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(program) = *self.program.lock() {
            let _ = kill_process_group(program, signal);
        }
    }

    /// Reaps all dead children. Returns whether any child is left, and the program's status if the program was among
    /// the dead.
    fn reap(&self, program: Pid) -> (bool, Option<WaitStatus>) {
        let mut running = self.program.lock();
        let mut ended = None;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == program => {
                    ended = Some(status);
                    *running = None;
                }
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return (true, ended),
                Err(_) => return (false, ended),
            }
        }
    }
}
