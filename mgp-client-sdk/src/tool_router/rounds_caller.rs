//! A modern caller, which answers questions with its next request. Until then the call is parked: it waits and
//! continues to run.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mgp_lifecycle::TaskTicket;
use mgp_types::mcp::Era;
use mgp_types::service::{
    BoxFuture, Call, CallerAccess, CallerChannel, Context, Outlet, Peer, Recheck, Reply, ServerId,
};
use mgp_types::{ErrorCode, Payload, RpcError, random_name};
use tokio::time::sleep;

use super::callee_rounds::upstream_key;
use super::hop::send;
use super::parked_call::{ParkedCall, ParkedEvent};
use super::parked_calls::{ParkedCalls, ParkedGuard};
use super::round_channel::RoundChannel;
use super::round_outlet::RoundOutlet;
use super::task_waiter::TaskWaiter;
use crate::client::Client;
use crate::supervised::TaskHold;
use crate::wire::{check_pages, required_pages};

/// The key of the parked call's id in the state that is kept between rounds of the caller.
const PARKED_KEY: &str = "hop.parked";

/// The maximum time between two repeats of a call that waits for the user's visit to a page.
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// Returns the id of the call that is parked since an earlier round.
pub(super) fn parked_name(asker: &dyn CallerChannel) -> Option<String> {
    asker.kept(PARKED_KEY)?.get().ok()?
}

/// A modern caller that answers questions with its next request.
pub(super) struct RoundsCaller<'a> {
    cx: &'a Context,
    asker: Arc<dyn CallerChannel>,
    parked_calls: &'a ParkedCalls,
}

impl<'a> RoundsCaller<'a> {
    pub(super) fn new(
        cx: &'a Context,
        asker: Arc<dyn CallerChannel>,
        parked_calls: &'a ParkedCalls,
    ) -> Self {
        Self { cx, asker, parked_calls }
    }

    /// Returns the caller of a call to a modern callee; `None` if the caller answers questions of the callee's task
    /// during its own request, or in a task of this process.
    pub(super) fn of(cx: &'a Context, parked_calls: &'a ParkedCalls) -> Option<Self> {
        let CallerAccess::Channel(asker) = &cx.caller_access else { return None };
        let answers_later = cx.caller.era == Era::Modern && TaskTicket::of(cx).is_none();
        answers_later.then(|| Self::new(cx, Arc::clone(asker), parked_calls))
    }

    pub(super) fn parked(&self) -> Option<String> {
        parked_name(&*self.asker)
    }

    pub(super) fn forget_parked(&self) {
        self.asker.keep(PARKED_KEY, &Payload::from_trusted("null"));
    }

    /// Sends a call, or continues the parked call, and waits for its task. The call is parked while the task asks, so
    /// that the caller's next round continues this task instead of starting another task.
    pub(super) async fn send(
        &self,
        client: &Client,
        mut call: Call,
        hold: Option<TaskHold>,
        parked: Option<String>,
    ) -> Result<Reply, RpcError> {
        let running = if let Some(name) = &parked {
            self.parked_calls.take_allowed(name, self.cx)?
        } else {
            let outlet = Arc::new(RoundOutlet::new(self.cx));
            let channel = Arc::new(RoundChannel::new(Arc::clone(&self.asker)));
            let (sink, own) = (Arc::clone(&outlet), Arc::clone(&channel));
            let (recheck, size) = (Recheck::default(), size_of_arguments(&call));
            call.cx_mut().extensions.insert(recheck.clone());
            let start = |asker| -> BoxFuture<'static, Result<Reply, RpcError>> {
                // The waiter for the task asks through the channel of the parked call. The layers that ask before the
                // call becomes a task use the caller's own channel, which ends the round.
                let mut cx = self.cx.clone();
                (cx.caller_access, cx.outlet) = (CallerAccess::Channel(asker), Outlet::new(sink));
                call.cx_mut().outlet = cx.outlet.clone();
                call.cx_mut().caller_access = CallerAccess::Channel(own);
                let waiter = TaskWaiter::new(client, &cx);
                call.cx_mut().extensions.insert(waiter.clone());
                let sending = client.forwarding().send(call);
                Box::pin(async move {
                    let _hold = hold;
                    waiter.result(sending.await?).await
                })
            };
            let call = ParkedCall::inline(self.cx.principal.clone(), start);
            let mut call = call.with_caller(outlet, recheck, size);
            call.channel = Some(channel);
            call
        };
        self.finish(running, parked, None).await
    }

    /// Waits for the end of a call, and parks the call while it waits for answers of the caller. With `server`, the
    /// questions come from this callee, and `upstream_key` makes the keys under which the caller is asked. Otherwise
    /// the keys stay unchanged.
    async fn finish(
        &self,
        mut running: ParkedCall,
        mut name: Option<String>,
        server: Option<&ServerId>,
    ) -> Result<Reply, RpcError> {
        loop {
            running.outlet().set(self.cx.outlet.clone());
            let asks = match running.next().await {
                ParkedEvent::Done(outcome) => {
                    if name.is_some() {
                        // The call has ended, so a later round of the caller must not look for it.
                        self.forget_parked();
                        running.outlet().move_members(self.cx);
                    }
                    return outcome;
                }
                ParkedEvent::Asks(asks) => asks,
            };
            // Store the call before asking the caller, because this future is dropped when the round ends.
            running.outlet().set(Outlet::none());
            let known = name.take().map_or_else(random_name, Ok)?;
            let name: &str = name.insert(known);
            let parked = ParkedGuard::put(self.parked_calls, name, running, self.cx);
            self.asker.keep(PARKED_KEY, &Payload::of(name)?);
            let answers = asks.into_iter().map(|(asked, ask)| {
                let key = match server {
                    Some(server) => upstream_key(server, 0, &asked, &[]),
                    None => asked.clone(),
                };
                async move { (asked, self.cx.ask_again(&key, ask).await) }
            });
            let answers = join_all(answers).await;
            running = parked.take()?;
            for (key, answer) in answers {
                running.answer(&key, answer);
            }
        }
    }
}

