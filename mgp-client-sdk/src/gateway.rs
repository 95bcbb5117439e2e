//! Functions for a gateway: a program that forwards the calls of its own clients to servers.
//!
//! - [`supervise`] starts a server whose command or address is resolved again at each start.
//! - [`ungated`] and [`ungated_supervised`] return stacks without the layers that check and record calls.
//! - [`pass_callbacks`] passes each callback of a server to the caller of the call to which it belongs.
//! - [`ask_unattributed`] finds the caller to ask when a server sends a request outside of any call.
//! - [`AuthorizationFailed`] is the cause of the error if no credentials could be obtained for a start or a call.
//! - [`limit_time`] gives a call its own time limits.
//! - [`AwaitLegacyTask`] makes a [`Hop`](crate::Hop) wait for the task of a legacy server; [`await_tasks`] waits for
//!   tasks inside a layer, and [`awaits_task`] finds the calls for which it would.
//! - [`on_connection`] prepares a connection before calls are made on it, e.g. subscribes to its events.
//! - [`share_probe_failure`] shares whether a program fails at the request that detects its era (the probe).
//! - [`WeakClient`] distinguishes two connections to one server without keeping either alive.
//!
//! The kernel is built on these functions; clients of a single server do not need them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mgp_lifecycle::SuperviseConfig;
use mgp_stream::CallbackAnswer;
use mgp_types::RpcError;
use mgp_types::method::EventsChannels;
use mgp_types::mgp::{CallbackRequestParams, EventChannelsParams, SubscribeEventsParams};
use mgp_types::service::{BoxFuture, Call, Context, SpawnError, Stack};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::builder::ClientBuilder;
use crate::client::Client;
pub use crate::client::WeakClient;
use crate::error::Error;
use crate::events::{EventSink, ServerEvent, open};
use crate::supervised::SupervisedClient;
pub use crate::supervised::{AuthorizationFailed, HttpTransport, ServerTarget};
pub use crate::tool_router::{AwaitLegacyTask, await_tasks, awaits_task};
use crate::wire::{CallbackHandler, CallerAnswers, FindCaller, TimeLimits};

/// The maximum time to wait for the list of a server's channels.
const LIST_TIMEOUT: Duration = Duration::from_secs(1);

/// Creates a supervised client that determines its target again at each start.
///
/// # Errors
/// See [`ClientBuilder::supervise`].
///
/// # Panics
/// If called outside a tokio runtime.
pub fn supervise<F>(
    builder: ClientBuilder,
    resolve: F,
    config: SuperviseConfig,
) -> Result<SupervisedClient, Error>
where
    F: Fn() -> BoxFuture<'static, Result<ServerTarget, SpawnError>> + Send + Sync + 'static,
{
    SupervisedClient::new(builder, Arc::new(resolve), config)
}

/// A flag that is set if a program fails at the request that detects its era (the probe). While it is set, the program
/// is started in the legacy era, without that request. All clones share the value.
#[derive(Clone, Debug, Default)]
pub struct FailsAtProbe(Arc<AtomicBool>);

impl FailsAtProbe {
    /// Returns whether the next start sends no probe.
    #[must_use]
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Sets whether the next start sends no probe.
    pub fn set(&self, fails: bool) {
        self.0.store(fails, Ordering::Release);
    }
}

/// Makes the client use a given flag, so that several clients of one program share it, or the caller can store its
/// value for later runs.
///
/// If a start sends no probe only because of the flag, and then fails or takes too long, another start follows that
/// sends the probe.
pub fn share_probe_failure(builder: ClientBuilder, known: FailsAtProbe) -> ClientBuilder {
    builder.config(|config| config.fails_at_probe = known)
}

/// Sets the function that finds the caller to ask when a server sends a request that belongs to no call. `find`
/// receives the request's method.
///
/// Without such a function, or if `find` returns `None`, the client refuses the request.
pub fn ask_unattributed(
    builder: ClientBuilder,
    find: impl Fn(&str) -> Option<Context> + Send + Sync + 'static,
) -> ClientBuilder {
    builder.config(|config| config.unattributed = Some(FindCaller::new(find)))
}

