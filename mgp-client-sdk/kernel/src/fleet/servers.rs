//! The table of servers, and what they stand on.
//!
//! Applies to: outbound.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use mgp_discovery::{Approved, Expander, Server};
use mgp_security::Governance;
use mgp_server_sdk::Herald;
use mgp_toolindex::{Erase, IndexError, ToolIndex};
use mgp_types::Payload;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::ServerId;
use tokio::sync::{Notify, Semaphore};

use super::ear::{Ear, What};
use super::feed;
use super::idle;
use super::manifest;
use super::met::Met;
use super::node::Node;
use super::target::CreateServer;
use crate::callers::Callers;
use crate::watch::Watching;
use mgp_client_sdk::Error;

/// What all servers stand on.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) governance: Governance,
    pub(crate) index: ToolIndex,
    pub(crate) expander: Expander,
    pub(crate) news: News,
    /// Which servers need not be started to know what they have.
    pub(crate) met: Met,
    /// How many may start at once.
    pub(crate) starts: Arc<Semaphore>,
    /// How servers of this process are made.
    pub(crate) within: Arc<HashMap<ServerId, CreateServer>>,
    /// Tells those above what changed.
    pub(crate) herald: Herald,
    /// Who is connected above.
    pub(crate) callers: Callers,
    /// What is watched there.
    pub(crate) watching: Watching,
}

impl Ground {
    /// What hears the news of a server.
    pub(super) fn ear(&self, id: ServerId) -> Ear {
        Ear {
            id,
            access: self.governance.access().clone(),
            news: self.news.clone(),
            herald: self.herald.clone(),
            callers: self.callers.clone(),
        }
    }
}

/// Servers by their ids.
type Table = BTreeMap<ServerId, Arc<Node>>;

/// The servers of a kernel; a cheap handle.
#[derive(Clone)]
pub(crate) struct Fleet(Arc<Inner>);

struct Inner {
    ground: Ground,
    table: RwLock<Arc<Table>>,
    /// What is known from before of servers that were not added yet.
    kept: Mutex<HashMap<String, Payload>>,
}

impl Inner {
    fn kept(&self) -> MutexGuard<'_, HashMap<String, Payload>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same without keeping the servers alive.
pub(super) struct Weak(std::sync::Weak<Inner>);

impl Weak {
    pub(super) fn upgrade(&self) -> Option<Fleet> {
        self.0.upgrade().map(Fleet)
    }
}

impl Fleet {
    /// No servers yet; from now on the index has what they list.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn new(ground: Ground, kept: HashMap<String, Payload>) -> Self {
        let (table, kept) = (RwLock::default(), Mutex::new(kept));
        let fleet = Self(Arc::new(Inner { ground, table, kept }));
        tokio::spawn(feed::run(Weak(Arc::downgrade(&fleet.0)), fleet.0.ground.news.clone()));
        tokio::spawn(idle::run(Weak(Arc::downgrade(&fleet.0))));
        let changes = fleet.0.ground.governance.changes();
        tokio::spawn(feed::tell(changes, Weak(Arc::downgrade(&fleet.0))));
        fleet
    }

    /// Adds a server; one that nobody has met yet as it is configured is started, to learn what it has.
    pub(crate) fn add(&self, config: Server) -> Result<Arc<Node>, Error> {
        let node = self.put(config, None)?;
        let is_known = self.is_known(&node);
        if is_known {
            node.first().over();
        }
        // Whoever watches a resource of the one before waits for news of it.
        if !is_known || self.0.ground.watching.has(node.id(), None) {
            let node = Arc::clone(&node);
            tokio::spawn(async move { node.start().await });
        }
        Ok(node)
    }

    /// Puts a server in its place, without starting it.
    pub(crate) fn put(
        &self,
        config: Server,
        approved: Option<Approved>,
    ) -> Result<Arc<Node>, Error> {
        let node = Arc::new(Node::new(config, approved, &self.0.ground)?);
        if let Some(kept) = self.0.kept().remove(node.id().as_str()) {
            node.shelf().restore(&kept);
        }
        tokio::spawn(feed::follow(Arc::downgrade(&node), self.0.ground.clone()));
        self.change(|table| table.insert(node.id().clone(), Arc::clone(&node)));
        Ok(node)
    }

    /// Whether it is known what a server has.
    pub(crate) fn is_known(&self, node: &Node) -> bool {
        let tools = self.0.ground.index.tools_of(node.id().as_str()).len();
        self.0.ground.met.knows(&node.config(), tools)
    }

    /// Has a server asked again what it lists, if it runs.
    pub(crate) fn relearn(&self, server: &ServerId) {
        self.0.ground.news.stale(server, &[What::Tools]);
    }

    /// Has other rules hold for a server that runs on.
    pub(crate) fn reconfigure(&self, config: Server) {
        let Some(node) = self.get(config.id.as_str()) else { return };
        node.reconfigure(config);
        // What it can be found by may be other words now.
        if !self.is_known(&node) {
            self.0.ground.news.stale(node.id(), &[What::Tools]);
            tokio::spawn(async move { node.start().await });
        }
    }

