//! A keeper from inside: starts one program, and ends all that comes of it.
//!
//! MGP §11. Two threads and nothing else: one reaps, one listens to who started us. Nothing here may take memory that
//! lasts: there is a keeper for each server.
//!
//! *Applies to: outbound.*

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid,
    kill_process, kill_process_group, set_child_subreaper, setrlimit, wait, waitid,
};

use super::pre_exec::{inherited, prepare};
use super::process::TERMINATE;
use super::{group, now};

/// The first and the longest pause between two looks at what is being ended.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// What a program that cannot be started ends with, as in a shell.
const NOT_STARTED: u8 = 127;

/// What both threads know.
struct Kept {
    /// The program, as long as its number is ours.
    program: Mutex<Option<Pid>>,
    /// Whether all is to end at once.
    kills: AtomicBool,
}

/// Is a keeper: the number of its wire, how long what is left may take, the program and its arguments.
pub(in crate::child) fn keep(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut number = || arguments.next()?.to_str()?.parse().ok();
    let (wire, grace) = (number().and_then(|wire: u64| inherited(wire.try_into().ok()?)), number());
    let (Some(wire), Some(grace), Some(program)) = (wire, grace, arguments.next()) else {
        return ExitCode::from(2);
    };
    match start(UnixStream::from(wire), program, arguments) {
        Ok((kept, program)) => end(&kept, program, Duration::from_millis(grace)),
        Err(_) => ExitCode::from(NOT_STARTED),
    }
}

/// Starts the program and tells how that went.
fn start(
    mut wire: UnixStream,
    program: OsString,
    arguments: impl Iterator<Item = OsString>,
) -> io::Result<(Arc<Kept>, Pid)> {
    // For those who look at a list of processes; it works without.
    let _ = rustix::thread::set_name(c"mgp-keeper");
    // What loses its parent becomes our child. Without that we still end the program and its group.
    let _ = set_child_subreaper(Some(getpid()));
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    prepare(&mut command, None);
    let started = command.spawn();
    drop(command);
    let told = match &started {
        Ok(program) => [program.id(), 0],
        Err(error) => [0, error.raw_os_error().unwrap_or(0).unsigned_abs()],
    };
    let told: Vec<u8> = told.into_iter().flat_map(u32::to_ne_bytes).collect();
    // Who is gone by now is noticed by the other thread.
    let _ = wire.write_all(&told);
    let program = i32::try_from(started?.id()).ok().and_then(Pid::from_raw);
    let program = program.ok_or(io::ErrorKind::Other)?;
    let kept = Arc::new(Kept { program: Mutex::new(Some(program)), kills: AtomicBool::new(false) });
    let theirs = Arc::clone(&kept);
    let listening = thread::Builder::new().stack_size(32 * 1024).spawn(move || theirs.listen(wire));
    if listening.is_err() {
        kept.kill();
    }
    let_go();
    Ok((kept, program))
}

/// Holds nothing that is not ours: pipes end when the program closes them, folders can be removed.
fn let_go() {
    let null: io::Result<File> = OpenOptions::new().read(true).write(true).open("/dev/null");
    if let Ok(null) = null {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    let _ = rustix::process::chdir("/");
}

/// Waits for the end of the program, then for that of all it left; ends as the program did.
fn end(kept: &Kept, program: Pid, grace: Duration) -> ExitCode {
    let mut ended = None;
    while ended.is_none() {
        // Whoever died stays until it is reaped below, where no signal can meet another process of its number.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        match waitid(WaitId::All, look) {
            Ok(_) => ended = kept.reap(program).1,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    settle(kept, program, grace);
    let Some(ended) = ended else { return ExitCode::FAILURE };
    if let Some(signal) = ended.terminating_signal().and_then(Signal::from_named_raw) {
        // No second core for the same crash.
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        let _ = kill_process(getpid(), signal);
    }
    let code =
        ended.exit_status().or_else(|| ended.terminating_signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Ends what the program left: SIGTERM once, and SIGKILL after the grace time.
fn settle(kept: &Kept, program: Pid, grace: Duration) {
    let (began, mut pause, mut asked) = (now(), PAUSES.0, Vec::new());
    while kept.reap(program).0 {
        let is_late = kept.kills.load(Ordering::Acquire) || began.elapsed() >= grace;
        for child in children() {
            if is_late {
                let _ = kill_process(child, Signal::KILL);
            } else if !asked.contains(&child) {
                asked.push(child);
                let _ = kill_process(child, Signal::TERM);
            }
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// The processes whose parent we are; none is reaped by anybody but the thread that asks.
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

// === impl Kept ===

impl Kept {
    /// Does what it is told until nobody is there to tell.
    fn listen(&self, mut wire: UnixStream) {
        let mut word = [0];
        loop {
            match wire.read(&mut word) {
                Ok(1) if word[0] == TERMINATE => self.signal(Signal::TERM),
                Ok(1) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return self.kill(),
            }
        }
    }

    /// Ends the program and its group now; the other thread ends what is left.
    fn kill(&self) {
        self.kills.store(true, Ordering::Release);
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(program) = *self.lock() {
            let _ = kill_process_group(program, signal);
        }
    }

    /// Reaps all who died; tells whether anybody is left, and how the program ended if it was among them.
    fn reap(&self, program: Pid) -> (bool, Option<WaitStatus>) {
        let mut known = self.lock();
        let mut ended = None;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((who, status))) if who == program => {
                    ended = Some(status);
                    *known = None;
                }
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return (true, ended),
                Err(_) => return (false, ended),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
