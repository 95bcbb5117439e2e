//! Connects a client to a pair of streams, a child process, or a URL.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use mgp_lifecycle::{
    CatchPanicLayer, ConnectError, EraChoice, HandshakeState, RequestMetaLayer, connect,
};
use mgp_transport::{Child, ChildCommand, Connection, ConnectionMonitor};
use mgp_types::ErrorCode;
use mgp_types::mcp::{Era, Revision, ServerCapabilities};
use mgp_types::method::{
    EventNotification, LifecycleNotification, ManifestChanged, Notification as _,
    PromptsListChanged, ResourcesListChanged, ResourcesUpdated, SubscriptionsAcknowledged,
    ToolsListChanged,
};
use mgp_types::mgp::Extension;
use mgp_types::service::{AcceptedRequests, Context, Peer, PeerInfo, Reply, Router, Stack};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tower_layer::Layer as _;

use super::{ChildGuard, Client, ClientState};
use crate::cache::ListCache;
use crate::config::ClientConfig;
use crate::error::Error;
use crate::events::EventRoutes;
use crate::handler::{Hooks, ServerChange};
use crate::listening::{ChangeStream, StreamContext, acknowledged};
use crate::permission::answer_permissions;
use crate::presence::Presence;
use crate::wire::{
    CallbackHandler, EofReader, GatewayStacks, HeaderMirrorLayer, InboundParts, Liveness,
    LivenessPeer, OutboundStack, ReceivedCallbacks, Repeats, RequestTimeoutLayer, TaskGuard,
    TimeLimits, inbound, is_question, spawn_connection,
};

/// The time limit for the exit of a killed child.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// The margin added to the time-out of a single request of the handshake, so that the time-out of the whole handshake
/// expires first.
const GRACE_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum time to wait until a server on a byte stream, e.g. on pipes, answers the request that detects its era
/// (the probe). If it does not answer in this time, the client sends `initialize` too.
///
/// It is short, because servers of the Python SDK 1.6 and older do not answer the probe and end at the next message,
/// and a host waits a few seconds for its tools. A modern server that starts slowly reads the probe first.
const PIPE_PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Starts a child and connects to it. If the child ends before it is connected, starts it once more without the request
/// that detects its era (the probe), because many legacy servers end if their first message is not `initialize`.
pub(crate) async fn spawn(
    command: &ChildCommand,
    mut config: ClientConfig,
    gates: impl Fn(OutboundStack) -> Stack,
) -> Result<Client, Error> {
    // Both starts are boxed, so that the caller's future does not contain two copies of a start.
    let started = Box::pin(spawn_once(command, config.clone(), &gates)).await;
    let Err(error) = &started else { return started };
    if config.connect.era != EraChoice::Auto || !ended_early(error) {
        return started;
    }
    tracing::debug!(%error, "server ended at the probe: starting it again in the legacy era");
    config.connect.era = EraChoice::Legacy;
    Box::pin(spawn_once(command, config, &gates)).await
}

/// Returns whether a handshake failed because its connection ended, and not e.g. because the connection could not be
/// recorded.
pub(crate) fn ended_early(error: &Error) -> bool {
    let Error::Connect(ConnectError::Refused(refusal)) = error else { return false };
    refusal.code() == ErrorCode::SERVER_NOT_READY
}

/// Starts a child once, and connects to it.
async fn spawn_once(
    command: &ChildCommand,
    config: ClientConfig,
    gates: impl FnOnce(OutboundStack) -> Stack,
) -> Result<Client, Error> {
    check_server_id(&config)?;
    let mut child = command.spawn()?;
    let Some((reader, writer)) = child.take_io() else {
        return Err(ConnectError::Refused(mgp_types::service::connection_closed("no pipes")).into());
    };
    establish(reader, writer, config, gates, Some(ChildGuard::Own(Arc::new(child)))).await
}

