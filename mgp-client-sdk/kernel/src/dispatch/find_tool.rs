//! Finds the tool that a call names, in the known lists or by reading lists that the kernel has not read yet.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use mgp_security::{DefinitionState, Definitions, Refusal, check_version};
use mgp_toolindex::{AllTools, ForwardedCall, IndexedTool, MetaTool, Resolved, ToolFeature};
use mgp_types::mcp::{self, CallToolParams};
use mgp_types::mgp::{CallExtension, ServerState};
use mgp_types::service::{Call, Context, Params, ServerId, Target, Visibility as _};
use mgp_types::{ErrorCode, Extras, Object, Payload, RawObject, RpcError};
use tokio::time::sleep;

use super::delegation;
use super::dispatcher::{Dispatcher, DispatcherParts};
use super::entry_lookup::MAX_NAMES;
use super::header_params;
use super::meta_tools::meta_tool;
use super::portable_names;
use crate::caller_view::VisibleTools;
use crate::fleet::{FIRST_SYNC_TIMEOUT, FleetContext, ManagedServer};
use crate::kernel_hops;

/// The maximum length of a name in an error, in bytes.
const MAX_NAME_BYTES: usize = 80;

/// The time that a call of an unknown tool waits for the lists of further servers even if a server has listed the tool,
/// because they may have a tool with the same name.
const NAMESAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// The members of `params._mgp` that name a server, a session, or the agents of a delegated call (MGP §5.6, §16.5,
/// §16.7).
#[derive(Clone, Debug, Default)]
pub(super) struct CallAddress {
    server_id: Option<String>,
    /// The agents on whose behalf the call is made.
    pub(super) on_behalf_of: Vec<String>,
    pub(super) session_handle: Option<String>,
}

