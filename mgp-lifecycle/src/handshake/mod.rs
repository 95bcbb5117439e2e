//! How a connection learns what both sides speak (MGP §2; MCP `initialize` and `server/discover`).
//!
//! [`era`] is the pure part: which way a message belongs to.
//! [`HandshakeLayer`] answers for a server and gives every inbound call its facts;
//! [`connect`] does the client's side, and [`StampLayer`] writes on outbound calls what the callee needs to know.
//!
//! Applies to: both.

mod callers;
mod client;
mod era;
mod gate;
mod negotiate;
mod offer;
mod server;
mod session;
mod stamp;
pub(crate) mod veil;

pub use client::{ConnectConfig, ConnectError, EraChoice, PermissionGate, Verdict, connect};
pub use offer::{ClientOffer, MgpOffer, ServerOffer};
pub use server::{Handshake, HandshakeLayer};
pub use session::{Phase, Session};
pub use stamp::{Stamp, StampLayer, TakesTask};
