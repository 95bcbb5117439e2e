//! What is to be heard: what the server offers to tell, and the resources that are watched.
//!
//! Applies to: outbound, modern.

use std::collections::BTreeSet;

use mgp_types::RpcError;
use mgp_types::mcp::{ServerCapabilities, SubscriptionFilter};

/// Of what a server tells changes, and somebody wants to hear.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "it is a form with five boxes to tick")]
pub(super) struct Offer {
    tools: bool,
    prompts: bool,
    resources: bool,
    watched: bool,
    /// The states of the server, which are told on any stream.
    pub(super) states: bool,
}

impl Offer {
    /// Lists are listened for only where somebody hears of them.
    pub(super) fn of(capabilities: &ServerCapabilities, hears: bool) -> Self {
        let tells = |announced: Option<bool>| hears && announced == Some(true);
        let resources = capabilities.resources.as_ref();
        Self {
            tools: tells(capabilities.tools.as_ref().and_then(|tools| tools.list_changed)),
            prompts: tells(capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed)),
            resources: tells(resources.and_then(|resources| resources.list_changed)),
            watched: resources.and_then(|resources| resources.subscribe) == Some(true),
            states: false,
        }
    }

    pub(super) fn is_empty(self) -> bool {
        !self.is_heard() && !self.watched
    }

    /// Whether there is something to hear from the beginning.
    pub(super) fn is_heard(self) -> bool {
        self.tools || self.prompts || self.resources || self.states
    }

    pub(super) fn watches(self) -> bool {
        self.watched
    }

    /// What to ask for; none where there is nothing to hear.
    pub(super) fn filter(self, wish: &Wish) -> Option<SubscriptionFilter> {
        if !self.is_heard() && wish.watched.is_empty() {
            return None;
        }
        let asks = |is_offered: bool| is_offered.then_some(true);
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = asks(self.tools);
        filter.prompts_list_changed = asks(self.prompts);
        filter.resources_list_changed = asks(self.resources);
        filter.resource_subscriptions = wish.watched.iter().cloned().collect::<Vec<_>>().into();
        Some(filter)
    }
}

/// The resources that are watched.
#[derive(Clone, Debug, Default)]
pub(super) struct Wish {
    /// Grows with every change.
    pub(super) generation: u64,
    watched: BTreeSet<String>,
}

impl Wish {
    pub(super) fn add(&mut self, uri: &str) -> bool {
        self.watched.insert(uri.to_owned())
    }

    pub(super) fn remove(&mut self, uri: &str) -> bool {
        self.watched.remove(uri)
    }
}

/// What became of a wish.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) generation: u64,
    /// What the server agreed to tell.
    pub(super) outcome: Result<SubscriptionFilter, RpcError>,
}

impl Default for Settled {
    fn default() -> Self {
        Self { generation: 0, outcome: Ok(SubscriptionFilter::new()) }
    }
}
