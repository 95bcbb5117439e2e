//! Starts, connects, drains and stops one run of a supervised server (MGP §11.4, §11.5).

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
#[cfg(feature = "http")]
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use mgp_lifecycle::{ConnectError, EraChoice};
use mgp_transport::{Child, ChildCommand, ChildError, ChildReader, ChildWriter, DuplexEnd, Keeper};
use mgp_types::mgp::{Extension, ShutdownParams, ShutdownReason};
use mgp_types::service::{BoxFuture, Exit, Spawn, SpawnError, Spawned, connection_closed};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, opaque_debug};
use tokio::sync::watch;
#[cfg(feature = "http")]
use tokio::time::sleep;
use tokio::time::{Instant, timeout, timeout_at};

use super::announced_stop::AnnouncedStop;
use super::drain_time::DrainTime;
use super::persistent_stack::{ActiveConnection, PersistentStack};
use super::record::{Recorder, StartAttempt};
use super::start_failure::{exit, failure_cause, is_permanent, refusal_text, spawn_failure};
use crate::client::{self, ChildGuard, Client};
use crate::config::ClientConfig;
use crate::error::Error;
use crate::handler::ServerChange;

/// The time for a child to exit by itself after its connection has ended.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// The time to wait for the handshake's error after the child exited during the handshake.
const HANDSHAKE_ERROR_TIMEOUT: Duration = Duration::from_millis(500);
/// The interval between attempts to connect to a server at a URL that does not answer.
#[cfg(feature = "http")]
const ATTEMPT_INTERVAL: Duration = Duration::from_secs(6);
/// The maximum number of parallel attempts to connect to a server at a URL.
#[cfg(feature = "http")]
const MAX_ATTEMPTS: usize = 5;
/// The maximum time that calls on a new connection wait while a gateway prepares the connection.
const PREPARATION_TIMEOUT: Duration = Duration::from_secs(2);
/// The time limit for the server's answer to `mgp/lifecycle/shutdown`.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The connections of all attempts of one start.
type Connections = Mutex<Vec<Arc<ActiveConnection>>>;

type ConnectInMemory = dyn Fn() -> DuplexEnd + Send + Sync;

/// The way to reach a supervised server. Each start determines it again.
#[derive(Clone)]
#[non_exhaustive]
pub enum ServerTarget {
    /// A child process.
    Child(Box<ChildCommand>),
    /// A server at a URL.
    #[cfg(feature = "http")]
    Url {
        /// The URL of the server's endpoint.
        url: String,
        /// Headers that are sent with every request, in addition to the headers of the client's configuration.
        headers: http::HeaderMap,
        /// The transport: Streamable HTTP, which falls back to the older HTTP+SSE if the server accepts only that, or
        /// HTTP+SSE from the start.
        transport: HttpTransport,
        /// The proxy, which replaces the proxy of the client's configuration.
        proxy: Option<mgp_transport::http::Proxy>,
        /// Credentials that replace the credentials of the client's configuration.
        credentials: Option<Arc<dyn mgp_transport::http::Credentials>>,
    },
    /// A server in this process, over an in-memory connection.
    InMemory(Arc<ConnectInMemory>),
}

/// The transport to a server at a URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpTransport {
    /// Streamable HTTP, or HTTP+SSE if the server does not accept Streamable HTTP.
    #[default]
    Streamable,
    /// HTTP+SSE (MCP 2024-11-05).
    Sse,
}

impl ServerTarget {
    /// Creates the target of a server in this process; `connect` connects to a new instance of the server.
    pub fn in_memory(connect: impl Fn() -> DuplexEnd + Send + Sync + 'static) -> Self {
        Self::InMemory(Arc::new(connect))
    }
}

opaque_debug!(ServerTarget);

/// A function that resolves the target of a start; the target may differ from start to start.
pub(crate) type Resolve =
    dyn Fn() -> BoxFuture<'static, Result<ServerTarget, SpawnError>> + Send + Sync;

pub(super) struct ServerStarter(Arc<StartConfig>);

pub(super) struct StartConfig {
    pub(super) target: Arc<Resolve>,
    pub(super) config: ClientConfig,
    pub(super) stack: PersistentStack,
    pub(super) recorder: Option<Recorder>,
    /// The time for running calls to finish when the server is stopped.
    pub(super) drain: Arc<DrainTime>,
    pub(super) was_connected: AtomicBool,
    /// `true` if the next start sends no probe (the request that detects the era), because the child of the last start
    /// ended before it was connected, or was connected without a probe.
    pub(super) skips_probe: AtomicBool,
    /// `true` after the failure of a start that relied on [`FailsAtProbe`](crate::gateway::FailsAtProbe).
    pub(super) is_known_wrong: AtomicBool,
}

