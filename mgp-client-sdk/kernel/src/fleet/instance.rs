//! Instances of servers: one for all principals, or one for each if the server is isolated (MGP §15.2 `isolation`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use mgp_client_sdk::gateway::{self, NewConnection};
use mgp_client_sdk::{Client, ClientBuilder, ClientConfig, EraChoice, Error};
use mgp_discovery::{ApprovedRegistration, LoginScope, ServerConfig, TargetConfig};
use mgp_types::method::LogMessage;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{Call, Context, Principal, Reply, Router, ServerId};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::context::FleetContext;
use super::log_messages::{HopMetaLayer, ServedPrincipals, forward_log, request_level};
use super::notifier::ServerNotifier;
use super::offer::{offer_callers, offer_to};
use super::remote_health::RemoteHealth;
use super::server_log::ServerLog;
use super::session::{
    KnownEras, LoginState, NegotiatedExtensions, Session, SessionKind, SessionNeeds, SessionUse,
};
use super::start_hold::StartHold;
use super::subscriptions::Source;
use super::target;
use crate::operator_questions::record_unanswered;
use crate::policy;

/// The maximum number of instances per isolated server. If it is reached, an unused one is stopped to make room.
const MAX_INSTANCES: usize = 32;

/// The time after which the unused instance of a principal is stopped.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);

/// The interval at which a busy instance is checked again for idleness.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum time to wait for a usable client after a server has entered the state "connected".
pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// The sessions that one principal, or all principals, have with a server: a main session, and a second one in the
/// legacy era if callers need it.
pub(super) struct Instance {
    parts: InstanceParts,
    main: Arc<Session>,
    legacy: OnceLock<Arc<Session>>,
}

/// The parts from which the sessions of an instance are built.
#[derive(Clone)]
pub(super) struct InstanceParts {
    pub(super) config: Arc<ServerConfig>,
    pub(super) approved: Option<ApprovedRegistration>,
    pub(super) context: FleetContext,
    pub(super) log: Arc<ServerLog>,
    pub(super) hold: StartHold,
    pub(super) eras: Arc<KnownEras>,
    pub(super) negotiated: Arc<NegotiatedExtensions>,
    /// The principal that owns an isolated instance; `None` for the shared instance.
    pub(super) owner: Option<Principal>,
    pub(super) served: ServedPrincipals,
}

impl Instance {
    /// Creates an instance that is not started yet.
    pub(super) fn new(parts: InstanceParts) -> Result<Self, Error> {
        let main = parts.session(SessionKind::Main)?;
        Ok(Self { parts, main: Arc::new(main), legacy: OnceLock::new() })
    }

    pub(super) fn main(&self) -> &Arc<Session> {
        &self.main
    }

