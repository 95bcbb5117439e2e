//! The registrations: their records in the store, and the only functions that change the records (MGP §15.4).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use mgp_types::mgp::{Actor, AuditEvent, AuditResult};
use mgp_types::service::{
    AuditSink, Authority, Hidden, MemoryAudit, Principal, ServerId, Visibility, visibility,
};
use mgp_types::store::{Change, Store, StoreError, with_timeout};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError, Timestamp};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::config::RegistrationConfig;
use super::event::Event;
use super::rate::CallRate;
use super::record::{Creator, Proposal, Record, SPACE, Stage};
use super::refusal::RegistrationError as Refused;
use super::rejections::add_rejection;
use super::review::PendingRegistration;
use super::servers::{CodeJudge, ServerRunner};
use super::work::{Progress, Work};
use crate::error::DiscoveryError;
use crate::registry::{KnownServer, ServerCatalog};

/// The delay before the first attempt to read the store again after a failed write.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of attempts to read the store again after a failed write.
const MAX_RETRIES: u32 = 8;

/// The servers that are registered at run time.
///
/// An approved registration is stored, and started again when the kernel starts. Each start either runs exactly what
/// was approved, or fails. A removal that a crash of the kernel interrupts is completed at its next start.
///
/// An implementation of [`ServerRunner`] that refers to this value must use a weak reference. Otherwise the two keep
/// each other alive and are never dropped.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use mgp_discovery::{ApprovedRegistration, ServerCatalog, KnownServer, Registrations, ServerRunner};
/// use mgp_types::RpcError;
/// use mgp_types::service::{BoxFuture, Principal, ServerId, Stack, mock};
/// use mgp_types::store::MemoryStore;
///
/// /// Runs nothing.
/// struct Idle;
///
/// impl ServerCatalog for Idle {
///     fn known(&self) -> Vec<KnownServer> {
///         Vec::new()
///     }
/// }
///
/// impl ServerRunner for Idle {
///     fn is_configured(&self, server: &ServerId) -> bool {
///         server.as_str() == "files"
///     }
///     fn start(&self, server: ApprovedRegistration) -> BoxFuture<'static, Result<(), RpcError>> {
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
/// assert_eq!(refused.code().0, 1000, "not granted");
///
/// client.cx.principal = Principal::local().operator();
/// let answer = client.request("mgp/discovery/register", &params("made")).await.unwrap();
/// assert!(answer.as_str().starts_with(r#"{"id":"made","status":"connected""#));
/// let taken = client.request("mgp/discovery/register", &params("files")).await.unwrap_err();
/// assert_eq!(taken.code().0, 4101, "the id is configured");
/// # std::fs::remove_file(program).unwrap();
/// # });
/// ```
#[derive(Clone)]
pub struct Registrations(pub(super) Arc<RegistrationState>);

/// A builder of [`Registrations`].
#[must_use = "nothing is registered until it is built"]
pub struct RegistrationsBuilder {
    store: Arc<dyn Store>,
    servers: Arc<dyn ServerRunner>,
    audit: Arc<dyn AuditSink>,
    authorized_by: Arc<dyn Visibility>,
    judge: Option<Arc<dyn CodeJudge>>,
    config: RegistrationConfig,
}

pub(super) struct RegistrationState {
    pub(super) store: Arc<dyn Store>,
    pub(super) servers: Arc<dyn ServerRunner>,
    pub(super) audit: Arc<dyn AuditSink>,
    pub(super) may: Arc<dyn Visibility>,
    pub(super) judge: Option<Arc<dyn CodeJudge>>,
    pub(super) config: Arc<RegistrationConfig>,
    pub(super) rate: CallRate,
    /// The lock for changes. A function that changes records holds the lock from reading the records until its change
    /// is stored.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// `true` once `open` has begun to resume work; before that, reading the records starts and removes no servers.
    opened: AtomicBool,
    /// The records of the store at the last read.
    records: Mutex<Arc<Records>>,
    /// The work on each server, running or finished, by server id.
    pub(super) work: Mutex<HashMap<ServerId, Work>>,
}

/// A lock guard that gives its holder the exclusive right to change registrations.
pub(super) type Turn = tokio::sync::OwnedMutexGuard<()>;

/// The registrations by server id.
pub(super) type Records = BTreeMap<String, StoredRegistration>;

/// A registration, with the revision that the store assigned to its last write.
#[derive(Clone)]
pub(super) struct StoredRegistration {
    pub(super) record: Arc<Record>,
    pub(super) revision: u64,
}

impl RegistrationsBuilder {
    /// Sets the audit sink. By default events are kept only in memory.
    ///
    /// If the sink writes its events to the same store, the store commits a change and its events together.
    pub fn audit(mut self, audit: Arc<dyn AuditSink>) -> Self {
        self.audit = audit;
        self
    }

