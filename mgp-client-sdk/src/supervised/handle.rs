//! The handle of a supervised server, and how one is made.
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mgp_lifecycle::{
    ConnectError, MonitorConfig, ReadyLayer, Report, Rest, State, SuperviseConfig, Supervised,
    supervise,
};
use mgp_transport::ChildCommand;
use mgp_types::RpcError;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{ServerId, Stack};
use tokio::sync::broadcast;

use super::record::Recorder;
use super::road::Trunk;
use super::start::{Plan, Resolve, ServerTarget, Starter};
use super::watch::watch;
use crate::builder::ClientBuilder;
use crate::client::{Client, placed};
use crate::error::Error;

/// The longest time running calls are given when a server is to stop.
const DRAIN: Duration = Duration::from_secs(30);

/// A server that is started again when it ends, and the way to it; cheap to clone.
///
/// Its identity, its gates and what is recorded of it are the same in each incarnation; the handshake is made anew each
/// time, with what was granted in the meantime. Calls go to the present incarnation. While there is none they are refused:
/// with 2002 while it is restarted, with 2001 while it drains, else with 2000, after
/// [`ready_wait`](ClientBuilder::ready_wait). Calls that run when it ends fail with 2000 and are not made again, unless a
/// layer does that. After a restart everything a server lists is told as [changed](ClientBuilder::on_change); resources
/// that were watched and events that were subscribed to must be asked for again.
///
/// With the last clone the server is stopped, its whole tree; whoever wants to see that through calls [`stop`](Self::stop).
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
pub struct SupervisedClient(Arc<Inner>);

struct Inner {
    supervised: Supervised<Client>,
    gate: ReadyLayer,
    stack: Stack,
    ungated: Stack,
    server: Option<ServerId>,
}

/// The same without keeping the server alive.
pub(super) struct Weak(std::sync::Weak<Inner>);

impl Weak {
    pub(super) fn upgrade(&self) -> Option<SupervisedClient> {
        self.0.upgrade().map(SupervisedClient)
    }
}

impl ClientBuilder {
    /// Has a server run as a child process and started again by these rules; nothing runs until it is
    /// [started](SupervisedClient::start).
    ///
    /// Layers are put once, not for each incarnation, so what they keep outlives a restart.
    /// Each start may take as long as the configuration says, whatever [`init_timeout`](Self::init_timeout) does.
    ///
    /// # Errors
    /// [`Error::Connect`] when there is an audit sink, but no [id](Self::server_id) of the server.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn supervise(
        self,
        command: ChildCommand,
        config: SuperviseConfig,
    ) -> Result<SupervisedClient, Error> {
        SupervisedClient::new(self, fixed(ServerTarget::Child(Box::new(command))), config)
    }

    /// The same for a server at a URL: there is nothing to start but the connection.
    ///
    /// It ends when it is [`unhealthy`](SupervisedClient::unhealthy): a URL has no connection to lose.
    ///
    /// # Errors
    /// [`Error::Url`] when the URL cannot be used; else as [`supervise`](Self::supervise).
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[cfg(feature = "http")]
    pub fn supervise_url(
        self,
        url: impl Into<String>,
        config: SuperviseConfig,
    ) -> Result<SupervisedClient, Error> {
        let url = url.into();
        // Better now than with every start.
        mgp_transport::http::Endpoint::parse(&url)?;
        let headers = http::HeaderMap::new();
        SupervisedClient::new(self, fixed(ServerTarget::Url { url, headers }), config)
    }

    /// Has calls to a [supervised](Self::supervise) server wait so long while it is started or restarted; without it
    /// they are refused at once, with 2000 or 2002.
    pub fn ready_wait(mut self, at_most: Duration) -> Self {
        self.config.ready_wait = at_most;
        self
    }

    /// Watches over the health of a [supervised](Self::supervise) server: one that is unhealthy counts as failed, and
    /// is started again as its policy says (MGP §11.3, §11.5).
    pub fn replace_unhealthy(mut self, config: MonitorConfig) -> Self {
        self.config.monitor = Some(config);
        self
    }
}

