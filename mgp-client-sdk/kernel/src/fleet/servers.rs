//! The table of servers: adds, changes, finds and removes them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mgp_client_sdk::Error;
use mgp_discovery::{ApprovedRegistration, ServerConfig};
use mgp_toolindex::{Erase, IndexError};
use mgp_types::Payload;
use mgp_types::mgp::ShutdownReason;
use mgp_types::service::ServerId;
use mgp_types::sync::{Mutex, RwLock};

use super::context::FleetContext;
use super::era_choice::SessionKind;
use super::first_sync::FIRST_SYNC_TIMEOUT;
use super::managed_server::ManagedServer;
use super::refresh_queue::ListGroup;
use super::state_watch;
use super::stored_lists;
use crate::proposals::manifest;

type Table = BTreeMap<ServerId, Arc<ManagedServer>>;

/// The servers of a kernel. This handle is cheap to clone.
#[derive(Clone)]
pub(crate) struct Fleet(Arc<FleetState>);

struct FleetState {
    context: FleetContext,
    table: RwLock<Arc<Table>>,
    /// The stored lists of the servers that have not been added yet.
    stored: Mutex<HashMap<String, Payload>>,
}

/// A handle of the fleet that does not keep the servers alive.
pub(super) struct WeakFleet(std::sync::Weak<FleetState>);

impl WeakFleet {
    pub(super) fn upgrade(&self) -> Option<Fleet> {
        self.0.upgrade().map(Fleet)
    }
}

impl Fleet {
    /// Creates a fleet without servers and without the tasks that serve it; see [`start`](super::start).
    pub(super) fn new(context: FleetContext, stored: HashMap<String, Payload>) -> Self {
        let (table, stored) = (RwLock::default(), Mutex::new(stored));
        Self(Arc::new(FleetState { context, table, stored }))
    }

    pub(super) fn downgrade(&self) -> WeakFleet {
        WeakFleet(Arc::downgrade(&self.0))
    }

    /// Adds a server. Starts it to read its lists, unless all of them are known for its configuration. Only its tools
    /// are known if an earlier kernel stopped before it had read the other lists.
    pub(crate) fn add(&self, config: ServerConfig) -> Result<Arc<ManagedServer>, Error> {
        let server = self.insert(config, None)?;
        let is_stored = self.is_known(&server);
        let lacks_lists = is_stored && server.lists().lacks_any();
        let is_known = is_stored || self.index_manifest(&server);
        if is_stored {
            if !lacks_lists {
                server.first_sync().defer();
            }
        } else if is_known || self.0.context.known.is_silent(&server.config()) {
            server.first_sync().finish();
        }
        // Also start a server to which clients are subscribed. If it replaces another server, it must serve the
        // subscriptions of that server.
        let subscriptions = &self.0.context.subscriptions;
        if !is_known || lacks_lists || subscriptions.has(&server.source(SessionKind::Main)) {
            let server = Arc::clone(&server);
            tokio::spawn(async move { server.first_start().await });
        }
        if subscriptions.has(&server.source(SessionKind::Legacy)) {
            let server = Arc::clone(&server);
            tokio::spawn(async move { server.start_legacy().await });
        }
        server.resume_isolated();
        Ok(server)
    }

    /// Puts the tools of a server's manifest into the index; returns `false` if the server must be started to list its
    /// tools.
    fn index_manifest(&self, server: &ManagedServer) -> bool {
        manifest::index_file(&self.0.context, &server.config()).unwrap_or_else(|error| {
            tracing::error!(server = %server.id(), %error, "manifest not used; the server is started");
            server.log().set_manifest_error(error);
            false
        })
    }

    /// Adds a server without starting it.
    pub(crate) fn insert(
        &self,
        config: ServerConfig,
        approved: Option<ApprovedRegistration>,
    ) -> Result<Arc<ManagedServer>, Error> {
        let is_registered = approved.is_some();
        let server = Arc::new(ManagedServer::new(config, approved, &self.0.context)?);
        if is_registered {
            // Make no request wait for the first lists of a registered server: its first call starts it.
            server.first_sync().finish();
        }
        if let Some(stored) = self.0.stored.lock().remove(server.id().as_str()) {
            server.lists().restore(&stored);
            if !self.is_known(&server) {
                // Forget that an earlier program failed at the probe: another program may have replaced it.
                server.lists().eras().fails_at_probe().set(false);
            }
        }
        tokio::spawn(state_watch::run(Arc::downgrade(&server)));
        let state = server.client().state();
        let log = Arc::clone(server.log());
        tokio::spawn(state_watch::publish(state.changes(), server.notifier(), log));
        let is_replaced = self.replacement_of(&server);
        tokio::spawn(state_watch::announce(state.changes(), server.notifier(), is_replaced));
        self.change(|table| table.insert(server.id().clone(), Arc::clone(&server)));
        // The kernel may have begun to stop before the server was in the table.
        if self.0.context.calls.is_stopping.load(Ordering::Relaxed) {
            server.hold().set_removed();
        }
        Ok(server)
    }

