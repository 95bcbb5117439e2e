//! `tools/call`: passes a call to the server that has the tool, after all checks for that server.
//!
//! Applies to: inbound.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::join_all;
use mgp_security::{Refusal, check_version, is_tool_error};
use mgp_toolindex::{
    AllTools, ForwardedCall, IndexedTool, MetaTool, Resolved, ToolFeature, UseOutcome,
};
use mgp_types::mcp::{self, CallToolParams, TaskSupport};
use mgp_types::method::{READ_MORE, find_kernel_tool};
use mgp_types::mgp::CallExtension;
use mgp_types::service::{Call, Context, Params, Reply, ServerId, Target, Visibility as _};
use mgp_types::{ErrorCode, Object, Payload, RawObject, RpcError};
use serde::Deserialize;

use super::delegation;
use super::dispatcher::{Dispatcher, DispatcherParts};
use super::header_params;
use super::result_members;
use super::surface;
use super::tasks;
use crate::caller_view::VisibleTools;
use crate::fleet::{FIRST_SYNC_TIMEOUT, Fleet, ManagedServer};
use crate::hops;

/// Turns a call of `mgp_tools_call` that names a kernel method or `mgp_read_more` into a direct call of that tool.
pub(crate) fn unwrap_kernel_tool(call: &mut Call) {
    if call.tool().and_then(|tool| MetaTool::of(tool.name)) == Some(MetaTool::Call)
        && let Ok(named) = call.tool_arguments().get::<CallToolParams>()
        // Unwrapping once is enough: `mgp_tools_call` is not a method, so it cannot name itself.
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
    // Read the members before the call is rewritten for the server, because they are meant only for this kernel.
    let read = CallMembers::read(&call).map(|named| {
        let resolved = resolve_tool(&dispatcher, &mut call, &named);
        (named, resolved)
    });
    async move {
        let (named, resolved) = read?;
        // An expired session handle makes the call fail before the tool runs.
        dispatcher.parts().sessions.find(call.cx(), named.session_handle.as_deref())?;
        let resolved = match resolved {
            Err(error) if error.code() == ErrorCode::TOOL_NOT_FOUND => {
                // Box this rare future, so that the future of all other calls remains small.
                Box::pin(find_unread(&dispatcher, &mut call, &named, error)).await
            }
            resolved => resolved,
        };
        let (tool, is_visible) = match resolved? {
            ResolvedTool::Visible(tool) => (tool, true),
            ResolvedTool::Found(tool) => (tool, false),
            ResolvedTool::Held(server) => return server.send(call, false).await,
        };
        delegation::apply(&mut call, &named.on_behalf_of);
        let DispatcherParts { fleet, view, results, metrics, .. } = dispatcher.parts();
        let server = fleet.get(tool.server_id()).ok_or_else(|| server_removed(&tool))?;
        let has_access = is_visible || view.sees(call.cx(), Some(server.id()), tool.name()).is_ok();
        let references = &fleet.context().references;
        if references.apply_to(call.cx()) {
            // Attach the data before the security checks, so that these see the arguments that the server will receive.
            Box::pin(references.attach(&mut call, view, server.extensions(), &tool)).await?;
        }
        let session = result_members::begin(&dispatcher, &mut call, &tool, has_access)?;
        let (begun, cx) = (metrics.begin(&mut call), call.cx().clone());
        results.limit_chunks(&mut call, || server.config().results);
        let published = fleet.context().events.call(&cx, server.id(), tool.name());
        let answer = if tasks::declared(&tool) == TaskSupport::Required {
            Box::pin(tasks::call_and_wait(&server, call, has_access)).await
        } else {
            server.send(call, has_access).await
        };
        let answer = answer.and_then(|reply| check_result(fleet, &tool, reply));
        let is_answered =
            matches!(&answer, Ok(reply) if !reply.as_body().is_some_and(is_tool_error));
        if begun.is_some() || answer.is_err() {
            metrics.end(&cx, server.id(), tool.name(), begun, &answer);
        }
        published.end(&answer, is_answered).await;
        if has_access {
            record_use(&dispatcher, &cx, &named, &tool, is_answered);
        }
        let answer = result_members::finish(&dispatcher, &cx, &server, &tool, session, answer);
        results.limit(&cx, (server.id(), tool.name()), || server.config().results, answer?)
    }
}

