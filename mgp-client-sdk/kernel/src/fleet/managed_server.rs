//! A server of the fleet: its starts and stops, its instances and its lists. Calls to it are in
//! `managed_server/calls.rs`.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use mgp_client_sdk::{Client, Error, SupervisedClient};
use mgp_discovery::{ApprovedRegistration, ServerConfig};
use mgp_types::mcp::{Era, LogLevel};
use mgp_types::mgp::{ExtensionSet, ServerState, ShutdownReason};
use mgp_types::service::{Context, PeerInfo, Principal, ServerId, TenantId};
use mgp_types::sync::{Mutex, RwLock};
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::watch;

use super::context::FleetContext;
use super::era_choice::SessionKind;
use super::first_sync::{FirstSync, OTHER_LISTS_DELAY};
use super::instance::{Instance, InstanceParts};
use super::isolated_instances::Instances;
use super::list_cache::{ListCache, ListKind};
use super::log_messages::ServedPrincipals;
use super::notifier::ServerNotifier;
use super::refresh_queue::{ListGroup, RefreshQueue};
use super::server_log::ServerLog;
use super::session::{Session, has_failed};
use super::start_hold::StartHold;
use super::start_permits::{PERMIT_TIMEOUT, StartPermits};
use super::subscriptions::Source;

mod calls;

