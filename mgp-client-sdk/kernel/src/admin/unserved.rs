//! Answers to callbacks and wishes for events, which nobody here waits for (MGP §13).
//!
//! The kernel does not offer that extension, so that as methods they are unknown to everybody. As tools they can be
//! called like the rest of what operators do, and whoever is none and does so is refused on the record as there.
//!
//! Applies to: inbound.

use mgp_types::RpcError;
use mgp_types::method::{CallbackRespond, EventsSubscribe, EventsUnsubscribe, Request};

use super::Desk;

pub(super) fn on(desk: Desk) -> Desk {
    let desk = none::<CallbackRespond>(desk);
    let desk = none::<EventsSubscribe>(desk);
    none::<EventsUnsubscribe>(desk)
}

/// Refuses those who may not; an operator hears that there is nothing.
fn none<R: Request + 'static>(desk: Desk) -> Desk {
    desk.changes::<R, _, _>(async |_, _, _| Err(RpcError::method_not_found(R::METHOD)))
}
