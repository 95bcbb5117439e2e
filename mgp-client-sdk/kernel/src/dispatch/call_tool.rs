//! `tools/call`: passes a call to the server that has the tool, after all checks for that server.
//!
//! Applies to: inbound.

use std::future::Future;
use std::sync::Arc;

use mgp_client_sdk::Hop;
use mgp_security::DecideOnly;
use mgp_toolindex::{IndexedTool, MetaTool, UseOutcome};
use mgp_types::mcp::CallToolParams;
use mgp_types::method::{READ_MORE, find_kernel_tool};
use mgp_types::service::{Call, Context, Params, Reply, Visibility as _, is_tool_error};
use mgp_types::{ErrorCode, RpcError};

use super::delegation;
use super::dispatcher::{Dispatcher, DispatcherParts};
use super::find_tool::{CallAddress, ResolvedTool, find_unread, resolve_tool};
use super::links;
use super::result_members;
use super::structured_result;
use super::surface;
use super::tasks;
use crate::caller_view::is_for_pages_only;
use crate::events::PublishedCall;
use crate::fleet::ManagedServer;
use crate::metrics::{self, MeasuredCall};
use crate::proposals::session_state::OpenSession;

/// Turns a call of `mgp_tools_call` whose arguments name a kernel method or `mgp_read_more` into a direct call of that
/// tool.
pub(crate) fn unwrap_kernel_tool(call: &mut Call) {
    if call.tool().and_then(|tool| MetaTool::of(tool.name)) == Some(MetaTool::Call)
        && let Ok(named) = call.tool_arguments().get::<CallToolParams>()
        // A nested `mgp_tools_call` stays as it is, because it is neither a method nor `mgp_read_more`.
        && find_kernel_tool(&named.name)
            .is_some_and(|tool| tool.method.is_some() || tool.name == READ_MORE)
    {
        let arguments = named.arguments.unwrap_or_default().into();
        *call.params_mut() = Params::tool(&named.name, &arguments);
    }
}

/// Passes a call to the server that has the tool.
pub(crate) fn call(
    dispatcher: Dispatcher,
    mut call: Call,
) -> impl Future<Output = Result<Reply, RpcError>> + Send {
    // Read the address first: it is meant only for this kernel, so the call loses it when it is rewritten for the
    // server.
    let read = CallAddress::read(&call).map(|address| {
        let resolved = resolve_tool(&dispatcher, &mut call, &address);
        (address, resolved)
    });
    async move {
        let (address, resolved) = read?;
        // Find the session first, so that an expired session handle makes the call fail before the tool runs.
        dispatcher.parts().sessions.find(call.cx(), address.session_handle.as_deref())?;
        let resolved = match resolved {
            Err(error) if error.code() == ErrorCode::TOOL_NOT_FOUND => {
                // Box this rare future, so that the future of all other calls remains small.
                Box::pin(find_unread(&dispatcher, &mut call, &address, error)).await
            }
            resolved => resolved,
        };
        delegation::apply(&mut call, &address.on_behalf_of);
        let (tool, is_visible) = match resolved? {
            ResolvedTool::Visible(tool) => (tool, true),
            ResolvedTool::Found(tool) => (tool, false),
            ResolvedTool::Held(server) => return refuse_held(&server, call).await,
        };
        let DispatcherParts { fleet, view, metrics, .. } = dispatcher.parts();
        let server = fleet.get(tool.server_id()).ok_or_else(|| server_removed(&tool))?;
        let sees = is_visible || view.sees(call.cx(), Some(server.id()), tool.name()).is_ok();
        // The answer of a caller can continue a call that an earlier request began. The credentials of the current
        // request may permit less than those of that request.
        let is_lost = Hop::is_continued(call.cx()) && !view.may_call(call.cx(), &tool);
        let has_access = sees && !is_lost;
        let references = &fleet.context().references;
        if references.apply_to(call.cx()) {
            // Attach the data before the security checks, so that these see the arguments that the server will receive.
            let extensions = server.extensions(call.cx());
            Box::pin(references.attach(&mut call, view, extensions, &tool)).await?;
        }
        let forwarded = ForwardedCall {
            dispatcher: &dispatcher,
            address: &address,
            server: &server,
            tool: &tool,
            has_access,
        };
        let session = forwarded.begin(&mut call)?;
        let cx = call.cx().clone();
        let published = fleet.context().events.call(&cx, server.id(), tool.name());
        let measured = metrics.begin(&cx, server.id(), tool.name(), published.earlier());
        let answer = if tasks::may_be_task(&server, &tool, &cx) {
            Box::pin(tasks::call_as_task(&server, &tool, call, has_access)).await
        } else {
            server.send(call, has_access).await
        };
        forwarded.finish(&cx, session, measured, published, answer).await
    }
}

