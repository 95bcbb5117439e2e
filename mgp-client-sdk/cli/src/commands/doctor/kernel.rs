//! The kernel that runs, and what it says of its servers.
//!
//! Applies to: outbound.

use mgp_client_sdk::Client;
use mgp_types::method::{KernelInfo, KernelServers, KernelTools};
use mgp_types::mgp::{
    KernelInfoParams, KernelServer, KernelServersParams, KernelTool, KernelToolsParams,
};

use super::{Check, Level};
use crate::cli::Global;
use crate::{control, state};

/// What a kernel that runs has; nothing where none does.
#[derive(Debug, Default)]
pub(super) struct Running {
    pub(super) servers: Vec<KernelServer>,
    pub(super) tools: Vec<KernelTool>,
}

impl Running {
    /// What it says of a server.
    pub(super) fn server(&self, id: &str) -> Option<&KernelServer> {
        self.servers.iter().find(|server| server.id == id)
    }

    /// What it lacks of a server's tools.
    pub(super) fn lacks(&self, id: &str) -> Option<Check> {
        let lacks = self.server(id)?.lacks.as_ref()?;
        // The remedy stands behind the last semicolon.
        let (what, fix) = lacks.rsplit_once("; ").unwrap_or((lacks, ""));
        let mut check = Check::new("server", Level::Warn, format!("in the kernel: {what}"));
        check.fix = Some(fix.to_owned()).filter(|fix| !fix.is_empty());
        Some(check.of(id))
    }

    /// The same of servers that the configuration does not name: registered ones, and those of another project.
    pub(super) fn others<'a>(&'a self, named: &[&str]) -> impl Iterator<Item = Check> + 'a {
        let ids = self.servers.iter().map(|server| server.id.as_str());
        let others: Vec<_> = ids.filter(|id| !named.contains(id)).collect();
        others.into_iter().filter_map(|id| self.lacks(id))
    }
}

/// Asks the kernel that runs, if one does.
pub(super) async fn look(global: &Global, checks: &mut Vec<Check>) -> Running {
    let client = match control::connect(global).await {
        Ok(client) => client,
        Err(failure) if failure.is_no_kernel() => {
            let socket = state::folder(global).map(|folder| folder.join("mgp.sock"));
            let what = match socket {
                Ok(socket) if socket.exists() => {
                    "no kernel runs; one that was killed left its socket, which the next one replaces"
                }
                _ => "no kernel runs; a host starts one when it needs it",
            };
            checks.push(Check::new("kernel", Level::Ok, what));
            return Running::default();
        }
        Err(failure) => {
            let check = Check::new("kernel", Level::Fail, failure.to_string());
            checks.push(check.fix("end it, then start it again"));
            return Running::default();
        }
    };
    checks.push(info(&client).await);
    let (servers, tools) = (KernelServersParams::new(), KernelToolsParams::new());
    let (servers, tools) = tokio::join!(
        client.request::<KernelServers>(&servers),
        client.request::<KernelTools>(&tools)
    );
    // One of another version may not know the methods; it was told above.
    let (servers, tools) = (servers.map(|told| told.servers), tools.map(|told| told.tools));
    Running { servers: servers.unwrap_or_default(), tools: tools.unwrap_or_default() }
}

async fn info(client: &Client) -> Check {
    match client.request::<KernelInfo>(&KernelInfoParams::new()).await {
        Ok(info) if info.version != env!("CARGO_PKG_VERSION") => {
            let what =
                format!("version {} runs, and this is {}", info.version, env!("CARGO_PKG_VERSION"));
            Check::new("kernel", Level::Warn, what).fix("run `mgp stop`; hosts start the new one")
        }
        Ok(info) => {
            let what = format!("runs as process {}, {} connected", info.pid, info.clients.len());
            Check::new("kernel", Level::Ok, what)
        }
        Err(error) => Check::new(
            "kernel",
            Level::Warn,
            format!("it runs, but does not say how it is: {error}"),
        ),
    }
}
