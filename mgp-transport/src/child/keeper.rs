//! Keepers. A keeper is a small process between this one and a child; it ends the child's whole process tree.
//!
//! MGP §11. The death of this process, SIGKILL included, must leave no descendant of a child behind, and a dead
//! process cannot clean up. So a program may start its children under a keeper: the program itself, run again
//! with a marker as its first argument. All descendants of the child, also those that left its group (`setsid`,
//! a double fork), belong to the keeper. They are ended when the child has ended, when this process asks for
//! it, or when this process is gone.
//!
//! Linux only, where a process can be the reaper of all its descendants; elsewhere children are started directly.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

use super::confine;

/// The installed keeper.
static KEEPER: OnceLock<Keeper> = OnceLock::new();

/// Program that is run as the keeper of each child.
///
/// ```no_run
/// use mgp_transport::Keeper;
///
/// fn main() -> std::process::ExitCode {
///     // First of all, because a keeper should stay small.
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
    /// Uses this program, run again with `marker` as its first argument; its `main` must call [`run`](Self::run) first.
    pub fn this_program(marker: impl Into<OsString>) -> Self {
        // Names the executable that is running, even if its file was replaced on disk since.
        Self { program: PathBuf::from("/proc/self/exe"), marker: marker.into() }
    }

    /// Starts all further children of this process under this keeper. Has no effect if a keeper is installed already.
    pub fn install(self) {
        let _ = KEEPER.set(self);
    }

    /// Returns whether children are started under a keeper.
    #[must_use]
    pub fn is_installed() -> bool {
        cfg!(target_os = "linux") && KEEPER.get().is_some()
    }

    /// Runs as a keeper, if this process was started as one, until all processes it keeps have ended; or confines this
    /// process and becomes the program of a [confined](super::Confinement) child.
    ///
    /// Returns `None` if this process was not started as a keeper.
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