    /// Sets the rule for callers who are not operators: such a caller may register and deregister servers if it can see
    /// the method as a kernel tool, e.g. `mgp.discovery.register`.
    ///
    /// By default, only operators may register and deregister servers.
    pub fn authorized_by(mut self, may: Arc<dyn Visibility>) -> Self {
        self.authorized_by = may;
        self
    }

    /// Sets the judge of the code of sandboxed servers; without a judge, such code cannot be registered.
    pub fn judge(mut self, judge: Arc<dyn CodeJudge>) -> Self {
        self.judge = Some(judge);
        self
    }

    /// Sets the limits and folders of registrations.
    pub fn config(mut self, config: RegistrationConfig) -> Self {
        self.config = config;
        self
    }

    /// Creates the registrations; no server is started before [`open`](Registrations::open) is called.
    #[must_use]
    pub fn build(self) -> Registrations {
        let Self { store, servers, audit, authorized_by: may, judge, config } = self;
        Registrations(Arc::new(RegistrationState {
            store,
            servers,
            audit,
            may,
            judge,
            config: Arc::new(config),
            rate: CallRate::default(),
            turn: Arc::default(),
            opened: AtomicBool::new(false),
            records: Mutex::default(),
            work: Mutex::default(),
        }))
    }
}

mgp_types::opaque_debug!(RegistrationsBuilder { config });

impl Registrations {
    /// Creates a builder; `store` holds the records, and `servers` starts and stops the servers.
    pub fn builder(store: Arc<dyn Store>, servers: Arc<dyn ServerRunner>) -> RegistrationsBuilder {
        RegistrationsBuilder {
            store,
            servers,
            audit: Arc::new(MemoryAudit::new()),
            authorized_by: Arc::new(visibility(|_, _, _| Err(Hidden::new("operators only")))),
            judge: None,
            config: RegistrationConfig::default(),
        }
    }

    /// Reads the store and resumes work: starts approved servers, and completes removals.
    ///
    /// Must be called once, after the configuration was loaded. When this function returns, the [`ServerRunner`] knows
    /// each approved server, but some starts and removals may still be running.
    ///
    /// # Errors
    /// [`DiscoveryError`] if the registrations cannot be read, or expired ones cannot be removed; the function may then
    /// be called again.
    ///
    /// # Cancel safety
    /// If the future is dropped, the function may be called again.
    pub async fn open(&self) -> Result<(), DiscoveryError> {
        let state = &self.0;
        let turn = state.turn().await;
        state.refresh(&turn).await?;
        drop(turn);
        self.end_earlier_creations().await;
        let turn = state.turn().await;
        state.opened.store(true, Ordering::Release);
        state.refresh(&turn).await?;
        let records = state.records();
        let starting = records.values().filter(|stored| stored.record.is_approved());
        let starting: Vec<_> = starting.filter_map(|stored| state.resume(stored)).collect();
        // Release the lock here, because a removal needs it.
        drop(turn);
        for mut live in starting {
            // Wait for the first progress message, which is sent once the runner knows the server.
            let _ = live.changed().await;
        }
        Ok(())
    }

    /// Returns the ids of the approved servers that are not being removed.
    #[must_use]
    pub fn approved(&self) -> Vec<ServerId> {
        let records = self.0.records();
        let approved = records.values().filter(|stored| stored.record.is_approved());
        approved.map(|stored| stored.record.program.server()).collect()
    }