/// Finds an unknown tool by reading lists that this kernel has not read yet: the list of the server that the call
/// names, or else those of all servers that the caller may use.
async fn find_unread(
    dispatcher: &Dispatcher,
    call: &mut Call,
    named: &CallMembers,
    unknown: RpcError,
) -> Result<ResolvedTool, RpcError> {
    let cx = call.cx().clone();
    // Do not wait if the caller is a kernel: two kernels, each behind the other, would wait for each other.
    if hops::is_from_kernel(&cx) {
        return Err(unknown);
    }
    let DispatcherParts { fleet, view, .. } = dispatcher.parts();
    let meta = MetaTool::of(call.tool().map_or("", |tool| tool.name));
    let CallToolParams { name, extra, .. } = naming_params(call, meta, named)?.get()?;
    let wanted: Option<String> = extra.get("server_id").and_then(|server| server.get().ok());
    let unqualified = |id: &ServerId| name.strip_prefix(id.as_str())?.strip_prefix('.');
    let is_named = |server: &&Arc<ManagedServer>| match &wanted {
        Some(wanted) => server.id().as_str() == wanted,
        None => unqualified(server.id()).is_some(),
    };
    let may_use = |server: &&Arc<ManagedServer>| {
        view.may_use(&cx, server.id(), unqualified(server.id()).unwrap_or(&name))
    };
    let all = fleet.all();
    let named_server = all.values().filter(is_named).max_by_key(|one| one.id().as_str().len());
    let unread = all.values().filter(may_use).filter(|server| match named_server {
        Some(named) => Arc::ptr_eq(named, server),
        None => server.lists_may_be_outdated(),
    });
    let limit = |server: &ManagedServer| match named_server {
        Some(_) => server.start_timeout(),
        None => FIRST_SYNC_TIMEOUT,
    };
    let unread: Vec<&Arc<ManagedServer>> = unread.collect();
    join_all(unread.iter().map(|server| server.sync(limit(server)))).await;
    match resolve_tool(dispatcher, call, named) {
        Err(error) if error.code() == ErrorCode::TOOL_NOT_FOUND => {
            let failure = named_server.filter(may_use).and_then(|server| server.failure());
            let starting = unread.iter().filter(|server| server.is_starting());
            let starting: Vec<_> = starting.map(|server| format!("`{}`", server.id())).collect();
            Err(failure.unwrap_or_else(|| name_starting(error, &starting)))
        }
        resolved => resolved,
    }
}

/// Adds the servers that are still being started to the error about an unknown tool.
fn name_starting(error: RpcError, starting: &[String]) -> RpcError {
    if starting.is_empty() {
        return error;
    }
    let message = format!(
        "{}; still being started, so it may have the tool soon: {}",
        error.message(),
        starting.join(", ")
    );
    error.with_message(message)
}

/// Records the use of a tool in the caller's session and in the history of the index.
fn record_use(
    dispatcher: &Dispatcher,
    cx: &Context,
    named: &CallMembers,
    tool: &IndexedTool,
    is_answered: bool,
) {
    let DispatcherParts { fleet, view, meta_tools, search, .. } = dispatcher.parts();
    let outcome = if is_answered { UseOutcome::Answered } else { UseOutcome::Failed };
    let recorded = search.record_call(cx, named.session_handle.as_deref(), tool, outcome);
    // This fails only if the session handle has expired during the call.
    if recorded.unwrap_or_default() {
        surface::notify_session_changed(fleet.context(), view, meta_tools, cx);
    }
}

impl Dispatcher {
    /// Returns the tool that a caller sees under a name; `None` if there is no such tool or the name is ambiguous.
    pub(crate) fn find_shown(&self, cx: &Context, name: &str) -> Option<IndexedTool> {
        let DispatcherParts { fleet, view, .. } = self.parts();
        match fleet.context().index.resolve(name, &VisibleTools { view, cx }) {
            Resolved::One(tool) => Some(tool),
            _ => None,
        }
    }

    /// Returns the name by which a caller knows a tool of a server; `None` if it does not see the tool.
    pub(crate) fn shown_tool(&self, cx: &Context, server: &ServerId, name: &str) -> Option<String> {
        let DispatcherParts { fleet, view, .. } = self.parts();
        let index = &fleet.context().index;
        let tool = index.get(server.as_str(), name)?;
        view.sees(cx, Some(server), name).ok()?;
        let visible = VisibleTools { view, cx };
        Some(match index.resolve(name, &visible) {
            Resolved::One(only) if only.server_id() == server.as_str() => name.to_owned(),
            _ => tool.tool_id(),
        })
    }
}

