//! `tools/call`: passes a call to the server that has the tool, after all checks for that server. The steps of a call:
//!
//! 1. [`CallAddress::read`] and [`resolve_tool`] find the tool in the known lists.
//! 2. The session that the call names is checked.
//! 3. [`find_unread`] reads further lists if the tool is unknown.
//! 4. [`prepare`] adapts the call to its server.
//! 5. [`CalledTool::send`] sends the call to its server through the security checks, which decide and record it.
//! 6. [`check`] and [`fit`] check the answer and adapt it to the caller.
//!
//! The steps 1 to 4 can refuse a call that the security checks have not recorded; [`refuse`] records these refusals.
//!
//! Applies to: inbound.

use std::future::Future;
use std::sync::Arc;

use mgp_types::service::{Call, Context, Reply};
use mgp_types::{ErrorCode, RpcError, clip};

use super::called_tool::CalledTool;
use super::delegation;
use super::dispatcher::{Dispatcher, DispatcherParts};
use super::find_tool::{
    CallAddress, EarlyRefusal, ResolvedTool, find_unread, named_tool, resolve_tool,
};
use super::links;
use super::open_call::OpenCall;
use super::result_members;
use super::structured_result;
use crate::fleet::ManagedServer;
use crate::proposals::session_state::OpenSession;
use crate::results::well_formed;

/// The maximum length, in bytes, of a tool's name that the caller may have invented, in events, logs and records.
/// Access rules permit names of at most this length.
const MAX_NAME_BYTES: usize = 256;

/// A call that can be sent to its server.
enum ReadyCall {
    /// A call of a tool in the index.
    Found {
        called: CalledTool,
        server_state: Option<OpenSession>,
        /// The handle of the session that the call names.
        session_handle: Option<String>,
    },
    /// A call of a tool of this server whose definition waits for an operator or was rejected.
    Held(Arc<ManagedServer>),
}

pub(crate) fn call(
    dispatcher: Dispatcher,
    mut call: Call,
) -> impl Future<Output = Result<Reply, RpcError>> + Send {
    // Read the address first: it is meant only for this kernel, and is lost when the call is rewritten for the server.
    // Both steps run before the future is polled, because neither of them waits. So the call gets the tool that the
    // lists contained when the call arrived.
    let read = CallAddress::read(&call).map(|address| {
        let resolved = resolve_tool(&dispatcher, &mut call, &address);
        (address, resolved)
    });
    async move {
        match make_ready(&dispatcher, &mut call, read).await {
            Ok(ReadyCall::Found { called, server_state, session_handle }) => {
                let cx = call.cx().clone();
                let used = called.has_access.then_some((&called.tool, session_handle.as_deref()));
                let named = (called.server.id(), called.tool.name());
                let open = OpenCall::begin(&dispatcher, &cx, named, used);
                let answer = called.send(call).await;
                let answer = check(&dispatcher, &cx, &called, answer);
                // Record the answer that the caller receives: `check` and `fit` may refuse the server's result.
                open.end(fit(&dispatcher, &cx, &called, server_state, answer)).await
            }
            // Box these rare futures, so that the future of all other calls remains small.
            Ok(ReadyCall::Held(server)) => Box::pin(refuse_held(&dispatcher, &server, call)).await,
            Err(refusal) => Box::pin(refuse(&dispatcher, call, refusal)).await,
        }
    }
}

/// Checks the session that a call names, finds the tool if it is still unknown, and prepares the call for its server.
/// `read` is the address of the call, and the result of the search in the known lists.
async fn make_ready(
    dispatcher: &Dispatcher,
    call: &mut Call,
    read: Result<(CallAddress, Result<ResolvedTool, EarlyRefusal>), RpcError>,
) -> Result<ReadyCall, EarlyRefusal> {
    let (address, resolved) = read?;
    // Check the session first, so that an expired session handle makes the call fail before the tool runs. The session
    // itself is used only after the call.
    let handle = address.session_handle.as_deref();
    if let Err(unknown) = dispatcher.parts().sessions.find(call.cx(), handle) {
        let error = RpcError::from(unknown);
        return Err(match resolved {
            Ok(ResolvedTool::Found { tool, .. }) => EarlyRefusal::of(&tool, error),
            // For some servers, every name counts as that of a held tool. So count such a tool as not found.
            Ok(ResolvedTool::Held(_)) => error.into(),
            Err(refusal) => EarlyRefusal { error, ..refusal },
        });
    }
    let resolved = match resolved {
        Err(EarlyRefusal { error, .. }) if error.code() == ErrorCode::TOOL_NOT_FOUND => {
            // Box this rare future, so that the future of all other calls remains small.
            Box::pin(find_unread(dispatcher, call, &address, error)).await
        }
        resolved => resolved,
    };
    delegation::apply(call, &address.on_behalf_of);
    let called = match resolved? {
        ResolvedTool::Found { tool, is_visible } => {
            CalledTool::find(dispatcher, call.cx(), tool, is_visible)?
        }
        ResolvedTool::Held(server) => return Ok(ReadyCall::Held(server)),
    };
    match prepare(dispatcher, &called, call).await {
        Ok(server_state) => {
            let session_handle = address.session_handle;
            Ok(ReadyCall::Found { called, server_state, session_handle })
        }
        Err(error) => Err(EarlyRefusal::of(&called.tool, error)),
    }
}

/// Records a call that does not reach the security checks, and returns its error.
async fn refuse(
    dispatcher: &Dispatcher,
    call: Call,
    refusal: EarlyRefusal,
) -> Result<Reply, RpcError> {
    let EarlyRefusal { tool, error } = refusal;
    let (server, tool) = match tool {
        Some((server, tool)) => (Some(server), Some(tool)),
        None => (None, named_tool(&call)),
    };
    if let Some(tool) = tool {
        let bounds = &dispatcher.parts().fleet.context().bounds;
        let tool = clip(&tool, MAX_NAME_BYTES);
        bounds.record_refusal(call.cx(), server.as_ref(), &tool, &error).await;
    }
    Err(error)
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
    let open = OpenCall::begin(dispatcher, &cx, (server.id(), &tool), None);
    open.end(server.send(call, false).await).await
}

/// Prepares a call for the server: puts data in place of references, checks the media, opens the caller's session with
/// the server if there is one, gives the call the id of its span in the metrics, and adapts the chunks that the server
/// will send.
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
    let server_state = result_members::begin(dispatcher, call, called)?;
    metrics.identify(call);
    results.limit_chunks(call, || server.config().results);
    // Replace links in chunks before the limits of chunks apply, because links in results are also replaced first.
    links::in_chunks(dispatcher, call, server);
    Ok(server_state)
}

/// Checks that the answer of the server has the form of a tool's result, and fits the output schema of the tool.
fn check(
    dispatcher: &Dispatcher,
    cx: &Context,
    called: &CalledTool,
    answer: Result<Reply, RpcError>,
) -> Result<Reply, RpcError> {
    structured_result::check(&dispatcher.parts().fleet, &called.tool, cx, well_formed(answer?)?)
}

/// Adapts the checked answer to the caller, and limits its size.
fn fit(
    dispatcher: &Dispatcher,
    cx: &Context,
    called: &CalledTool,
    server_state: Option<OpenSession>,
    answer: Result<Reply, RpcError>,
) -> Result<Reply, RpcError> {
    let CalledTool { server, tool, .. } = called;
    let DispatcherParts { fleet, results, .. } = dispatcher.parts();
    let limits = || server.config().results;
    let answer = result_members::finish(dispatcher, cx, called, server_state, answer);
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
