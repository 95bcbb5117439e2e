//! A session with a server in one protocol era.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::gateway::AuthorizationFailed;
use mgp_client_sdk::{Client, Error, Hop, SupervisedClient};
use mgp_lifecycle::LifecycleError;
use mgp_transport::http::BackChannel;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{BoxFuture, Call, Principal, Reply, ServerId};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::era_choice::{SessionKind, SessionUse};
use super::remote_health::RemoteHealth;
use super::server_log::ServerLog;
use super::start_hold::StartHold;
use super::start_permits::PERMIT_TIMEOUT;
use crate::server_answer::limit_depth;

/// The minimum time between two starts of a failed server that calls, searches or views of an operator cause.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// A session with a server in one protocol era. It passes calls to the server, starts the server when a call needs it,
/// and counts the calls in flight.
pub(super) struct Session {
    kind: SessionKind,
    server: ServerId,
    client: SupervisedClient,
    hop: Hop,
    hold: StartHold,
    login: LoginState,
    /// The number of calls in flight in this session.
    running: AtomicUsize,
    /// The time when the last call began or ended.
    used_at: Mutex<Instant>,
    /// The last time when a call, a search or a view of an operator caused a start of the failed server.
    retried_at: Mutex<Option<Instant>>,
    /// The lock that lets only one call at a time wait for a permit to start the server.
    start_turn: tokio::sync::Mutex<()>,
    health: RemoteHealth,
}

