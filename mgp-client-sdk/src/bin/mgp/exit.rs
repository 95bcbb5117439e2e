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
}

impl Failure {
    /// It was refused, or failed.
    pub(crate) fn failed(what: impl fmt::Display) -> Self {
        Self { code: 1, what: what.to_string() }
    }

    /// It was not asked for as it should be.
    pub(crate) fn usage(what: impl fmt::Display) -> Self {
        Self { code: 2, what: what.to_string() }
    }

    /// No kernel runs.
    pub(crate) fn no_kernel(what: impl fmt::Display) -> Self {
        Self { code: 3, what: what.to_string() }
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
    let _ = writeln!(std::io::stderr(), "mgp: {}", failure.what);
    ExitCode::from(failure.code)
}
