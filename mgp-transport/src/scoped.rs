//! Tasks that end with a scope, instead of when the caller stops waiting for their result.
//!
//! A legacy HTTP session needs this: its calls continue when the client disconnects, and end with the session.

use std::pin::Pin;
use std::task::{Context as Task, Poll};

use mgp_types::service::{EndGuard, Scope};
use tokio::sync::oneshot;

/// Spawns a future that runs until it completes or its scope ends; dropping the returned handle does not stop it.
pub fn spawn_scoped<F>(scope: &Scope, work: F) -> ScopedTask<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let (answer, receiver) = oneshot::channel();
    if scope.is_ended() {
        return ScopedTask(receiver);
    }
    let (registered, guard) = oneshot::channel::<EndGuard>();
    let running = tokio::spawn(async move {
        // The task holds the guard, so that a finished call removes its hook from the scope; otherwise a long session
        // would collect these hooks.
        let _guard = guard.await;
        // Ignore an error: sending fails only if the caller has stopped waiting.
        let _ = answer.send(work.await);
    });
    let hook = running.abort_handle();
    let _ = registered.send(scope.on_end(move || hook.abort()));
    ScopedTask(receiver)
}

/// A future for the result of work that a scope owns; it returns `None` if the scope ended first or the work panicked.
#[derive(Debug)]
pub struct ScopedTask<T>(oneshot::Receiver<T>);

impl<T> Future for ScopedTask<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(task).map(Result::ok)
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::ScopeKind;

    use super::*;

    #[tokio::test]
    async fn work_ends_with_its_scope_and_not_with_its_handle() {
        let session = Scope::new(ScopeKind::Session);
        assert_eq!(spawn_scoped(&session, async { 7 }).await, Some(7));
        let (done, finished) = oneshot::channel();
        drop(spawn_scoped(&session, async { done.send(8) }));
        assert_eq!(finished.await, Ok(8));
        let waiting = spawn_scoped(&session, std::future::pending::<()>());
        session.end();
        assert_eq!(waiting.await, None);
        assert_eq!(spawn_scoped(&session, async { 7 }).await, None);
    }
}