/// A started server, which is killed when this value is dropped.
pub(super) struct StartedServer(Arc<ServerRun>);

struct ServerRun {
    plan: Arc<StartConfig>,
    target: ServerTarget,
    child: Option<Arc<Child>>,
    /// The pipes of the child process, until the handshake takes them over.
    io: Mutex<Option<(ChildReader, ChildWriter)>>,
    attempt: Mutex<Option<StartAttempt>>,
    client: watch::Sender<Option<ReadyServer>>,
    /// The reason why the handshake failed.
    failure: watch::Sender<Option<String>>,
    announced_stop: Arc<AnnouncedStop>,
    /// `true` if this start uses the legacy era without a probe.
    skips_probe: bool,
    /// `true` if the probe is omitted only because another client or an earlier process found that the program fails at
    /// it.
    relies_on_others: bool,
}

#[derive(Clone)]
struct ReadyServer {
    client: Client,
    connection: Arc<ActiveConnection>,
}

// === impl Spawn ===

impl ServerStarter {
    pub(super) fn new(plan: StartConfig) -> Self {
        Self(Arc::new(plan))
    }
}

impl Spawn for ServerStarter {
    type Server = StartedServer;

    fn start(&self) -> BoxFuture<'static, Result<StartedServer, SpawnError>> {
        let plan = Arc::clone(&self.0);
        Box::pin(async move { Ok(StartedServer(Arc::new(ServerRun::start(plan).await?))) })
    }
}

impl Spawned for StartedServer {
    type Client = Client;

    fn ready(&self) -> BoxFuture<'static, Result<Client, SpawnError>> {
        let run = Arc::clone(&self.0);
        Box::pin(async move { run.handshake().await })
    }

    fn wait(&self) -> BoxFuture<'static, Exit> {
        let run = Arc::clone(&self.0);
        Box::pin(async move { run.ended().await })
    }

    fn continues_start(&self) -> bool {
        self.0.continues_start()
    }

    fn stop(&self, reason: Option<&ShutdownReason>) -> BoxFuture<'static, ()> {
        let (run, reason) = (Arc::clone(&self.0), reason.cloned());
        Box::pin(async move {
            match reason {
                Some(reason) => run.drain(reason).await,
                None => run.record_loss(),
            }
            run.end().await;
        })
    }

    fn kill(&self) {
        self.0.kill();
    }
}

impl Drop for StartedServer {
    fn drop(&mut self) {
        self.0.kill();
    }
}

// === impl Run ===

/// Spawns a child. If a [`Keeper`] must be started with it, this takes milliseconds and so must not block the current
/// thread.
async fn spawn(command: &ChildCommand) -> Result<Child, ChildError> {
    if !Keeper::is_installed() {
        return command.spawn();
    }
    let command = command.clone();
    match tokio::task::spawn_blocking(move || command.spawn()).await {
        Ok(spawned) => spawned,
        Err(_) => Err(ChildError::NoRuntime),
    }
}

impl ServerRun {
    async fn start(plan: Arc<StartConfig>) -> Result<Self, SpawnError> {
        let attempt = StartAttempt::new(plan.recorder.as_ref());
        let target = match (plan.target)().await {
            Ok(target) => target,
            Err(error) => {
                attempt.failed(&error.to_string());
                return Err(error);
            }
        };
        let (child, io) = match &target {
            ServerTarget::Child(command) => match spawn(command).await {
                Ok(mut child) => {
                    let io = child.take_io();
                    (Some(Arc::new(child)), io)
                }
                Err(error) => {
                    let (how, is_permanent) = spawn_failure(&error);
                    attempt.failed(&how);
                    let error = SpawnError::new(how);
                    return Err(if is_permanent { error.permanent() } else { error });
                }
            },
            #[cfg(feature = "http")]
            ServerTarget::Url { .. } => (None, None),
            ServerTarget::InMemory(_) => (None, None),
        };
        let attempt = if child.is_none() { attempt.limit_records() } else { attempt };
        let announced_stop = Arc::new(AnnouncedStop::new(plan.config.server_id.clone()));
        let skips_probe = plan.skips_probe.load(Ordering::Acquire);
        let relies_on_others = !skips_probe
            && child.is_some()
            && plan.config.connect.era == EraChoice::Auto
            && plan.config.fails_at_probe.get()
            && !plan.was_connected.load(Ordering::Acquire)
            && !plan.is_known_wrong.load(Ordering::Acquire);
        Ok(Self {
            plan,
            target,
            child,
            io: Mutex::new(io),
            attempt: Mutex::new(Some(attempt)),
            client: watch::Sender::new(None),
            failure: watch::Sender::new(None),
            announced_stop,
            skips_probe: skips_probe || relies_on_others,
            relies_on_others,
        })
    }

