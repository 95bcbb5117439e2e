//! Checks and rewrites the members that extensions beyond MGP add to calls and results between callers and servers.

use mgp_types::mcp::Meta;
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::proposal::{Compensation, Member as _, ResultMembers, SessionState, Suggestion};
use mgp_types::service::{Call, Context, Reply, ServerId};
use mgp_types::{Extras, Payload, Recovery, RpcError};

use super::called_tool::CalledTool;
use super::dispatcher::Dispatcher;
use crate::fleet::ManagedServer;
use crate::proposals::session_state::OpenSession;
use crate::proposals::{WITH_SERVERS, media, provenance};
use crate::results::malformed;

/// The member of a result that contains the members of extensions.
const META: &str = "_meta";

/// The extensions whose members in a result the kernel replaces by members of its own.
const REPLACED: ExtensionSet = ExtensionSet::EMPTY
    .with(Extension::IntentHints)
    .with(Extension::SessionState)
    .with(Extension::DataReferences);

/// Checks the media in a call against the definition of its tool, and replaces the caller's session token by the
/// server's own session state. Does nothing for a caller without access, because the security checks will refuse its
/// call.
///
/// # Errors
/// 3001 (resource exhausted) if the input is too long, 4000 (invalid arguments) if the caller's session is unknown,
/// −32602 (invalid params) if its token has the wrong form.
pub(super) fn begin(
    dispatcher: &Dispatcher,
    call: &mut Call,
    called: &CalledTool,
) -> Result<Option<OpenSession>, RpcError> {
    if !called.has_access {
        return Ok(None);
    }
    media::check(call, &called.tool)?;
    let states = &dispatcher.parts().fleet.context().proposals.session_states;
    states.open(call, called.server.id())
}

/// Adapts the answer of a server to the caller, and stores the session state that the answer contains.
///
/// # Errors
/// Returns the server's error if the answer is an error; 5000 (upstream error) if the `_meta` of the result is not an
/// object; −32603 (internal error) if a member cannot be written as JSON.
pub(super) fn finish(
    dispatcher: &Dispatcher,
    cx: &Context,
    called: &CalledTool,
    server_state: Option<OpenSession>,
    answer: Result<Reply, RpcError>,
) -> Result<Reply, RpcError> {
    let server = &called.server;
    if let Some(state) = server_state {
        state.close(cx, server.extensions(cx), &answer)?;
    }
    let reply = answer?;
    provenance::add_hop(cx, server.id(), &reply)?;
    let reply = fit_result(dispatcher, cx, server, called.tool.name(), reply)?;
    if cx.caller.supports_mgp() { Ok(reply) } else { without_mgp(reply) }
}

/// Adds the default recovery hints to an MGP error without hints, if its server negotiated MGP (§14.4).
pub(super) fn add_hints(cx: &Context, server: &ManagedServer, error: RpcError) -> RpcError {
    let lacks_hints = error.as_recovery().is_none() && !server.extensions(cx).is_empty();
    match Recovery::default_for(error.code()).filter(|_| lacks_hints) {
        Some(hints) => error.recovery(hints),
        None => error,
    }
}

/// Removes the member `_mgp` of a server from a result for a caller that speaks plain MCP.
///
/// # Errors
/// −32603 (internal error) if the result cannot be written as JSON.
fn without_mgp(reply: Reply) -> Result<Reply, RpcError> {
    const MGP: &str = "_mgp";
    match reply {
        Reply::Complete(body) if body.get(MGP).is_some() => {
            let mut members: Extras = Reply::Complete(body).get()?;
            members.remove(MGP);
            Reply::of(&members)
        }
        reply => Ok(reply),
    }
}

/// Adapts a result to the caller. Removes the members of extensions that the caller did not negotiate, and replaces
/// tool names in the other members by the names that the caller knows.
///
/// # Errors
/// 5000 (upstream error) if the `_meta` of the result is not an object; −32603 (internal error) if the result cannot be
/// written as JSON.
fn fit_result(
    dispatcher: &Dispatcher,
    cx: &Context,
    server: &ManagedServer,
    tool: &str,
    mut reply: Reply,
) -> Result<Reply, RpcError> {
    let of_caller = cx.caller.mgp.unwrap_or_default();
    if of_caller.contains(Extension::Transactions) {
        name_compensations(dispatcher, cx, server.id(), &mut reply)?;
    }
    let of_server = server.extensions(cx) & WITH_SERVERS;
    // A server can send members of extensions that it did not negotiate. If the caller negotiated such an extension, it
    // would take the members for those of the kernel, so replace them.
    let replaced = if of_server.is_empty() { of_caller & REPLACED } else { REPLACED };
    if replaced.is_empty() {
        return Ok(reply);
    }
    // The server repeats the idempotency key that it got from this kernel. Do not keep it even if the caller negotiated
    // idempotency keys: the layer for keys adds the caller's own key.
    let foreign = of_server.difference(of_caller.without(Extension::Idempotency));
    change_meta(reply, |meta| {
        for name in ResultMembers::names_of(foreign) {
            meta.remove(name);
        }
        if replaced.contains(Extension::SessionState) {
            // The state is meant for this kernel, so remove it. The caller receives a token instead.
            meta.remove(SessionState::NAME);
        }
        if replaced.contains(Extension::DataReferences) {
            let context = dispatcher.parts().fleet.context();
            let config = server.config();
            context.references.receive(cx, &context.governance, &config, tool, meta)?;
        }
        if replaced.contains(Extension::IntentHints) {
            name_suggestion(dispatcher, cx, server.id(), meta)?;
        }
        Ok(())
    })
}

