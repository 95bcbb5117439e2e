//! The registrations: what the store has of them, and the one way to change it (MGP §15.4).
//!
//! Applies to: inbound.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use mgp_types::mgp::{Actor, AuditEvent, AuditResult};
use mgp_types::service::{
    AuditSink, Authority, Hidden, MemoryAudit, Principal, ServerId, Visibility, visibility,
};
use mgp_types::store::{Change, Store, StoreError, within};
use mgp_types::{Payload, Timestamp};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::config::RegistrationConfig;
use super::event::Event;
use super::pace::Pace;
use super::record::{Creator, Proposal, Record, SPACE, Stage};
use super::refused::RegistrationRefused as Refused;
use super::review::Waiting;
use super::servers::{Judge, Servers};
use super::work::{Live, Work};
use crate::error::Error;
use crate::registry::{Fleet, Known};

/// The first wait until a store that failed is looked at again, and how often it is.
const AGAIN: Duration = Duration::from_secs(1);
const LOOKS: u32 = 8;

/// The servers that are registered at run time.
///
/// What an operator approved is kept, started again with the kernel, and never started otherwise than approved.
/// A registration that is being removed when the kernel dies is removed when it starts again.
///
/// Whoever implements [`Servers`] and also holds this holds it weakly, or neither is ever dropped.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use mgp_discovery::{Approved, Fleet, Known, Registrations, Servers};
/// use mgp_types::RpcError;
/// use mgp_types::service::{BoxFuture, Principal, ServerId, Stack, mock};
/// use mgp_types::store::MemoryStore;
///
/// /// Runs nothing.
/// struct Idle;
///
/// impl Fleet for Idle {
///     fn known(&self) -> Vec<Known> {
///         Vec::new()
///     }
/// }
///
/// impl Servers for Idle {
///     fn configured(&self, server: &ServerId) -> bool {
///         server.as_str() == "files"
///     }
///     fn start(&self, server: Approved) -> BoxFuture<'static, Result<(), RpcError>> {
///         Box::pin(async move { Ok(server.launch().await.map(drop)?) })
///     }
///     fn drain(&self, _: &ServerId, _: Duration) -> BoxFuture<'static, ()> {
///         Box::pin(async {})
///     }
///     fn remove(&self, _: &ServerId) -> BoxFuture<'static, Result<(), RpcError>> {
///         Box::pin(async { Ok(()) })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let registrations = Registrations::builder(Arc::new(MemoryStore::new()), Arc::new(Idle)).build();
/// registrations.open().await.unwrap();
///
/// let mut client = mock::client(Stack::new(registrations.router()));
/// # let program = std::env::temp_dir().join(format!("mgp-register-{}", std::process::id()));
/// # std::fs::write(&program, "a program").unwrap();
/// # #[cfg(unix)]
/// # std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
/// let params = |id: &str| format!(r#"{{"id":"{id}","command":{program:?}}}"#);
/// let refused = client.request("mgp/discovery/register", &params("made")).await.unwrap_err();
/// assert_eq!(refused.code().0, 1000, "nobody granted it");
///
/// client.cx.principal = Principal::local().operator();
/// let answer = client.request("mgp/discovery/register", &params("made")).await.unwrap();
/// assert!(answer.as_str().starts_with(r#"{"id":"made","status":"connected""#));
/// let taken = client.request("mgp/discovery/register", &params("files")).await.unwrap_err();
/// assert_eq!(taken.code().0, 4101, "the configuration has it");
/// # std::fs::remove_file(program).unwrap();
/// # });
/// ```
#[derive(Clone)]
pub struct Registrations(pub(super) Arc<Inner>);

/// Puts [`Registrations`] together.
#[must_use = "nothing is registered until it is built"]
pub struct RegistrationsBuilder {
    store: Arc<dyn Store>,
    servers: Arc<dyn Servers>,
    audit: Arc<dyn AuditSink>,
    may: Arc<dyn Visibility>,
    judge: Option<Arc<dyn Judge>>,
    config: RegistrationConfig,
}

pub(super) struct Inner {
    store: Arc<dyn Store>,
    pub(super) servers: Arc<dyn Servers>,
    pub(super) audit: Arc<dyn AuditSink>,
    pub(super) may: Arc<dyn Visibility>,
    pub(super) judge: Option<Arc<dyn Judge>>,
    pub(super) config: Arc<RegistrationConfig>,
    pub(super) pace: Pace,
    /// Held from a look to the change that depends on it.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Whether what the store has is to be worked on.
    opened: AtomicBool,
    /// What the store had when it was last read.
    book: Mutex<Arc<Book>>,
    /// What is being started or removed, or came of it.
    pub(super) work: Mutex<HashMap<ServerId, Work>>,
    news: watch::Sender<u64>,
}

