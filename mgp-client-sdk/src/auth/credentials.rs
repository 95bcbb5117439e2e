//! The current credentials of a client for one server, and the single task that replaces them.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::Shared;
use mgp_transport::http::{CredentialRefusal, RequestCredentials, RequestTarget};
use mgp_types::service::BoxFuture;
use mgp_types::sync::Mutex;
use tokio::task::AbortHandle;

use super::challenge::Demand;
use super::config::OAuthConfig;
use super::dpop::{Nonces, ProofKey, WANTS_NONCE};
use super::error::AuthError;
use super::limits::Limits;
use super::now;
use super::secret::Secret;
use super::store::{TokenEntry, TokenKind, Tokens};

/// The number of seconds before its expiry at which a token is renewed. A token with a short lifetime is renewed when a
/// quarter of its lifetime is left.
const RENEWAL_MARGIN_SECS: u64 = 30;

/// The maximum number of times that a request is repeated because the server requires a new nonce.
const MAX_NONCE_RETRIES: u32 = 4;
/// The error code of a refusal for lack of scopes (RFC 6750 §3.1).
pub(super) const INSUFFICIENT_SCOPE: &str = "insufficient_scope";
/// The name of the protected server's nonce in [`Nonces`].
const PROTECTED_SERVER: &str = "server";

/// The credentials of a client for one server. At most one task at a time obtains or replaces them.
pub(super) struct CurrentCredentials {
    pub(super) config: OAuthConfig,
    state: Mutex<State>,
    running_work: Mutex<Option<RunningWork>>,
    pub(super) nonces: Nonces,
}

struct State {
    /// `true` once the token store has been read.
    is_loaded: bool,
    entry: Option<TokenEntry>,
    /// The access token that was in the store when it was last read or written.
    seen: Option<Secret>,
    limits: Limits,
}

/// A piece of work that obtains or replaces credentials.
#[derive(Clone, Debug)]
pub(super) enum TokenWork {
    /// Obtain or renew tokens before the server refuses a request.
    Prepare,
    /// Replace credentials that the server refused.
    Renew(Demand),
    /// Obtain more scopes, because the granted scopes are insufficient.
    StepUp(Demand),
}

/// Work that runs in its own task, so that a cancelled caller cannot interrupt a login or a token rotation.
struct RunningWork {
    outcome: Outcome,
    task: AbortHandle,
    is_step_up: bool,
}

type Outcome = Shared<BoxFuture<'static, Result<(), Arc<AuthError>>>>;

/// The role of a caller in the running renewal of the credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The caller started the work.
    Started,
    /// The caller joined work that was already running. If the work fails, the caller fails too.
    Joined,
    /// The caller waits for a step-up (requesting a token with more scopes) that only another request needs. If the
    /// step-up fails, the caller starts its own work, unless that work would ask a person too.
    Waiting,
}

impl CurrentCredentials {
    pub(super) fn new(config: OAuthConfig) -> Self {
        let state =
            State { is_loaded: false, entry: None, seen: None, limits: Limits::new(config.limit) };
        Self {
            config,
            state: Mutex::new(state),
            running_work: Mutex::new(None),
            nonces: Nonces::default(),
        }
    }

    /// Returns the value of `Authorization`; `None` without a token, because the first token is obtained only after
    /// the server has refused a request.
    pub(super) async fn authorization(self: &Arc<Self>) -> Result<Option<String>, Arc<AuthError>> {
        while self.needs_work() {
            let (outcome, role) = self.start_or_join(TokenWork::Prepare);
            // Do not wait for the login of a step-up, which can take minutes: the current token expires soon, but is
            // still valid.
            if role == Role::Waiting
                && let Some(header_value) = self.header_value()
            {
                return Ok(Some(header_value));
            }
            let done = outcome.await;
            if role != Role::Waiting {
                done?;
                break;
            }
        }
        Ok(self.header_value())
    }

    /// Returns the credentials for a request: the token, and for a bound token a proof for this request.
    pub(super) async fn show(
        self: &Arc<Self>,
        to: RequestTarget<'_>,
    ) -> Result<RequestCredentials, Arc<AuthError>> {
        let Some(authorization) = self.authorization().await? else {
            return Ok(RequestCredentials::default());
        };
        let Some((key, token)) = self.bound() else {
            return Ok(RequestCredentials::new(Some(authorization)));
        };
        let nonce = self.nonces.of(PROTECTED_SERVER);
        let proof = key.proof(to.method, to.url, nonce.as_deref(), Some(&token))?;
        Ok(RequestCredentials::new(Some(format!("{DPOP_PREFIX}{}", token.expose())))
            .header("dpop", proof))
    }

