//! Decisions about the permissions of servers, as handshake and transport need them (MGP §3).

use async_trait::async_trait;
use tokio::sync::watch;

use super::{Context, ServerId};
use crate::mgp::{Permission, PermissionDecision};

/// The authority that decides about the permissions of servers.
///
/// The layer that guards calls stores the decisions; the code that connects requests them and sends them to the server.
///
/// Implement it with `#[async_trait]` of the crate of that name.
#[async_trait]
pub trait PermissionAuthority: Send + Sync {
    /// Decides about the permissions that a server declares, asking an operator if the policy requires it.
    ///
    /// The decision covers every requested permission; undecided ones are `deferred`.
    async fn decide(
        &self,
        cx: &Context,
        server: &ServerId,
        permissions: Vec<Permission>,
    ) -> PermissionDecision;

    /// Notes the permissions that a server declares as a whole, at each handshake; none if it declares none.
    fn declared(&self, _server: &ServerId, _permissions: &[Permission]) {}

    /// Returns the current decisions for a server, without asking.
    fn standing(&self, cx: &Context, server: &ServerId) -> PermissionDecision;

    /// Returns a receiver that is notified when a decision is granted, revoked or expires.
    fn changes(&self) -> watch::Receiver<u64>;
}
