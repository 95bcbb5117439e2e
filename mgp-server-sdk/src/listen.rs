//! The stream of notifications that a modern client opens (MCP `subscriptions/listen`).
//!
//! It lasts as long as its request: after a cancellation or a disconnect nothing more is sent.
//! A server that shuts down notifies the client of that too, and completes the request.

use mgp_lifecycle::Drain;
use mgp_types::RpcError;
use mgp_types::mcp::{
    ListenParams, ListenResult, Meta, ResultType, SubscriptionFilter,
    SubscriptionsAcknowledgedParams, key,
};
use mgp_types::method::{Request as _, SubscriptionsAcknowledged, SubscriptionsListen};
use mgp_types::mgp::Extension;
use mgp_types::service::{Call, Context, Reply, Router, Stack};

use crate::audience::{Audience, List, Lists, WATCHED, Watching};
use crate::error::Refusal;
use crate::herald::Watched;

/// The sources of notifications for a stream.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) audience: Audience,
    /// Set if the server offers subscriptions to resources.
    pub(crate) resources: Option<Watched>,
    /// `true` if the server announces changes that MCP defines, so that clients without MGP can listen.
    pub(crate) tells_changes: bool,
}

/// Returns the endpoint that opens a stream; it ends with the server.
pub(crate) fn routes(told: Told, drain: Drain) -> Router {
    let listening = Stack::from_fn(move |call: Call| {
        let (told, drain) = (told.clone(), drain.clone());
        async move {
            let (method, params, cx) = call.into_parts();
            if !told.tells_changes && !cx.caller.has(Extension::Lifecycle) {
                return Err(RpcError::method_not_found(method.as_str()));
            }
            Reply::of(&listen(&told, &drain, cx, params.get()?).await?)
        }
    });
    Router::new().route(SubscriptionsListen::METHOD, listening)
}

async fn listen(
    told: &Told,
    drain: &Drain,
    cx: Context,
    params: ListenParams,
) -> Result<ListenResult, RpcError> {
    let (audience, resources) = (&told.audience, told.resources.as_ref());
    let id = cx.wire_id.as_ref().ok_or_else(|| RpcError::internal("a stream without an id"))?;
    let mut mark = Meta::new();
    mark.encode(key::SUBSCRIPTION_ID, id)?;

    let wanted = params.notifications;
    let lists = Lists::of(&[
        (List::Tools, wanted.tools_list_changed == Some(true)),
        (List::Prompts, wanted.prompts_list_changed == Some(true)),
        (List::Resources, wanted.resources_list_changed == Some(true)),
    ])
    .and(audience.announced());
    let asked = wanted.resource_subscriptions.into_vec();
    if asked.len() > WATCHED {
        return Err(Refusal::TooManyWatched(WATCHED).into());
    }
    let mut watched = Vec::new();
    for uri in asked {
        if let Some(resources) = resources
            && let Some(watching) = resources.begin(&cx, uri).await
        {
            watched.push(watching);
        }
    }
    let agreed = agreed(lists, &watched);
    let listening = audience.listen(&cx, mark.clone(), lists, watched)?;

    let mut acknowledged = SubscriptionsAcknowledgedParams::new(agreed);
    acknowledged.meta = Some(mark);
    let mut out = cx.peer.context(&cx.scope);
    out.principal = cx.principal.clone();
    let call = Call::tell::<SubscriptionsAcknowledged>(&acknowledged, out)?.related(cx.key);
    cx.peer.send(call).await?;

    // The client ends the stream by cancelling or disconnecting; otherwise it ends with the server.
    drain.ended().await;
    drop(listening);
    let mut ended = ListenResult::new();
    ended.result_type = Some(ResultType::Complete);
    ended.meta = acknowledged.meta;
    Ok(ended)
}

/// Returns the part of the request that is granted: only notifications that will be sent.
fn agreed(lists: Lists, watched: &[(String, Watching)]) -> SubscriptionFilter {
    let granted = |list| lists.has(list).then_some(true);
    let mut agreed = SubscriptionFilter::new();
    agreed.tools_list_changed = granted(List::Tools);
    agreed.prompts_list_changed = granted(List::Prompts);
    agreed.resources_list_changed = granted(List::Resources);
    let uris = watched.iter().map(|(_, watching)| watching.uri.clone());
    agreed.resource_subscriptions = uris.collect::<Vec<_>>().into();
    agreed
}
