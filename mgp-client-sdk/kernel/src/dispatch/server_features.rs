//! The features of servers other than tools: resources, skills, prompts, completion and roots.
//!
//! A caller receives the entries of each server that it may access as a whole; access to single tools of a server is
//! not enough. Each use of an entry is checked again on its way to the server.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mgp_types::mcp::{
    CompleteParams, CompleteReference, CompleteResult, Completion, Era, ProgressParams,
    ReadResourceResult, Revision,
};
use mgp_types::method::{
    CompletionComplete, Progress, PromptsGet, PromptsList, Request, ResourcesList, ResourcesRead,
    ResourcesTemplatesList, RootsListChanged, SkillsList,
};
use mgp_types::service::{
    Call, Context, OutletItem, OutletItemKind, Params, Progress as Step, Reply, Router, ServerId,
    Stack, Target,
};
use mgp_types::{ErrorCode, Payload, RpcError, clip};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::dispatcher::Dispatcher;
use super::links::{self, ResourceLinks};
use super::names::{Lookup, NameTable, ServerEntry, matches_template, qualify};
use super::page::page;
use super::skills;
use crate::fleet::{FIRST_LIST_TIMEOUT, ListGroup, ListKind, ManagedServer};
use crate::server_answer::{drop_nulls, expect_list, unreadable_result};

/// The maximum time that a list request waits for servers to return their lists. After it, the last known lists are
/// returned.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of candidates that an error names for an ambiguous name.
const MAX_NAMES: usize = 8;

/// The maximum number of bytes of a caller's text that an error quotes.
const MAX_QUOTED_BYTES: usize = 200;

pub(super) fn router(dispatcher: &Dispatcher) -> Router {
    let list = |kind: ListKind| {
        let dispatcher = dispatcher.clone();
        Stack::from_fn(move |call| list(dispatcher.clone(), kind, call))
    };
    let (read, get, completing) = (dispatcher.clone(), dispatcher.clone(), dispatcher.clone());
    let roots = dispatcher.clone();
    Router::new()
        .route(ResourcesList::METHOD, list(ListKind::Resources))
        .route(ResourcesTemplatesList::METHOD, list(ListKind::Templates))
        .route(PromptsList::METHOD, list(ListKind::Prompts))
        .route(SkillsList::METHOD, list(ListKind::Skills))
        .merge(skills::router(dispatcher))
        .route(ResourcesRead::METHOD, Stack::from_fn(move |call| read_resource(read.clone(), call)))
        .route(PromptsGet::METHOD, Stack::from_fn(move |call| get_prompt(get.clone(), call)))
        .route(
            CompletionComplete::METHOD,
            Stack::from_fn(move |call| complete(completing.clone(), call)),
        )
        .on_notification::<RootsListChanged, _, _>(move |cx, _| {
            roots.announce_roots(&cx);
            async { Ok(()) }
        })
        .on_notification::<Progress, _, _>(|cx, step| {
            pass_progress_on(&cx, step);
            async { Ok(()) }
        })
}

/// Passes the progress that a caller reports while it answers a question on to the server that asked.
fn pass_progress_on(cx: &Context, params: ProgressParams) {
    let Some(question) = cx.peer.in_flight(&params.progress_token) else { return };
    if !question.cx.outlet.wants(OutletItemKind::Progress) {
        return;
    }
    let step = Step {
        progress: params.progress.to_f64(),
        total: params.total.map(|total| total.to_f64()),
        message: params.message,
        estimated_remaining_ms: None,
    };
    // If the queue is full, this progress step is dropped, because later steps replace it.
    let _ = question.inbox.push(OutletItem::Progress(step));
}

/// The entry to which the name in a call was resolved.
pub(super) struct ResolvedEntry {
    pub(super) entry: ServerEntry,
    /// `false` for an entry to which the caller has no access. The call is passed on nevertheless, so that the checks
    /// before the server refuse it and record the refusal.
    pub(super) has_access: bool,
}

impl ResolvedEntry {
    fn visible(entry: ServerEntry) -> Self {
        Self { entry, has_access: true }
    }

    fn hidden(entry: ServerEntry) -> Self {
        Self { entry, has_access: false }
    }
}

// === Lists ===

