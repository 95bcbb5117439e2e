//! One page of a list of many servers (MCP pagination).
//!
//! A cursor names the place and the state of the list: one of a list that has changed since is refused, so that nothing
//! is left out or told twice without anybody's notice.
//!
//! Applies to: inbound.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use mgp_types::mcp::{Era, ListParams, Prompt, Resource, ResourceTemplate};
use mgp_types::service::{Call, Reply};
use mgp_types::{Payload, RpcError};

use super::names::Names;
use crate::fleet::{Entry, Kind};

/// How many entries a page has.
const PAGE: usize = 500;

/// How long a modern client may keep a list: changes are told, so this only bounds those that servers do not tell.
const TTL_MS: u64 = 5_000;

/// The page a call asks for.
pub(super) fn of(kind: Kind, names: &Names, call: &Call) -> Result<Reply, RpcError> {
    let cursor = call.params().get::<ListParams>()?.cursor;
    let revision = revision(names);
    let start = match &cursor {
        None => 0,
        Some(cursor) => read(cursor, revision).ok_or_else(bad_cursor)?,
    };
    let all = names
        .shelves()
        .iter()
        .flat_map(|(node, list)| list.entries().iter().map(move |entry| (node.id(), entry)));
    let member = match kind {
        Kind::Resources => "resources",
        Kind::Templates => "resourceTemplates",
        Kind::Prompts => "prompts",
    };
    let mut out = format!(r#"{{"{member}":["#);
    let mut rest = all.skip(start);
    for (at, (server, entry)) in rest.by_ref().take(PAGE).enumerate() {
        if at > 0 {
            out.push(',');
        }
        match names.shown(server, &entry.key) {
            None => out.push_str(entry.text.as_str()),
            Some(name) => out.push_str(renamed(kind, entry, name)?.as_str()),
        }
    }
    out.push(']');
    if rest.next().is_some() {
        let _ = write!(out, r#","nextCursor":"p{}.{revision:x}""#, start + PAGE);
    }
    if call.cx().caller.era == Era::Modern {
        let _ = write!(out, r#","resultType":"complete","ttlMs":{TTL_MS},"cacheScope":"private""#);
    }
    out.push('}');
    Ok(Reply::raw(Payload::from_trusted(out)))
}

fn renamed(kind: Kind, entry: &Entry, name: String) -> Result<Payload, RpcError> {
    match kind {
        Kind::Resources => {
            let mut resource: Resource = entry.text.get()?;
            resource.uri = name;
            Payload::of(&resource)
        }
        Kind::Templates => {
            let mut template: ResourceTemplate = entry.text.get()?;
            template.uri_template = name;
            Payload::of(&template)
        }
        Kind::Prompts => {
            let mut prompt: Prompt = entry.text.get()?;
            prompt.name = name;
            Payload::of(&prompt)
        }
    }
}

/// Names the state of a list, as its caller sees it.
fn revision(names: &Names) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (node, list) in names.shelves() {
        (node.id(), list.hash()).hash(&mut hasher);
    }
    hasher.finish()
}

fn read(cursor: &str, revision: u64) -> Option<usize> {
    let (start, of) = cursor.strip_prefix('p')?.split_once('.')?;
    (u64::from_str_radix(of, 16) == Ok(revision)).then_some(())?;
    start.parse().ok().filter(|start| *start > 0)
}

fn bad_cursor() -> RpcError {
    RpcError::invalid_params(
        "`cursor` is not one of this list, or the list has changed; start again without it",
    )
}
