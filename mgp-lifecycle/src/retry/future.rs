//! The response future: a first attempt costs no box, and what comes after a failure is boxed.
//!
//! Applies to: outbound.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use mgp_types::service::{BoxFuture, Call, MgpService};
use mgp_types::{ErrorCode, RpcError};
use pin_project_lite::pin_project;

use super::again::again;
use super::circuit::Sign;
use super::config::Attempted;
use super::failure::{Failure, Outcome};
use super::heard::Ear;
use super::layer::{Place, What};
use super::server::{Probe, Server};

/// What is kept of a call while its first attempt runs, to make it again.
pub(super) struct Kept<S> {
    pub(super) call: Call,
    pub(super) inner: S,
    pub(super) place: Arc<Place>,
    pub(super) server: Arc<Server>,
    pub(super) ear: Option<Arc<Ear>>,
    pub(super) probe: Option<Probe>,
    pub(super) what: What,
}

pin_project! {
    /// Response future of [`Retry`](super::Retry); dropping it ends the attempt that runs, or the wait for the next one.
    pub struct ResponseFuture<S: MgpService> {
        #[pin]
        state: State<S, S::Future>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, F> {
        // Never made again.
        Pass { #[pin] future: F },
        First { #[pin] future: F, kept: Option<Kept<S>> },
        Again { later: BoxFuture<'static, Outcome> },
        Refused { error: Option<RpcError> },
    }
}

impl<S: MgpService> ResponseFuture<S> {
    pub(super) fn pass(future: S::Future) -> Self {
        Self { state: State::Pass { future } }
    }

    pub(super) fn first(future: S::Future, kept: Kept<S>) -> Self {
        Self { state: State::First { future, kept: Some(kept) } }
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
                StateProj::First { future, kept } => {
                    let outcome = ready!(future.poll(task));
                    let Some(mut kept) = kept.take() else { return Poll::Ready(outcome) };
                    let failure = kept.met(&outcome, 1, Duration::ZERO);
                    match failure.filter(|failure| failure.hints.is_retryable()) {
                        None => return Poll::Ready(outcome),
                        Some(failure) => {
                            let later = Box::pin(again(kept, outcome, failure));
                            state.set(State::Again { later });
                        }
                    }
                }
                StateProj::Again { later } => return later.as_mut().poll(task),
                StateProj::Refused { error } => match error.take() {
                    Some(error) => return Poll::Ready(Err(error)),
                    // Only a future that has answered is here, and it is not polled again.
                    None => return Poll::Pending,
                },
            }
        }
    }
}

impl<S> Kept<S> {
    /// Takes note of how an attempt ended; gives the failure, if it is one.
    pub(super) fn met(
        &mut self,
        outcome: &Outcome,
        attempt: u32,
        waited: Duration,
    ) -> Option<Failure> {
        let failure = match outcome {
            Ok(_) if self.what != What::Tool => None,
            outcome => Failure::of(outcome),
        };
        let sign = match (outcome, &failure) {
            (Err(error), _) => Sign::of(error),
            (Ok(_), Some(refusal)) => Sign::of_code(refusal.code),
            (Ok(_), None) => Sign::Answers,
        };
        self.server.note(sign, self.probe.take(), &self.place.config.circuit);
        if let (What::List(page), Ok(reply)) = (self.what, outcome)
            && self.place.learns()
        {
            self.place.learn(&self.server, reply, page);
        }
        self.tell(attempt, failure.as_ref().map(|failure| failure.code), waited);
        failure
    }

    /// Tells whoever wants to hear of attempts.
    fn tell(&self, attempt: u32, code: Option<ErrorCode>, waited: Duration) {
        if let Some(observer) = self.place.config.observer() {
            let cx = self.call.cx();
            observer(&Attempted {
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
