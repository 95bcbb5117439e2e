//! Keepers. A keeper is a small process between this process and a child; it ends the child's whole process tree.
//!
//! See MGP §11. If this process dies, even by SIGKILL, the descendants of its children must end too, but a dead process
//! cannot end them. Therefore a program can start its children under a keeper: the same program, started again with a
//! marker as its first argument. The keeper becomes the parent of all orphaned descendants of the child, including
//! those that left its group (`setsid`, a double fork). It ends them when the child has ended, when this process
//! requests it, or when this process has died.
//!
//! Linux only, where a process can adopt and reap all its descendants; on other systems, children are started directly.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

use super::confine;

static KEEPER: OnceLock<Keeper> = OnceLock::new();

/// The program that is started as the keeper of each child.
///
/// ```no_run
/// use mgp_transport::Keeper;
///
/// fn main() -> std::process::ExitCode {
///     // Call this before anything else, because a keeper should use little memory.
///     if let Some(exit_code) = Keeper::run("__keeper") {
///         return exit_code;
///     }
///     Keeper::this_program("__keeper").install();
///     // … from now on each child has a keeper …
///     std::process::ExitCode::SUCCESS
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use = "children have no keeper until it is installed"]
pub struct Keeper {
    program: PathBuf,
    marker: OsString,
}

impl Keeper {
    /// Uses this program as the keeper, started again with `marker` as its first argument. Its `main` must call
    /// [`run`](Self::run) first.
    pub fn this_program(marker: impl Into<OsString>) -> Self {
        // This path names the running executable, even if its file on disk has been replaced since.
        Self { program: PathBuf::from("/proc/self/exe"), marker: marker.into() }
    }

    /// Makes this process start all further children under this keeper. Has no effect if a keeper is already installed.
    pub fn install(self) {
        let _ = KEEPER.set(self);
    }

    /// Returns whether children are started under a keeper.
    #[must_use]
    pub fn is_installed() -> bool {
        Self::installed().is_some()
    }

    /// If this process was started as a keeper, runs until all processes that it manages have ended. If it was started
    /// to be [confined](super::Confinement), gives up its rights and executes the child's program.
    ///
    /// Returns `None` if this process was started for neither purpose.
    #[must_use]
    pub fn run(marker: &str) -> Option<ExitCode> {
        let mut arguments = std::env::args_os().skip(1).peekable();
        if arguments.next()? != marker {
            return None;
        }
        if arguments.next_if(|next| next == confine::MARKER).is_some() {
            return Some(confine::run(arguments));
        }
        #[cfg(target_os = "linux")]
        return Some(super::imp::run(arguments));
        #[cfg(not(target_os = "linux"))]
        return Some(ExitCode::from(2));
    }

    pub(super) fn installed() -> Option<&'static Self> {
        if cfg!(target_os = "linux") { KEEPER.get() } else { None }
    }

    pub(super) fn program(&self) -> (&PathBuf, &OsString) {
        (&self.program, &self.marker)
    }
}