/// Changes the `_meta` of a result, if the result has one.
///
/// # Errors
/// 5000 (upstream error) if the server's `_meta` is not an object; any error of `change`.
fn change_meta(
    mut reply: Reply,
    change: impl FnOnce(&mut Meta) -> Result<(), RpcError>,
) -> Result<Reply, RpcError> {
    let Some(body) = reply.as_body_mut() else { return Ok(reply) };
    // Search the text before parsing it, because few results have the member.
    if !body.as_raw().as_str().contains(META) {
        return Ok(reply);
    }
    let mut members: Extras = body.as_raw().get().map_err(|error| malformed(&error))?;
    let meta = members.decode::<Meta>(META).map_err(|error| malformed(&error))?;
    let Some(mut meta) = meta else { return Ok(reply) };
    let before = meta.clone();
    change(&mut meta)?;
    if meta != before {
        if meta.is_empty() {
            members.remove(META);
        } else {
            members.encode(META, &meta)?;
        }
        body.replace_raw(Payload::of(&members)?);
    }
    Ok(reply)
}

/// Replaces the name of the suggested tool by the name that the caller knows. Removes a suggestion of a tool that the
/// caller does not see.
///
/// # Errors
/// −32603 (internal error) if the suggestion cannot be written as JSON.
fn name_suggestion(
    dispatcher: &Dispatcher,
    cx: &Context,
    server: &ServerId,
    meta: &mut Meta,
) -> Result<(), RpcError> {
    if meta.get(Suggestion::NAME).is_none() {
        return Ok(());
    }
    let suggestion = Suggestion::read(Some(meta)).ok().flatten();
    let known = suggestion.and_then(|mut suggestion| {
        suggestion.recommended_tool =
            dispatcher.shown_tool(cx, server, &suggestion.recommended_tool)?;
        Some(suggestion)
    });
    if let Some(known) = known {
        return meta.encode(Suggestion::NAME, &known);
    }
    meta.remove(Suggestion::NAME);
    Ok(())
}

/// In the compensations that a server declared, replaces the names of tools by the names that the caller knows. A
/// server can declare a compensation in the result itself instead of its `_meta`, and can do so without negotiating
/// transactions.
///
/// # Errors
/// 5000 (upstream error) if the server's `_meta` is not an object; −32603 (internal error) if the result cannot be
/// written as JSON.
fn name_compensations(
    dispatcher: &Dispatcher,
    cx: &Context,
    server: &ServerId,
    reply: &mut Reply,
) -> Result<(), RpcError> {
    let Some(body) = reply.as_body_mut() else { return Ok(()) };
    // Search the text before parsing it, because few results have the member.
    if !body.as_raw().as_str().contains(Compensation::NAME) {
        return Ok(());
    }
    let mut members: Extras = body.as_raw().get().map_err(|error| malformed(&error))?;
    let mut is_changed = name_compensation(dispatcher, cx, server, &mut members)?;
    let meta = members.decode::<Meta>(META).map_err(|error| malformed(&error))?;
    if let Some(mut meta) = meta
        && name_compensation(dispatcher, cx, server, &mut meta)?
    {
        members.encode(META, &meta)?;
        is_changed = true;
    }
    if is_changed {
        body.replace_raw(Payload::of(&members)?);
    }
    Ok(())
}

/// In a compensation among `members`, replaces the name of the tool by the name that the caller knows. Removes a
/// compensation with a tool that the caller does not see. Returns whether there is a compensation; a member of any
/// other form stays as it is.
fn name_compensation(
    dispatcher: &Dispatcher,
    cx: &Context,
    server: &ServerId,
    members: &mut Extras,
) -> Result<bool, RpcError> {
    let Ok(Some(mut declared)) = members.decode::<Compensation>(Compensation::NAME) else {
        return Ok(false);
    };
    match dispatcher.shown_tool(cx, server, &declared.tool) {
        Some(shown) => {
            // The tool always belongs to the server that returned the result. So the name is sufficient to find it.
            (declared.tool, declared.server_id) = (shown, None);
            members.encode(Compensation::NAME, &declared)?;
        }
        None => drop(members.remove(Compensation::NAME)),
    }
    Ok(true)
}
