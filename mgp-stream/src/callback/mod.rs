//! Callbacks, with which a server asks its caller questions while a call runs (MGP §13.4).
//!
//! [`ask_callback`] asks in the form that the caller negotiated: as a callback, or else as an MCP elicitation or
//! sampling request, which a modern caller answers by repeating its call. Without an answer, nothing is confirmed.
mod answer;
mod ask;
mod bridge;
mod layer;
#[cfg(test)]
mod model;
mod table;

#[cfg(test)]
mod tests;

pub use answer::CallbackAnswer;
pub use ask::{ask_callback, can_ask_callback};
pub use layer::{CallbackLayer, CallbackService};
