//! Requests a subscription and, in the modern era, keeps the stream of events open.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mgp_types::mcp::{Era, ListenParams, SubscriptionFilter};
use mgp_types::method::{EventsSubscribe, EventsUnsubscribe, Request, SubscriptionsListen};
use mgp_types::mgp::{EventParams, SubscribeEventsParams};
use mgp_types::service::{Call, Context, Method, Params, SessionReplay, SessionReplayFn, Stack};
use mgp_types::{Backoff, ErrorCode, Id, Payload, RpcError};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::routes::{EventRoutes, EventSink, ServerEvent};
use crate::client::Client;
use crate::listening::AcknowledgeSender;
use crate::wire::TaskGuard;

/// The first delay before a stream that ended is opened again; each further delay is twice as long.
const RETRY_DELAY: Duration = Duration::from_millis(250);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// The maximum time to wait, after a request to subscribe was answered, until the server has opened the stream.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A subscription at a server. It ends when this value is dropped, unless it is [kept](Self::keep), or another
/// subscription of the connection with the same id remains.
pub(crate) struct EventSubscription {
    pub(crate) id: Id,
    pub(crate) subscribed: Vec<String>,
    pub(crate) unsupported: Vec<String>,
    /// `true` if the server has dropped some of the events after the client's resume position.
    pub(crate) truncated: bool,
    pub(crate) received: Arc<Received>,
    routes: Arc<EventRoutes>,
    stack: Stack,
    cx: Context,
    is_kept: bool,
    /// The number of the receiver of the events.
    receiver: u64,
    /// `true` if an earlier subscription of this connection has the same id.
    pub(crate) is_repeated: bool,
    /// The function that subscribes again if the legacy session is lost; the transport calls it.
    replay: Option<Arc<SessionReplayFn>>,
    /// The task that keeps the stream of the modern era open.
    stream: Option<TaskGuard>,
}

mgp_types::opaque_debug!(EventSubscription { id });

/// The state of receiving the events of a subscription.
#[derive(Default)]
pub(crate) struct Received {
    /// The highest sequence number of a received event.
    pub(crate) seq: AtomicU64,
    /// `true` if the last event was received, or the server has ended the subscription.
    pub(crate) is_over: AtomicBool,
}

/// The answer to a request to subscribe; the id may be a string or a number.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    subscribed: Vec<String>,
    #[serde(default)]
    unsupported: Vec<String>,
    subscription_id: Id,
    #[serde(default)]
    truncated: Option<bool>,
}

#[derive(Serialize)]
struct Named<'a> {
    subscription_id: &'a Id,
}