    /// Returns whether a store contains an approved registration with this id that is not being removed. Use it in
    /// programs that run no servers.
    ///
    /// # Errors
    /// [`DiscoveryError::Store`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn is_approved_in(
        store: &dyn Store,
        server: &ServerId,
    ) -> Result<bool, DiscoveryError> {
        let records = store.load(SPACE).await?.records.into_iter();
        let mut of = records.filter(|record| record.key == server.as_str());
        let read = of.find_map(|record| record.value?.get::<Record>().ok());
        Ok(read.is_some_and(|record| record.is_approved()))
    }

    /// Returns the ids of the servers in a store that an operator approved and that are not being removed. Includes
    /// servers whose files have changed since the approval. Use it in programs that run no servers.
    ///
    /// # Errors
    /// [`DiscoveryError::Store`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn registered_in(store: &dyn Store) -> Result<BTreeSet<ServerId>, DiscoveryError> {
        let records = store.load(SPACE).await?.records.into_iter();
        let read = records.filter_map(|record| record.value?.get::<Record>().ok());
        let registered =
            read.filter(|record| record.is_approved() || record.is_waiting() && record.changed);
        Ok(registered.map(|record| record.program.server()).collect())
    }

    /// Applies a changed configuration to the registrations. If the configuration now uses the id of a registered
    /// server, the registered server is drained and suspended. A suspended server is started again when the
    /// configuration no longer uses its id.
    ///
    /// Call this after [`ServerRunner::is_configured`] reflects the new configuration, and before the configured
    /// servers are started.
    ///
    /// # Errors
    /// [`DiscoveryError`] if the registrations cannot be read, or expired ones cannot be removed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the function may be called again, and then completes unfinished drains.
    pub async fn reconfigured(&self) -> Result<(), DiscoveryError> {
        let state = &self.0;
        let turn = state.turn().await;
        state.refresh(&turn).await?;
        let mut suspended = Vec::new();
        for stored in state.records().values() {
            let server = stored.record.program.server();
            if state.servers.is_configured(&server) {
                suspended.extend(state.suspend(stored));
            } else {
                state.resume_suspended(stored);
            }
        }
        // Release the lock here, because a removal needs it.
        drop(turn);
        for stopped in suspended {
            stopped.await;
        }
        Ok(())
    }

    /// Returns the registrations that wait for an operator, in the order of their server ids.
    ///
    /// # Errors
    /// [`DiscoveryError::NotRegistrar`] for callers who are not operators; [`DiscoveryError`] if the registrations
    /// cannot be read, or expired ones cannot be removed.
    pub async fn pending(
        &self,
        by: &Principal,
    ) -> Result<Vec<PendingRegistration>, DiscoveryError> {
        operator(by)?;
        let turn = self.0.turn().await;
        self.0.refresh(&turn).await?;
        let records = self.0.records();
        Ok(records.values().filter_map(|stored| PendingRegistration::of(&stored.record)).collect())
    }

    /// Returns the registrations in a store that wait for an operator, except tools that an agent creates in its
    /// session. Use it in programs that run no servers.
    ///
    /// # Errors
    /// [`DiscoveryError::Store`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn pending_in(store: &dyn Store) -> Result<Vec<PendingRegistration>, DiscoveryError> {
        let now = SystemTime::now();
        let records = store.load(SPACE).await?.records.into_iter();
        let read = records.filter_map(|record| record.value?.get::<Record>().ok());
        let current = read.filter(|record| !record.is_over(now) && record.created.is_none());
        Ok(current.filter_map(|record| PendingRegistration::of(&record)).collect())
    }

    /// Returns a catalog of the servers and of the registrations that are not running, for
    /// [`list_router`](crate::list_router).
    #[must_use]
    pub fn fleet(&self) -> Arc<dyn ServerCatalog> {
        Arc::new(self.clone())
    }
}

impl ServerCatalog for Registrations {
    fn known(&self) -> Vec<KnownServer> {
        let mut known = self.0.servers.known();
        for stored in self.0.records().values() {
            let id = stored.record.program.id.as_str();
            if !known.iter().any(|known| known.summary.id == id)
                && !stored.record.is_over(SystemTime::now())
            {
                known.push(self.0.list_entry(&stored.record));
            }
        }
        known
    }
}

mgp_types::opaque_debug!(Registrations);

impl RegistrationState {
    /// Returns the records of the store at the last read.
    pub(super) fn records(&self) -> Arc<Records> {
        Arc::clone(&self.records.lock())
    }

    pub(super) fn stored(&self, server: &ServerId) -> Option<StoredRegistration> {
        self.records.lock().get(server.as_str()).cloned()
    }

