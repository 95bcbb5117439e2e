//! A session with a server in one protocol era, and the choice between two such sessions.
//!
//! Servers built with some SDKs can ask their callers (elicitation, sampling, roots) in the legacy era only,
//! although they also serve the modern era. So the kernel uses the caller's era towards the server: the main
//! session has the newest era of the server, and a second, legacy one is opened for the first legacy caller
//! that can be asked or subscribes to a resource. A server at a URL that keeps no sessions, or answers in JSON, cannot
//! ask in the legacy era; then the main session serves all calls, and the legacy one only subscriptions, if it has a
//! stream for messages outside of calls.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::gateway::{AuthorizationFailed, FailsAtProbe};
use mgp_client_sdk::{Client, Error, Hop, SupervisedClient};
use mgp_lifecycle::LifecycleError;
use mgp_transport::http::BackChannel;
use mgp_types::mcp::{Era, Revision};
use mgp_types::mgp::{ExtensionSet, ServerState, ShutdownReason};
use mgp_types::service::{BoxFuture, Call, Context, PeerInfo, Principal, Reply, ServerId};
use mgp_types::sync::{Mutex, RwLock};
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::remote_health::RemoteHealth;
use super::server_log::ServerLog;
use super::start_hold::StartHold;
use super::start_permits::PERMIT_TIMEOUT;
use super::task_tools::{InMainSession, TaskTools};
use crate::server_answer::limit_depth;

/// The time for which the kernel does not try again to open a legacy session with a server that has refused one.
const REFUSED_TTL: Duration = Duration::from_mins(10);

/// The minimum time between two starts of a failed server that are caused by calls, and between two attempts to open a
/// legacy session with it.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The kinds of the two sessions that an instance of a server can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SessionKind {
    /// The session of the configured era, or of the newest era that the server supports.
    Main,
    /// The session for legacy callers of a server that serves both eras.
    Legacy,
}

/// The purpose for which a caller uses a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionUse {
    Call,
    /// Notifications of a changed resource, which some servers send in the legacy era only.
    Subscription,
    /// Notifications of a changed resource, after the server has refused the subscription in the legacy era.
    ModernSubscription,
}

impl SessionUse {
    /// Returns whether the caller might miss questions or notifications in a session of the modern era.
    pub(super) fn needs_legacy(self, cx: &Context) -> bool {
        let is_affected = match self {
            Self::Call => cx.caller.accepts.any() && cx.extensions.get::<InMainSession>().is_none(),
            Self::Subscription => true,
            Self::ModernSubscription => false,
        };
        cx.caller.era == Era::Legacy && is_affected
    }
}

/// A connection to a server in one era: passes calls to the server, starts it on demand, and counts the calls in
/// flight.
pub(super) struct Session {
    kind: SessionKind,
    server: ServerId,
    client: SupervisedClient,
    hop: Hop,
    login: LoginState,
    /// The number of calls in flight in this session.
    running: AtomicUsize,
    /// The time at which the last call began or ended, whichever is later.
    used_at: Mutex<Instant>,
    /// The time at which a call last caused a start of the failed server.
    retried_at: Mutex<Option<Instant>>,
    /// The lock under which one call at a time uses a permit to start the server.
    start_turn: tokio::sync::Mutex<()>,
    health: RemoteHealth,
}

impl Session {
    pub(super) fn new(
        kind: SessionKind,
        server: ServerId,
        client: SupervisedClient,
        login: LoginState,
        health: RemoteHealth,
        answer_timeout: Duration,
    ) -> Self {
        let hop = Hop::supervised(server.clone(), client.clone()).answer_timeout(answer_timeout);
        let (running, used_at) = (AtomicUsize::new(0), Mutex::new(Instant::now()));
        let (retried_at, start_turn) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { kind, server, client, hop, login, running, used_at, retried_at, start_turn, health }
    }

    pub(super) fn kind(&self) -> SessionKind {
        self.kind
    }

    pub(super) fn client(&self) -> &SupervisedClient {
        &self.client
    }

    pub(super) fn state(&self) -> ServerState {
        self.client.state().get()
    }

    /// Returns the client if it accepts calls. A draining client does not accept any.
    pub(super) fn present(&self) -> Option<Client> {
        let is_draining = self.state() == ServerState::Draining;
        self.client.client().ok().filter(|_| !is_draining)
    }

    /// Returns whether the session has had no calls for the given time, and none waits for an answer of its caller.
    pub(super) fn is_idle(&self, time: Duration) -> bool {
        self.running() == 0 && self.hop.parked() == 0 && self.used_at().elapsed() >= time
    }