    /// Stores a nonce for the next proof.
    pub(super) fn nonce(&self, nonce: &str) {
        self.nonces.store(PROTECTED_SERVER, nonce);
    }

    /// Handles the refusal of a request: obtains new tokens or more scopes, or stores the nonce that the server
    /// requires. Returns `Ok` if the request can be sent again.
    pub(super) async fn refused(
        self: &Arc<Self>,
        refusal: CredentialRefusal,
    ) -> Result<(), Arc<AuthError>> {
        let demand = Demand::of(&refusal.challenges);
        if let Some(nonce) = &refusal.nonce {
            self.nonce(nonce);
        }
        let was_proved = refusal
            .shown
            .as_deref()
            .is_some_and(|header_value| header_value.starts_with(DPOP_PREFIX));
        if let Some(error) = demand.error.as_deref().filter(|_| was_proved)
            && (error == WANTS_NONCE || error == "invalid_dpop_proof")
        {
            return handle_refused_proof(error, &refusal).map_err(Arc::new);
        }
        // Some servers do not name the scopes that a request needs. In this case, request the scopes that their
        // metadata lists.
        let lacks_scopes = match &demand.error {
            Some(error) => error == INSUFFICIENT_SCOPE,
            None => demand.scope.is_some(),
        };
        let work = match refusal.status {
            401 => TokenWork::Renew(demand),
            403 if lacks_scopes => TokenWork::StepUp(demand),
            status => {
                let error = demand.error.unwrap_or_else(|| format!("status {status}"));
                let error = super::address::clip_text(&error);
                return Err(Arc::new(AuthError::Forbidden { error }));
            }
        };
        self.replace_credentials(refusal.shown.as_deref(), work).await
    }

    /// Obtains credentials, unless the client already has valid credentials.
    pub(super) async fn log_in(self: &Arc<Self>) -> Result<(), Arc<AuthError>> {
        if self.authorization().await?.is_some() {
            return Ok(());
        }
        self.replace_credentials(None, TokenWork::Renew(Demand::default())).await
    }

    /// Replaces refused credentials. If other work is already running, waits for it. Then starts `work` only if the
    /// refused credentials are still in use.
    async fn replace_credentials(
        self: &Arc<Self>,
        header_value: Option<&str>,
        work: TokenWork,
    ) -> Result<(), Arc<AuthError>> {
        loop {
            // The credentials differ from the refused credentials, because the work for another refused request has
            // already replaced them.
            if self.header_value().is_some_and(|now| Some(now.as_str()) != header_value) {
                return Ok(());
            }
            let (outcome, role) = self.start_or_join(work.clone());
            let done = outcome.await;
            match role {
                Role::Started => return done,
                Role::Waiting if self.can_renew() => {}
                // If the other work failed, this call fails too. Without a refresh token, another attempt would again
                // ask the person who has just declined.
                Role::Joined | Role::Waiting => done?,
            }
        }
    }

    /// Joins the running work, or starts the given work if none is running.
    fn start_or_join(self: &Arc<Self>, work: TokenWork) -> (Outcome, Role) {
        let is_step_up = matches!(work, TokenWork::StepUp(_));
        let mut running_work = self.running_work.lock();
        if let Some(running_work) =
            running_work.as_ref().filter(|running_work| !running_work.task.is_finished())
        {
            let is_foreign = running_work.is_step_up && !is_step_up;
            let role = if is_foreign { Role::Waiting } else { Role::Joined };
            return (running_work.outcome.clone(), role);
        }
        let credentials = Arc::clone(self);
        let running = tokio::spawn(async move { credentials.do_work(work).await });
        let task = running.abort_handle();
        let outcome =
            async move { running.await.unwrap_or(Err(AuthError::Stopped)).map_err(Arc::new) };
        let outcome = outcome.boxed().shared();
        *running_work = Some(RunningWork { outcome: outcome.clone(), task, is_step_up });
        (outcome, Role::Started)
    }

    // === State ===