/// Forwards each callback of the server to the caller whose call it belongs to (MGP §13.4).
///
/// `otherwise` answers in place of a caller that supports neither callbacks nor elicitation. `unanswered` is called
/// with each question that timed out.
pub fn pass_callbacks<Fut>(
    builder: ClientBuilder,
    otherwise: impl Fn(Context, CallbackRequestParams) -> Fut + Send + Sync + 'static,
    unanswered: impl Fn(&Context, &CallbackRequestParams) + Send + Sync + 'static,
) -> ClientBuilder
where
    Fut: Future<Output = Result<CallbackAnswer, RpcError>> + Send + 'static,
{
    builder.callbacks(CallbackHandler::Caller(Arc::new(CallerAnswers {
        otherwise: Box::new(move |cx, question| Box::pin(otherwise(cx, question))),
        unanswered: Box::new(unanswered),
    })))
}

/// Returns the stack of a supervised connection without its gates, i.e. without the layers that check and record
/// calls. For any other connection, returns its usual stack.
///
/// Without gates, calls are neither checked nor recorded. So use the stack only for the gateway's own requests, never
/// for the calls of a caller.
#[must_use]
pub fn ungated(client: &Client) -> &Stack {
    client.ungated()
}

/// Returns the stack of a supervised server without its gates; see [`ungated`].
#[must_use]
pub fn ungated_supervised(client: &SupervisedClient) -> &Stack {
    client.ungated()
}

/// Sets the time limits of a call, in place of the client's.
///
/// `timeout` is the longest time without progress, `max` the longest time in total. Time during which a
/// question of the server to the caller is open does not count.
pub fn limit_time(call: &mut Call, timeout: Duration, max: Duration) {
    call.cx_mut().extensions.insert(TimeLimits { timeout, max });
}

/// Returns a handle that does not keep the client alive.
#[must_use]
pub fn weak(client: &Client) -> WeakClient {
    client.weak()
}

/// Returns the count of events that were missed directly before the event with the sequence number `seq`, and stores
/// `seq`.
fn missed(last: &AtomicU64, seq: Option<u64>) -> u64 {
    let Some(seq) = seq else { return 0 };
    let before = last.fetch_max(seq, Ordering::Relaxed);
    seq.saturating_sub(before).saturating_sub(1)
}

/// The gateway's function that prepares each new connection of a supervised server.
#[derive(Clone)]
pub(crate) struct OnConnection(Arc<Prepare>);

type Prepare = dyn Fn(NewConnection) -> BoxFuture<'static, ()> + Send + Sync;

impl OnConnection {
    pub(crate) fn prepare(&self, client: Client, stack: Stack) -> BoxFuture<'static, ()> {
        (self.0)(NewConnection { client, stack })
    }
}

mgp_types::opaque_debug!(OnConnection);

/// Sets the function that prepares each connection of a supervised server. Other calls on the connection wait until the
/// future of the function has completed, but at most two seconds.
pub fn on_connection<Fut>(
    builder: ClientBuilder,
    prepare: impl Fn(NewConnection) -> Fut + Send + Sync + 'static,
) -> ClientBuilder
where
    Fut: Future<Output = ()> + Send + 'static,
{
    let prepare: Arc<Prepare> = Arc::new(move |connection| Box::pin(prepare(connection)));
    builder.config(|config| config.on_connection = Some(OnConnection(prepare)))
}

/// A connection to a supervised server, which [`on_connection`] prepares before other calls are made on it.
pub struct NewConnection {
    client: Client,
    /// The stack that sends calls on this connection even before the server counts as ready.
    stack: Stack,
}

mgp_types::opaque_debug!(NewConnection);

/// A handle that does not keep a connection open.
#[derive(Clone)]
pub struct WeakConnection {
    client: WeakClient,
    stack: Stack,
}

mgp_types::opaque_debug!(WeakConnection);

