//! The kernel itself: what it is, its sessions, another configuration, its end.
//!
//! Applies to: inbound.

use std::time::Duration;

use mgp_toolindex::name_for;
use mgp_types::RpcError;
use mgp_types::method::{KernelInfo, KernelReload, KernelSessions, KernelStop, Request};
use mgp_types::mgp::{
    KernelClient, KernelInfoResult, KernelSession, KernelSessionsParams, KernelSessionsResult,
    KernelStopResult,
};
use mgp_types::service::{AgentId, Authority, Context, Peer, Principal, Scope, ScopeKind};

use super::Desk;
use crate::clients::Carrier;
use crate::handle::Kernel;

pub(super) fn on(desk: Desk) -> Desk {
    desk.reads::<KernelInfo, _, _>(async |kernel, _, _| Ok(kernel.info()))
        .reads::<KernelSessions, _, _>(async |kernel, _, params| kernel.sessions(&params))
        .changes::<KernelStop, _, _>(async |kernel, cx, params| {
            kernel.record(&cx, None, KernelStop::METHOD).await?;
            kernel.ask_to_leave(params.timeout_ms.map(Duration::from_millis));
            Ok(KernelStopResult::new(true))
        })
        .changes::<KernelReload, _, _>(async |kernel, cx, _| {
            kernel.record(&cx, None, KernelReload::METHOD).await?;
            Ok(kernel.reload_by(&cx.principal).await?)
        })
}

fn agent(principal: &Principal) -> Option<String> {
    principal.as_agent().map(AgentId::to_string)
}

impl Kernel {
    fn info(&self) -> KernelInfoResult {
        let (reachable, servers) = (self.reachable(), self.0.fleet.all());
        let tools = servers.keys().map(|id| self.index().tools_of(id.as_str()).len() as u64);
        let mut info = KernelInfoResult::new(
            env!("CARGO_PKG_VERSION"),
            std::process::id(),
            self.began().clone(),
            servers.len() as u64,
            tools.sum::<u64>(),
        );
        let shown = |path: &std::path::PathBuf| path.display().to_string();
        info.state = reachable.state.as_ref().map(shown);
        info.socket = reachable.socket.as_ref().map(shown);
        info.http = reachable.http;
        info.config = match &self.0.current.origin {
            Some(origin) if reachable.config.is_empty() => {
                let there = origin.sources.files().filter(|file| file.exists());
                there.map(|file| file.display().to_string()).collect()
            }
            _ => reachable.config.iter().map(shown).collect(),
        };
        info.findings = self.0.current.findings().into();
        info.agents = self.0.current.agents();
        let clients = self.clients().list().into_iter().map(|connected| {
            let operator = connected.principal.authority() == Authority::Operator;
            let mut client = KernelClient::new(operator);
            client.agent = agent(&connected.principal);
            client.since = Some(connected.since);
            client.transport = Some(connected.carrier.as_str().to_owned());
            client.last_seen = connected.last_seen;
            client
        });
        info.clients = clients.collect();
        info
    }

    fn sessions(&self, params: &KernelSessionsParams) -> Result<KernelSessionsResult, RpcError> {
        let wanted = params.agent_id.as_deref();
        let is_wanted = |principal: &Principal| {
            let agent = principal.as_agent().map(AgentId::as_str);
            wanted.is_none_or(|wanted| agent == Some(wanted))
        };
        let clients = self.clients().list();
        let mut result = KernelSessionsResult::new();
        for (cx, since) in self.0.fleet.ground().callers.lasting() {
            if !is_wanted(&cx.principal) {
                continue;
            }
            let carrier = match cx.scope.kind() {
                ScopeKind::Session => Some(Carrier::Http),
                _ => clients
                    .iter()
                    .find(|one| one.carrier != Carrier::Http && one.principal == cx.principal)
                    .map(|one| one.carrier),
            };
            let mut session = self.session(&cx)?;
            session.transport = carrier.map(|carrier| carrier.as_str().to_owned());
            session.since = Some(since);
            result.sessions.push(session);
        }
        for lately in self.clients().lately() {
            if !is_wanted(&lately.principal) {
                continue;
            }
            // What it used it keeps itself, under a handle: here is what each of its calls begins with.
            let scope = Scope::new(ScopeKind::Request);
            let cx = Context::new(Peer::none(), scope, lately.principal);
            let mut session = self.session(&cx)?;
            session.transport = Some(lately.carrier.as_str().to_owned());
            (session.since, session.last_seen) = (Some(lately.since), lately.last_seen);
            result.sessions.push(session);
        }
        result.sessions.sort_by(|one, other| one.agent_id.cmp(&other.agent_id));
        Ok(result)
    }

    /// What a caller has in context.
    fn session(&self, cx: &Context) -> Result<KernelSession, RpcError> {
        let parts = self.0.switch.parts();
        let caller = parts.search.caller(cx);
        let session = parts.sessions.find(cx, None)?;
        let view = parts.sessions.view(&cx.principal, session.as_ref(), self.index(), &caller);
        let told = view.result(|tool| name_for(tool, self.index(), &caller));
        let mut session = KernelSession::new(view.total_tokens, view.max_tokens);
        session.agent_id = agent(&cx.principal);
        (session.pinned, session.cached) = (told.pinned, told.cached);
        Ok(session)
    }
}
