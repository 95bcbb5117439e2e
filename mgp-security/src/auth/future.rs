//! The response future of the auth layer.

use std::pin::Pin;
use std::task::{Context as Task, Poll};

use mgp_types::service::BoxFuture;
use pin_project_lite::pin_project;

pin_project! {
    /// Response future of [`Auth`](super::Auth); dropping it cancels the request.
    pub struct ResponseFuture<F, T> {
        #[pin]
        state: State<F, T>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, T> {
        // The request was admitted, and the inner service answers it.
        Admitted { #[pin] future: F },
        // The credentials must be looked up before the layer can admit or refuse the request.
        Pending { future: BoxFuture<'static, T> },
        Answered { answer: Option<T> },
    }
}

impl<F, T> ResponseFuture<F, T> {
    pub(super) fn admitted(future: F) -> Self {
        Self { state: State::Admitted { future } }
    }

    pub(super) fn pending(future: BoxFuture<'static, T>) -> Self {
        Self { state: State::Pending { future } }
    }

    pub(super) fn answered(answer: T) -> Self {
        Self { state: State::Answered { answer: Some(answer) } }
    }
}

impl<F: Future<Output = T>, T> Future for ResponseFuture<F, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<T> {
        match self.project().state.project() {
            StateProj::Admitted { future } => future.poll(task),
            StateProj::Pending { future } => future.as_mut().poll(task),
            // If the answer was already taken, the future has completed, and the contract forbids polling it again.
            StateProj::Answered { answer } => answer.take().map_or(Poll::Pending, Poll::Ready),
        }
    }
}

mgp_types::opaque_debug!(ResponseFuture<F, T>);
