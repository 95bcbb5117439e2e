//! The command `mgp man`: writes the man pages of all commands.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};

use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::output::ActionReport;

/// `mgp man`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  mgp man ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Folder in which a page for each command is created
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(global: &Global, man: &Man, command: Command) -> CliResult {
    let folder = &man.folder;
    let failed = |error| Failure::failed(format!("`{}`: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command, folder).map_err(failed)?;
    ActionReport::new(folder.display().to_string(), "written").print(global)
}
