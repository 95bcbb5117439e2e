//! Forwards each log message of a server to the client whose call it belongs to, under the server's name (MCP logging).
//!
//! Applies to: outbound.

use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::{Client, gateway};
use mgp_server_sdk::Logger;
use mgp_types::mcp::{Era, LogLevel, LogMessageParams, SetLevelParams, key};
use mgp_types::method::{LogMessage, LoggingSetLevel};
use mgp_types::service::{
    Call, CallerAccess, Context, MgpService, OutletItem, Principal, QueueRoom, Reply, ServerId,
};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError};
use tokio::time::timeout;
use tower_service::Service;

use super::notifier::ServerNotifier;
use crate::kernel_hops;
use crate::server_answer::is_too_deep;

/// The time limit for a server's answer to the request of a log level. The next change of the level waits for it.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The principals whose calls a server has run since it was added: none, exactly one, or several.
///
/// A log message that belongs to no call can reveal data of each of these principals.
#[derive(Clone, Debug, Default)]
pub(super) struct ServedPrincipals(Arc<Mutex<Served>>);

#[derive(Debug, Default)]
enum Served {
    #[default]
    None,
    One(Principal),
    Several,
}

impl ServedPrincipals {
    pub(super) fn insert(&self, principal: &Principal) {
        let mut served = self.0.lock();
        match &*served {
            Served::None => *served = Served::One(principal.clone()),
            Served::One(one) if one != principal => *served = Served::Several,
            Served::One(_) | Served::Several => {}
        }
    }

    /// Returns whether the server has run no calls, or only calls of this principal.
    fn is_at_most(&self, principal: &Principal) -> bool {
        match &*self.0.lock() {
            Served::None => true,
            Served::One(one) => one == principal,
            Served::Several => false,
        }
    }
}

/// Forwards a log message of a server; `owner` is the principal of an isolated instance.
///
/// While exactly one client has calls in flight at the server, the message belongs to those calls. Between calls it
/// goes to the clients that see the server, if all of them have the same principal and the server has run no calls of
/// another. Any other message is dropped, because it could reveal data of one caller's call to another caller.
pub(super) fn forward_log(
    notifier: &ServerNotifier,
    owner: Option<&Principal>,
    served: &ServedPrincipals,
    cx: &Context,
    mut message: LogMessageParams,
) {
    let level = message.level;
    let server = notifier.server();
    message.logger = Some(match message.logger.as_deref() {
        Some(logger) => format!("{server}/{logger}"),
        None => server.to_string(),
    });
    message.meta = None;
    let in_flight = cx.peer.all_in_flight();
    let own = cx.scope.id();
    let calls: Vec<_> = in_flight
        .iter()
        .filter(|call| {
            call.cx.scope.id() != own || !matches!(call.cx.caller_access, CallerAccess::Unavailable)
        })
        .collect();
    let Ok(params) = Payload::of(&message) else { return };
    if is_too_deep(&params) {
        tracing::debug!(%server, "log message dropped: its data is nested too deeply for clients");
        return;
    }
    if let Some(first) = calls.first() {
        let is_one = calls.iter().all(|call| {
            call.cx.principal == first.cx.principal
                && call.cx.scope.may_be_one_client(&first.cx.scope)
        });
        if !is_one {
            tracing::debug!(%server, "log message dropped: calls of several callers are in flight");
            return;
        }
        // All calls of a client share one log, so send the message over only one call: the newest, because the caller
        // of an older one may never return with the answer to a question.
        let taker = calls.iter().rev().find(|call| Logger::of(&call.cx).wants(level));
        if let Some(call) = taker
            && call.inbox.push(OutletItem::Log(params)) == QueueRoom::Full
        {
            tracing::trace!(%server, "log message dropped: the client reads too slowly");
        }
        return;
    }
    let clients = notifier.clients(owner);
    let Some(first) = clients.first() else { return };
    let is_another = |cx: &Context| cx.principal != first.principal;
    if clients.iter().any(is_another) || !served.is_at_most(&first.principal) {
        tracing::debug!(%server, "log message dropped: it belongs to no call, and there are several callers");
        return;
    }
    for cx in clients.into_iter().filter(|cx| Logger::is_sent_to(&cx.scope, level)) {
        if let Ok(call) = Call::tell::<LogMessage>(&message, cx.clone()) {
            // Send in a task, because sending can wait for a client that reads slowly.
            tokio::spawn(async move { cx.peer.send(call).await.map(drop) });
        }
    }
}

/// Sets the lowest log level in a legacy server; modern servers receive it with each call.
pub(super) async fn request_level(client: &Client, server: &ServerId, level: LogLevel) {
    if client.server().era == Era::Modern || client.capabilities().logging.is_none() {
        return;
    }
    let request = Call::ask::<LoggingSetLevel>(&SetLevelParams::new(level), client.context());
    let Ok(call) = request else { return };
    match timeout(LEVEL_TIMEOUT, gateway::ungated(client).send(call)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::debug!(%server, %error, "log level refused"),
        Err(_) => tracing::debug!(%server, ?LEVEL_TIMEOUT, "log level not answered"),
    }
}

/// Layer that adds the kernel's members to the `_meta` of a call: the log level that the caller wants if the server is
/// modern, and the number of kernels that the call has passed if the server is a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct HopMetaLayer;

mgp_types::layer_service! {
    /// Service of [`HopMetaLayer`].
    pub(super) HopMeta for HopMetaLayer
}

impl<S: MgpService> Service<Call> for HopMeta<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = S::Future;
    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> S::Future {
        if call.cx().callee.era == Era::Modern
            && let Some(level) = Logger::min_level(call.cx())
            && let Ok(level) = Payload::of(&level)
        {
            call.hop_mut().meta.push((key::LOG_LEVEL.into(), level));
        }
        let callee = Arc::clone(&call.cx().callee);
        kernel_hops::count(&mut call, &callee);
        self.inner.call(call)
    }
}
