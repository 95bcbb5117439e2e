//! The health report of a server: numbers that the library counts, and the checks that the author added (MGP §11.3).

use mgp_lifecycle::{Drain, Health, ServerOffer};
use mgp_stream::CancelLayer;

use crate::tool::Tools;

/// Adds the number of open connections to the health report, unless the author has set a counter for it.
pub(crate) fn count_connections(
    health: &mut Health,
    count: impl Fn() -> u64 + Send + Sync + 'static,
) {
    if !health.counts_connections() {
        *health = std::mem::take(health).open_connections(count);
    }
}

/// Adds the numbers of tools and running requests, and the server's state and id, to its health report.
pub(crate) fn complete(
    health: Health,
    offer: &ServerOffer,
    tools: &Tools,
    cancel: &CancelLayer,
    drain: &Drain,
) -> Health {
    let (all, on, running) = (tools.clone(), tools.clone(), cancel.clone());
    // Keep a counter that the author set: e.g. the counter of a gateway counts the tools of the servers behind it.
    let health = if health.counts_tools() {
        health
    } else {
        health
            .tools_total(move || all.len() as u64)
            .tools_available(move || on.enabled_len() as u64)
    };
    let health = health
        .pending_requests(move |asking| (running.running() as u64).saturating_sub(asking))
        .state(drain.state());
    match offer.mgp.as_ref().and_then(|mgp| mgp.server_id.clone()) {
        Some(id) => health.server_id(id),
        None => health,
    }
}
