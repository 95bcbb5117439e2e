//! Servers as child processes: they start with a clean environment, their stderr is read and logged, and they end with
//! their process group.
//!
//! The lifecycle of MGP §11 starts and stops servers; this module implements that for processes: `command.rs` describes
//! and starts a child, `handle.rs` stops it, and `unix/` or `other.rs` has the calls of the operating system. The
//! module guarantees:
//!
//! - **Group.** Each child leads a process group of its own. Ending the child ends the group.
//! - **Environment.** Empty, except for variables on an allow-list (see [`ChildCommand`]) and
//!   those that the caller sets.
//! - **Descriptors.** The child inherits only descriptors 0, 1 and 2, which are pipes. On Linux, all other descriptors
//!   are marked close-on-exec between fork and exec, even those that other libraries left inheritable. On other
//!   systems, this covers only descriptors that the standard library opened.
//! - **Stderr** is read continuously and logged with `tracing` (target `mgp::child`) up to a limit ([`StderrLimits`]).
//!   Lines above the limit are counted and dropped, so that a flood neither blocks the child nor fills the memory.
//! - **Shutdown** escalates: close stdin, wait, SIGTERM to the group, wait, SIGKILL to the group.
//! - **Dropping** a [`Child`] kills the group immediately. One thread of this process (`mgp-spawner`) starts and reaps
//!   all children, so that no zombie remains even after the runtime has ended.
//! - **Death of this process**, even by SIGKILL, kills the child on Linux (`PR_SET_PDEATHSIG`). The kernel sends this
//!   signal when the thread that forked ends, so that thread lives as long as the process.
//!
//! Limits: a process that left the group (`setsid`, `setpgid`, double fork into a daemon) is neither signalled nor
//! awaited. The sudden death of this process ends only direct children, not their descendants. Set-uid programs do not
//! get the parent death signal. A program that needs more installs a [`Keeper`], which ends all descendants of a child
//! together with the child.
//!
//! Processes that remain in a child's group after the child ended by itself get SIGTERM and, after a timeout, SIGKILL.
//! Until they have ended, or for 1 s after SIGKILL, the child counts as running and is not reaped, so that no other
//! process can get its process id while signals might still be sent to it.
//!
//! Other Unix systems have no parent death signal, and remaining processes get SIGKILL immediately. On Windows there
//! are no groups, and no SIGTERM stage: a shutdown kills the child and, with `taskkill`, the processes that it started.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::sync::Arc;

pub use self::command::ChildCommand;
pub use self::confine::{Confinement, Ports};
pub use self::handle::Child;
pub use self::keeper::Keeper;
pub use self::pipes::{ChildReader, ChildWriter};
pub use self::program::{PROGRAM_EXTENSIONS, find_program, is_program};
pub use self::search_path::{SkippedFolder, search_path};
pub use self::stderr::StderrLimits;
pub(crate) use self::stderr::readable;

mod command;
mod confine;
mod environment;
mod handle;
mod keeper;
mod pipes;
mod program;
mod search_path;
mod stderr;

#[cfg(not(unix))]
mod other;
#[cfg(not(unix))]
use self::other as imp;
#[cfg(unix)]
mod unix;
pub use self::environment::inherited_env;
#[cfg(unix)]
use self::unix as imp;
#[cfg(unix)]
pub use self::unix::raise_open_files;

/// The exit status of a child.
///
/// Both fields are `None` if the status is unknown: another part of the program reaped the child, or the child did not
/// end after SIGKILL (e.g. because it is blocked in the kernel) and this process stopped waiting for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExitReport {
    /// The exit code, if the child exited.
    pub code: Option<i32>,
    /// The number of the signal that ended the child, if one did.
    pub signal: Option<i32>,
}

/// The reason why a child could not be started.
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
        /// The error that the operating system reported.
        source: io::Error,
    },
    /// The directory in which the program should start does not exist.
    #[error("the folder `{}`, in which the program should start, does not exist", .0.display())]
    NoDirectory(PathBuf),
    /// The thread that starts and reaps children is not running.
    #[error("the thread that starts child processes is not running")]
    Spawner(#[source] io::Error),
    /// The child started, but its pipes could not be used; it was killed.
    #[error("the pipes of the child process are not usable")]
    Pipes(#[source] io::Error),
}

struct Started {
    process: Arc<imp::Process>,
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: ChildStderr,
}

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
