//! Starts what a host will start, and counts the servers and tools that the host's agent can use.
//!
//! A separate process, `mgp __try-host`, starts the command of each host. This process must not: the kernel would
//! regard it as a host, which can be only one agent and never again an operator.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mgp_client_sdk::Client;
use mgp_transport::ChildCommand;
use mgp_types::method::{HealthStatusGet, KernelServers};
use mgp_types::mgp::{
    DiscoveryListParams, Extension, ExtensionSet, HealthStatus, KernelServer, KernelServersParams,
    ServerState, ServerSummary, StatusParams,
};
use mgp_types::sync::Mutex;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::super::connect::mgp_command;
use super::super::grant::GrantResult;
use super::SetupResult;
use crate::args::{ConfigArg, Global};
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::hosts::{KnownHost, home, is_portable_name};
use crate::output::{Progress, print_json, print_stderr};

/// The time within which mgp must answer a host.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The time within which the servers must be ready; most of them were started once before, for the grants.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The interval between requests to the running kernel for servers that have failed.
const FAILURE_INTERVAL: Duration = Duration::from_millis(300);

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
    /// The ready servers that were not started, because their tools are recorded.
    recorded: Vec<String>,
    /// Expected servers that are not ready.
    missing: Vec<String>,
    /// The name of a tool that may cause the host to refuse all tools.
    refused_name: Option<String>,
}

/// Tries out every host whose configuration file this command has written, all at the same time.
pub(super) async fn try_hosts(global: &Global, config: &ConfigArg, result: &mut SetupResult) {
    let kernel = kernel(global, config, result).await;
    let SetupResult { hosts, access, granted, .. } = result;
    let hosts: Vec<_> = hosts.iter_mut().filter(|report| report.problems.is_empty()).collect();
    let mut progress = Progress::new(global, "starting what the hosts start", hosts.len());
    // Do not wait for a server that failed to start for its grants, because it would fail again.
    let failed: BTreeSet<&str> = granted.iter().filter_map(GrantResult::failed_server).collect();
    let (report_failed, is_failed) = watch::channel(BTreeSet::new());
    let mut tries: FuturesUnordered<_> = hosts
        .into_iter()
        .map(|report| async {
            let of_host = access.get(&report.agent).into_iter().flatten().map(String::as_str);
            // Do not wait for a server of which the agent can use no tool: the kernel never lists it to the agent.
            let is_barred = |id: &str| granted.iter().any(|one| one.bars(&report.agent, id));
            let (broken, expected): (Vec<&str>, Vec<&str>) =
                of_host.filter(|id| !is_barred(id)).partition(|id| failed.contains(id));
            let usable = try_host(&report.host, &expected, is_failed.clone()).await;
            (report, usable, broken)
        })
        .collect();
    let mut late = BTreeSet::new();
    let mut watching = pin!(watch_servers(kernel, report_failed));
    loop {
        let next = tokio::select! {
            next = tries.next() => next,
            never = &mut watching => match never {},
        };
        let Some((report, usable, broken)) = next else { break };
        match usable {
            Ok(usable) => {
                let missing = usable.missing.iter().map(String::as_str).chain(broken);
                report.problems.extend(
                    missing.map(|id| format!("{id} is not ready; `mgp doctor {id}` explains it")),
                );
                (report.ready, report.tools) = (Some(usable.ready), Some(usable.tools));
                report.refused_name = usable.refused_name;
                report.recorded = usable.recorded;
                // Leave out the servers of the grants, which this command started a moment ago to read their tools.
                report.recorded.retain(|id| !granted.iter().any(|one| one.server() == id));
                late.extend(usable.missing);
            }
            Err(failure) => report.problems.push(failure.to_string()),
        }
        progress.step();
    }
    drop(tries);
    result.not_ready = late;
}

/// Connects to the kernel as an operator, so that the command notices the failure of a server immediately. Returns
/// `None` if this fails, or if the command has started all servers of the hosts for the grants. In these cases, the
/// command notices a failure only at the time limit.
///
/// Connect before any host is tried: afterwards this process is an ancestor of a host, and the kernel no longer admits
/// it as an operator.
async fn kernel(global: &Global, config: &ConfigArg, result: &SetupResult) -> Option<Client> {
    let is_granted = |id: &String| result.granted.iter().any(|one| one.server() == id);
    if result.access.values().flatten().all(is_granted) {
        return None;
    }
    // Start no kernel if the command line names a configuration, because that kernel would not use it.
    let connected = match config.named_file() {
        Some(_) => control::connect(global).await,
        None => control::connect_or_start(global).await,
    };
    connected.ok()
}

/// Reports the servers whose start has failed in the kernel, until the future is dropped.
async fn watch_servers(
    kernel: Option<Client>,
    report: watch::Sender<BTreeSet<String>>,
) -> Infallible {
    if let Some(kernel) = kernel {
        while let Ok(all) = kernel.request::<KernelServers>(&KernelServersParams::new()).await {
            let failed = all.servers.into_iter().filter(has_failed).map(|server| server.id);
            report.send_replace(failed.collect());
            sleep(FAILURE_INTERVAL).await;
        }
    }
    pending().await
}

