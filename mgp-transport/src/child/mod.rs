//! Servers as child processes: started with a clean environment, stderr drained, ended with their group.
//!
//! MGP §11 (lifecycle) starts and stops servers; this module does it for processes.
//! Guarantees:
//!
//! - **Group.** Each child leads a process group of its own. Ending the child ends the group.
//! - **Environment.** Empty, but for an allow-list (see [`ChildCommand`]) and the caller's additions.
//! - **Descriptors.** The child inherits only descriptors 0, 1 and 2, which are pipes. On Linux all others are
//!   marked close-on-exec between fork and exec, even those that other libraries left inheritable; on other
//!   systems this covers only descriptors that the standard library opened.
//! - **Stderr** is read without pause and logged with `tracing` (target `mgp::child`) up to a
//!   [`StderrLimits`]; lines beyond it are counted and dropped, so a flood neither blocks the child
//!   nor fills memory.
//! - **Shutdown** escalates: close stdin, wait, SIGTERM to the group, wait, SIGKILL to the group.
//! - **Dropping** a [`Child`] kills the group at once. One thread of this process (`mgp-spawner`)
//!   starts and reaps all children, so no zombie remains even when the runtime is gone.
//! - **Death of this process**, SIGKILL included, kills the child on Linux (`PR_SET_PDEATHSIG`). The signal
//!   is tied to the thread that forked, which is why that thread lives as long as the process.
//!
//! Limits: a process that left the group (`setsid`, `setpgid`, double fork into a
//! daemon) is neither signalled nor awaited, and the sudden death of this process reaches direct children only,
//! not grandchildren. Set-uid programs drop the parent death signal. A program that needs more
//! installs a [`Keeper`], which ends all descendants of a child with it.
//!
//! Processes that a child leaves in its group when it ends by itself get SIGTERM, then the
//! grace time, then SIGKILL. Until they are gone the child counts as running and is not reaped,
//! so that its process id cannot be given to another process while it may still be signalled.
//!
//! Other Unix systems have no parent death signal, and left-over processes get SIGKILL at
//! once. On Windows there are no groups: only the child is ended, without a SIGTERM stage.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::sync::Arc;

pub use self::command::ChildCommand;
pub use self::confine::Confinement;
pub use self::handle::Child;
pub use self::keeper::Keeper;
pub use self::pipes::{ChildReader, ChildWriter};
pub use self::stderr::StderrLimits;

mod command;
mod confine;
mod environment;
mod handle;
mod keeper;
mod pipes;
mod stderr;

#[cfg(not(unix))]
mod other;
#[cfg(not(unix))]
use self::other as imp;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
use self::unix as imp;

/// Exit status of a child.
///
/// Both fields are `None` if it is unknown: another part of the program reaped the child, or the child outlived
/// SIGKILL (as a process stuck in the kernel does) and was given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExitReport {
    /// The exit code, if the child exited.
    pub code: Option<i32>,
    /// The number of the signal that ended the child, if one did.
    pub signal: Option<i32>,
}

/// Reason why a child could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// The caller is not inside a tokio runtime.
    #[error("a child process can only be started inside a tokio runtime")]
    NoRuntime,
    /// The program was not found or did not start.
    #[error("program {program:?} did not start")]
    Start {
        /// The program as the caller named it.
        program: OsString,
        /// The system's error.
        source: io::Error,
    },
    /// The thread that starts and reaps children is not running.
    #[error("the thread that starts child processes is not running")]
    Spawner(#[source] io::Error),
    /// The child started, but its pipes could not be used; it was killed.
    #[error("the pipes of the child process are not usable")]
    Pipes(#[source] io::Error),
}

/// A child that the platform module started.
struct Started {
    process: Arc<imp::Process>,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: ChildStderr,
}

// === impl ExitReport ===

impl ExitReport {
    /// Returns whether the child exited with code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }
}

impl fmt::Display for ExitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with code {code}"),
            (None, Some(signal)) => write!(f, "was ended by signal {signal}"),
            (None, None) => f.write_str("ended in an unknown way"),
        }
    }
}
