//! The response future of the audit layer: wait for the ticket, run, say how it ended.
//!
//! Applies to: both.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use mgp_types::RpcError;
use mgp_types::mgp::AuditEvent;
use mgp_types::service::{
    Asker, Asking, AuditSink, Audited, BoxFuture, Call, MgpService, Reply, Rule, Start, Ticket,
    Unaudited,
};
use pin_project_lite::pin_project;

use super::event::NO_REQUEST;
use super::outcome::Ending;
use crate::error::Refusal;

pin_project! {
    /// Response future of [`Audit`](super::Audit); dropping it records the call as cancelled.
    pub struct ResponseFuture<S: MgpService> {
        #[pin]
        state: State<S, S::Future>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, F> {
        // Not recorded.
        Pass { #[pin] future: F },
        // The sink has not answered; nothing has left.
        Waiting {
            later: BoxFuture<'static, Result<Ticket, Unaudited>>,
            held: Option<(S, Call, Arc<dyn AuditSink>)>,
        },
        // The future stands before the ticket: what the call holds is given back before its record is written.
        Running {
            #[pin]
            future: F,
            ticket: Option<Ticket>,
            asker: Option<Arc<dyn Asker>>,
            sink: Arc<dyn AuditSink>,
        },
        // It was refused, and is answered once the second event of the refusal was taken.
        Telling {
            later: BoxFuture<'static, Result<(), Unaudited>>,
            answer: Option<Result<Reply, RpcError>>,
        },
        Refused { error: Option<RpcError> },
        Done,
    }
}

impl<S: MgpService> ResponseFuture<S> {
    pub(super) fn pass(future: S::Future) -> Self {
        Self { state: State::Pass { future } }
    }

    /// Refuses a call that may be none, once its record was taken.
    pub(super) fn block(sink: &dyn AuditSink, blocked: AuditEvent) -> Self {
        let refused = Refusal::NotARequest(Rule::new(NO_REQUEST)).into();
        let state = match tell(sink, Some(blocked)) {
            None => State::Refused { error: Some(refused) },
            Some(later) => State::Telling { later, answer: Some(Err(refused)) },
        };
        Self { state }
    }

    pub(super) fn begin(
        sink: &Arc<dyn AuditSink>,
        start: Start,
        inner: &mut S,
        call: Call,
    ) -> Self {
        let begun = sink.begin(start);
        let sink = Arc::clone(sink);
        let state = match begun {
            Audited::Ready(Ok(ticket)) => State::run(inner, call, ticket, sink),
            Audited::Ready(Err(reason)) => State::Refused { error: Some(refuse(reason)) },
            Audited::Later(later) => {
                State::Waiting { later, held: Some((inner.clone(), call, sink)) }
            }
        };
        Self { state }
    }
}

impl<S: MgpService> State<S, S::Future> {
    fn run(inner: &mut S, mut call: Call, ticket: Ticket, sink: Arc<dyn AuditSink>) -> Self {
        let cx = call.cx_mut();
        // Layers further in add what they know; whatever runs the call says so.
        cx.extensions.insert_shared(Arc::clone(ticket.start()));
        let asker = match &cx.asking {
            Asking::Via(asker) => Some(Arc::clone(asker)),
            _ => None,
        };
        Self::Running { future: inner.call(call), ticket: Some(ticket), asker, sink }
    }
}

/// Hands over the second event of a refusal; what is left to wait for, if anything.
fn tell(
    sink: &dyn AuditSink,
    second: Option<AuditEvent>,
) -> Option<BoxFuture<'static, Result<(), Unaudited>>> {
    match sink.record(second?) {
        Audited::Later(later) => return Some(later),
        Audited::Ready(Ok(())) => {}
        Audited::Ready(Err(reason)) => untold(&reason),
    }
    None
}

/// The call was refused and its own record written: there is nothing left to refuse.
fn untold(reason: &Unaudited) {
    tracing::error!(
        error = reason as &dyn std::error::Error,
        "the second event of a refusal is lost"
    );
}

impl<S: MgpService> Future for ResponseFuture<S> {
    type Output = Result<Reply, RpcError>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Pass { future } => return future.poll(task),
                StateProj::Waiting { later, held } => {
                    let begun = ready!(later.as_mut().poll(task));
                    let next = match (begun, held.take()) {
                        (Ok(ticket), Some((mut inner, call, sink))) => {
                            State::run(&mut inner, call, ticket, sink)
                        }
                        (Ok(_), None) => State::Done,
                        (Err(reason), _) => State::Refused { error: Some(refuse(reason)) },
                    };
                    state.set(next);
                }
                StateProj::Running { future, ticket, asker, sink } => {
                    // Held here, the ticket is dropped by the panic that leaves the poll, and knows it.
                    let held = ticket.take();
                    match future.poll(task) {
                        Poll::Ready(answer) => {
                            let second = Ending::of(&answer, held.as_ref()).write(held);
                            match tell(&**sink, second) {
                                None => return Poll::Ready(answer),
                                Some(later) => {
                                    state.set(State::Telling { later, answer: Some(answer) });
                                    continue;
                                }
                            }
                        }
                        Poll::Pending => *ticket = held,
                    }
                    // Questions of gates and handlers end the round here, or the ticket would be dropped with them
                    // further out and the call be recorded as cancelled.
                    let Some(reply) = asker.as_ref().and_then(|asker| asker.take_suspended())
                    else {
                        return Poll::Pending;
                    };
                    let held = ticket.take();
                    state.set(State::Done);
                    if let Some(held) = held {
                        held.suspend();
                    }
                    return Poll::Ready(Ok(reply));
                }
                StateProj::Telling { later, answer } => {
                    if let Err(reason) = ready!(later.as_mut().poll(task)) {
                        untold(&reason);
                    }
                    match answer.take() {
                        Some(answer) => return Poll::Ready(answer),
                        None => state.set(State::Done),
                    }
                }
                StateProj::Refused { error } => match error.take() {
                    Some(error) => return Poll::Ready(Err(error)),
                    None => return Poll::Pending,
                },
                // Only a future that has answered is here, and it is not polled again.
                StateProj::Done => return Poll::Pending,
            }
        }
    }
}

fn refuse(reason: Unaudited) -> RpcError {
    tracing::error!(
        error = &reason as &dyn std::error::Error,
        "call refused: it cannot be recorded"
    );
    Refusal::Unaudited(reason).into()
}

impl<S: MgpService> fmt::Debug for ResponseFuture<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}