    /// Returns the sessions that exist so far.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        std::iter::once(&self.main).chain(self.legacy.get())
    }

    pub(super) fn served(&self) -> &ServedPrincipals {
        &self.parts.served
    }

    pub(super) fn parts(&self) -> &InstanceParts {
        &self.parts
    }

    /// Returns the connected session that was used last, or the main session if none is connected.
    pub(super) fn latest(&self) -> &Arc<Session> {
        let connected = self.sessions().filter(|session| session.present().is_some());
        connected.max_by_key(|session| session.used_at()).unwrap_or(&self.main)
    }

    /// Returns the session that serves a caller, or `None` while the kernel does not know yet which sessions the server
    /// needs.
    pub(super) fn session_for(&self, cx: &Context, of: SessionUse) -> Option<&Arc<Session>> {
        if self.parts.config.era.is_some() || !of.needs_legacy(cx) {
            return Some(&self.main);
        }
        if let Some(client) = self.main.present() {
            self.parts.eras.observe(client.server());
        }
        match self.parts.eras.needs(of) {
            SessionNeeds::Unknown => None,
            SessionNeeds::One => Some(&self.main),
            SessionNeeds::OnePerEra => Some(self.legacy()),
        }
    }

    /// Returns the legacy session; creates it on first use.
    pub(super) fn legacy(&self) -> &Arc<Session> {
        if let Some(legacy) = self.legacy.get() {
            return legacy;
        }
        let Ok(created) = self.parts.session(SessionKind::Legacy) else { return &self.main };
        let legacy = self.legacy.get_or_init(|| Arc::new(created));
        let (parts, session) = (self.parts.clone(), Arc::downgrade(legacy));
        if parts.owner.is_none() {
            tokio::spawn(record_session(session.clone(), Arc::clone(&parts.log)));
        }
        tokio::spawn(restore_on_connect(
            session,
            parts.context,
            parts.config.id.clone(),
            parts.owner,
        ));
        legacy
    }

    /// Connects the session that serves a caller, and returns it with its client. A start of the main session needs one
    /// of the permits, if any are given.
    pub(super) async fn wake_for(
        &self,
        cx: &Context,
        of: SessionUse,
        permits: Option<&Semaphore>,
    ) -> (Arc<Session>, Result<Client, Error>) {
        let session = if let Some(session) = self.session_for(cx, of) {
            session
        } else {
            let woken = self.wake_main(permits).await;
            match self.session_for(cx, of) {
                Some(session) if session.kind() == SessionKind::Legacy => session,
                _ => return (Arc::clone(&self.main), woken),
            }
        };
        if session.kind() == SessionKind::Legacy {
            let (hold, timeout) = (&self.parts.hold, self.wake_timeout());
            if let Some(client) = session.wake_or_stop(hold, timeout, of).await {
                return (Arc::clone(session), Ok(client));
            }
            let is_refused = !hold.forbids_start();
            if is_refused {
                tracing::info!(server = %self.parts.config.id, "no legacy session; using the modern one");
                self.parts.eras.refuse_legacy(of, false);
            }
            let woken = self.wake_main(permits).await;
            if is_refused && woken.is_ok() && self.main.answers().await {
                self.parts.eras.refuse_legacy(of, true);
            }
            return (Arc::clone(&self.main), woken);
        }
        (Arc::clone(&self.main), self.wake_main(permits).await)
    }

    /// Returns the time that a call waits for a server that is started for it.
    fn wake_timeout(&self) -> Duration {
        self.parts.config.start_timeout()
    }

    async fn wake_main(&self, permits: Option<&Semaphore>) -> Result<Client, Error> {
        self.main.wake_with_permit(&self.parts.hold, self.wake_timeout(), permits).await
    }

    /// Returns the kind of the session to which a client (a connection to the server) belongs.
    pub(super) fn kind_of(&self, client: &Client) -> SessionKind {
        let legacy = self.legacy.get().and_then(|legacy| legacy.client().client().ok());
        match legacy {
            Some(legacy) if gateway::weak(&legacy).is(client) => SessionKind::Legacy,
            _ => SessionKind::Main,
        }
    }

    /// Opens the legacy session if its principal had subscriptions in the legacy session of an earlier instance.
    fn resume_legacy(&self) {
        let InstanceParts { config, context, owner, hold, .. } = &self.parts;
        let (server, owner) = (config.id.clone(), owner.clone());
        let source = Source { server, owner, session: SessionKind::Legacy };
        if context.subscriptions.has(&source) {
            let (legacy, hold) = (Arc::clone(self.legacy()), hold.clone());
            let timeout = self.wake_timeout();
            let permits = Arc::clone(&context.start_permits.resumes);
            tokio::spawn(async move {
                legacy.wake_with_permit(&hold, timeout, Some(&permits)).await.map(drop)
            });
        }
    }

    pub(super) async fn stop(&self, reason: &ShutdownReason) {
        let stops = self.sessions().map(|session| session.client().stop(reason.clone()));
        futures_util::future::join_all(stops).await;
    }
}

