//! One server of the fleet.
//!
//! Applies to: outbound.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use mgp_discovery::{Approved, Isolation, Server};
use mgp_types::RpcError;
use mgp_types::mcp::LogLevel;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{BoxFuture, Call, Principal, Reply, ServerId};

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::diary::Diary;
use super::feed::Errands;
use super::first::First;
use super::hold::Hold;
use super::instance::{Instance, Instances};
use super::servers::Ground;
use super::shelf::Shelf;
use mgp_client_sdk::{Client, Error, SupervisedClient};

/// How long one that starts keeps the next from starting; many that hang are not to keep those that work away.
const TURN: Duration = Duration::from_secs(2);

/// How long one that starts is waited for.
const STARTS: Duration = Duration::from_secs(10);

/// How long a call waits for a server that is started for it.
const WAKES: Duration = Duration::from_secs(30);

/// A server: how it was configured, its client, and the way to it.
pub(crate) struct Node {
    id: ServerId,
    config: RwLock<Arc<Server>>,
    /// What was approved, of one that was registered while the kernel runs.
    approved: Option<Approved>,
    diary: Arc<Diary>,
    /// Whose turn it is to start.
    starts: Arc<Semaphore>,
    /// Whether an operator stopped it: then no call starts it.
    hold: Hold,
    /// How many calls run there.
    running: AtomicUsize,
    /// When the last one began or ended.
    used: Mutex<Instant>,
    /// The one that all share; of a server with an instance for each agent, the one its lists are read from.
    shared: Instance,
    own: Option<Instances>,
    shelf: Shelf,
    errands: Errands,
    first: First,
    /// The level of log messages it was last asked for.
    level: Mutex<Option<LogLevel>>,
}

impl Node {
    /// A server that is not started yet.
    pub(super) fn new(
        config: Server,
        approved: Option<Approved>,
        ground: &Ground,
    ) -> Result<Self, Error> {
        let (id, config) = (config.id.clone(), Arc::new(config));
        let diary = Arc::new(Diary::default());
        let shared = Instance::new(&config, approved.as_ref(), ground, &diary, None)?;
        // One that was registered is nobody's own.
        let is_isolated = approved.is_none()
            && config.mgp.as_ref().is_some_and(|mgp| mgp.isolation == Isolation::PerAgent);
        let hold = Hold::default();
        let own = is_isolated.then(|| {
            Instances::new(Arc::clone(&config), ground.clone(), Arc::clone(&diary), hold.clone())
        });
        Ok(Self {
            id,
            config: RwLock::new(config),
            approved,
            diary,
            starts: Arc::clone(&ground.starts),
            hold,
            running: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            shared,
            own,
            shelf: Shelf::default(),
            errands: Errands::default(),
            first: First::new(),
            level: Mutex::default(),
        })
    }

    pub(crate) fn id(&self) -> &ServerId {
        &self.id
    }

    /// How it is configured.
    pub(crate) fn config(&self) -> Arc<Server> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What was approved, of one that was registered while the kernel runs.
    pub(crate) fn approved(&self) -> Option<&Approved> {
        self.approved.as_ref()
    }

    /// Notes that other rules hold for what runs on.
    pub(super) fn reconfigure(&self, config: Server) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    /// What is kept of it.
    pub(crate) fn diary(&self) -> &Diary {
        &self.diary
    }

    /// Whether nobody called it for so long.
    pub(super) fn is_idle(&self, so_long: Duration) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.running.load(Ordering::Acquire) == 0 && used.elapsed() >= so_long
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// What operators say of its starts.
    pub(super) fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Starts it once it is its turn, and waits until it is there or failed; a slow one, and one
    /// that failed, let the next begin meanwhile.
    pub(crate) async fn start(&self) {
        // It is never closed.
        let turn = self.starts.acquire().await;
        let mut states = self.client().state().watch();
        if !self.hold.start(self.client()).await {
            return;
        }
        let mut ready = pin!(tokio::time::timeout(STARTS, self.client().ready()));
        tokio::select! {
            _ = &mut ready => return,
            () = has_failed(&mut states) => {}
            () = tokio::time::sleep(TURN) => {}
        }
        drop(turn);
        let _ = ready.await;
    }

    pub(crate) fn client(&self) -> &SupervisedClient {
        self.shared.client()
    }

    pub(crate) fn state(&self) -> ServerState {
        self.client().state().now()
    }

    /// What it lists besides tools.
    pub(crate) fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    pub(super) fn errands(&self) -> &Errands {
        &self.errands
    }

    pub(super) fn first(&self) -> &First {
        &self.first
    }

