//! What is known of the tools of all servers.
//!
//! Applies to: both.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use mgp_types::service::{AuditSink, MemoryAudit, ServerId};
use mgp_types::store::{MemoryStore, Store, StoreError};
use mgp_types::{Hash, mcp};

use super::pin::Book;
use super::seen::Seen;
use super::table::{Known, Table};
use super::{Standing, memo};
use crate::hooks::{Hooks, Listening};
use crate::policy::Policies;
use crate::state::State;
use crate::tool::Assessment;

/// What is known of the tools of all servers; a cheap handle.
///
/// The first definition of a tool that is seen is pinned. From then on the tool can be called as long as its server
/// lists it with that definition; another one waits until an operator approves it.
///
/// ```
/// use mgp_security::{Definitions, Policies, Standing};
/// use mgp_types::Payload;
/// use mgp_types::service::{Principal, ServerId};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (definitions, files) = (Definitions::in_memory(Policies::default()), ServerId::from("files"));
/// let tool = |text: &str| Payload::parse(format!(r#"{{"name":"read","description":"{text}","inputSchema":{{}}}}"#)).unwrap();
///
/// definitions.observe(&files, &[tool("Reads a file.")]).await.unwrap();
/// assert_eq!(definitions.standing(Some(&files), "read"), Standing::Pinned);
///
/// definitions.observe(&files, &[tool("Reads any file.")]).await.unwrap();
/// let Standing::Changed(held) = definitions.standing(Some(&files), "read") else { panic!("it changed") };
/// let ada = Principal::new("acme", "ada").operator();
/// definitions.approve(&ada, &files, "read", &held.fingerprint, Some("we asked for it")).await.unwrap();
/// assert_eq!(definitions.standing(Some(&files), "read"), Standing::Pinned);
/// # });
/// ```
#[derive(Clone)]
pub struct Definitions(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) pins: State<Book>,
    pub(super) policies: Policies,
    /// What lookups read.
    now: RwLock<Arc<Table>>,
    /// The number of that table.
    number: AtomicU64,
    /// What each server listed last; held while the table is made of it, so that the table never goes back.
    seen: Mutex<HashMap<Option<ServerId>, Seen>>,
    /// Held by the call that lists the tools of a server for all that wait.
    turns: Mutex<HashMap<ServerId, Arc<tokio::sync::Mutex<()>>>>,
    hooks: Hooks,
    /// Set where something changed while the pins could not be read: the table is made anew once they can.
    behind: AtomicBool,
}

/// Whose tools are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Our own: they are what they are, and only the operator's word on their risk is told.
    Own,
    Foreign,
}

/// What is to be done with a call of a tool.
#[derive(Debug)]
pub(super) enum Look {
    /// It may go on.
    Pass,
    /// It may go on once an event tells of the operator's word on its risk.
    Tell(Arc<Known>),
    /// It may not.
    Refuse(Standing),
    /// The tools of its server must be listed first.
    List,
}

impl Definitions {
    /// Definitions that are pinned in a store; until it was [opened](Self::open) no pin is known.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>, policies: Policies) -> Self {
        let inner = Arc::new(Inner {
            pins: State::new(store, audit),
            policies,
            now: RwLock::default(),
            number: AtomicU64::new(memo::number()),
            seen: Mutex::default(),
            turns: Mutex::default(),
            hooks: Hooks::default(),
            behind: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&inner);
        let refresh = move || weak.upgrade().map(|inner| inner.publish());
        inner.pins.on_change(refresh.clone());
        inner.policies.on_change(refresh);
        Self(inner)
    }

    /// Definitions that are pinned as long as the process runs.
    #[must_use]
    pub fn in_memory(policies: Policies) -> Self {
        Self::new(Arc::new(MemoryStore::new()), Arc::new(MemoryAudit::new()), policies)
    }

    /// Reads the pins and follows them from then on.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the pins as they were known before.
    pub async fn open(&self) -> Result<(), StoreError> {
        self.0.pins.open().await?;
        self.0.publish();
        Ok(())
    }

    /// What a call of a tool needs.
    ///
    /// A tool that is not listed is what its pin says; one without a pin is [`Assessment::unlisted`].
    #[must_use]
    pub fn assessment(&self, server: Option<&ServerId>, tool: &str) -> Arc<Assessment> {
        let shared = |known: &Known, _| Arc::clone(&known.assessment);
        if let Some(known) = self.recall(server, tool, shared) {
            return known;
        }
        let number = self.0.number.load(Ordering::Acquire);
        let table = self.0.latest();
        let found = table.of(server).and_then(|tools| Some((tools, tools.named.get(tool)?)));
        let Some((tools, known)) = found else { return self.0.unlisted(server, tool) };
        memo::keep(number, server, tool, known, tools.stale);
        Arc::clone(&known.assessment)
    }

    /// Whether a call of a tool that was looked up right before needs nothing: no gate below would ask, check or tell.
    ///
    /// `false` says nothing: then the gates decide.
    pub(crate) fn is_plain(&self, server: &ServerId, tool: &str, whose: Whose) -> bool {
        // What cannot be read is not decided.
        if whose == Whose::Foreign && self.0.pins.readable().is_err() {
            return false;
        }
        let look = |known: &Known, is_stale: bool| {
            let stands = match whose {
                Whose::Own => true,
                Whose::Foreign => !is_stale && matches!(known.standing, Standing::Pinned),
            };
            stands && !known.untold.load(Ordering::Acquire) && known.assessment.needs_nothing()
        };
        self.recall(Some(server), tool, look).unwrap_or(false)
    }

