//! Processes on systems without process groups: only the child itself is ended.
//!
//! See MGP §11; for Windows. One thread per child checks every 20 ms whether the child has ended. Windows has no
//! equivalent of SIGTERM, so a shutdown closes stdin, waits, and then kills the child.

use std::io;
use std::process::{Child as StdChild, Command};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mgp_types::sync::Mutex;
use tokio::sync::watch;

use super::{ChildError, ExitReport, Started};

const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) struct Process {
    pid: u32,
    child: Mutex<StdChild>,
    done: watch::Sender<Option<ExitReport>>,
}

pub(super) fn start(mut command: Command, _term_grace: Duration) -> Result<Started, ChildError> {
    let program = command.get_program().to_owned();
    let failed = |source| ChildError::Start { program: program.clone(), source };
    let mut child = command.spawn().map_err(failed)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let process = Arc::new(Process {
        pid: child.id(),
        child: Mutex::new(child),
        done: watch::Sender::new(None),
    });
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        process.kill();
        return Err(ChildError::Pipes(io::ErrorKind::BrokenPipe.into()));
    };
    let watched = Arc::clone(&process);
    let thread = thread::Builder::new().name("mgp-wait".to_owned()).spawn(move || watched.watch());
    if let Err(error) = thread {
        process.kill();
        return Err(ChildError::Spawner(error));
    }
    Ok(Started { process, stdin, stdout, stderr })
}

// === impl Process ===

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
        // Killing fails only if the child has already ended.
        let _ = self.child.lock().kill();
    }

    fn watch(&self) {
        loop {
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
