//! `mgp completions`: what a shell needs to complete commands.
//!
//! Applies to: both.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::Ended;
use crate::output::say;

/// `mgp completions`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  mgp completions bash > ~/.local/share/bash-completion/completions/mgp"
)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(completions: &Completions) -> Ended {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Cli::command(), "mgp", &mut script);
    say(&String::from_utf8_lossy(&script))
}
