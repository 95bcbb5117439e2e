//! The interface through which handshake and transport obtain decisions about permissions (MGP §3).

use async_trait::async_trait;
use tokio::sync::watch;

use super::{Context, ServerId};
use crate::mgp::{Permission, PermissionDecision};

/// The authority that decides about permissions: servers request permissions, and the authority grants or denies them.
///
/// The code that connects to a server requests the decisions from this authority, and sends them to the server. The
/// layer that guards calls applies the same decisions.
///
/// Implementations use the attribute `#[async_trait]` of the crate with that name.
#[async_trait]
pub trait PermissionAuthority: Send + Sync {
    /// Decides about the permissions that a server declares, asking an operator if the policy requires it.
    ///
    /// The decision covers every given permission; an undecided permission is `deferred`.
    async fn decide(
        &self,
        cx: &Context,
        server: &ServerId,
        permissions: Vec<Permission>,
    ) -> PermissionDecision;

    /// Records the permissions that a server declares in a handshake, possibly none.
    fn declared(&self, _server: &ServerId, _permissions: &[Permission]) {}

    /// Returns whether an operator is asked about any of these permissions, so that the decision can take long.
    fn asks_operator(
        &self,
        _cx: &Context,
        _server: &ServerId,
        _permissions: &[Permission],
    ) -> bool {
        true
    }

    /// Returns the decisions that currently apply to a server, without asking an operator: the decisions about
    /// `permissions`, and all other decisions that exist.
    fn standing(
        &self,
        cx: &Context,
        server: &ServerId,
        permissions: &[Permission],
    ) -> PermissionDecision;

    /// Returns a receiver that is notified when a permission is granted, is revoked or expires.
    fn changes(&self) -> watch::Receiver<u64>;
}
