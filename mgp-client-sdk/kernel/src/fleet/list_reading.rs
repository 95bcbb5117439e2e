//! Reads a list of a server page by page.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::{Client, Error, SupervisedClient, gateway};
use mgp_types::mcp::{ListParams, NextCursor, Prompt, Resource, ResourceTemplate};
use mgp_types::service::{Call, Method, Params, PeerInfo, ServerId, Stack};
use mgp_types::{ErrorCode, Object, Payload};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::list_cache::{CachedList, ListEntry, ListKind};
use super::list_entry::fit_entry;
use crate::kernel_hops;
use crate::server_answer::is_too_deep;

/// The maximum number of entries in a list; further entries are dropped.
const MAX_ENTRIES: usize = 10_000;

/// The maximum size of a list in bytes; further entries are dropped.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The maximum number of pages to read of a list.
const MAX_PAGES: usize = 10_000;

/// The time after which the kernel reads no further page of a list.
const PAGES_TIMEOUT: Duration = Duration::from_secs(20);

/// Reads the pages of a list, up to the limits above. Leaves out entries that hosts cannot read.
pub(super) async fn read_list(
    kind: ListKind,
    server: &ServerId,
    supervised: &SupervisedClient,
) -> Result<CachedList, Error> {
    let client = supervised.client()?;
    read_pages(kind, server, &client, gateway::ungated_supervised(supervised)).await
}

/// Reads the pages of a list as [`read_list`] does, with a stack that sends the requests to the server of `client`.
pub(super) async fn read_pages(
    kind: ListKind,
    server: &ServerId,
    client: &Client,
    stack: &Stack,
) -> Result<CachedList, Error> {
    let (mut list, mut params, mut bytes) = (CachedList::default(), ListParams::new(), 0_usize);
    if !kind.is_offered(client.capabilities()) {
        return Ok(list.finish());
    }
    let (mut cursors, until) = (HashSet::new(), Instant::now() + PAGES_TIMEOUT);
    for _ in 0..MAX_PAGES {
        let method = Method::from_static(kind.method());
        let mut call = Call::request(method, Params::of(kind.method(), &params)?, client.context());
        kernel_hops::count(&mut call, client.server());
        let answering = stack.send(call);
        let answer = if params.cursor.is_none() {
            answering.await
        } else if let Ok(answer) = timeout_at(until, answering).await {
            answer
        } else {
            tracing::warn!(%server, method = kind.method(), ?PAGES_TIMEOUT, "list truncated");
            break;
        };
        let page = match answer {
            Ok(reply) => reply.get::<Page>()?,
            // End the list without an error if the method is unknown: many servers have resources and do not implement
            // templates.
            Err(error) if error.code() == ErrorCode::METHOD_NOT_FOUND => break,
            Err(error) => return Err(error.into()),
        };
        for text in page.entries(kind).filter_map(|text| add_level(kind, text, client.server())) {
            bytes = bytes.saturating_add(text.as_str().len());
            if bytes > MAX_BYTES || list.entries().len() >= MAX_ENTRIES {
                let method = kind.method();
                tracing::warn!(%server, method, MAX_ENTRIES, MAX_BYTES, "list truncated");
                return Ok(list.finish());
            }
            if let Some(key) = entry_key(kind, &text).filter(|_| !is_too_deep(&text)) {
                let text = fit_entry(kind, text);
                list.push(ListEntry { key, text });
            }
        }
        let next = client.server().next_page(page.next.0);
        bytes = bytes.saturating_add(next.as_ref().map_or(0, String::len));
        // Stop if the server repeats a cursor, because its list would never end.
        match next.filter(|next| bytes <= MAX_BYTES && cursors.insert(next.clone())) {
            Some(cursor) => params.cursor = Some(cursor),
            None => break,
        }
    }
    Ok(list.finish())
}

/// Returns the value of the member that identifies an entry; `None` if the entry is not an object with that member.
pub(super) fn entry_key(kind: ListKind, text: &Payload) -> Option<Arc<str>> {
    let member = match kind {
        ListKind::Resources | ListKind::Skills => "uri",
        ListKind::Templates => "uriTemplate",
        ListKind::Prompts => "name",
    };
    // Read only this member, because another part of the kernel removes or replaces malformed members later.
    let key: String = text.get::<Object>().ok()?.decode(member).ok()??;
    (!key.is_empty()).then(|| key.into())
}

/// A page of any kind of list. Servers written in Go encode an empty list as null.
#[derive(Deserialize)]
struct Page {
    resources: Option<Vec<Payload>>,
    #[serde(rename = "resourceTemplates")]
    templates: Option<Vec<Payload>>,
    prompts: Option<Vec<Payload>>,
    skills: Option<Vec<Payload>>,
    #[serde(default, rename = "nextCursor")]
    next: NextCursor,
}

impl Page {
    fn entries(&self, kind: ListKind) -> impl Iterator<Item = Payload> {
        let entries = match kind {
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
            ListKind::Prompts => &self.prompts,
            ListKind::Skills => &self.skills,
        };
        // Copy the entries: they share the text of their page, so a cached entry would keep the whole page in memory.
        entries.iter().flatten().map(|entry| Payload::from_trusted(entry.as_str().to_owned()))
    }
}

/// If the server is itself a kernel, increments the number in the `_meta` of the entry, which counts the kernels
/// between a host and the server of the entry. Returns `None` if the number becomes too large or the entry is invalid.
/// Returns an entry of any other server unchanged.
fn add_level(kind: ListKind, text: Payload, callee: &PeerInfo) -> Option<Payload> {
    if !kernel_hops::is_kernel(callee) {
        return Some(text);
    }
    match kind {
        ListKind::Resources => {
            let mut resource: Resource = text.get().ok()?;
            resource.meta = Some(kernel_hops::add_level(resource.meta.take())?);
            Payload::of(&resource).ok()
        }
        ListKind::Templates => {
            let mut template: ResourceTemplate = text.get().ok()?;
            template.meta = Some(kernel_hops::add_level(template.meta.take())?);
            Payload::of(&template).ok()
        }
        // A skill has no `_meta`.
        ListKind::Skills => Some(text),
        ListKind::Prompts => {
            let mut prompt: Prompt = text.get().ok()?;
            prompt.meta = Some(kernel_hops::add_level(prompt.meta.take())?);
            Payload::of(&prompt).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_kept_although_another_member_than_its_key_has_the_wrong_type() {
        let uri = |text: &str| entry_key(ListKind::Resources, &Payload::from_trusted(text));
        assert_eq!(uri(r#"{"uri":"x:1","name":5,"uriTemplate":[]}"#).as_deref(), Some("x:1"));
        for other in [r#"["x:1"]"#, r#"{"uri":5}"#, r#"{"uri":""}"#, "{}", "5"] {
            assert!(uri(other).is_none(), "{other}");
        }
    }
}
