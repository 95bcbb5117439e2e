//! The handle of a supervised server.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mgp_lifecycle::{
    ConnectConfig, ConnectError, MonitorConfig, ReadyLayer, RestState, StateHandle, StateReport,
    SuperviseConfig, Supervised, supervise,
};
use mgp_transport::ChildCommand;
use mgp_types::RpcError;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{ServerId, Stack};
use tokio::sync::broadcast;

use super::drain_time::DrainTime;
use super::monitor::monitor_runs;
use super::persistent_stack::{ActiveConnection, CurrentConnection, PersistentStack};
use super::record::Recorder;
#[cfg(feature = "http")]
use super::start::HttpTransport;
use super::start::{Resolve, ServerStarter, ServerTarget, StartConfig};
use crate::builder::ClientBuilder;
use crate::client::{Client, configure_retry};
use crate::error::Error;
use crate::wire::Repeats;

/// The maximum time for running calls to finish when a server is stopped.
const MAX_DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// The handle of a server that is restarted when it ends. Calls to the server are made through the handle, which is
/// cheap to clone.
///
/// Each run of the server has a new connection and a new handshake; the server's identity and its gates stay the same.
/// Calls are sent to the current connection. While there is none, they are refused after
/// [`ready_timeout`](ClientBuilder::ready_timeout): with code 2002 (server restarting) while the server restarts, with
/// code 2001 (server draining) while it drains, else with code 2000 (server not ready). Calls that run when the server
/// ends fail with code 2000, unless a layer repeats them. After a restart all lists are reported as
/// [changed](ClientBuilder::on_change). The program must subscribe to resources and events again.
///
/// Dropping the last clone kills the server and its process tree; call [`stop`](Self::stop) to stop it in an orderly
/// way.
///
/// ```no_run
/// use mgp_client_sdk::prelude::*;
/// use mgp_client_sdk::types::mgp::ShutdownReason;
/// use mgp_client_sdk::SuperviseConfig;
///
/// # async fn run() -> Result<(), Error> {
/// let command = ChildCommand::new("uvx").args(["mcp-server-time"]);
/// let builder = Client::builder("me", "1.0").server_id("time");
/// let server = builder.supervise(command, SuperviseConfig::default())?;
/// server.start().await;
/// let client = server.ready().await?;
/// println!("{}", client.call("get_current_time").await?.to_text());
/// server.stop(ShutdownReason::OperatorRequest).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SupervisedClient(Arc<SupervisedServer>);

struct SupervisedServer {
    supervised: Supervised<Client>,
    gate: ReadyLayer,
    stack: Stack,
    ungated: Stack,
    server: Option<ServerId>,
    current: Arc<CurrentConnection>,
    /// The time for running calls to finish when the server is stopped.
    drain: Arc<DrainTime>,
}

pub(super) struct WeakSupervisedClient(std::sync::Weak<SupervisedServer>);

impl WeakSupervisedClient {
    pub(super) fn upgrade(&self) -> Option<SupervisedClient> {
        self.0.upgrade().map(SupervisedClient)
    }
}

impl ClientBuilder {
    /// Creates a client of a server that runs as a child process and is restarted by the rules in `config`. Nothing
    /// runs until [`start`](SupervisedClient::start).
    ///
    /// Layers are applied once, not for each run, so their state survives a restart. Each start may take as long as
    /// `config` allows, even if [`init_timeout`](Self::init_timeout) is shorter. The time in which permissions are
    /// decided is added to this limit.
    ///
    /// # Errors
    /// [`Error::Connect`] if there is an [audit](Self::audit) sink but no [server id](Self::server_id).
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub fn supervise(
        self,
        command: ChildCommand,
        config: SuperviseConfig,
    ) -> Result<SupervisedClient, Error> {
        SupervisedClient::new(self, fixed(ServerTarget::Child(Box::new(command))), config)
    }

    /// Creates a supervised client of a server at a URL. Starting it only connects to the server.
    ///
    /// Over Streamable HTTP, the client has no permanent connection whose loss it could detect, so the server counts as
    /// failed only if it is [marked unhealthy](SupervisedClient::mark_unhealthy), e.g. by a
    /// [monitor](Self::replace_unhealthy).
    ///
    /// # Errors
    /// [`Error::Url`] if the URL is invalid; otherwise see [`supervise`](Self::supervise).
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    #[cfg(feature = "http")]
    pub fn supervise_url(
        self,
        url: impl Into<String>,
        config: SuperviseConfig,
    ) -> Result<SupervisedClient, Error> {
        let url = url.into();
        // Check the URL here, so that an invalid URL is refused now and not at the first start.
        mgp_transport::http::Endpoint::parse(&url)?;
        let headers = http::HeaderMap::new();
        SupervisedClient::new(
            self,
            fixed(ServerTarget::Url {
                url,
                headers,
                transport: HttpTransport::Streamable,
                proxy: None,
                credentials: None,
            }),
            config,
        )
    }

