//! How a supervised server is started, made ready, drained and ended, each time anew (MGP §11.4, §11.5).
//!
//! Applies to: outbound.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use mgp_lifecycle::ConnectError;
use mgp_transport::{
    Child, ChildCommand, ChildError, ChildReader, ChildWriter, End, ExitReport, Keeper,
};
use mgp_types::ErrorCode;
use mgp_types::mgp::{Extension, ServerState, ShutdownParams, ShutdownReason};
use mgp_types::opaque_debug;
use mgp_types::service::{BoxFuture, Exit, Spawn, SpawnError, Spawned, closed};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::record::{Attempt, Recorder};
use super::road::{Line, Trunk};
use crate::client::{self, Client, Kin};
use crate::config::ClientConfig;
use crate::error::Error;
use crate::handler::Changed;

/// How long a child whose connection has ended may take to exit by itself.
const LEAVING: Duration = Duration::from_secs(1);
/// How long the handshake may take to say why it failed, once a child has ended in the midst of it.
const EXPLAINS: Duration = Duration::from_millis(500);
/// How long a server may take to say that it will stop.
const AGREES: Duration = Duration::from_secs(5);

/// Creates a connection to a server of this process.
type Connect = dyn Fn() -> End + Send + Sync;

/// Where a supervised server runs, as it is known when the server starts.
#[derive(Clone)]
#[non_exhaustive]
pub enum ServerTarget {
    /// A child process.
    Child(Box<ChildCommand>),
    /// A server at a URL.
    #[cfg(feature = "http")]
    Url {
        /// The address of the endpoint.
        url: String,
        /// Headers of every request, beside those of the client's configuration.
        headers: http::HeaderMap,
    },
    /// A server of this process, over memory.
    InMemory(Arc<Connect>),
}

impl ServerTarget {
    /// Creates the target of a server in this process, from a function that connects to a new instance of it.
    pub fn in_memory(connect: impl Fn() -> End + Send + Sync + 'static) -> Self {
        Self::InMemory(Arc::new(connect))
    }
}

opaque_debug!(ServerTarget);

/// Finds the target of a start; it may differ from one start to the next.
pub(crate) type Resolve =
    dyn Fn() -> BoxFuture<'static, Result<ServerTarget, SpawnError>> + Send + Sync;

/// Starts a server as often as it must be.
pub(super) struct Starter(Arc<Plan>);

pub(super) struct Plan {
    pub(super) target: Arc<Resolve>,
    pub(super) config: ClientConfig,
    pub(super) trunk: Trunk,
    pub(super) recorder: Option<Recorder>,
    /// How long running calls may take once the server is to stop.
    pub(super) drain: Duration,
    /// Whether the server was connected before.
    pub(super) was_there: AtomicBool,
}

/// A server that was started; it ends when this is dropped.
pub(super) struct Started(Arc<Run>);

/// One incarnation.
struct Run {
    plan: Arc<Plan>,
    reached: ServerTarget,
    child: Option<Arc<Child>>,
    /// Taken by the handshake.
    io: Mutex<Option<(ChildReader, ChildWriter)>>,
    attempt: Mutex<Option<Attempt>>,
    client: watch::Sender<Option<Ready>>,
    /// Why the handshake failed.
    failure: watch::Sender<Option<String>>,
    /// Why the server says it stops.
    told: Arc<Mutex<Option<ShutdownReason>>>,
}

/// What a handshake has brought about.
#[derive(Clone)]
struct Ready {
    client: Client,
    line: Arc<Line>,
}

// === impl Spawn ===

impl Starter {
    pub(super) fn new(plan: Plan) -> Self {
        Self(Arc::new(plan))
    }
}

impl Spawn for Starter {
    type Server = Started;

    fn start(&self) -> BoxFuture<'static, Result<Started, SpawnError>> {
        let plan = Arc::clone(&self.0);
        Box::pin(async move { Ok(Started(Arc::new(Run::start(plan).await?))) })
    }
}

// === impl Spawned ===

impl Spawned for Started {
    type Client = Client;

