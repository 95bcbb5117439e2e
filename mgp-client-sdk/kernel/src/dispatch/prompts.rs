//! Prompts of servers.

use mgp_types::method::{PromptsGet, Request as _};
use mgp_types::service::{Call, Context, Reply, Target};
use mgp_types::{RpcError, clip};

use super::dispatcher::Dispatcher;
use super::entry_lookup::{
    MAX_QUOTED_BYTES, ResolvedEntry, ambiguous, refreshed_servers, servers_of_tenant,
    wait_for_entries,
};
use super::links;
use super::names::{Lookup, NameTable, ServerEntry};
use crate::fleet::ListKind;
use crate::server_answer::{drop_nulls, expect_list};

pub(super) async fn get(dispatcher: Dispatcher, mut call: Call) -> Result<Reply, RpcError> {
    let Some(Target::Prompt(name)) = call.params().target().cloned() else {
        return Err(RpcError::invalid_params("`name` must be a string"));
    };
    let found = find(&dispatcher, call.cx(), &name).await?;
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

pub(super) async fn find(
    dispatcher: &Dispatcher,
    cx: &Context,
    name: &str,
) -> Result<ResolvedEntry, RpcError> {
    let servers = dispatcher.visible_servers(cx);
    if let Lookup::Unique(entry) = NameTable::new(ListKind::Prompts, &servers).find(name) {
        return Ok(ResolvedEntry::visible(entry));
    }
    let servers = refreshed_servers(dispatcher, cx, ListKind::Prompts).await;
    let mut found = NameTable::new(ListKind::Prompts, &servers).find(name);
    if matches!(found, Lookup::Unknown) {
        wait_for_entries(dispatcher, cx, &servers, ListKind::Prompts).await;
        found = NameTable::new(ListKind::Prompts, &servers).find(name);
    }
    match found {
        Lookup::Unique(entry) => return Ok(ResolvedEntry::visible(entry)),
        Lookup::Ambiguous(names) => return Err(ambiguous(cx, "prompt", name, &names)),
        Lookup::Unknown => {}
    }
    let servers = servers_of_tenant(dispatcher, cx);
    match NameTable::new(ListKind::Prompts, &servers).find(name) {
        Lookup::Unique(entry) => Ok(ResolvedEntry::hidden(entry)),
        _ => Err(RpcError::invalid_params(format!(
            "unknown prompt `{}`; use a name from `prompts/list`",
            clip(name, MAX_QUOTED_BYTES)
        ))),
    }
}
