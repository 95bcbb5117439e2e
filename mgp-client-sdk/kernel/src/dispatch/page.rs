//! Pages of a list that combines many servers (MCP pagination).
//!
//! A cursor contains the position in the list and the revision of the list. The kernel refuses the cursor once the list
//! has changed. So a client cannot miss an entry, or receive an entry twice, without noticing.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use mgp_types::mcp::{Era, ListParams, Skill};
use mgp_types::service::{Call, Reply, ServerId};
use mgp_types::{Object, Payload, RpcError};

use super::names::NameTable;
use super::skills::qualify_skill;
use crate::fleet::{ListEntry, ListKind};

const PAGE_ENTRIES: usize = 500;

/// The time that a modern client may cache a list, in milliseconds. It is short because some servers do not announce
/// that their lists have changed.
const TTL_MS: u64 = 5_000;

/// Returns the page of a list that a call requests.
pub(super) fn page(kind: ListKind, names: &NameTable, call: &Call) -> Result<Reply, RpcError> {
    let cursor = requested_cursor(call)?;
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
            Some(name) => out.push_str(renamed(kind, server, entry, &name)?.as_str()),
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

/// Returns the cursor of a request for a list. Treats an empty cursor of a legacy client as absent, because some of
/// these clients send one with their first request.
pub(super) fn requested_cursor(call: &Call) -> Result<Option<String>, RpcError> {
    let cursor = call.params().get::<ListParams>()?.cursor;
    let is_legacy = call.cx().caller.era == Era::Legacy;
    Ok(cursor.filter(|cursor| !is_legacy || !cursor.is_empty()))
}

/// Returns an entry with a new name; the files of a skill also get new names. All other members stay unchanged, even
/// those that do not follow MCP: one wrong entry must not make the whole list fail.
fn renamed(
    kind: ListKind,
    server: &ServerId,
    entry: &ListEntry,
    name: &str,
) -> Result<Payload, RpcError> {
    if kind == ListKind::Skills
        && let Ok(mut skill) = entry.text.get::<Skill>()
    {
        qualify_skill(&mut skill, server);
        return Payload::of(&skill);
    }
    let member = match kind {
        ListKind::Resources | ListKind::Skills => "uri",
        ListKind::Templates => "uriTemplate",
        ListKind::Prompts => "name",
    };
    let mut members: Object = entry.text.get()?;
    members.encode(member, name)?;
    Payload::of(&members)
}

/// Returns a hash of the list that a caller sees. The hash changes whenever the list changes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_does_not_follow_mcp_is_renamed_like_others() {
        for (kind, text, expected) in [
            (ListKind::Resources, r#"{"uri":"x://a","size":"big"}"#, r#"{"uri":"n","size":"big"}"#),
            (ListKind::Templates, r#"{"uriTemplate":"x://{a}"}"#, r#"{"uriTemplate":"n"}"#),
            (ListKind::Prompts, r#"{"name":"p","arguments":5}"#, r#"{"name":"n","arguments":5}"#),
            (ListKind::Skills, r#"{"uri":"skill://a/SKILL.md"}"#, r#"{"uri":"n"}"#),
        ] {
            let text = Payload::from_trusted(text);
            let entry = ListEntry { key: "key".into(), text };
            let renamed = renamed(kind, &"s".into(), &entry, "n").unwrap();
            assert_eq!(renamed.as_str(), expected, "{kind:?}");
        }
    }
}