/// Sends a call of a modern caller to a legacy callee; the call is parked while it waits for answers of the caller.
pub(super) async fn send_parked(
    server: ServerId,
    client: Client,
    peer: Peer,
    parked_calls: ParkedCalls,
    call: Call,
) -> Result<Reply, RpcError> {
    let cx = call.cx().clone();
    let CallerAccess::Channel(asker) = cx.caller_access.clone() else {
        let refused = match send(&client, client.forwarding(), call.forward(peer)).await {
            Err(error) => check_pages(error, cx.server.as_ref()),
            reply => return reply,
        };
        if let Some(page) = required_pages(&refused).and_then(|pages| pages.into_iter().next()) {
            client.ask_for_visit(&cx, (0, 0), page).await?;
        }
        return Err(refused);
    };
    let caller = RoundsCaller::new(&cx, asker, &parked_calls);
    let name = caller.parked();
    let running = if let Some(name) = &name {
        parked_calls.take_allowed(name, &cx)?
    } else {
        let outlet = Arc::new(RoundOutlet::new(&cx));
        let (sink, recheck) = (Arc::clone(&outlet), Recheck::default());
        let (checks, size) = (recheck.clone(), size_of_arguments(&call));
        let start = |asker| -> BoxFuture<'static, Result<Reply, RpcError>> {
            let mut forwarded = call.forward(peer);
            forwarded.cx_mut().caller_access = CallerAccess::Channel(asker);
            forwarded.cx_mut().outlet = Outlet::new(sink);
            forwarded.cx_mut().extensions.insert(checks);
            Box::pin(send_until_visited(client, forwarded))
        };
        ParkedCall::start(cx.principal.clone(), start).with_caller(outlet, recheck, size)
    };
    caller.finish(running, name, Some(&server)).await
}

/// Returns the length of a call's arguments, in bytes.
fn size_of_arguments(call: &Call) -> usize {
    call.params().arguments().map_or(0, str::len)
}

/// Sends a parked call to a legacy callee. If the callee refuses it with code −32042 (URL elicitation required), asks
/// the caller to visit the pages that the refusal names, as a modern callee does, and sends the call again. The user is
/// not asked again about a page that he agreed to visit. Because the visit can take a while, all repeats but the first
/// are sent after a pause, which grows from one second to [`MAX_PAUSE`].
async fn send_until_visited(client: Client, call: Call) -> Result<Reply, RpcError> {
    let (mut round, mut visited) = (0, Vec::new());
    let mut pause = Duration::ZERO;
    loop {
        // A parked call can outlast the trace span of its caller's request, so it has its own trace span.
        let refused = match send(&client, client.stack(), call.clone()).await {
            Err(error) => check_pages(error, call.cx().server.as_ref()),
            reply => return reply,
        };
        let Some(mut pages) = required_pages(&refused) else { return Err(refused) };
        if round >= client.max_rounds() || pages.is_empty() {
            return Err(RpcError::new(ErrorCode::UPSTREAM_ERROR, refused.message().to_owned()));
        }
        pages.retain(|page| !visited.contains(&page.url));
        visited.extend(pages.iter().map(|page| page.url.clone()));
        let cx = call.cx();
        let visits = pages.into_iter().enumerate();
        let asking = visits.map(|(at, page)| client.ask_for_visit(cx, (round, at), page));
        join_all(asking).await.into_iter().collect::<Result<(), _>>()?;
        sleep(pause).await;
        pause = (pause * 2).clamp(Duration::from_secs(1), MAX_PAUSE);
        round += 1;
    }
}
