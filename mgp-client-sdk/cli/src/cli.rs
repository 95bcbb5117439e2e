//! The command line: commands and options, and nothing of what they do.
//!
//! Applies to: both.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    access, approvals, audit, completions, connect, doctor, import, index, init, kernel, keys,
    permissions, servers, tools, trust,
};

/// All your tool servers behind one, governed.
///
/// A kernel starts and supervises your MCP and MGP servers, decides and records every call, and offers any host one
/// small list of tools. `mgp import`, then `mgp connect HOST`, and the host is governed.
#[derive(Debug, Parser)]
#[command(
    name = "mgp",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Begin with:\n  mgp import                  # which servers do your hosts have?\n  mgp import --apply          # take them over\n  mgp connect claude-code     # have a host start mgp in place of them\n  mgp doctor                  # does everything work?\n\nExit code: 0 done, 1 refused or failed, 2 not understood, 3 no kernel runs."
)]
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
    /// Answer in JSON, of the schemas in docs/schema/cli
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
    /// Run a server that is built in, over standard streams
    #[command(name = "__example", hide = true)]
    Example {
        /// Which one
        name: String,
    },
    /// Serve all servers to hosts, over standard streams or HTTP
    Serve(Serve),
    /// Write a configuration to begin with
    Init(init::Init),
    /// Take over the servers of other hosts
    Import(import::Import),
    /// Have a host start mgp
    Connect(connect::Connect),
    /// Approve the configuration of a project
    Trust(trust::Arguments),
    /// Check everything, and say what to do
    Doctor(doctor::Doctor),
    /// Say what the kernel is and who is connected
    Status,
    /// Stop the kernel, once what runs is finished
    Stop(kernel::Stop),
    /// Servers: list, add, remove, start, stop, look at
    #[command(subcommand)]
    Servers(servers::Servers),
    /// Tools: list, search, call, pin, approve
    #[command(subcommand)]
    Tools(tools::Tools),
    /// Which agent may use which tool
    #[command(subcommand)]
    Access(access::Access),
    /// What each server may do
    #[command(subcommand)]
    Permissions(permissions::Permissions),
    /// What waits for you: list, approve, deny, watch
    #[command(subcommand)]
    Approvals(approvals::Approvals),
    /// Keys for agents that come over HTTP
    #[command(subcommand)]
    Keys(keys::Keys),
    /// What happened, and whether the record is whole
    #[command(subcommand)]
    Audit(audit::Audit),
    /// What agents have in context
    Sessions(kernel::Sessions),
    /// The index of tools: how well it finds, what is in it
    #[command(subcommand)]
    Index(index::Index),
    /// Write what a shell needs to complete commands
    Completions(completions::Completions),
    /// The kernel that several hosts share, as `mgp serve --stdio` starts it
    #[command(name = "__kernel", hide = true)]
    Kernel(Detached),
}

/// `mgp serve`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("carrier").required(true).args(["stdio", "http"]))]
pub(crate) struct Serve {
    /// The configuration; without it the project's and your own are used
    #[arg(long, value_name = "FILE")]
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
    /// A name, without port, under which callers may ask for it besides its address; may be given several times
    #[arg(long, value_name = "HOST", conflicts_with_all = ["stdio", "no_auth"])]
    pub(crate) allow_host: Vec<String>,
    /// An origin whose web pages may call besides loopback ones, as browsers write it; may be given several times
    #[arg(long, value_name = "ORIGIN", conflicts_with = "stdio")]
    pub(crate) allow_origin: Vec<String>,
    /// Write one line of JSON here once everything is served
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,
    /// How many seconds a kernel that this starts stays after its last host
    #[arg(long, value_name = "SECONDS", hide = true)]
    pub(crate) linger: Option<u64>,
}

/// `mgp __kernel`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Detached {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How many seconds it stays after its last host
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) linger: u64,
}