    /// Whether nobody has met it yet, and it is worth waiting for.
    pub(crate) fn is_new(&self) -> bool {
        self.first.is_ahead()
    }

    /// Waits until it is known what it has, where nobody has met it yet.
    pub(crate) async fn met(&self) {
        self.first.wait().await;
    }

    /// Whether each principal has an instance of its own.
    pub(crate) fn is_isolated(&self) -> bool {
        self.own.is_some()
    }

    /// Starts the server unless it runs, and waits until it is there.
    ///
    /// One that rests after too many failures stays down: somebody has to look at it first.
    pub(crate) async fn wake(&self) -> Result<Client, Error> {
        if let Some(client) = self.shared.present() {
            return Ok(client);
        }
        if self.hold.is_set() {
            return self.client().client();
        }
        let turn = tokio::time::timeout(WAKES, self.starts.acquire()).await;
        let mut waking = pin!(self.shared.wake(&self.hold, WAKES));
        let early = tokio::select! {
            client = &mut waking => Some(client),
            () = tokio::time::sleep(TURN) => None,
        };
        drop(turn);
        match early {
            Some(client) => client,
            None => waking.await,
        }
    }

    /// The instance that serves a principal, started unless it runs.
    pub(crate) async fn wake_for(&self, principal: &Principal) -> Result<Client, Error> {
        match &self.own {
            None => {
                self.shared.users().note(principal);
                self.wake().await
            }
            Some(own) => own.of(principal)?.wake(WAKES).await,
        }
    }

    /// Passes a call on, through all gates; a server that rests is started for it.
    ///
    /// `may` says whether the caller sees what it calls: for nobody else a server is started.
    pub(crate) fn send(
        self: &Arc<Self>,
        call: Call,
        may: bool,
    ) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let Some(own) = self.own.as_ref().filter(|_| may) else {
            if !may {
                return self.shared.send(call);
            }
            let running = Running::enter(self);
            self.shared.users().note(&call.cx().principal);
            if self.shared.present().is_some() {
                let sending = self.shared.send(call);
                return Box::pin(async move {
                    let _running = running;
                    sending.await
                });
            }
            return Box::pin(async move {
                let node = &running.0;
                // What comes of it is told by the gates, which record the call too.
                if let Err(error) = node.wake().await {
                    tracing::debug!(server = %node.id, %error, "the server was not there for a call");
                }
                node.shared.send(call).await
            });
        };
        match own.of(&call.cx().principal) {
            Err(full) => Box::pin(std::future::ready(Err(full))),
            Ok(instance) => Box::pin(async move {
                if let Err(error) = instance.wake(WAKES).await {
                    tracing::debug!(%error, "the instance was not there for a call");
                }
                instance.send(call).await
            }),
        }
    }

    /// The instance of a principal, where it runs.
    pub(crate) fn present(&self, of: &Principal) -> Option<Client> {
        match &self.own {
            None => self.client().client().ok(),
            Some(own) => own.present(of),
        }
    }

    /// Stops everything that runs of it, once what runs there is finished.
    pub(crate) async fn stop(&self, reason: ShutdownReason) {
        self.stop_own(&reason).await;
        self.client().stop(reason).await;
    }

    /// Stops the instances of principals; their next calls make new ones.
    pub(super) async fn stop_own(&self, reason: &ShutdownReason) {
        if let Some(own) = &self.own {
            own.stop(reason).await;
        }
    }

    /// Stops what nobody calls: instances of principals have a time of their own.
    pub(super) async fn rest(&self) {
        self.client().stop(ShutdownReason::IdleTimeout).await;
    }

    /// All that run of it.
    pub(crate) fn running(&self) -> Vec<Client> {
        let own = self.own.as_ref().map(Instances::clients).unwrap_or_default();
        self.client().client().into_iter().chain(own).collect()
    }

    /// Asks for log messages from this level on; `false` where it was asked already.
    pub(crate) fn asks_level(&self, level: Option<LogLevel>) -> bool {
        let mut asked = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *asked, level) != level
    }
}

/// Waits until a start has failed, whether it is tried again or not.
async fn has_failed(states: &mut watch::Receiver<ServerState>) {
    while states.changed().await.is_ok() {
        if matches!(*states.borrow_and_update(), ServerState::Error | ServerState::Restarting) {
            return;
        }
    }
}

/// A call that runs there; counted until it is dropped.
struct Running(Arc<Node>);

impl Running {
    fn enter(node: &Arc<Node>) -> Self {
        node.running.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(node))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.touch();
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("id", &self.id)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
