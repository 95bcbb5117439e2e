//! Starts what each host will start, and counts the servers and tools that are ready.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use mgp_client_sdk::Client;
use mgp_transport::ChildCommand;
use mgp_types::method::KernelServers;
use mgp_types::mgp::{KernelServer, KernelServersParams, ServerState};
use tokio::time::{Instant, sleep};

use super::{HostReport, SetupResult};
use crate::args::Global;
use crate::control;
use crate::exit::CliResult;
use crate::hosts::KnownHost;
use crate::output::{Progress, print_note};

/// The time within which mgp must answer a host.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The time within which the servers must be ready; package runners may download them first.
const READY_TIMEOUT: Duration = Duration::from_mins(2);

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Starts the command of each host's file, and records what it reaches.
pub(super) async fn verify(global: &Global, result: &mut SetupResult) {
    let mut progress = Progress::new(global, "starting what the hosts start", result.hosts.len());
    // The clients are kept until the servers were counted, so that the shared kernel runs until then.
    let mut clients = Vec::new();
    for report in &mut result.hosts {
        match start(&report.host, &report.file).await {
            Ok(client) => clients.push(client),
            Err(problem) => report.problems.push(problem),
        }
        progress.step();
    }
    let used: BTreeSet<&String> = result.access.values().flatten().collect();
    match servers(global, &used).await {
        Ok(servers) => {
            let none = BTreeSet::new();
            for report in result.hosts.iter_mut().filter(|report| report.problems.is_empty()) {
                let used = result.access.get(&report.host).unwrap_or(&none);
                count(report, servers.iter().filter(|server| used.contains(&server.id)));
            }
        }
        Err(failure) => print_note(global, &format!("the servers were not checked: {failure}")),
    }
    for client in clients {
        client.close().await;
    }
}

/// Starts the command that a host's file has for mgp, as the host will.
async fn start(host: &str, file: &Path) -> Result<Client, String> {
    let known = KnownHost::from_name(host).ok_or("it is not known")?;
    let command =
        super::super::connect::mgp_command(known, file).map_err(|failure| failure.to_string())?;
    let (command, args) = command.ok_or("its file does not start mgp")?;
    let client = Client::builder("mgp-setup", env!("CARGO_PKG_VERSION"))
        .init_timeout(START_TIMEOUT)
        .spawn(ChildCommand::new(command).args(args))
        .await;
    let client = client.map_err(|error| format!("it cannot start mgp: {error}"))?;
    match client.list_tools().await {
        Ok(_) => Ok(client),
        Err(error) => {
            client.close().await;
            Err(format!("mgp lists no tools for it: {error}"))
        }
    }
}

/// Returns these servers of the running kernel once none of them is starting any more.
async fn servers(global: &Global, used: &BTreeSet<&String>) -> CliResult<Vec<KernelServer>> {
    let client = control::connect(global).await?;
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        let result = client.request::<KernelServers>(&KernelServersParams::new()).await;
        let mut servers = result?.servers;
        servers.retain(|server| used.contains(&server.id));
        let is_starting = |server: &KernelServer| {
            matches!(server.status, ServerState::Registered | ServerState::Connecting)
        };
        if Instant::now() > deadline || !servers.iter().any(is_starting) {
            client.close().await;
            return Ok(servers);
        }
        sleep(POLL_INTERVAL).await;
    }
}

fn count<'a>(report: &mut HostReport, servers: impl Iterator<Item = &'a KernelServer>) {
    let (mut ready, mut tools) = (0, 0);
    for server in servers {
        if server.status == ServerState::Connected {
            ready += 1;
            tools += server.tools;
            continue;
        }
        let reason = server.error.as_deref().unwrap_or("it is not ready yet");
        report.problems.push(format!("{} is {}: {reason}", server.id, server.status));
    }
    (report.ready, report.tools) = (Some(ready), Some(tools));
}