/// The right to change registrations, one after another.
pub(super) type Turn = tokio::sync::OwnedMutexGuard<()>;

/// Registrations by server.
pub(super) type Book = BTreeMap<String, Kept>;

/// A registration, and the revision that wrote it.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) record: Arc<Record>,
    pub(super) revision: u64,
}

// === impl RegistrationsBuilder ===

impl RegistrationsBuilder {
    /// Where it is recorded; in memory without it.
    ///
    /// A sink that takes events out of the same store gets them in the same commit.
    pub fn audit(mut self, audit: Arc<dyn AuditSink>) -> Self {
        self.audit = audit;
        self
    }

    /// Who may call the methods besides operators: those who see the kernel's own tool of that name, with dots.
    ///
    /// Nobody does without it.
    pub fn may(mut self, may: Arc<dyn Visibility>) -> Self {
        self.may = may;
        self
    }

    /// Who judges the code of sandboxed servers; without a judge such code is not registered.
    pub fn judge(mut self, judge: Arc<dyn Judge>) -> Self {
        self.judge = Some(judge);
        self
    }

    /// The bounds.
    pub fn config(mut self, config: RegistrationConfig) -> Self {
        self.config = config;
        self
    }

    /// The registrations; nothing is started before they are [opened](Registrations::open).
    #[must_use]
    pub fn build(self) -> Registrations {
        let Self { store, servers, audit, may, judge, config } = self;
        Registrations(Arc::new(Inner {
            store,
            servers,
            audit,
            may,
            judge,
            config: Arc::new(config),
            pace: Pace::default(),
            turn: Arc::default(),
            opened: AtomicBool::new(false),
            book: Mutex::default(),
            work: Mutex::default(),
            news: watch::Sender::new(0),
        }))
    }
}

impl fmt::Debug for RegistrationsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistrationsBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}

// === impl Registrations ===

impl Registrations {
    /// Registrations in a store, of servers that somebody runs.
    pub fn builder(store: Arc<dyn Store>, servers: Arc<dyn Servers>) -> RegistrationsBuilder {
        RegistrationsBuilder {
            store,
            servers,
            audit: Arc::new(MemoryAudit::new()),
            may: Arc::new(visibility(|_, _, _| Err(Hidden::by("operators only")))),
            judge: None,
            config: RegistrationConfig::default(),
        }
    }

    /// Reads what the store has and goes on with it: starts what was approved, removes what was being removed.
    ///
    /// It is called once, when the configuration is known; what it begins goes on after it has answered.
    /// Each server that was approved is with [`Servers`] by then, whether or not it runs.
    ///
    /// # Errors
    /// [`Error::Store`] when it cannot be read; nothing was begun then.
    ///
    /// # Cancel safety
    /// It may be called again.
    pub async fn open(&self) -> Result<(), Error> {
        let inner = &self.0;
        let turn = inner.turn().await;
        inner.opened.store(true, Ordering::Release);
        inner.look(&turn).await?;
        let book = inner.book();
        let starting = book.values().filter(|kept| kept.record.is_approved());
        let starting: Vec<_> = starting.filter_map(|kept| inner.go_on(kept)).collect();
        // What leaves takes a turn of its own.
        drop(turn);
        for mut live in starting {
            // The first word of a start says that its server was handed over.
            let _ = live.changed().await;
        }
        Ok(())
    }

    /// The servers that an operator approved and that nobody is removing, by their ids.
    #[must_use]
    pub fn approved(&self) -> Vec<ServerId> {
        let book = self.0.book();
        let approved = book.values().filter(|kept| kept.record.is_approved());
        approved.map(|kept| kept.record.program.server()).collect()
    }

