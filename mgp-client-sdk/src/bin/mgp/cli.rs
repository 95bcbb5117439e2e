//! The command line: commands and options, and nothing of what they do.
//!
//! Applies to: both.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// All your tool servers behind one, governed.
#[derive(Debug, Parser)]
#[command(name = "mgp", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// The folder of the kernel's state
    #[arg(long, global = true, value_name = "DIR", env = "MGP_STATE")]
    pub(crate) state: Option<PathBuf>,
    /// Answer in JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Log more; twice for everything
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show in a minute what the kernel does; nothing leaves this machine
    Demo,
    /// Serve all servers to a host, over its standard streams or HTTP
    Serve(Serve),
    /// Run a server that is built in, over standard streams
    #[command(name = "__example", hide = true)]
    Example {
        /// Which one
        name: String,
    },
}

/// `mgp serve`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("carrier").required(true).args(["stdio", "http"]))]
pub(crate) struct Serve {
    /// The configuration; without it the project's and your own are used
    #[arg(long, value_name = "FILE", env = "MGP_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Serve the process that started this one
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Serve at an address, as 127.0.0.1:8900
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// The agent that whoever is served over stdio counts as
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Do not share the kernel of this state folder with other hosts
    #[arg(long)]
    pub(crate) standalone: bool,
    /// Let anyone in who reaches the address; loopback only
    #[arg(long, requires = "http")]
    pub(crate) no_auth: bool,
    /// Write one line of JSON here once everything is served
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,
}