/// Requests a subscription over a stack of a client. `sink` is called with each event of the subscription, and
/// `unnamed` with each event that does not name its subscription. With `unnamed`, `sink` is a hook: it is not called
/// while an earlier hook of the connection has the same id.
pub(crate) async fn open(
    client: &Client,
    stack: &Stack,
    params: &SubscribeEventsParams,
    sink: EventSink,
    unnamed: Option<EventSink>,
) -> Result<EventSubscription, RpcError> {
    let cx = client.context();
    let routes = cx.scope.state::<EventRoutes>();
    let is_hook = unnamed.is_some();
    if let Some(unnamed) = unnamed {
        routes.set_unnamed(unnamed);
    }
    let received = Arc::new(Received::default());
    received.seq.store(params.after_seq.unwrap_or(0), Ordering::Relaxed);
    let known_id = Arc::new(OnceLock::new());
    let replay = session_replay(params, &known_id, &received);
    let requested = routes.request();
    let mut call = Call::ask::<EventsSubscribe>(params, cx.clone())?;
    call.cx_mut().extensions.insert(SessionReplay::new(&replay));
    let answer: Answer = stack.send(call).await?.get()?;
    let id = answer.subscription_id;
    let _ = known_id.set(id.clone());
    let sink = counted(sink, Arc::clone(&received));
    let (receiver, has_same) = requested.answered(id.clone(), &sink, is_hook);
    let (acknowledge, acknowledged) = AcknowledgeSender::new();
    let stream = (client.server().era == Era::Modern).then(|| {
        let (stack, cx) = (stack.clone(), cx.clone());
        let (id, received, routes) = (id.clone(), Arc::clone(&received), Arc::clone(&routes));
        let (liveness, params) = (client.liveness().clone(), params.clone());
        TaskGuard::spawn(async move {
            tokio::select! {
                () = keep_open(stack, cx, &id, &received, &params, acknowledge) => {}
                () = liveness.ended() => {}
            }
            routes.remove(&id, receiver);
        })
    });
    let subscription = EventSubscription {
        id,
        subscribed: answer.subscribed,
        unsupported: answer.unsupported,
        truncated: answer.truncated == Some(true),
        received,
        routes,
        stack: stack.clone(),
        cx,
        is_kept: params.durable == Some(true) || params.subscription_id.is_some(),
        receiver,
        is_repeated: has_same && params.subscription_id.is_none(),
        replay: Some(replay),
        stream,
    };
    if subscription.stream.is_some() {
        // Wait until the stream is open: otherwise, the events of the caller's next call could arrive after the answer
        // to that call. If the stream cannot be opened now, `keep_open` opens it later.
        let _ = tokio::time::timeout(OPEN_TIMEOUT, acknowledged).await;
    }
    Ok(subscription)
}

/// Returns a function that passes each event on to `sink`, and then records that the event was received.
fn counted(sink: EventSink, received: Arc<Received>) -> EventSink {
    Arc::new(move |event: ServerEvent| {
        let (seq, is_last) = (event.seq.unwrap_or(0), event.channel == EventParams::TERMINATED);
        sink(event);
        received.seq.fetch_max(seq, Ordering::AcqRel);
        received.is_over.fetch_or(is_last, Ordering::AcqRel);
    })
}

/// Returns the function that subscribes again in a new legacy session, once the id of the subscription is known.
fn session_replay(
    params: &SubscribeEventsParams,
    id: &Arc<OnceLock<Id>>,
    received: &Arc<Received>,
) -> Arc<SessionReplayFn> {
    let (params, id, received) = (params.clone(), Arc::clone(id), Arc::clone(received));
    let end = end_of(&params);
    Arc::new(move || {
        let again = continued(&params, id.get()?, &received, end)?;
        Params::of(EventsSubscribe::METHOD, &again).ok()
    })
}

/// Returns the end of the lifetime of a subscription that is requested now; `None` if the lifetime is not limited.
fn end_of(params: &SubscribeEventsParams) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_secs(params.ttl_seconds?))
}

/// Returns the params that request a lost subscription again under its id, for the remaining time of its lifetime;
/// `None` if its lifetime is limited and over. Logs a warning, because events after the loss are missing.
fn continued(
    params: &SubscribeEventsParams,
    id: &Id,
    received: &Received,
    end: Option<Instant>,
) -> Option<SubscribeEventsParams> {
    let mut params = params.clone();
    if let Some(end) = end {
        if received.is_over.load(Ordering::Acquire) {
            return None;
        }
        params.ttl_seconds = Some(end.saturating_duration_since(Instant::now()).as_secs().max(1));
    }
    tracing::warn!(subscription = %id, "subscription to events lost: subscribing again");
    params.subscription_id = Some(id.to_string());
    params.after_seq = Some(received.seq.load(Ordering::Relaxed));
    Some(params)
}

