//! Marks calls that waited after a gate had let them pass.

use super::Context;

/// Says that a call waited somewhere between the gates and whoever runs it: for a person, a list, a turn.
///
/// What was decided before may no longer hold, so a governed stack decides anew right before such a call starts.
/// Calls that never wait carry no mark, and are decided once.
///
/// ```
/// use mgp_types::service::{Reply, Stack, Waited, mock};
///
/// let mut cx = mock::client(Stack::from_fn(|_| async { Ok(Reply::empty()) })).cx;
/// assert!(!Waited::is(&cx));
/// Waited::mark(&mut cx);
/// assert!(Waited::is(&cx));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Waited(());

impl Waited {
    /// Marks a call; whoever lets one wait does it.
    pub fn mark(cx: &mut Context) {
        cx.extensions.insert(Self(()));
    }

    /// Whether it waited.
    #[must_use]
    pub fn is(cx: &Context) -> bool {
        cx.extensions.get::<Self>().is_some()
    }
}