    /// Returns the route to the server, which holds the calls that wait for answers of their callers.
    pub(super) fn hop(&self) -> &Hop {
        &self.hop
    }

    /// Returns the number of calls in flight.
    pub(super) fn running(&self) -> u64 {
        self.running.load(Ordering::Acquire) as u64
    }

    pub(super) fn used_at(&self) -> Instant {
        *self.used_at.lock()
    }

    fn touch(&self) {
        *self.used_at.lock() = Instant::now();
    }

    /// Starts the server unless it runs or must not be started, and waits until it is connected. A draining server is
    /// started after it has drained.
    pub(super) async fn wake(&self, hold: &StartHold, timeout: Duration) -> Result<Client, Error> {
        let woken = self.wake_client(hold, timeout).await;
        woken.map_err(|error| self.with_remedy(error.into()).into())
    }

    async fn wake_client(&self, hold: &StartHold, timeout: Duration) -> Result<Client, Error> {
        self.touch();
        if let Some(client) = self.present() {
            return Ok(client);
        }
        if hold.forbids_start() {
            return self.client.client();
        }
        let mut states = self.client.state().watch();
        if self.claim_start() && !hold.start(&self.client).await {
            return self.client.client();
        }
        let connected = async {
            if !self.health.is_remote() {
                return self.client.ready().await;
            }
            // End the wait if the start fails, so that the caller receives the error at once and does not wait for
            // further attempts.
            tokio::select! {
                ready = self.client.ready() => ready,
                () = has_failed(&mut states) => self.client.client(),
            }
        };
        match tokio::time::timeout(timeout, connected).await {
            Ok(ready) => ready,
            Err(_) => self.client.client(),
        }
    }

    /// Connects the session as [`wake`](Self::wake) does. If permits are given, the start needs one of them; all calls
    /// that wait for the same start share this permit.
    pub(super) async fn wake_with_permit(
        &self,
        hold: &StartHold,
        timeout: Duration,
        permits: Option<&Semaphore>,
    ) -> Result<Client, Error> {
        let needs_start = || !hold.forbids_start() && self.is_due(*self.retried_at.lock());
        let mut waking = pin!(self.wake(hold, timeout));
        let Some(permits) = permits.filter(|_| needs_start()) else { return waking.await };
        let turn = self.start_turn.lock().await;
        if !needs_start() {
            drop(turn);
            return waking.await;
        }
        let permit = tokio::time::timeout(timeout, permits.acquire()).await;
        let early = tokio::select! {
            client = &mut waking => Some(client),
            () = tokio::time::sleep(PERMIT_TIMEOUT) => None,
        };
        drop(permit);
        drop(turn);
        match early {
            Some(client) => client,
            None => waking.await,
        }
    }

    /// Returns whether a call should start the server now: always if the server is stopped, and only from time to time
    /// if it has failed; `retried_at` is the time at which a call last caused a start of the failed server.
    fn is_due(&self, retried_at: Option<Instant>) -> bool {
        let is_retry_due = || retried_at.is_none_or(|at| at.elapsed() >= RETRY_INTERVAL);
        match self.state() {
            ServerState::Registered | ServerState::Disconnected => true,
            // If the server is drained because it failed, its policy decides about a restart: a start would skip the
            // delay and reset the count of restarts.
            ServerState::Draining => !self.client.supervised().is_restart_decided(),
            ServerState::Restarting => self.health.is_remote() && is_retry_due(),
            ServerState::Error => {
                let rest = self.client.supervised().rest();
                rest.is_some_and(|rest| rest.is_start_failure) && is_retry_due()
            }
            _ => false,
        }
    }

    /// Returns whether this call has to start the server now. Of several calls of a failed server, only one does so.
    fn claim_start(&self) -> bool {
        let has_failed = matches!(self.state(), ServerState::Restarting | ServerState::Error);
        let mut retried_at = self.retried_at.lock();
        let is_due = self.is_due(*retried_at);
        if is_due && has_failed {
            *retried_at = Some(Instant::now());
        }
        is_due
    }

    /// Returns whether a failed server has to be started again now, as [`claim_start`](Self::claim_start) does.
    pub(super) fn claim_retry(&self) -> bool {
        matches!(self.state(), ServerState::Restarting | ServerState::Error) && self.claim_start()
    }

    /// Tries to start a failed server again, unless a caller or an operator has caused an attempt recently.
    pub(super) async fn retry(&self, hold: &StartHold) {
        if self.claim_retry() {
            hold.start(&self.client).await;
        }
    }