/// Opens the stream of a subscription, and opens it again whenever it ends. If the server has lost the subscription,
/// requests it again. Returns if the server refuses that, or does not know the method. `acknowledge` receives the
/// acknowledgement of the first stream.
async fn keep_open(
    stack: Stack,
    cx: Context,
    id: &Id,
    received: &Received,
    params: &SubscribeEventsParams,
    acknowledge: AcknowledgeSender,
) {
    let mut acknowledge = Some(acknowledge);
    let (mut is_new, end) = (false, end_of(params));
    let mut backoff = Backoff::new(RETRY_DELAY, MAX_RETRY_DELAY);
    loop {
        let began = Instant::now();
        let mut own = renewed(&cx);
        if let Some(acknowledge) = acknowledge.take() {
            own.extensions.insert(acknowledge);
        }
        let mut ended = listen(&stack, own, id, received.seq.load(Ordering::Relaxed)).await;
        let is_lost = matches!(&ended, Err(error) if error.code() == ErrorCode::INVALID_PARAMS);
        if !std::mem::take(&mut is_new) && is_lost {
            let Some(again) = continued(params, id, received, end) else { return };
            ended = subscribe_again(&stack, renewed(&cx), &again).await;
            is_new = ended.is_ok();
            if is_new {
                continue;
            }
        }
        if let Err(error) = &ended
            && matches!(error.code(), ErrorCode::INVALID_PARAMS | ErrorCode::METHOD_NOT_FOUND)
        {
            return tracing::debug!(%error, "subscription to events ended");
        }
        if began.elapsed() > MAX_RETRY_DELAY {
            backoff.reset();
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

/// Requests a lost subscription again; fails if the server gives it another id.
async fn subscribe_again(
    stack: &Stack,
    cx: Context,
    params: &SubscribeEventsParams,
) -> Result<(), RpcError> {
    let call = Call::ask::<EventsSubscribe>(params, cx)?;
    let answer: Answer = stack.send(call).await?.get()?;
    if Some(answer.subscription_id.to_string()) == params.subscription_id {
        return Ok(());
    }
    Err(RpcError::invalid_params("the server gave the subscription another id"))
}

async fn listen(stack: &Stack, cx: Context, id: &Id, after: u64) -> Result<(), RpcError> {
    #[derive(Serialize)]
    struct Attachment<'a> {
        subscription_id: &'a Id,
        after_seq: u64,
    }
    #[derive(Serialize)]
    struct Extension<'a> {
        events: [Attachment<'a>; 1],
    }
    let params = ListenParams::new(SubscriptionFilter::new());
    let mut call = Call::ask::<SubscriptionsListen>(&params, cx)?;
    let events = [Attachment { subscription_id: id, after_seq: after }];
    call.hop_mut().mgp = Some(Payload::of(&Extension { events })?);
    stack.send(call).await.map(drop)
}

fn renewed(cx: &Context) -> Context {
    let mut cx = cx.clone();
    cx.key = mgp_types::service::CallKey::next();
    cx
}

impl EventSubscription {
    /// Makes the subscription remain active at the server when this value is dropped.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Releases everything that belongs to the subscription, because the server has ended it.
    pub(crate) fn finish(&mut self) {
        self.is_kept = true;
        self.received.is_over.store(true, Ordering::Release);
        self.routes.remove(&self.id, self.receiver);
        drop((self.replay.take(), self.stream.take()));
    }

    /// Returns a future that ends the subscription at the server.
    pub(crate) fn unsubscribe(&mut self) -> impl Future<Output = Result<(), RpcError>> + use<> {
        self.is_kept = true;
        self.routes.remove(&self.id, self.receiver);
        let (stack, cx) = (self.stack.clone(), renewed(&self.cx));
        let params = Payload::of(&Named { subscription_id: &self.id });
        async move {
            let method = Method::from_static(EventsUnsubscribe::METHOD);
            let params = Params::split(EventsUnsubscribe::METHOD, params?.as_shared().clone())?;
            stack.send(Call::request(method, params, cx)).await.map(drop)
        }
    }
}

impl Drop for EventSubscription {
    fn drop(&mut self) {
        let is_last = self.routes.remove(&self.id, self.receiver);
        if !is_last || self.is_kept || self.cx.peer.is_closed() {
            return;
        }
        let ending = self.unsubscribe();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = ending.await;
            });
        }
    }
}