/// The members of `params._mgp` that name a server or a session (MGP §16.5, §16.7).
#[derive(Clone, Debug, Default)]
pub(super) struct CallMembers {
    server_id: Option<String>,
    /// The agents on whose behalf the call is made.
    on_behalf_of: Vec<String>,
    pub(super) session_handle: Option<String>,
}

impl CallMembers {
    /// Reads the members of a call. Most calls have none of them, which this function detects without parsing.
    pub(super) fn read(call: &Call) -> Result<Self, RpcError> {
        let is_named = |members: &Payload| {
            let text = members.as_str();
            ["server_id", "session_handle", "delegation"].iter().any(|name| text.contains(name))
        };
        let Some(members) = call.params().mgp().filter(is_named) else {
            return Ok(Self::default());
        };
        let CallExtension { server_id, session_handle, delegation, .. } = members.get()?;
        let on_behalf_of = delegation.map(|named| delegation::agents(&named)).transpose()?;
        Ok(Self { server_id, session_handle, on_behalf_of: on_behalf_of.unwrap_or_default() })
    }
}

/// The tool that a call is for.
pub(super) enum ResolvedTool {
    /// A tool that is visible to the caller.
    Visible(IndexedTool),
    /// A tool in the index; whether it is visible to the caller has not been checked yet.
    Found(IndexedTool),
    /// The server of a tool whose definition waits for an operator. The security checks refuse the call and record the
    /// refusal.
    Held(Arc<ManagedServer>),
}

/// Finds the tool that a call names, and replaces the name in the call by the server's own name.
pub(super) fn resolve_tool(
    dispatcher: &Dispatcher,
    call: &mut Call,
    named: &CallMembers,
) -> Result<ResolvedTool, RpcError> {
    let meta = MetaTool::of(call.tool().map_or("", |tool| tool.name));
    let is_plain = meta.is_none() && named.server_id.is_none();
    let (tool, is_visible) = match find_by_name(dispatcher, call).filter(|_| is_plain) {
        Some(tool) => (tool, true),
        None => match find_by_params(dispatcher, call, meta, named) {
            Ok(ForwardedCall { tool, arguments, .. }) if meta.is_some() => {
                *call.params_mut() = Params::tool(tool.name(), &arguments.into());
                return Ok(ResolvedTool::Found(tool));
            }
            Ok(ForwardedCall { tool, .. }) => (tool, false),
            Err(error)
                if error.code() == ErrorCode::TOOL_NAME_CONFLICT && named.server_id.is_none() =>
            {
                let server_id = Some(last_used(dispatcher, call, meta, named).ok_or(error)?);
                return resolve_tool(dispatcher, call, &CallMembers { server_id, ..named.clone() });
            }
            Err(unknown) if unknown.code() == ErrorCode::TOOL_NOT_FOUND => {
                let held = find_held(dispatcher, call, meta, named)?;
                return held.map(ResolvedTool::Held).ok_or(unknown);
            }
            Err(error) => return Err(error),
        },
    };
    let definition = || serde_json::from_str::<mcp::Tool>(tool.definition()).ok()?.meta;
    check_version(call.params(), tool.name(), definition).map_err(Refusal::from)?;
    header_params::check(dispatcher, call, &tool)?;
    if call.params().may_contain_member("\"task\"") {
        // A task, if any, runs in the kernel; the server receives a plain call.
        *call.params_mut() = Params::tool(tool.name(), &call.tool_arguments());
    }
    call.params_mut().set_target(Target::Tool(tool.name().into()));
    Ok(if is_visible { ResolvedTool::Visible(tool) } else { ResolvedTool::Found(tool) })
}

/// Finds a visible tool by its name alone, without parsing the params. This is sufficient for most calls.
fn find_by_name(dispatcher: &Dispatcher, call: &Call) -> Option<IndexedTool> {
    let DispatcherParts { fleet, view, .. } = dispatcher.parts();
    let tool = call.tool()?;
    let is_object = tool.arguments.is_none_or(|arguments| arguments.starts_with('{'));
    if !is_object || call.params().may_contain_member("\"server_id\"") {
        return None;
    }
    let visible = VisibleTools { view, cx: call.cx() };
    match fleet.context().index.resolve(tool.name, &visible) {
        Resolved::One(tool) => Some(tool),
        _ => None,
    }
}

