//! The changes that the server offers to report, and the resources to which the user has subscribed.

use std::collections::{BTreeSet, HashSet};

use mgp_types::RpcError;
use mgp_types::mcp::{ServerCapabilities, SubscriptionFilter};

/// The changes that the stream can report: changes of lists and states, if the server announces them and the user has
/// hooks for them, and changes of subscribed resources.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a capability of its own")]
pub(super) struct Reportable {
    tools: bool,
    prompts: bool,
    resources: bool,
    subscriptions: bool,
    /// `true` if the server reports changes of its state and the user has hooks for them. The server sends these
    /// reports on every open `subscriptions/listen` stream, so the filter of the stream does not name them.
    pub(super) states: bool,
}

impl Reportable {
    /// Derives the reportable changes from the server's capabilities. List changes are included only if there are
    /// hooks for them.
    pub(super) fn of(capabilities: &ServerCapabilities, has_hooks: bool) -> Self {
        let reports = |announced: Option<bool>| has_hooks && announced == Some(true);
        let resources = capabilities.resources.as_ref();
        Self {
            tools: reports(capabilities.tools.as_ref().and_then(|tools| tools.list_changed)),
            prompts: reports(
                capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed),
            ),
            resources: reports(resources.and_then(|resources| resources.list_changed)),
            subscriptions: resources.and_then(|resources| resources.subscribe) == Some(true),
            states: false,
        }
    }

    pub(super) fn is_empty(self) -> bool {
        !self.needs_stream() && !self.subscriptions
    }

    /// Returns whether the stream is needed even without subscribed resources.
    pub(super) fn needs_stream(self) -> bool {
        self.tools || self.prompts || self.resources || self.states
    }

    pub(super) fn reports_resources(self) -> bool {
        self.subscriptions
    }

    /// Returns the filter of the stream, or `None` if no stream is needed.
    pub(super) fn filter(self, subscriptions: &Subscriptions) -> Option<SubscriptionFilter> {
        if !self.needs_stream() && subscriptions.uris.is_empty() {
            return None;
        }
        let asks = |is_offered: bool| is_offered.then_some(true);
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = asks(self.tools);
        filter.prompts_list_changed = asks(self.prompts);
        filter.resources_list_changed = asks(self.resources);
        filter.resource_subscriptions =
            subscriptions.uris.iter().cloned().collect::<Vec<_>>().into();
        Some(filter)
    }
}

/// Removes the URIs that the client did not request from the server's answer, and repeated URIs. The answer is stored
/// and copied, so a server could otherwise use much memory and time.
pub(super) fn keep_requested(agreed: &mut SubscriptionFilter, wanted: &SubscriptionFilter) {
    let uris: HashSet<_> = std::mem::take(&mut agreed.resource_subscriptions).into_iter().collect();
    let requested = wanted.resource_subscriptions.iter().filter(|uri| uris.contains(*uri));
    agreed.resource_subscriptions = requested.cloned().collect();
}

/// The resources to which the client is subscribed.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriptions {
    /// A number that is incremented with every change of the subscriptions.
    pub(super) generation: u64,
    uris: BTreeSet<String>,
}

impl Subscriptions {
    pub(super) fn add(&mut self, uri: &str) -> bool {
        self.uris.insert(uri.to_owned())
    }

    pub(super) fn remove(&mut self, uri: &str) -> bool {
        self.uris.remove(uri)
    }
}

/// The server's answer to the subscriptions of a generation.
#[derive(Debug)]
pub(super) struct Agreement {
    pub(super) generation: u64,
    pub(super) outcome: Result<SubscriptionFilter, RpcError>,
    /// `true` if a stream is open. After a failure, this is the previous stream, which still reports the previous
    /// subscriptions.
    pub(super) has_stream: bool,
}

impl Default for Agreement {
    fn default() -> Self {
        Self { generation: 0, outcome: Ok(SubscriptionFilter::new()), has_stream: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_resources_than_the_requested_ones_are_removed_from_the_answer() {
        let filter = |uris: &[&str]| {
            let mut filter = SubscriptionFilter::new();
            filter.resource_subscriptions = uris.iter().map(|uri| (*uri).to_owned()).collect();
            filter
        };
        let mut agreed = filter(&["b", "c", "b", "d"]);
        keep_requested(&mut agreed, &filter(&["a", "b", "c"]));
        assert_eq!(agreed.resource_subscriptions.into_vec(), ["b", "c"]);
    }
}
