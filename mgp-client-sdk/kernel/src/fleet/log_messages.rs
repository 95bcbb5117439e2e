//! Forwards the log messages of a server, under its name, to the clients that are allowed to receive them (MCP
//! logging).
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
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower_service::Service;

use super::notifier::ServerNotifier;
use crate::kernel_hops;
use crate::server_answer::is_too_deep;

/// The time limit for a server's answer to a request for a log level. The next such request waits for the answer.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum size of the log messages that belong to no call and are being sent to one client, in KiB. A single
/// message may be larger.
const MAX_UNSENT_KIBIBYTES: u32 = 4 * 1024;

/// The limit of [`MAX_UNSENT_KIBIBYTES`]; stored in the scope of the client. Without it, a server that logs faster than
/// the client reads would use more and more memory.
struct UnsentLogs(Arc<Semaphore>);

impl Default for UnsentLogs {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_UNSENT_KIBIBYTES as usize)))
    }
}

/// The principals whose calls a server has run since its addition: none, exactly one, or several.
///
/// A log message that belongs to no call can reveal data of any of these principals.
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

/// Forwards a log message of a server. `owner` is the principal that owns the isolated instance; `None` for the shared
/// instance.
///
/// While exactly one client has calls in flight at the server, the message goes to this client. While there are no
/// calls, it goes to the clients that see the server, if they all have the same principal and the server has run no
/// calls of other principals. Any other message is dropped, because it could reveal data of one caller to another.
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
        // All calls of a client share one log, so send the message over only one of them. Choose the newest call: a
        // call that waits for an answer to a question may never continue.
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
        send(cx, &message, params.as_str().len());
    }
}

/// Sends a log message of this size in a task, because sending can wait for a client that reads slowly. Drops the
/// message if too many bytes wait for the client already.
fn send(cx: Context, message: &LogMessageParams, bytes: usize) {
    let kibibytes = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX).min(MAX_UNSENT_KIBIBYTES);
    let unsent = Arc::clone(&cx.scope.state::<UnsentLogs>().0);
    let Ok(room) = unsent.try_acquire_many_owned(kibibytes) else {
        return tracing::trace!("log message dropped: the client reads too slowly");
    };
    if let Ok(call) = Call::tell::<LogMessage>(message, cx.clone()) {
        tokio::spawn(async move {
            let _room = room;
            cx.peer.send(call).await.map(drop)
        });
    }
}

/// Requests log messages from a legacy server, at this level or above. A modern server receives the level with each
/// call.
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

/// Layer that adds the kernel's members to the `_meta` of a call. A modern server receives the log level that the
/// caller wants. A server that is itself a kernel receives the number of kernels that the call has passed.
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
