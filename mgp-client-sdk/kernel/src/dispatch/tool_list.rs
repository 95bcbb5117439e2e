//! `tools/list`: returns the meta tools and the tools in the caller's session (MGP §16.3).

use std::sync::Arc;

use mgp_toolindex::{Allowed, Resolved, SessionView, listed_tools, max_tokens_of_definition};
use mgp_types::mcp::{
    CacheScope, Era, ListToolsResult, TaskSupport, Tool, key, legacy_output_schema,
};
use mgp_types::mgp::{ContextLevel, Extension, ExtensionSet, KernelSavedDay, RiskLevel};
use mgp_types::proposal::{copy_tool_members, hide_tool_members};
use mgp_types::service::{Call, Context, Peer, Principal, Reply, Scope, ScopeKind};
use mgp_types::store::StoreError;
use mgp_types::{Lenient, Object, Payload, RawObject, RpcError};

use super::apps;
use super::dispatcher::{Dispatcher, DispatcherParts};
use super::find_tool::CallAddress;
use super::page::{bad_cursor, requested_cursor};
use super::portable_names;
use super::saved_context::{SETTLE_DELAY, stored_days};
use super::surface;
use crate::fleet::FIRST_LIST_TIMEOUT;
use crate::proposals;
use crate::proposals::media;

/// Returns the list for a caller, once the tools of new servers are known.
pub(super) async fn list(dispatcher: Dispatcher, call: Call) -> Result<Reply, RpcError> {
    dispatcher.retry_failed_starts(call.cx());
    dispatcher.wait_for_first_tools(call.cx(), FIRST_LIST_TIMEOUT).await;
    dispatcher.parts().fleet.context().changed_lists.note_list(call.cx());
    let mut tools = current_list(&dispatcher, &call)?;
    let cx = call.cx();
    count_list(&dispatcher, cx);
    let caller = dispatcher.parts().search.caller(cx);
    apps::fit(&dispatcher, cx, &caller, &mut tools).await?;
    portable_names::fit_list(&dispatcher, cx, &caller, &mut tools);
    let mut list = ListToolsResult::new(tools);
    if cx.caller.era == Era::Modern {
        // The list must not be cached, because any call may add tools to the caller's session.
        list.ttl_ms = Some(0);
        list.cache_scope = Some(CacheScope::Private);
    }
    Reply::of(&list)
}

fn current_list(dispatcher: &Dispatcher, call: &Call) -> Result<Vec<Tool>, RpcError> {
    // Refuse any cursor, because the list has only one page.
    if requested_cursor(call)?.is_some() {
        return Err(bad_cursor());
    }
    let parts = dispatcher.parts();
    let (index, cx) = (&parts.fleet.context().index, call.cx());
    let caller = parts.search.caller(cx);
    let address = CallAddress::read(call)?;
    let session = parts.sessions.find(cx, address.session_handle.as_deref())?;
    let view = parts.sessions.view(&cx.principal, session.as_ref(), index, &caller);
    let is_whole = !dispatcher.has_unread_servers(cx);
    let level = context_level(parts, cx, &caller, &view, is_whole);
    let meta_tools = parts.meta_tools.listed(cx).no_tools(dispatcher.no_tools_text(cx));
    let mut tools = listed_tools(&level, &meta_tools, index, &caller, &view);
    tools.extend(parts.results.listed(&cx.principal));
    if cx.caller.shows_apps {
        apps::add_missing(index, &caller, &mut tools)?;
    }
    let active = cx.caller.mgp.unwrap_or_default();
    for tool in &mut tools {
        fit_proposals(parts, &caller, tool, active);
    }
    let is_shown = cx.caller.has(Extension::ToolSecurity);
    for tool in &mut tools {
        if cx.caller.era == Era::Legacy {
            tool.output_schema = tool.output_schema.take().and_then(legacy_output_schema);
        }
        fit_input_schema(tool);
        fit_output_schema(tool);
        media::fit(cx, tool);
        correct_hints(tool);
        fit_task_support(tool);
        put_security(tool, is_shown)?;
    }
    Ok(tools)
}

