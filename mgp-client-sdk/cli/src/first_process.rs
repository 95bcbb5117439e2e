//! The first process of a container, with the process id 1: starts the kernel as its child, forwards signals to it, and
//! reaps orphans.
//!
//! Orphaned processes become children of the first process, e.g. those that a command of `kubectl exec` leaves behind.
//! A kernel reaps only the children that it has started. As the first process, it would therefore keep orphans as
//! zombies, which use up the process ids of the container.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, exit};
use std::{env, io};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};

use crate::output::print_stderr;
use crate::signals::{Signals, exit_code};

/// If this process is the first one of a container, runs this program again as a child with the same arguments, and
/// exits with the exit code of the child. Otherwise, and if the child cannot be started, returns.
pub(crate) fn run() {
    if !getpid().is_init() {
        return;
    }
    match run_child() {
        Ok(code) => exit(code),
        Err(error) => print_stderr(&format!(
            "mgp: orphans will remain as zombies, because no child process can be started: {error}"
        )),
    }
}

/// Runs this program again as a child, and returns its exit code.
fn run_child() -> io::Result<i32> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Listen for signals before the child is started, so that none is missed.
        let (mut signals, mut quit) = (Signals::new()?, signal(SignalKind::quit())?);
        let mut ends = signal(SignalKind::child())?;
        let child = start_child()?;
        // The kernel knows this process by its name, see `peer/hosts.rs`. The call cannot fail.
        let _ = rustix::thread::set_name(c"mgp-init");
        loop {
            let number = tokio::select! {
                _ = ends.recv() => match reap(child) {
                    Some(status) => return Ok(code_of(status)),
                    None => continue,
                },
                number = signals.next() => number,
                _ = quit.recv() => Signal::QUIT.as_raw(),
            };
            if let Some(signal) = Signal::from_named_raw(number) {
                // Ignore a failure: the child has just ended.
                let _ = kill_process(child, signal);
            }
        }
    })
}

fn start_child() -> io::Result<Pid> {
    let mut arguments = env::args_os();
    // This path names the running executable, even if its file on disk has been replaced since.
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let child = command.args(arguments).spawn()?;
    Ok(Pid::from_child(&child))
}

/// Reaps all processes that have ended. Returns the status of the child if it is one of them.
fn reap(child: Pid) -> Option<WaitStatus> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == child => return Some(status),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Returns the exit code of a process with this status: that of the process, or the one that shells report for a
/// process ended by a signal.
fn code_of(status: WaitStatus) -> i32 {
    let by_signal = || status.terminating_signal().map(exit_code);
    status.exit_status().or_else(by_signal).unwrap_or(1)
}