/// Sends a call of a tool whose definition waits or was rejected to the security checks, which refuse the call and
/// record the refusal.
fn refuse_held(
    server: &Arc<ManagedServer>,
    mut call: Call,
) -> impl Future<Output = Result<Reply, RpcError>> + Send + use<> {
    // Without this mark, the call would run if the server lists the approved definition again meanwhile.
    call.cx_mut().extensions.insert(DecideOnly);
    server.send(call, false)
}

/// A call that is about to be forwarded, with its tool and its server.
struct ForwardedCall<'a> {
    dispatcher: &'a Dispatcher,
    address: &'a CallAddress,
    server: &'a Arc<ManagedServer>,
    tool: &'a IndexedTool,
    has_access: bool,
}

impl ForwardedCall<'_> {
    /// Prepares the call for the server, and opens its session if it has one.
    fn begin(&self, call: &mut Call) -> Result<Option<OpenSession>, RpcError> {
        let DispatcherParts { results, metrics, .. } = self.dispatcher.parts();
        let session = result_members::begin(self.dispatcher, call, self.tool, self.has_access)?;
        metrics.identify(call);
        results.limit_chunks(call, || self.server.config().results);
        // Replace links in chunks before the limits of chunks apply, because links in results are also replaced first.
        links::in_chunks(self.dispatcher, call, self.server);
        Ok(session)
    }

    /// Checks the answer of the server, records the use of the tool, and limits the size of the result. If the answer
    /// is a question to the caller, does not record the use, because the call continues in its next round.
    async fn finish(
        &self,
        cx: &Context,
        session: Option<OpenSession>,
        measured: Option<MeasuredCall<'_>>,
        published: PublishedCall<'_>,
        answer: Result<Reply, RpcError>,
    ) -> Result<Reply, RpcError> {
        let Self { dispatcher, address, server, tool, has_access } = *self;
        let DispatcherParts { fleet, results, .. } = dispatcher.parts();
        let answer = answer.and_then(crate::results::well_formed);
        let answer = answer.and_then(|reply| structured_result::check(fleet, tool, cx, reply));
        let goes_on = matches!(&answer, Ok(Reply::InputRequired(_)));
        // This value counts only if the call has ended, not if it waits for the caller's answer to a question.
        let is_success =
            matches!(&answer, Ok(reply) if !reply.as_body().is_some_and(is_tool_error));
        if goes_on {
            if let Some(measured) = measured {
                measured.suspend();
            }
        } else if measured.is_some() || answer.is_err() {
            metrics::end(cx, server.id(), tool.name(), measured, &answer);
        }
        published.end(&answer, is_success).await;
        if has_access && !goes_on {
            record_use(dispatcher, cx, address, tool, is_success);
        }
        let limits = || server.config().results;
        let answer = result_members::finish(dispatcher, cx, server, tool, session, answer);
        match answer.and_then(|reply| links::in_result(dispatcher, cx, server, reply)) {
            Ok(reply) => {
                let fits = |content: &str| structured_result::fits_schema(fleet, tool, content);
                results.limit(cx, (server.id(), tool.name()), limits, fits, reply)
            }
            Err(error) => {
                let error = result_members::add_hints(cx, server, error);
                Err(results.limit_error(cx, limits, error))
            }
        }
    }
}

/// Records the use of a tool in the caller's session and in the history of the index.
fn record_use(
    dispatcher: &Dispatcher,
    cx: &Context,
    address: &CallAddress,
    tool: &IndexedTool,
    is_success: bool,
) {
    // Record nothing for a tool that only pages use: in the session, it must not replace a tool that a model uses.
    if is_for_pages_only(tool) {
        return;
    }
    let DispatcherParts { fleet, view, meta_tools, search, .. } = dispatcher.parts();
    let outcome = if is_success { UseOutcome::Answered } else { UseOutcome::Failed };
    let recorded = search.record_call(cx, address.session_handle.as_deref(), tool, outcome);
    // Ignore the error: the session handle has expired during the call.
    if recorded.unwrap_or_default() {
        surface::notify_session_changed(fleet.context(), view, meta_tools, cx);
    }
}

fn server_removed(tool: &IndexedTool) -> RpcError {
    let server = tool.server_id();
    let message = format!("the server `{server}` was removed; find another tool");
    RpcError::new(ErrorCode::TOOL_NOT_FOUND, message)
}
