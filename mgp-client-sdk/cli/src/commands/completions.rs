//! The command `mgp completions`: prints completion scripts for shells.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::CliResult;
use crate::output::write_stdout;

/// `mgp completions`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  mgp completions bash > ~/.local/share/bash-completion/completions/mgp"
)]
pub(crate) struct Completions {
    /// Shell
    shell: Shell,
}

pub(crate) fn run(completions: &Completions, command: &mut Command) -> CliResult {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, command, "mgp", &mut script);
    write_stdout(&String::from_utf8_lossy(&script))
}
