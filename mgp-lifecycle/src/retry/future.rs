//! The response future. The first attempt is not boxed, but retries are.

use std::fmt;
use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, MgpService};
use pin_project_lite::pin_project;

use super::failure::Outcome;
use super::retries::retry;
use super::retryable_call::RetryableCall;

pin_project! {
    /// Response future of [`Retry`](super::Retry). If it is dropped, the running attempt or the wait for the next
    /// attempt ends.
    pub struct ResponseFuture<S: MgpService> {
        #[pin]
        state: State<S, S::Future>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, F> {
        // The call is never retried.
        Pass { #[pin] future: F },
        First { #[pin] future: F, retryable: Option<RetryableCall<S>> },
        Retrying { later: BoxFuture<'static, Outcome> },
        Refused { error: Option<RpcError> },
    }
}

impl<S: MgpService> ResponseFuture<S> {
    pub(super) fn pass(future: S::Future) -> Self {
        Self { state: State::Pass { future } }
    }

    pub(super) fn first(future: S::Future, retryable: RetryableCall<S>) -> Self {
        Self { state: State::First { future, retryable: Some(retryable) } }
    }

    pub(super) fn refuse(error: RpcError) -> Self {
        Self { state: State::Refused { error: Some(error) } }
    }
}

impl<S: MgpService> Future for ResponseFuture<S> {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Outcome> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Pass { future } => return future.poll(task),
                StateProj::First { future, retryable } => {
                    let outcome = ready!(future.poll(task));
                    let Some(mut retryable) = retryable.take() else { return Poll::Ready(outcome) };
                    let failure = retryable.record(&outcome, 1, Duration::ZERO);
                    match failure.filter(|failure| failure.hints.is_retryable()) {
                        None => return Poll::Ready(outcome),
                        Some(failure) => {
                            let later = Box::pin(retry(retryable, outcome, failure));
                            state.set(State::Retrying { later });
                        }
                    }
                }
                StateProj::Retrying { later } => return later.as_mut().poll(task),
                StateProj::Refused { error } => match error.take() {
                    Some(error) => return Poll::Ready(Err(error)),
                    // The future has completed, and must not be polled any more.
                    None => return Poll::Pending,
                },
            }
        }
    }
}

impl<S: MgpService> fmt::Debug for ResponseFuture<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}