/// Connects over a pair of byte streams; `child` is the server's process if this client started it.
pub(crate) async fn establish<R, W>(
    reader: R,
    writer: W,
    config: ClientConfig,
    gates: impl FnOnce(OutboundStack) -> Stack,
    child: Option<ChildGuard>,
) -> Result<Client, Error>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let mut config = configure_retry(answer_permissions(config));
    config.connect.probe_timeout = config.connect.probe_timeout.min(PIPE_PROBE_TIMEOUT);
    let lists = Arc::new(ListCache::new(&config));
    let (reader, eof) = EofReader::new(reader);
    let connection = Connection::new(reader, writer, inbound_stack(&config, &lists))
        .limits(config.limits.clone())
        .principal(config.principal.clone());
    let connection = match &child {
        Some(guard) => connection.for_child(guard.child().stray_stdout_log()),
        None => connection,
    };
    let (peer, cx, monitor) = (connection.peer(), connection.context(), connection.monitor());
    let own = child.as_ref().map(|guard| Arc::clone(guard.child()));
    let (liveness, driver) = spawn_connection(connection, eof, own);
    let mirror = None;
    let known_era = KnownEra::Unknown;
    let transport =
        Transport { peer, cx, monitor, liveness, driver, child, lists, mirror, known_era };
    // This future is boxed, so that the caller's future does not contain the whole handshake.
    Box::pin(finish_connect(transport, config, gates)).await
}

#[cfg(feature = "http")]
pub(crate) async fn establish_url(
    url: &str,
    config: ClientConfig,
    gates: impl FnOnce(OutboundStack) -> Stack,
) -> Result<Client, Error> {
    let config = configure_retry(answer_permissions(config));
    let endpoint = mgp_transport::http::Endpoint::parse(url)?;
    let known_era =
        KnownEra::Origin { eras: config.http.eras.clone(), origin: endpoint.origin().to_owned() };
    let lists = Arc::new(ListCache::new(&config));
    let connection = mgp_transport::http::HttpConnection::new(
        endpoint,
        inbound_stack(&config, &lists),
        config.principal.clone(),
        config.limits.clone(),
        config.http.clone(),
    )?;
    let (peer, cx, monitor) = (connection.peer(), connection.context(), connection.monitor());
    let (liveness, driver) = crate::wire::spawn_driver(connection.run(), None);
    let mirror = Some(HeaderMirrorLayer::new(config.max_pages, config.timeout));
    let transport =
        Transport { peer, cx, monitor, liveness, driver, child: None, lists, mirror, known_era };
    // This future is boxed, so that the caller's future does not contain the whole handshake.
    Box::pin(finish_connect(transport, config, gates)).await
}

/// Returns whether an error suggests the older HTTP+SSE transport: the server does not accept POST at this URL (400,
/// 404 or 405 in MCP transports). A 400 with a JSON-RPC error is the refusal of a server that accepts POST.
#[cfg(feature = "http")]
pub(crate) fn may_be_http_sse(error: &Error) -> bool {
    use mgp_types::service::HttpFailure;
    let Error::Connect(ConnectError::Refused(refusal)) = error else { return false };
    matches!(
        HttpFailure::from_error(refusal),
        Some(HttpFailure::Status(400 | 404 | 405) | HttpFailure::StatusWithError(404 | 405))
    )
}

/// Connects to a URL over the older HTTP+SSE transport, which belongs to the legacy era.
#[cfg(feature = "http")]
pub(crate) async fn establish_http_sse(
    url: &str,
    mut config: ClientConfig,
    gates: impl FnOnce(OutboundStack) -> Stack,
) -> Result<Client, Error> {
    use mgp_transport::http::{Endpoint, HttpSseError, connect_http_sse};
    let endpoint = Endpoint::parse(url)?;
    let end = match connect_http_sse(endpoint, config.http.clone()).await {
        Ok(end) => end,
        Err(HttpSseError::Config(error)) => return Err(error.into()),
        Err(HttpSseError::Stream(refusal)) => return Err(ConnectError::Refused(refusal).into()),
        Err(error) => {
            let refusal = mgp_types::RpcError::internal(error.to_string());
            return Err(ConnectError::Refused(refusal).into());
        }
    };
    config.connect.era = EraChoice::Legacy;
    establish(end.reader, end.writer, config, gates, None).await
}

/// A connection over any transport, with its driver task already running.
struct Transport {
    peer: Peer,
    cx: Context,
    monitor: ConnectionMonitor,
    liveness: Liveness,
    driver: TaskGuard,
    child: Option<ChildGuard>,
    lists: Arc<ListCache>,
    /// The layer that copies arguments of tool calls into HTTP headers; present for Streamable HTTP only.
    mirror: Option<HeaderMirrorLayer>,
    known_era: KnownEra,
}