    /// Returns why the last check of a connected server at a URL failed.
    pub(super) fn doubt(&self) -> Option<String> {
        self.health.doubt().filter(|_| self.state() == ServerState::Connected)
    }

    /// Checks that a connected server at a URL answers, unless it was checked just now. The session with a server that
    /// does not answer is opened again.
    pub(super) async fn check(&self) {
        if self.state() == ServerState::Connected {
            let is_well = self.health.check(&self.client, || self.running() > 0).await;
            if is_well && self.login.owner.is_none() {
                self.login.log.set_login(None, None);
            }
        }
    }

    /// Returns whether a connected server answers a check; servers that are not at a URL are not checked.
    pub(super) async fn answers(&self) -> bool {
        !self.health.is_remote() || self.health.check(&self.client, || self.running() > 0).await
    }

    /// Returns the client if it accepts calls and, in a legacy session, the server is known to be able to ask its
    /// callers.
    pub(super) fn usable(&self) -> Option<Client> {
        let is_known = |client: &Client| {
            self.kind == SessionKind::Main
                || client.monitor().back_channel() == BackChannel::Present
        };
        self.present().filter(is_known)
    }

    /// Returns whether the server can ask callers in this session or, for a subscription, notify them. The answer to a
    /// ping shows the former, if no other answer has.
    async fn can_serve(&self, client: &Client, of: SessionUse) -> bool {
        let back_channel = || client.monitor().back_channel();
        if of != SessionUse::Call && client.monitor().has_session_stream() {
            return true;
        }
        if back_channel() == BackChannel::Unknown {
            self.answers().await;
        }
        let is_missing = back_channel() == BackChannel::Missing;
        if is_missing {
            tracing::info!(
                server = %self.server,
                "in the legacy era, the server keeps no session or answers in JSON, so it cannot ask"
            );
        }
        !is_missing
    }

    /// Starts this legacy session. If the server does not support the legacy era, or the session does not suffice for
    /// this use, returns `None`, and stops the session unless it can serve subscriptions.
    pub(super) async fn wake_or_stop(
        &self,
        hold: &StartHold,
        timeout: Duration,
        of: SessionUse,
    ) -> Option<Client> {
        let mut states = self.client.state().watch();
        let woken = tokio::select! {
            woken = self.wake(hold, timeout) => woken.ok(),
            () = has_failed(&mut states) => None,
        };
        if let Some(client) = woken {
            if self.can_serve(&client, of).await {
                return Some(client);
            }
            if client.monitor().has_session_stream() {
                return None;
            }
        }
        self.client.stop(ShutdownReason::OperatorRequest).await;
        None
    }

    /// Passes a call to the server after all security checks.
    pub(super) fn send(
        self: &Arc<Self>,
        call: Call,
    ) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let (running, sending) = (RunningCall::new(self), self.hop.send(call));
        Box::pin(async move {
            let answer = sending.await.map_err(|error| {
                running.0.note_failure(&error);
                running.0.with_remedy(error)
            });
            if let Ok(reply) = &answer {
                running.0.note_answer(reply);
            }
            limit_depth(answer)
        })
    }

    /// Records that the login is not missing, if it was reported as missing and the server has answered a call.
    fn note_answer(&self, reply: &Reply) {
        // Count only complete replies: other replies may come from the security checks, e.g. a question to the caller.
        let is_answered = self.health.is_remote() && matches!(reply, Reply::Complete(_));
        if is_answered && self.login.missing().is_some() {
            self.login.log.set_login(self.login.owner.as_ref(), None);
        }
    }

    /// Checks the server in a task if the error of a call could mean that the server no longer answers.
    fn note_failure(self: &Arc<Self>, error: &RpcError) {
        if self.health.is_doubtful_after(error) {
            let session = Arc::clone(self);
            tokio::spawn(async move { session.check().await });
        }
    }

    /// Adds the remedy to an error: the key that raises the time limit of a call, or the login that is missing.
    pub(super) fn with_remedy(&self, error: RpcError) -> RpcError {
        let source = std::error::Error::source(&error);
        let key = match source.and_then(|source| source.downcast_ref::<LifecycleError>()) {
            Some(LifecycleError::TimedOut(_)) => "timeout",
            Some(LifecycleError::TotalTimedOut(_)) => "max_timeout",
            Some(LifecycleError::NotReady { .. } | LifecycleError::CircuitOpen { .. }) => {
                return self.login_failure().unwrap_or(error);
            }
            _ => return error,
        };
        let message = format!(
            "{}; an operator can raise `{key}` of server `{}`",
            error.message(),
            self.server
        );
        error.with_message(message)
    }

    /// Returns the error for a call that fails because the login is missing, with the remedy; `None` if no login is
    /// known to be missing.
    pub(super) fn login_failure(&self) -> Option<RpcError> {
        let missing = AuthorizationFailed::new(self.login.missing()?);
        Some(missing.into_error(ErrorCode::AUTH_REQUIRED))
    }
}

