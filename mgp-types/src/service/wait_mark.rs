//! A mark of calls that waited after the gates (the layers that check calls) had admitted them.

use super::Context;

/// A mark of a call that waited between the gates and its handler, e.g. for an approval or before a retry.
///
/// After the wait, the decision of the gates might no longer be valid. A governed stack therefore decides again
/// immediately before a marked call starts; for other calls it decides only once.
///
/// ```
/// use mgp_types::service::{Reply, Stack, WaitMark, mock};
///
/// let mut cx = mock::client(Stack::from_fn(|_| async { Ok(Reply::empty()) })).cx;
/// assert!(!WaitMark::is_set(&cx));
/// WaitMark::mark(&mut cx);
/// assert!(WaitMark::is_set(&cx));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WaitMark(());

impl WaitMark {
    /// Marks a call. The code that makes the call wait must use this function.
    pub fn mark(cx: &mut Context) {
        cx.extensions.insert(Self(()));
    }

    /// Returns whether the call is marked.
    #[must_use]
    pub fn is_set(cx: &Context) -> bool {
        cx.extensions.get::<Self>().is_some()
    }
}