    /// Returns a function that returns whether another server with the same id is in the fleet. The function does not
    /// keep the server alive.
    fn replacement_of(&self, server: &Arc<ManagedServer>) -> impl Fn() -> bool + Send + use<> {
        let (fleet, id, own) = (self.downgrade(), server.id().clone(), Arc::downgrade(server));
        move || {
            let present = fleet.upgrade().and_then(|fleet| fleet.get(id.as_str()));
            present.is_some_and(|present| Arc::as_ptr(&present) != own.as_ptr())
        }
    }

    /// Returns whether the kernel knows the server's tools for the current configuration of the server.
    pub(crate) fn is_known(&self, server: &ManagedServer) -> bool {
        let tools = self.0.context.index.tools_of(server.id().as_str()).len();
        self.0.context.known.contains(&server.config(), tools)
    }

    /// Checks whether the servers at URLs answer: all of them, or only `server`. Called when an operator views the
    /// servers.
    pub(crate) async fn look(&self, server: Option<&str>) {
        let all = self.all();
        let wanted = |id: &ServerId| server.is_none_or(|server| server == id.as_str());
        let chosen = all.values().filter(|server| wanted(server.id()));
        futures_util::future::join_all(chosen.map(|server| server.look())).await;
    }

    /// Waits for the tools of new servers like a search, i.e. for a limited time after each server was added.
    pub(crate) async fn synced(&self) {
        let all: Vec<_> = self.all().values().cloned().collect();
        self.synced_within(&all, ListGroup::Tools, FIRST_SYNC_TIMEOUT).await;
    }

    /// Waits until the first read of a group of new servers has ended, at most until `limit` after each was added.
    pub(crate) async fn first_reads_ended(
        &self,
        servers: &[Arc<ManagedServer>],
        group: ListGroup,
        limit: Duration,
    ) {
        let ends = servers.iter().map(|server| server.first_sync().wait_for_end(group, limit));
        futures_util::future::join_all(ends).await;
    }

    /// Waits for the lists of a group of new servers, at most until `limit` after each was added. If a server does not
    /// answer even within the longer time limit of searches, records this, so that the next kernel does not wait for
    /// the server.
    pub(crate) async fn synced_within(
        &self,
        servers: &[Arc<ManagedServer>],
        group: ListGroup,
        limit: Duration,
    ) {
        let waits = servers.iter().map(|server| async move {
            if server.synced(group, limit).await {
                return;
            }
            if limit >= FIRST_SYNC_TIMEOUT {
                self.record_silent(server);
                return;
            }
            // Do not record a server that is only slow, because searches of the next kernel would not wait for it.
            let (fleet, server) = (self.downgrade(), Arc::clone(server));
            tokio::spawn(async move {
                let is_synced = server.synced(group, FIRST_SYNC_TIMEOUT).await;
                if let Some(fleet) = fleet.upgrade().filter(|_| !is_synced) {
                    fleet.record_silent(&server);
                }
            });
        });
        futures_util::future::join_all(waits).await;
    }

    /// Records that a server does not answer, unless it waits for its start, has listed its tools, or was removed.
    fn record_silent(&self, server: &Arc<ManagedServer>) {
        let is_served = self.get(server.id().as_str()).is_some_and(|own| Arc::ptr_eq(&own, server));
        if is_served && !server.waits_for_first_start() && !self.is_known(server) {
            tracing::warn!(server = %server.id(), "server does not answer; lists no longer wait for it");
            self.0.context.known.insert_silent(&server.config());
        }
    }

    /// Marks the tools of a server as stale. If the server runs, they are read again without a pause.
    pub(crate) fn refresh_tools(&self, server: &ServerId) {
        if let Some(server) = self.get(server.as_str()) {
            server.refresh_queue().end_pauses();
        }
        self.0.context.stale.mark(server, &[ListGroup::Tools]);
    }

    /// Replaces the settings of a server while it keeps running.
    pub(crate) fn reconfigure(&self, config: ServerConfig) {
        let Some(server) = self.get(config.id.as_str()) else { return };
        server.set_config(config);
        // The known tools may be outdated, e.g. because the server has other tags now, which searches use. So read the
        // tools again.
        if !self.is_known(&server) {
            self.refresh_tools(server.id());
            tokio::spawn(async move { server.start().await });
        }
    }

    /// Stores the lists of a server, so that the next kernel can use them.
    pub(crate) fn store_lists(&self, server: &Arc<ManagedServer>) {
        let (server, store) = (Arc::clone(server), Arc::clone(self.0.context.governance.store()));
        tokio::spawn(async move { stored_lists::save(&store, server.id(), server.lists()).await });
    }