impl Transport {
    fn outbound(
        &self,
        config: &mut ClientConfig,
        session: &Arc<HandshakeState>,
        time_limits: TimeLimits,
    ) -> Result<OutboundStack, Error> {
        Ok(OutboundStack::new(
            LivenessPeer::new(self.peer.clone(), self.liveness.clone()),
            &self.cx.scope,
            Repeats::take(config),
            request_meta(config, session)?,
            self.mirror.clone(),
            RequestTimeoutLayer::new(
                time_limits,
                config.hooks.progress.clone(),
                answers_questions(config),
            ),
        ))
    }

    /// Runs the handshake; closes the connection if it fails.
    async fn handshake(
        &self,
        stack: &Stack,
        config: &ClientConfig,
    ) -> Result<Arc<PeerInfo>, Error> {
        let mut cx = self.cx.clone();
        // Limit a request of the handshake by the time limit of the whole handshake, and not by the limit of a call.
        let limit = config.connect.handshake_timeout.saturating_add(GRACE_TIMEOUT);
        cx.extensions.insert(TimeLimits { timeout: limit, max: limit });
        match handshake(stack, &cx, config, &self.known_era).await {
            Ok(facts) => Ok(facts),
            Err(error) => {
                self.peer.close("the handshake failed");
                if let Some(guard) = &self.child {
                    end_child(guard.child(), &error).await;
                }
                Err(connect_error(error, config.connect.era))
            }
        }
    }

    /// Records the connection if the client has an audit sink and a server id; closes the connection if recording
    /// fails.
    async fn record_presence(
        &self,
        config: &ClientConfig,
        facts: &PeerInfo,
    ) -> Result<Option<Presence>, Error> {
        let (Some(sink), Some(server)) = (&config.hooks.audit, &config.server_id) else {
            return Ok(None);
        };
        match Presence::start(sink, server, facts, self.liveness.clone()).await {
            Ok(presence) => Ok(Some(presence)),
            Err(unaudited) => {
                self.peer.close("its connection could not be recorded");
                if let Some(guard) = &self.child {
                    guard.child().shutdown().await;
                }
                Err(Error::Unaudited(unaudited))
            }
        }
    }
}

/// The cache entry that stores the era of a server for its next connection.
enum KnownEra {
    /// The era cannot be stored, because the server has no address.
    Unknown,
    /// The era of a server at a URL is stored under the URL's origin.
    #[cfg(feature = "http")]
    Origin { eras: mgp_transport::http::EraCache, origin: String },
}

impl KnownEra {
    fn was_legacy(&self) -> bool {
        match self {
            Self::Unknown => false,
            #[cfg(feature = "http")]
            Self::Origin { eras, origin } => eras.get(origin) == Some(Era::Legacy),
        }
    }

    fn forget(&self) {
        match self {
            Self::Unknown => {}
            #[cfg(feature = "http")]
            Self::Origin { eras, origin } => eras.remove(origin),
        }
    }

    #[cfg_attr(
        not(feature = "http"),
        expect(unused_variables, reason = "pipes have no address to remember an era by")
    )]
    fn note(&self, era: Era) {
        match self {
            Self::Unknown => {}
            #[cfg(feature = "http")]
            Self::Origin { eras, origin } => eras.insert(origin, era),
        }
    }
}

/// Builds the stacks and runs the handshake; closes the connection if the handshake fails.
async fn finish_connect(
    mut transport: Transport,
    mut config: ClientConfig,
    gates: impl FnOnce(OutboundStack) -> Stack,
) -> Result<Client, Error> {
    check_server_id(&config)?;
    transport.cx.server.clone_from(&config.server_id);
    let session = transport.cx.scope.state::<HandshakeState>();
    let time_limits =
        TimeLimits { timeout: config.timeout, max: config.max_timeout.max(config.timeout) };
    let stack = gates(transport.outbound(&mut config, &session, time_limits)?);
    let facts = transport.handshake(&stack, &config).await?;
    let presence = transport.record_presence(&config, &facts).await?;
    let Transport { peer, cx, monitor, liveness, driver, child, lists, mirror, .. } = transport;
    let permission_updates = follow_permissions(&session, &stack, &cx, &liveness);
    let capabilities: Option<ServerCapabilities> =
        facts.capabilities.as_ref().and_then(|all| all.get().ok());
    let capabilities = capabilities.unwrap_or_default();
    let gateway_stacks = GatewayStacks::of(&config.gateway, &stack);
    cx.scope.state::<ReceivedCallbacks>().send_on(&gateway_stacks.ungated);
    let change_stream = (facts.era == Era::Modern).then(|| {
        let context = StreamContext {
            stack: gateway_stacks.ungated.clone(),
            cx: cx.clone(),
            liveness: liveness.clone(),
            lists: Arc::clone(&lists),
            hooks: config.hooks,
            config: config.listen,
            acknowledge_timeout: config.timeout,
        };
        ChangeStream::new(context, &capabilities, facts.has(Extension::Lifecycle))
    });
    Ok(Client(Arc::new(ClientState {
        change_stream,
        gateway_stacks,
        stack,
        peer,
        cx,
        capabilities,
        facts,
        session,
        monitor,
        liveness,
        lists,
        has_permanent_connection: mirror.is_none(),
        guarded_answers: Stack::new(CatchPanicLayer::new().layer(config.handlers.clone())),
        callbacks: config.callbacks.clone(),
        answers: config.handlers,
        time_limits,
        max_pages: config.max_pages,
        max_rounds: config.max_rounds,
        child,
        presence,
        _permission_updates: permission_updates,
        _driver: driver,
    })))
}