/// The log that contains the report about a missing login of a session, and the owner of that login.
pub(super) struct LoginState {
    pub(super) log: Arc<ServerLog>,
    pub(super) owner: Option<Principal>,
}

impl LoginState {
    fn missing(&self) -> Option<String> {
        self.log.missing_login(self.owner.as_ref())
    }
}

/// Waits until a start has failed, whether or not it will be retried.
pub(super) async fn has_failed(states: &mut watch::Receiver<ServerState>) {
    while states.changed().await.is_ok() {
        if matches!(*states.borrow_and_update(), ServerState::Error | ServerState::Restarting) {
            return;
        }
    }
}

/// A call in flight; counted until it is dropped.
struct RunningCall(Arc<Session>);

impl RunningCall {
    fn new(session: &Arc<Session>) -> Self {
        session.running.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(session))
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.touch();
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The known facts about the eras of a server, learnt from its last connection or stored by the last kernel. All
/// instances of the server share them.
#[derive(Default)]
pub(super) struct KnownEras {
    needs: AtomicU8,
    /// Set if the program fails at the request that detects its era.
    fails_at_probe: FailsAtProbe,
    /// `true` if the last connection used MCP 2025-03-26 or an earlier revision.
    is_early: AtomicBool,
    /// The times until which the kernel does not try to use a legacy session, for calls and for subscriptions.
    refused_until: Mutex<[Option<Instant>; 2]>,
    /// The tools that need a task of the main session.
    pub(super) task_tools: TaskTools,
}

/// The sessions that a server needs for callers of both eras.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionNeeds {
    /// Unknown, because the server has never been connected.
    Unknown,
    /// One session: the server is legacy, or can ask modern callers for all kinds of input.
    One,
    /// One session per era: the server is modern, but in the legacy era, if it supports that, it might ask for more
    /// kinds of input.
    OnePerEra,
}

impl KnownEras {
    /// Derives from the facts of a server's main session whether one session suffices, or each era needs a session of
    /// its own.
    pub(super) fn observe(&self, facts: &PeerInfo) {
        self.is_early.store(facts.revision <= Revision::V2025_03_26, Ordering::Relaxed);
        let is_enough = facts.era == Era::Legacy || facts.asks_in_rounds;
        self.set(if is_enough { SessionNeeds::One } else { SessionNeeds::OnePerEra });
    }

    pub(super) fn set(&self, needs: SessionNeeds) {
        self.needs.store(needs as u8, Ordering::Relaxed);
    }

    /// Returns the sessions that the server needs for this use.
    pub(super) fn needs(&self, of: SessionUse) -> SessionNeeds {
        let until = || self.refused_until.lock()[usize::from(of != SessionUse::Call)];
        let is_refused = || until().is_some_and(|until| until > Instant::now());
        match self.needs.load(Ordering::Relaxed) {
            0 => SessionNeeds::Unknown,
            2 if !is_refused() => SessionNeeds::OnePerEra,
            _ => SessionNeeds::One,
        }
    }

    /// Records that no legacy session could be used. If the server has answered the attempt, it does not support the
    /// legacy era for this use. Otherwise it may have been unreachable, so the kernel tries again soon.
    pub(super) fn refuse_legacy(&self, of: SessionUse, has_answered: bool) {
        let ttl = if has_answered { REFUSED_TTL } else { RETRY_INTERVAL };
        let mut refused_until = self.refused_until.lock();
        let refused_until = &mut refused_until[usize::from(of != SessionUse::Call)];
        // Concurrent calls can report both outcomes; a refusal counts more than a missing answer.
        *refused_until = (*refused_until).max(Some(Instant::now() + ttl));
    }

    /// Returns the flag for a program that fails at the probe, which all its clients share.
    pub(super) fn fails_at_probe(&self) -> &FailsAtProbe {
        &self.fails_at_probe
    }

    /// Restores what an earlier kernel stored about the probe.
    pub(super) fn restore_probe_failure(&self, fails: bool) {
        self.fails_at_probe.set(fails);
        self.is_early.store(fails, Ordering::Relaxed);
    }

