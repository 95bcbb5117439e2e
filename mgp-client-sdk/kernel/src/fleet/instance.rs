//! An instance of a server: the sessions with it that serve one principal or all principals.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use mgp_client_sdk::gateway::{self, NewConnection};
use mgp_client_sdk::{Client, ClientBuilder, ClientConfig, EraChoice, Error};
use mgp_discovery::{ApprovedRegistration, LoginScope, ServerConfig, TargetConfig};
use mgp_types::method::LogMessage;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{Context, Principal, Router, ServerId};
use tokio::sync::Semaphore;

use super::context::FleetContext;
use super::era_choice::{
    KnownEras, LegacyFailure, NegotiatedExtensions, SessionKind, SessionNeeds, SessionUse,
};
use super::log_messages::{HopMetaLayer, ServedPrincipals, forward_log, request_level};
use super::notifier::ServerNotifier;
use super::offer::{offer_callers, offer_to};
use super::remote_health::RemoteHealth;
use super::server_log::ServerLog;
use super::session::{LoginState, Session};
use super::start_hold::StartHold;
use super::subscriptions::Source;
use super::target;
use crate::operator_questions::record_unanswered;
use crate::policy;

/// The maximum time to wait for a usable client (a connection) after a server has entered the state "connected".
pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// The sessions with a server that serve one principal or all principals. They are a main session and, if callers need
/// it, a second session in the legacy era.
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

    /// Returns the connected session that was last used, or the main session if none is connected.
    pub(super) fn latest(&self) -> &Arc<Session> {
        let connected = self.sessions().filter(|session| session.present().is_some());
        connected.max_by_key(|session| session.used_at()).unwrap_or(&self.main)
    }

    /// Returns the session that serves a caller, or `None` while the kernel does not know yet which sessions the server
    /// needs.
    pub(super) fn session_for(
        &self,
        cx: &Context,
        session_use: SessionUse,
    ) -> Option<&Arc<Session>> {
        if self.parts.config.era.is_some() || !session_use.needs_legacy(cx) {
            return Some(&self.main);
        }
        if let Some(client) = self.main.present() {
            self.parts.eras.observe(client.server());
        }
        match self.parts.eras.needs(session_use) {
            SessionNeeds::Unknown => None,
            SessionNeeds::One => Some(&self.main),
            SessionNeeds::OnePerEra => Some(self.legacy()),
        }
    }

    /// Returns the legacy session; creates it on first use. Returns the main session if it cannot be created.
    pub(super) fn legacy(&self) -> &Arc<Session> {
        if let Some(legacy) = self.legacy.get() {
            return legacy;
        }
        let Ok(created) = self.parts.session(SessionKind::Legacy) else { return &self.main };
        // Start the tasks here, so that a session that another thread has created meanwhile does not get them twice.
        self.legacy.get_or_init(|| {
            let legacy = Arc::new(created);
            let (parts, session) = (self.parts.clone(), Arc::downgrade(&legacy));
            if parts.owner.is_none() {
                tokio::spawn(record_session(session.clone(), Arc::clone(&parts.log)));
            }
            let server = parts.config.id.clone();
            tokio::spawn(restore_on_connect(session, parts.context, server, parts.owner));
            legacy
        })
    }

    /// Connects the session that serves a caller, and returns the session with its client. Uses the main session if the
    /// legacy session cannot be used. If permits are given, the main session starts only with one of them.
    pub(super) async fn wake_for(
        &self,
        cx: &Context,
        session_use: SessionUse,
        permits: Option<&Semaphore>,
    ) -> (Arc<Session>, Result<Client, Error>) {
        let session = if let Some(session) = self.session_for(cx, session_use) {
            session
        } else {
            let woken = self.wake_main(permits).await;
            match self.session_for(cx, session_use) {
                Some(session) if session.kind() == SessionKind::Legacy => session,
                _ => return (Arc::clone(&self.main), woken),
            }
        };
        if session.kind() == SessionKind::Legacy {
            let (hold, timeout) = (&self.parts.hold, self.wake_timeout());
            if let Some(client) = session.wake_or_stop(hold, timeout, session_use).await {
                return (Arc::clone(session), Ok(client));
            }
            let is_refused = !hold.forbids_start();
            if is_refused {
                tracing::info!(server = %self.parts.config.id, "no legacy session; using the modern one");
                self.parts.eras.refuse_legacy(session_use, LegacyFailure::Unanswered);
            }
            let woken = self.wake_main(permits).await;
            if is_refused && woken.is_ok() && self.main.answers().await {
                self.parts.eras.refuse_legacy(session_use, LegacyFailure::Refused);
            }
            return (Arc::clone(&self.main), woken);
        }
        (Arc::clone(&self.main), self.wake_main(permits).await)
    }

    /// Returns the time for which a call waits for a server that it has started.
    fn wake_timeout(&self) -> Duration {
        self.parts.config.start_timeout()
    }

    pub(super) async fn wake_main(&self, permits: Option<&Semaphore>) -> Result<Client, Error> {
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

    /// Opens the legacy session again if clients have subscriptions in it. They subscribed in an earlier instance of
    /// the same principal.
    pub(super) fn resume_legacy(&self) {
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

    /// Drains and stops all sessions. If `drain` is given, running calls have at most this time to finish.
    pub(super) async fn stop(&self, reason: &ShutdownReason, drain: Option<Duration>) {
        let drain = drain.unwrap_or(Duration::MAX);
        let stops =
            self.sessions().map(|session| session.client().stop_within(reason.clone(), drain));
        futures_util::future::join_all(stops).await;
    }
}

impl InstanceParts {
    /// Returns the owner of the instance's login at the server; `None` if the instance uses the login that all agents
    /// share.
    pub(super) fn login_owner(&self) -> Option<Principal> {
        let is_own = matches!(
            &self.config.target,
            TargetConfig::Url { auth, .. } if auth.login == LoginScope::Agent
        );
        self.owner.clone().filter(|_| is_own)
    }

    /// Returns whether the server may send `roots/list` over a legacy session of this instance: always if the instance
    /// belongs to one agent; if agents share the instance, only if the operator has set `roots`.
    ///
    /// In a shared session, the roots of one agent would apply to all agents, and could extend what the other agents
    /// can access.
    pub(super) fn answers_roots(&self) -> bool {
        let is_allowed = self.config.mgp.as_ref().is_some_and(|mgp| mgp.roots);
        self.owner.is_some() || is_allowed && !self.config.is_per_agent()
    }

    /// Applies the server's settings to the configuration of the client that connects to it.
    fn configure(&self, client: &mut ClientConfig) {
        // Some servers list some of their tools only to clients with roots. So also declare roots in the instance that
        // only reads the lists.
        offer_callers(client, self.answers_roots() || self.config.is_per_agent());
        client.http.only_public = self.config.only_public;
        client.plain_traceparent = self.config.mgp.as_ref().is_some_and(|mgp| mgp.traceparent);
        let bytes = self.config.limits.max_message.and_then(|bytes| usize::try_from(bytes).ok());
        if let Some(bytes) = bytes {
            client.limits.line_bytes = bytes;
            client.limits.held_bytes = client.limits.held_bytes.max(2 * bytes);
            (client.http.response_bytes, client.http.event_bytes) = (bytes, bytes);
        }
    }

    /// Lets the server request roots outside of calls, if that is allowed.
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
        let (events, server, event_owner) = (context.events.clone(), id.clone(), owner.clone());
        // Do not subscribe to events over the shared instance of an isolated server: this instance only lists tools,
        // and its events belong to no principal.
        let is_shared = self.approved.is_some() || !config.is_per_agent();
        let is_main = kind == SessionKind::Main && (owner.is_some() || is_shared);
        let negotiated = Arc::clone(&self.negotiated);
        let prepare = move |connection: NewConnection| {
            negotiated.set(kind, connection.client().server().mgp.unwrap_or_default());
            let (events, server, owner) = (events.clone(), server.clone(), event_owner.clone());
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
        // Limit the extensions after the callback handler above was added: the handler offers callbacks, which the
        // limit may exclude.
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
        Ok(Session::new(kind, id, client, self.hold.clone(), login, health, limits.ttl))
    }
}

/// Adds handlers that forward the messages that a server sends outside of calls (changes, log messages) to the clients.
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
pub(super) async fn restore_on_connect(
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
