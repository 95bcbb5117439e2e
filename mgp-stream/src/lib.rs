//! Chunks, progress, cancellation and callbacks for the Model General Protocol, as tower layers (MGP §12, §13.4).
//!
//! - [`CancelLayer`], [`CallbackLayer`] and [`EmitLayer`] belong on the inbound stack of a server.
//! - [`CollectLayer`] belongs on the outbound stack of a client, [`RouteLayer`] on the inbound stack beside it.
mod callback;
mod cancel;
mod chunk;
mod collect;
mod emit;
mod route;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use callback::{
    CallbackAnswer, CallbackLayer, CallbackService, ask_callback, can_ask_callback,
};
pub use cancel::{Cancel, CancelLayer, CancelSignal};
pub use collect::{Collect, CollectLayer};
pub use emit::{Emit, EmitLayer};
pub use route::{Route, RouteLayer};
