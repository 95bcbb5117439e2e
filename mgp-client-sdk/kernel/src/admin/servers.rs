//! Methods for servers: their states and logs, and starting and stopping them.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::method::{
    KernelServersDrain, KernelServersRestart, KernelServersStart, KernelServersStop, Request,
};
use mgp_types::mgp::{
    KernelServer, KernelServerLogsParams, KernelServerLogsResult, KernelServerParams,
    KernelServerResult, KernelServersParams, KernelServersResult, ServerState, TrustLevel,
};
use mgp_types::service::Context;

use super::methods::{find_server, record};
use crate::fleet::ManagedServer;
use crate::handle::Kernel;

/// The default time for which `stop` waits until the running calls have ended. If calls are still running after it, the
/// answer reports the server as draining.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn list(
    kernel: Kernel,
    _: Context,
    params: KernelServersParams,
) -> Result<KernelServersResult, RpcError> {
    kernel.0.fleet.look(params.server_id.as_deref()).await;
    let mut result = KernelServersResult::new();
    result.servers = kernel.servers();
    result.servers.extend(not_in_fleet(&kernel));
    let known = |id: &String| result.servers.iter().any(|server| server.id == *id);
    let disabled = kernel.0.config.disabled().into_iter().filter(|id| !known(id));
    let disabled: Vec<KernelServer> = disabled.map(disabled_server).collect();
    result.servers.extend(disabled);
    if let Some(id) = &params.server_id {
        result.servers.retain(|server| server.id == *id);
        if result.servers.is_empty() {
            find_server(&kernel, id)?;
        }
    }
    Ok(result)
}

/// Describes a server that is in the configuration but is switched off.
fn disabled_server(id: String) -> KernelServer {
    let fix = format!("`mgp servers enable {id}` uses it again");
    let status = ServerState::from("disabled");
    KernelServer::new(id, status, fix, TrustLevel::Sandboxed, 0_u64, "the configuration")
}

/// Returns the registered servers that are not in the fleet because they wait for an operator or are being
/// removed.
fn not_in_fleet(kernel: &Kernel) -> impl Iterator<Item = KernelServer> {
    let fleet = kernel.0.fleet.clone();
    let known = kernel.registrations().fleet().known().into_iter().map(|known| known.summary);
    known.filter(move |known| fleet.get(&known.id).is_none()).map(|known| {
        let registration = known.extra.decode::<String>("registration").ok().flatten();
        let trust = known.trust_level.unwrap_or(TrustLevel::Sandboxed);
        // The server of an undecided or rejected registration is not merely stopped: no call starts it. So show the
        // state of the registration.
        let status = match registration.as_deref() {
            Some(word @ ("pending_approval" | "rejected")) => ServerState::from(word),
            _ => known.status,
        };
        let mut server = KernelServer::new(known.id, status, "nothing", trust, 0_u64, "registered");
        server.error = Some(match registration.as_deref() {
            Some("pending_approval") => {
                "it waits for an operator; see `mgp approvals ls`".to_owned()
            }
            state => format!("its registration is {}", state.unwrap_or("not known")),
        });
        server
    })
}

pub(super) async fn log(
    kernel: Kernel,
    _: Context,
    params: KernelServerLogsParams,
) -> Result<KernelServerLogsResult, RpcError> {
    let server = find_server(&kernel, &params.server_id)?;
    let max = params.lines.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
    let mut result = KernelServerLogsResult::new(params.server_id);
    result.lines = server.log().last_lines(max);
    Ok(result)
}

pub(super) async fn start(
    kernel: Kernel,
    cx: Context,
    params: KernelServerParams,
) -> Result<KernelServerResult, RpcError> {
    let (server, wait) = begin(&kernel, &cx, &params, KernelServersStart::METHOD).await?;
    Ok(KernelServerResult::new(params.server_id, server.operator_start(wait).await))
}

pub(super) async fn stop(
    kernel: Kernel,
    cx: Context,
    params: KernelServerParams,
) -> Result<KernelServerResult, RpcError> {
    let (server, wait) = begin(&kernel, &cx, &params, KernelServersStop::METHOD).await?;
    let status = server.operator_stop(wait.or(Some(STOP_TIMEOUT))).await;
    Ok(KernelServerResult::new(params.server_id, status))
}

pub(super) async fn restart(
    kernel: Kernel,
    cx: Context,
    params: KernelServerParams,
) -> Result<KernelServerResult, RpcError> {
    let (server, wait) = begin(&kernel, &cx, &params, KernelServersRestart::METHOD).await?;
    Ok(KernelServerResult::new(params.server_id, server.operator_restart(wait).await))
}

pub(super) async fn drain(
    kernel: Kernel,
    cx: Context,
    params: KernelServerParams,
) -> Result<KernelServerResult, RpcError> {
    let (server, wait) = begin(&kernel, &cx, &params, KernelServersDrain::METHOD).await?;
    Ok(KernelServerResult::new(params.server_id, server.operator_stop(wait).await))
}

/// Finds the server to start or stop and records the action; returns the server and the operator's time limit, if any.
async fn begin(
    kernel: &Kernel,
    cx: &Context,
    params: &KernelServerParams,
    method: &'static str,
) -> Result<(Arc<ManagedServer>, Option<Duration>), RpcError> {
    let server = find_server(kernel, &params.server_id)?;
    record(kernel, cx, Some(server.id()), method).await?;
    Ok((server, params.timeout_ms.map(Duration::from_millis)))
}