async fn list(dispatcher: Dispatcher, kind: ListKind, call: Call) -> Result<Reply, RpcError> {
    let servers = refreshed_servers(&dispatcher, call.cx(), kind).await;
    dispatcher.parts().fleet.context().changed_lists.note_list(call.cx());
    page(kind, &NameTable::new(kind, &servers), &call)
}

/// Refreshes the stale lists of the servers to which a caller has access as a whole, and returns these servers.
pub(super) async fn refreshed_servers(
    dispatcher: &Dispatcher,
    cx: &Context,
    kind: ListKind,
) -> Vec<Arc<ManagedServer>> {
    let servers = dispatcher.visible_servers(cx);
    dispatcher.wait_for_first_lists(cx, servers.iter(), FIRST_LIST_TIMEOUT).await;
    let refreshed = join_all(servers.iter().map(|server| refresh(dispatcher, server, kind)));
    // Ignore the time-out: the lists of the servers that have answered are refreshed even if others have not answered.
    let _ = tokio::time::timeout(REFRESH_TIMEOUT, refreshed).await;
    servers
}

/// Refreshes a stale list of a server; if it changed, notifies the clients and stores the lists of the server.
async fn refresh(dispatcher: &Dispatcher, server: &Arc<ManagedServer>, kind: ListKind) {
    if !server.refresh_list(kind).await {
        return;
    }
    let fleet = &dispatcher.parts().fleet;
    match kind {
        ListKind::Resources | ListKind::Templates => {
            fleet.notify_list_changed(server, ListGroup::Resources);
        }
        ListKind::Prompts => fleet.notify_list_changed(server, ListGroup::Prompts),
        // MCP has no notification about changed skills.
        ListKind::Skills => {}
    }
    fleet.store_lists(server);
}

fn all_servers(dispatcher: &Dispatcher) -> Vec<Arc<ManagedServer>> {
    dispatcher.parts().fleet.all().values().cloned().collect()
}

// === Resources ===

async fn read_resource(dispatcher: Dispatcher, mut call: Call) -> Result<Reply, RpcError> {
    let Some(Target::Resource(uri)) = call.params().target().cloned() else {
        return Err(RpcError::invalid_params("`uri` must be a string"));
    };
    let found = find_resource(&dispatcher, call.cx(), &uri).await?;
    let ServerEntry { server, key } = found.entry;
    let is_renamed = key != *uri;
    let cx = call.cx().clone();
    if is_renamed {
        call.params_mut().set_target(Target::Resource(key.as_str().into()));
    }
    let answer = server.send(call, found.has_access).await;
    let reply = answer.map_err(|error| fit_not_found(error, cx.caller.era))?;
    let reply = expect_list(reply, ResourcesRead::METHOD, &["contents"])?;
    let mut reply = drop_nulls(reply, "contents")?;
    let links = ResourceLinks::new(&dispatcher, &cx, &server);
    if is_renamed && matches!(reply, Reply::Complete(_)) {
        let result = reply.get::<ReadResourceResult>();
        let mut result =
            result.map_err(|error| unreadable_result(ResourcesRead::METHOD, &error))?;
        // Replace the server's own URI by the one that the caller requested.
        for contents in &mut result.contents {
            if contents.uri == key {
                contents.uri = uri.to_string();
            } else if let Some(shown) =
                links.as_ref().and_then(|links| links.shown_uri(&contents.uri))
            {
                contents.uri = shown;
            }
        }
        reply = Reply::of(&result)?;
    } else if let Some(links) = links {
        reply = links::in_contents(&links, &uri, reply)?;
    }
    Ok(with_cache_members(reply, cx.caller.era))
}

pub(super) async fn find_resource(
    dispatcher: &Dispatcher,
    cx: &Context,
    uri: &str,
) -> Result<ResolvedEntry, RpcError> {
    let servers = dispatcher.visible_servers(cx);
    // Look the resource up in the known lists first, without reading lists again.
    if let Lookup::Unique(entry) = NameTable::new(ListKind::Resources, &servers).find(uri) {
        return Ok(ResolvedEntry::visible(entry));
    }
    let servers = refreshed_servers(dispatcher, cx, ListKind::Resources).await;
    if let Some(entry) = find_listed(cx, uri, &servers)? {
        return Ok(ResolvedEntry::visible(entry));
    }
    let all = all_servers(dispatcher);
    if let Lookup::Unique(entry) = NameTable::new(ListKind::Resources, &all).find(uri) {
        return Ok(ResolvedEntry::hidden(entry));
    }
    // Find a server for a resource that is not listed, because most servers have more resources than they list.
    match find_unlisted(cx, uri, &servers)? {
        Some(entry) => Ok(ResolvedEntry::visible(entry)),
        None => Err(unknown_resource(cx, uri)),
    }
}

