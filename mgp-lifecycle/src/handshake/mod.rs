//! How a connection learns what both sides speak (MGP §2; MCP `initialize` and `server/discover`).
//!
//! [`era`] is the pure part: which way a message belongs to.
//! [`HandshakeLayer`] answers for a server and gives every inbound call its facts;
//! [`connect`] does the client's side, and [`StampLayer`] writes on outbound calls what the callee needs to know.
//! [`PermissionFlow`] has the permissions decided that a server needs, and tells it what stands.
//!
//! Applies to: both.

mod callers;
mod client;
mod era;
mod gate;
mod negotiate;
mod offer;
mod permission;
mod server;
mod session;
mod stamp;
pub(crate) mod veil;

pub use client::{
    ConnectConfig, ConnectError, EraChoice, PermissionGate, Ungranted, Verdict, connect,
};
pub use offer::{ClientOffer, MgpOffer, ServerOffer};
pub use permission::PermissionFlow;
pub use server::{Handshake, HandshakeLayer};
pub use session::{Phase, Session};
pub use stamp::{Stamp, StampLayer, TakesTask};