    /// Whether a store has an approved registration of this id that nobody is removing, for those who run no servers.
    ///
    /// # Errors
    /// [`Error::Store`] when the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn is_approved_in(store: &dyn Store, server: &ServerId) -> Result<bool, Error> {
        let records = store.load(SPACE).await?.records.into_iter();
        let mut of = records.filter(|record| record.key == server.as_str());
        let read = of.find_map(|record| record.value?.get::<Record>().ok());
        Ok(read.is_some_and(|record| record.is_approved()))
    }

    /// Follows a changed configuration: where it took the id of a registration, that one is drained and rests;
    /// where it gave one back, the registration is started.
    ///
    /// It is called after [`Servers::configured`] tells of the new configuration and before its servers are started.
    ///
    /// # Errors
    /// [`Error::Store`] when the registrations cannot be read.
    ///
    /// # Cancel safety
    /// It may be called again; what was not drained then is drained by that.
    pub async fn reconfigured(&self) -> Result<(), Error> {
        let inner = &self.0;
        let turn = inner.turn().await;
        inner.look(&turn).await?;
        let mut yielding = Vec::new();
        for kept in inner.book().values() {
            let server = kept.record.program.server();
            if inner.servers.configured(&server) {
                yielding.extend(inner.give_way(kept));
            } else {
                inner.rest_no_more(kept);
            }
        }
        // What leaves takes a turn of its own.
        drop(turn);
        for given_way in yielding {
            given_way.await;
        }
        Ok(())
    }

    /// The registrations that wait for an operator, by server.
    ///
    /// # Errors
    /// [`Error::NotOperator`] for everybody else; [`Error::Store`].
    pub async fn waiting(&self, by: &Principal) -> Result<Vec<Waiting>, Error> {
        operator(by)?;
        let turn = self.0.turn().await;
        self.0.look(&turn).await?;
        let book = self.0.book();
        Ok(book.values().filter_map(|kept| Waiting::of(&kept.record)).collect())
    }

    /// Moves whenever a registration changed: asked for, decided, removed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.news.subscribe()
    }

    /// The servers with those that are registered and not running: what [`list_router`](crate::list_router) lists.
    #[must_use]
    pub fn fleet(&self) -> Arc<dyn Fleet> {
        Arc::new(self.clone())
    }
}

impl Fleet for Registrations {
    fn known(&self) -> Vec<Known> {
        let mut known = self.0.servers.known();
        for kept in self.0.book().values() {
            let id = kept.record.program.id.as_str();
            if !known.iter().any(|known| known.summary.id == id)
                && !kept.record.is_over(SystemTime::now())
            {
                known.push(self.0.told(&kept.record));
            }
        }
        known
    }
}

impl fmt::Debug for Registrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registrations({})", self.0.book().len())
    }
}

// === impl Inner ===

impl Inner {
    /// What the store had when it was last read.
    pub(super) fn book(&self) -> Arc<Book> {
        Arc::clone(&self.locked())
    }