/// Returns whether the latest start of a server has failed, and the kernel knows none of its tools.
fn has_failed(server: &KernelServer) -> bool {
    // An error also counts while the server is connecting: it is then the error of the previous attempt.
    server.status != ServerState::Connected && server.error.is_some() && server.tools == 0
}

async fn try_host(
    host: &str,
    expected: &[&str],
    mut failed: watch::Receiver<BTreeSet<String>>,
) -> CliResult<Usable> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["__try-host", host]).args(expected).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take();
    let pass_on = async {
        while let (Ok(()), Some(stdin)) = (failed.changed().await, &mut stdin) {
            let ids = failed.borrow_and_update().clone();
            let ids = ids.into_iter().fold(String::new(), |all, id| all + &id + "\n");
            // Ignore an error: the write fails if the process has ended, which the other branch below handles.
            let _ = stdin.write_all(ids.as_bytes()).await;
        }
        pending::<Infallible>().await
    };
    let ended = tokio::select! {
        ended = child.wait_with_output() => ended?,
        never = pass_on => match never {},
    };
    if ended.status.success() {
        return Ok(serde_json::from_slice(&ended.stdout)?);
    }
    let errors = String::from_utf8_lossy(&ended.stderr);
    // The first line with this prefix is the reason that the started program gives.
    let reason = errors.lines().find_map(|line| line.strip_prefix("mgp: "));
    Err(Failure::failed(reason.unwrap_or("it cannot start mgp").to_owned()))
}

/// Starts the command in a host's file, and prints the servers and tools that the host's agent can use.
pub(crate) async fn run(try_host: &TryHost) -> CliResult {
    let host = try_host.host;
    let file = host.user_file(&home()?);
    let Some((command, args)) = mgp_command(host.format(), &file)? else {
        return Err(Failure::failed(format!("`{}` does not start mgp", file.display())));
    };
    // If this starts a kernel, that kernel also serves the hosts that are started next, so pass all variables of this
    // shell to it.
    let command = ChildCommand::new(command).args(args).inherit_env(["*"]).on_stderr(print_stderr);
    let client = Client::builder("mgp-setup", env!("CARGO_PKG_VERSION"))
        // Do not offer the tool discovery of MGP, because most hosts do not offer it either. The list then has the
        // tools of all servers.
        .limit_extensions(ExtensionSet::STANDARD.without(Extension::ToolDiscovery))
        .init_timeout(START_TIMEOUT)
        .spawn(command)
        .await;
    let client =
        client.map_err(|error| Failure::failed(format!("it cannot start mgp: {error}")))?;
    let usable = usable(&client, try_host, &failed_servers()).await;
    client.close().await;
    print_json(&usable?)
}

/// Returns the set of failed servers. A thread adds the servers that `mgp setup` writes to standard input.
fn failed_servers() -> Arc<Mutex<BTreeSet<String>>> {
    let failed = Arc::<Mutex<BTreeSet<String>>>::default();
    let set = Arc::clone(&failed);
    std::thread::spawn(move || {
        for id in std::io::stdin().lines().map_while(Result::ok) {
            set.lock().insert(id);
        }
    });
    failed
}

/// Waits up to [`READY_TIMEOUT`] until each expected server is ready or has failed.
async fn usable(
    client: &Client,
    TryHost { host, servers: expected }: &TryHost,
    failed: &Mutex<BTreeSet<String>>,
) -> CliResult<Usable> {
    client.list_tools().await?;
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        // Request the servers with a tool that the agent may call; the answer does not contain other servers.
        let mut servers = Vec::new();
        for server in client.mgp().discovery_list(&DiscoveryListParams::new()).await?.servers {
            if is_usable(client, &server).await {
                servers.push(server);
            }
        }
        let is_ready = |id: &&String| servers.iter().any(|server| server.id == **id);
        let failed = failed.lock().clone();
        let is_settled = |id| is_ready(&id) || failed.contains(id);
        if Instant::now() > deadline || expected.iter().all(is_settled) {
            let missing = expected.iter().filter(|id| !is_ready(id)).cloned().collect();
            let tools = servers.iter().map(|server| server.tools.len() as u64).sum();
            let is_recorded = |server: &&ServerSummary| server.status != ServerState::Connected;
            let recorded = servers.iter().filter(is_recorded).map(|server| server.id.clone());
            let recorded = recorded.collect();
            let listed = client.list_tools().await.unwrap_or_default();
            let names = listed.into_iter().map(|tool| tool.name);
            let refused_name =
                names.filter(|_| !host.rewrites_names()).find(|name| !is_portable_name(name));
            return Ok(Usable { ready: servers.len(), tools, recorded, missing, refused_name });
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns whether the agent can use a server: it is connected, or its tools are known and the first call starts it.
async fn is_usable(client: &Client, server: &ServerSummary) -> bool {
    match server.status {
        ServerState::Connected => true,
        ServerState::Registered => !server.tools.is_empty(),
        // Such a server ended, or was stopped because it was idle; it is not healthy if an operator keeps it stopped.
        ServerState::Disconnected if !server.tools.is_empty() => {
            let mut params = StatusParams::new();
            params.server_id = Some(server.id.clone());
            let found = client.request::<HealthStatusGet>(&params).await;
            found.is_ok_and(|found| found.status == HealthStatus::Healthy)
        }
        _ => false,
    }
}
