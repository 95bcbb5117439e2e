//! `tools/call`: passes a call to the server that has the tool, after all checks for that server.
//!
//! Applies to: inbound.

use std::future::Future;
use std::sync::Arc;

use mgp_types::service::{Call, Reply};
use mgp_types::{ErrorCode, RpcError, clip};

use super::called_tool::CalledTool;
use super::delegation;
use super::dispatcher::{Dispatcher, DispatcherParts};
use super::find_tool::{CallAddress, ResolvedTool, find_unread, resolve_tool};
use super::links;
use super::open_call::OpenCall;
use super::result_members;
use super::structured_result;
use crate::fleet::ManagedServer;
use crate::proposals::session_state::OpenSession;
use crate::results::well_formed;

/// The maximum length, in bytes, of the name of a held tool (one whose definition waits for an operator or was
/// rejected) in events and logs. Access rules permit names of at most this length.
const MAX_NAME_BYTES: usize = 256;

/// Passes a call to the server that has the tool.
pub(crate) fn call(
    dispatcher: Dispatcher,
    mut call: Call,
) -> impl Future<Output = Result<Reply, RpcError>> + Send {
    // Read the address first: it is meant only for this kernel, so the call loses it when it is rewritten for the
    // server. Both steps run before the future is polled, because neither of them waits: the call gets the tool that
    // the lists had when it arrived.
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
        let called = match resolved? {
            ResolvedTool::Found { tool, is_visible } => {
                CalledTool::find(&dispatcher, call.cx(), tool, is_visible)?
            }
            // Box this rare future, too.
            ResolvedTool::Held(server) => {
                return Box::pin(refuse_held(&dispatcher, &server, call)).await;
            }
        };
        let session = prepare(&dispatcher, &called, &mut call).await?;
        let cx = call.cx().clone();
        let used = called.has_access.then_some((&called.tool, address.session_handle.as_deref()));
        let named = (called.server.id(), called.tool.name());
        let mut open = OpenCall::begin(&dispatcher, &cx, named, used);
        let answer = called.send(call).await;
        let answer = fit(&open, &called, session, check(&open, &called, answer));
        // Record the answer that the caller receives: the server's result may be refused by the last two steps, too.
        open.end(&answer).await;
        answer
    }
}

/// Sends a call of a held tool to the security checks, which refuse the call and record the refusal.
async fn refuse_held(
    dispatcher: &Dispatcher,
    server: &Arc<ManagedServer>,
    mut call: Call,
) -> Result<Reply, RpcError> {
    dispatcher.parts().metrics.identify(&mut call);
    // Clip the name: for some servers, every name counts as that of a held tool, so the caller can write any text
    // there.
    let tool = clip(call.tool().map_or("", |tool| tool.name), MAX_NAME_BYTES);
    let cx = call.cx().clone();
    let mut open = OpenCall::begin(dispatcher, &cx, (server.id(), &tool), None);
    let answer = server.send(call, false).await;
    open.end(&answer).await;
    answer
}

/// Prepares a call for the server: puts data in place of references, opens the caller's session with the server if
/// there is one, gives the call the id of its span in the metrics, and adapts the chunks that the server will send.
async fn prepare(
    dispatcher: &Dispatcher,
    called: &CalledTool,
    call: &mut Call,
) -> Result<Option<OpenSession>, RpcError> {
    let DispatcherParts { fleet, view, results, metrics, .. } = dispatcher.parts();
    let CalledTool { server, tool, has_access } = called;
    let references = &fleet.context().references;
    // Do not read data for a caller that must not call the tool, because the security checks will refuse its call. Some
    // credentials permit a caller to see a tool but not to call it.
    if *has_access && references.apply_to(call.cx()) && view.may_call(call.cx(), tool) {
        // Attach the data before the security checks, so that these see the arguments that the server will receive.
        let extensions = server.extensions(call.cx());
        Box::pin(references.attach(call, view, extensions, tool)).await?;
    }
    let session = result_members::begin(dispatcher, call, called)?;
    metrics.identify(call);
    results.limit_chunks(call, || server.config().results);
    // Replace links in chunks before the limits of chunks apply, because links in results are also replaced first.
    links::in_chunks(dispatcher, call, server);
    Ok(session)
}

/// Checks that the answer of the server has the form of a tool's result, and fits the output schema of the tool.
fn check(
    open: &OpenCall<'_>,
    called: &CalledTool,
    answer: Result<Reply, RpcError>,
) -> Result<Reply, RpcError> {
    let OpenCall { dispatcher, cx, .. } = open;
    structured_result::check(&dispatcher.parts().fleet, &called.tool, cx, well_formed(answer?)?)
}

/// Adapts the checked answer to the caller, and limits its size.
fn fit(
    open: &OpenCall<'_>,
    called: &CalledTool,
    session: Option<OpenSession>,
    answer: Result<Reply, RpcError>,
) -> Result<Reply, RpcError> {
    let (OpenCall { dispatcher, cx, .. }, CalledTool { server, tool, .. }) = (open, called);
    let DispatcherParts { fleet, results, .. } = dispatcher.parts();
    let limits = || server.config().results;
    let answer = result_members::finish(open, called, session, answer);
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
