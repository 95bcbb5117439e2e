//! Keepers: a small process between us and a child, which ends the child's whole tree when we are gone.
//!
//! MGP §11. Our own death, SIGKILL included, must leave nothing behind, and we cannot see to that ourselves. So a program
//! may have its children started under a keeper: the program itself, run again with one word as its first argument.
//! Whatever the child starts, also what left its group (`setsid`, a double fork), belongs to the keeper and ends with it:
//! when the child has ended, when we want it to, or when we are gone.
//!
//! Linux only, where a process can be the reaper of all that descends from it; elsewhere children are started as always.
//!
//! *Applies to: outbound.*

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

/// What is run as a keeper.
static KEEPER: OnceLock<Keeper> = OnceLock::new();

/// The program that is run as the keeper of each child.
///
/// ```no_run
/// use mgp_transport::Keeper;
///
/// fn main() -> std::process::ExitCode {
///     // Before all else: a keeper is to be small.
///     if let Some(ended) = Keeper::run("__keeper") {
///         return ended;
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
    word: OsString,
}

impl Keeper {
    /// This program, run again with a word as its first argument; its `main` has to [`run`](Self::run) a keeper then.
    pub fn this_program(word: impl Into<OsString>) -> Self {
        // The very file that runs, even if another one has taken its place by now.
        Self { program: PathBuf::from("/proc/self/exe"), word: word.into() }
    }

    /// Has all children that this process starts from now on started under it; the first one installed stays.
    pub fn install(self) {
        let _ = KEEPER.set(self);
    }

    /// Whether children are started under one.
    #[must_use]
    pub fn is_installed() -> bool {
        cfg!(target_os = "linux") && KEEPER.get().is_some()
    }

    /// Is a keeper, if this process was started as one, until all it keeps is gone.
    ///
    /// `None` says that this process is something else.
    #[must_use]
    pub fn run(word: &str) -> Option<ExitCode> {
        let mut arguments = std::env::args_os().skip(1);
        if arguments.next()? != word {
            return None;
        }
        #[cfg(target_os = "linux")]
        return Some(super::imp::keep(arguments));
        #[cfg(not(target_os = "linux"))]
        return Some(ExitCode::from(2));
    }

    /// The one that is installed, where there can be one.
    #[cfg(unix)]
    pub(super) fn installed() -> Option<&'static Self> {
        if cfg!(target_os = "linux") { KEEPER.get() } else { None }
    }

    #[cfg(unix)]
    pub(super) fn program(&self) -> (&PathBuf, &OsString) {
        (&self.program, &self.word)
    }
}
