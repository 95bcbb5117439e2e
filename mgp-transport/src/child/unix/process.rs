//! One child: signalled under a lock, reaped last.
//!
//! MGP §11. A number may be signalled only while it is ours. So the child is first seen to be dead
//! without being reaped, then its group is emptied, and only then it is reaped, under the lock
//! that every signal takes.
//!
//! A child under a keeper is signalled by its keeper: the process that we start and reap is the keeper, which ends when
//! the whole tree has.
//!
//! *Applies to: outbound.*

use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};
use rustix::process::{kill_process_group, waitid};
use tokio::sync::watch;

use super::group::has_members;
use super::now;
use crate::child::ExitReport;

/// What tells a keeper to end its program gently.
pub(super) const TERMINATE: u8 = b'T';

/// How long SIGKILL may take to empty a group before its leader is reaped all the same.
const KILL_TAKES: Duration = Duration::from_secs(1);

pub(in crate::child) struct Process {
    pid: Pid,
    term_grace: Duration,
    kept: Option<Kept>,
    state: Mutex<State>,
    done: watch::Sender<Option<ExitReport>>,
}

/// The child of a keeper.
pub(super) struct Kept {
    /// The way to the keeper, which ends all when it is closed.
    wire: UnixStream,
    program: Pid,
}

/// What the spawner thread is to do about a child next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The child runs: wait for its end.
    Runs,
    /// The child has ended and its group has not: come again soon.
    Settles,
    /// All is over: forget it.
    Over,
}

#[derive(Default)]
struct State {
    reaped: bool,
    terminated: Option<Instant>,
    killed: Option<Instant>,
}

// === impl Process ===

impl Process {
    pub(super) fn new(pid: Pid, kept: Option<Kept>, term_grace: Duration) -> Self {
        Self {
            pid,
            term_grace,
            kept,
            state: Mutex::new(State::default()),
            done: watch::Sender::new(None),
        }
    }

    pub(in crate::child) fn pid(&self) -> u32 {
        let pid = self.kept.as_ref().map_or(self.pid, |kept| kept.program);
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
        let mut state = self.lock();
        if state.terminated.is_none() && self.signal(&state, Signal::TERM) {
            state.terminated = Some(now());
        }
    }

    /// Sends SIGKILL to the group.
    pub(in crate::child) fn kill(&self) {
        let mut state = self.lock();
        if self.signal(&state, Signal::KILL) {
            state.killed.get_or_insert_with(now);
        }
    }

    /// Looks after the child; called by the spawner thread alone.
    pub(super) fn step(&self) -> Step {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(self.pid), look) {
            Ok(None) | Err(rustix::io::Errno::INTR) => Step::Runs,
            Ok(Some(status)) if self.group_is_empty() => {
                self.reap(report(&status));
                Step::Over
            }
            Ok(Some(_)) => Step::Settles,
            // Somebody else has reaped it, so the number is no longer ours.
            Err(_) => {
                self.lock().reaped = true;
                self.done.send_replace(Some(ExitReport::default()));
                Step::Over
            }
        }
    }

    /// Ends what an ended leader left behind, a stage at a call.
    fn group_is_empty(&self) -> bool {
        let members = has_members(self.pid);
        let (terminated, killed) = {
            let state = self.lock();
            (state.terminated, state.killed)
        };
        match (members, killed, terminated) {
            (Some(false) | None, _, _) => true,
            (Some(true), Some(since), _) => since.elapsed() >= KILL_TAKES,
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
        let mut state = self.lock();
        // Whoever was born while we looked, and everybody where we cannot look.
        self.signal(&state, Signal::KILL);
        let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        state.reaped = true;
        drop(state);
        self.done.send_replace(Some(report));
    }

    /// Signals the group while its number is ours; tells whether it was.
    fn signal(&self, state: &State, signal: Signal) -> bool {
        if let Some(kept) = self.kept.as_ref().filter(|_| !state.reaped) {
            return kept.signal(signal);
        }
        // The only other failure is an empty group, and a zombie leader still counts as a member.
        !state.reaped && kill_process_group(self.pid, signal).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Kept ===

impl Kept {
    pub(super) fn new(wire: UnixStream, program: Pid) -> Self {
        Self { wire, program }
    }

    /// Has the keeper do it; tells whether it heard.
    fn signal(&self, signal: Signal) -> bool {
        if signal == Signal::KILL {
            return self.wire.shutdown(Shutdown::Both).is_ok();
        }
        (&self.wire).write_all(&[TERMINATE]).is_ok()
    }
}

fn report(status: &WaitIdStatus) -> ExitReport {
    ExitReport { code: status.exit_status(), signal: status.terminating_signal() }
}
