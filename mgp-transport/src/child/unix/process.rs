//! One child: signalled under a lock, reaped last.
//!
//! MGP §11. A process id may be signalled only until the process is reaped; afterwards another process may get
//! the id. So we first find out that the child has ended, without reaping it. Then we end the other processes of its
//! group, and only then reap the child, under the lock that every signal takes.
//!
//! If a child has a keeper, the keeper signals it. The process that we start and reap is then the keeper, which ends
//! when the whole process tree has ended.

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

/// Command to a keeper: send SIGTERM to the program.
pub(super) const TERMINATE: u8 = b'T';

/// Time to wait after SIGKILL until no process of the group is left. After it, the leader is reaped even if others are
/// left.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

pub(in crate::child) struct Process {
    pid: Pid,
    term_grace: Duration,
    keeper: Option<KeeperHandle>,
    state: Mutex<ProcessState>,
    done: watch::Sender<Option<ExitReport>>,
}

/// Handle of a keeper: its socket, and the process id of the program it started.
pub(super) struct KeeperHandle {
    /// Socket to the keeper; closing it makes the keeper end all its processes.
    socket: UnixStream,
    program: Pid,
}

/// Next action of the spawner thread for a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The child runs: wait for its end.
    Running,
    /// The child has ended, but other processes of its group have not: check again soon.
    Emptying,
    /// The child and its group have ended, and the child is reaped.
    Ended,
}

#[derive(Default)]
struct ProcessState {
    reaped: bool,
    terminated: Option<Instant>,
    killed: Option<Instant>,
}

// === impl Process ===

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

    /// Sends SIGTERM to the group, once.
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

    /// Checks the child; called by the spawner thread only.
    pub(super) fn step(&self) -> Step {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(self.pid), options) {
            Ok(None) | Err(rustix::io::Errno::INTR) => Step::Running,
            Ok(Some(status)) if self.group_is_empty() => {
                self.reap(report(&status));
                Step::Ended
            }
            Ok(Some(_)) => Step::Emptying,
            // Another part of the program has reaped it, so the process id is no longer ours.
            Err(_) => {
                self.state.lock().reaped = true;
                self.done.send_replace(Some(ExitReport::default()));
                Step::Ended
            }
        }
    }

    /// Ends the processes that a dead leader left behind, one stage per call; returns whether none is left.
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
        // Signal the group once more, for processes that were started since the check, and for systems where the
        // members of a group cannot be listed.
        self.signal(&state, Signal::KILL);
        let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        state.reaped = true;
        drop(state);
        self.done.send_replace(Some(report));
    }

    /// Signals the group unless the child is reaped; returns whether the signal was sent.
    fn signal(&self, state: &ProcessState, signal: Signal) -> bool {
        if let Some(keeper) = self.keeper.as_ref().filter(|_| !state.reaped) {
            return keeper.signal(signal);
        }
        // The only other failure is an empty group, and a zombie leader still counts as a member.
        !state.reaped && kill_process_group(self.pid, signal).is_ok()
    }
}

// === impl KeeperHandle ===

impl KeeperHandle {
    pub(super) fn new(socket: UnixStream, program: Pid) -> Self {
        Self { socket, program }
    }

    /// Asks the keeper to signal the program; returns whether the keeper is there.
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