/// Corrects an input schema that hosts built with the official SDKs or model providers refuse, together with the whole
/// list, i.e. with the tools of all other servers: its type is missing or not `object`, it has no properties (OpenAI),
/// its required names are not a list, or the schema of a property is not an object.
fn fit_input_schema(tool: &mut Tool) {
    let Ok(mut schema) = tool.input_schema.get::<Object>() else { return };
    let mut is_changed = fit_members(&mut schema);
    if schema.get("type").is_none_or(|kind| kind.as_str() != r#""object""#) {
        schema.insert("type", Payload::from_trusted(r#""object""#));
        is_changed = true;
    }
    if schema.get("properties").is_none() {
        schema.insert("properties", Payload::empty_object());
        is_changed = true;
    }
    if is_changed && let Ok(fitted) = RawObject::of(&schema) {
        tool.input_schema = fitted;
    }
}

/// Corrects the members of an output schema that hosts refuse together with the whole list.
fn fit_output_schema(tool: &mut Tool) {
    let Some(Ok(mut schema)) = tool.output_schema.as_ref().map(RawObject::get::<Object>) else {
        return;
    };
    if fit_members(&mut schema)
        && let Ok(fitted) = RawObject::of(&schema)
    {
        tool.output_schema = Some(fitted);
    }
}

/// Removes required names that are not a list, and corrects the properties; returns whether anything has changed.
fn fit_members(schema: &mut Object) -> bool {
    let mut is_changed = false;
    if schema.get("required").is_some_and(|names| !names.as_str().starts_with('[')) {
        schema.remove("required");
        is_changed = true;
    }
    if let Some(properties) = schema.get("properties").and_then(fit_properties) {
        schema.insert("properties", properties);
        is_changed = true;
    }
    is_changed
}

/// Returns the properties of a schema with an object in place of each other value; `None` if all are objects.
fn fit_properties(properties: &Payload) -> Option<Payload> {
    let Ok(properties) = properties.get::<Object>() else { return Some(Payload::empty_object()) };
    let is_fit = |schema: &Payload| schema.as_str().starts_with('{');
    if properties.iter().all(|(_, schema)| is_fit(schema)) {
        return None;
    }
    let fit = |schema: &Payload| match schema.as_str() {
        _ if is_fit(schema) => schema.clone(),
        "false" => Payload::from_trusted(r#"{"not":{}}"#),
        _ => Payload::empty_object(),
    };
    let fitted: Object = properties.iter().map(|(name, schema)| (name, fit(schema))).collect();
    Payload::of(&fitted).ok()
}

/// Adds the members of a tool that belong to proposals that the caller negotiated. Removes the members of other
/// proposals, which the server added because the kernel negotiated them with it.
fn fit_proposals(
    parts: &DispatcherParts,
    caller: &dyn Allowed,
    tool: &mut Tool,
    active: ExtensionSet,
) {
    let (wanted, hidden) = (active & proposals::OF_TOOLS, proposals::OF_TOOLS.difference(active));
    // Return early in the usual case: few callers negotiate these proposals, and few tools have `_meta`.
    if wanted.is_empty() && tool.meta.is_none() {
        return;
    }
    let Resolved::One(found) = parts.fleet.context().index.resolve(&tool.name, caller) else {
        return;
    };
    if !wanted.is_empty()
        && let Ok(full) = found.tool()
    {
        copy_tool_members(&full, tool, wanted);
    }
    if let Some(server) = parts.fleet.get(found.server_id()) {
        hide_tool_members(tool, hidden & server.all_extensions());
    }
}

/// Returns the kind of tool list that a caller receives.
fn context_level(
    parts: &DispatcherParts,
    cx: &Context,
    caller: &dyn Allowed,
    session: &SessionView,
    is_whole: bool,
) -> ContextLevel {
    let (context, tokens) = (parts.fleet.context(), session.total_tokens);
    surface::level(context, &parts.meta_tools, cx, caller, tokens, is_whole)
}

/// Counts a list request. A separate task computes the saved tokens later, so that no call waits for the computation.
fn count_list(dispatcher: &Dispatcher, cx: &Context) {
    let is_local = cx.principal.tenant() == Principal::local().tenant();
    if !is_local || !dispatcher.parts().saved.count(cx.principal.name()) {
        return;
    }
    let parts = Arc::downgrade(dispatcher.shared_parts());
    drop(tokio::spawn(async move {
        tokio::time::sleep(SETTLE_DELAY).await;
        if let Some(parts) = parts.upgrade() {
            settle(&parts).await;
        }
    }));
}

async fn settle(parts: &Arc<DispatcherParts>) {
    let costs = async |agent: String| {
        let parts = Arc::clone(parts);
        // Use an estimate: the tables for exact counts need much memory and take a second to load.
        tokio::task::spawn_blocking(move || list_costs(&parts, &agent, max_tokens_of_definition))
            .await
            .ok()
    };
    parts.saved.settle(&**parts.fleet.context().governance.store(), costs).await;
}

impl Dispatcher {
    /// Computes and stores the savings of the lists counted so far.
    pub(crate) async fn settle_saved_context(&self) {
        settle(self.shared_parts()).await;
    }

    /// Returns the number of tokens that tool search saved an agent on each of the last days, the oldest day first.
    pub(crate) async fn saved_days(&self, agent: &str) -> Result<Vec<KernelSavedDay>, StoreError> {
        self.settle_saved_context().await;
        stored_days(&**self.parts().fleet.context().governance.store(), agent).await
    }
}

/// Returns the context that a call by the local agent with this name would have.
pub(crate) fn context_of_agent(agent: &str) -> Context {
    let principal = Principal::local().agent(agent);
    Context::new(Peer::none(), Scope::new(ScopeKind::Request), principal)
}

/// Returns the tokens of the tool list that an agent receives, and those of a list of all tools to which it has access.
pub(crate) fn list_costs(
    parts: &DispatcherParts,
    agent: &str,
    count: impl Fn(&str) -> u32,
) -> (u64, u64) {
    let (cx, index) = (context_of_agent(agent), &parts.fleet.context().index);
    let caller = parts.search.caller(&cx);
    let session = parts.sessions.view(&cx.principal, None, index, &caller);
    let level = context_level(parts, &cx, &caller, &session, true);
    let list = |level| {
        let meta_tools = parts.meta_tools.listed(&cx);
        let tools = listed_tools(&level, &meta_tools, index, &caller, &session);
        let definitions = tools.iter().filter_map(|tool| serde_json::to_string(tool).ok());
        definitions.map(|text| u64::from(count(&text))).sum::<u64>()
    };
    (list(level), list(ContextLevel::Standard))
}

/// Corrects the hints by which a server claims that a tool is harmless, if the kernel assessed the tool as dangerous:
/// hosts call tools with such hints without asking their user.
fn correct_hints(tool: &mut Tool) {
    let security = tool.security.as_ref().and_then(Lenient::valid);
    let risk = security.and_then(|security| security.effective_risk_level.as_ref());
    if risk.is_some_and(|risk| *risk >= RiskLevel::Dangerous)
        && let Some(hints) = &mut tool.annotations
    {
        // A hint that is absent already means that the tool may destroy data.
        hints.read_only_hint = hints.read_only_hint.map(|_| false);
        hints.destructive_hint = hints.destructive_hint.map(|_| true);
    }
}

/// Lists a tool that runs only as a task as one that may be called without a task: the kernel then waits for the task of
/// the server, and hosts without tasks refuse to call a tool that requires one.
fn fit_task_support(tool: &mut Tool) {
    if let Some(execution) = &mut tool.execution
        && execution.task_support == Some(TaskSupport::Required)
    {
        execution.task_support = Some(TaskSupport::Optional);
    }
}

/// Puts the security metadata into a definition twice, as `security` and in `_meta`, or removes both copies (MGP §4.2).
fn put_security(tool: &mut Tool, is_shown: bool) -> Result<(), RpcError> {
    const SECURITY: &str = "security";
    let mut mirror: Object =
        tool.meta.as_ref().and_then(|meta| meta.get(key::MGP)?.get().ok()).unwrap_or_default();
    match tool.security.take().filter(|_| is_shown) {
        Some(security) => {
            mirror.insert(SECURITY, Payload::of(&security)?);
            tool.security = Some(security);
        }
        // Go on and write `_meta` back, because the copy of the metadata in the server's own definition was just
        // removed.
        None if mirror.remove(SECURITY).is_some() => {}
        None => return Ok(()),
    }
    let meta = tool.meta.get_or_insert_default();
    if mirror.is_empty() {
        meta.remove(key::MGP);
    } else {
        meta.insert(key::MGP, Payload::of(&mirror)?);
    }
    if meta.is_empty() {
        tool.meta = None;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_that_hosts_refuse_together_with_the_list_is_corrected() {
        for (schema, expected) in [
            ("{}", r#"{"type":"object","properties":{}}"#),
            (r#"{"type":"object"}"#, r#"{"type":"object","properties":{}}"#),
            (
                r#"{"type":"object","required":["a"],"properties":{}}"#,
                r#"{"type":"object","required":["a"],"properties":{}}"#,
            ),
            (r#"{"type":null,"required":null}"#, r#"{"type":"object","properties":{}}"#),
            (r#"{"oneOf":[{}]}"#, r#"{"oneOf":[{}],"type":"object","properties":{}}"#),
            (
                r#"{"type":"object","properties":{"a":null,"b":true,"c":false,"d":{"x":1}}}"#,
                r#"{"type":"object","properties":{"a":{},"b":{},"c":{"not":{}},"d":{"x":1}}}"#,
            ),
            (r#"{"type":"object","properties":null}"#, r#"{"type":"object","properties":{}}"#),
        ] {
            let mut tool = Tool::new("t", serde_json::from_str::<RawObject>(schema).unwrap());
            fit_input_schema(&mut tool);
            assert_eq!(tool.input_schema.as_payload().as_str(), expected);
        }
        let mut tool = Tool::new("t", RawObject::empty());
        let schema = r#"{"type":"object","properties":{"a":null},"required":null}"#;
        tool.output_schema = Some(serde_json::from_str(schema).unwrap());
        fit_output_schema(&mut tool);
        let expected = r#"{"type":"object","properties":{"a":{}}}"#;
        assert_eq!(tool.output_schema.unwrap().as_payload().as_str(), expected);
    }
}
