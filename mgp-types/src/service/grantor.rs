//! Who decides what a server may do, as the handshake and the wire need to know it (MGP §3).

use tokio::sync::watch;

use super::{BoxFuture, Context, ServerId};
use crate::mgp::{Permission, PermissionDecision};

/// Decides about the permissions of servers, and tells what stands now.
///
/// The layer that guards calls keeps the decisions; whoever connects asks for them and passes them on.
pub trait Grantor: Send + Sync {
    /// Decides about permissions a server declared, asking somebody where the policy says so.
    ///
    /// It answers with every permission that was asked about; what nobody decided is `deferred`.
    fn decide(
        &self,
        cx: &Context,
        server: &ServerId,
        permissions: Vec<Permission>,
    ) -> BoxFuture<'static, PermissionDecision>;

    /// What stands for a server now, without asking anybody.
    fn standing(&self, cx: &Context, server: &ServerId) -> PermissionDecision;

    /// Moves whenever a decision changes: granted, taken back, expired.
    fn changes(&self) -> watch::Receiver<u64>;
}