impl CallAddress {
    /// Reads these members from `params._mgp` of a call. Most calls have none of the members; the method detects this
    /// without parsing.
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

/// The result of the search for the tool that a call names.
pub(super) enum ResolvedTool {
    /// A tool in the index. If `is_visible` is `false`, it is not known yet whether the caller sees the tool; this is
    /// checked later.
    Found { tool: IndexedTool, is_visible: bool },
    /// The server of a tool whose definition waits for an operator or was rejected. The caller has no access to the
    /// tool: the security checks refuse the call and record the refusal.
    Held(Arc<ManagedServer>),
}

/// The refusal of a call that has not reached the security checks.
pub(super) struct EarlyRefusal {
    /// The server of the called tool, and the name that the server itself uses; `None` if the tool was not found.
    pub(super) tool: Option<(ServerId, String)>,
    pub(super) error: RpcError,
}

impl EarlyRefusal {
    /// Creates the refusal of a call of a known tool.
    pub(super) fn of(tool: &IndexedTool, error: RpcError) -> Self {
        Self { tool: Some((tool.server_id().into(), tool.name().to_owned())), error }
    }
}

impl From<RpcError> for EarlyRefusal {
    fn from(error: RpcError) -> Self {
        Self { tool: None, error }
    }
}

/// Returns the name of the tool that a call names: for a call of `mgp_tools_call`, the name in its arguments.
pub(super) fn named_tool(call: &Call) -> Option<String> {
    if meta_tool(call) == Some(MetaTool::Call)
        && let Ok(CallToolParams { name, .. }) = call.tool_arguments().get()
    {
        return Some(name);
    }
    call.tool().map(|tool| tool.name.to_owned())
}

/// Finds the tool that a call names, and replaces the name in the call by the name that the server itself uses.
pub(super) fn resolve_tool(
    dispatcher: &Dispatcher,
    call: &mut Call,
    address: &CallAddress,
) -> Result<ResolvedTool, EarlyRefusal> {
    let meta = meta_tool(call);
    let is_plain = meta.is_none() && address.server_id.is_none();
    let (tool, is_visible) = match find_by_name(dispatcher, call).filter(|_| is_plain) {
        Some(tool) => (tool, true),
        None => match find_by_params(dispatcher, call, address) {
            Ok(ForwardedCall { tool, arguments, .. }) if meta.is_some() => {
                check_tool_version(call, &tool)?;
                *call.params_mut() = Params::tool(tool.name(), &arguments.into());
                return Ok(ResolvedTool::Found { tool, is_visible: false });
            }
            Ok(ForwardedCall { tool, .. }) => (tool, false),
            Err(error)
                if error.code() == ErrorCode::TOOL_NAME_CONFLICT && address.server_id.is_none() =>
            {
                let server_id = Some(last_used(dispatcher, call, address).ok_or(error)?);
                return resolve_tool(
                    dispatcher,
                    call,
                    &CallAddress { server_id, ..address.clone() },
                );
            }
            Err(unknown) if unknown.code() == ErrorCode::TOOL_NOT_FOUND => {
                let held = find_held(dispatcher, call, address)?;
                return held.map(ResolvedTool::Held).ok_or_else(|| unknown.into());
            }
            Err(error) => return Err(error.into()),
        },
    };
    check_tool_version(call, &tool)?;
    header_params::check(dispatcher, call, &tool)
        .map_err(|error| EarlyRefusal::of(&tool, error))?;
    if call.params().may_contain_member("\"task\"") {
        // If the caller asks for a task, send the server a plain call, because the kernel itself runs the task.
        *call.params_mut() = Params::tool(tool.name(), &call.tool_arguments());
    }
    call.params_mut().set_target(Target::Tool(tool.name().into()));
    Ok(ResolvedTool::Found { tool, is_visible })
}

/// Refuses a call that requires a version of the tool other than the version in the tool's definition.
fn check_tool_version(call: &Call, tool: &IndexedTool) -> Result<(), EarlyRefusal> {
    let definition = || serde_json::from_str::<mcp::Tool>(tool.definition()).ok()?.meta;
    check_version(call.params(), tool.name(), definition)
        .map_err(|refused| EarlyRefusal::of(tool, Refusal::from(refused).into()))
}

/// Finds a visible tool by its name alone, without parsing the params. For most calls, the name is enough.
fn find_by_name(dispatcher: &Dispatcher, call: &Call) -> Option<IndexedTool> {
    let DispatcherParts { fleet, view, .. } = dispatcher.parts();
    let tool = call.tool()?;
    let is_object = tool.arguments.is_none_or(|arguments| arguments.starts_with('{'));
    if !is_object || call.params().may_contain_member("\"server_id\"") {
        return None;
    }
    let visible = VisibleTools { view, cx: call.cx() };
    match fleet.context().index.resolve(tool.name, &visible) {
        Resolved::One(found) => {
            let is_shared = portable_names::is_shared(dispatcher, call.cx(), tool.name, &found);
            (!is_shared).then_some(found)
        }
        _ => None,
    }
}

/// Finds a tool by the name and the server in the params.
///
/// Also finds a tool to which the caller has no access, if the name is unique. The security checks then refuse the call
/// and record the refusal.
fn find_by_params(
    dispatcher: &Dispatcher,
    call: &Call,
    address: &CallAddress,
) -> Result<ForwardedCall, RpcError> {
    let DispatcherParts { fleet, search, .. } = dispatcher.parts();
    let index = &fleet.context().index;
    let params = naming_params(call, address)?;
    let caller = search.caller(call.cx());
    match ForwardedCall::read(&params, index, &caller) {
        Ok(found) => {
            check_unique(dispatcher, call.cx(), &params, &found.tool)?;
            Ok(found)
        }
        Err(error) if error.code() == ErrorCode::TOOL_NOT_FOUND => {
            match with_exact_name(dispatcher, call.cx(), &params)? {
                Some(exact) => ForwardedCall::read(&exact, index, &caller),
                None => ForwardedCall::read(&params, index, &AllTools).map_err(|_| error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Refuses a name that is both the usual name of this tool and the portable name of another tool, unless the params
/// name the server. Applies only to callers that see portable names.
fn check_unique(
    dispatcher: &Dispatcher,
    cx: &Context,
    params: &RawObject,
    tool: &IndexedTool,
) -> Result<(), RpcError> {
    if !portable_names::apply_to(dispatcher.parts().fleet.context(), cx) {
        return Ok(());
    }
    let WantedTool { name, server_id } = WantedTool::of(params)?;
    if server_id.is_none() && portable_names::is_shared(dispatcher, cx, &name, tool) {
        return Err(several_tools(&name));
    }
    Ok(())
}

fn several_tools(name: &str) -> RpcError {
    let name = mgp_types::clip(name, MAX_NAME_BYTES);
    let message = format!("several tools have the name `{name}`; use a name from `tools/list`");
    RpcError::new(ErrorCode::TOOL_NAME_CONFLICT, message)
}

/// If the params name a tool by its portable name, returns params with the id of the server and the name that the
/// server itself uses. Returns `None` if the name is not a portable name.
fn with_exact_name(
    dispatcher: &Dispatcher,
    cx: &Context,
    params: &RawObject,
) -> Result<Option<RawObject>, RpcError> {
    let WantedTool { name, server_id } = WantedTool::of(params)?;
    match &portable_names::find(dispatcher, cx, &name, server_id.as_deref())[..] {
        [] => Ok(None),
        [tool] => {
            let mut members: Object = params.get()?;
            members.encode("name", tool.name())?;
            members.encode("server_id", tool.server_id())?;
            RawObject::of(&members).map(Some)
        }
        _ => Err(several_tools(&name)),
    }
}

/// If several servers have a tool with the name in the call, returns the tool among them that the session used last.
/// Returns `None` if only one server has such a tool, or if the session used none of them.
fn last_used(dispatcher: &Dispatcher, call: &Call, address: &CallAddress) -> Option<String> {
    let DispatcherParts { fleet, search, sessions, .. } = dispatcher.parts();
    let cx = call.cx();
    let CallToolParams { name, .. } = naming_params(call, address).ok()?.get().ok()?;
    let session = sessions.find(cx, address.session_handle.as_deref()).ok()??;
    let Resolved::Ambiguous(tools) = fleet.context().index.resolve(&name, &search.caller(cx))
    else {
        return None;
    };
    session.last_used(&tools).map(|tool| tool.server_id().to_owned())
}

/// Finds a tool that is hidden from the caller only because its definition waits for an operator or was rejected.
/// Returns the server of the tool, and replaces the name in the call by the name that the server itself uses.
fn find_held(
    dispatcher: &Dispatcher,
    call: &mut Call,
    address: &CallAddress,
) -> Result<Option<Arc<ManagedServer>>, RpcError> {
    let DispatcherParts { fleet, view, .. } = dispatcher.parts();
    let CallToolParams { name, arguments, extra, .. } = naming_params(call, address)?.get()?;
    let wanted = named_server(&extra);
    let all = fleet.all();
    let is_wanted = |id: &ServerId| wanted.as_deref().is_none_or(|wanted| wanted == id.as_str());
    let qualified = all.iter().filter_map(|(id, server)| {
        Some((server, name.strip_prefix(id.as_str())?.strip_prefix('.')?))
    });
    // First try the server whose id is the beginning of the name. For some servers, every name counts as that of a tool
    // whose definition waits or is refused, so the whole name could match such a server by mistake.
    let mut candidates = qualified
        .chain(all.values().map(|server| (server, name.as_str())))
        .filter(|(server, _)| is_wanted(server.id()));
    let held = candidates.find(|(server, tool)| view.is_held(call.cx(), server.id(), tool));
    if let Some((server, tool)) = held {
        *call.params_mut() = Params::tool(tool, &arguments.unwrap_or_default().into());
        return Ok(Some(Arc::clone(server)));
    }
    let by_portable_name =
        portable_names::find_held(dispatcher, call.cx(), &name, wanted.as_deref());
    let Some((server, tool)) = by_portable_name else { return Ok(None) };
    let server = fleet.get(server.as_str());
    if server.is_some() {
        *call.params_mut() = Params::tool(&tool, &arguments.unwrap_or_default().into());
    }
    Ok(server)
}

/// Returns the object of the call that contains the tool's name, server and arguments: the params, or the arguments of
/// a tool such as `mgp_tools_call`.
fn naming_params(call: &Call, address: &CallAddress) -> Result<RawObject, RpcError> {
    let params = match meta_tool(call) {
        Some(MetaTool::Call) => forwarded_params(call)?,
        _ => call.params().get()?,
    };
    let Some(server) = &address.server_id else { return Ok(params) };
    let mut members: Object = Payload::from(params).get()?;
    members.insert("server_id", Payload::of(server)?);
    RawObject::of(&members)
}

/// Returns the arguments of `mgp_tools_call`. Refuses them if they have an unknown member instead of `arguments`: the
/// kernel would otherwise call the tool without the arguments that the caller wrote into that member.
fn forwarded_params(call: &Call) -> Result<RawObject, RpcError> {
    let params: RawObject = call.tool_arguments().get()?;
    let members: Object = params.get()?;
    let is_known = |name: &str| matches!(name, "name" | "server_id") || name.starts_with('_');
    match members.iter().find(|(name, _)| !is_known(name)) {
        Some((name, _)) if members.get("arguments").is_none() => {
            let name = mgp_types::clip(name, MAX_NAME_BYTES);
            Err(RpcError::invalid_params(format_args!(
                "unknown member `{name}`; the arguments of the tool belong in `arguments`"
            )))
        }
        _ => Ok(params),
    }
}

/// Finds an unknown tool by reading lists of tools: the list of the server that the call names, or else the lists of
/// all servers to which the caller has access. Reads only lists that this kernel has never read, or has not read since
/// their server announced a change.
pub(super) async fn find_unread(
    dispatcher: &Dispatcher,
    call: &mut Call,
    address: &CallAddress,
    unknown: RpcError,
) -> Result<ResolvedTool, EarlyRefusal> {
    let cx = call.cx().clone();
    // Do not wait if the caller is a kernel: if two kernels are servers of each other, each would wait for the other.
    if kernel_hops::is_from_kernel(&cx) {
        return Err(unknown.into());
    }
    let DispatcherParts { fleet, view, .. } = dispatcher.parts();
    let wanted = WantedTool::of(&naming_params(call, address)?)?;
    let may_use = |server: &&Arc<ManagedServer>| {
        view.may_use(&cx, server.id(), wanted.name_at(server.id()).unwrap_or(&wanted.name))
    };
    let all = fleet.all();
    let named = wanted.server(all.values());
    let is_wanted = |server: &&Arc<ManagedServer>| {
        if let Some(named) = named {
            return Arc::ptr_eq(named, server);
        }
        // Include connected servers with an announced but unread change of their tools, and failed servers, whose next
        // start may succeed.
        server.lists_may_be_outdated()
            || matches!(server.state(), ServerState::Connected | ServerState::Error)
    };
    let unread: Vec<_> = all.values().filter(is_wanted).filter(may_use).collect();
    if named.is_some() {
        // Wait for the named server as long as its start may take, even if another one has a tool with this name.
        for server in &unread {
            server.sync(server.start_timeout()).await;
        }
    } else {
        read_until_known(dispatcher, &cx, &wanted.name, &unread).await;
    }
    match resolve_tool(dispatcher, call, address) {
        Err(EarlyRefusal { error, .. }) if error.code() == ErrorCode::TOOL_NOT_FOUND => {
            let index = &fleet.context().index;
            let failure = named.filter(may_use).and_then(|server| {
                let has_tools = !index.tools_of(server.id().as_str()).is_empty();
                let unlisted = || server.listing_failure().filter(|_| !has_tools);
                server.failure().or_else(unlisted)
            });
            let starting = unread.iter().filter(|server| server.is_starting());
            let starting: Vec<_> = starting.map(|server| format!("`{}`", server.id())).collect();
            let own_name = named.and_then(|server| wanted.name_at(server.id()));
            let own_name = own_name.unwrap_or(wanted.name.as_str());
            let error = failure.unwrap_or_else(|| {
                // Name the server too: the proposed tool of another server may have the same name.
                let qualified = wanted.server_id.as_ref().map(|id| format!("{id}.{own_name}"));
                let name = qualified.as_deref().unwrap_or(&wanted.name);
                let error = name_similar(error, name, &similar_names(dispatcher, &cx, own_name));
                name_starting(error, &starting)
            });
            Err(error.into())
        }
        resolved => resolved,
    }
}

/// Reads the lists of servers for a limited time, until all are read or the tool with this name is known: a server that
/// hangs must not delay calls of other servers. During the [`NAMESAKE_TIMEOUT`], waits for all servers in any case,
/// because several may have a tool with this name.
async fn read_until_known(
    dispatcher: &Dispatcher,
    cx: &Context,
    name: &str,
    unread: &[&Arc<ManagedServer>],
) {
    let mut reads: FuturesUnordered<_> =
        unread.iter().map(|server| server.sync(FIRST_SYNC_TIMEOUT)).collect();
    let mut namesakes = pin!(sleep(NAMESAKE_TIMEOUT));
    loop {
        tokio::select! {
            read = reads.next() => if read.is_none() { return },
            () = &mut namesakes, if !namesakes.is_elapsed() => {}
        }
        if namesakes.is_elapsed() && is_known(dispatcher, cx, name) {
            return;
        }
    }
}

/// Returns whether a name means exactly one tool that the caller sees.
fn is_known(dispatcher: &Dispatcher, cx: &Context, name: &str) -> bool {
    let DispatcherParts { fleet, view, .. } = dispatcher.parts();
    match fleet.context().index.resolve(name, &VisibleTools { view, cx }) {
        Resolved::One(found) => !portable_names::is_shared(dispatcher, cx, name, &found),
        _ => portable_names::find_one(dispatcher, cx, name).is_some(),
    }
}

/// The name of a tool in the params of a call, and the id of the server if the params have one.
struct WantedTool {
    name: String,
    server_id: Option<String>,
}

impl WantedTool {
    fn of(params: &RawObject) -> Result<Self, RpcError> {
        let CallToolParams { name, extra, .. } = params.get()?;
        let server_id = named_server(&extra);
        Ok(Self { name, server_id })
    }

    /// Returns the name of the tool after the id of the server and a dot; `None` if the name does not begin with them.
    fn name_at(&self, server: &ServerId) -> Option<&str> {
        self.name.strip_prefix(server.as_str())?.strip_prefix('.')
    }

    /// Returns the server that the call names: by a separate id, or by an id in front of the tool's name.
    fn server<'a>(
        &self,
        all: impl Iterator<Item = &'a Arc<ManagedServer>>,
    ) -> Option<&'a Arc<ManagedServer>> {
        let is_named = |server: &&Arc<ManagedServer>| match &self.server_id {
            Some(id) => server.id().as_str() == id,
            None => self.name_at(server.id()).is_some(),
        };
        all.filter(is_named).max_by_key(|server| server.id().as_str().len())
    }
}

/// Returns the id of the server in the params of a call; `None` also if it is empty, because some agent frameworks
/// write each member of a schema.
fn named_server(extra: &Extras) -> Option<String> {
    extra.get("server_id")?.get().ok().filter(|id: &String| !id.is_empty())
}

/// Returns known names that are similar to an unknown name, because the caller may mean one of these tools.
fn similar_names(dispatcher: &Dispatcher, cx: &Context, name: &str) -> Vec<String> {
    let tools = dispatcher.parts().search.similar_tools(cx, name).into_iter();
    let shown =
        |tool: IndexedTool| dispatcher.shown_tool(cx, &tool.server_id().into(), tool.name());
    tools
        .filter_map(shown)
        .map(|name| format!("`{}`", mgp_types::clip(&name, MAX_NAME_BYTES)))
        .collect()
}

/// Adds similar names to the error about an unknown tool.
fn name_similar(error: RpcError, name: &str, similar: &[String]) -> RpcError {
    if similar.is_empty() {
        return error;
    }
    let name = mgp_types::clip(name, MAX_NAME_BYTES);
    error.with_message(format!("unknown tool `{name}`; did you mean {}?", similar.join(" or ")))
}

/// Adds the servers whose start has not ended yet to the error about an unknown tool.
fn name_starting(error: RpcError, starting: &[String]) -> RpcError {
    if starting.is_empty() {
        return error;
    }
    let names = starting.iter().take(MAX_NAMES).cloned();
    let left_out = starting.len().saturating_sub(MAX_NAMES);
    let more = (left_out > 0).then(|| format!("{left_out} more"));
    let message = format!(
        "{}; still being started, so it may have the tool soon: {}",
        error.message(),
        names.chain(more).collect::<Vec<_>>().join(", ")
    );
    error.with_message(message)
}

impl Dispatcher {
    /// Returns the tool that a caller sees under a name; `None` if the caller sees none or the name is ambiguous.
    pub(crate) fn find_shown(&self, cx: &Context, name: &str) -> Option<IndexedTool> {
        let DispatcherParts { fleet, view, .. } = self.parts();
        match fleet.context().index.resolve(name, &VisibleTools { view, cx }) {
            Resolved::One(tool) => {
                Some(tool).filter(|tool| !portable_names::is_shared(self, cx, name, tool))
            }
            Resolved::Unknown => portable_names::find_one(self, cx, name),
            _ => None,
        }
    }

    /// Finds a tool by a portable name, if the tool is hidden from the caller only because its definition waits for an
    /// operator or was rejected. Returns the id of its server and its name.
    pub(crate) fn find_held(&self, cx: &Context, name: &str) -> Option<(ServerId, String)> {
        portable_names::find_held(self, cx, name, None)
    }

    /// Returns whether clients may know, under this name, a tool with an output schema. The tool may have left the
    /// index since, because its definition was changed or refused after clients had listed it.
    pub(crate) fn may_be_typed(&self, name: &str) -> bool {
        let fleet = &self.parts().fleet;
        let FleetContext { index, governance, .. } = fleet.context();
        let is_typed = |tool: &IndexedTool| tool.may_use(ToolFeature::OutputSchema);
        let is_other_typed =
            || portable_names::find_any(fleet.context(), name).iter().any(is_typed);
        match index.resolve(name, &AllTools) {
            Resolved::One(tool) => is_typed(&tool) || is_other_typed(),
            Resolved::Ambiguous(tools) => tools.iter().any(is_typed) || is_other_typed(),
            _ if MetaTool::of(name).is_some() => false,
            _ if is_other_typed() => true,
            _ => fleet.all().keys().any(|server| {
                let rest = name.strip_prefix(server.as_str());
                let unqualified = rest.and_then(|rest| rest.strip_prefix('.'));
                let mut names = unqualified.into_iter().chain([name]);
                names.any(|tool| may_be_listed_typed(governance.definitions(), server, tool))
            }),
        }
    }

    /// Returns a tool's name as a caller sees it; `None` if the caller does not see the tool.
    pub(crate) fn shown_tool(&self, cx: &Context, server: &ServerId, name: &str) -> Option<String> {
        let DispatcherParts { fleet, view, .. } = self.parts();
        let index = &fleet.context().index;
        let tool = index.get(server.as_str(), name)?;
        view.sees(cx, Some(server), name).ok()?;
        let visible = VisibleTools { view, cx };
        let shown = match index.resolve(name, &visible) {
            Resolved::One(only) if only.server_id() == server.as_str() => name.to_owned(),
            _ => tool.tool_id(),
        };
        Some(portable_names::shown(self, cx, &tool, shown))
    }
}

/// Returns whether the current or an earlier definition of a tool that is not in the index may have an output schema.
fn may_be_listed_typed(definitions: &Definitions, server: &ServerId, tool: &str) -> bool {
    match definitions.state(Some(server), tool) {
        DefinitionState::Changed(held) | DefinitionState::Flagged(held) => {
            held.definition.as_str().contains("\"outputSchema\"")
                || held.differences_left_out > 0
                || held.differences.iter().any(|change| change.at.starts_with("/outputSchema"))
        }
        // The server has not listed its tools since the kernel started, so the accepted definition, if any, is unknown
        // and may have an output schema.
        DefinitionState::Unseen => definitions.is_pinned(server, tool),
        _ => {
            let listed = definitions.definition(Some(server), tool);
            listed.is_some_and(|tool| tool.output_schema.is_some())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_only_some_of_many_servers_that_are_starting() {
        let starting: Vec<_> = (0..100).map(|number| format!("`s{number}`")).collect();
        for (count, end) in [(2, "soon: `s0`, `s1`"), (8, "`s7`"), (100, "`s7`, 92 more")] {
            let unknown = RpcError::invalid_params("unknown tool `t`");
            let error = name_starting(unknown, &starting[..count]);
            assert!(error.message().ends_with(end), "{error}");
        }
    }
}
