//! The idempotency key of a call that undoes a step of a transaction.

use mgp_types::sync::Mutex;

use super::Idempotency;

/// The place where the layer notes the key of a compensation. All attempts of a compensation share this value through
/// the extensions of their calls.
///
/// A transaction has one such key at a time, because the key is removed once the end of its step is stored. So the
/// number of these keys needs no limit. With the limits of other keys, steps might not be undone for days.
#[derive(Default)]
pub(crate) struct CompensationKey(Mutex<Option<(Idempotency, String)>>);

mgp_types::opaque_debug!(CompensationKey);

impl CompensationKey {
    pub(super) fn note(&self, keys: &Idempotency, id: &str) {
        *self.0.lock() = Some((keys.clone(), id.to_owned()));
    }

    /// Removes the key. Until the outcome of the compensation is stored, the key must stay: after a kill, it keeps the
    /// next process from running the compensation again.
    pub(crate) fn remove(&self) {
        let noted = self.0.lock().take();
        if let Some((keys, id)) = noted {
            keys.forget(&id);
        }
    }
}