    fn ready(&self) -> BoxFuture<'static, Result<Client, SpawnError>> {
        let run = Arc::clone(&self.0);
        Box::pin(async move { run.shake_hands().await })
    }

    fn ended(&self) -> BoxFuture<'static, Exit> {
        let run = Arc::clone(&self.0);
        Box::pin(async move { run.ended().await })
    }

    fn stop(&self, reason: Option<&ShutdownReason>) -> BoxFuture<'static, ()> {
        let (run, reason) = (Arc::clone(&self.0), reason.cloned());
        Box::pin(async move {
            match reason {
                Some(reason) => run.drain(reason).await,
                None => run.note_loss(),
            }
            run.end().await;
        })
    }

    fn kill(&self) {
        self.0.kill();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.0.kill();
    }
}

// === impl Run ===

/// Starts a child; under a keeper that takes some milliseconds, for which nothing else is to wait.
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

impl Run {
    async fn start(plan: Arc<Plan>) -> Result<Self, SpawnError> {
        let attempt = Attempt::new(plan.recorder.as_ref());
        let reached = match (plan.target)().await {
            Ok(reached) => reached,
            Err(error) => {
                attempt.failed(&error.to_string());
                return Err(error);
            }
        };
        let (child, io) = match &reached {
            ServerTarget::Child(command) => match spawn(command).await {
                Ok(mut child) => {
                    let io = child.take_io();
                    (Some(Arc::new(child)), io)
                }
                Err(error) => {
                    let why = std::error::Error::source(&error);
                    let why = why.map_or(String::new(), |why| format!(": {why}"));
                    let how = format!("{error}{why}");
                    attempt.failed(&how);
                    return Err(SpawnError::new(how));
                }
            },
            #[cfg(feature = "http")]
            ServerTarget::Url { .. } => (None, None),
            ServerTarget::InMemory(_) => (None, None),
        };
        Ok(Self {
            plan,
            reached,
            child,
            io: Mutex::new(io),
            attempt: Mutex::new(Some(attempt)),
            client: watch::Sender::new(None),
            failure: watch::Sender::new(None),
            told: Arc::default(),
        })
    }

    async fn shake_hands(&self) -> Result<Client, SpawnError> {
        let ready = match self.connect().await {
            Ok(ready) => ready,
            Err(error) => {
                let cause = self.cause(&error);
                self.failed(&cause);
                self.failure.send_replace(Some(cause.clone()));
                return Err(SpawnError::new(cause));
            }
        };
        if let Some(attempt) = self.attempt() {
            attempt.succeeded();
        }
        self.plan.trunk.board().post(&ready.line);
        let client = ready.client.clone();
        self.client.send_replace(Some(ready));
        if self.plan.was_there.swap(true, Ordering::AcqRel) {
            self.tell_all_changed();
        }
        Ok(client)
    }

    /// Why the handshake failed: how the child ended if that was it, and never in words of the server.
    fn cause(&self, error: &Error) -> String {
        let report = self.child.as_ref().and_then(|child| child.exit_report());
        match report.filter(|_| error.code() == ErrorCode::SERVER_NOT_READY) {
            Some(report) => format!("the server {report}"),
            None => cause(error),
        }
    }

    /// Why a child ended that was never ready: a server that is refused ends too, and that is not why.
    async fn explained(&self) -> Option<String> {
        if self.ready().is_some() {
            return None;
        }
        let mut failures = self.failure.subscribe();
        let said = timeout(EXPLAINS, failures.wait_for(Option::is_some)).await.ok()?;
        said.ok()?.clone()
    }

