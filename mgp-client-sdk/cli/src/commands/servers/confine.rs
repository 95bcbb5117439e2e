//! The command `mgp servers confine`.

use clap::Args;
use mgp_client_sdk::Client;
use mgp_types::method::{KernelReload, KernelServersStart};
use mgp_types::mgp::KernelReloadParams;

use super::add::absolute;
use super::change;
use super::package::package_of;
use crate::args::{ConfigArg, Global};
use crate::commands::kernel::ERROR;
use crate::commands::known_names::check_running;
use crate::config_file::{ConfigFile, ConfineValues};
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::operator::admit_edit;
use crate::output::{ActionReport, print_note};

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
    #[arg(long, value_name = "PORT", value_parser = port)]
    connect: Vec<String>,
    /// TCP port on which the server may listen, or `*` for all; may be given several times
    #[arg(long, value_name = "PORT", value_parser = port)]
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
    if arg.off {
        control::reload(global).await;
    } else {
        note_download(global, arg).await;
        start(global, id).await.map_err(|failure| {
            let file = arg.config.config.as_ref();
            let file = file.map(|file| format!(" --config {}", file.display())).unwrap_or_default();
            let remedy = format!("`mgp servers confine {id} --off{file}` ends the confinement");
            Failure::with_code(failure.code(), format!("{failure}; {remedy}"))
        })?;
    }
    let report = ActionReport::new(&**id, if arg.off { "not confined" } else { "confined" });
    report.with_notes(arg.config.approval_note().into_iter().collect()).print(global)
}

/// Prints a note if the server is downloaded but may not connect, because npm retries for minutes before it fails.
async fn note_download(global: &Global, arg: &Confine) {
    // Ignore a mistake in the configuration, because the kernel reports it.
    let Ok(loaded) = arg.config.load(global).await else { return };
    let package = loaded.config.server(&arg.server).and_then(package_of);
    if let Some(package) = package.filter(|_| arg.connect.is_empty()) {
        let what = format!("`{package}` is downloaded into the private folder of the server");
        print_note(global, &format!("mgp: {what}; if it does not start, add `--connect 443`"));
    }
}

/// Applies the configuration, and starts the server. Starts a kernel unless one runs: a server that needs more rights
/// fails here, where the person can add them.
async fn start(global: &Global, id: &str) -> CliResult {
    let client = control::connect_or_start_to_change(global).await?;
    apply(&client, id).await?;
    client.close().await;
    change::request::<KernelServersStart>(global, id, None).await.map(drop)
}

/// Makes the kernel apply the configuration. Fails unless the kernel confines the server from now on: an entry with a
/// mistake keeps its earlier rules, and the kernel may use another file.
async fn apply(client: &Client, id: &str) -> CliResult {
    let reloaded = client.request::<KernelReload>(&KernelReloadParams::new()).await?;
    if let Some(error) = reloaded.findings.iter().find(|finding| finding.severity == ERROR) {
        let message = &error.message;
        return Err(Failure::failed(format!(
            "`{id}` may still have its earlier rights: {message}"
        )));
    }
    if check_running(client, id).await?.confinement.is_none() {
        return Err(Failure::failed(format!(
            "`{id}` is not confined: the kernel has it from another file; name that file with --config"
        )));
    }
    Ok(())
}

/// Parses a port, or `*` for all ports.
fn port(text: &str) -> Result<String, String> {
    match text.parse::<u16>() {
        Err(_) if text != "*" => Err("write a number from 0 to 65535, or `*` for all".to_owned()),
        _ => Ok(text.to_owned()),
    }
}
