//! The methods of the event hub, for callers of the kernel.

use futures_util::future::Either;
use mgp_server_sdk::EventHub;
use mgp_types::method::{EventsSubscribe, Request as _};
use mgp_types::mgp::SubscribeEventsParams;
use mgp_types::service::{Call, Router, Stack};

use super::KernelEvents;
use super::by_name::MAX_REQUESTED;

impl KernelEvents {
    /// Returns a router with the methods of the hub. Before the hub handles a request to subscribe, the kernel
    /// subscribes to the named channels at servers that accept no patterns, if the caller may see the events of the
    /// server.
    pub(crate) fn router(&self) -> Router {
        let router = self.hub().router();
        let Some(subscribe) = router.get(EventsSubscribe::METHOD).cloned() else { return router };
        let events = self.clone();
        let stack = Stack::from_fn(move |call: Call| {
            let named = named_in(&call);
            let (events, subscribe, cx) = (events.clone(), subscribe.clone(), call.cx().clone());
            let before = events.connections_by_name();
            let asked = events.ask_for(&cx, &named);
            // If no answer is awaited, pass the call on now, so that calls keep their order.
            let call = if asked.is_empty() {
                Either::Right(subscribe.send(call))
            } else {
                Either::Left(call)
            };
            async move {
                let answer = match call {
                    Either::Right(sent) => sent.await,
                    Either::Left(call) => {
                        events.wait_for(&asked, &named).await;
                        subscribe.send(call).await
                    }
                };
                // A server that connected meanwhile may lack these channels: the hub did not know this subscription
                // yet, so the kernel requested only channels of other subscribers. Ask it now.
                if events.connections_by_name() != before {
                    events.ask_for(&cx, &named);
                }
                answer
            }
        });
        router.route(EventsSubscribe::METHOD, stack)
    }
}

/// Returns the names of channels in a request to subscribe, without patterns. Returns an empty list if the hub will
/// refuse the request.
fn named_in(call: &Call) -> Vec<String> {
    let params = call.params().get::<SubscribeEventsParams>();
    let channels = params.map(|params| params.channels).unwrap_or_default();
    if channels.len() > MAX_REQUESTED { Vec::new() } else { EventHub::names_in(&channels) }
}