    /// Returns the header value of a token that is still valid.
    fn header_value(&self) -> Option<String> {
        let state = self.state.lock();
        let entry = state.entry.as_ref()?;
        let tokens = entry.tokens.as_ref()?;
        if tokens.kind == TokenKind::Dpop && entry.key.is_none() {
            return None;
        }
        tokens.expires_at.is_none_or(|at| at > now()).then(|| header(tokens))
    }

    /// Returns a bound token with its key. Both are read under one lock, because either may be renewed at any time.
    fn bound(&self) -> Option<(ProofKey, Secret)> {
        let state = self.state.lock();
        let entry = state.entry.as_ref()?;
        let tokens = entry.tokens.as_ref().filter(|tokens| tokens.kind == TokenKind::Dpop)?;
        Some((entry.key.clone()?, tokens.access.clone()))
    }

    /// Returns whether there is work to do before the next request is sent.
    fn needs_work(&self) -> bool {
        let state = self.state.lock();
        let tokens = state.entry.as_ref().and_then(|entry| entry.tokens.as_ref());
        let renewable = |tokens: &Tokens| tokens.refresh.is_some() || self.config.is_machine();
        !state.is_loaded || tokens.is_some_and(|tokens| is_stale(tokens) && renewable(tokens))
    }

    /// Returns whether new tokens can be requested without a person.
    fn can_renew(&self) -> bool {
        let tokens = self.entry().and_then(|entry| entry.tokens);
        self.config.is_machine() || tokens.is_some_and(|tokens| tokens.refresh.is_some())
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.state.lock().is_loaded
    }

    /// Stores the entry that was read from the token store.
    pub(super) fn set_loaded(&self, entry: Option<TokenEntry>) {
        let mut state = self.state.lock();
        state.is_loaded = true;
        state.entry = entry;
    }

    pub(super) fn entry(&self) -> Option<TokenEntry> {
        self.state.lock().entry.clone()
    }

    /// Makes an entry the current entry, whose tokens later requests use.
    pub(super) fn take(&self, entry: TokenEntry) {
        self.state.lock().entry = Some(entry);
    }

    /// Remembers which access token is in the store.
    pub(super) fn note_stored(&self, kept: Option<&TokenEntry>) {
        self.state.lock().seen = kept.and_then(access).cloned();
    }

    /// Returns whether `kept`, the entry now in the store, has different tokens from when the store was last read or
    /// written.
    pub(super) fn is_newer_in_store(&self, kept: &TokenEntry) -> bool {
        access(kept).is_some_and(|access| self.state.lock().seen.as_ref() != Some(access))
    }

    /// Returns whether the store had an access token when it was last read or written.
    pub(super) fn has_seen_tokens(&self) -> bool {
        self.state.lock().seen.is_some()
    }

    pub(super) fn with_limits<T>(&self, run: impl FnOnce(&mut Limits) -> T) -> T {
        run(&mut self.state.lock().limits)
    }
}

fn access(entry: &TokenEntry) -> Option<&Secret> {
    entry.tokens.as_ref().map(|tokens| &tokens.access)
}

pub(super) fn is_stale(tokens: &Tokens) -> bool {
    tokens.expires_at.is_some_and(|at| {
        let lifetime = at.saturating_sub(tokens.issued_at);
        at.saturating_sub(RENEWAL_MARGIN_SECS.min(lifetime / 4)) <= now()
    })
}

const DPOP_PREFIX: &str = "DPoP ";

fn header(tokens: &Tokens) -> String {
    let scheme = match tokens.kind {
        TokenKind::Bearer => "Bearer ",
        TokenKind::Dpop => DPOP_PREFIX,
    };
    format!("{scheme}{}", tokens.access.expose())
}

/// Handles the refusal of a `DPoP` proof; the token itself may still be valid. Returns `Ok` if the request should be
/// repeated with the nonce that the server sent.
fn handle_refused_proof(error: &str, refusal: &CredentialRefusal) -> Result<(), AuthError> {
    let hint = match &refusal.nonce {
        Some(_) if refusal.attempts <= MAX_NONCE_RETRIES => return Ok(()),
        Some(_) => "it requires another nonce each time",
        None if error == WANTS_NONCE => "it requires a nonce but does not send one",
        None => {
            "compare the clock of this machine, and the server's URL with the one it is known by"
        }
    };
    Err(AuthError::Proof { error: error.to_owned(), hint })
}
