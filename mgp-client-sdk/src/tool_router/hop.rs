//! Forwards a call from a caller to a server (the callee), for each pair of eras. In the modern era, a callee ends a
//! round by answering the call with questions, and the caller repeats the call with the answers.
//!
//! | caller | callee | a question of the callee |
//! |---|---|---|
//! | legacy | legacy | is a request, forwarded to the caller as a request |
//! | legacy | modern | ends a round: the router asks the caller, and repeats the call with the answer |
//! | modern | modern | ends a round on both sides; our state for the caller contains the callee's state |
//! | modern | modern | belongs to a task: the call is parked, i.e. waits until the caller repeats it with the answer |
//! | modern | legacy | is a request: the call is parked until the caller repeats it with the answer |
//! | modern | legacy | is an error that names pages to visit: the call is parked too, and sent again after the answer |

use std::sync::Arc;
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::mcp::Era;
use mgp_types::service::{BoxFuture, Call, CallerAccess, Context, Peer, Reply, ServerId, Stack};

use super::callee_rounds::request_in_rounds;
use super::parked_calls::ParkedCalls;
use super::rounds_caller::{RoundsCaller, parked_name, send_parked};
use super::task_waiter::TaskWaiter;
use crate::client::Client;
use crate::supervised::SupervisedClient;
use crate::wire::{CallerPeer, UrlElicitations, check_pages};

/// A route to one server.
#[derive(Clone)]
pub struct Hop {
    server: ServerId,
    destination: Destination,
    parked_calls: ParkedCalls,
}

#[derive(Clone)]
enum Destination {
    /// A single connection to the server.
    Client(Client),
    /// The current connection to a supervised server.
    Supervised(SupervisedClient),
}

impl Hop {
    /// Creates a hop (the way of calls to one server) over a connected client. `server` is the configured id, which
    /// identifies the server in all records and decisions.
    #[must_use]
    pub fn new(server: impl Into<ServerId>, client: Client) -> Self {
        Self {
            server: server.into(),
            destination: Destination::Client(client),
            parked_calls: ParkedCalls::default(),
        }
    }

    /// Creates a hop to a supervised server. While the server is not connected, its gates still check and record each
    /// call before the call is refused.
    #[must_use]
    pub fn supervised(server: impl Into<ServerId>, client: SupervisedClient) -> Self {
        Self {
            server: server.into(),
            destination: Destination::Supervised(client),
            parked_calls: ParkedCalls::default(),
        }
    }

    /// Limits the time in which modern callers can answer questions of the server. Default: 15 minutes. Questions that
    /// no person answers have at most 5 minutes.
    #[must_use]
    pub fn answer_timeout(self, at_most: Duration) -> Self {
        self.parked_calls.set_ttl(at_most);
        self
    }

    /// Returns the number of calls that wait for an answer of their modern caller.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.parked_calls.len()
    }

    /// Returns whether a request of a modern caller contains the answer to a question of a parked call, i.e. of a call
    /// that continues to run while it waits for this answer. Such a call continues without passing the gates again. The
    /// gates only check their earlier decision about the call again, with the credentials of this request.
    #[must_use]
    pub fn is_continued(cx: &Context) -> bool {
        cx.caller_access.channel().and_then(parked_name).is_some()
    }

    /// Cancels the parked call that waits for the answer in this request of its modern caller, e.g. because the caller
    /// has lost its access meanwhile. If the request is sent afterwards, it passes all gates as a new call.
    pub fn end_parked(&self, cx: &Context) {
        let CallerAccess::Channel(asker) = &cx.caller_access else { return };
        let caller = RoundsCaller::new(cx, Arc::clone(asker), &self.parked_calls);
        if caller.parked().is_some_and(|name| self.parked_calls.end(&name, &cx.principal)) {
            caller.forget_parked();
        }
    }

    /// Cancels all parked calls, e.g. because no caller can answer any more.
    pub fn end_all_parked(&self) {
        self.parked_calls.end_all();
    }

    /// Forwards a call to the server, and translates between the eras of the caller and the server.
    pub fn send(&self, mut call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        call.cx_mut().server = Some(self.server.clone());
        let client = match &self.destination {
            Destination::Client(client) => client.clone(),
            Destination::Supervised(server) => match server.client() {
                Ok(client) => client,
                Err(_) => return server.stack().send(call.forward(Peer::none())),
            },
        };
        let peer = client.peer().clone();
        let (caller_era, callee_era) = (call.cx().caller.era, client.server().era);
        let parked_calls = || self.parked_calls.clone();
        match (caller_era, callee_era) {
            (Era::Legacy, Era::Legacy) => send_legacy(&client, peer, call),
            (_, Era::Modern) => {
                Box::pin(request_in_rounds(self.server.clone(), client, parked_calls(), call))
            }
            (Era::Modern, Era::Legacy) => {
                Box::pin(send_parked(self.server.clone(), client, peer, parked_calls(), call))
            }
        }
    }
}

