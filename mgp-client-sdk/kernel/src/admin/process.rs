//! Methods for the kernel itself: its process, its sessions and its stop.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use mgp_discovery::named_variables;
use mgp_toolindex::{Erase, name_for};
use mgp_types::RpcError;
use mgp_types::method::{KernelReload, KernelStop, Request};
use mgp_types::mgp::{
    KernelClient, KernelFinding, KernelInfoParams, KernelInfoResult, KernelReloadParams,
    KernelReloadResult, KernelSession, KernelSessionsParams, KernelSessionsResult,
    KernelStopParams, KernelStopResult,
};
use mgp_types::service::{
    AgentId, Authority, Context, Peer, Principal, Scope, ScopeKind, ServerId, TenantId,
};

use super::methods::record;
use crate::clients::ClientTransport;
use crate::handle::Kernel;

pub(super) async fn info(
    kernel: Kernel,
    _: Context,
    _: KernelInfoParams,
) -> Result<KernelInfoResult, RpcError> {
    let (reachable, servers) = (kernel.endpoints(), kernel.0.fleet.all());
    let tools = servers.keys().map(|id| kernel.index().tools_of(id.as_str()).len() as u64);
    let mut info = KernelInfoResult::new(
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        kernel.began().clone(),
        servers.len() as u64,
        tools.sum::<u64>(),
    );
    let shown = |path: &Path| path.display().to_string();
    info.state = reachable.state.as_deref().map(shown);
    info.socket = reachable.socket.as_deref().map(shown);
    info.http = reachable.http;
    info.config = match &kernel.0.config.origin {
        Some(origin) if reachable.config.is_empty() => {
            origin.sources.files().filter(|file| file.exists()).map(shown).collect()
        }
        _ => reachable.config.iter().map(|path| shown(path)).collect(),
    };
    let mut findings = kernel.0.config.findings();
    findings.extend(kernel.0.sinks.findings());
    findings.extend(audit_finding(&kernel));
    let removed = || KernelFinding::new("error", STATE_REMOVED);
    findings.extend(reachable.is_state_lost.then(removed));
    let log_removed = || KernelFinding::new("error", STATE_LOG_REMOVED);
    let is_log_removed = reachable.is_state_log_lost && !reachable.is_state_lost;
    findings.extend(is_log_removed.then(log_removed));
    info.findings = findings.into();
    info.agents = kernel.0.config.agents();
    info.variables = named_variables(&kernel.0.config.config());
    let clients = kernel.clients().list().into_iter().map(|connected| {
        let operator = connected.principal.authority() != Authority::User;
        let mut client = KernelClient::new(operator);
        client.agent = agent(&connected.principal);
        let subject = connected.principal.subject();
        client.subject = (subject != Principal::local().subject()).then(|| subject.to_string());
        client.tenant = tenant(&connected.principal);
        client.since = Some(connected.since);
        client.transport = Some(connected.transport.as_str().to_owned());
        client.last_seen = connected.last_seen;
        client
    });
    info.clients = clients.collect();
    Ok(info)
}

const LOG_REMOVED: &str = "the file of the audit log was removed, so calls are refused; move it back, or stop the kernel, and restore the file or name another `dir` below `[kernel.audit]`";

/// The finding about a database of the kernel's state that another program has removed or replaced.
const STATE_REMOVED: &str = "`state.db` was removed or replaced, so changes are refused, and access entries, permissions and approved definitions are lost when the kernel stops; run `mgp stop`, remove `state.db-wal` and `state.db-shm`, and restore `state.db` from a back-up together with its `state.db-wal`";

/// The finding about a write-ahead log of that database that another program has removed or replaced.
const STATE_LOG_REMOVED: &str = "`state.db-wal` was removed or replaced, so changes and calls are refused; restart the kernel: run `mgp stop`, which loses no change";

fn audit_finding(kernel: &Kernel) -> Option<KernelFinding> {
    let removed = || kernel.governance().log()?.is_removed().then(|| LOG_REMOVED.to_owned());
    Some(KernelFinding::new("error", audit_failure(kernel).or_else(removed)?))
}

/// Returns the reason as a text if the audit log cannot be written. In this state, the kernel refuses every call.
pub(super) fn audit_failure(kernel: &Kernel) -> Option<String> {
    let failure = kernel.governance().log()?.failure()?;
    let reason = failure.source().map_or_else(|| failure.to_string(), ToString::to_string);
    Some(format!("the audit log cannot be written, so every call is refused: {reason}"))
}

