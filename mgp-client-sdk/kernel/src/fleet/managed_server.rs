//! One server of the fleet.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::{Client, Error, SupervisedClient};
use mgp_discovery::{ApprovedRegistration, Isolation, ServerConfig};
use mgp_types::RpcError;
use mgp_types::mcp::LogLevel;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{BoxFuture, Call, Principal, Reply, ServerId};
use mgp_types::sync::{Mutex, RwLock};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::context::FleetContext;
use super::instance::{Instance, Instances};
use super::list_cache::{ListCache, ListKind};
use super::log_messages::request_level;
use super::refresh_queue::RefreshQueue;
use super::server_log::ServerLog;
use super::start::{FirstSync, StartHold};

/// Time that a starting server holds its permit; servers that hang must not keep others from starting.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Time that a start is waited for.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that a call waits for a server that is started for it.
const WAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// A server: its configuration, its instances, and the lists it last returned.
pub(crate) struct ManagedServer {
    id: ServerId,
    config: RwLock<Arc<ServerConfig>>,
    /// The approval of a server that was registered at run time.
    approved: Option<ApprovedRegistration>,
    log: Arc<ServerLog>,
    start_permits: Arc<Semaphore>,
    hold: StartHold,
    /// The number of calls in flight.
    running: AtomicUsize,
    /// The time at which the last call began or ended.
    used_at: Mutex<Instant>,
    /// The instance that all principals share; of an isolated server the one its lists are read from.
    shared: Instance,
    isolated: Option<Instances>,
    lists: ListCache,
    refresh_queue: RefreshQueue,
    first_sync: FirstSync,
    /// The log level that was requested last.
    log_level: Mutex<Option<LogLevel>>,
}

mgp_types::opaque_debug!(ManagedServer { id });

impl ManagedServer {
    /// Creates a server that is not started yet.
    pub(super) fn new(
        config: ServerConfig,
        approved: Option<ApprovedRegistration>,
        context: &FleetContext,
    ) -> Result<Self, Error> {
        let (id, config) = (config.id.clone(), Arc::new(config));
        let log = Arc::new(ServerLog::default());
        let shared = Instance::new(&config, approved.as_ref(), context, &log, None)?;
        // A registered server is always shared.
        let is_isolated = approved.is_none()
            && config.mgp.as_ref().is_some_and(|mgp| mgp.isolation == Isolation::PerAgent);
        let hold = StartHold::default();
        let isolated = is_isolated.then(|| {
            Instances::new(Arc::clone(&config), context.clone(), Arc::clone(&log), hold.clone())
        });
        Ok(Self {
            id,
            config: RwLock::new(config),
            approved,
            log,
            start_permits: Arc::clone(&context.start_permits),
            hold,
            running: AtomicUsize::new(0),
            used_at: Mutex::new(Instant::now()),
            shared,
            isolated,
            lists: ListCache::default(),
            refresh_queue: RefreshQueue::default(),
            first_sync: FirstSync::new(),
            log_level: Mutex::default(),
        })
    }

