//! Chunks, progress, cancellation, events and callbacks for the Model General Protocol, as tower layers (MGP §12, §13).
//!
//! - [`CancelLayer`], [`CallbackLayer`] and [`EmitLayer`] belong on the inbound stack of a server.
//! - [`CollectLayer`] belongs on the outbound stack of a client, and [`RouteLayer`] on its inbound stack.
//! - [`CheckpointLayer`] enables a server's tools to send checkpoints with their chunks, and [`ResumeLayer`] enables a
//!   client to continue a lost stream from the last checkpoint.
//! - [`EventHub`] accepts the events of a server and passes them to its subscribers.

mod callback;
mod cancel;
mod checkpoint;
mod chunk;
mod collect;
mod emit;
mod event;
#[cfg(test)]
mod model;
mod recipient;
mod route;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use callback::{
    CallbackAnswer, CallbackLayer, CallbackService, ask_callback, can_ask_callback,
};
pub use cancel::{Cancel, CancelLayer, CancelSignal};
pub use checkpoint::{CheckpointLayer, CheckpointService, Checkpoints, ResumeLayer, ResumeService};
pub use collect::{Collect, CollectLayer};
pub use emit::{Emit, EmitLayer};
pub use event::{
    AttachedEvents, EventDraft, EventHub, EventLimits, EventReader, EventStore, EventSubject,
    Published, ReadEvent, StoredEvent, StoredSubscription,
};
pub use route::{Route, RouteLayer};