/// Finds the visible server that lists a URI, a skill whose folder contains it, or a template that matches it.
fn find_listed(
    cx: &Context,
    uri: &str,
    servers: &[Arc<ManagedServer>],
) -> Result<Option<ServerEntry>, RpcError> {
    match NameTable::new(ListKind::Resources, servers).find(uri) {
        Lookup::Unique(entry) => return Ok(Some(entry)),
        Lookup::Ambiguous(names) => return Err(ambiguous(cx, "resource", uri, &names)),
        Lookup::Unknown => {}
    }
    // Compare the URI with the folders of skills, because servers need not list the files of their skills.
    let skilled = servers.iter().filter(|server| skills::has_file(server, uri));
    if let Some(entry) = only_server(cx, uri, &skilled.collect::<Vec<_>>())? {
        return Ok(Some(entry));
    }
    let servers = servers.iter().filter(|server| has_template(server, uri));
    only_server(cx, uri, &servers.collect::<Vec<_>>())
}

/// Finds the server that probably has a resource that no server lists: the only server that lists other URIs of the
/// same scheme, or else the only server that offers resources.
fn find_unlisted(
    cx: &Context,
    uri: &str,
    servers: &[Arc<ManagedServer>],
) -> Result<Option<ServerEntry>, RpcError> {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let of_scheme: Vec<_> = servers.iter().filter(|server| has_scheme(server, scheme)).collect();
    if let Some(entry) = only_server(cx, uri, &of_scheme)? {
        return Ok(Some(entry));
    }
    let offering = servers.iter().filter(|server| links::offers_resources(server));
    only_server(cx, uri, &offering.collect::<Vec<_>>())
}

/// Returns whether a caller who sees these servers reads a URI of a server from the same server.
pub(super) fn leads_to(
    cx: &Context,
    uri: &str,
    visible: &[Arc<ManagedServer>],
    server: &ServerId,
) -> bool {
    let found = match find_listed(cx, uri, visible) {
        Ok(None) => find_unlisted(cx, uri, visible),
        found => found,
    };
    matches!(found, Ok(Some(entry)) if entry.server.id() == server && entry.key == uri)
}

/// Returns an entry for the URI if exactly one server is given, and `None` if no server is given. For several servers,
/// returns an error that asks the caller to choose one.
pub(super) fn only_server(
    cx: &Context,
    uri: &str,
    servers: &[&Arc<ManagedServer>],
) -> Result<Option<ServerEntry>, RpcError> {
    match servers {
        [] => Ok(None),
        [server] => Ok(Some(ServerEntry { server: Arc::clone(server), key: uri.to_owned() })),
        _ => {
            let names = servers.iter().map(|one| qualify(ListKind::Resources, one.id(), uri));
            Err(ambiguous(cx, "resource", uri, &names.collect::<Vec<_>>()))
        }
    }
}

fn has_template(server: &ManagedServer, uri: &str) -> bool {
    let templates = server.lists().list(ListKind::Templates);
    templates.entries().iter().any(|entry| matches_template(&entry.key, uri))
}

/// Returns whether a server lists any resource or template with a scheme.
fn has_scheme(server: &ManagedServer, scheme: &str) -> bool {
    [ListKind::Resources, ListKind::Templates].into_iter().any(|kind| {
        let list = server.lists().list(kind);
        let mut schemes = list.entries().iter().filter_map(|entry| entry.key.split_once(':'));
        schemes.any(|(other, _)| other == scheme)
    })
}

