//! The stream of notifications that a modern client opens (MCP `subscriptions/listen`).
//!
//! The stream lasts as long as its request: after a cancellation or a disconnect, nothing more is sent. A server that
//! shuts down completes the request; before, it notifies clients that negotiated `lifecycle`.

use std::time::Duration;

use mgp_lifecycle::Drain;
use mgp_stream::EventHub;
use mgp_types::mcp::{
    ListenParams, ListenResult, Meta, ResultType, SubscriptionFilter,
    SubscriptionsAcknowledgedParams, key,
};
use mgp_types::method::{Request as _, SubscriptionsAcknowledged, SubscriptionsListen};
use mgp_types::mgp::{Extension, ListenExtension};
use mgp_types::service::{Call, Context, Params, Reply, Router, Stack};
use mgp_types::{Payload, RpcError};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::change_notifier::ResourceWatcher;
use crate::error::Refusal;
use crate::subscribers::{ListKind, ListSet, MAX_WATCHED, StreamGuard, Subscribers};

/// The maximum time for which the acknowledgement of a stream waits for the subscriptions to its resources.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct ListenSources {
    pub(crate) subscribers: Subscribers,
    /// The handler of subscriptions to resources; set if the server offers them.
    pub(crate) resources: Option<ResourceWatcher>,
    /// `true` if the server announces changes of lists or resources, which MCP defines. Then clients without MGP can
    /// open a stream too.
    pub(crate) announces_changes: bool,
    /// The hub of the server's events; set if the server offers events.
    pub(crate) events: Option<EventHub>,
}

/// Returns the endpoint that opens a stream of notifications. The stream ends when the client ends it, or when the
/// server has drained.
pub(crate) fn routes(sources: ListenSources, drain: Drain) -> Router {
    let listening = Stack::from_fn(move |call: Call| {
        let (sources, drain) = (sources.clone(), drain.clone());
        async move {
            let (method, params, cx) = call.into_parts();
            let has_mgp = cx.caller.has(Extension::Lifecycle) || cx.caller.has(Extension::Events);
            if !sources.announces_changes && !has_mgp {
                return Err(RpcError::method_not_found(method.as_str()));
            }
            Reply::of(&listen(&sources, &drain, cx, &params).await?)
        }
    });
    Router::new().route(SubscriptionsListen::METHOD, listening)
}

async fn listen(
    sources: &ListenSources,
    drain: &Drain,
    cx: Context,
    params: &Params,
) -> Result<ListenResult, RpcError> {
    let (subscribers, resources) = (&sources.subscribers, sources.resources.as_ref());
    let id = cx.wire_id.as_ref().ok_or_else(|| RpcError::internal("a stream without an id"))?;
    let mut meta = Meta::new();
    meta.encode(key::SUBSCRIPTION_ID, id)?;

    let extension = params.mgp().map(|mgp| mgp.get::<ListenExtension>()).transpose()?;
    let attachments = extension.map(|extension| extension.events.into_vec()).unwrap_or_default();
    let wanted = params.get::<ListenParams>()?.notifications;
    let lists = ListSet::of(&[
        (ListKind::Tools, wanted.tools_list_changed == Some(true)),
        (ListKind::Prompts, wanted.prompts_list_changed == Some(true)),
        (ListKind::Resources, wanted.resources_list_changed == Some(true)),
    ])
    .intersection(subscribers.announced());
    let uris = wanted.resource_subscriptions.into_vec();
    if uris.len() > MAX_WATCHED {
        return Err(Refusal::TooManyWatched(MAX_WATCHED).into());
    }
    // Add the stream to the table now: changes that happen while it waits for its subscriptions are recorded, and sent
    // after the acknowledgement.
    let listening = subscribers.listen(&cx, meta.clone(), lists)?;
    let watched = match resources {
        Some(resources) => subscribe(resources, &cx, uris, &listening).await,
        None => Vec::new(),
    };

    // Attach the event subscriptions before the client knows that the stream is open. Then the answer to its next call
    // already waits for the events of that call. The events are sent only after the acknowledgement, which must be the
    // first message of the stream.
    let events = sources.events.as_ref().filter(|_| cx.caller.has(Extension::Events));
    let attached =
        events.map(|events| events.attach(&cx, &Payload::of(id)?, &attachments)).transpose()?;
    let mut acknowledged = SubscriptionsAcknowledgedParams::new(accepted(lists, watched));
    acknowledged.meta = Some(meta);
    let mut out = cx.peer.context(&cx.scope);
    out.principal = cx.principal.clone();
    let call = Call::tell::<SubscriptionsAcknowledged>(&acknowledged, out)?.related(cx.key);
    cx.peer.send(call).await?;
    listening.open();
    if let Some(attached) = &attached {
        attached.start();
    }

    // The client ends the stream by cancelling or disconnecting; otherwise it ends with the server.
    drain.wait_ended().await;
    drop((listening, attached));
    let mut ended = ListenResult::new();
    ended.result_type = Some(ResultType::Complete);
    ended.meta = acknowledged.meta;
    Ok(ended)
}

/// Subscribes a stream to resources, all at the same time. Returns the URIs of the successful subscriptions, in the
/// order of the request. Leaves out subscriptions that fail or take too long, so that a slow subscription, e.g. to a
/// resource that is stored elsewhere, does not delay the stream.
async fn subscribe(
    resources: &ResourceWatcher,
    cx: &Context,
    uris: Vec<String>,
    listening: &StreamGuard,
) -> Vec<String> {
    let deadline = Instant::now() + SUBSCRIBE_TIMEOUT;
    let mut subscribing = JoinSet::new();
    for (index, uri) in uris.into_iter().enumerate() {
        let (resources, cx) = (resources.clone(), cx.clone());
        subscribing.spawn(async move { (index, resources.subscribe(&cx, uri).await) });
    }
    let mut watched = Vec::new();
    while let Ok(Some(subscribed)) = timeout_at(deadline, subscribing.join_next()).await {
        match subscribed {
            Ok((index, Some((name, watching)))) => {
                let uri = watching.uri.clone();
                if listening.watch(name, watching) {
                    watched.push((index, uri));
                }
            }
            Ok((_, None)) => {}
            Err(error) => tracing::error!(%error, "resource subscription panicked"),
        }
    }
    if !subscribing.is_empty() {
        let missing = subscribing.len();
        tracing::warn!(missing, "resource subscriptions timed out; the stream begins without them");
    }
    watched.sort_unstable_by_key(|(index, _)| *index);
    watched.into_iter().map(|(_, uri)| uri).collect()
}

/// Returns the part of the requested filter that the server accepts, i.e. the notifications that it can send.
fn accepted(lists: ListSet, watched: Vec<String>) -> SubscriptionFilter {
    let granted = |list| lists.has(list).then_some(true);
    let mut accepted = SubscriptionFilter::new();
    accepted.tools_list_changed = granted(ListKind::Tools);
    accepted.prompts_list_changed = granted(ListKind::Prompts);
    accepted.resources_list_changed = granted(ListKind::Resources);
    accepted.resource_subscriptions = watched.into();
    accepted
}
