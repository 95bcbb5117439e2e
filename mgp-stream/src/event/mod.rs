//! Events: channels, subscriptions and replay (MGP §13.2, §13.3, §13.5).

mod draft;
mod hub;
mod pattern;
mod recent;
mod router;
mod subscription;
mod table;
#[cfg(test)]
mod tests;

pub use draft::{EventDraft, EventSubject};
pub use hub::{AttachedEvents, EventHub, EventLimits, Publishing};
