//! The endpoints of the methods `resources/…`.

use std::collections::BTreeMap;
use std::time::Duration;

use mgp_types::mcp::{EmptyResult, Era, ListParams, ReadResourceParams};
use mgp_types::method::{
    Request, ResourcesList, ResourcesRead, ResourcesSubscribe, ResourcesTemplatesList,
    ResourcesUnsubscribe,
};
use mgp_types::service::{Call, Context, Reply, Router, Stack};
use mgp_types::{ErrorCode, Payload, RpcError};
use serde::Serialize;

use super::Source;
use super::contents::ReadContext;
use super::registry::{Resources, list_of, set_cursor, templates_of};
use crate::catalog::{PageFields, bad_cursor};
use crate::request::{HandlerConfig, TextRequest};
use crate::tool::received_meta;

impl Resources {
    pub(crate) fn routes(&self, serving: &HandlerConfig) -> Router {
        let (list, templates, read) = (self.clone(), self.clone(), self.clone());
        let [list_with, templates_with, read_with] = [(); 3].map(|()| serving.clone());
        let (watch, unwatch) = (self.clone(), self.clone());
        Router::new()
            .route(
                ResourcesList::METHOD,
                Stack::from_fn(move |call| list.clone().list(call, list_with.clone())),
            )
            .route(
                ResourcesTemplatesList::METHOD,
                Stack::from_fn(move |call| {
                    templates.clone().list_templates(call, templates_with.clone())
                }),
            )
            .route(
                ResourcesRead::METHOD,
                Stack::from_fn(move |call| read.clone().read(call, read_with.clone())),
            )
            .on::<ResourcesSubscribe, _, _>(move |cx, params| {
                let watched = watch.watch(&cx, params.uri);
                async { watched.map(|()| EmptyResult::new()) }
            })
            .on::<ResourcesUnsubscribe, _, _>(move |cx, params| {
                unwatch.subscribers.unwatch(&cx, &params.uri);
                async { Ok(EmptyResult::new()) }
            })
    }

    fn watch(&self, cx: &Context, uri: String) -> Result<(), RpcError> {
        if !self.knows(&uri) {
            return Err(not_found(&uri, cx.caller.era));
        }
        self.subscribers.watch(cx, uri)
    }

    // === Lists ===

    async fn list(self, call: Call, serving: HandlerConfig) -> Result<Reply, RpcError> {
        let cursor = call.params().get::<ListParams>()?.cursor;
        let era = call.cx().caller.era;
        let Some((index, within)) = cursor.as_deref().and_then(in_set) else {
            let page = self.fixed.snapshot().page(cursor.as_deref(), era);
            return page.ok_or_else(bad_cursor)?.map(Reply::raw);
        };
        let set = self.set(index).ok_or_else(bad_cursor)?;
        let (cx, within) = (call.cx().clone(), within.map(str::to_owned));
        let listing = async move {
            let page = set.list(&cx, within.as_deref()).await?;
            let next = match page.next {
                Some(within) => Some(set_cursor(index, Some(&within))),
                None => self.set(index + 1).map(|_| set_cursor(index + 1, None)),
            };
            list_of(page.items, PageFields::of(era, next)).map(Reply::raw)
        };
        serving.run(call.cx(), listing).await
    }

    async fn list_templates(self, call: Call, serving: HandlerConfig) -> Result<Reply, RpcError> {
        let cursor = call.params().get::<ListParams>()?.cursor;
        let era = call.cx().caller.era;
        let Some((index, None)) = cursor.as_deref().and_then(in_set) else {
            let page = self.templates.snapshot().page(cursor.as_deref(), era);
            return page.ok_or_else(bad_cursor)?.map(Reply::raw);
        };
        let set = self.set(index).ok_or_else(bad_cursor)?;
        let cx = call.cx().clone();
        let listing = async move {
            let templates = set.templates(&cx).await?;
            let next = self.set(index + 1).map(|_| set_cursor(index + 1, None));
            templates_of(templates, PageFields::of(era, next)).map(Reply::raw)
        };
        serving.run(call.cx(), listing).await
    }

    // === Reading ===

    async fn read(self, call: Call, serving: HandlerConfig) -> Result<Reply, RpcError> {
        let uri = call.params().get::<ReadResourceParams>()?.uri;
        let cx = call.cx();
        let era = cx.caller.era;
        let request = |uri, arguments| TextRequest {
            name: uri,
            arguments,
            typed: None,
            meta: received_meta(&call),
            cx: cx.clone(),
            state: serving.state.clone(),
        };
        if let Some(fixed) = self.fixed.get(&uri) {
            let mime = fixed.definition.mime_type.clone();
            let request = request(uri, BTreeMap::new());
            return read_one(&serving, request, mime, fixed.ttl, &fixed.source).await;
        }
        if let Some((family, variables)) = self.family(&uri) {
            let mime = family.definition.mime_type.clone();
            let request = request(uri, variables);
            return read_one(&serving, request, mime, family.ttl, &family.source).await;
        }
        let sets = self.sets();
        if sets.is_empty() {
            return Err(not_found(&uri, era));
        }
        let inner = cx.clone();
        let reading = async move {
            let read = ReadContext { uri: &uri, mime: None, ttl_ms: 0, era };
            for set in sets {
                if let Some(contents) = set.read(&inner, &uri).await?
                    && let Some(reply) = contents.reply(&read)?
                {
                    return Ok(reply);
                }
            }
            Err(not_found(&uri, era))
        };
        serving.run(cx, reading).await
    }
}

async fn read_one(
    serving: &HandlerConfig,
    request: TextRequest,
    mime: Option<String>,
    ttl: Duration,
    source: &Source,
) -> Result<Reply, RpcError> {
    let (cx, uri) = (request.cx.clone(), request.name.clone());
    let (era, ttl_ms) = (cx.caller.era, mgp_types::millis(ttl));
    let reply = move |uri: &str, contents: super::Contents| {
        let read = ReadContext { uri, mime: mime.as_deref(), ttl_ms, era };
        contents.reply(&read)?.ok_or_else(|| not_found(uri, era))
    };
    match source {
        Source::Ready(contents) => reply(&uri, contents.clone()),
        Source::Read(function) => {
            let function = function.clone();
            serving.run(&cx, async move { reply(&uri, function.run(request).await?) }).await
        }
    }
}

/// Parses a cursor that `set_cursor` wrote: returns the index of the set, and the set's own cursor.
fn in_set(cursor: &str) -> Option<(usize, Option<&str>)> {
    let cursor = cursor.strip_prefix('s')?;
    match cursor.split_once('.') {
        Some((index, within)) => Some((index.parse().ok()?, Some(within))),
        None => Some((cursor.parse().ok()?, None)),
    }
}

/// Returns the error for an unknown URI: −32002 (resource not found) in the legacy era, −32602 (invalid params) in the
/// modern era; both contain the URI.
fn not_found(uri: &str, era: Era) -> RpcError {
    #[derive(Serialize)]
    struct Data<'a> {
        uri: &'a str,
    }
    let code = match era {
        Era::Legacy => ErrorCode::MCP_RESOURCE_NOT_FOUND,
        Era::Modern => ErrorCode::INVALID_PARAMS,
    };
    let shown = mgp_types::clip(uri, 200);
    let error = RpcError::new(code, format!("unknown resource `{shown}`"));
    match Payload::of(&Data { uri }) {
        Ok(data) => error.data(data),
        Err(_) => error,
    }
}