impl WeakConnection {
    /// Returns the connection, or `None` if it has ended.
    #[must_use]
    pub fn upgrade(&self) -> Option<NewConnection> {
        let client = self.client.upgrade().filter(|client| !client.is_closed())?;
        Some(NewConnection { client, stack: self.stack.clone() })
    }
}

impl NewConnection {
    /// Returns the client of the connection.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns a handle that does not keep the connection open.
    #[must_use]
    pub fn downgrade(&self) -> WeakConnection {
        WeakConnection { client: self.client.weak(), stack: self.stack.clone() }
    }

    /// Returns whether the server accepts patterns such as `*` in requests to subscribe. MGP does not define patterns,
    /// so this method requests the list of channels: servers that can list their channels also accept patterns. A
    /// server that does not answer in time counts as accepting patterns.
    async fn accepts_patterns(&self) -> bool {
        let call = Call::ask::<EventsChannels>(&EventChannelsParams::new(), self.client.context());
        match call {
            Ok(call) => !matches!(timeout(LIST_TIMEOUT, self.stack.send(call)).await, Ok(Err(_))),
            Err(_) => false,
        }
    }

    /// Subscribes to channels of the server until the connection ends or the returned value is dropped. A channel can
    /// be a pattern if the server accepts patterns. Returns `None` if the server has none of the channels and accepts
    /// no pattern among them; it then sends no events.
    ///
    /// The first `hook` of a connection also receives events that name no subscription. If the server gives several
    /// subscriptions one id, only the first of their hooks is called. A hook runs on the connection's task, in the
    /// order of arrival and before the answers that follow, and must not block. [`ServerEvent::dropped`] counts what
    /// the server dropped and what was lost on the way. The request passes no gates; see [`ungated`].
    ///
    /// # Errors
    /// See [`Client::request`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the subscription may remain until the connection ends.
    pub async fn forward_events(
        &self,
        channels: Vec<String>,
        hook: impl Fn(ServerEvent) + Send + Sync + 'static,
    ) -> Result<Option<ForwardedEvents>, Error> {
        let last = AtomicU64::new(0);
        let sink: EventSink = Arc::new(move |mut event: ServerEvent| {
            event.dropped = event.dropped.max(missed(&last, event.seq));
            hook(event);
        });
        let has_pattern = channels.iter().any(|channel| channel.contains('*'));
        let params = SubscribeEventsParams::new(channels);
        let unnamed = Some(Arc::clone(&sink));
        let mut subscription = open(&self.client, &self.stack, &params, sink, unnamed).await?;
        if subscription.subscribed.is_empty() && !(has_pattern && self.accepts_patterns().await) {
            if has_pattern {
                // Do not unsubscribe: some servers give all subscriptions of a connection one id, so the request could
                // end the next subscription.
                subscription.keep();
            }
            return Ok(None);
        }
        let (end, ended) = oneshot::channel();
        let channels = subscription.subscribed.clone();
        let forwarded =
            ForwardedEvents { channels, shares_id: subscription.is_repeated, _end: end };
        let liveness = self.client.liveness().clone();
        tokio::spawn(async move {
            tokio::select! {
                // Do not unsubscribe, because the subscription has ended with the connection.
                () = liveness.ended() => subscription.keep(),
                _ = ended => {}
            }
        });
        Ok(Some(forwarded))
    }
}

/// A subscription whose events [`NewConnection::forward_events`] forwards; dropping it ends the subscription.
#[derive(Debug)]
#[must_use = "dropping it ends the subscription"]
pub struct ForwardedEvents {
    channels: Vec<String>,
    shares_id: bool,
    /// Dropping it makes the task that holds the subscription end.
    _end: oneshot::Sender<()>,
}

impl ForwardedEvents {
    /// Returns the channels that the server has.
    #[must_use]
    pub fn channels(&self) -> &[String] {
        &self.channels
    }

    /// Returns whether the server gave the subscription the id of an earlier one of the connection. Such subscriptions
    /// end at the server together, when the last of them is dropped.
    #[must_use]
    pub fn shares_id(&self) -> bool {
        self.shares_id
    }
}
