//! The servers: what they are, and their beginnings and ends.
//!
//! Applies to: inbound.

use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::method::{
    KernelServers, KernelServersDrain, KernelServersLogs, KernelServersRestart, KernelServersStart,
    KernelServersStop, Request,
};
use mgp_types::mgp::{
    KernelServer, KernelServerLogsResult, KernelServerParams, KernelServerResult,
    KernelServersParams, KernelServersResult, ServerState, TrustLevel,
};
use mgp_types::service::Context;

use super::Desk;
use crate::fleet::Fleet;
use crate::handle::Kernel;

/// How long a server that is stopped at once has for what runs there, before it is told that it still stops.
const AT_ONCE: Duration = Duration::from_secs(5);

/// What is done with a server.
#[derive(Clone, Copy)]
enum Deed {
    Start,
    Stop,
    Restart,
    Drain,
}

pub(super) fn on(desk: Desk) -> Desk {
    desk.reads::<KernelServers, _, _>(async |kernel, _, params| kernel.list(&params))
        .reads::<KernelServersLogs, _, _>(async |kernel, _, params| {
            let node = kernel.meant(&params.server_id)?;
            let most = params.lines.unwrap_or(u64::MAX);
            let mut result = KernelServerLogsResult::new(params.server_id);
            result.lines = node.diary().lines(usize::try_from(most).unwrap_or(usize::MAX));
            Ok(result)
        })
        .changes::<KernelServersStart, _, _>(async |kernel, cx, params| {
            kernel.does(Deed::Start, &cx, params).await
        })
        .changes::<KernelServersStop, _, _>(async |kernel, cx, params| {
            kernel.does(Deed::Stop, &cx, params).await
        })
        .changes::<KernelServersRestart, _, _>(async |kernel, cx, params| {
            kernel.does(Deed::Restart, &cx, params).await
        })
        .changes::<KernelServersDrain, _, _>(async |kernel, cx, params| {
            kernel.does(Deed::Drain, &cx, params).await
        })
}

impl Kernel {
    fn list(&self, params: &KernelServersParams) -> Result<KernelServersResult, RpcError> {
        let mut result = KernelServersResult::new();
        result.servers = self.servers();
        result.servers.extend(self.not_running());
        if let Some(id) = &params.server_id {
            result.servers.retain(|server| server.id == *id);
            if result.servers.is_empty() {
                self.meant(id)?;
            }
        }
        Ok(result)
    }

    /// What is registered and not in the fleet: it waits for an operator, or leaves.
    fn not_running(&self) -> impl Iterator<Item = KernelServer> {
        let fleet = self.0.fleet.clone();
        let known = self.registrations().fleet().known().into_iter().map(|known| known.summary);
        known.filter(move |known| fleet.get(&known.id).is_none()).map(|known| {
            let word = known.extra.decode::<String>("registration").ok().flatten();
            let trust = known.trust_level.unwrap_or(TrustLevel::Sandboxed);
            let mut server =
                KernelServer::new(known.id, known.status, "nothing", trust, 0_u64, "registered");
            server.error = Some(match word.as_deref() {
                Some("pending_approval") => {
                    "it waits for an operator; see `mgp approvals ls`".to_owned()
                }
                word => format!("its registration is {}", word.unwrap_or("not known")),
            });
            server
        })
    }

    async fn does(
        &self,
        deed: Deed,
        cx: &Context,
        params: KernelServerParams,
    ) -> Result<KernelServerResult, RpcError> {
        let node = self.meant(&params.server_id)?;
        let within = params.timeout_ms.map(Duration::from_millis);
        self.record(cx, Some(node.id()), deed.method()).await?;
        let status: ServerState = match deed {
            Deed::Start => Fleet::start(&node, within).await,
            Deed::Restart => Fleet::renew(&node, within).await,
            Deed::Stop => Fleet::halt(&node, within.or(Some(AT_ONCE))).await,
            Deed::Drain => Fleet::halt(&node, within).await,
        };
        Ok(KernelServerResult::new(params.server_id, status))
    }
}

impl Deed {
    fn method(self) -> &'static str {
        match self {
            Self::Start => KernelServersStart::METHOD,
            Self::Stop => KernelServersStop::METHOD,
            Self::Restart => KernelServersRestart::METHOD,
            Self::Drain => KernelServersDrain::METHOD,
        }
    }
}
