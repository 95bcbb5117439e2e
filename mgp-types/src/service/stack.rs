//! The trait bound of all layers, and a type-erased stack.

use std::any::Any;
use std::future::{Future, pending, poll_fn, ready};
use std::sync::{Arc, Weak};
use std::task::{Context as Task, Poll, Waker};

use tower_service::Service;

use super::{BoxFuture, Call, Reply};
use crate::wire::RpcError;

/// A service that layers of this workspace can wrap: it is always ready, cheap to clone, and its futures can be dropped
/// at any await point.
///
/// Implemented for every tower service with these types; use `S: MgpService` in bounds.
pub trait MgpService:
    Service<Call, Response = Reply, Error = RpcError, Future: Send + 'static>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> MgpService for S where
    S: Service<Call, Response = Reply, Error = RpcError, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// A stack of services with an erased type. Clones share the stack, so cloning only increments a reference count.
///
/// In contrast, tower's own boxed services clone the whole stack.
#[derive(Clone)]
pub struct Stack(Arc<dyn Erased>);

/// A reference to a stack that does not keep it alive, e.g. for work that a layer of the stack does in the background.
#[derive(Clone)]
pub struct WeakStack(Weak<dyn Erased>);

trait Erased: Send + Sync {
    fn dispatch(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>>;
}

impl<S: MgpService> Erased for S {
    fn dispatch(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let mut service = self.clone();
        // The layers of this workspace are always ready. If a layer from another crate is not ready, the returned
        // future waits until the layer is ready.
        match service.poll_ready(&mut Task::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => boxed(service.call(call)),
            Poll::Ready(Err(error)) => Box::pin(ready(Err(error))),
            Poll::Pending => Box::pin(async move {
                poll_fn(|task| service.poll_ready(task)).await?;
                service.call(call).await
            }),
        }
    }
}

/// Boxes a future. A future that is boxed already is returned unchanged; this happens if a layer returns the future of
/// its inner service.
fn boxed<F>(future: F) -> BoxFuture<'static, Result<Reply, RpcError>>
where
    F: Future<Output = Result<Reply, RpcError>> + Send + 'static,
{
    let mut future = Some(future);
    let is_boxed = (&mut future as &mut dyn Any)
        .downcast_mut::<Option<BoxFuture<'static, Result<Reply, RpcError>>>>()
        .and_then(Option::take);
    match (is_boxed, future) {
        (Some(boxed), _) => boxed,
        (None, Some(future)) => Box::pin(future),
        // Unreachable: exactly one of the two options is `Some`.
        (None, None) => Box::pin(pending()),
    }
}

impl Stack {
    /// Creates a stack from a service, whose type is erased.
    #[must_use]
    pub fn new(service: impl MgpService) -> Self {
        Self(Arc::new(service))
    }

    /// Creates a stack from a function that answers calls.
    #[must_use]
    pub fn from_fn<F, Fut>(function: F) -> Self
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply, RpcError>> + Send + 'static,
    {
        struct Function<F>(F);
        impl<F, Fut> Erased for Function<F>
        where
            F: Fn(Call) -> Fut + Send + Sync,
            Fut: Future<Output = Result<Reply, RpcError>> + Send + 'static,
        {
            fn dispatch(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
                boxed((self.0)(call))
            }
        }
        Self(Arc::new(Function(function)))
    }

    /// Returns a reference that does not keep the stack alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakStack {
        WeakStack(Arc::downgrade(&self.0))
    }

    /// Sends a call through the stack.
    #[must_use]
    pub fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        self.0.dispatch(call)
    }
}

impl WeakStack {
    /// Returns the stack; `None` if it was dropped.
    #[must_use]
    pub fn upgrade(&self) -> Option<Stack> {
        self.0.upgrade().map(Stack)
    }

    /// Returns whether the stack was dropped.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.0.strong_count() == 0
    }
}

crate::opaque_debug!(Stack);
crate::opaque_debug!(WeakStack);

impl Service<Call> for Stack {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;
    crate::always_ready!(innermost);

    fn call(&mut self, call: Call) -> Self::Future {
        self.0.dispatch(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boxed_future_is_not_boxed_again() {
        let answer: BoxFuture<'static, _> = Box::pin(ready(Ok(Reply::None)));
        let before = std::ptr::from_ref(&*answer).cast::<()>();
        let after = std::ptr::from_ref(&*boxed(answer)).cast::<()>();
        assert_eq!(before, after);
        let answered =
            boxed(ready(Ok(Reply::None))).as_mut().poll(&mut Task::from_waker(Waker::noop()));
        assert!(matches!(answered, Poll::Ready(Ok(Reply::None))));
    }
}
