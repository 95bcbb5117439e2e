//! One child process: it is signalled under a lock, and reaped last.
//!
//! See MGP §11. It is safe to signal a process id only until the process is reaped; afterwards another process can get
//! the same id. So this module first detects, without reaping, that the child has ended. Then it ends the other
//! processes of the child's group. Only then it reaps the child, under the lock that is also held for every signal.
//!
//! If a child has a keeper, the keeper sends the signals. The process that this module starts and reaps is then the
//! keeper, which ends when the whole process tree has ended.

use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mgp_types::sync::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};
use rustix::process::{kill_process_group, waitid};
use tokio::sync::watch;

use super::group::has_members;
use super::now;
use crate::child::ExitReport;

/// The command that makes a keeper send SIGTERM to its program.
pub(super) const TERMINATE: u8 = b'T';

/// The maximum time to wait after SIGKILL for the end of all processes of the group. After this time, the leader is
/// reaped even if other processes remain.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

pub(in crate::child) struct Process {
    pid: Pid,
    term_grace: Duration,
    keeper: Option<KeeperHandle>,
    state: Mutex<ProcessState>,
    done: watch::Sender<Option<ExitReport>>,
}

/// The handle of a keeper: its socket, and the process id of the program that it started.
pub(super) struct KeeperHandle {
    /// The socket to the keeper; closing it makes the keeper end all its processes.
    socket: UnixStream,
    program: Pid,
}

/// The next action of the spawner thread for a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The child is running: wait for its end.
    Running,
    /// The child has ended, but other processes of its group have not: check again soon.
    Emptying,
    /// The child has been reaped, after the end of its group or after [`KILL_TIMEOUT`].
    Ended,
}

#[derive(Default)]
struct ProcessState {
    reaped: bool,
    terminated: Option<Instant>,
    killed: Option<Instant>,
}

impl Process {
    pub(super) fn new(pid: Pid, keeper: Option<KeeperHandle>, term_grace: Duration) -> Self {
        Self { pid, term_grace, keeper, state: Mutex::default(), done: watch::Sender::new(None) }
    }

    pub(in crate::child) fn pid(&self) -> u32 {
        let pid = self.keeper.as_ref().map_or(self.pid, |keeper| keeper.program);
        pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub(super) fn raw_pid(&self) -> Pid {
        self.pid
    }

    pub(in crate::child) fn done(&self) -> watch::Receiver<Option<ExitReport>> {
        self.done.subscribe()
    }

    /// Sends SIGTERM to the group; only the first call sends it.
    pub(in crate::child) fn terminate(&self) {
        let mut state = self.state.lock();
        if state.terminated.is_none() && self.signal(&state, Signal::TERM) {
            state.terminated = Some(now());
        }
    }

    /// Sends SIGKILL to the group.
    pub(in crate::child) fn kill(&self) {
        let mut state = self.state.lock();
        if self.signal(&state, Signal::KILL) {
            state.killed.get_or_insert_with(now);
        }
    }

    /// Checks the state of the child; only the spawner thread calls this.
    pub(super) fn step(&self) -> Step {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(self.pid), options) {
            Ok(None) | Err(rustix::io::Errno::INTR) => Step::Running,
            Ok(Some(status)) if self.group_is_empty() => {
                self.reap(report(&status));
                Step::Ended
            }
            Ok(Some(_)) => Step::Emptying,
            // Another part of the program has reaped the child, so its process id might belong to another process now.
            Err(_) => {
                self.state.lock().reaped = true;
                self.done.send_replace(Some(ExitReport::default()));
                Step::Ended
            }
        }
    }

    /// Ends the processes that remain in the group of a dead leader, one stage per call. Returns `true` if the leader
    /// can now be reaped: no other process is left, or the other processes cannot be listed or have not ended after
    /// SIGKILL.
    fn group_is_empty(&self) -> bool {
        let members = has_members(self.pid);
        let (terminated, killed) = {
            let state = self.state.lock();
            (state.terminated, state.killed)
        };
        match (members, killed, terminated) {
            (Some(false) | None, _, _) => true,
            (Some(true), Some(since), _) => since.elapsed() >= KILL_TIMEOUT,
            (Some(true), None, None) => {
                self.terminate();
                false
            }
            (Some(true), None, Some(since)) => {
                if since.elapsed() >= self.term_grace {
                    self.kill();
                }
                false
            }
        }
    }

    fn reap(&self, report: ExitReport) {
        let mut state = self.state.lock();
        // Signals the group once more, because processes might have started since the check, and because some systems
        // cannot list the members of a group.
        self.signal(&state, Signal::KILL);
        let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        state.reaped = true;
        drop(state);
        self.done.send_replace(Some(report));
    }

    /// Signals the group unless the child has been reaped; returns whether the signal was sent.
    fn signal(&self, state: &ProcessState, signal: Signal) -> bool {
        if let Some(keeper) = self.keeper.as_ref().filter(|_| !state.reaped) {
            return keeper.signal(signal);
        }
        // Sending fails only if the group is empty. That cannot be the case here, because even a dead leader is a
        // member of the group until it is reaped.
        !state.reaped && kill_process_group(self.pid, signal).is_ok()
    }
}

impl KeeperHandle {
    #[cfg(target_os = "linux")]
    pub(super) fn new(socket: UnixStream, program: Pid) -> Self {
        Self { socket, program }
    }

    /// Asks the keeper to signal the program; returns whether the keeper could be reached.
    fn signal(&self, signal: Signal) -> bool {
        if signal == Signal::KILL {
            return self.socket.shutdown(Shutdown::Both).is_ok();
        }
        (&self.socket).write_all(&[TERMINATE]).is_ok()
    }
}

fn report(status: &WaitIdStatus) -> ExitReport {
    ExitReport { code: status.exit_status(), signal: status.terminating_signal() }
}