/// Checks that the client has a server id if it has an audit sink, because records name the server by its id.
fn check_server_id(config: &ClientConfig) -> Result<(), ConnectError> {
    if config.hooks.audit.is_some() && config.server_id.is_none() {
        return Err(ConnectError::MissingServerId);
    }
    Ok(())
}

/// Creates the layer that adds the client's members of `_meta` to each request.
fn request_meta(
    config: &ClientConfig,
    session: &Arc<HandshakeState>,
) -> Result<RequestMetaLayer, ConnectError> {
    let layer = RequestMetaLayer::new(Arc::clone(session), &config.offer);
    let layer = layer.map_err(ConnectError::Refused)?.server(config.server_id.clone());
    Ok(if config.plain_traceparent { layer.trace_plain() } else { layer })
}

/// Returns whether the client itself, and not a caller, answers questions of the server.
fn answers_questions(config: &ClientConfig) -> bool {
    matches!(config.callbacks, Some(CallbackHandler::Own(_)))
        || config.handlers.methods().any(is_question)
}

/// Starts a task that notifies the server when its permissions change, if the extension for permissions is active.
fn follow_permissions(
    session: &Arc<HandshakeState>,
    stack: &Stack,
    cx: &Context,
    liveness: &Liveness,
) -> Option<TaskGuard> {
    let flow = session.permissions()?;
    let (stack, cx, liveness) = (stack.clone(), cx.clone(), liveness.clone());
    Some(TaskGuard::spawn(async move {
        select(Box::pin(flow.follow(stack, cx)), Box::pin(liveness.ended())).await;
    }))
}

/// Runs the handshake. If the server was legacy at an earlier connection, tries the legacy era first. If the server
/// refuses that, forgets the stored era, and probes the server for its era.
async fn handshake(
    stack: &Stack,
    cx: &Context,
    config: &ClientConfig,
    known_era: &KnownEra,
) -> Result<Arc<PeerInfo>, ConnectError> {
    let is_free = config.connect.era == EraChoice::Auto;
    if is_free && known_era.was_legacy() {
        let mut known = config.connect.clone();
        known.era = EraChoice::Legacy;
        match connect(stack, cx, &config.offer, &known).await {
            Err(ConnectError::Refused(refusal)) => {
                tracing::debug!(%refusal, "legacy handshake refused; probing the era again");
                known_era.forget();
            }
            outcome => return outcome,
        }
    }
    let facts = connect(stack, cx, &config.offer, &config.connect).await?;
    // If the era was only guessed, because the probe failed or was not answered, the next connection must probe
    // again.
    if is_free && !cx.scope.state::<HandshakeState>().is_guessed() {
        known_era.note(facts.era);
    }
    Ok(facts)
}

fn inbound_stack(config: &ClientConfig, lists: &Arc<ListCache>) -> Stack {
    inbound(InboundParts {
        own: config.handlers.clone(),
        notices: notices(lists, &config.hooks),
        asks: AcceptedRequests::from_capabilities(&config.offer.capabilities),
        unattributed: config.unattributed.clone(),
        server: config.server_id.clone(),
        callbacks: config.callbacks.clone(),
    })
}

