//! The response future of the audit layer: it waits until the sink has issued a [`Ticket`], runs the call and records
//! how the call ended.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use mgp_types::RpcError;
use mgp_types::mgp::{AuditEvent, Extension};
use mgp_types::service::{
    AgentId, AuditError, AuditFuture, AuditSink, BoxFuture, Call, CallRecord, CallerAccess,
    CallerChannel, ConsumerGone, MgpService, OutletItem, OutletItemKind, Reply, Rule, ServerId,
    Sink, Ticket,
};
use pin_project_lite::pin_project;

use super::event::REQUESTS_ONLY;
use super::outcome::{RoundEnd, note_sources};
use crate::error::Refusal;

pin_project! {
    /// Response future of [`Audit`](super::Audit). If it is dropped, the call is recorded as cancelled.
    pub struct ResponseFuture<S: MgpService> {
        #[pin]
        state: State<S, S::Future>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, F> {
        // This message is not recorded, only passed on.
        Pass { #[pin] future: F },
        // The sink has not answered yet, and the call has not been sent.
        Waiting {
            later: BoxFuture<'static, Result<Ticket, AuditError>>,
            held: Option<(S, Call, Arc<dyn AuditSink>)>,
        },
        // Fields are dropped in this order: first the future, which releases the resources of the call, then the
        // ticket, which writes the record of the call.
        Running {
            #[pin]
            future: F,
            ticket: Option<Ticket>,
            asker: Option<Arc<dyn CallerChannel>>,
            // `true` if the server negotiated that it reports the sources of its results; then these sources are
            // recorded.
            names_sources: bool,
            sink: Arc<dyn AuditSink>,
        },
        // The call was refused; the answer waits until the second event of the refusal is recorded.
        RecordingSecond {
            later: BoxFuture<'static, Result<(), AuditError>>,
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

    /// Refuses a tool call that was sent as a notification. The refusal is returned once the sink has finished
    /// recording `blocked`.
    pub(super) fn block(sink: &dyn AuditSink, blocked: AuditEvent) -> Self {
        let refused = Refusal::NotARequest(Rule::new(REQUESTS_ONLY)).into();
        let state = match record_second(sink, Some(blocked)) {
            None => State::Refused { error: Some(refused) },
            Some(later) => State::RecordingSecond { later, answer: Some(Err(refused)) },
        };
        Self { state }
    }

    pub(super) fn begin(
        sink: &Arc<dyn AuditSink>,
        start: CallRecord,
        inner: &mut S,
        call: Call,
    ) -> Self {
        let begun = sink.begin(start);
        let sink = Arc::clone(sink);
        let state = match begun {
            AuditFuture::Ready(Ok(ticket)) => State::run(inner, call, ticket, sink),
            AuditFuture::Ready(Err(reason)) => {
                State::Refused { error: Some(refuse(reason, &call)) }
            }
            AuditFuture::Later(later) => {
                State::Waiting { later, held: Some((inner.clone(), call, sink)) }
            }
        };
        Self { state }
    }
}

impl<S: MgpService> State<S, S::Future> {
    /// Runs a call after the sink has issued a ticket, or refuses the call if the sink returned an error.
    fn begun(
        begun: Result<Ticket, AuditError>,
        held: Option<(S, Call, Arc<dyn AuditSink>)>,
    ) -> Self {
        match (begun, held) {
            (Ok(ticket), Some((mut inner, call, sink))) => {
                Self::run(&mut inner, call, ticket, sink)
            }
            (Err(reason), Some((_, call, _))) => {
                Self::Refused { error: Some(refuse(reason, &call)) }
            }
            (_, None) => Self::Done,
        }
    }

    fn run(inner: &mut S, mut call: Call, ticket: Ticket, sink: Arc<dyn AuditSink>) -> Self {
        let cx = call.cx_mut();
        let names_sources = cx.callee.has(Extension::Provenance);
        // Store the record among the extensions of the call: inner layers add details to it, and the handler marks in
        // it that the call ran.
        cx.extensions.insert_shared(Arc::clone(ticket.start()));
        let asker = match &cx.caller_access {
            CallerAccess::Channel(asker) => Some(Arc::clone(asker)),
            _ => None,
        };
        if cx.outlet.wants(OutletItemKind::Chunk) {
            let record = Arc::clone(ticket.start());
            let outlet = std::mem::take(&mut cx.outlet);
            cx.outlet = outlet.wrap(|inner| Arc::new(ChunkCounter { inner, record }));
        }
        Self::Running { future: inner.call(call), ticket: Some(ticket), asker, names_sources, sink }
    }
}

/// A sink that counts the chunks of a call in the record of the call.
struct ChunkCounter {
    inner: Arc<dyn Sink>,
    record: Arc<CallRecord>,
}

impl Sink for ChunkCounter {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        if let OutletItem::Chunk(chunk) = &item {
            self.record.note_chunk(chunk.content.as_str().len() as u64);
        }
        self.inner.send(item)
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        self.inner.wants(kind)
    }
}

/// Records the second event of a refusal, e.g. `VALIDATION_FAILED` after `TOOL_BLOCKED`. Returns a future that waits
/// for the sink, or `None` if the sink has finished.
fn record_second(
    sink: &dyn AuditSink,
    second: Option<AuditEvent>,
) -> Option<BoxFuture<'static, Result<(), AuditError>>> {
    match sink.record(second?) {
        AuditFuture::Later(later) => return Some(later),
        AuditFuture::Ready(Ok(())) => {}
        AuditFuture::Ready(Err(reason)) => log_dropped(&reason),
    }
    None
}

/// Logs that a second event could not be recorded. The call was refused and its first event is recorded, so the caller
/// gets no error for this.
fn log_dropped(reason: &AuditError) {
    tracing::error!(
        error = reason as &dyn std::error::Error,
        "dropped the second event of a refusal"
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
                    let held = held.take();
                    state.set(State::begun(begun, held));
                }
                StateProj::Running { future, ticket, asker, names_sources, sink } => {
                    // The ticket is in a local variable while the inner future is polled. A panic therefore drops the
                    // ticket, which records a failure.
                    let held = ticket.take();
                    match future.poll(task) {
                        Poll::Ready(answer) => {
                            if let (true, Some(ticket)) = (*names_sources, &held) {
                                note_sources(&answer, ticket.start());
                            }
                            let second = RoundEnd::of(&answer, held.as_ref()).write(held);
                            match record_second(&**sink, second) {
                                None => return Poll::Ready(answer),
                                Some(later) => {
                                    state.set(State::RecordingSecond {
                                        later,
                                        answer: Some(answer),
                                    });
                                    continue;
                                }
                            }
                        }
                        Poll::Pending => *ticket = held,
                    }
                    let Some((reply, ticket)) = suspended(asker.as_deref(), ticket) else {
                        return Poll::Pending;
                    };
                    state.set(State::Done);
                    if let Some(ticket) = ticket {
                        ticket.suspend();
                    }
                    return Poll::Ready(Ok(reply));
                }
                StateProj::RecordingSecond { later, answer } => {
                    if let Err(reason) = ready!(later.as_mut().poll(task)) {
                        log_dropped(&reason);
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
                // The future has already completed; the service contract forbids polling it again.
                StateProj::Done => return Poll::Pending,
            }
        }
    }
}

/// Returns the reply that sends questions to the caller, and the ticket of the call; `None` if no layer or handler has
/// asked a question that must be answered before the call can continue.
///
/// Without this reply, the future of the call would stay pending. An outer layer would then drop it, and the ticket
/// would record the call as cancelled.
fn suspended(
    asker: Option<&dyn CallerChannel>,
    ticket: &mut Option<Ticket>,
) -> Option<(Reply, Option<Ticket>)> {
    Some((asker?.take_suspended()?, ticket.take()))
}

fn refuse(reason: AuditError, call: &Call) -> RpcError {
    let cx = call.cx();
    tracing::error!(
        server = cx.server.as_ref().map(ServerId::as_str),
        tool = call.tool().map(|tool| tool.name),
        agent = cx.principal.as_agent().map(AgentId::as_str),
        trace = cx.trace.as_deref(),
        error = &reason as &dyn std::error::Error,
        "denied tool call that cannot be recorded"
    );
    Refusal::Unaudited(reason).into()
}

impl<S: MgpService> fmt::Debug for ResponseFuture<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}