    async fn handshake(&self) -> Result<Client, SpawnError> {
        let ready = match self.connect().await {
            Ok(ready) => ready,
            Err(error) => {
                self.choose_next_era(client::ended_early(&error));
                let cause = self.failure_cause(&error);
                if let Some(text) = refusal_text(&error, &cause) {
                    tracing::warn!(server = ?self.plan.config.server_id, text, "handshake refused");
                }
                self.failed(&cause);
                self.failure.send_replace(Some(cause.clone()));
                let failure = SpawnError::new(cause);
                return Err(if is_permanent(&error) { failure.permanent() } else { failure });
            }
        };
        if let Some(attempt) = self.attempt() {
            attempt.succeeded();
        }
        if self.skips_probe {
            self.plan.skips_probe.store(true, Ordering::Release);
            self.plan.config.fails_at_probe.set(true);
        }
        let client = ready.client.clone();
        self.announced_stop.set_claimed_id(client.server().claimed_server_id.clone());
        if let Some(hook) = &self.plan.config.on_connection {
            let preparing = hook.prepare(client.clone(), ready.connection.direct());
            if timeout(PREPARATION_TIMEOUT, preparing).await.is_err() {
                tracing::warn!(
                    server = ?self.plan.config.server_id,
                    "timeout: the gateway has not prepared a new connection; calls are sent on it now"
                );
            }
        }
        self.plan.stack.current().set(&ready.connection);
        self.client.send_replace(Some(ready));
        if self.plan.was_connected.swap(true, Ordering::AcqRel) {
            self.notify_all_changed();
        }
        Ok(client)
    }

    /// Decides, after a failed start, whether the next start sends a probe to detect the era: many legacy servers end
    /// if their first message is not `initialize`. A start without the probe follows immediately. If it succeeds, all
    /// later starts use the legacy era, because the server would end at each probe. If it fails, the next start sends
    /// the probe.
    fn choose_next_era(&self, has_ended: bool) {
        let plan = &self.plan;
        let Some(child) = &self.child else { return };
        let was_killed = child.exit_report().is_some_and(|report| report.signal.is_some());
        if plan.config.connect.era == EraChoice::Auto && !plan.was_connected.load(Ordering::Acquire)
        {
            let skips_probe = has_ended && !was_killed && !self.skips_probe;
            plan.skips_probe.store(skips_probe, Ordering::Release);
            self.distrust_others();
        }
    }

    /// Lets the next start send the probe if this start relied on [`FailsAtProbe`](crate::gateway::FailsAtProbe), and
    /// has failed or was not ready in time: the program may have changed.
    fn distrust_others(&self) {
        if self.relies_on_others && self.ready().is_none() {
            self.plan.is_known_wrong.store(true, Ordering::Release);
            self.plan.config.fails_at_probe.set(false);
        }
    }

    /// Describes why the handshake failed: by the exit of the child if the connection ended because of it, else by the
    /// error. The description never contains text from the server.
    fn failure_cause(&self, error: &Error) -> String {
        let report = self.child.as_ref().and_then(|child| child.exit_report());
        match report.filter(|_| error.code() == ErrorCode::SERVER_NOT_READY) {
            Some(report) => format!("the server {report}"),
            None => failure_cause(error),
        }
    }

    /// Returns the handshake's error if the child exited before it was connected. The child may have exited because its
    /// handshake was refused; then the refusal is the actual cause.
    async fn handshake_error(&self) -> Option<String> {
        if self.ready().is_some() {
            return None;
        }
        let mut failures = self.failure.subscribe();
        let failure =
            timeout(HANDSHAKE_ERROR_TIMEOUT, failures.wait_for(Option::is_some)).await.ok()?;
        failure.ok()?.clone()
    }

    /// Removes and returns the attempt, which records the outcome of this start; `None` if it is already recorded.
    fn attempt(&self) -> Option<StartAttempt> {
        self.attempt.lock().take()
    }

    fn failed(&self, cause: &str) {
        match self.attempt() {
            // Record nothing here: another start follows immediately, and records its own outcome.
            Some(attempt) if self.continues_start() => attempt.discard(),
            Some(attempt) => attempt.failed(cause),
            None => {}
        }
    }