/// Adds the cache members that modern callers require, if an older server did not return them.
pub(super) fn with_cache_members(mut reply: Reply, era: Era) -> Reply {
    if era == Era::Modern
        && let Some(body) = reply.as_body_mut()
        && !has_ttl(body.as_raw())
    {
        body.insert("ttlMs", Payload::from_trusted("0"));
        body.insert("cacheScope", Payload::from_trusted(r#""private""#));
    }
    reply
}

fn has_ttl(result: &Payload) -> bool {
    #[derive(Deserialize)]
    struct Cacheable {
        #[serde(rename = "ttlMs")]
        ttl_ms: Option<IgnoredAny>,
    }
    // Search the text first, so that a result is parsed only if it might contain the member.
    result.as_str().contains("\"ttlMs\"")
        && result.get::<Cacheable>().is_ok_and(|result| result.ttl_ms.is_some())
}

// === Prompts ===

async fn get_prompt(dispatcher: Dispatcher, mut call: Call) -> Result<Reply, RpcError> {
    let Some(Target::Prompt(name)) = call.params().target().cloned() else {
        return Err(RpcError::invalid_params("`name` must be a string"));
    };
    let found = find_prompt(&dispatcher, call.cx(), &name).await?;
    let ServerEntry { server, key } = found.entry;
    if key != *name {
        call.params_mut().set_target(Target::Prompt(key.as_str().into()));
    }
    let cx = call.cx().clone();
    let reply = server.send(call, found.has_access).await?;
    let reply = expect_list(reply, PromptsGet::METHOD, &["messages"])?;
    let reply = drop_nulls(reply, "messages")?;
    links::in_prompt(&dispatcher, &cx, &server, reply)
}

async fn find_prompt(
    dispatcher: &Dispatcher,
    cx: &Context,
    name: &str,
) -> Result<ResolvedEntry, RpcError> {
    let servers = dispatcher.visible_servers(cx);
    if let Lookup::Unique(entry) = NameTable::new(ListKind::Prompts, &servers).find(name) {
        return Ok(ResolvedEntry::visible(entry));
    }
    let servers = refreshed_servers(dispatcher, cx, ListKind::Prompts).await;
    match NameTable::new(ListKind::Prompts, &servers).find(name) {
        Lookup::Unique(entry) => return Ok(ResolvedEntry::visible(entry)),
        Lookup::Ambiguous(names) => return Err(ambiguous(cx, "prompt", name, &names)),
        Lookup::Unknown => {}
    }
    match NameTable::new(ListKind::Prompts, &all_servers(dispatcher)).find(name) {
        Lookup::Unique(entry) => Ok(ResolvedEntry::hidden(entry)),
        _ => Err(RpcError::invalid_params(format!(
            "unknown prompt `{}`; use a name from `prompts/list`",
            clip(name, MAX_QUOTED_BYTES)
        ))),
    }
}

// === Completion ===

async fn complete(dispatcher: Dispatcher, mut call: Call) -> Result<Reply, RpcError> {
    let mut params: CompleteParams = call.params().get()?;
    let found = match &params.reference {
        CompleteReference::Prompt(prompt) => {
            find_prompt(&dispatcher, call.cx(), &prompt.name).await?
        }
        CompleteReference::Resource(resource) => {
            find_template(&dispatcher, call.cx(), &resource.uri).await?
        }
        _ => {
            let message = "unknown `ref.type`; known: ref/prompt, ref/resource";
            return Err(RpcError::invalid_params(message));
        }
    };
    let ServerEntry { server, key } = found.entry;
    // For a server without completion, answer that there are no proposed values.
    let no_values = || Reply::of(&CompleteResult::new(Completion::new(Vec::new())));
    let offered = server.lists().capabilities();
    let is_undeclared = offered.is_some_and(|offered| offered.completions.is_none());
    if found.has_access && is_undeclared && !may_complete_undeclared(&server) {
        return no_values();
    }
    let name = match &mut params.reference {
        CompleteReference::Prompt(prompt) => &mut prompt.name,
        CompleteReference::Resource(resource) => &mut resource.uri,
        _ => return server.send(call, found.has_access).await,
    };
    if *name != key {
        *name = key;
        *call.params_mut() = Params::of(CompletionComplete::METHOD, &params)?;
    }
    match server.send(call, found.has_access).await {
        Ok(reply) => expect_list(reply, CompletionComplete::METHOD, &["completion", "values"]),
        Err(error) if is_undeclared && error.code() == ErrorCode::METHOD_NOT_FOUND => no_values(),
        Err(error) => Err(error),
    }
}

/// Returns whether a connected server may support completion without declaring it. MCP 2024-11-05 has no capability for
/// it, and servers of 2025-03-26 on the Python SDK 1.8 and 1.9 do not declare theirs.
fn may_complete_undeclared(server: &ManagedServer) -> bool {
    server.latest().client().is_ok_and(|client| client.server().revision <= Revision::V2025_03_26)
}

/// Finds the template to complete; the URI of a resource is accepted in place of a template.
async fn find_template(
    dispatcher: &Dispatcher,
    cx: &Context,
    uri: &str,
) -> Result<ResolvedEntry, RpcError> {
    let servers = refreshed_servers(dispatcher, cx, ListKind::Templates).await;
    match NameTable::new(ListKind::Templates, &servers).find(uri) {
        Lookup::Unique(entry) => Ok(ResolvedEntry::visible(entry)),
        Lookup::Ambiguous(names) => Err(ambiguous(cx, "template", uri, &names)),
        Lookup::Unknown => find_resource(dispatcher, cx, uri).await,
    }
}

// === Errors ===

pub(super) fn ambiguous(cx: &Context, what: &str, name: &str, names: &[String]) -> RpcError {
    let quoted = |name: &str| format!("`{}`", clip(name, MAX_QUOTED_BYTES));
    let names: Vec<_> = names.iter().take(MAX_NAMES).map(|name| quoted(name)).collect();
    let message = format!(
        "the {what} {} can belong to several servers; use one of {}",
        quoted(name),
        names.join(", ")
    );
    let code = if cx.caller.supports_mgp() {
        ErrorCode::TOOL_NAME_CONFLICT
    } else {
        ErrorCode::INVALID_PARAMS
    };
    RpcError::new(code, message)
}

pub(super) fn unknown_resource(cx: &Context, uri: &str) -> RpcError {
    #[derive(Serialize)]
    struct Data<'a> {
        uri: &'a str,
    }
    let code = match cx.caller.era {
        _ if cx.caller.supports_mgp() => ErrorCode::RESOURCE_NOT_FOUND,
        Era::Legacy => ErrorCode::MCP_RESOURCE_NOT_FOUND,
        Era::Modern => ErrorCode::INVALID_PARAMS,
    };
    let uri = clip(uri, MAX_QUOTED_BYTES);
    let message = format!("unknown resource `{uri}`; use a URI from `resources/list`");
    let error = RpcError::new(code, message);
    match Payload::of(&Data { uri: &uri }) {
        Ok(data) => error.data(data),
        Err(_) => error,
    }
}

/// Replaces the code of a server's error for an unknown resource, which is −32602 in the modern era.
fn fit_not_found(error: RpcError, era: Era) -> RpcError {
    if era == Era::Legacy || error.code() != ErrorCode::MCP_RESOURCE_NOT_FOUND {
        return error;
    }
    let fitted = RpcError::new(ErrorCode::INVALID_PARAMS, error.message());
    match error.as_data() {
        Some(data) => fitted.data(data.clone()),
        None => fitted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_resource_of_a_legacy_server_has_the_code_of_the_callers_era() {
        let data = Payload::from_trusted(r#"{"uri":"x://a"}"#);
        let unknown = RpcError::new(ErrorCode::MCP_RESOURCE_NOT_FOUND, "none").data(data.clone());
        assert_eq!(fit_not_found(unknown.clone(), Era::Legacy), unknown);
        let modern = fit_not_found(unknown, Era::Modern);
        assert_eq!((modern.code(), modern.message()), (ErrorCode::INVALID_PARAMS, "none"));
        assert_eq!(modern.as_data(), Some(&data));
    }

    #[test]
    fn a_resource_whose_text_mentions_ttl_ms_still_gets_one() {
        for (result, is_added) in [
            (r#"{"contents":[]}"#, true),
            (r#"{"contents":[{"uri":"a:b","text":"{\"ttlMs\":5}"}]}"#, true),
            (r#"{"contents":[{"uri":"a:b","text":"","_meta":{"ttlMs":5}}]}"#, true),
            (r#"{"contents":[],"ttlMs":5,"cacheScope":"public"}"#, false),
        ] {
            let reply = Reply::raw(Payload::from_trusted(result.to_owned()));
            let reply: ReadResourceResult = with_cache_members(reply, Era::Modern).get().unwrap();
            assert_eq!(reply.ttl_ms, Some(if is_added { 0 } else { 5 }), "{result}");
        }
    }
}
