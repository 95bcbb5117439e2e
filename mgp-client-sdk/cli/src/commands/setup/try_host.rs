//! Starts what a host will start, and counts the servers and tools that its agent can use.
//!
//! A separate process, `mgp __try-host`, starts the command of each host. The kernel regards the process that starts
//! `mgp serve --stdio` as a host, which can be only one agent and cannot act as an operator afterwards.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use mgp_client_sdk::Client;
use mgp_transport::ChildCommand;
use mgp_types::mgp::{DiscoveryListParams, ServerState, ServerSummary};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::super::connect::mgp_command;
use super::super::grant::GrantResult;
use super::SetupResult;
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::hosts::{KnownHost, home};
use crate::output::{Progress, print_json, print_stderr};

/// The time within which mgp must answer a host.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The time within which the servers must be ready; they were started once before, for the grants.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// `mgp __try-host`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TryHost {
    /// Host whose file is read
    host: KnownHost,
    /// Servers that are expected to be ready soon
    servers: Vec<String>,
}

/// The servers and tools that the agent of a host can use.
#[derive(Debug, Serialize, Deserialize)]
struct Usable {
    ready: usize,
    tools: u64,
    /// Servers among the ready ones that were not started, because their tools are recorded.
    recorded: Vec<String>,
    /// Expected servers that are not ready.
    missing: Vec<String>,
}

/// Tries out every host whose configuration file this command has written.
pub(super) async fn try_hosts(global: &Global, result: &mut SetupResult) {
    let mut progress = Progress::new(global, "starting what the hosts start", result.hosts.len());
    for report in result.hosts.iter_mut().filter(|report| report.problems.is_empty()) {
        let of_host = result.access.get(&report.host).into_iter().flatten();
        // Servers that did not start for the grants will not start now.
        let failed = result.granted.iter().filter_map(GrantResult::failed_server);
        let failed: BTreeSet<&str> = failed.collect();
        let (broken, expected): (Vec<&str>, Vec<&str>) =
            of_host.map(String::as_str).partition(|id| failed.contains(id));
        match try_host(&report.host, &expected).await {
            Ok(usable) => {
                (report.ready, report.tools) = (Some(usable.ready), Some(usable.tools));
                report.recorded = usable.recorded;
                // These servers were started a moment ago, for the grants.
                report.recorded.retain(|id| !result.granted.iter().any(|one| one.server() == id));
                let missing = usable.missing.iter().map(String::as_str).chain(broken);
                report.problems.extend(
                    missing.map(|id| format!("{id} is not ready; `mgp doctor {id}` explains it")),
                );
            }
            Err(failure) => report.problems.push(failure.to_string()),
        }
        progress.step();
    }
}

async fn try_host(host: &str, expected: &[&str]) -> CliResult<Usable> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["__try-host", host]).args(expected).stdin(Stdio::null()).kill_on_drop(true);
    let ended = command.output().await?;
    if ended.status.success() {
        return Ok(serde_json::from_slice(&ended.stdout)?);
    }
    let errors = String::from_utf8_lossy(&ended.stderr);
    // The first line with this prefix is the reason that the started program gives.
    let reason = errors.lines().find_map(|line| line.strip_prefix("mgp: "));
    Err(Failure::failed(reason.unwrap_or("it cannot start mgp").to_owned()))
}

/// Starts the command of a host's file, and prints what its agent can use.
pub(crate) async fn run(try_host: &TryHost) -> CliResult {
    let host = try_host.host;
    let file = host.user_file(&home()?);
    let Some((command, args)) = mgp_command(host.format(), &file)? else {
        return Err(Failure::failed(format!("`{}` does not start mgp", file.display())));
    };
    let command = ChildCommand::new(command).args(args).on_stderr(print_stderr);
    let client = Client::builder("mgp-setup", env!("CARGO_PKG_VERSION"))
        .init_timeout(START_TIMEOUT)
        .spawn(command)
        .await;
    let client =
        client.map_err(|error| Failure::failed(format!("it cannot start mgp: {error}")))?;
    let usable = usable(&client, &try_host.servers).await;
    client.close().await;
    print_json(&usable?)
}

/// Waits until the expected servers are ready.
async fn usable(client: &Client, expected: &[String]) -> CliResult<Usable> {
    client.list_tools().await?;
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        // The answer contains only servers with a tool that the agent may call.
        let mut servers = client.mgp().discovery_list(&DiscoveryListParams::new()).await?.servers;
        // A registered server whose tools are known counts as ready, because the first call starts it.
        servers.retain(|server| match server.status {
            ServerState::Connected => true,
            ServerState::Registered => !server.tools.is_empty(),
            _ => false,
        });
        let is_ready = |id: &&String| servers.iter().any(|server| server.id == **id);
        if Instant::now() > deadline || expected.iter().all(|id| is_ready(&id)) {
            let missing = expected.iter().filter(|id| !is_ready(id)).cloned().collect();
            let tools = servers.iter().map(|server| server.tools.len() as u64).sum();
            let is_recorded = |server: &&ServerSummary| server.status == ServerState::Registered;
            let recorded = servers.iter().filter(is_recorded).map(|server| server.id.clone());
            let recorded = recorded.collect();
            return Ok(Usable { ready: servers.len(), tools, recorded, missing });
        }
        sleep(POLL_INTERVAL).await;
    }
}