pub(super) async fn sessions(
    kernel: Kernel,
    _: Context,
    params: KernelSessionsParams,
) -> Result<KernelSessionsResult, RpcError> {
    let wanted = params.agent_id.as_deref();
    let is_wanted = |principal: &Principal| {
        let agent = principal.as_agent().map(AgentId::as_str);
        wanted.is_none_or(|wanted| agent == Some(wanted))
    };
    let clients = kernel.clients().list();
    let mut result = KernelSessionsResult::new();
    for (cx, since) in kernel.0.fleet.context().callers.sessions() {
        if !is_wanted(&cx.principal) {
            continue;
        }
        let transport = match cx.scope.kind() {
            ScopeKind::Session => Some(ClientTransport::Http),
            _ => clients
                .iter()
                .find(|one| one.transport != ClientTransport::Http && one.principal == cx.principal)
                .map(|one| one.transport),
        };
        let mut session = session(&kernel, &cx)?;
        session.transport = transport.map(|transport| transport.as_str().to_owned());
        session.since = Some(since);
        result.sessions.push(session);
    }
    for recent in kernel.clients().recent() {
        if !is_wanted(&recent.principal) {
            continue;
        }
        // A caller over HTTP without a session keeps its tools under a session handle. The kernel does not know the
        // handle here, so it shows a session without tools.
        let scope = Scope::new(ScopeKind::Request);
        let cx = Context::new(Peer::none(), scope, recent.principal);
        let mut session = session(&kernel, &cx)?;
        session.transport = Some(recent.transport.as_str().to_owned());
        (session.since, session.last_seen) = (Some(recent.since), recent.last_seen);
        result.sessions.push(session);
    }
    result.sessions.sort_by(|one, other| one.agent_id.cmp(&other.agent_id));
    Ok(result)
}

pub(super) async fn stop(
    kernel: Kernel,
    cx: Context,
    params: KernelStopParams,
) -> Result<KernelStopResult, RpcError> {
    // Stop even if the request cannot be recorded: a restart may be the only way to repair the audit log.
    if let Err(error) = record(&kernel, &cx, None, KernelStop::METHOD).await {
        tracing::error!(%error, "the request to stop could not be recorded");
    }
    kernel.request_stop(params.timeout_ms.map(Duration::from_millis));
    Ok(KernelStopResult::new(true))
}

pub(super) async fn reload(
    kernel: Kernel,
    cx: Context,
    params: KernelReloadParams,
) -> Result<KernelReloadResult, RpcError> {
    record(&kernel, &cx, None, KernelReload::METHOD).await?;
    for tenant in &params.forget_tenants {
        let tenant = TenantId::from(&**tenant);
        let context = kernel.0.fleet.context();
        // End the sessions first, because their running calls could store results after the removal.
        context.callers.end_sessions(&tenant);
        if let Some(history) = kernel.index().history() {
            history.erase(Erase::Tenant(&tenant)).await?;
        }
        context.calls.forget_tenant(&tenant).await?;
        context.events.hub().end_subscriptions(&tenant, None).await?;
        forget_callers(&kernel, &tenant);
    }
    // The removal of a tenant changes no configuration, so it must succeed even while a configuration file is invalid.
    if !params.forget_tenants.is_empty() && params.forget.is_empty() {
        return Ok(KernelReloadResult::new());
    }
    let mut result = kernel.reload_by(&cx.principal).await?;
    for id in &params.forget {
        if kernel.forget_server(&ServerId::from(&**id)).await? {
            result.forgotten.push(id.clone());
        }
    }
    Ok(result)
}

/// Removes what the kernel has in memory for the callers of a removed tenant, and stops their instances of servers.
fn forget_callers(kernel: &Kernel, tenant: &TenantId) {
    kernel.clients().forget_tenant(tenant);
    let context = kernel.0.fleet.context();
    context.tasks.remove_tenant(tenant);
    context.references.forget_tenant(tenant);
    let parts = kernel.0.dispatcher.parts();
    parts.results.forget_tenant(tenant);
    parts.sessions.forget_tenant(tenant);
    for server in kernel.0.fleet.all().values() {
        server.forget_tenant(tenant);
    }
}

fn agent(principal: &Principal) -> Option<String> {
    principal.as_agent().map(AgentId::to_string)
}

/// Returns the tenant of a client, unless it is the local one.
fn tenant(principal: &Principal) -> Option<String> {
    let tenant = principal.tenant();
    (tenant != Principal::local().tenant()).then(|| tenant.to_string())
}

/// Returns the session of a caller: the tools that the caller has in its context.
fn session(kernel: &Kernel, cx: &Context) -> Result<KernelSession, RpcError> {
    let parts = kernel.0.dispatcher.parts();
    let caller = parts.search.caller(cx);
    let session = parts.sessions.find(cx, None)?;
    let view = parts.sessions.view(&cx.principal, session.as_ref(), kernel.index(), &caller);
    let tools = view.result(|tool| name_for(tool, kernel.index(), &caller));
    let mut session = KernelSession::new(view.total_tokens, view.max_tokens);
    (session.agent_id, session.tenant) = (agent(&cx.principal), tenant(&cx.principal));
    (session.pinned, session.cached) = (tools.pinned, tools.cached);
    Ok(session)
}
