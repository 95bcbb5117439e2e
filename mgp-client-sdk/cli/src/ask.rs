//! Asks the person at the terminal.
//!
//! Applies to: both.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::cli::Global;
use crate::exit::Ended;

/// Asks a question that is answered by yes or no; none where nobody can be asked. Silence is no.
///
/// With `--json` what the question is about is not shown to a person, so nobody is asked.
pub(crate) fn yes(global: &Global, question: &str) -> Ended<Option<bool>> {
    if global.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(None);
    }
    write!(io::stderr(), "{question} [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    let answer = answer.trim().to_ascii_lowercase();
    Ok(Some(matches!(answer.as_str(), "y" | "yes")))
}