    /// The start, as long as nobody recorded how it went.
    fn attempt(&self) -> Option<Attempt> {
        self.attempt.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn failed(&self, cause: &str) {
        if let Some(attempt) = self.attempt() {
            attempt.failed(cause);
        }
    }

    async fn connect(&self) -> Result<Ready, Error> {
        let mut config = self.plan.config.clone();
        config.ungated = Arc::default();
        let told = Arc::clone(&self.told);
        config.hooks.states.push(Arc::new(move |state| {
            if state.new_state == ServerState::Draining {
                let reason = state.reason.as_deref().map(ShutdownReason::from);
                *told.lock().unwrap_or_else(PoisonError::into_inner) = reason;
            }
        }));
        let mut joined = None;
        let ungated = Arc::clone(&config.ungated);
        let join = |road| {
            let (line, stack) = self.plan.trunk.join(road);
            let _ = ungated.set(self.plan.trunk.ungated_on(&line));
            joined = Some(line);
            stack
        };
        let client = match &self.reached {
            ServerTarget::Child(_) => {
                let io = self.io.lock().unwrap_or_else(PoisonError::into_inner).take();
                let (Some((reader, writer)), Some(child)) = (io, &self.child) else {
                    return Err(ConnectError::Refused(closed("no pipes")).into());
                };
                let kin = Kin::Lent(Arc::clone(child));
                client::establish(reader, writer, config, join, Some(kin)).await?
            }
            #[cfg(feature = "http")]
            ServerTarget::Url { url, headers } => {
                config.http.headers.extend(headers.clone());
                client::reach(url, config, join).await?
            }
            ServerTarget::InMemory(connect) => {
                let end = connect();
                client::establish(end.reader, end.writer, config, join, None).await?
            }
        };
        let line = joined.ok_or_else(|| ConnectError::Refused(closed("no connection")))?;
        Ok(Ready { client, line })
    }

    /// The server may be another one than before, and nobody would say so.
    fn tell_all_changed(&self) {
        if let Some(retry) = &self.plan.config.retry {
            // What the one before owed is not held against it.
            retry.restarted(None);
        }
        for what in [Changed::Tools, Changed::Prompts, Changed::Resources] {
            self.plan.config.hooks.tell(&what);
        }
    }

    /// The client, once there is one.
    fn ready(&self) -> Option<Ready> {
        self.client.borrow().clone()
    }

    async fn lost(&self) {
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
                self.lost().await;
                Exit::failure("the connection was closed")
            }
            Some(child) => {
                let exited = match select(pin!(child.wait()), pin!(self.lost())).await {
                    Either::Left((report, _)) => Some(report),
                    // Its output ends a moment before it does.
                    Either::Right(_) => timeout(LEAVING, child.wait()).await.ok(),
                };
                match exited {
                    Some(report) => match self.explained().await {
                        Some(why) => Exit::failure(why),
                        None => exit(report),
                    },
                    None => Exit::failure("the connection ended before the program did"),
                }
            }
        };
        self.failed(&exit.how);
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).take();
        match told {
            Some(reason) => exit.because(reason),
            None => exit,
        }
    }

    /// Lets running calls finish: the server is asked to stop, where it understands that.
    async fn drain(&self, reason: ShutdownReason) {
        let Some(Ready { client, line }) = self.ready() else { return };
        if client.is_closed() {
            return;
        }
        client.leaves();
        let until = Instant::now() + self.plan.drain;
        if client.server().has(Extension::Lifecycle) {
            let mut params = ShutdownParams::new();
            params.reason = Some(reason);
            params.timeout_ms =
                Some(u64::try_from(self.plan.drain.as_millis()).unwrap_or(u64::MAX));
            let asked = timeout(AGREES.min(self.plan.drain), async {
                client.mgp().lifecycle_shutdown(&params).await
            });
            if asked.await.is_ok_and(|answer| answer.is_ok_and(|answer| answer.accepted)) {
                // It knows best when it has finished, and ends the connection then.
                let _ = timeout_at(until, client.closed()).await;
                return;
            }
        }
        let _ = timeout_at(until, select(pin!(line.idle()), pin!(client.closed()))).await;
    }

    /// Records the end of a child that ended by itself: its connection may not have noticed yet.
    fn note_loss(&self) {
        let report = self.child.as_ref().and_then(|child| child.exit_report());
        if let (Some(report), Some(Ready { client, .. })) = (report, self.ready()) {
            client.is_lost(&format!("the server {report}"));
        }
    }

    async fn end(&self) {
        let ready = self.ready();
        if let Some(Ready { client, line }) = &ready {
            self.plan.trunk.board().clear(line);
            client.close().await;
        }
        if let Some(child) = &self.child {
            child.shutdown().await;
        }
    }

    fn kill(&self) {
        if let Some(Ready { client, line }) = self.ready() {
            self.plan.trunk.board().clear(&line);
            client.peer().close("the server is ended by force");
        }
        if let Some(child) = &self.child {
            child.kill();
        }
    }
}

/// What is said of a handshake that failed.
fn cause(error: &Error) -> String {
    match error {
        Error::Connect(ConnectError::Refused(refusal)) | Error::Call(refusal) => {
            format!("the handshake was refused with {}", refusal.code())
        }
        // Sentences of this workspace.
        error => error.to_string(),
    }
}

fn exit(report: ExitReport) -> Exit {
    let how = format!("the server {report}");
    if report.is_success() { Exit::success(how) } else { Exit::failure(how) }
}
