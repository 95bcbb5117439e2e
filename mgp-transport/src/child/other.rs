//! Processes on systems without process groups.
//!
//! See MGP §11; for Windows. One thread per child checks every 20 ms whether the child has ended. Windows has no
//! equivalent of SIGTERM, so a shutdown closes stdin, waits, and then kills the child with the processes that it
//! started.

use std::io;
#[cfg(windows)]
use std::process::Stdio;
use std::process::{Child as StdChild, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mgp_types::sync::Mutex;
use tokio::sync::watch;

use super::{ChildError, ExitReport, Started};

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The time that `taskkill` has to find the descendants of a process before the process itself is ended.
const KILL_DELAY: Duration = Duration::from_millis(500);

/// The flag that makes Windows start a process without a window.
#[cfg(windows)]
const NO_WINDOW: u32 = 0x0800_0000;

pub(super) struct Process {
    pid: u32,
    child: Mutex<StdChild>,
    /// `true` if the child must end; the thread that waits for the child then ends it.
    is_unwanted: AtomicBool,
    done: watch::Sender<Option<ExitReport>>,
}

pub(super) fn start(mut command: Command, _term_grace: Duration) -> Result<Started, ChildError> {
    // If this process has no window, Windows would open a window for each server, so forbid that.
    #[cfg(windows)]
    std::os::windows::process::CommandExt::creation_flags(&mut command, NO_WINDOW);
    let program = command.get_program().to_owned();
    let failed = |source| ChildError::Start { program: program.clone(), source };
    let mut child = command.spawn().map_err(failed)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let process = Arc::new(Process {
        pid: child.id(),
        child: Mutex::new(child),
        is_unwanted: AtomicBool::new(false),
        done: watch::Sender::new(None),
    });
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        process.end();
        return Err(ChildError::Pipes(io::ErrorKind::BrokenPipe.into()));
    };
    let watched = Arc::clone(&process);
    let thread = thread::Builder::new().name("mgp-wait".to_owned()).spawn(move || watched.watch());
    if let Err(error) = thread {
        process.end();
        return Err(ChildError::Spawner(error));
    }
    Ok(Started { process, stdin, stdout, stderr })
}

impl Process {
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn done(&self) -> watch::Receiver<Option<ExitReport>> {
        self.done.subscribe()
    }

    pub(super) fn terminate(&self) {
        self.kill();
    }

    pub(super) fn kill(&self) {
        if self.done.borrow().is_some() {
            return;
        }
        // `taskkill` continues even if this process ends. It finds the descendants only while the child exists, so the
        // thread that waits for the child ends the child a moment later.
        end_with_descendants(self.pid);
        self.is_unwanted.store(true, Ordering::Release);
    }

    fn end(&self) {
        // Ignore the error: the call fails only if the child has already ended.
        let _ = self.child.lock().kill();
    }

    fn watch(&self) {
        loop {
            if self.is_unwanted.swap(false, Ordering::AcqRel) {
                thread::sleep(KILL_DELAY);
                self.end();
            }
            let ended = self.child.lock().try_wait();
            match ended {
                Ok(None) => thread::sleep(POLL_INTERVAL),
                Ok(Some(status)) => {
                    let report = ExitReport { code: status.code(), signal: None };
                    self.done.send_replace(Some(report));
                    return;
                }
                Err(_) => {
                    self.done.send_replace(Some(ExitReport::default()));
                    return;
                }
            }
        }
    }
}

/// Starts `taskkill`, which ends a process and its descendants, e.g. a server that `npx.cmd` started; Windows only.
fn end_with_descendants(pid: u32) {
    #[cfg(windows)]
    {
        let mut command = Command::new("taskkill");
        command.args(["/T", "/F", "/PID", &pid.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        std::os::windows::process::CommandExt::creation_flags(&mut command, NO_WINDOW);
        // If this fails, the thread that waits for the process still ends the process, but not its descendants.
        let _ = command.spawn();
    }
    #[cfg(not(windows))]
    let _ = pid;
}
