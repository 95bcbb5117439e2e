//! Pages of a list that combines many servers (MCP pagination).
//!
//! A cursor contains the position and the revision of the list. Once the list has changed, the cursor is
//! refused; so a client cannot miss an entry, or receive one twice, without noticing.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use mgp_types::mcp::{Era, ListParams, Prompt, Resource, ResourceTemplate, Skill};
use mgp_types::service::{Call, Reply, ServerId};
use mgp_types::{Payload, RpcError};

use super::names::NameTable;
use super::skills::qualify_skill;
use crate::fleet::{ListEntry, ListKind};

const PAGE_ENTRIES: usize = 500;

/// The time for which a modern client may cache a list, in milliseconds. It is short because some servers do not
/// announce that their lists changed.
const TTL_MS: u64 = 5_000;

/// Returns the page that a call requests.
pub(super) fn page(kind: ListKind, names: &NameTable, call: &Call) -> Result<Reply, RpcError> {
    let cursor = call.params().get::<ListParams>()?.cursor;
    let revision = revision(names);
    let start = match &cursor {
        None => 0,
        Some(cursor) => position(cursor, revision).ok_or_else(bad_cursor)?,
    };
    let all = names
        .lists()
        .iter()
        .flat_map(|(server, list)| list.entries().iter().map(move |entry| (server.id(), entry)));
    let member = match kind {
        ListKind::Resources => "resources",
        ListKind::Templates => "resourceTemplates",
        ListKind::Prompts => "prompts",
        ListKind::Skills => "skills",
    };
    let mut out = format!(r#"{{"{member}":["#);
    let mut rest = all.skip(start);
    for (at, (server, entry)) in rest.by_ref().take(PAGE_ENTRIES).enumerate() {
        if at > 0 {
            out.push(',');
        }
        match names.shown_name(server, &entry.key) {
            None => out.push_str(entry.text.as_str()),
            Some(name) => out.push_str(renamed(kind, server, entry, name)?.as_str()),
        }
    }
    out.push(']');
    if rest.next().is_some() {
        let _ = write!(out, r#","nextCursor":"p{}.{revision:x}""#, start + PAGE_ENTRIES);
    }
    if call.cx().caller.era == Era::Modern {
        let _ = write!(out, r#","resultType":"complete","ttlMs":{TTL_MS},"cacheScope":"private""#);
    }
    out.push('}');
    Ok(Reply::raw(Payload::from_trusted(out)))
}

fn renamed(
    kind: ListKind,
    server: &ServerId,
    entry: &ListEntry,
    name: String,
) -> Result<Payload, RpcError> {
    match kind {
        ListKind::Resources => {
            let mut resource: Resource = entry.text.get()?;
            resource.uri = name;
            Payload::of(&resource)
        }
        ListKind::Templates => {
            let mut template: ResourceTemplate = entry.text.get()?;
            template.uri_template = name;
            Payload::of(&template)
        }
        ListKind::Prompts => {
            let mut prompt: Prompt = entry.text.get()?;
            prompt.name = name;
            Payload::of(&prompt)
        }
        ListKind::Skills => {
            let mut skill: Skill = entry.text.get()?;
            qualify_skill(&mut skill, server);
            Payload::of(&skill)
        }
    }
}

/// Returns a hash that changes whenever the list that a caller sees changes.
fn revision(names: &NameTable) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (server, list) in names.lists() {
        (server.id(), list.digest()).hash(&mut hasher);
    }
    hasher.finish()
}

fn position(cursor: &str, revision: u64) -> Option<usize> {
    let (start, digest) = cursor.strip_prefix('p')?.split_once('.')?;
    (u64::from_str_radix(digest, 16) == Ok(revision)).then_some(())?;
    start.parse().ok().filter(|start| *start > 0)
}

pub(super) fn bad_cursor() -> RpcError {
    RpcError::invalid_params(
        "`cursor` is not a cursor of this list, or the list has changed; start again without it",
    )
}