    fn recall<T>(
        &self,
        server: Option<&ServerId>,
        tool: &str,
        look: impl FnOnce(&Known, bool) -> T,
    ) -> Option<T> {
        if self.0.behind.load(Ordering::Acquire) {
            return None;
        }
        memo::recall(self.0.number.load(Ordering::Acquire), server, tool, look)
    }

    /// How the definition of a tool stands.
    #[must_use]
    pub fn standing(&self, server: Option<&ServerId>, tool: &str) -> Standing {
        let table = self.0.latest();
        let Some(tools) = table.of(server) else { return Standing::Unseen };
        tools.named.get(tool).map_or(&tools.others, |known| &known.standing).clone()
    }

    /// The definition of a tool as it was last listed.
    #[must_use]
    pub fn definition(&self, server: Option<&ServerId>, tool: &str) -> Option<Arc<mcp::Tool>> {
        self.0.latest().get(server, tool)?.tool.clone()
    }

    /// How many tools of a server, as it listed them last, nobody can approve.
    #[must_use]
    pub fn refused(&self, server: &ServerId) -> usize {
        let table = self.0.latest();
        let Some(tools) = table.of(Some(server)) else { return 0 };
        let refused = |known: &Known| matches!(known.standing, Standing::Refused(_));
        tools.named.iter().filter(|(_, known)| refused(known)).count()
    }

    /// The hash of the text of a definition as it was last listed.
    pub(super) fn listed(&self, server: &ServerId, tool: &str) -> Option<Hash> {
        self.0.table().get(Some(server), tool)?.raw
    }

    /// Learns the tools that a server runs itself: they are trusted as they are, and nothing is pinned.
    pub fn learn(&self, server: Option<&ServerId>, tools: &[mcp::Tool]) {
        self.0.seen().insert(server.cloned(), Seen::own(tools));
        self.0.publish();
    }

    /// Notes that a server says its tools have changed: the next call of one lists them again.
    pub fn stale(&self, server: &ServerId) {
        if let Some(seen) = self.0.seen().get_mut(&Some(server.clone())) {
            seen.stale();
        }
        self.0.publish();
    }

    /// Runs after each change of what is known; it must not wait.
    pub fn on_change<L: Into<Listening>>(&self, hook: impl Fn() -> L + Send + Sync + 'static) {
        self.0.hooks.add(hook);
    }

    /// What is to be done with a call; it takes no lock for longer than a look, and allocates nothing.
    pub(super) fn look(&self, server: &ServerId, tool: &str) -> Result<Look, StoreError> {
        // What cannot be read is not decided.
        self.0.pins.readable()?;
        let table = self.0.latest();
        let Some(tools) = table.servers.get(server.as_str()) else { return Ok(Look::List) };
        let Some(known) = tools.named.get(tool) else {
            return Ok(match &tools.others {
                Standing::Unseen if tools.stale || self.0.relists(server) => Look::List,
                Standing::Unseen => Look::Pass,
                refused => Look::Refuse(refused.clone()),
            });
        };
        let told = || {
            if known.untold.load(Ordering::Acquire) {
                Look::Tell(Arc::clone(known))
            } else {
                Look::Pass
            }
        };
        Ok(match &known.standing {
            _ if tools.stale => Look::List,
            // It is listed and not pinned yet, or it may be in the list by now.
            Standing::Unseen if known.tool.is_some() || self.0.relists(server) => Look::List,
            Standing::Pinned | Standing::Unseen => told(),
            held => Look::Refuse(held.clone()),
        })
    }

    /// The turn of listing the tools of a server, or of telling of them.
    pub(super) fn turn(&self, server: &ServerId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.turns.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody waits for those that only the table holds.
        turns.retain(|known, turn| known == server || Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(server.clone()).or_default())
    }
}

impl Inner {
    pub(super) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The table with everything in it that changed while the pins could not be read.
    pub(super) fn latest(&self) -> Arc<Table> {
        if self.behind.load(Ordering::Acquire) && self.behind.swap(false, Ordering::AcqRel) {
            self.publish();
        }
        self.table()
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, HashMap<Option<ServerId>, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What holds for a tool that is not in the table.
    fn unlisted(&self, server: Option<&ServerId>, tool: &str) -> Arc<Assessment> {
        let policy = self.policies.of(server);
        let pair = |book: &Book| book.get(server?, tool)?.pinned.clone();
        let pin = self.pins.now().ok().and_then(|book| pair(&book));
        pin.map_or_else(|| Assessment::unlisted(tool, &policy), |pin| pin.assess(&policy)).into()
    }

    /// Whether a name that is not in the list may be in it by now.
    fn relists(&self, server: &ServerId) -> bool {
        self.seen().get(&Some(server.clone())).is_none_or(Seen::is_old)
    }

    /// Makes the table anew from what was listed, what is pinned and what the operator says.
    pub(super) fn publish(&self) {
        let seen = self.seen();
        // While the pins cannot be read no call is decided; what is shown may stay.
        let Ok(book) = self.pins.now() else {
            self.behind.store(true, Ordering::Release);
            return;
        };
        let before = self.table();
        let mut own = Arc::default();
        let mut servers = BTreeMap::new();
        for (server, seen) in &*seen {
            let policy = self.policies.of(server.as_ref());
            let tools = seen.tools(server.as_ref(), &book, &policy, before.of(server.as_ref()));
            match server {
                Some(server) => drop(servers.insert(server.clone(), Arc::new(tools))),
                None => own = Arc::new(tools),
            }
        }
        let table = Table { own, servers: servers.into() };
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        self.number.store(memo::number(), Ordering::Release);
        drop(seen);
        self.hooks.tell();
    }
}

impl fmt::Debug for Definitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.table().servers.iter().map(|(id, _)| id)).finish()
    }
}
