//! A running call of a server's tool. [`CallEnd`] lists the ways in which a call can end, and [`OpenCall::record`]
//! alone determines what is recorded about each of these ends. A call that is refused before an [`OpenCall`] exists,
//! e.g. a call of an unknown tool, is not counted and causes no event; `call_tool.rs` records it in the audit log.

use mgp_toolindex::{IndexedTool, UseOutcome};
use mgp_types::RpcError;
use mgp_types::service::{CallerChannel, Context, Reply, ServerId, is_tool_error};

use super::dispatcher::{Dispatcher, DispatcherParts};
use super::surface;
use crate::caller_view::is_for_pages_only;
use crate::events::PublishedCall;
use crate::metrics;

/// A call that the kernel sends to the security checks of its server. If this value is dropped before
/// [`end`](Self::end) was called, the drop is recorded as the end of the call.
pub(super) struct OpenCall<'a> {
    dispatcher: &'a Dispatcher,
    cx: &'a Context,
    server: &'a ServerId,
    tool: &'a str,
    /// The tool for the records of use; `None` if the caller has no access to the tool.
    used: Option<UsedTool<'a>>,
    published: PublishedCall<'a>,
    /// `true` if the metrics count the call.
    is_counted: bool,
    is_ended: bool,
}

/// A tool whose use is recorded, and the handle of the session that the call names.
pub(super) type UsedTool<'a> = (&'a IndexedTool, Option<&'a str>);

/// The ways in which a call can end.
#[derive(Clone, Copy)]
enum CallEnd<'a> {
    /// The tool returned a result.
    Completed,
    /// The tool returned a result that reports an error.
    ToolError,
    /// The call has no result: it was refused, could not reach the server, or the server answered with an error.
    Error(&'a RpcError),
    /// The call asks its caller a question. It continues when the caller repeats it with the answer.
    Asked,
    /// The caller cancelled the call or disconnected.
    Cancelled,
}

impl<'a> CallEnd<'a> {
    fn of(answer: &'a Result<Reply, RpcError>) -> Self {
        match answer {
            Ok(Reply::InputRequired(_)) => Self::Asked,
            Ok(reply) if reply.as_body().is_some_and(is_tool_error) => Self::ToolError,
            Ok(_) => Self::Completed,
            Err(error) => Self::Error(error),
        }
    }

    /// Returns the end of a call that was dropped without an answer.
    fn of_dropped(cx: &Context) -> Self {
        let has_asked = cx.caller_access.channel().is_some_and(CallerChannel::has_suspended);
        if has_asked { Self::Asked } else { Self::Cancelled }
    }
}

impl<'a> OpenCall<'a> {
    /// Begins a call, and publishes its start.
    pub(super) fn begin(
        dispatcher: &'a Dispatcher,
        cx: &'a Context,
        (server, tool): (&'a ServerId, &'a str),
        used: Option<UsedTool<'a>>,
    ) -> Self {
        let DispatcherParts { fleet, metrics, .. } = dispatcher.parts();
        let published = fleet.context().events.call(cx, server, tool);
        let is_counted = metrics.counts_calls();
        Self { dispatcher, cx, server, tool, used, published, is_counted, is_ended: false }
    }

    /// Records the end of the call, [waits](PublishedCall::settle) for its events, and returns the answer.
    pub(super) async fn end(mut self, answer: Result<Reply, RpcError>) -> Result<Reply, RpcError> {
        let end = CallEnd::of(&answer);
        self.record(end);
        // Do not wait if the call only asks a question, because its events end in a later request.
        if !matches!(end, CallEnd::Asked) {
            self.published.settle().await;
        }
        answer
    }

    /// Records an end of the call in the metrics, as an event, and in the history of the tool's use.
    fn record(&mut self, end: CallEnd<'_>) {
        self.is_ended = true;
        match end {
            CallEnd::Completed => {
                self.count(metrics::ANSWERED, false);
                self.published.complete();
                self.record_use(UseOutcome::Answered);
            }
            CallEnd::ToolError => {
                self.count(metrics::ANSWERED, false);
                self.published.fail(None);
                self.record_use(UseOutcome::Failed);
            }
            CallEnd::Error(error) => {
                let is_denied = metrics::log_denial(self.cx, self.server, self.tool, error);
                self.count(error.code().0, is_denied);
                self.published.fail(Some(error));
                self.record_use(UseOutcome::Failed);
            }
            CallEnd::Asked => self.published.suspend(),
            CallEnd::Cancelled => {
                self.count(metrics::CANCELLED, false);
                self.published.cancel();
            }
        }
    }

    fn count(&self, code: i32, is_denied: bool) {
        if self.is_counted {
            let (counts, time) = (&self.dispatcher.parts().metrics, self.published.time());
            counts.count(self.cx, (self.server, self.tool), time, code, is_denied);
        }
    }

    /// Records the use of the tool in the caller's session and in the history of the index.
    fn record_use(&self, outcome: UseOutcome) {
        let Some((tool, handle)) = self.used else { return };
        // Record nothing for a tool that only pages (MCP Apps) use. Otherwise it could push a tool that a model uses
        // out of the session.
        if is_for_pages_only(tool) {
            return;
        }
        let DispatcherParts { fleet, view, meta_tools, search, .. } = self.dispatcher.parts();
        // Ignore the error: the session handle has expired during the call.
        if search.record_call(self.cx, handle, tool, outcome).unwrap_or_default() {
            surface::notify_session_changed(fleet.context(), view, meta_tools, self.cx);
        }
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        if !self.is_ended {
            self.record(CallEnd::of_dropped(self.cx));
        }
    }
}
