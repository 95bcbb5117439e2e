//! The methods for events (MGP §13.2, §13.3).

use mgp_types::method::{EventsChannels, EventsReplay, EventsSubscribe, EventsUnsubscribe};
use mgp_types::mgp::EventChannelsResult;
use mgp_types::service::Router;

use super::EventHub;

impl EventHub {
    /// Returns a router for the methods by which callers subscribe, unsubscribe, replay events and list channels.
    #[must_use]
    pub fn router(&self) -> Router {
        let (subscribing, ending, replaying, listing) =
            (self.clone(), self.clone(), self.clone(), self.clone());
        Router::new()
            .on::<EventsSubscribe, _, _>(move |cx, params| {
                let hub = subscribing.clone();
                async move { hub.subscribe(&cx, &params).await }
            })
            .on::<EventsUnsubscribe, _, _>(move |cx, params| {
                let hub = ending.clone();
                async move { Ok(hub.unsubscribe(&cx.principal, params.subscription_id).await) }
            })
            .on::<EventsReplay, _, _>(move |cx, params| {
                let hub = replaying.clone();
                async move { hub.replay(&cx, params).await }
            })
            .on::<EventsChannels, _, _>(move |cx, _| {
                let channels = listing.channels(&cx);
                async move { Ok(EventChannelsResult::new(channels)) }
            })
    }
}
