//! Work that belongs to a scope, not to whoever waits for it (DESIGN §3 F).
//!
//! A legacy session owns its calls: a reader that leaves detaches from them, the end of the session ends them.
//!
//! Applies to: inbound.

use std::pin::Pin;
use std::task::{Context as Task, Poll};

use mgp_types::service::{EndGuard, Scope};
use tokio::sync::oneshot;

/// Runs a future for as long as its scope lives; the handle may be dropped without ending it.
///
/// ```
/// use mgp_transport::own;
/// use mgp_types::service::{Scope, ScopeKind};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let session = Scope::new(ScopeKind::Session);
/// assert_eq!(own(&session, async { 7 }).await, Some(7));
/// session.end();
/// assert_eq!(own(&session, async { 7 }).await, None);
/// # });
/// ```
pub fn own<F>(scope: &Scope, work: F) -> Owned<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let (answer, receiver) = oneshot::channel();
    if scope.is_ended() {
        return Owned(receiver);
    }
    let (registered, guard) = oneshot::channel::<EndGuard>();
    let running = tokio::spawn(async move {
        // The hook goes with the work, so that a long session does not collect the hooks of ended calls.
        let _guard = guard.await;
        // Nobody may be waiting any more.
        let _ = answer.send(work.await);
    });
    let hook = running.abort_handle();
    let _ = registered.send(scope.on_end(move || hook.abort()));
    Owned(receiver)
}

/// Waits for owned work; `None` when its scope ended first.
#[derive(Debug)]
pub struct Owned<T>(oneshot::Receiver<T>);

impl<T> Future for Owned<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(task).map(Result::ok)
    }
}