impl InstanceParts {
    /// Returns the owner of the login at the server; `None` for the login that all agents share.
    pub(super) fn login_owner(&self) -> Option<Principal> {
        let is_own = matches!(
            &self.config.target,
            TargetConfig::Url { auth, .. } if auth.login == LoginScope::Agent
        );
        self.owner.clone().filter(|_| is_own)
    }

    /// Returns whether the server is allowed to send `roots/list` over a legacy session: always if the instance belongs
    /// to one agent; if it is shared, only if the operator has set `roots`.
    ///
    /// In a shared session, one agent's roots would apply to all agents, and could extend what the others can access.
    pub(super) fn answers_roots(&self) -> bool {
        let is_allowed = self.config.mgp.as_ref().is_some_and(|mgp| mgp.roots);
        self.owner.is_some() || is_allowed && !self.config.is_per_agent()
    }

    /// Applies the server's settings to the configuration of the client that connects to it.
    fn configure(&self, client: &mut ClientConfig) {
        // Servers list some tools only to clients with roots, so the instance that reads the lists declares roots.
        offer_callers(client, self.answers_roots() || self.config.is_per_agent());
        client.plain_traceparent = self.config.mgp.as_ref().is_some_and(|mgp| mgp.traceparent);
        let bytes = self.config.limits.max_message.and_then(|bytes| usize::try_from(bytes).ok());
        if let Some(bytes) = bytes {
            client.limits.line_bytes = bytes;
            client.limits.held_bytes = client.limits.held_bytes.max(2 * bytes);
            (client.http.response_bytes, client.http.event_bytes) = (bytes, bytes);
        }
    }

    /// Lets the server ask for roots outside of calls, if that is allowed.
    fn answer_roots(&self, builder: ClientBuilder) -> ClientBuilder {
        if !self.answers_roots() {
            return builder;
        }
        let notifier = self.context.notifier(self.config.id.clone());
        let owner = self.owner.clone();
        gateway::ask_unattributed(builder, move |method| {
            notifier.find_unattributed(method, owner.as_ref())
        })
    }

    fn session(&self, kind: SessionKind) -> Result<Session, Error> {
        let Self { config, context, owner, served, .. } = self;
        let id = config.id.clone();
        let era = match kind {
            SessionKind::Main => config.era.into(),
            SessionKind::Legacy => EraChoice::Legacy,
        };
        let (wait, ungranted) = policy::permission_flow(config);
        let questions = context.questions.clone();
        let builder = Client::builder("mgp", env!("CARGO_PKG_VERSION"));
        // Add these layers before `governed`, so that a call passes the security checks first.
        let builder = context.layers(builder, &id);
        let ask_operator = move |cx, question| questions.clone().ask(cx, question);
        let unanswered = record_unanswered(context.governance.audit());
        let (events, followed, of) = (context.events.clone(), id.clone(), owner.clone());
        // Do not subscribe to the events of the shared instance of an isolated server: it only lists tools, and its
        // events belong to no principal.
        let is_shared = self.approved.is_some() || !config.is_per_agent();
        let is_main = kind == SessionKind::Main && (owner.is_some() || is_shared);
        let negotiated = Arc::clone(&self.negotiated);
        let prepare = move |connection: NewConnection| {
            negotiated.set(kind, connection.client().server().mgp.unwrap_or_default());
            let (events, server, owner) = (events.clone(), followed.clone(), of.clone());
            async move {
                if is_main {
                    events.follow(&connection, &server, owner).await;
                }
            }
        };
        let builder = gateway::on_connection(builder, prepare);
        let mut builder = gateway::pass_callbacks(builder, ask_operator, unanswered)
            .governed(&context.governance, id.clone())
            .era(era)
            .layer(HopMetaLayer)
            .config(|config| {
                self.configure(config);
                config.connect.permission_timeout = wait;
                (config.connect.on_denied, config.connect.on_deferred) = (ungranted, ungranted);
            });
        builder = gateway::share_probe_failure(builder, self.eras.fails_at_probe().clone());
        // Limit the extensions only now, because the callback handler above offers callbacks, which the limit may
        // exclude.
        builder = offer_to(builder, context.proposals.with_servers(), config);
        if let Some(retries) = policy::retries(config) {
            builder = builder.retry(retries);
        }
        if let Some(checks) = policy::health_checks(config) {
            builder = builder.replace_unhealthy(checks);
        }
        let source = Source { server: id.clone(), owner: owner.clone(), session: kind };
        builder = handle_notifications(builder, &context.notifier(id.clone()), &source, served);
        builder = self.answer_roots(builder);
        let target = target::target(self);
        let client = gateway::supervise(builder, target, policy::supervision(config))?;
        let login = LoginState { log: Arc::clone(&self.log), owner: self.login_owner() };
        let health = RemoteHealth::new(policy::is_remote(config));
        let limits = policy::round_limits(context.config.config().kernel.form_timeout);
        Ok(Session::new(kind, id, client, login, health, limits.ttl))
    }
}