/// Finds a tool by the name and the server in the params.
///
/// A tool that the caller may not use is found too if its name is unique, so that the security checks refuse the call
/// and record the refusal.
fn find_by_params(
    dispatcher: &Dispatcher,
    call: &Call,
    meta: Option<MetaTool>,
    named: &CallMembers,
) -> Result<ForwardedCall, RpcError> {
    let DispatcherParts { fleet, search, .. } = dispatcher.parts();
    let index = &fleet.context().index;
    let params = naming_params(call, meta, named)?;
    ForwardedCall::read(&params, index, &search.caller(call.cx())).or_else(|error| {
        match error.code() {
            ErrorCode::TOOL_NOT_FOUND => {
                ForwardedCall::read(&params, index, &AllTools).map_err(|_| error)
            }
            _ => Err(error),
        }
    })
}

/// If several servers have a tool with the name in the call, returns the one whose tool was last used in the session.
/// Returns `None` if the name is not ambiguous, or if none of these tools was used.
fn last_used(
    dispatcher: &Dispatcher,
    call: &Call,
    meta: Option<MetaTool>,
    named: &CallMembers,
) -> Option<String> {
    let DispatcherParts { fleet, search, sessions, .. } = dispatcher.parts();
    let cx = call.cx();
    let CallToolParams { name, .. } = naming_params(call, meta, named).ok()?.get().ok()?;
    let session = sessions.find(cx, named.session_handle.as_deref()).ok()??;
    let Resolved::Ambiguous(tools) = fleet.context().index.resolve(&name, &search.caller(cx))
    else {
        return None;
    };
    session.last_used(&tools).map(|tool| tool.server_id().to_owned())
}

/// Finds the server of a tool that is hidden from the caller only because its definition waits for an operator.
fn find_held(
    dispatcher: &Dispatcher,
    call: &mut Call,
    meta: Option<MetaTool>,
    named: &CallMembers,
) -> Result<Option<Arc<ManagedServer>>, RpcError> {
    let DispatcherParts { fleet, view, .. } = dispatcher.parts();
    let CallToolParams { name, arguments, extra, .. } = naming_params(call, meta, named)?.get()?;
    let wanted: Option<String> = extra.get("server_id").and_then(|server| server.get().ok());
    for server in fleet.all().values() {
        let id = server.id().as_str();
        if wanted.as_ref().is_some_and(|wanted| wanted != id) {
            continue;
        }
        let unqualified = name.strip_prefix(id).and_then(|rest| rest.strip_prefix('.'));
        let is_held = |tool: &&str| view.is_held(call.cx(), server.id(), tool);
        if let Some(tool) = unqualified.into_iter().chain([name.as_str()]).find(is_held) {
            *call.params_mut() = Params::tool(tool, &arguments.unwrap_or_default().into());
            return Ok(Some(Arc::clone(server)));
        }
    }
    Ok(None)
}

/// Returns the object of the call that contains the tool's name, server and arguments: the params, or the arguments of
/// a tool such as `mgp_tools_call`.
fn naming_params(
    call: &Call,
    meta: Option<MetaTool>,
    named: &CallMembers,
) -> Result<RawObject, RpcError> {
    let params = match meta {
        Some(MetaTool::Call) => call.tool_arguments().get()?,
        _ => call.params().get()?,
    };
    let Some(server) = &named.server_id else { return Ok(params) };
    let mut members: Object = Payload::from(params).get()?;
    members.insert("server_id", Payload::of(server)?);
    RawObject::of(&members)
}

/// Refuses a result whose structured content does not fit the output schema of its tool.
fn check_result(fleet: &Fleet, tool: &IndexedTool, reply: Reply) -> Result<Reply, RpcError> {
    #[derive(Deserialize)]
    struct Structured {
        #[serde(default, rename = "isError")]
        is_error: bool,
        #[serde(default, rename = "structuredContent")]
        content: Option<Payload>,
    }
    // Only results of the few tools with a schema for them are parsed.
    if !tool.may_use(ToolFeature::OutputSchema) {
        return Ok(reply);
    }
    let read = |reply: &Reply| serde_json::from_str(reply.as_body()?.as_raw().as_str()).ok();
    if let Some(Structured { is_error: false, content: Some(content) }) = read(&reply) {
        let definitions = fleet.context().governance.definitions();
        definitions.check_result(&tool.server_id().into(), tool.name(), content.as_str())?;
    }
    Ok(reply)
}

fn server_removed(tool: &IndexedTool) -> RpcError {
    let server = tool.server_id();
    let message = format!("the server `{server}` was removed; find another tool");
    RpcError::new(ErrorCode::TOOL_NOT_FOUND, message)
}