    /// Keeps what a server lists beyond the life of the kernel.
    pub(crate) fn keep(&self, node: &Arc<Node>) {
        let (node, store) = (Arc::clone(node), Arc::clone(self.0.ground.governance.store()));
        tokio::spawn(async move { manifest::keep(&store, node.id(), node.shelf()).await });
    }

    /// Forgets what was kept of servers that were not added, but of these.
    pub(crate) async fn forget_others(&self, but: &[ServerId]) -> Result<(), IndexError> {
        let all = self.all();
        let is_other = |id: &ServerId| !all.contains_key(id) && !but.contains(id);
        let found = self.0.ground.index.entries().into_iter();
        let others = found.map(|known| ServerId::from(known.server_id.as_str()));
        for id in others.filter(is_other) {
            self.unlearn(&id)?;
        }
        let kept: Vec<_> = self.0.kept().keys().map(|id| ServerId::from(id.as_str())).collect();
        for id in kept.iter().filter(|id| is_other(id)) {
            self.0.kept().remove(id.as_str());
            manifest::forget(self.0.ground.governance.store(), id).await;
        }
        Ok(())
    }

    /// Takes a server out: what it has is found no longer, what runs there is finished, and then it is stopped.
    pub(crate) async fn remove(&self, id: &ServerId, reason: ShutdownReason) -> Option<Arc<Node>> {
        let node = self.change(|table| table.remove(id))?;
        if let Err(error) = self.unlearn(id) {
            tracing::error!(server = %id, %error, "its tools are still found");
        }
        node.hold().forever();
        node.stop(reason).await;
        manifest::forget(self.0.ground.governance.store(), id).await;
        self.tell(&node, &What::ALL);
        Some(node)
    }

    /// Forgets all that was learnt of a server that is not there: what it has, and after which words it was called.
    pub(crate) async fn forget(&self, id: &ServerId) -> Result<(), IndexError> {
        let ground = &self.0.ground;
        if let Some(history) = ground.index.history() {
            for tool in ground.index.tools_of(id.as_str()) {
                history.erase(Erase::Tool(&tool.tool_id())).await?;
            }
        }
        self.0.kept().remove(id.as_str());
        manifest::forget(ground.governance.store(), id).await;
        self.unlearn(id)
    }

    /// Whether a server is still the one in its place; what was learnt of one that is not goes.
    pub(super) fn is_present(&self, node: &Arc<Node>) -> bool {
        match self.get(node.id().as_str()) {
            Some(present) if Arc::ptr_eq(&present, node) => return true,
            Some(_) => self.relearn(node.id()),
            None => {
                if let Err(error) = self.unlearn(node.id()) {
                    tracing::error!(server = %node.id(), %error, "its tools are still found");
                }
            }
        }
        false
    }

    fn unlearn(&self, id: &ServerId) -> Result<(), IndexError> {
        self.0.ground.met.forget(id);
        self.0.ground.index.remove(id.as_str()).map(drop)
    }

    /// Stops all servers.
    pub(crate) async fn stop(&self, reason: ShutdownReason) {
        let all = self.all();
        // What waits for its turn to start waits no longer.
        all.values().for_each(|node| node.hold().set(true));
        let stops = all.values().map(|node| node.stop(reason.clone()));
        futures_util::future::join_all(stops).await;
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Node>> {
        self.all().get(id).cloned()
    }

    /// All servers as they are now.
    pub(crate) fn all(&self) -> Arc<Table> {
        Arc::clone(&self.0.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn ground(&self) -> &Ground {
        &self.0.ground
    }

    /// Tells those who see a server that lists changed with it.
    pub(crate) fn tell(&self, node: &Node, what: &[What]) {
        let ear = self.0.ground.ear(node.id().clone());
        for what in what {
            ear.tell(*what);
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.0.table.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut table))
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all().keys()).finish()
    }
}

/// Which servers have to be asked again what they list; at most one entry for each list.
#[derive(Clone, Default)]
pub(crate) struct News(Arc<Told>);

#[derive(Default)]
struct Told {
    stale: Mutex<BTreeSet<(ServerId, What)>>,
    rung: Notify,
}

impl News {
    /// Has a server asked again.
    pub(super) fn stale(&self, server: &ServerId, what: &[What]) {
        let mut stale = self.0.stale.lock().unwrap_or_else(PoisonError::into_inner);
        stale.extend(what.iter().map(|what| (server.clone(), *what)));
        drop(stale);
        self.0.rung.notify_one();
    }

    /// Waits until there is something to ask.
    pub(super) async fn next(&self) -> BTreeSet<(ServerId, What)> {
        loop {
            let stale =
                mem::take(&mut *self.0.stale.lock().unwrap_or_else(PoisonError::into_inner));
            if !stale.is_empty() {
                return stale;
            }
            self.0.rung.notified().await;
        }
    }
}

/// Whether a server has tools to ask for.
pub(super) fn is_there(state: &ServerState) -> bool {
    *state == ServerState::Connected
}