/// Adds handlers that forward what a server sends outside of calls (changes, log messages, questions) to the clients.
fn handle_notifications(
    builder: ClientBuilder,
    notifier: &ServerNotifier,
    source: &Source,
    served: &ServedPrincipals,
) -> ClientBuilder {
    let (changes, logs, logged) = (notifier.clone(), notifier.clone(), source.owner.clone());
    let changed = source.clone();
    let served = served.clone();
    builder.on_change(move |change| changes.handle(change, &changed)).handlers(
        Router::new().on_notification::<LogMessage, _, _>(move |cx, message| {
            forward_log(&logs, logged.as_ref(), &served, &cx, message);
            std::future::ready(Ok(()))
        }),
    )
}

/// The instances of an isolated server, by principal.
pub(super) struct Instances(Arc<InstanceTable>);

struct InstanceTable {
    /// The parts that all instances have in common; their `owner` is `None`, and each instance sets its own.
    parts: InstanceParts,
    by_owner: Mutex<HashMap<Principal, Arc<AgentInstance>>>,
}

/// The instance of one principal.
struct AgentInstance {
    instance: Instance,
    running: AtomicUsize,
    used_at: Mutex<Instant>,
}

impl Instances {
    pub(super) fn new(parts: InstanceParts) -> Self {
        Self(Arc::new(InstanceTable { parts, by_owner: Mutex::default() }))
    }

    /// Returns the instance of a principal, created if necessary, in a guard that keeps it running.
    pub(super) fn get_or_create(&self, owner: &Principal) -> Result<InstanceGuard, RpcError> {
        let InstanceTable { parts, by_owner } = &*self.0;
        let mut table = by_owner.lock();
        if let Some(instance) = table.get(owner) {
            return Ok(InstanceGuard::new(instance));
        }
        if table.len() >= MAX_INSTANCES {
            let unused = table
                .iter()
                .filter(|(owner, instance)| instance.is_free() && !self.0.has_subscription(owner));
            let oldest = unused.min_by_key(|(_, instance)| instance.used_at());
            let Some(oldest) = oldest.map(|(owner, _)| owner.clone()) else {
                return Err(too_many(&parts.config));
            };
            self.0.remove(&mut table, &oldest);
        }
        let instance = Instance::new(InstanceParts {
            owner: Some(owner.clone()),
            served: ServedPrincipals::default(),
            ..parts.clone()
        })?;
        let used_at = Mutex::new(Instant::now());
        let instance = Arc::new(AgentInstance { instance, running: AtomicUsize::new(0), used_at });
        table.insert(owner.clone(), Arc::clone(&instance));
        let (context, server) = (parts.context.clone(), parts.config.id.clone());
        let main = Arc::downgrade(instance.instance.main());
        tokio::spawn(restore_on_connect(main, context, server, Some(owner.clone())));
        instance.instance.resume_legacy();
        let weak = Arc::downgrade(&instance);
        tokio::spawn(stop_idle(Arc::downgrade(&self.0), owner.clone(), weak));
        Ok(InstanceGuard::new(&instance))
    }

