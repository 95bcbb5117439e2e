//! The commands `mgp contract`: compares, checks, documents and exports definitions of tools.

pub(crate) mod check;
pub(crate) mod diff;
pub(crate) mod lint;
pub(super) mod source;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use mgp_contract::{catalog, openapi, tool_export, write_spec};
use mgp_types::Timestamp;
use serde_json::Value;

use crate::args::{ConfigArg, Global};
use crate::escape::escape_lines;
use crate::exit::{CliResult, Failure};
use crate::output::{print_json, write_stdout};
use crate::replace_file::replace_file;
use crate::time_args;

/// `mgp contract`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Contract {
    /// Write the specification of tools in Markdown, with eight parts for each tool
    #[command(name = "gen", after_help = "Example:\n  mgp contract gen files > SPECIFICATION.md")]
    Generate {
        #[command(flatten)]
        source: SourceArgs,
        /// Heading of the document
        #[arg(long, default_value = "Tool specifications")]
        title: String,
        /// Write to this file instead of standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Name the flaws of definitions or of specifications; fails if there is an error
    #[command(after_help = "Example:\n  mgp contract lint SPECIFICATION.md --strict")]
    Lint {
        #[command(flatten)]
        source: SourceArgs,
        /// Fail on warnings too
        #[arg(long)]
        strict: bool,
    },
    /// Show which version change a new definition demands; fails if its version is too low
    #[command(after_help = "Example:\n  mgp contract diff old.json new.json")]
    Diff {
        /// Earlier definitions: a file, `-` for standard input, or the id of a server
        old: String,
        /// Later definitions
        new: String,
        #[command(flatten)]
        common: CommonArgs,
    },
    /// Check that servers still offer, compatibly, the tools that a file names; for automated builds
    #[command(
        after_help = "Example:\n  mgp contract export files > required.json\n  mgp contract check files --against required.json"
    )]
    Check {
        #[command(flatten)]
        source: SourceArgs,
        /// File with the required tools, e.g. `mgp.lock` or a specification
        #[arg(long, value_name = "FILE")]
        against: PathBuf,
    },
    /// Export definitions as JSON
    #[command(after_help = "Example:\n  mgp contract export files --format openapi")]
    Export {
        #[command(flatten)]
        source: SourceArgs,
        /// Format
        #[arg(long, value_enum, default_value = "catalog")]
        format: Format,
    },
}

/// The formats of an export.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// One catalogue of all tools
    Catalog,
    /// A list with the schema, examples and metadata of each tool
    Tools,
    /// An OpenAPI 3.1 document
    Openapi,
}

/// The options of every command about definitions.
#[derive(Clone, Debug, Args)]
pub(crate) struct CommonArgs {
    /// Time limit for each server, in place of its `start_timeout`
    #[arg(long, value_name = "DURATION", value_parser = time_args::duration)]
    pub(super) timeout: Option<Duration>,
    #[command(flatten)]
    pub(super) config: ConfigArg,
}

/// The definitions that a command reads.
#[derive(Clone, Debug, Args)]
pub(crate) struct SourceArgs {
    /// Files with definitions, `-` for standard input, or ids of servers, which are started
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    #[command(flatten)]
    common: CommonArgs,
}

pub(crate) async fn run(global: &Global, contract: &Contract) -> CliResult {
    match contract {
        Contract::Generate { source, title, out } => {
            let tools = source::read_all(global, source).await?;
            let text = write_spec(title, &tools);
            match out {
                // Terminals interpret control characters in the texts of servers; a file keeps these texts unchanged.
                None if io::stdout().is_terminal() => write_stdout(&escape_lines(&text)),
                None => write_stdout(&text),
                Some(file) => {
                    replace_file(file, &text).map_err(|error| Failure::unwritable(file, &error))
                }
            }
        }
        Contract::Lint { source, strict } => lint::run(global, source, *strict).await,
        Contract::Diff { old, new, common } => diff::run(global, old, new, common).await,
        Contract::Check { source, against } => check::run(global, source, against).await,
        Contract::Export { source, format } => {
            let tools = match format {
                Format::Openapi => source::read_all_with_server(global, source).await?,
                Format::Catalog | Format::Tools => source::read_all(global, source).await?,
            };
            let document = match format {
                Format::Catalog => catalog(&tools, Timestamp::now().as_str()),
                Format::Tools => Value::Array(tools.iter().map(tool_export).collect()),
                Format::Openapi => openapi("Tools behind mgp", env!("CARGO_PKG_VERSION"), &tools),
            };
            print_json(&document)
        }
    }
}