    pub(super) async fn turn(&self) -> Turn {
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Reads the store, removes expired records, and, once `open` was called, begins the starts and removals that the
    /// other records require.
    pub(super) async fn refresh(self: &Arc<Self>, turn: &Turn) -> Result<(), DiscoveryError> {
        self.read().await?;
        let (mut change, mut events) = (Change::new(), Vec::new());
        let now = SystemTime::now();
        for (id, stored) in self.records().iter().filter(|(_, stored)| stored.record.is_over(now)) {
            change = change.expect_revision(SPACE, id, Some(stored.revision)).remove(SPACE, id);
            if stored.record.is_waiting() {
                events.push(Event::ended(&stored.record, AuditResult::Blocked, "expired").build());
            }
        }
        if !change.is_empty() {
            self.commit(turn, change, events).await?;
        }
        self.forget_all_but(&self.records());
        if self.opened.load(Ordering::Acquire) {
            for stored in self.records().values() {
                self.resume(stored);
            }
        }
        Ok(())
    }

    async fn read(&self) -> Result<(), DiscoveryError> {
        let loaded = with_timeout(self.store.answer_timeout(), self.store.load(SPACE)).await?;
        let mut records = Records::new();
        for record in loaded.records {
            let Some(value) = record.value else { continue };
            match value.get::<Record>() {
                Ok(read) => {
                    let stored =
                        StoredRegistration { record: Arc::new(read), revision: record.revision };
                    records.insert(record.key, stored);
                }
                // Skip an unreadable record: its server is not started, and the record stays in the store.
                Err(error) => {
                    tracing::error!(server = record.key, %error, "unreadable registration");
                }
            }
        }
        *self.records.lock() = Arc::new(records);
        Ok(())
    }

    /// Stores a record together with its events, begins the start or removal that the record requires, and returns the
    /// progress of that work.
    ///
    /// The change is completed even if the caller's future is dropped.
    pub(super) async fn decide(
        self: &Arc<Self>,
        turn: Turn,
        before: Option<StoredRegistration>,
        record: Record,
        events: Vec<AuditEvent>,
    ) -> Result<Option<watch::Receiver<Progress>>, DiscoveryError> {
        let state = Arc::clone(self);
        let decided = tokio::spawn(async move {
            let server = record.program.server();
            let id = record.program.id.as_str();
            let unwritable = |error: RpcError| Refused::InvalidParams(error.to_string());
            let value = Payload::of(&record).map_err(unwritable)?;
            let change = Change::new()
                .expect_revision(SPACE, id, before.map(|stored| stored.revision))
                .put(SPACE, id, value);
            let change = add_rejection(change, &record, state.until()).map_err(unwritable)?;
            state.commit(&turn, change, events).await.inspect_err(|_| state.refresh_later())?;
            let live = state.stored(&server).and_then(|stored| state.resume(&stored));
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

    /// Reads the store again after a delay, because the store might have committed a change although it returned an
    /// error.
    fn refresh_later(self: &Arc<Self>) {
        let state = Arc::downgrade(self);
        tokio::spawn(async move {
            for tried in 0..MAX_RETRIES {
                sleep(RETRY_INTERVAL * (1 << tried)).await;
                let Some(state) = state.upgrade() else { return };
                let turn = state.turn().await;
                if state.refresh(&turn).await.is_ok() {
                    return;
                }
            }
        });
    }

    /// Removes a record, and records the events of the removal.
    pub(super) async fn remove_record(
        &self,
        turn: &Turn,
        stored: &StoredRegistration,
        events: Vec<AuditEvent>,
    ) -> Result<(), DiscoveryError> {
        let id = stored.record.program.id.as_str();
        let change =
            Change::new().expect_revision(SPACE, id, Some(stored.revision)).remove(SPACE, id);
        self.commit(turn, change, events).await
    }

    pub(super) async fn commit(
        &self,
        _turn: &Turn,
        mut change: Change,
        events: Vec<AuditEvent>,
    ) -> Result<(), DiscoveryError> {
        match self.audit.outbox(&*self.store) {
            Some(log) => {
                for event in events {
                    change = change.event(log, event);
                }
            }
            // The sink does not write to this store, so the two cannot be committed together. Record the events first,
            // because a change that cannot be recorded must not be made.
            None => {
                for event in events {
                    self.audit.record(event).await.map_err(Refused::from)?;
                }
            }
        }
        with_timeout(self.store.answer_timeout(), self.store.commit(change)).await?;
        self.read().await
    }

    /// Records the event of something that has already happened; a failure to record it is only logged.
    pub(super) async fn record_event(&self, event: Event) {
        if let Err(unaudited) = self.audit.record(event.build()).await {
            tracing::error!(error = %unaudited, "audit failed: the outcome of a registration was not recorded");
        }
    }

    /// Returns the time when a new waiting registration expires.
    pub(super) fn until(&self) -> Timestamp {
        let longest = Duration::from_hours(24 * 365);
        (SystemTime::now() + self.config.ttl.min(longest)).into()
    }

    /// Runs a function that reads or writes files, on a thread for blocking work.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        server: &ServerId,
        work: impl FnOnce(&RegistrationConfig) -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let config = Arc::clone(&self.config);
        spawn_blocking(move || work(&config)).await.map_err(|_| Refused::MissingFile {
            server: server.clone(),
            reason: "reading its files failed".to_owned(),
        })
    }

    /// Requests a new approval for a registration whose files differ from the approved files.
    pub(super) async fn ask_again(
        self: &Arc<Self>,
        before: StoredRegistration,
        program: Proposal,
    ) -> Result<(), DiscoveryError> {
        let mut record = Record { program, changed: true, ..Record::clone(&before.record) };
        record.asked_at = Timestamp::now();
        record.stage = Stage::Waiting { until: None };
        let event = Event::approval_requested(Actor::kernel(), &record, None);
        let turn = self.turn().await;
        self.decide(turn, Some(before), record, vec![event.build()]).await.map(drop)
    }
}

/// Returns an error if the caller is not an operator.
pub(super) fn operator(by: &Principal) -> Result<(), DiscoveryError> {
    if by.authority() == Authority::Operator { Ok(()) } else { Err(DiscoveryError::NotRegistrar) }
}

pub(super) fn is_creator(record: &Record, by: &Principal) -> bool {
    record.by == Creator::of(by)
}
