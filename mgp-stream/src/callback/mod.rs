//! Callbacks: a server asks its caller back while a call runs (MGP §13.4).
//!
//! [`ask_callback`] asks in the form that the caller negotiated: as a callback, else as an MCP elicitation, which in
//! the modern era ends a round. Nothing is ever confirmed without an answer.
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
