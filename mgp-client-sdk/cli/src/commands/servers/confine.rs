//! The command `mgp servers confine`.

use clap::Args;
use mgp_types::method::KernelServersStart;

use super::add::absolute;
use super::change;
use crate::args::{ConfigArg, Global};
use crate::config_file::{ConfigFile, ConfineValues};
use crate::control;
use crate::exit::CliResult;
use crate::operator::admit_edit;
use crate::output::ActionReport;

/// `mgp servers confine`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Confine {
    /// Server
    server: String,
    /// File or folder that the server may read; may be given several times
    #[arg(long, value_name = "PATH")]
    read: Vec<String>,
    /// File or folder that the server may read and write; may be given several times
    #[arg(long, value_name = "PATH")]
    write: Vec<String>,
    /// TCP port to which the server may connect, or `*` for all; may be given several times
    #[arg(long, value_name = "PORT")]
    connect: Vec<String>,
    /// TCP port on which the server may listen, or `*` for all; may be given several times
    #[arg(long, value_name = "PORT")]
    listen: Vec<String>,
    /// Let the server connect to Unix sockets, e.g. of Docker, whose programs are not confined
    #[arg(long)]
    local_sockets: bool,
    /// Confine the server no longer
    #[arg(long, conflicts_with_all = ["read", "write", "connect", "listen", "local_sockets"])]
    off: bool,
    #[command(flatten)]
    config: ConfigArg,
}

/// Writes the rights of a server into its entry, and starts the server with them.
pub(super) async fn run(global: &Global, arg: &Confine) -> CliResult {
    let id = &arg.server;
    let own = ConfigFile::open(arg.config.file_to_edit()?)?;
    own.check_server(id)?;
    admit_edit(global, &arg.config).await?;
    let paths = |paths: &[String]| paths.iter().map(|path| absolute(path)).collect::<Vec<_>>();
    let (read, write) = (paths(&arg.read), paths(&arg.write));
    let values = ConfineValues {
        lists: [
            ("read", &read),
            ("write", &write),
            ("connect", &arg.connect),
            ("listen", &arg.listen),
        ],
        local_sockets: arg.local_sockets,
    };
    own.set_confine(id, (!arg.off).then_some(&values))?;
    control::reload(global).await;
    if !arg.off {
        // Start a kernel unless one runs: a server that needs more rights fails here, where the person can add them.
        control::connect_or_start_to_change(global).await?.close().await;
        change::request::<KernelServersStart>(global, id, None).await?;
    }
    let report = ActionReport::new(&**id, if arg.off { "not confined" } else { "confined" });
    report.with_notes(arg.config.approval_note().into_iter().collect()).print(global)
}