    /// Returns, for the store, whether the program fails at the probe; `false` for one with a later revision than
    /// 2025-03-26. Programs on early SDKs, e.g. the Python SDK before 1.8, do not answer the probe at all, which costs
    /// 10 s at each start. After an update to a later SDK they must be probed again.
    pub(super) fn stores_probe_failure(&self) -> bool {
        self.fails_at_probe.get() && self.is_early.load(Ordering::Relaxed)
    }

    /// Returns, for the store, whether the server needs a session per era; `None` if it has never been connected.
    pub(super) fn stored(&self) -> Option<bool> {
        match self.needs.load(Ordering::Relaxed) {
            0 => None,
            needs => Some(needs == SessionNeeds::OnePerEra as u8),
        }
    }
}

/// The extensions that a server negotiated when each kind of its sessions last connected, or that the last kernel
/// stored. All instances of the server share them.
#[derive(Default)]
pub(super) struct NegotiatedExtensions(RwLock<[Option<ExtensionSet>; 2]>);

impl NegotiatedExtensions {
    /// Records what a server negotiated in a session of this kind.
    pub(super) fn set(&self, session: SessionKind, extensions: ExtensionSet) {
        self.0.write()[session as usize] = Some(extensions);
    }

    /// Returns the extensions that the server negotiated in the session that serves the calls of a caller: in the main
    /// one, unless the caller needs a legacy session and such a session has connected.
    pub(super) fn for_calls(&self, cx: &Context, eras: &KnownEras) -> ExtensionSet {
        let [main, legacy] = *self.0.read();
        let of = SessionUse::Call;
        let is_legacy = of.needs_legacy(cx) && eras.needs(of) == SessionNeeds::OnePerEra;
        legacy.filter(|_| is_legacy).or(main).unwrap_or_default()
    }

    /// Returns the extensions that the server negotiated in sessions of any kind.
    pub(super) fn all(&self) -> ExtensionSet {
        let [main, legacy] = *self.0.read();
        main.unwrap_or_default() | legacy.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::mgp::Extension;
    use mgp_types::service::{Peer, Scope, ScopeKind};

    use super::*;

    #[test]
    fn only_the_extensions_of_the_session_that_takes_a_call_apply_to_it() {
        let caller = |revision: Revision, accepts_questions: bool| {
            let mut facts = PeerInfo::new(revision);
            facts.accepts.elicitation = accepts_questions;
            let scope = Scope::new(ScopeKind::Request);
            let mut cx = Context::new(Peer::none(), scope, Principal::local());
            cx.caller = Arc::new(facts);
            cx
        };
        let modern = caller(Revision::V2026_07_28, true);
        let (asked, silent) =
            (caller(Revision::V2025_06_18, true), caller(Revision::V2025_06_18, false));
        let of_main = ExtensionSet::EMPTY.with(Extension::DataReferences);
        let of_legacy = ExtensionSet::EMPTY.with(Extension::SessionState);
        let (negotiated, eras) = (NegotiatedExtensions::default(), KnownEras::default());
        eras.set(SessionNeeds::OnePerEra);
        negotiated.set(SessionKind::Main, of_main);
        assert_eq!(negotiated.for_calls(&asked, &eras), of_main, "it has no legacy session yet");
        negotiated.set(SessionKind::Legacy, of_legacy);
        assert_eq!(negotiated.for_calls(&asked, &eras), of_legacy);
        for other in [&modern, &silent] {
            assert_eq!(negotiated.for_calls(other, &eras), of_main);
        }
        assert_eq!(negotiated.all(), of_main | of_legacy);
        eras.refuse_legacy(SessionUse::Call, true);
        assert_eq!(
            negotiated.for_calls(&asked, &eras),
            of_main,
            "the main session takes all calls"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_server_that_answered_is_taken_as_one_without_the_legacy_era() {
        let eras = KnownEras::default();
        eras.set(SessionNeeds::OnePerEra);
        for (has_answered, ttl) in [(false, RETRY_INTERVAL), (true, REFUSED_TTL)] {
            let needs = || eras.needs(SessionUse::Call);
            eras.refuse_legacy(SessionUse::Call, has_answered);
            tokio::time::advance(ttl / 2).await;
            assert_eq!(needs(), SessionNeeds::One, "{has_answered}");
            assert_eq!(eras.needs(SessionUse::Subscription), SessionNeeds::OnePerEra);
            tokio::time::advance(ttl).await;
            assert_eq!(needs(), SessionNeeds::OnePerEra, "{has_answered}");
        }
    }
}