    pub(super) fn sessions(&self) -> Vec<Arc<Session>> {
        let table = self.0.by_owner.lock();
        table.values().flat_map(|one| one.instance.sessions()).cloned().collect()
    }

    /// Returns the connected clients of a principal's instance of the server.
    pub(super) fn clients_of(&self, owner: &Principal) -> Vec<Client> {
        let instance = self.0.by_owner.lock().get(owner).cloned();
        instance.iter().flat_map(|one| one.instance.sessions()).filter_map(connected).collect()
    }

    /// Returns the kind of the session to which a client of a principal's instance belongs.
    pub(super) fn kind_of(&self, owner: &Principal, client: &Client) -> SessionKind {
        let instance = self.0.by_owner.lock().get(owner).cloned();
        instance.map_or(SessionKind::Main, |one| one.instance.kind_of(client))
    }

    /// Returns the connected clients of all instances, each with the owner of its instance.
    pub(super) fn clients(&self) -> Vec<(Principal, Client)> {
        let table = self.0.by_owner.lock();
        let of_each = table.iter().flat_map(|(owner, one)| {
            let clients = one.instance.sessions().filter_map(connected);
            clients.map(move |client| (owner.clone(), client))
        });
        of_each.collect()
    }

    pub(super) async fn stop(&self) {
        let InstanceTable { parts, by_owner } = &*self.0;
        let (owners, all): (Vec<_>, Vec<_>) = by_owner.lock().drain().unzip();
        parts.context.stopped.add(&parts.config.id, owners);
        let reason = ShutdownReason::OperatorRequest;
        let stops = all.iter().map(|one| one.instance.stop(&reason));
        futures_util::future::join_all(stops).await;
    }
}

impl InstanceTable {
    /// Returns whether a principal is subscribed to any resource or event; if so, its instance counts as used.
    fn has_subscription(&self, owner: &Principal) -> bool {
        let InstanceParts { config, context, .. } = &self.parts;
        context.has_subscriber(&config.id, owner)
    }

    fn remove(&self, table: &mut HashMap<Principal, Arc<AgentInstance>>, owner: &Principal) {
        let Some(instance) = table.remove(owner) else { return };
        tracing::debug!(server = %self.parts.config.id, ?owner, "stopping idle instance");
        tokio::spawn(async move {
            instance.instance.stop(&ShutdownReason::IdleTimeout).await;
        });
    }
}

impl AgentInstance {
    fn touch(&self) {
        *self.used_at.lock() = Instant::now();
    }

    fn used_at(&self) -> Instant {
        *self.used_at.lock()
    }

    fn is_free(&self) -> bool {
        let is_running = self.running.load(Ordering::Acquire) > 0;
        !is_running && self.instance.sessions().all(|session| session.hop().parked() == 0)
    }
}

/// Returns the client of a session, or `None` if it is not connected.
fn connected(session: &Arc<Session>) -> Option<Client> {
    session.client().client().ok()
}

/// A guard of an instance: the instance counts as used until the guard is dropped.
pub(super) struct InstanceGuard(Arc<AgentInstance>);