mgp_types::opaque_debug!(Hop { server });

/// A mark in the extensions of a call: if a legacy callee answers the call with a task, the [`Hop`] waits for the
/// task's result.
#[derive(Clone, Copy, Debug)]
pub struct AwaitLegacyTask;

/// Sends a call to a legacy callee, and waits for its task if that was requested.
pub(super) fn send(
    client: &Client,
    stack: &Stack,
    mut call: Call,
) -> BoxFuture<'static, Result<Reply, RpcError>> {
    if call.cx().extensions.get::<AwaitLegacyTask>().is_none() {
        return stack.send(call);
    }
    let waiter = TaskWaiter::new(client, call.cx());
    call.cx_mut().extensions.insert(waiter.clone());
    let sending = stack.send(call);
    Box::pin(async move { waiter.result(sending.await?).await })
}

/// Sends a call of a legacy caller to a legacy callee. Remembers a caller with elicitation if the callee refuses the
/// call until the user has visited a page, so that the caller can be notified after the visit.
fn send_legacy(
    client: &Client,
    peer: Peer,
    mut call: Call,
) -> BoxFuture<'static, Result<Reply, RpcError>> {
    if !call.cx().caller.accepts.elicitation {
        let server = call.cx().server.clone();
        let sending = send(client, client.forwarding(), call.forward(peer));
        return Box::pin(async move {
            sending.await.map_err(|error| check_pages(error, server.as_ref()))
        });
    }
    let (caller, scope) = (call.cx().clone(), client.scope().clone());
    if matches!(caller.caller_access, CallerAccess::Channel(_)) {
        call.cx_mut().extensions.insert(CallerPeer(caller.peer.clone()));
    }
    let sending = send(client, client.forwarding(), call.forward(peer));
    Box::pin(async move {
        let server = caller.server.as_ref();
        let outcome = sending.await.map_err(|error| check_pages(error, server));
        if let Err(error) = &outcome {
            scope.state::<UrlElicitations>().remember_refusal(error, &caller);
        }
        outcome
    })
}

#[cfg(test)]
mod tests {
    use mgp_lifecycle::{HandshakeLayer, ServerOffer};
    use mgp_types::mcp::Implementation;
    use mgp_types::service::{InputRequired, mock};
    use tower_layer::Layer as _;

    use super::*;
    use crate::test_client::TestClient;

    #[tokio::test]
    async fn a_callee_that_always_wants_one_more_round_comes_to_an_end() {
        let endless = Stack::from_fn(|_| async {
            let state = Some("more".to_owned());
            Ok(Reply::InputRequired(InputRequired { asks: Vec::new(), state }))
        });
        let offer = ServerOffer::new(Implementation::new("endless", "1"));
        let server = Stack::new(HandshakeLayer::new(offer).layer(endless));
        let client = TestClient::modern(server).await;
        let hop = Hop::new("endless", (*client).clone());
        let mut caller = mock::client(Stack::from_fn(move |call| hop.send(call)));
        let error = caller.request("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
        assert!(error.message().contains("more than 16 rounds"), "{error}");
    }
}
