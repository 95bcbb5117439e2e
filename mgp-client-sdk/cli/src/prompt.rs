//! Questions to the person at the terminal.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::args::Global;
use crate::exit::CliResult;
use crate::output::escape_hidden;

/// Asks a yes-or-no question whose default is no; returns `None` without a terminal.
///
/// Also returns `None` with `--json`, because then the subject of the question is not shown.
pub(crate) fn confirm(global: &Global, question: &str) -> CliResult<Option<bool>> {
    if global.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(None);
    }
    write!(io::stderr(), "{} [y/N] ", escape_hidden(question))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    let answer = answer.trim().to_ascii_lowercase();
    Ok(Some(matches!(answer.as_str(), "y" | "yes")))
}