/// The maximum time until the state of a server shows that the connection has ended.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// A server of the kernel, with its configuration, its instances, and the lists that it last returned.
pub(crate) struct ManagedServer {
    id: ServerId,
    config: RwLock<Arc<ServerConfig>>,
    /// The instance that all principals share. If the server is isolated, the kernel uses this instance only to read
    /// lists.
    shared: Instance,
    isolated: Option<Instances>,
    lists: ListCache,
    refresh_queue: RefreshQueue,
    first_sync: FirstSync,
    /// The number of the last run of the server (a run is the time between two starts) in which the kernel requested
    /// the list of tools.
    listed_run: watch::Sender<u64>,
    /// The log level that the kernel last requested from the shared instance.
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
        // Never isolate a server that was registered at run time.
        let is_isolated = approved.is_none() && config.is_per_agent();
        let lists = ListCache::default();
        let parts = InstanceParts {
            config: Arc::clone(&config),
            approved,
            context: context.clone(),
            log: Arc::default(),
            hold: StartHold::default(),
            eras: Arc::clone(lists.eras()),
            negotiated: Arc::clone(lists.negotiated()),
            owner: None,
            served: ServedPrincipals::default(),
        };
        let isolated = is_isolated.then(|| Instances::new(parts.clone()));
        let shared = Instance::new(parts)?;
        Ok(Self {
            id,
            config: RwLock::new(config),
            shared,
            isolated,
            lists,
            refresh_queue: RefreshQueue::default(),
            first_sync: FirstSync::new(),
            listed_run: watch::Sender::new(0),
            log_level: Mutex::default(),
        })
    }

    pub(crate) fn id(&self) -> &ServerId {
        &self.id
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read())
    }

    /// Returns the operator's approval, if the server was registered at run time.
    pub(crate) fn approved(&self) -> Option<&ApprovedRegistration> {
        self.shared.parts().approved.as_ref()
    }

    /// Replaces the settings that take effect while the server keeps running.
    pub(super) fn set_config(&self, config: ServerConfig) {
        *self.config.write() = Arc::new(config);
    }

    pub(crate) fn log(&self) -> &Arc<ServerLog> {
        &self.shared.parts().log
    }

    /// Returns the connected sessions of the shared instance that have had no calls for this time.
    pub(super) fn idle_sessions(&self, time: Duration) -> Vec<Arc<Session>> {
        let is_idle = |session: &&Arc<Session>| {
            session.state() == ServerState::Connected && session.is_idle(time)
        };
        self.shared.sessions().filter(is_idle).cloned().collect()
    }

    /// Returns the number of calls in flight in all instances.
    pub(super) fn running(&self) -> u64 {
        self.sessions().iter().map(|session| session.running()).sum()
    }

    fn sessions(&self) -> Vec<Arc<Session>> {
        let isolated = self.isolated.as_ref().map(Instances::sessions).unwrap_or_default();
        self.shared.sessions().cloned().chain(isolated).collect()
    }

    pub(super) fn hold(&self) -> &StartHold {
        &self.shared.parts().hold
    }

    /// Returns the state and handles that all servers of the kernel share.
    pub(super) fn context(&self) -> &FleetContext {
        &self.shared.parts().context
    }

    /// Returns a handler of the server's notifications.
    pub(super) fn notifier(&self) -> ServerNotifier {
        self.context().notifier(self.id.clone())
    }

    /// Starts the server, and waits until it is connected or has failed, or until its
    /// [`start_timeout`](Self::start_timeout) has passed.
    ///
    /// First waits for one of the permits that limit how many servers start at the same time. A slow start returns its
    /// permit before the server is connected.
    pub(crate) async fn start(&self) {
        // Ignore the error, because the semaphore is never closed.
        let permit = self.start_permits().other.acquire().await;
        let mut states = self.client().state().watch();
        if !self.hold().start(self.client()).await {
            return;
        }
        let mut ready = pin!(tokio::time::timeout(self.start_timeout(), self.client().ready()));
        tokio::select! {
            _ = &mut ready => return,
            () = has_failed(&mut states) => return,
            () = tokio::time::sleep(PERMIT_TIMEOUT) => {}
        }
        drop(permit);
        tokio::select! {
            _ = ready => {}
            () = has_failed(&mut states) => {}
        }
    }

    /// Starts the server to read its lists, as [`start`](Self::start) does, but with one of the permits for first
    /// starts.
    pub(super) async fn first_start(&self) {
        self.start_permits().first_starts.run(pin!(self.start())).await;
    }

    pub(super) fn start_permits(&self) -> &StartPermits {
        &self.context().start_permits
    }

    pub(crate) fn start_timeout(&self) -> Duration {
        self.config.read().start_timeout()
    }

    pub(super) fn main(&self) -> &Arc<Session> {
        self.shared.main()
    }

    /// Returns the client (the connection) of the main session.
    pub(crate) fn client(&self) -> &SupervisedClient {
        self.shared.main().client()
    }

    /// Returns the client of the connected session that was last used, or of the main session if none is connected.
    pub(crate) fn latest(&self) -> SupervisedClient {
        self.shared.latest().client().clone()
    }

    /// Returns the extensions that the server negotiated in the last connection of the session that serves the calls of
    /// this caller, in any instance.
    pub(crate) fn extensions(&self, cx: &Context) -> ExtensionSet {
        self.lists.negotiated().for_calls(cx, self.lists.eras())
    }

    /// Returns the extensions that the server negotiated in the last connection of any of its sessions.
    pub(crate) fn all_extensions(&self) -> ExtensionSet {
        self.lists.negotiated().all()
    }

    /// Returns whether a client belongs to the legacy session of the shared instance, and not to the main session.
    pub(super) fn is_second_session(&self, client: &Client) -> bool {
        self.shared.kind_of(client) == SessionKind::Legacy
    }

    /// Returns the kind of the session that [`latest`](Self::latest) chooses.
    pub(super) fn latest_kind(&self) -> SessionKind {
        self.shared.latest().kind()
    }

    /// Returns the reason why the last check of a server at a URL failed, if the kernel still treats the server as
    /// connected.
    pub(super) fn doubt(&self) -> Option<String> {
        self.shared.latest().doubt()
    }

    /// Checks that the connected sessions of a server at a URL answer.
    pub(super) async fn check_sessions(&self) {
        let sessions = self.sessions();
        join_all(sessions.iter().map(|session| session.check())).await;
    }

    /// Records that the kernel has requested the list of tools in the server's current run (the time since its last
    /// start).
    pub(super) fn note_listing(&self) {
        let live = self.client().supervised().current();
        let run = live.borrow().as_ref().map_or(0, |live| live.run);
        self.listed_run.send_replace(run);
    }

    /// Waits until the kernel knows the tools of the server's current run, could not read them, or the run has ended.
    pub(super) async fn listed(&self) {
        let mut live = self.client().supervised().current();
        let Some(current) = live.borrow().clone() else { return };
        let run = current.run;
        let mut listed = self.listed_run.subscribe();
        // `self` owns the sender, so the channel cannot be closed here.
        let known = listed.wait_for(|listed| *listed >= run);
        let ended = live.wait_for(|live| live.as_ref().is_none_or(|live| live.run != run));
        let mut ended = pin!(ended);
        let is_read = matches!(select(pin!(known), ended.as_mut()).await, Either::Left(_));
        if is_read && current.client.is_closed() {
            // The read fails because the server has ended. Wait until the supervisor notices this, a moment later.
            let _ = tokio::time::timeout(END_TIMEOUT, ended).await;
        }
    }

    /// Returns the state of the main session, or "connected" if only the legacy session is connected. A server that an
    /// operator stopped before its first start is "disconnected", because calls do not start it.
    pub(crate) fn state(&self) -> ServerState {
        let is_connected = |session: &Arc<Session>| session.state() == ServerState::Connected;
        if self.shared.sessions().any(is_connected) {
            return ServerState::Connected;
        }
        match self.shared.main().state() {
            ServerState::Registered if self.hold().forbids_start() => ServerState::Disconnected,
            state => state,
        }
    }

    /// Returns the number of connected instances of an isolated server; `None` if all principals share one instance.
    pub(super) fn own_instances(&self) -> Option<u64> {
        let sessions = self.isolated.as_ref()?.sessions();
        let is_connected = |session: &&Arc<Session>| {
            session.kind() == SessionKind::Main && session.state() == ServerState::Connected
        };
        Some(sessions.iter().filter(is_connected).count() as u64)
    }

    /// Returns whether the server waits for its first start, after which the kernel reads its lists.
    pub(super) fn waits_for_first_start(&self) -> bool {
        let is_stopped = self.hold().forbids_start();
        self.approved().is_none() && !is_stopped && self.state() == ServerState::Registered
    }

    /// Returns how often the sessions were restarted.
    pub(crate) fn restarts(&self) -> u64 {
        self.shared.sessions().map(|session| session.client().restarts()).sum()
    }

    /// Returns the names of the eras of the connected sessions.
    pub(super) fn eras(&self) -> Vec<&'static str> {
        let clients = self.shared.sessions().filter_map(|session| session.client().client().ok());
        let eras = clients.map(|client| client.server().era);
        eras.map(|era| if era == Era::Modern { "modern" } else { "legacy" }).collect()
    }

    /// Records the properties that the server declared about its eras when it connected.
    pub(super) fn observe_eras(&self, facts: &PeerInfo) {
        self.lists.eras().observe(facts);
    }

    /// Returns the source of notifications that arrive in a session of the shared instance.
    pub(super) fn source(&self, session: SessionKind) -> Source {
        Source { server: self.id.clone(), owner: None, session }
    }

    /// Returns the cached lists of the server: all but the list of tools.
    pub(crate) fn lists(&self) -> &ListCache {
        &self.lists
    }

    /// Reads a list again unless it is fresh or the server is not connected; returns whether it changed. If the server
    /// does not return the list in time, reads it in the background.
    pub(crate) async fn refresh_list(&self, kind: ListKind) -> bool {
        let refreshed = self.lists.refresh(kind, &self.id, &self.latest()).await;
        if refreshed.is_none() {
            self.context().stale.mark(&self.id, &[kind.group()]);
        }
        refreshed.unwrap_or_default()
    }

    pub(super) fn refresh_queue(&self) -> &RefreshQueue {
        &self.refresh_queue
    }

    pub(super) fn first_sync(&self) -> &FirstSync {
        &self.first_sync
    }

    pub(super) fn log_level(&self) -> &Mutex<Option<LogLevel>> {
        &self.log_level
    }

    /// Ends the wait for the first lists, because the kernel has read them, or the server does not answer or is
    /// stopped. If the wait for the tools ends now, notifies the clients, even if the server has no tools: their tool
    /// lists may have contained only meta tools.
    pub(super) fn finish_first_sync(&self) {
        self.announce_first_tools(self.first_sync.finish());
    }

    /// Ends the wait for a list that was just read: when the other lists are read too, or a short time later if the
    /// server does not return them.
    pub(super) fn finish_first_list(self: &Arc<Self>, group: ListGroup) {
        self.announce_first_tools(self.first_sync.note_read(group));
        if self.first_sync.is_done(group) {
            return;
        }
        // Do not keep the server meanwhile: a kernel that has stopped must release its folder.
        let server = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(OTHER_LISTS_DELAY).await;
            if let Some(server) = server.upgrade() {
                server.end_first_wait(group);
            }
        });
    }

    /// Ends the wait for a list immediately, e.g. because the server does not return it in time.
    pub(super) fn end_first_wait(&self, group: ListGroup) {
        self.announce_first_tools(self.first_sync.finish_group(group));
    }

    /// Notifies the clients if the server's tools became known just now.
    fn announce_first_tools(&self, became_known: bool) {
        if became_known {
            self.context().changed_lists.add(&self.id, ListGroup::Tools);
        }
    }

    /// Returns whether searches must wait for the first tools of the server; requests for lists of tools wait less
    /// long.
    pub(crate) fn delays_tools(&self) -> bool {
        self.first_sync.delays_tools()
    }

    /// Returns whether any request must wait for the first lists of the server.
    pub(crate) fn delays_lists(&self) -> bool {
        self.first_sync.delays_lists()
    }

    /// Waits for the lists of a group of a new server, at most until `limit` after it was added. Returns `false` if the
    /// server did not answer.
    pub(super) async fn synced(&self, group: ListGroup, limit: Duration) -> bool {
        self.first_sync.wait(group, limit).await
    }

    /// Returns whether the server may have tools that the kernel does not know, because this kernel has not read its
    /// lists.
    pub(crate) fn lists_may_be_outdated(&self) -> bool {
        self.first_sync.may_be_outdated()
    }

    /// Returns whether the kernel learns the tools of the server only when the server starts.
    pub(crate) fn has_unknown_lists(&self) -> bool {
        self.first_sync.is_unknown()
    }

    pub(crate) fn is_starting(&self) -> bool {
        matches!(self.state(), ServerState::Connecting | ServerState::Restarting)
    }

    /// Starts a server whose tools this kernel has not read. Waits until the tools are read, the server has failed, or
    /// the time limit has passed. If the server connected only after the first wait for its lists, or has announced a
    /// change of its tools, also waits until its tools are read.
    pub(crate) async fn sync(&self, limit: Duration) {
        let begun = tokio::time::Instant::now();
        let left = || limit.saturating_sub(begun.elapsed());
        let _ = tokio::time::timeout(limit, self.retry_start()).await;
        let read = async {
            if self.client().client().is_err() {
                self.start().await;
            }
            let is_connected = self.client().client().is_ok();
            is_connected && self.first_sync.wait_at_most(ListGroup::Tools, limit).await
        };
        if self.lists_may_be_outdated()
            && !tokio::time::timeout(left(), read).await.unwrap_or_default()
        {
            // End the wait for the first lists, so that later list requests do not wait for this server again.
            self.finish_first_sync();
        }
        let tools = async {
            self.listed().await;
            if let Some(read) = self.refresh_queue.observe_waiting(ListGroup::Tools) {
                let _ = read.await;
            }
        };
        let _ = tokio::time::timeout(left(), tools).await;
    }

    /// Returns the reason why a server that should run does not run, with the remedy; `None` if it runs or was stopped.
    pub(crate) fn failure(&self) -> Option<RpcError> {
        use ServerState::{Connecting, Error, Restarting};
        let should_run = matches!(self.state(), Connecting | Restarting | Error);
        let error = self.client().client().err().filter(|_| should_run)?;
        Some(self.shared.main().add_remedy(error.into()))
    }

    /// Returns the error of a call that names an unknown tool of a server whose tools could not be listed.
    pub(crate) fn listing_failure(&self) -> Option<RpcError> {
        self.refresh_queue.error(ListGroup::Tools)?;
        let message = format!("the tools of `{}` could not be listed; try again later", self.id);
        let unlisted = || RpcError::new(ErrorCode::SERVER_NOT_READY, message);
        Some(self.shared.main().login_failure().unwrap_or_else(unlisted))
    }

    /// Returns whether each principal has its own instance of the server.
    pub(crate) fn is_isolated(&self) -> bool {
        self.isolated.is_some()
    }

    /// Opens the legacy session again; the subscriptions of clients in it are then restored.
    pub(super) async fn start_legacy(&self) {
        let _ = self.shared.legacy().wake(self.hold(), self.start_timeout()).await;
    }

    /// Restarts the main session, and the legacy session if it is connected.
    pub(super) async fn restart_sessions(&self) {
        let restarts = self
            .shared
            .sessions()
            .filter(|session| session.kind() == SessionKind::Main || session.present().is_some());
        join_all(restarts.map(|session| session.client().restart())).await;
    }

    /// Returns the connections over which the server may receive the roots of a principal.
    pub(crate) fn roots_clients(&self, principal: &Principal) -> Vec<Client> {
        match &self.isolated {
            None if self.shared.parts().answers_roots() => self.clients(),
            None => Vec::new(),
            Some(instances) => instances.clients_of(principal),
        }
    }

    /// Drains and stops all instances because an operator requests it or has changed the configuration.
    pub(crate) async fn stop(&self) {
        self.stop_for(&ShutdownReason::OperatorRequest, None).await;
    }

    /// Drains and stops all instances. If `drain` is given, running calls have at most this time to finish. Servers
    /// with the extension `lifecycle` receive the reason and the time.
    pub(super) async fn stop_for(&self, reason: &ShutdownReason, drain: Option<Duration>) {
        tokio::join!(self.stop_isolated(reason, drain), self.shared.stop(reason, drain));
    }

    /// Cancels the calls that wait for answers of their callers.
    pub(super) fn end_parked(&self) {
        self.sessions().iter().for_each(|session| session.hop().end_all_parked());
    }

    /// Stops the instances of all principals; their next calls create new instances.
    pub(super) async fn stop_isolated(&self, reason: &ShutdownReason, drain: Option<Duration>) {
        if let Some(instances) = &self.isolated {
            instances.stop(reason, drain).await;
        }
    }

    /// Stops the instances of a removed tenant.
    pub(crate) fn forget_tenant(&self, tenant: &TenantId) {
        if let Some(instances) = &self.isolated {
            instances.forget_tenant(tenant);
        }
    }

    /// Starts the instances again that were stopped together with the server, if their owners are subscribed to
    /// resources or events of the server.
    pub(super) fn resume_isolated(&self) {
        let Some(instances) = self.isolated.as_ref().filter(|_| !self.hold().forbids_start())
        else {
            return;
        };
        let context = self.context();
        for owner in context.stopped.take(&self.id) {
            if context.has_subscriber(&self.id, &owner)
                && let Ok(instance) = instances.get_or_create(&owner)
            {
                instance.resume();
            }
        }
    }

    /// Returns the connected clients of all instances of the server.
    pub(crate) fn clients(&self) -> Vec<Client> {
        self.clients_by_owner().into_iter().map(|(_, client)| client).collect()
    }

    /// Returns the connected clients of all instances, each with the owner of its instance; `None` for the shared
    /// instance.
    pub(super) fn clients_by_owner(&self) -> Vec<(Option<Principal>, Client)> {
        let isolated = self.isolated.as_ref().map(Instances::clients).unwrap_or_default();
        let shared = self.shared.sessions().filter_map(|session| session.client().client().ok());
        let isolated = isolated.into_iter().map(|(owner, client)| (Some(owner), client));
        shared.map(|client| (None, client)).chain(isolated).collect()
    }
}