    /// Removes the stored data of all servers that are neither in the fleet nor in `except`.
    pub(crate) async fn forget_others(&self, except: &[ServerId]) -> Result<(), IndexError> {
        let all = self.all();
        let is_other = |id: &ServerId| !all.contains_key(id) && !except.contains(id);
        let indexed = self.0.context.index.entries().into_iter();
        let indexed = indexed.map(|entry| ServerId::from(entry.server_id.as_str()));
        for id in indexed.filter(is_other) {
            self.forget_tools(&id)?;
        }
        let stored: Vec<_> =
            self.0.stored.lock().keys().map(|id| ServerId::from(id.as_str())).collect();
        for id in stored.iter().filter(|id| is_other(id)) {
            self.0.stored.lock().remove(id.as_str());
            stored_lists::remove(self.0.context.governance.store(), id).await;
        }
        Ok(())
    }

    /// Adds a server. If there is a server with the same id, stops and removes it first.
    pub(crate) async fn replace(&self, config: ServerConfig) -> Result<(), Error> {
        self.retire(&config.id).await;
        self.remove(&config.id).await;
        self.add(config).map(drop)
    }

    /// Drains and stops a server that will be removed and added again. Until then, its tools stay in the lists, and the
    /// errors of calls ask callers to try again.
    async fn retire(&self, id: &ServerId) {
        let Some(server) = self.get(id.as_str()) else { return };
        server.hold().set_replaced();
        // End the wait for the first lists, because a server that is replaced during its first start never lists them.
        server.first_sync().finish();
        server.stop().await;
    }

    /// Removes a server: its tools leave the index, the clients are notified, then it is drained and stopped.
    pub(crate) async fn remove(&self, id: &ServerId) {
        if let Some(server) = self.get(id.as_str()) {
            self.remove_server(&server).await;
        }
    }

    /// Removes a server as [`remove`](Self::remove) does, unless another server has replaced it.
    pub(crate) async fn remove_server(&self, server: &Arc<ManagedServer>) {
        let id = server.id();
        let is_removed = self.change(|table| {
            let is_present = table.get(id).is_some_and(|present| Arc::ptr_eq(present, server));
            is_present && table.remove(id).is_some()
        });
        if !is_removed {
            return;
        }
        self.forget_tools_or_log(id);
        server.hold().set_removed();
        // Do not let the drain wait for answers of callers, because they cannot reach this server any more.
        server.end_parked();
        // End the wait for the first lists, because a server that is removed during its first start never lists them.
        server.first_sync().finish();
        for group in ListGroup::ALL {
            self.notify_list_changed(server, group);
        }
        server.stop().await;
        stored_lists::remove(self.0.context.governance.store(), id).await;
    }

    /// Removes the stored data about a server that is not in the fleet: its lists, and the search queries that led to
    /// its tools.
    pub(crate) async fn forget(&self, id: &ServerId) -> Result<(), IndexError> {
        let context = &self.0.context;
        if let Some(history) = context.index.history() {
            let called = history.called_tools(id.as_str(), |id| self.get(id).is_some());
            for tool in called.await? {
                history.erase(Erase::Tool(&tool)).await?;
            }
        }
        self.0.stored.lock().remove(id.as_str());
        stored_lists::remove(context.governance.store(), id).await;
        self.forget_tools(id)
    }

    /// Returns whether a server is still in the fleet. If it is not, removes its tools, which were just read, from the
    /// index; if another server has replaced it, marks the tools of that server as stale.
    pub(super) fn is_present(&self, server: &Arc<ManagedServer>) -> bool {
        match self.get(server.id().as_str()) {
            Some(present) if Arc::ptr_eq(&present, server) => return true,
            Some(_) => self.refresh_tools(server.id()),
            None => self.forget_tools_or_log(server.id()),
        }
        false
    }

    fn forget_tools(&self, id: &ServerId) -> Result<(), IndexError> {
        self.0.context.known.remove(id);
        self.0.context.index.remove(id.as_str()).map(drop)
    }

    fn forget_tools_or_log(&self, id: &ServerId) {
        if let Err(error) = self.forget_tools(id) {
            tracing::error!(server = %id, %error, "tools of a removed server are still in the index");
        }
    }

    /// Drains and stops all servers, because the kernel stops. If `drain` is given, closes their connections after this
    /// time.
    pub(crate) async fn stop(&self, drain: Option<Duration>) {
        let all = self.all();
        for server in all.values() {
            // Prevent all later starts, e.g. of servers that still wait for a permit, or by an operator.
            server.hold().set_removed();
            server.end_parked();
        }
        let reason = ShutdownReason::KernelShutdown;
        let stops = all.values().map(|server| server.stop_within(&reason, drain));
        futures_util::future::join_all(stops).await;
        // End the tasks that wait to read lists again, because they keep the state folder in use.
        all.values().for_each(|server| server.refresh_queue().end_pauses());
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<ManagedServer>> {
        self.all().get(id).cloned()
    }

    pub(crate) fn all(&self) -> Arc<Table> {
        Arc::clone(&self.0.table.read())
    }

    pub(crate) fn context(&self) -> &FleetContext {
        &self.0.context
    }

    pub(crate) fn notify_list_changed(&self, server: &ManagedServer, group: ListGroup) {
        self.0.context.changed_lists.add(server.id(), group);
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        change(Arc::make_mut(&mut self.0.table.write()))
    }
}

mgp_types::opaque_debug!(Fleet);