    /// Returns whether another start follows this failed start: a start in the legacy era if this start sent the probe,
    /// or a start with the probe if this start relied on the result of others.
    fn continues_start(&self) -> bool {
        let skips_next = !self.skips_probe && self.plan.skips_probe.load(Ordering::Acquire);
        let probes_next = self.relies_on_others && self.plan.is_known_wrong.load(Ordering::Acquire);
        (skips_next || probes_next) && self.ready().is_none()
    }

    async fn connect(&self) -> Result<ReadyServer, Error> {
        #[cfg(feature = "http")]
        if let ServerTarget::Url { transport, .. } = &self.target {
            return match self.connect_url(*transport).await {
                // The server may support only the older HTTP+SSE transport, so try it too. If that fails as well,
                // return the error of the first attempt, which is more useful.
                Err(error) if client::may_be_http_sse(&error) => {
                    self.connect_url(HttpTransport::Sse).await.map_err(|_| error)
                }
                connected => connected,
            };
        }
        self.connect_once(HttpTransport::Sse, &Connections::default()).await
    }

    /// Connects to a server at a URL. As long as no attempt was answered, starts another attempt in parallel every
    /// [`ATTEMPT_INTERVAL`], up to [`MAX_ATTEMPTS`]. The first attempt that ends decides the outcome.
    ///
    /// One attempt is not enough: a server that hangs for a while may never answer the requests that it received
    /// during that time, even after it has recovered.
    #[cfg(feature = "http")]
    async fn connect_url(&self, transport: HttpTransport) -> Result<ReadyServer, Error> {
        let connections = Connections::default();
        let mut attempts = FuturesUnordered::new();
        loop {
            let is_answered = connections.lock().iter().any(|connection| connection.is_answered());
            if !is_answered && attempts.len() < MAX_ATTEMPTS {
                attempts.push(Box::pin(self.connect_once(transport, &connections)));
            }
            let waiting = sleep(ATTEMPT_INTERVAL);
            if let Either::Left((outcome, _)) = select(pin!(attempts.next()), pin!(waiting)).await {
                return outcome.unwrap_or_else(|| {
                    Err(ConnectError::Refused(connection_closed("no attempt")).into())
                });
            }
        }
    }

    /// Connects to the server; uses the given transport if the server is at a URL.
    async fn connect_once(
        &self,
        transport: HttpTransport,
        connections: &Connections,
    ) -> Result<ReadyServer, Error> {
        #[cfg(not(feature = "http"))]
        let _ = transport;
        let mut config = self.plan.config.clone();
        config.gateway = Arc::default();
        if self.skips_probe {
            config.connect.era = EraChoice::Legacy;
        }
        let announced_stop = Arc::clone(&self.announced_stop);
        config.hooks.states.push(Arc::new(move |change| announced_stop.note(change)));
        let mut joined = None;
        let of_gateway = Arc::clone(&config.gateway);
        let attach = |outbound| {
            let (connection, stack) = self.plan.stack.attach(outbound);
            let _ = of_gateway.set(self.plan.stack.of_gateway(&connection));
            connections.lock().push(Arc::clone(&connection));
            joined = Some(connection);
            stack
        };
        let client = match &self.target {
            ServerTarget::Child(_) => {
                let io = self.io.lock().take();
                let (Some((reader, writer)), Some(child)) = (io, &self.child) else {
                    return Err(ConnectError::Refused(connection_closed("no pipes")).into());
                };
                let guard = ChildGuard::Lent(Arc::clone(child));
                client::establish(reader, writer, config, attach, Some(guard)).await?
            }
            #[cfg(feature = "http")]
            ServerTarget::Url { url, headers, credentials, proxy, .. } => {
                config.http.headers.extend(headers.clone());
                if let Some(proxy) = proxy {
                    config.http.proxy = proxy.clone();
                }
                if credentials.is_some() {
                    config.http.credentials.clone_from(credentials);
                }
                match transport {
                    HttpTransport::Streamable => client::establish_url(url, config, attach).await?,
                    HttpTransport::Sse => client::establish_http_sse(url, config, attach).await?,
                }
            }
            ServerTarget::InMemory(connect) => {
                let end = connect();
                client::establish(end.reader, end.writer, config, attach, None).await?
            }
        };
        let connection =
            joined.ok_or_else(|| ConnectError::Refused(connection_closed("no connection")))?;
        Ok(ReadyServer { client, connection })
    }

