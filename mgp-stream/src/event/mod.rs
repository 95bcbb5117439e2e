//! Events: channels, subscriptions and replay (MGP §13.2, §13.3, §13.5).
//!
//! - `hub.rs` accepts events, `table.rs` finds the subscriptions that match, and `subscription.rs` stores and sends the
//!   events.
//! - `journal.rs` stores the events of durable subscriptions in an [`EventStore`], which `sqlite.rs` implements.

mod attach;
mod cleaning;
mod draft;
mod event_json;
mod filter;
mod hub;
mod journal;
mod lifetime;
mod operator;
mod pattern;
mod reader;
mod recent;
mod router;
mod scope_end;
mod sending;
#[cfg(feature = "sqlite")]
mod sqlite;
mod subscribe;
mod subscription;
mod table;
#[cfg(test)]
mod tests;
mod viewer;
mod window;

pub use attach::AttachedEvents;
pub use draft::{EventDraft, EventSubject};
pub use hub::{EventHub, EventLimits, Published};
pub use journal::{EventStore, StoredEvent, StoredSubscription};
pub use reader::{EventReader, ReadEvent};