/// Ends a child whose handshake failed. Kills a child that did not answer. Asks any other child to exit, and kills it
/// only if it does not exit.
async fn end_child(child: &Child, error: &ConnectError) {
    if matches!(error, ConnectError::TimedOut(_)) {
        child.kill();
        // Wait for the exit, because the caller that receives the error expects that the process group has ended.
        let _ = timeout(KILL_TIMEOUT, child.wait()).await;
    } else {
        child.shutdown().await;
    }
}

/// Converts a failed handshake to the client's error. In the modern era, a server without `server/discover` does not
/// support any modern revision.
fn connect_error(error: ConnectError, era: EraChoice) -> Error {
    match error {
        ConnectError::Refused(refusal)
            if era == EraChoice::Modern && refusal.code() == ErrorCode::METHOD_NOT_FOUND =>
        {
            Error::UnsupportedVersion { requested: Revision::MODERN, supported: Vec::new() }
        }
        other => other.into(),
    }
}

/// Configures the retry layer with the server's id and with what governance knows about its tools.
pub(crate) fn configure_retry(mut config: ClientConfig) -> ClientConfig {
    config.retry = config.retry.map(|retry| {
        let retry = match &config.hooks.known_tools {
            Some(known) => {
                let known = Arc::clone(known);
                retry.tools(move |server, tool| known(server, tool))
            }
            None => retry,
        };
        match &config.server_id {
            Some(id) => retry.server(id.clone()),
            None => retry,
        }
    });
    config
}

/// Creates the client's own notification handlers, which run before the user's handlers.
fn notices(lists: &Arc<ListCache>, hooks: &Hooks) -> Router {
    let note = |what: fn() -> ServerChange| {
        let (lists, hooks) = (Arc::clone(lists), hooks.clone());
        move || {
            let what = what();
            lists.invalidate(&what);
            hooks.notify_change(&what);
            std::future::ready(Ok(()))
        }
    };
    let tools = note(|| ServerChange::Tools);
    let resources = note(|| ServerChange::Resources);
    let prompts = note(|| ServerChange::Prompts);
    let manifest = note(|| ServerChange::Manifest);
    let (hooks, states) = (hooks.clone(), hooks.clone());
    Router::new()
        .on_notification::<ToolsListChanged, _, _>(move |_, _| tools())
        .on_notification::<ResourcesListChanged, _, _>(move |_, _| resources())
        .on_notification::<PromptsListChanged, _, _>(move |_, _| prompts())
        .on_notification::<ManifestChanged, _, _>(move |_, _| manifest())
        .on_notification::<ResourcesUpdated, _, _>(move |_, params| {
            hooks.notify_change(&ServerChange::Resource(params.uri));
            std::future::ready(Ok(()))
        })
        .on_notification::<LifecycleNotification, _, _>(move |_, change| {
            states.notify_state(change);
            std::future::ready(Ok(()))
        })
        .route(
            EventNotification::METHOD,
            Stack::from_fn(|call| {
                call.cx().scope.state::<EventRoutes>().deliver(call.params());
                std::future::ready(Ok(Reply::None))
            }),
        )
        .on_notification::<SubscriptionsAcknowledged, _, _>(|cx, params| {
            acknowledged(&cx, params);
            std::future::ready(Ok(()))
        })
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use mgp_types::RpcError;
    use mgp_types::service::HttpFailure;

    use super::*;

    #[test]
    fn only_the_refusal_of_post_suggests_the_older_transport() {
        let suggests = |failure: HttpFailure| {
            let refusal = RpcError::new(ErrorCode::UPSTREAM_ERROR, "no").because(failure);
            may_be_http_sse(&Error::Connect(ConnectError::Refused(refusal)))
        };
        for status in [400, 404, 405] {
            assert!(suggests(HttpFailure::Status(status)), "{status}");
        }
        for status in [404, 405] {
            assert!(suggests(HttpFailure::StatusWithError(status)), "{status}");
        }
        for status in [401, 403, 500] {
            assert!(!suggests(HttpFailure::Status(status)), "{status}");
            assert!(!suggests(HttpFailure::StatusWithError(status)), "{status}");
        }
        assert!(!suggests(HttpFailure::StatusWithError(400)), "the server accepts POST");
        assert!(!suggests(HttpFailure::Unreachable));
        assert!(!suggests(HttpFailure::ConnectionLost));
        let timed_out = Error::Connect(ConnectError::TimedOut(KILL_TIMEOUT));
        assert!(!may_be_http_sse(&timed_out));
    }
}