    pub(crate) fn id(&self) -> &ServerId {
        &self.id
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read())
    }

    /// Returns the approval of a server that was registered at run time.
    pub(crate) fn approved(&self) -> Option<&ApprovedRegistration> {
        self.approved.as_ref()
    }

    /// Replaces the rules of a server that keeps running.
    pub(super) fn set_config(&self, config: ServerConfig) {
        *self.config.write() = Arc::new(config);
    }

    pub(crate) fn log(&self) -> &ServerLog {
        &self.log
    }

    /// Returns whether the server has had no call for this time.
    pub(super) fn is_idle(&self, time: Duration) -> bool {
        self.running.load(Ordering::Acquire) == 0 && self.used_at.lock().elapsed() >= time
    }

    fn touch(&self) {
        *self.used_at.lock() = Instant::now();
    }

    pub(super) fn hold(&self) -> &StartHold {
        &self.hold
    }

    /// Starts the server once it has a permit, and waits until it is connected or failed.
    ///
    /// A slow server, and one that failed, gives its permit back before.
    pub(crate) async fn start(&self) {
        // The semaphore is never closed.
        let permit = self.start_permits.acquire().await;
        let mut states = self.client().state().watch();
        if !self.hold.start(self.client()).await {
            return;
        }
        let mut ready = pin!(tokio::time::timeout(START_TIMEOUT, self.client().ready()));
        tokio::select! {
            _ = &mut ready => return,
            () = has_failed(&mut states) => {}
            () = tokio::time::sleep(PERMIT_TIMEOUT) => {}
        }
        drop(permit);
        let _ = ready.await;
    }

    pub(crate) fn client(&self) -> &SupervisedClient {
        self.shared.client()
    }

    pub(crate) fn state(&self) -> ServerState {
        self.client().state().now()
    }

    /// Returns the lists of the server other than its tools.
    pub(crate) fn lists(&self) -> &ListCache {
        &self.lists
    }

    /// Reads a list again unless it is fresh or the server is not connected; returns whether it changed.
    pub(crate) async fn refresh_list(&self, kind: ListKind) -> bool {
        self.lists.refresh(kind, &self.id, self.client()).await
    }

    pub(super) fn refresh_queue(&self) -> &RefreshQueue {
        &self.refresh_queue
    }

    pub(super) fn first_sync(&self) -> &FirstSync {
        &self.first_sync
    }

    /// Returns whether the lists of a new server are still to be read for the first time.
    pub(crate) fn is_new(&self) -> bool {
        self.first_sync.is_pending()
    }

    /// Waits until the lists of a new server are known.
    pub(crate) async fn synced(&self) {
        self.first_sync.wait().await;
    }

    /// Returns whether each principal has an instance of its own.
    pub(crate) fn is_isolated(&self) -> bool {
        self.isolated.is_some()
    }

    /// Starts the shared instance unless it runs, and waits until it is connected.
    ///
    /// A server that failed too often stays down until an operator starts it.
    async fn wake(&self) -> Result<Client, Error> {
        if let Some(client) = self.shared.present() {
            return Ok(client);
        }
        if self.hold.is_set() {
            return self.client().client();
        }
        let permit = tokio::time::timeout(WAKE_TIMEOUT, self.start_permits.acquire()).await;
        let mut waking = pin!(self.shared.wake(&self.hold, WAKE_TIMEOUT));
        let early = tokio::select! {
            client = &mut waking => Some(client),
            () = tokio::time::sleep(PERMIT_TIMEOUT) => None,
        };
        drop(permit);
        match early {
            Some(client) => client,
            None => waking.await,
        }
    }

    /// Returns the client of the instance that serves a principal, started unless it runs.
    pub(crate) async fn wake_for(&self, principal: &Principal) -> Result<Client, Error> {
        match &self.isolated {
            None => {
                self.shared.served().insert(principal);
                self.wake().await
            }
            Some(instances) => instances.get_or_create(principal)?.wake(WAKE_TIMEOUT).await,
        }
    }

    /// Passes a call on through all gates; a stopped server is started for it.
    ///
    /// No server is started for a caller without access: `has_access` is `false`, and the gates refuse the call.
    pub(crate) fn send(
        self: &Arc<Self>,
        call: Call,
        has_access: bool,
    ) -> BoxFuture<'static, Result<Reply, RpcError>> {
        if !has_access {
            return self.shared.send(call);
        }
        match &self.isolated {
            None => self.send_shared(call),
            Some(instances) => match instances.get_or_create(&call.cx().principal) {
                Err(error) => Box::pin(std::future::ready(Err(error))),
                Ok(instance) => Box::pin(async move {
                    if let Err(error) = instance.wake(WAKE_TIMEOUT).await {
                        tracing::debug!(%error, "instance not ready for a call");
                    }
                    instance.send(call).await
                }),
            },
        }
    }

    fn send_shared(self: &Arc<Self>, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let running = RunningCall::new(self);
        self.shared.served().insert(&call.cx().principal);
        if self.shared.present().is_some() {
            let sending = self.shared.send(call);
            return Box::pin(async move {
                let _running = running;
                sending.await
            });
        }
        Box::pin(async move {
            let server = &running.0;
            // The gates return and record the refusal.
            if let Err(error) = server.wake().await {
                tracing::debug!(server = %server.id, %error, "server not ready for a call");
            }
            server.shared.send(call).await
        })
    }

    /// Returns the connected client of the instance that serves a principal.
    pub(crate) fn present(&self, principal: &Principal) -> Option<Client> {
        match &self.isolated {
            None => self.client().client().ok(),
            Some(instances) => instances.present(principal),
        }
    }

    /// Drains and stops all instances.
    pub(crate) async fn stop(&self, reason: ShutdownReason) {
        self.stop_isolated(&reason).await;
        self.client().stop(reason).await;
    }

    /// Stops the instances of principals; their next calls create new ones.
    pub(super) async fn stop_isolated(&self, reason: &ShutdownReason) {
        if let Some(instances) = &self.isolated {
            instances.stop(reason).await;
        }
    }

    /// Stops the shared instance because it is idle; the others have a time-out of their own.
    pub(super) async fn stop_idle(&self) {
        self.client().stop(ShutdownReason::IdleTimeout).await;
    }

    /// Returns the clients of all connected instances.
    pub(crate) fn clients(&self) -> Vec<Client> {
        let isolated = self.isolated.as_ref().map(Instances::clients).unwrap_or_default();
        self.client().client().into_iter().chain(isolated).collect()
    }

    /// Requests log messages from the lowest level that a client wants which sees the server, if that has changed.
    ///
    /// Without such a client nothing is requested: servers then send what they choose.
    pub(crate) async fn request_log_level(&self, context: &FleetContext) {
        let wanted = context.notifier(self.id.clone()).wanted_level(None);
        let Some(level) = wanted else { return };
        if self.log_level.lock().replace(level) == Some(level) {
            return;
        }
        for client in self.clients() {
            request_level(&client, &self.id, level).await;
        }
    }

    /// Makes the next request of a log level count as a change, because the server has started again.
    pub(super) fn forget_log_level(&self) {
        *self.log_level.lock() = None;
    }
}

/// Waits until a start has failed, whether it is retried or not.
async fn has_failed(states: &mut watch::Receiver<ServerState>) {
    while states.changed().await.is_ok() {
        if matches!(*states.borrow_and_update(), ServerState::Error | ServerState::Restarting) {
            return;
        }
    }
}

/// A call in flight; counted until it is dropped.
struct RunningCall(Arc<ManagedServer>);

impl RunningCall {
    fn new(server: &Arc<ManagedServer>) -> Self {
        server.running.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(server))
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.touch();
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}