    /// Sets how long calls to a [supervised](Self::supervise) server wait while it starts or restarts.
    ///
    /// By default such calls are refused immediately, with code 2000 (server not ready) or 2002 (server restarting).
    pub fn ready_timeout(mut self, at_most: Duration) -> Self {
        self.config.ready_timeout = at_most;
        self
    }

    /// Monitors a [supervised](Self::supervise) server: a run that becomes unhealthy counts as failed, and the
    /// server is restarted according to its policy (MGP §11.3, §11.5).
    ///
    /// A run that answers no pings may only be busy. Its running calls therefore first get half of the time for a stop,
    /// at most 30 s; if the server answers anything in this time, the run does not count as failed. A run that reports
    /// that it is unhealthy is drained: its running calls get the same time.
    pub fn replace_unhealthy(mut self, config: MonitorConfig) -> Self {
        self.config.monitor = Some(config);
        self
    }
}

impl SupervisedClient {
    pub(crate) fn new(
        builder: ClientBuilder,
        target: Arc<Resolve>,
        mut config: SuperviseConfig,
    ) -> Result<Self, Error> {
        let (client, gates) = builder.finish();
        let mut client = configure_retry(client);
        let monitor = client.monitor.take();
        let server = client.server_id.clone();
        let recorder = match (&client.hooks.audit, &server) {
            (Some(sink), Some(server)) => Some(Recorder::new(Arc::clone(sink), server.clone())),
            (Some(_), None) => return Err(ConnectError::MissingServerId.into()),
            (None, _) => None,
        };
        limit_start(&mut client.connect, &mut config);
        let state = StateHandle::new(ServerState::Registered);
        let mut gate = ReadyLayer::new(state.clone());
        if let Some(server) = &server {
            gate = gate.server(server.clone());
        }
        let repeats = Repeats { retry: client.retry.clone(), resume: client.resume };
        let persistent =
            PersistentStack::new(server.clone(), repeats, &gate, client.ready_timeout, gates);
        let stack = persistent.stack();
        let (ungated, current) = (persistent.ungated(), Arc::clone(persistent.current()));
        // Give running calls half of the time for a stop. The other half is needed if the program does not exit by
        // itself.
        let drain = DrainTime::new((config.stop_timeout / 2).min(MAX_DRAIN_TIMEOUT));
        let start_config = StartConfig {
            target,
            config: client,
            stack: persistent,
            recorder: recorder.clone(),
            drain: Arc::clone(&drain),
            was_connected: AtomicBool::new(false),
            skips_probe: AtomicBool::new(false),
            is_known_wrong: AtomicBool::new(false),
        };
        let supervised = supervise(ServerStarter::new(start_config), config, state);
        if let Some(recorder) = recorder {
            tokio::spawn(recorder.follow(supervised.reports()));
        }
        let runs = supervised.current();
        let server = SupervisedServer { supervised, gate, stack, ungated, server, current, drain };
        let client_handle = Self(Arc::new(server));
        if let Some(monitor) = monitor {
            tokio::spawn(monitor_runs(
                runs,
                monitor,
                WeakSupervisedClient(Arc::downgrade(&client_handle.0)),
            ));
        }
        Ok(client_handle)
    }

    // === Calling ===

    /// Returns the client of the current run. Once this run has ended, the client sends its calls to the next run.
    ///
    /// The client's negotiated properties and cached lists belong to one run, so get a new client for each piece of
    /// work.
    ///
    /// # Errors
    /// [`Error::Call`] without a current run: code 2002 (server restarting) while the server restarts, else code 2000
    /// (server not ready).
    pub fn client(&self) -> Result<Client, Error> {
        if let Some(client) = self.0.supervised.client() {
            return Ok(client);
        }
        let refusal = self.0.gate.check().err();
        Err(refusal
            .unwrap_or_else(|| mgp_types::service::connection_closed("the server has ended"))
            .into())
    }

    /// Waits until the server is connected and returns its client. Does not start the server: before the first
    /// [`start`](Self::start), it waits for that.
    ///
    /// # Errors
    /// [`Error::Call`], with the reason, if the server is not running and will not be started automatically.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method may be called again at any time.
    pub async fn ready(&self) -> Result<Client, Error> {
        self.0.supervised.ready().await.map_err(|rest| self.not_ready_error(&rest).into())
    }

