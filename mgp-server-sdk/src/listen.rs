//! The stream of notifications a modern client opens (MCP `subscriptions/listen`).
//!
//! It lives as long as its request: who cancels the request, or leaves, is told nothing more.
//!
//! Applies to: inbound.

use mgp_types::RpcError;
use mgp_types::mcp::{
    ListenParams, ListenResult, Meta, SubscriptionFilter, SubscriptionsAcknowledgedParams, key,
};
use mgp_types::method::{SubscriptionsAcknowledged, SubscriptionsListen};
use mgp_types::service::{Call, Context, Router};

use crate::audience::{Audience, List, Lists};
use crate::resource::Resources;

/// Answers what opens a stream; resources are watched where the server offers that.
pub(crate) fn routes(audience: Audience, watched: Option<Resources>) -> Router {
    Router::new().on::<SubscriptionsListen, _, _>(move |cx, params| {
        let (audience, watched) = (audience.clone(), watched.clone());
        async move { listen(&audience, watched.as_ref(), cx, params).await }
    })
}

async fn listen(
    audience: &Audience,
    resources: Option<&Resources>,
    cx: Context,
    params: ListenParams,
) -> Result<ListenResult, RpcError> {
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
    let mut watched = wanted.resource_subscriptions.into_vec();
    watched.retain(|uri| resources.is_some_and(|resources| resources.knows(uri)));
    let agreed = agreed(lists, &watched);
    let listening = audience.listen(&cx, mark.clone(), lists, watched)?;

    let mut acknowledged = SubscriptionsAcknowledgedParams::new(agreed);
    acknowledged.meta = Some(mark);
    let mut out = cx.peer.context(&cx.scope);
    out.principal = cx.principal.clone();
    let call = Call::tell::<SubscriptionsAcknowledged>(&acknowledged, out)?.related(cx.key);
    cx.peer.send(call).await?;

    // Only whoever opened it ends it: by cancelling, or by leaving.
    let () = std::future::pending().await;
    drop(listening);
    Ok(ListenResult::new())
}

/// What of the wish is granted: nothing is promised that is never told.
fn agreed(lists: Lists, watched: &[String]) -> SubscriptionFilter {
    let granted = |list| lists.has(list).then_some(true);
    let mut agreed = SubscriptionFilter::new();
    agreed.tools_list_changed = granted(List::Tools);
    agreed.prompts_list_changed = granted(List::Prompts);
    agreed.resources_list_changed = granted(List::Resources);
    agreed.resource_subscriptions = watched.to_vec().into();
    agreed
}