impl SupervisedClient {
    pub(crate) fn new(
        builder: ClientBuilder,
        target: Arc<Resolve>,
        config: SuperviseConfig,
    ) -> Result<Self, Error> {
        let (client, gates) = builder.finish();
        let mut client = placed(client);
        let monitor = client.monitor.take();
        let server = client.server_id.clone();
        let recorder = match (&client.hooks.audit, &server) {
            (Some(sink), Some(server)) => Some(Recorder::new(Arc::clone(sink), server.clone())),
            (Some(_), None) => return Err(ConnectError::Nameless.into()),
            (None, _) => None,
        };
        // How long a start may take is the supervisor's to say.
        let patience = &mut client.connect.handshake_timeout;
        *patience = config.start_timeout.max(*patience);
        let state = State::new(ServerState::Registered);
        let mut gate = ReadyLayer::new(state.clone());
        if let Some(server) = &server {
            gate = gate.server(server.clone());
        }
        let (retry, patience) = (client.retry.clone(), client.ready_wait);
        let trunk = Trunk::new(server.clone(), retry, &gate, patience, gates);
        let stack = trunk.stack();
        let ungated = trunk.ungated();
        let plan = Plan {
            target,
            config: client,
            trunk,
            recorder: recorder.clone(),
            // The rest of the time is for a program that does not leave by itself.
            drain: (config.stop_timeout / 2).min(DRAIN),
            was_there: AtomicBool::new(false),
        };
        let supervised = supervise(Starter::new(plan), config, state);
        if let Some(recorder) = recorder {
            tokio::spawn(recorder.follow(supervised.reports()));
        }
        let lives = supervised.current();
        let made = Self(Arc::new(Inner { supervised, gate, stack, ungated, server }));
        if let Some(monitor) = monitor {
            tokio::spawn(watch(lives, monitor, Weak(Arc::downgrade(&made.0))));
        }
        Ok(made)
    }

    // === Calling ===

    /// The client of the present incarnation; its calls go to the next one once this one has ended.
    ///
    /// What it knows of the server, and what it keeps of its lists, is that of its own incarnation: take a new one for each
    /// piece of work.
    ///
    /// # Errors
    /// [`Error::Call`] while there is none: 2002 while the server is restarted, else 2000.
    pub fn client(&self) -> Result<Client, Error> {
        if let Some(client) = self.0.supervised.client() {
            return Ok(client);
        }
        let refusal = self.0.gate.check().err();
        Err(refusal.unwrap_or_else(|| mgp_types::service::closed("the server has ended")).into())
    }

    /// Waits until the server is connected and gives its client.
    ///
    /// # Errors
    /// [`Error::Call`] when the server does not run and will not be started by itself; it says why.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn ready(&self) -> Result<Client, Error> {
        self.0.supervised.ready().await.map_err(|rest| self.resting(&rest).into())
    }

    /// A stack whose calls go to the present incarnation; for layers, and for servers that pass calls on.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.0.stack
    }

    /// Returns a stack without the gates, for requests that a gateway makes for itself and for no caller.
    pub(crate) fn ungated(&self) -> &Stack {
        &self.0.ungated
    }

    // === Starting and stopping ===

    /// Starts the server, unless it runs; does not wait until it is [`ready`](Self::ready).
    pub async fn start(&self) {
        self.0.supervised.start().await;
    }

    /// Drains and stops the server with its whole tree; it stays down, unless the reason asks for a restart.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the server stopping.
    pub async fn stop(&self, reason: ShutdownReason) {
        self.0.supervised.stop(reason).await;
    }

    /// Starts the server anew, now, and forgets how often it failed before.
    pub async fn restart(&self) {
        self.0.supervised.restart().await;
    }

    /// Takes an incarnation for failed, by its number; one that has ended already stays as it is.
    pub async fn unhealthy(&self, run: u64, why: impl Into<String>) {
        self.0.supervised.unhealthy(run, why).await;
    }

    // === Looking ===

    /// The configured id of the server.
    #[must_use]
    pub fn server_id(&self) -> Option<&ServerId> {
        self.0.server.as_ref()
    }

    /// The state of the server, to look at and to follow.
    #[must_use]
    pub fn state(&self) -> &State {
        self.0.supervised.state()
    }

    /// Every change of its state from now on, with how often the server was restarted.
    #[must_use]
    pub fn reports(&self) -> broadcast::Receiver<Report> {
        self.0.supervised.reports()
    }

    /// How often it was started again.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.0.supervised.restarts()
    }

    /// Waits until nothing runs, and nothing will be started without a person.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn ended(&self) -> Rest {
        self.0.supervised.ended().await
    }

    /// The supervisor below.
    #[must_use]
    pub fn supervised(&self) -> &Supervised<Client> {
        &self.0.supervised
    }

    /// Why there will be no client.
    fn resting(&self, rest: &Rest) -> RpcError {
        match self.0.gate.check() {
            Err(refusal) => {
                let message = format!("{}: {}", refusal.message(), rest.reason);
                let error = RpcError::new(refusal.code(), message);
                match refusal.as_recovery() {
                    Some(recovery) => error.recovery(recovery.clone()),
                    None => error,
                }
            }
            Ok(()) => mgp_types::service::closed(&rest.reason),
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

/// Resolves to the same target at each start.
fn fixed(target: ServerTarget) -> Arc<Resolve> {
    Arc::new(move || Box::pin(std::future::ready(Ok(target.clone()))))
}