impl Session {
    pub(super) fn new(
        kind: SessionKind,
        server: ServerId,
        client: SupervisedClient,
        hold: StartHold,
        login: LoginState,
        health: RemoteHealth,
        answer_timeout: Duration,
    ) -> Self {
        let hop = Hop::supervised(server.clone(), client.clone()).answer_timeout(answer_timeout);
        let (running, used_at) = (AtomicUsize::new(0), Mutex::new(Instant::now()));
        let (retried_at, start_turn) = (Mutex::default(), tokio::sync::Mutex::default());
        Self {
            kind,
            server,
            client,
            hop,
            hold,
            login,
            running,
            used_at,
            retried_at,
            start_turn,
            health,
        }
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

    /// Returns the client if it accepts calls; a draining client does not.
    pub(super) fn present(&self) -> Option<Client> {
        let is_draining = self.state() == ServerState::Draining;
        self.client.client().ok().filter(|_| !is_draining)
    }

    pub(super) fn is_idle(&self, time: Duration) -> bool {
        !self.has_calls() && self.used_at().elapsed() >= time
    }

    /// Returns whether any call runs, also without its caller, or waits for an answer of its caller.
    pub(super) fn has_calls(&self) -> bool {
        self.running() > 0 || self.hop.parked() > 0 || self.client.has_running_calls()
    }

    /// Returns the route of calls to the server. The route keeps the calls that wait for answers of their callers.
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

    /// Starts the server unless it runs, must not be started, or has failed too recently or too often. Waits up to
    /// `timeout` until it is connected. If the server is draining, starts it after the drain.
    pub(super) async fn wake(&self, hold: &StartHold, timeout: Duration) -> Result<Client, Error> {
        let woken = self.wake_client(hold, timeout).await;
        woken.map_err(|error| self.add_remedy(error.into()).into())
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
            // End the wait when a start fails, so that the caller receives the error immediately and does not wait for
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
    /// that wait for this start share the permit.
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

    /// Returns whether a call should start the server now: always if the server is stopped; only from time to time if
    /// its start has failed, or if it is at a URL and waits for a restart. `retried_at` is the last time when a call
    /// started a failed server.
    fn is_due(&self, retried_at: Option<Instant>) -> bool {
        let is_retry_due = || retried_at.is_none_or(|at| at.elapsed() >= RETRY_INTERVAL);
        match self.state() {
            ServerState::Registered | ServerState::Disconnected => true,
            // If the server is draining because of a failure, the restart policy decides: a start by the call would
            // skip the delay and reset the number of restarts.
            ServerState::Draining => !self.client.supervised().is_restart_decided(),
            ServerState::Restarting => self.health.is_remote() && is_retry_due(),
            ServerState::Error => {
                let rest = self.client.supervised().rest();
                rest.is_some_and(|rest| rest.is_start_failure) && is_retry_due()
            }
            _ => false,
        }
    }

    /// Returns whether this call must start the server now. If several calls find a failed server, only one of them
    /// starts it.
    fn claim_start(&self) -> bool {
        let has_failed = matches!(self.state(), ServerState::Restarting | ServerState::Error);
        let mut retried_at = self.retried_at.lock();
        let is_due = self.is_due(*retried_at);
        if is_due && has_failed {
            *retried_at = Some(Instant::now());
        }
        is_due
    }

    /// Returns whether a failed server must be started again now, and records the attempt as
    /// [`claim_start`](Self::claim_start) does.
    pub(super) fn claim_retry(&self) -> bool {
        matches!(self.state(), ServerState::Restarting | ServerState::Error) && self.claim_start()
    }

    /// Tries to start a failed server again, unless a call or another retry has caused an attempt recently.
    pub(super) async fn retry(&self, hold: &StartHold) {
        if self.claim_retry() {
            hold.start(&self.client).await;
        }
    }

    /// Returns the reason why the last check of a server at a URL failed, if the kernel still treats the server as
    /// connected.
    pub(super) fn doubt(&self) -> Option<String> {
        self.health.doubt().filter(|_| self.state() == ServerState::Connected)
    }

    /// Checks whether a connected server at a URL answers, unless this was checked a moment ago. If the server is lost,
    /// the session with it is opened again.
    pub(super) async fn check(&self) {
        if self.state() == ServerState::Connected {
            let is_well = self.health.check(&self.client, || self.running() > 0).await;
            if is_well && self.login.owner.is_none() {
                self.login.log.set_login(None, None);
            }
        }
    }

    /// Returns whether a connected server answers a check; `false` also if it was checked a moment ago. Returns `true`
    /// without a check for a server that is not at a URL.
    pub(super) async fn answers(&self) -> bool {
        !self.health.is_remote() || self.health.check(&self.client, || self.running() > 0).await
    }

    /// Returns the client if it accepts calls. For a legacy session, returns it only if the kernel also knows that the
    /// server can ask its callers.
    pub(super) fn usable(&self) -> Option<Client> {
        let is_known = |client: &Client| {
            self.kind == SessionKind::Main
                || client.monitor().back_channel() == BackChannel::Present
        };
        self.present().filter(is_known)
    }

    /// Returns whether the server can ask its callers in this session or, if the session is for subscriptions, notify
    /// them. If this is still unknown, finds out by pinging the server.
    async fn can_serve(&self, client: &Client, session_use: SessionUse) -> bool {
        let back_channel = || client.monitor().back_channel();
        if session_use != SessionUse::Call && client.monitor().has_session_stream() {
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

    /// Starts this legacy session. Returns `None` if the session cannot be opened, or cannot be used for this purpose;
    /// in these cases also stops the session, unless it can serve subscriptions.
    pub(super) async fn wake_or_stop(
        &self,
        hold: &StartHold,
        timeout: Duration,
        session_use: SessionUse,
    ) -> Option<Client> {
        let mut states = self.client.state().watch();
        let woken = tokio::select! {
            woken = self.wake(hold, timeout) => woken.ok(),
            () = has_failed(&mut states) => None,
        };
        if let Some(client) = woken {
            if self.can_serve(&client, session_use).await {
                return Some(client);
            }
            if client.monitor().has_session_stream() {
                return None;
            }
        }
        self.client.stop(ShutdownReason::OperatorRequest).await;
        None
    }

    /// Sends a call to the server through all security checks.
    pub(super) fn send(
        self: &Arc<Self>,
        call: Call,
    ) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let (running, sending) = (RunningCall::new(self), self.hop.send(call));
        Box::pin(async move {
            let answer = sending.await.map_err(|error| {
                let session = &running.0;
                session.check_if_doubtful(&error);
                // Adapt the error, because the server may have been replaced while the call waited, e.g. for a person.
                session.hold.fit_error(&session.server, session.add_remedy(error))
            });
            if let Ok(reply) = &answer {
                running.0.clear_missing_login(reply);
            }
            limit_depth(answer)
        })
    }

    /// If the login was reported as missing, but the server has answered a call, records that the login is valid again.
    fn clear_missing_login(&self, reply: &Reply) {
        // Count only complete replies, because the security checks can create other replies, e.g. a question to the
        // caller.
        let is_answered = self.health.is_remote() && matches!(reply, Reply::Complete(_));
        if is_answered && self.login.missing().is_some() {
            self.login.log.set_login(self.login.owner.as_ref(), None);
        }
    }

    /// If the error of a call can mean that the server does not answer any more, checks the server in a task.
    fn check_if_doubtful(self: &Arc<Self>, error: &RpcError) {
        if self.health.is_doubtful_after(error) {
            let session = Arc::clone(self);
            tokio::spawn(async move { session.check().await });
        }
    }

    /// Adds the remedy to an error: the configuration key that raises the time limit of a call, or the login that is
    /// missing.
    pub(super) fn add_remedy(&self, error: RpcError) -> RpcError {
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

    /// Returns the error for a call that fails because the login is missing, with the remedy; `None` if no missing
    /// login is known.
    pub(super) fn login_failure(&self) -> Option<RpcError> {
        let missing = AuthorizationFailed::new(self.login.missing()?);
        Some(missing.into_error(ErrorCode::AUTH_REQUIRED))
    }
}

/// The log that contains the text about a missing login of a session, and the owner of that login.
pub(super) struct LoginState {
    pub(super) log: Arc<ServerLog>,
    pub(super) owner: Option<Principal>,
}

impl LoginState {
    fn missing(&self) -> Option<String> {
        self.log.missing_login(self.owner.as_ref())
    }
}

/// Waits until a start has failed, even if another attempt follows.
pub(super) async fn has_failed(states: &mut watch::Receiver<ServerState>) {
    while states.changed().await.is_ok() {
        if matches!(*states.borrow_and_update(), ServerState::Error | ServerState::Restarting) {
            return;
        }
    }
}

/// A call in flight. It counts as running until this value is dropped.
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
