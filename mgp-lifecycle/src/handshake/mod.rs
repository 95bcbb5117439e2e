//! The handshake, in which both sides find out which revision and extensions they share (MGP §2; MCP `initialize` and
//! `server/discover`).
//!
//! [`era`] decides, without I/O, which era of MCP (legacy or modern) a message belongs to. [`HandshakeLayer`] is the
//! server's side: it answers the handshake, and attaches the facts about the caller to every inbound call. [`connect`]
//! is the client's side, and [`RequestMetaLayer`] adds to outbound calls the members that the callee needs.
//! [`PermissionFlow`] requests decisions about the permissions a server needs, and notifies the server of the
//! decisions.

mod callers;
mod client;
mod declared;
mod era;
mod gate;
mod initialized;
mod negotiate;
mod offer;
mod permission;
pub(crate) mod plain_errors;
mod proposals;
mod request_meta;
mod server;
mod state;

pub use client::{
    ConnectConfig, ConnectDecision, ConnectError, ConnectGate, EraChoice, UngrantedPolicy, connect,
};
pub use offer::{Answerer, ClientOffer, MgpOffer, ServerOffer};
pub use permission::PermissionFlow;
pub use proposals::{ProposalLayer, ProposalService};
pub use request_meta::{
    AcceptsRequiredTask, AcceptsTask, RequestMetaLayer, RequestMetaService, requires_task,
    serves_tasks,
};
pub use server::{Handshake, HandshakeLayer};
pub use state::{HandshakeState, Phase};