    fn locked(&self) -> MutexGuard<'_, Arc<Book>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn kept(&self, server: &ServerId) -> Option<Kept> {
        self.locked().get(server.as_str()).cloned()
    }

    pub(super) async fn turn(&self) -> Turn {
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Reads the store, ends what is over, and goes on with what is there.
    pub(super) async fn look(self: &Arc<Self>, turn: &Turn) -> Result<(), Error> {
        self.read().await?;
        let (mut change, mut events) = (Change::new(), Vec::new());
        let now = SystemTime::now();
        for (id, kept) in self.book().iter().filter(|(_, kept)| kept.record.is_over(now)) {
            change = change.expect(SPACE, id, Some(kept.revision)).remove(SPACE, id);
            if kept.record.is_waiting() {
                events.push(Event::ended(&kept.record, AuditResult::Blocked, "expired").build());
            }
        }
        if !change.is_empty() {
            self.commit(turn, change, events).await?;
        }
        self.forget_all_but(&self.book());
        if self.opened.load(Ordering::Acquire) {
            for kept in self.book().values() {
                self.go_on(kept);
            }
        }
        Ok(())
    }

    async fn read(&self) -> Result<(), Error> {
        let loaded = within(self.store.answers_within(), self.store.load(SPACE)).await?;
        let mut book = Book::new();
        for record in loaded.records {
            let Some(value) = record.value else { continue };
            match value.get::<Record>() {
                Ok(read) => {
                    let kept = Kept { record: Arc::new(read), revision: record.revision };
                    book.insert(record.key, kept);
                }
                // What cannot be read starts nothing, and nobody overwrites it.
                Err(error) => {
                    tracing::error!(server = record.key, %error, "a registration cannot be read");
                }
            }
        }
        *self.locked() = Arc::new(book);
        Ok(())
    }

    /// Writes a record in place of what was there, with the events that tell of it, and begins what it asks for.
    ///
    /// Whoever stops waiting does not stop it in between.
    pub(super) async fn decide(
        self: &Arc<Self>,
        turn: Turn,
        before: Option<Kept>,
        record: Record,
        events: Vec<AuditEvent>,
    ) -> Result<Option<watch::Receiver<Live>>, Error> {
        let inner = Arc::clone(self);
        let decided = tokio::spawn(async move {
            let server = record.program.server();
            let id = record.program.id.as_str();
            let value = Payload::of(&record).map_err(|error| Refused::Unfit(error.to_string()))?;
            let change = Change::new()
                .expect(SPACE, id, before.map(|kept| kept.revision))
                .put(SPACE, id, value);
            inner.commit(&turn, change, events).await.inspect_err(|_| inner.look_again())?;
            let live = inner.kept(&server).and_then(|kept| inner.go_on(&kept));
            Ok(live)
        });
        match decided.await {
            Ok(decided) => decided,
            Err(end) => match end.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(StoreError::Closed.into()),
            },
        }
    }

    /// Looks again after a while: what a store did not answer to may have been kept all the same.
    fn look_again(self: &Arc<Self>) {
        let inner = Arc::downgrade(self);
        tokio::spawn(async move {
            for tried in 0..LOOKS {
                sleep(AGAIN * (1 << tried)).await;
                let Some(inner) = inner.upgrade() else { return };
                let turn = inner.turn().await;
                if inner.look(&turn).await.is_ok() {
                    return;
                }
            }
        });
    }

    /// Removes a record, with the events that tell of it.
    pub(super) async fn take_out(
        &self,
        turn: &Turn,
        kept: &Kept,
        events: Vec<AuditEvent>,
    ) -> Result<(), Error> {
        let id = kept.record.program.id.as_str();
        let change = Change::new().expect(SPACE, id, Some(kept.revision)).remove(SPACE, id);
        self.commit(turn, change, events).await
    }

    async fn commit(
        &self,
        _turn: &Turn,
        mut change: Change,
        events: Vec<AuditEvent>,
    ) -> Result<(), Error> {
        match self.audit.outbox(&*self.store) {
            Some(log) => {
                for event in events {
                    change = change.event(log, event);
                }
            }
            // What cannot be recorded does not happen.
            None => {
                for event in events {
                    self.audit.record(event).await.map_err(Refused::from)?;
                }
            }
        }
        within(self.store.answers_within(), self.store.commit(change)).await?;
        let read = self.read().await;
        self.news.send_modify(|news| *news += 1);
        read
    }

    /// Records what happened whether or not it can be recorded.
    pub(super) async fn tell(&self, event: Event) {
        if let Err(unaudited) = self.audit.record(event.build()).await {
            tracing::error!(error = %unaudited, "what became of a registration could not be recorded");
        }
    }

    /// The end of the time that something waits.
    pub(super) fn until(&self) -> Timestamp {
        let longest = Duration::from_hours(24 * 365);
        (SystemTime::now() + self.config.expires.min(longest)).into()
    }

    /// Does something with files, where it holds up nobody.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        server: &ServerId,
        work: impl FnOnce(&RegistrationConfig) -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let config = Arc::clone(&self.config);
        spawn_blocking(move || work(&config)).await.map_err(|_| Refused::NotThere {
            server: server.clone(),
            reason: "looking at its files failed".to_owned(),
        })
    }

    /// Asks an operator about files that are not those approved.
    pub(super) async fn ask_again(
        self: &Arc<Self>,
        before: Kept,
        program: Proposal,
    ) -> Result<(), Error> {
        let mut record = Record { program, changed: true, ..Record::clone(&before.record) };
        record.asked_at = Timestamp::now();
        record.stage = Stage::Waiting { until: None };
        let event = Event::approval_requested(Actor::kernel(), &record, None);
        let turn = self.turn().await;
        self.decide(turn, Some(before), record, vec![event.build()]).await.map(drop)
    }

    pub(super) fn weak(self: &Arc<Self>) -> Weak<Self> {
        Arc::downgrade(self)
    }
}

/// Refuses whoever is no operator.
pub(super) fn operator(by: &Principal) -> Result<(), Error> {
    if by.authority() == Authority::Operator { Ok(()) } else { Err(Error::NotRegistrar) }
}

/// Whether somebody made a registration.
pub(super) fn is_creator(record: &Record, by: &Principal) -> bool {
    record.by == Creator::of(by)
}
