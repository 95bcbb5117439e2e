//! Log messages of servers: to the caller they belong to, under the server's name (MCP logging; DESIGN §5).
//!
//! Applies to: outbound.

use std::task::{Context as Task, Poll};

use mgp_server_sdk::Logger;
use mgp_types::mcp::{Era, LogLevel, LogMessageParams, SetLevelParams, key};
use mgp_types::method::{LogMessage, LoggingSetLevel};
use mgp_types::service::{Asking, Call, Context, Item, Principal, Reply, Room, ServerId, Stack};
use mgp_types::{Payload, RpcError};
use tower_layer::Layer;
use tower_service::Service;

use super::fleet::{Ear, Ground, Node, Users};
use mgp_client_sdk::{Client, gateway};

/// Takes a message of a server; `of` is whose instance it is, where it is not everyone's.
///
/// What comes while one principal has calls there is for those calls. What comes in between is for the clients of the
/// one principal that sees the server, unless it has worked for another one too. Anything else would show one caller
/// what another's call wrote, so it is only in the log of the kernel.
pub(super) fn told(
    ear: &Ear,
    of: Option<&Principal>,
    users: &Users,
    cx: &Context,
    mut message: LogMessageParams,
) {
    let level = message.level;
    let logger = message.logger.as_deref();
    let name = logger.map_or_else(|| ear.id().to_string(), |name| format!("{}/{name}", ear.id()));
    message.logger = Some(name);
    message.meta = None;
    let in_flight = cx.peer.all_in_flight();
    let own = cx.scope.id();
    let calls: Vec<_> = in_flight
        .iter()
        .filter(|call| call.cx.scope.id() != own || !matches!(call.cx.asking, Asking::Nobody))
        .collect();
    let Ok(params) = Payload::of(&message) else { return };
    if let Some(first) = calls.first() {
        let is_one = calls.iter().all(|call| {
            call.cx.principal == first.cx.principal && call.cx.scope.id() == first.cx.scope.id()
        });
        if !is_one {
            tracing::debug!(server = %ear.id(), "a log message of several callers' calls is shown to none");
            return;
        }
        // One call tells it: the client has one log, however many calls it makes.
        let taker = calls.iter().find(|call| Logger::of(&call.cx).wants(level));
        if let Some(call) = taker
            && call.inbox.push(Item::Log(params)) == Room::Full
        {
            tracing::trace!(server = %ear.id(), "a log message was dropped");
        }
        return;
    }
    let hearers = ear.hearers(of);
    let Some(first) = hearers.first() else { return };
    let is_another = |cx: &Context| cx.principal != first.principal;
    if hearers.iter().any(is_another) || !users.are_at_most(&first.principal) {
        tracing::debug!(server = %ear.id(), "a log message of no call is shown to none of several callers");
        return;
    }
    for cx in hearers.into_iter().filter(|cx| Logger::is_heard_by(&cx.scope, level)) {
        if let Ok(call) = Call::tell::<LogMessage>(&message, cx.clone()) {
            // It may wait for a client that reads slowly.
            tokio::spawn(async move { cx.peer.send(call).await.map(drop) });
        }
    }
}

/// Asks a legacy server for the messages that any of those who see it wants.
pub(super) async fn ask(node: &Node, ground: &Ground) {
    let access = ground.governance.access();
    let sees = |cx: &Context| access.sees_server(cx, node.id()).is_ok();
    // Servers send what they find right until somebody asks for another level.
    let Some(level) = ground.callers.level(sees) else { return };
    if !node.asks_level(Some(level)) {
        return;
    }
    for client in node.running() {
        ask_one(&client, node.id(), level).await;
    }
}

/// Asks an instance that has just come for the messages that its principal wants.
pub(super) async fn ask_own(client: &Client, ear: &Ear, of: &Principal, ground: &Ground) {
    let hears = |cx: &Context| cx.principal == *of && ear.is_heard_by(cx);
    if let Some(level) = ground.callers.level(hears) {
        ask_one(client, ear.id(), level).await;
    }
}

async fn ask_one(client: &Client, server: &ServerId, level: LogLevel) {
    if client.server().era == Era::Modern || client.capabilities().logging.is_none() {
        return;
    }
    let asked = Call::ask::<LoggingSetLevel>(&SetLevelParams::new(level), client.context());
    let Ok(call) = asked else { return };
    if let Err(error) = gateway::ungated(&client).send(call).await {
        tracing::debug!(%server, %error, "it did not take the level of log messages");
    }
}

/// Asks a modern server for log messages with each call whose caller takes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelLayer;

impl Layer<Stack> for LevelLayer {
    type Service = Level;

    fn layer(&self, inner: Stack) -> Level {
        Level(inner)
    }
}

/// Service of [`LevelLayer`].
#[derive(Clone)]
pub(super) struct Level(Stack);

impl Service<Call> for Level {
    type Response = Reply;
    type Error = RpcError;
    type Future = <Stack as Service<Call>>::Future;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.0.poll_ready(task)
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        if call.cx().callee.era == Era::Modern
            && let Some(level) = Logger::level_of(call.cx())
            && let Ok(level) = Payload::of(&level)
        {
            call.hop_mut().meta.push((key::LOG_LEVEL.into(), level));
        }
        self.0.send(call)
    }
}
