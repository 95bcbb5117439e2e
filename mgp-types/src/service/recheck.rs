//! The checks by which gates (the layers that check calls) decide again about a call, after it has waited for an answer
//! of its caller.

use std::sync::Arc;

use super::Context;
use crate::sync::Mutex;
use crate::wire::RpcError;

type Check = Arc<dyn Fn(&Context) -> Result<(), RpcError> + Send + Sync>;

/// The checks of a running call, one for each of its gates; stored in the extensions of the call.
///
/// This extension is for code that lets a call continue after an answer of its caller. Such code inserts the extension
/// before the gates, and runs the checks before it passes the answer on. The gates do not decide about the continued
/// call by themselves, and the caller's rights may have been revoked meanwhile.
#[derive(Clone, Default)]
pub struct Recheck(Arc<Mutex<Vec<(usize, Check)>>>);

crate::opaque_debug!(Recheck);

impl Recheck {
    /// Inserts the check of a gate that has admitted the call; it replaces an earlier check of the same gate, which
    /// `gate` identifies. The check receives the context of the request that continues the call.
    pub fn insert(
        &self,
        gate: usize,
        check: impl Fn(&Context) -> Result<(), RpcError> + Send + Sync + 'static,
    ) {
        let mut checks = self.0.lock();
        checks.retain(|(known, _)| *known != gate);
        checks.push((gate, Arc::new(check)));
    }

    /// Decides again whether the call may run; `cx` is the context of the request that continues it.
    ///
    /// # Errors
    /// Returns the refusal of the first gate that no longer admits the call.
    pub fn run(&self, cx: &Context) -> Result<(), RpcError> {
        let checks = self.0.lock().clone();
        checks.iter().try_for_each(|(_, check)| check(cx))
    }
}
