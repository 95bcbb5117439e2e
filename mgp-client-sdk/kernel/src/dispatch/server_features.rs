//! The features of servers other than tools: resources, skills, prompts, completion and roots.
//!
//! A caller receives the entries of each server to which it has access as a whole; access to single tools of a server
//! is not enough. The security checks in front of the server check each use of an entry again.

use mgp_types::RpcError;
use mgp_types::mcp::ProgressParams;
use mgp_types::method::{
    CompletionComplete, Progress, PromptsGet, PromptsList, Request, ResourcesList, ResourcesRead,
    ResourcesTemplatesList, RootsListChanged, SkillsList,
};
use mgp_types::service::{
    Call, Context, OutletItem, OutletItemKind, Progress as Step, Reply, Router, Stack,
};

use super::dispatcher::Dispatcher;
use super::entry_lookup::refreshed_servers;
use super::names::NameTable;
use super::page::page;
use super::{completion, prompts, resources, skills};
use crate::fleet::ListKind;

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
        .route(
            ResourcesRead::METHOD,
            Stack::from_fn(move |call| resources::read(read.clone(), call)),
        )
        .route(PromptsGet::METHOD, Stack::from_fn(move |call| prompts::get(get.clone(), call)))
        .route(
            CompletionComplete::METHOD,
            Stack::from_fn(move |call| completion::complete(completing.clone(), call)),
        )
        .on_notification::<RootsListChanged, _, _>(move |cx, _| {
            roots.announce_roots(&cx);
            async { Ok(()) }
        })
        .on_notification::<Progress, _, _>(|cx, step| {
            forward_progress(&cx, step);
            async { Ok(()) }
        })
}

/// While a caller answers a question of a server, forwards the progress that the caller reports to this server.
fn forward_progress(cx: &Context, params: ProgressParams) {
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
    // Ignore a full queue: this step of the progress is lost, but later steps replace it.
    let _ = question.inbox.push(OutletItem::Progress(step));
}

async fn list(dispatcher: Dispatcher, kind: ListKind, call: Call) -> Result<Reply, RpcError> {
    refreshed_servers(&dispatcher, call.cx(), kind).await;
    dispatcher.parts().fleet.context().changed_lists.note_list(call.cx());
    // Find the servers only now: the client is not notified of servers that were added or removed during the wait.
    let servers = dispatcher.visible_servers(call.cx());
    page(kind, &NameTable::new(kind, &servers), &call)
}
