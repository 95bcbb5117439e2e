//! The methods for events (MGP §13.2, §13.3).

use std::collections::BTreeSet;
use std::sync::Arc;

use mgp_types::method::{EventsChannels, EventsReplay, EventsSubscribe, EventsUnsubscribe};
use mgp_types::mgp::EventChannelsResult;
use mgp_types::service::{Context, Router};
use tokio::time::Instant;

use super::pattern::Pattern;
use super::subscription::Subscription;
use super::{EventHub, EventSubject};

impl EventHub {
    /// Returns whether a caller may see events that relate to a subject.
    #[must_use]
    pub fn sees(&self, cx: &Context, subject: &EventSubject) -> bool {
        self.0.sees(cx, subject)
    }

    /// Returns those of the requested channels that are names, and not patterns such as `model.*`. Returns an empty
    /// list if any requested channel is not valid.
    #[must_use]
    pub fn names_in(requested: &[String]) -> Vec<String> {
        let parsed: Result<Vec<_>, _> = requested.iter().map(|text| Pattern::parse(text)).collect();
        names_of(parsed.unwrap_or_default().iter())
    }

    /// Returns the channels that subscriptions name, without patterns such as `model.*`. If `subject` is set, considers
    /// only subscriptions whose owners may see events that relate to it.
    #[must_use]
    pub fn named_channels(&self, subject: Option<&EventSubject>) -> Vec<String> {
        let (table, now) = (self.0.table.read(), Instant::now());
        let counts = |one: &&Arc<Subscription>| {
            !one.is_expired(now) && subject.is_none_or(|subject| one.may_see(&self.0, subject))
        };
        names_of(table.all().filter(counts).flat_map(|one| &one.patterns))
    }

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

/// Returns the patterns that are names of channels, sorted and without repetition.
fn names_of<'a>(patterns: impl Iterator<Item = &'a Pattern>) -> Vec<String> {
    let names = patterns.filter_map(|pattern| match pattern {
        Pattern::Exact(name) => Some(name.clone()),
        Pattern::All | Pattern::Below(_) => None,
    });
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_a_valid_request_are_names() {
        let names = |all: &[&str]| {
            EventHub::names_in(&all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(names(&["b", "a.*", "a", "b", "*"]), ["a", "b"]);
        assert!(names(&["a", "b c"]).is_empty());
    }
}
