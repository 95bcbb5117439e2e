//! The command `mgp servers`: lists, finds, adds, updates, removes and controls servers.

pub(crate) mod add;
mod bundle_changes;
mod bundle_users;
pub(crate) mod change;
mod confine;
pub(crate) mod list;
mod package;
mod published;
mod registry;
mod remove;
pub(crate) mod search;
#[cfg(test)]
mod testdata;
mod unpack;
pub(crate) mod update;

use std::time::Duration;

use clap::{Args, Subcommand};
use mgp_types::method::{
    KernelServersDrain, KernelServersRestart, KernelServersStart, KernelServersStop,
};

use super::login::{self, Login, LoginArg};
use super::logs;
use crate::args::{ConfigArg, Global};
use crate::config_file::ConfigFile;
use crate::control;
use crate::exit::CliResult;
use crate::operator::admit_edit;
use crate::output::ActionReport;

/// The interval at which a command that waits for a server asks the kernel for its state.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// `mgp servers`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Servers {
    /// List the servers and their states
    #[command(aliases = ["show", "get", "describe"])]
    Ls {
        /// Show only this server, in full
        server: Option<String>,
    },
    /// Find published servers by their purpose
    Search(search::Search),
    /// Add a server to your configuration, and grant agents access
    #[command(
        after_help = "Example:\n  mgp servers add io.github.example/weather --set API_KEY=…\n  mgp servers add ./weather.mcpb\n  mgp servers add files -- npx -y @modelcontextprotocol/server-filesystem ~/projects\n  mgp servers add tracker --url https://example.org/mcp --header 'Authorization: Bearer ${TRACKER_TOKEN}'"
    )]
    Add(add::Add),
    /// Compare servers with their latest versions, and update them
    Update(update::Update),
    /// Remove a server from your configuration, or a registered server from the running kernel
    #[command(after_help = "Example:\n  mgp servers rm files")]
    Rm(ConfiguredServer),
    /// Use a disabled server again
    Enable(ConfiguredServer),
    /// Stop using a server, and keep its access entries and permissions
    #[command(after_help = "Example:\n  mgp servers disable files")]
    Disable(ConfiguredServer),
    /// Limit the files and connections of a server's program (Linux)
    #[command(
        after_help = "The server can still read the system, its own code and its working folder. Rights that were given before are replaced.\n\nExample:\n  mgp servers confine files --read ~/documents --write ~/documents/notes\n  mgp servers confine weather --connect 443\n  mgp servers confine files --off"
    )]
    Confine(confine::Confine),
    /// Start a server
    Start(change::ServerArg),
    /// Stop a server after its running calls have finished
    #[command(
        after_help = "No call starts the server again while this kernel runs; the next kernel starts it when it is called. To keep it stopped, use `mgp servers disable`.\n\nExample:\n  mgp servers stop files"
    )]
    Stop(change::ServerArg),
    /// Restart a server
    Restart(change::ServerArg),
    /// Finish the running calls of a server, and send no new calls to it
    Drain(change::ServerArg),
    /// Log in to a server at a URL
    #[command(
        after_help = "Prints the address of the login page and waits for the browser. The tokens are stored in the state folder.\n\nExample:\n  mgp servers login linear"
    )]
    Login(Login),
    /// Delete the login at a server
    Logout(LoginArg),
    /// Show the standard error of a server
    #[command(after_help = "Example:\n  mgp servers logs files -n 20")]
    Logs {
        /// Server
        server: String,
        /// Number of lines to show, counted from the end
        #[arg(long, short = 'n', alias = "tail", value_name = "N", default_value_t = 100)]
        lines: u64,
    },
}

pub(crate) async fn run(global: &Global, servers: &Servers) -> CliResult {
    match servers {
        Servers::Ls { server } => list::run(global, server.as_deref()).await,
        Servers::Search(arg) => search::run(global, arg).await,
        Servers::Add(arg) => add::run(global, arg).await,
        Servers::Update(arg) => update::run(global, arg).await,
        Servers::Rm(arg) => Box::pin(remove::run(global, arg)).await,
        Servers::Enable(arg) => set_enabled(global, arg, true).await,
        Servers::Disable(arg) => set_enabled(global, arg, false).await,
        Servers::Confine(arg) => confine::run(global, arg).await,
        Servers::Start(arg) => change::run::<KernelServersStart>(global, arg).await,
        Servers::Stop(arg) => change::run::<KernelServersStop>(global, arg).await,
        Servers::Restart(arg) => change::run::<KernelServersRestart>(global, arg).await,
        Servers::Drain(arg) => change::run::<KernelServersDrain>(global, arg).await,
        Servers::Login(arg) => login::log_in(global, arg).await,
        Servers::Logout(arg) => login::log_out(global, arg).await,
        Servers::Logs { server, lines } => logs::last_of_server(global, server, *lines).await,
    }
}

/// `mgp servers rm`, `enable` and `disable`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfiguredServer {
    /// Server
    server: String,
    #[command(flatten)]
    config: ConfigArg,
}

async fn set_enabled(global: &Global, arg: &ConfiguredServer, is_enabled: bool) -> CliResult {
    let id = &arg.server;
    let own = ConfigFile::open(arg.config.file_to_edit()?)?;
    own.check_server(id)?;
    admit_edit(global, &arg.config).await?;
    own.set_enabled(id, is_enabled)?;
    control::reload(global).await;
    let report = ActionReport::new(&**id, if is_enabled { "enabled" } else { "disabled" });
    report.with_notes(arg.config.approval_note().into_iter().collect()).print(global)
}
