//! The response future. The first attempt is not boxed, but retries are.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use mgp_types::service::{BoxFuture, Call, MgpService};
use mgp_types::{ErrorCode, RpcError};
use pin_project_lite::pin_project;

use super::attempt_key::AttemptKey;
use super::circuit::Evidence;
use super::config::AttemptReport;
use super::delivery::OutletMonitor;
use super::failure::{Failure, Outcome};
use super::layer::{RequestKind, RetryContext};
use super::retries::retry;
use super::server::{Probe, Server};

/// A running call, with everything that is needed to retry it.
pub(super) struct RetryableCall<S> {
    pub(super) call: Call,
    pub(super) inner: S,
    pub(super) context: Arc<RetryContext>,
    pub(super) server: Arc<Server>,
    pub(super) monitor: Option<Arc<OutletMonitor>>,
    /// The idempotency key of the attempts, if they have one.
    pub(super) key: Option<Arc<AttemptKey>>,
    pub(super) probe: Option<Probe>,
    pub(super) kind: RequestKind,
}

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

impl<S> RetryableCall<S> {
    /// Records the outcome of an attempt; returns its failure, or `None` if the attempt succeeded.
    pub(super) fn record(
        &mut self,
        outcome: &Outcome,
        attempt: u32,
        waited: Duration,
    ) -> Option<Failure> {
        let failure = match outcome {
            Ok(_) if self.kind != RequestKind::Tool => None,
            outcome => Failure::of(outcome),
        };
        let evidence = match (outcome, &failure) {
            (Err(error), _) => Evidence::of(error),
            (Ok(_), Some(refusal)) => Evidence::of_code(refusal.code),
            (Ok(_), None) => Evidence::Answered,
        };
        self.server.record(evidence, self.probe.take(), &self.context.config.circuit);
        if let (RequestKind::List(page), Ok(reply)) = (self.kind, outcome)
            && self.context.learns()
        {
            self.context.learn(&self.server, reply, page);
        }
        self.notify_observer(attempt, failure.as_ref().map(|failure| failure.code), waited);
        failure
    }

    fn notify_observer(&self, attempt: u32, code: Option<ErrorCode>, waited: Duration) {
        if let Some(observer) = self.context.config.observer() {
            let cx = self.call.cx();
            observer(&AttemptReport {
                attempt,
                code,
                waited,
                server: cx.server.as_ref().or(self.server.id()),
                tool: self.call.tool().map(|tool| tool.name),
            });
        }
    }
}

impl<S: MgpService> fmt::Debug for ResponseFuture<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}
