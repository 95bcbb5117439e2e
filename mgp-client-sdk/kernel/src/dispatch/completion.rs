//! Completion of the arguments of prompts and resource templates.

use mgp_types::mcp::{CompleteParams, CompleteReference, CompleteResult, Completion, Revision};
use mgp_types::method::{CompletionComplete, Request as _};
use mgp_types::service::{Call, Context, Params, Reply};
use mgp_types::{ErrorCode, RpcError};

use super::dispatcher::Dispatcher;
use super::entry_lookup::{ResolvedEntry, ambiguous, refreshed_servers};
use super::names::{Lookup, NameTable, ServerEntry};
use super::{prompts, resources};
use crate::fleet::{ListKind, ManagedServer};
use crate::server_answer::expect_list;

/// Completes an argument of a prompt or a resource template at the server that has it.
pub(super) async fn complete(dispatcher: Dispatcher, mut call: Call) -> Result<Reply, RpcError> {
    let mut params: CompleteParams = call.params().get()?;
    let found = match &params.reference {
        CompleteReference::Prompt(prompt) => {
            prompts::find(&dispatcher, call.cx(), &prompt.name).await?
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
    // If the server does not support completion, answer with an empty list of values.
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
/// completion, and servers of MCP 2025-03-26 that use the Python SDK 1.8 or 1.9 do not declare this capability.
fn may_complete_undeclared(server: &ManagedServer) -> bool {
    server.latest().client().is_ok_and(|client| client.server().revision <= Revision::V2025_03_26)
}

/// Finds the resource template to complete; also accepts the URI of a resource in place of a template.
async fn find_template(
    dispatcher: &Dispatcher,
    cx: &Context,
    uri: &str,
) -> Result<ResolvedEntry, RpcError> {
    let servers = refreshed_servers(dispatcher, cx, ListKind::Templates).await;
    match NameTable::new(ListKind::Templates, &servers).find(uri) {
        Lookup::Unique(entry) => Ok(ResolvedEntry::visible(entry)),
        Lookup::Ambiguous(names) => Err(ambiguous(cx, "template", uri, &names)),
        Lookup::Unknown => resources::find(dispatcher, cx, uri).await,
    }
}