    /// Reports all lists as changed, because a different version of the server may run now.
    fn notify_all_changed(&self) {
        if let Some(retry) = &self.plan.config.retry {
            // Reset the counts in the circuit breaker of the retry layer for the new run.
            retry.restarted(None);
        }
        let hooks = &self.plan.config.hooks;
        if let Some(restarted) = &hooks.restarted {
            restarted();
        }
        for list in [ServerChange::Tools, ServerChange::Prompts, ServerChange::Resources] {
            hooks.notify_change(&list);
        }
    }

    fn ready(&self) -> Option<ReadyServer> {
        self.client.borrow().clone()
    }

    async fn connection_lost(&self) {
        let mut clients = self.client.subscribe();
        let ready = clients.wait_for(Option::is_some).await.ok().and_then(|ready| ready.clone());
        match ready {
            Some(ready) => ready.client.closed().await,
            None => std::future::pending().await,
        }
    }

    async fn ended(&self) -> Exit {
        let exit = match &self.child {
            None => {
                self.connection_lost().await;
                Exit::failure("the connection was closed")
            }
            Some(child) => {
                let exited = match select(pin!(child.wait()), pin!(self.connection_lost())).await {
                    Either::Left((report, _)) => Some(report),
                    // Wait a moment for the exit of the process: its output ends slightly before the process, so the
                    // lost connection may be a part of its exit.
                    Either::Right(_) => timeout(EXIT_TIMEOUT, child.wait()).await.ok(),
                };
                match exited {
                    Some(report) => {
                        // The child has exited during its handshake, which is dropped before it can fail. So choose the
                        // era of the next start here.
                        if self.ready().is_none() && self.failure.borrow().is_none() {
                            self.choose_next_era(true);
                        }
                        match self.handshake_error().await {
                            Some(why) => Exit::failure(why),
                            None => exit(report),
                        }
                    }
                    None => Exit::failure("the connection ended before the program did"),
                }
            }
        };
        self.failed(&exit.description);
        match self.announced_stop.take() {
            Some(reason) => exit.because(reason),
            None => exit,
        }
    }

    /// Returns whether this client started the server. A server at a URL also serves other clients, so only the
    /// session with it may be ended.
    fn is_own(&self) -> bool {
        match &self.target {
            ServerTarget::Child(_) | ServerTarget::InMemory(_) => true,
            #[cfg(feature = "http")]
            ServerTarget::Url { .. } => false,
        }
    }

    /// Waits until running calls have finished, at most for [`StartConfig::drain`]. First asks the server to stop, if
    /// this client started it and the server supports such requests.
    async fn drain(&self, reason: ShutdownReason) {
        let ready = self.ready().filter(|ready| !ready.client.is_closed());
        let Some(ReadyServer { client, connection }) = ready else { return };
        client.set_stopping();
        let drain = self.plan.drain.get();
        let until = Instant::now() + drain;
        if self.is_own() && client.server().has(Extension::Lifecycle) {
            let mut params = ShutdownParams::new();
            params.reason = Some(reason);
            params.timeout_ms = Some(mgp_types::millis(drain));
            let answer = timeout(SHUTDOWN_TIMEOUT.min(drain), async {
                client.mgp().lifecycle_shutdown(&params).await
            });
            if answer.await.is_ok_and(|answer| answer.is_ok_and(|answer| answer.accepted)) {
                // Wait for the end of the connection: the server closes it when it has finished its calls.
                let _ = timeout_at(until, client.closed()).await;
                return;
            }
        }
        let _ = timeout_at(until, select(pin!(connection.idle()), pin!(client.closed()))).await;
    }

    /// Notes the end of a run that was not stopped on request: if it was not ready in time, the next start may send the
    /// probe; if its child has exited, records the loss, because the connection may not have detected the exit yet.
    fn record_loss(&self) {
        self.distrust_others();
        let report = self.child.as_ref().and_then(|child| child.exit_report());
        if let (Some(report), Some(ReadyServer { client, .. })) = (report, self.ready()) {
            client.set_lost(&format!("the server {report}"));
        }
    }

    async fn end(&self) {
        let ready = self.ready();
        if let Some(ReadyServer { client, connection }) = &ready {
            self.plan.stack.current().retire(connection);
            client.close().await;
        }
        if let Some(child) = &self.child {
            child.shutdown().await;
        }
    }

    fn kill(&self) {
        if let Some(ReadyServer { client, connection }) = self.ready() {
            self.plan.stack.current().retire(&connection);
            client.peer().close("the server was killed");
        }
        if let Some(child) = &self.child {
            child.kill();
        }
    }
}
