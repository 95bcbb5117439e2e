//! The commands `mgp servers start`, `stop`, `restart` and `drain`.

use std::pin::pin;
use std::time::Duration;

use clap::Args;
use mgp_client_sdk::Client;
use mgp_types::method::{KernelServersLogs, KernelServersRestart, KernelServersStart, Request};
use mgp_types::mgp::{
    KernelLogLine, KernelServerLogsParams, KernelServerParams, KernelServerResult, ServerState,
};
use tokio::time::{Instant, sleep};

use super::POLL_INTERVAL;
use super::list::fetch_server;
use crate::args::Global;
use crate::commands::known_names::{DISABLED, check_running, disabled};
use crate::commands::probe::best_of;
use crate::exit::{CliResult, Failure};
use crate::output::{ActionReport, print_note};
use crate::{control, time_args};

/// The maximum time to wait for a start; normally the server's own `start_timeout` expires first.
const START_TIMEOUT: Duration = Duration::from_mins(5);

/// The time after which a command prints that it still waits.
const NOTE_DELAY: Duration = Duration::from_secs(3);

/// The maximum number of lines of a server's standard error among which the explanation of a failure is searched.
const MAX_LINES: u64 = 50;

/// The maximum time between a line of standard error and the last one; older lines belong to earlier starts.
const MAX_AGE: Duration = Duration::from_secs(5);

/// A server and a time limit.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerArg {
    /// Server
    server: String,
    /// Time for running calls to finish and for the server to connect, e.g. 30s
    #[arg(long, value_name = "DURATION", value_parser = time_args::duration)]
    timeout: Option<Duration>,
}

/// Sends a request to start, stop, restart or drain a server. After a start, waits until the server has connected or
/// failed, or until the time limit.
pub(super) async fn run<R>(global: &Global, arg: &ServerArg) -> CliResult
where
    R: Request<Params = KernelServerParams, Result = KernelServerResult>,
{
    let status = request::<R>(global, &arg.server, arg.timeout).await?;
    ActionReport::new(&*arg.server, status.as_str()).print(global)
}

/// Sends the request of [`run`], and prints a note if it takes long; returns the state of the server.
pub(super) async fn request<R>(
    global: &Global,
    server: &str,
    limit: Option<Duration>,
) -> CliResult<ServerState>
where
    R: Request<Params = KernelServerParams, Result = KernelServerResult>,
{
    let client = control::connect_with_timeout(global, limit.unwrap_or(START_TIMEOUT)).await?;
    let known = check_running(&client, server).await?;
    if known.status.as_str() == DISABLED {
        return Err(disabled(server));
    }
    let mut changing = pin!(change::<R>(&client, server, limit));
    let status = tokio::select! {
        status = &mut changing => status?,
        () = sleep(NOTE_DELAY) => {
            print_note(global, &format!("mgp: still waiting for {server}"));
            changing.await?
        }
    };
    // Report no failure if the time limit of a restart ends while calls still run, because the restart continues by
    // itself.
    let goes_on = R::METHOD == KernelServersRestart::METHOD && status == ServerState::Draining;
    if is_start::<R>() && status != ServerState::Connected && !goes_on {
        return Err(Failure::failed(failure_reason(&client, server).await));
    }
    Ok(status)
}

fn is_start<R: Request>() -> bool {
    [KernelServersStart::METHOD, KernelServersRestart::METHOD].contains(&R::METHOD)
}

/// Sends the request. After a start, waits until the server has connected or failed, or until the time limit. Returns
/// the state of the server; if the server has failed, returns the reason as an error.
pub(crate) async fn change<R>(
    client: &Client,
    server: &str,
    limit: Option<Duration>,
) -> CliResult<ServerState>
where
    R: Request<Params = KernelServerParams, Result = KernelServerResult>,
{
    let mut params = KernelServerParams::new(server);
    params.timeout_ms = limit.map(mgp_types::millis);
    let mut status = client.request::<R>(&params).await?.status;
    let end = Instant::now() + limit.unwrap_or(START_TIMEOUT);
    while is_start::<R>() && !is_settled(&status) && Instant::now() < end {
        sleep(POLL_INTERVAL).await;
        status = match fetch_server(client, server).await? {
            Some(server) => server.status,
            None => break,
        };
    }
    // Check the state only after a start: a server that had failed keeps the state `error` when it is stopped.
    if is_start::<R>() && matches!(status, ServerState::Error | ServerState::Restarting) {
        return Err(Failure::failed(failure_reason(client, server).await));
    }
    Ok(status)
}

/// Returns whether the start of a server has ended: the server has connected, has failed (and might be restarting), or
/// has ended without an error.
fn is_settled(state: &ServerState) -> bool {
    use ServerState::{Connected, Disconnected, Error, Restarting};
    matches!(state, Connected | Disconnected | Error | Restarting)
}

/// Returns the reason why a server is not connected, with the line of its standard error that explains it best.
async fn failure_reason(client: &Client, server: &str) -> String {
    let shown = fetch_server(client, server).await.ok().flatten();
    // The command `mgp doctor` only checks servers of the configuration.
    let is_registered = shown.as_ref().is_some_and(|shown| shown.source == "registered");
    let next = if is_registered { "logs" } else { "doctor" };
    let error = shown.and_then(|shown| shown.error);
    let error = error.unwrap_or_else(|| "it is not running".to_owned());
    let mut params = KernelServerLogsParams::new(server);
    params.lines = Some(MAX_LINES);
    let lines = client.request::<KernelServersLogs>(&params).await.map(|result| result.lines);
    let lines = lines.unwrap_or_default();
    let last = lines.last().and_then(|line| line.at.to_system_time());
    let is_recent = |line: &&KernelLogLine| {
        let times = last.zip(line.at.to_system_time());
        times.and_then(|(last, at)| last.duration_since(at).ok()).is_some_and(|age| age < MAX_AGE)
    };
    let recent: Vec<&str> = lines.iter().filter(is_recent).map(|line| &*line.text).collect();
    let stderr = best_of(&recent).map(|line| format!("; it wrote: {line}")).unwrap_or_default();
    format!("{server} is not connected: {error}{stderr}; run `mgp {next} {server}`")
}
