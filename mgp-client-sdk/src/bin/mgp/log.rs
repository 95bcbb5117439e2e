//! The log: to standard error, warnings only unless more is wanted.
//!
//! Applies to: both.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::cli::Cli;

/// Begins to log; `MGP_LOG` says more precisely than the options what.
pub(crate) fn begin(cli: &Cli) {
    let level = match cli.global.verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("MGP_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(color)
        .init();
}
