//! Reads resources: finds the server of a resource, and replaces the URIs in its answer.

use std::sync::Arc;

use mgp_types::mcp::{Era, ReadResourceResult};
use mgp_types::method::{Request as _, ResourcesRead};
use mgp_types::service::{Call, Context, Reply, ServerId, Target};
use mgp_types::{ErrorCode, Payload, RpcError, clip};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::dispatcher::Dispatcher;
use super::entry_lookup::{
    MAX_NAMES, MAX_QUOTED_BYTES, ResolvedEntry, ambiguous, refreshed_servers, servers_of_tenant,
    wait_for_entries,
};
use super::links::{self, ResourceLinks};
use super::names::{Lookup, NameTable, ServerEntry, matches_template, qualify, split_uri};
use super::skills;
use crate::fleet::{ListKind, ManagedServer};
use crate::server_answer::{drop_nulls, expect_list, unreadable_result};

/// The maximum length in bytes of a URI that is compared with templates, because a server may have many templates.
const MAX_URI_BYTES: usize = 64 * 1024;

pub(super) async fn read(dispatcher: Dispatcher, mut call: Call) -> Result<Reply, RpcError> {
    let Some(Target::Resource(uri)) = call.params().target().cloned() else {
        return Err(RpcError::invalid_params("`uri` must be a string"));
    };
    let found = find(&dispatcher, call.cx(), &uri).await?;
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
        // Replace the server's own URI by the URI that the caller requested.
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

pub(super) async fn find(
    dispatcher: &Dispatcher,
    cx: &Context,
    uri: &str,
) -> Result<ResolvedEntry, RpcError> {
    let servers = dispatcher.visible_servers(cx);
    // First look the resource up in the known lists, without reading any list again.
    if let Lookup::Unique(entry) = NameTable::new(ListKind::Resources, &servers).find(uri) {
        return Ok(ResolvedEntry::visible(entry));
    }
    let servers = refreshed_servers(dispatcher, cx, ListKind::Resources).await;
    let mut listed = find_listed(cx, uri, &servers)?;
    if listed.is_none() {
        wait_for_entries(dispatcher, cx, &servers, ListKind::Resources).await;
        listed = find_listed(cx, uri, &servers)?;
    }
    if let Some(entry) = listed {
        return Ok(ResolvedEntry::visible(entry));
    }
    let of_tenant = servers_of_tenant(dispatcher, cx);
    if let Lookup::Unique(entry) = NameTable::new(ListKind::Resources, &of_tenant).find(uri) {
        return Ok(ResolvedEntry::hidden(entry));
    }
    // Choose a server for a resource that no list contains, because most servers have more resources than they list.
    let found = match find_unlisted(cx, uri, &servers) {
        // The URI includes the id of a server that does not exist, so no other server can be meant.
        Err(_) if split_uri(uri).is_some() => None,
        found => found?,
    };
    found.map(ResolvedEntry::visible).ok_or_else(|| unknown(cx, uri))
}

/// Finds the visible server of a URI. The server lists the URI itself, a skill whose folder contains the URI, or a
/// template that matches the URI.
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

/// Finds the likely server of a resource that no server lists: the only server that lists other URIs with the same
/// scheme, or else the only server that offers resources.
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

/// Returns whether a caller that sees these servers would read this URI from the given server, and whether the server
/// itself uses the same URI.
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
/// returns an error that lets the caller choose a server.
fn only_server(
    cx: &Context,
    uri: &str,
    servers: &[&Arc<ManagedServer>],
) -> Result<Option<ServerEntry>, RpcError> {
    match servers {
        [] => Ok(None),
        [server] => Ok(Some(ServerEntry { server: Arc::clone(server), key: uri.to_owned() })),
        _ => {
            let named = servers.iter().take(MAX_NAMES);
            let names = named.map(|one| qualify(ListKind::Resources, one.id(), uri));
            Err(ambiguous(cx, "resource", uri, &names.collect::<Vec<_>>()))
        }
    }
}

fn has_template(server: &ManagedServer, uri: &str) -> bool {
    let templates = server.lists().list(ListKind::Templates);
    uri.len() <= MAX_URI_BYTES
        && templates.entries().iter().any(|entry| matches_template(&entry.key, uri))
}

fn has_scheme(server: &ManagedServer, scheme: &str) -> bool {
    [ListKind::Resources, ListKind::Templates].into_iter().any(|kind| {
        let list = server.lists().list(kind);
        let mut rests = list.entries().iter().filter_map(|entry| entry.key.strip_prefix(scheme));
        rests.any(|rest| rest.starts_with(':'))
    })
}

/// Adds the members about caching that modern callers require, if a server of an earlier revision did not return them.
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
    // First search the text, so that a result is parsed only if it might contain the member.
    result.as_str().contains("\"ttlMs\"")
        && result.get::<Cacheable>().is_ok_and(|result| result.ttl_ms.is_some())
}

pub(super) fn unknown(cx: &Context, uri: &str) -> RpcError {
    #[derive(Serialize)]
    struct Data<'a> {
        uri: &'a str,
    }
    let code = match cx.caller.era {
        _ if cx.caller.supports_mgp() => ErrorCode::RESOURCE_NOT_FOUND,
        Era::Legacy => ErrorCode::MCP_RESOURCE_NOT_FOUND,
        Era::Modern => ErrorCode::INVALID_PARAMS,
    };
    let removed = if split_uri(uri).is_some() { "; its server may have been removed" } else { "" };
    let uri = clip(uri, MAX_QUOTED_BYTES);
    let message = format!("unknown resource `{uri}`{removed}; use a URI from `resources/list`");
    let error = RpcError::new(code, message);
    match Payload::of(&Data { uri: &uri }) {
        Ok(data) => error.data(data),
        Err(_) => error,
    }
}

/// Replaces the code of a server's error about an unknown resource by that of the caller's era: −32002 in the legacy
/// era, −32602 (invalid params) in the modern one. Of errors with −32602, those with a URI as data are about a
/// resource.
fn fit_not_found(error: RpcError, era: Era) -> RpcError {
    #[derive(Deserialize)]
    struct Data {
        #[serde(rename = "uri")]
        _uri: String,
    }
    let names_uri = || error.as_data().is_some_and(|data| data.get::<Data>().is_ok());
    let (legacy, modern) = (ErrorCode::MCP_RESOURCE_NOT_FOUND, ErrorCode::INVALID_PARAMS);
    let code = match era {
        Era::Modern if error.code() == legacy => modern,
        Era::Legacy if error.code() == modern && names_uri() => legacy,
        _ => return error,
    };
    let fitted = RpcError::new(code, error.message());
    match error.as_data() {
        Some(data) => fitted.data(data.clone()),
        None => fitted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_resource_of_a_server_of_the_other_era_has_the_code_of_the_callers_era() {
        let data = Payload::from_trusted(r#"{"uri":"x://a"}"#);
        let codes = [ErrorCode::MCP_RESOURCE_NOT_FOUND, ErrorCode::INVALID_PARAMS];
        let [legacy, modern] = codes.map(|code| RpcError::new(code, "none").data(data.clone()));
        for error in [&legacy, &modern] {
            assert_eq!(fit_not_found(error.clone(), Era::Legacy), legacy);
            assert_eq!(fit_not_found(error.clone(), Era::Modern), modern);
        }
        let other = RpcError::invalid_params("none");
        assert_eq!(fit_not_found(other.clone(), Era::Legacy), other);
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