    /// Returns a stack whose calls are sent to the current connection; for layers, and for servers that forward calls.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.0.stack
    }

    /// Returns the stack without gates, for a gateway's own requests.
    pub(crate) fn ungated(&self) -> &Stack {
        &self.0.ungated
    }

    /// Returns the current connection, if any, and the time for its running calls to finish before a stop.
    pub(super) fn running_calls(&self) -> (Option<Arc<ActiveConnection>>, Duration) {
        (self.0.current.get(), self.0.drain.get())
    }

    // === Starting and stopping ===

    /// Starts the server if it is not running; does not wait until it is [`ready`](Self::ready).
    pub async fn start(&self) {
        self.0.supervised.start().await;
    }

    /// Drains and stops the server and its process tree; it is not restarted unless the reason requires a restart.
    ///
    /// A server at a URL is not asked to stop, because it may serve other clients: only the session with it ends.
    ///
    /// # Cancel safety
    /// If the future is dropped, the stop may or may not happen; a stop that has begun is completed.
    pub async fn stop(&self, reason: ShutdownReason) {
        self.0.supervised.stop(reason).await;
    }

    /// Drains and stops the server as [`stop`](Self::stop) does, but gives its running calls at most this time to
    /// finish. A drain that has already begun keeps its time.
    ///
    /// # Cancel safety
    /// As for [`stop`](Self::stop); if the future is dropped before the drain begins, the drain has its usual time.
    pub async fn stop_within(&self, reason: ShutdownReason, drain: Duration) {
        let _limit = self.0.drain.limit(drain);
        self.stop(reason).await;
    }

    /// Restarts the server now, and resets its count of failures.
    pub async fn restart(&self) {
        self.0.supervised.restart().await;
    }

    /// Marks the run with this number as failed; does nothing if that run has already ended.
    pub async fn mark_unhealthy(&self, run: u64, why: impl Into<String>) {
        self.0.supervised.unhealthy(run, why).await;
    }

    // === State ===

    /// Returns the configured id of the server.
    #[must_use]
    pub fn server_id(&self) -> Option<&ServerId> {
        self.0.server.as_ref()
    }

    /// Returns the state of the server, to read or to follow.
    #[must_use]
    pub fn state(&self) -> &StateHandle {
        self.0.supervised.state()
    }

    /// Returns whether any calls run on the current connection, also calls that run on although their caller has left,
    /// e.g. because they have an idempotency key. Pings and streams of changes do not count.
    #[must_use]
    pub fn has_running_calls(&self) -> bool {
        self.0.current.get().is_some_and(|connection| connection.is_in_use())
    }

    /// Subscribes to changes of the server's state; each report contains the number of restarts so far.
    #[must_use]
    pub fn reports(&self) -> broadcast::Receiver<StateReport> {
        self.0.supervised.reports()
    }

    /// Returns how often the server was restarted.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.0.supervised.restarts()
    }

    /// Waits until the server is not running and only an operator can start it again.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method may be called again at any time.
    pub async fn ended(&self) -> RestState {
        self.0.supervised.ended().await
    }

    /// Returns the underlying supervisor.
    #[must_use]
    pub fn supervised(&self) -> &Supervised<Client> {
        &self.0.supervised
    }

    fn not_ready_error(&self, rest: &RestState) -> RpcError {
        match self.0.gate.check() {
            Err(refusal) if refusal.message().contains(&*rest.reason) => refusal,
            Err(refusal) => {
                let message = format!("{}: {}", refusal.message(), rest.reason);
                let error = RpcError::new(refusal.code(), message);
                match refusal.as_recovery() {
                    Some(recovery) => error.recovery(recovery.clone()),
                    None => error,
                }
            }
            Ok(()) => mgp_types::service::connection_closed(&rest.reason),
        }
    }
}

impl fmt::Debug for SupervisedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupervisedClient")
            .field("server", &self.0.server)
            .field("state", self.state())
            .finish_non_exhaustive()
    }
}

/// Gives the handshake the time of the longest start, because the supervisor itself ends a start with a shorter limit.
/// Adds the time for decisions about permissions to the limit of a start: they follow the handshake, and may wait for a
/// person.
fn limit_start(connect: &mut ConnectConfig, config: &mut SuperviseConfig) {
    let deciders =
        u32::from(connect.permission_gate.is_some()) + u32::from(connect.grantor.is_some());
    if deciders == 0 {
        connect.handshake_timeout = config.longest_start().max(connect.handshake_timeout);
        return;
    }
    connect.handshake_timeout = config.longest_start();
    let deciding = connect.permission_timeout.saturating_mul(deciders);
    config.start_timeout = config.start_timeout.saturating_add(deciding);
}

/// Returns a function that resolves to the same target at each start.
fn fixed(target: ServerTarget) -> Arc<Resolve> {
    Arc::new(move || Box::pin(std::future::ready(Ok(target.clone()))))
}
