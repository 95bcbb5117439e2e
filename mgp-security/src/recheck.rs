//! Looking again once a call has waited for a person: what was decided before the question may no longer hold.
//!
//! Applies to: both.

use std::fmt;
use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::service::Call;

/// Decides about a call a second time, from what is known now; a closure over a call is one.
///
/// A person may take minutes to answer. Meanwhile an operator may have taken back access, an approval may have ended, or
/// the tool may have become another. So the gates that ask, [`PermissionLayer`](crate::PermissionLayer) and
/// [`ConfirmLayer`](crate::ConfirmLayer), look at their own matter again before the call goes on, and at what the layers
/// before them have decided: hand those layers to their `recheck`.
///
/// It reads a snapshot and never waits.
///
/// ```
/// use std::sync::Arc;
/// use mgp_security::{Access, AccessLayer, Assessment, ConfirmLayer, Confirmations, Elicit, Policies};
/// use mgp_types::service::{Reply, ServerId, Stack};
/// use tower_layer::Layer;
///
/// let access = AccessLayer::new(Access::in_memory(Policies::default())).server("files");
/// let confirmations = Confirmations::new(Policies::default(), Elicit::everyone());
/// let unknown = |_: Option<&ServerId>, _: &str| Arc::new(Assessment::unknown());
/// // Whoever lost access while somebody was asked has none.
/// let confirm = ConfirmLayer::new(confirmations, unknown).server("files").recheck(access.clone());
/// let tools = Stack::from_fn(|_| async { Ok(Reply::empty()) });
/// let governed = access.layer(confirm.layer(tools));
/// # drop(governed);
/// ```
pub trait Recheck: Send + Sync {
    /// Decides about the call as it stands now.
    ///
    /// # Errors
    /// What a new call like it would be refused with.
    fn recheck(&self, call: &Call) -> Result<(), RpcError>;
}

impl<F> Recheck for F
where
    F: Fn(&Call) -> Result<(), RpcError> + Send + Sync,
{
    fn recheck(&self, call: &Call) -> Result<(), RpcError> {
        self(call)
    }
}

/// All that is looked at again, in the order of the layers.
#[derive(Clone, Default)]
pub(crate) struct Rechecks(Arc<[Arc<dyn Recheck>]>);

impl Rechecks {
    /// Looks at one thing more.
    pub(crate) fn and(&self, more: impl Recheck + 'static) -> Self {
        let more: Arc<dyn Recheck> = Arc::new(more);
        Self(self.0.iter().cloned().chain([more]).collect())
    }
}

impl Recheck for Rechecks {
    fn recheck(&self, call: &Call) -> Result<(), RpcError> {
        self.0.iter().try_for_each(|one| one.recheck(call))
    }
}

impl fmt::Debug for Rechecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rechecks({})", self.0.len())
    }
}