impl InstanceGuard {
    fn new(instance: &Arc<AgentInstance>) -> Self {
        instance.running.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(instance))
    }

    /// Opens in tasks the sessions over which the owner is subscribed to resources or events.
    pub(super) fn resume(self) {
        let InstanceParts { config, context, owner, .. } = self.0.instance.parts();
        let (server, owner) = (config.id.clone(), owner.clone());
        let has_events = context.events.hub().has_subscriber(&server, owner.as_ref());
        let main = Source { server, owner, session: SessionKind::Main };
        let needs_main = has_events || context.subscriptions.has(&main);
        self.0.instance.resume_legacy();
        if needs_main {
            let permits = Arc::clone(&context.start_permits.resumes);
            tokio::spawn(async move { self.0.instance.wake_main(Some(&permits)).await.map(drop) });
        }
    }

    /// Returns the client of the session that serves a caller, and connects the session if that is allowed.
    pub(super) async fn wake(&self, cx: &Context, of: SessionUse) -> Result<Client, Error> {
        self.0.instance.wake_for(cx, of, None).await.1
    }

    pub(super) async fn send(self, call: Call) -> Result<Reply, RpcError> {
        let (session, woken) = self.0.instance.wake_for(call.cx(), SessionUse::Call, None).await;
        if let Err(error) = woken {
            tracing::debug!(%error, "instance not ready for a call");
        }
        session.send(call).await
    }
}

impl Drop for InstanceGuard {
    fn drop(&mut self) {
        self.0.touch();
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Stops an instance after it has been unused for [`IDLE_TIMEOUT`].
async fn stop_idle(table: Weak<InstanceTable>, owner: Principal, instance: Weak<AgentInstance>) {
    loop {
        let Some(due) = instance.upgrade().map(|one| one.used_at() + IDLE_TIMEOUT) else { return };
        tokio::time::sleep_until(due.max(Instant::now() + IDLE_INTERVAL)).await;
        let (Some(table), Some(instance)) = (table.upgrade(), instance.upgrade()) else { return };
        let mut by_owner = table.by_owner.lock();
        if table.has_subscription(&owner) {
            instance.touch();
        } else if instance.is_free() && instance.used_at().elapsed() >= IDLE_TIMEOUT {
            // Remove only this instance: a new one may have replaced it.
            if by_owner.get(&owner).is_some_and(|present| Arc::ptr_eq(present, &instance)) {
                table.remove(&mut by_owner, &owner);
            }
            return;
        }
    }
}

/// Records the states of a legacy session in the server's log until the session is dropped.
async fn record_session(session: Weak<Session>, log: Arc<ServerLog>) {
    let states = session.upgrade().map(|session| session.client().state().watch());
    let Some(mut states) = states else { return };
    loop {
        states.borrow_and_update();
        let Some(session) = session.upgrade() else { return };
        let (state, reason) = session.client().state().latest();
        log.set_state(session.kind(), &state, reason.as_deref());
        drop(session);
        if states.changed().await.is_err() {
            return;
        }
    }
}

/// Repeats the clients' subscriptions and log levels whenever a session has connected, until the session is
/// dropped.
async fn restore_on_connect(
    session: Weak<Session>,
    context: FleetContext,
    server: ServerId,
    owner: Option<Principal>,
) {
    let states = session.upgrade().map(|session| session.client().state().watch());
    let Some(mut states) = states else { return };
    let notifier = context.notifier(server.clone());
    loop {
        if *states.borrow_and_update() == ServerState::Connected {
            let Some(session) = session.upgrade() else { return };
            let ready = tokio::time::timeout(READY_TIMEOUT, session.client().ready()).await;
            if let Ok(Ok(client)) = ready {
                if let Some(level) = notifier.wanted_level(owner.as_ref()) {
                    request_level(&client, &server, level).await;
                }
                let (server, owner) = (server.clone(), owner.clone());
                let source = Source { server, owner, session: session.kind() };
                context.subscriptions.restore(source, &client, &notifier);
            }
        }
        if states.changed().await.is_err() {
            return;
        }
    }
}

fn too_many(config: &ServerConfig) -> RpcError {
    RpcError::new(
        ErrorCode::RESOURCE_EXHAUSTED,
        format!(
            "all {MAX_INSTANCES} instances of `{}` are in use; try again once one is free",
            config.id
        ),
    )
}
