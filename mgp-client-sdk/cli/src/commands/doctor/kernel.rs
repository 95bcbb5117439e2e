//! Checks the running kernel and its servers.

use std::net::TcpListener;

use mgp_client_sdk::Client;
use mgp_discovery::KernelConfig;
use mgp_types::method::{KernelInfo, KernelServers, KernelTools};
use mgp_types::mgp::{
    KernelInfoParams, KernelServer, KernelServersParams, KernelTool, KernelToolsParams, ServerState,
};

use super::report::{Check, Level};
use crate::args::Global;
use crate::{control, state};

/// The servers and tools of the running kernel; empty if no kernel runs.
#[derive(Debug, Default)]
pub(super) struct KernelState {
    /// `true` if it is certain that no kernel runs.
    is_absent: bool,
    pub(super) servers: Vec<KernelServer>,
    pub(super) tools: Vec<KernelTool>,
}

impl KernelState {
    pub(super) fn server(&self, id: &str) -> Option<&KernelServer> {
        self.servers.iter().find(|server| server.id == id)
    }

    /// Returns a warning if the kernel lacks tools of a server, or if the server does not work in the kernel.
    pub(super) fn check_server(&self, id: &str) -> Option<Check> {
        let server = self.server(id)?;
        let Some(lacks) = &server.lacks else { return check_running(server) };
        // The kernel writes the remedy after the last semicolon of its text.
        let (what, mut fix) = lacks.rsplit_once("; ").unwrap_or((lacks, ""));
        let mut what = format!("in the kernel: {what}");
        if let Some(error) = &server.error {
            what = format!("{what}: {error}");
            if error.contains("is not set") {
                fix = "the kernel has the variables of the program that started it; store the value with `mgp secrets set`, or set the variable there and run `mgp stop`";
            }
        }
        let mut check = Check::new("server", Level::Warn, what);
        check.fix = Some(fix.to_owned()).filter(|fix| !fix.is_empty());
        Some(check.for_server(id))
    }

    /// Reports the configured `metrics` address if no kernel could listen there. The address is tried only if no kernel
    /// runs, because a running kernel uses it itself.
    pub(super) fn check_metrics(&self, config: &KernelConfig) -> Option<Check> {
        let address = config.metrics.as_ref().filter(|_| self.is_absent)?;
        let error = TcpListener::bind(address).err()?;
        let what =
            format!("`metrics` under `[kernel]` is `{address}`, which cannot be used: {error}");
        let fix = "stop the program that uses it, or set another address";
        Some(Check::new("kernel", Level::Fail, what).with_fix(fix))
    }

    /// Checks the kernel's servers that are not in this configuration: registered servers, and servers of another
    /// project.
    pub(super) fn check_others<'a>(&'a self, named: &[&str]) -> impl Iterator<Item = Check> + 'a {
        let ids = self.servers.iter().map(|server| server.id.as_str());
        let others: Vec<_> = ids.filter(|id| !named.contains(id)).collect();
        others.into_iter().filter_map(|id| self.check_server(id))
    }
}

/// Returns a warning if a server does not work in the kernel, although the kernel knows its tools. The server might
/// still work in this shell, because the shell has other variables than the kernel.
fn check_running(server: &KernelServer) -> Option<Check> {
    let error = server.error.as_ref().filter(|_| server.status != ServerState::Connected)?;
    let what = format!("in the running kernel it is {}: {error}", server.status.as_str());
    let fix = "the kernel has the variables of the program that started it: run `mgp stop`, then restart the host";
    Some(Check::new("server", Level::Warn, what).with_fix(fix).for_server(&server.id))
}

/// Reads the state of the running kernel; an empty state if no kernel runs.
pub(super) async fn check(global: &Global, checks: &mut Vec<Check>) -> KernelState {
    let client = match control::connect(global).await {
        Ok(client) => client,
        Err(failure) if failure.is_no_kernel() => {
            let socket = state::folder(global).map(|folder| folder.join("mgp.sock"));
            let what = match socket {
                Ok(socket) if socket.exists() => {
                    "no kernel is running; a killed one left its socket, which the next one replaces"
                }
                _ => "no kernel is running; a host starts one when it needs it",
            };
            checks.push(Check::new("kernel", Level::Ok, what));
            return KernelState { is_absent: true, ..KernelState::default() };
        }
        Err(failure) => {
            let text = failure.to_string();
            // The text before the last semicolon is the failure, the text after it the remedy.
            let fallback = (&*text, "run `mgp doctor` in a terminal outside hosts");
            let (what, fix) = text.rsplit_once("; ").unwrap_or(fallback);
            checks.push(Check::new("kernel", Level::Fail, what).with_fix(fix));
            return KernelState::default();
        }
    };
    checks.push(info(&client).await);
    let (servers, tools) = (KernelServersParams::new(), KernelToolsParams::new());
    let (servers, tools) = tokio::join!(
        client.request::<KernelServers>(&servers),
        client.request::<KernelTools>(&tools)
    );
    // A kernel of another version may lack these methods; the check above has already reported the version.
    let (servers, tools) = (servers.map(|result| result.servers), tools.map(|result| result.tools));
    KernelState {
        is_absent: false,
        servers: servers.unwrap_or_default(),
        tools: tools.unwrap_or_default(),
    }
}

async fn info(client: &Client) -> Check {
    match client.request::<KernelInfo>(&KernelInfoParams::new()).await {
        Ok(info) if info.version != env!("CARGO_PKG_VERSION") => {
            let what = format!(
                "version {} is running, and this program is {}",
                info.version,
                env!("CARGO_PKG_VERSION")
            );
            Check::new("kernel", Level::Warn, what)
                .with_fix("run `mgp stop`; hosts start the new version")
        }
        Ok(info) => {
            let what = format!("running as process {}, {} connected", info.pid, info.clients.len());
            Check::new("kernel", Level::Ok, what)
        }
        Err(error) => Check::new(
            "kernel",
            Level::Warn,
            format!("it is running, but its state cannot be read: {error}"),
        ),
    }
}
