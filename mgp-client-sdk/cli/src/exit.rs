//! How a command ends: 0 done, 1 refused or failed, 2 wrong usage, 3 no kernel.
//!
//! Applies to: both.

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

/// How a command ended.
pub(crate) type Ended<T = ()> = Result<T, Failure>;

/// Why a command did not do what it should: one line, with the remedy.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    what: String,
    is_taken: bool,
}

impl Failure {
    /// It was refused, or failed.
    pub(crate) fn failed(what: impl fmt::Display) -> Self {
        Self::of(1, what)
    }

    /// It was not asked for as it should be.
    pub(crate) fn usage(what: impl fmt::Display) -> Self {
        Self::of(2, what)
    }

    /// No kernel runs.
    pub(crate) fn no_kernel(what: impl fmt::Display) -> Self {
        Self::of(3, what)
    }

    /// Another kernel has the state folder.
    pub(crate) fn taken(what: impl fmt::Display) -> Self {
        Self { is_taken: true, ..Self::failed(what) }
    }

    pub(crate) fn of(code: u8, what: impl fmt::Display) -> Self {
        Self { code, what: what.to_string(), is_taken: false }
    }

    /// Nobody listens any more: that is no failure, and there is nothing to say.
    pub(crate) fn unheard() -> Self {
        Self::of(0, "nobody listens")
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken
    }

    /// Whether it is that no kernel runs.
    pub(crate) fn is_no_kernel(&self) -> bool {
        self.code == 3
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::failed(error)
    }
}

/// Tells of a command line that was not understood; help and version are no failure.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // Whoever closed our output wants to hear nothing.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}

/// Tells of a failure, and turns it into the exit code.
pub(crate) fn code(ended: Ended) -> ExitCode {
    let Err(failure) = ended else { return ExitCode::SUCCESS };
    if failure.code > 0 {
        let _ = writeln!(std::io::stderr(), "mgp: {}", failure.what);
    }
    ExitCode::from(failure.code)
}
