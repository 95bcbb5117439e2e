//! What a client shows a server now, and who fetches something better: one at a time, whoever else waits.
//!
//! Applies to: outbound.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::Shared;
use mgp_transport::http::{Refused, Shown, Target};
use mgp_types::service::BoxFuture;
use tokio::task::AbortHandle;

use super::challenge::Demand;
use super::clock::now;
use super::dpop::{Nonces, ProofKey, WANTS_NONCE};
use super::error::AuthError;
use super::limits::Limits;
use super::plan::Plan;
use super::secret::Secret;
use super::store::{Stored, TokenKind, Tokens};

/// How many seconds before its end a token is renewed; short-lived ones later.
const MARGIN: u64 = 30;

/// How often one request is sent again because the server wants to see another nonce.
const NONCES: u32 = 4;
/// The server among those whose nonces are kept.
const HERE: &str = "server";

/// The state of one client before one server.
pub(super) struct Session {
    pub(super) plan: Plan,
    state: Mutex<State>,
    flight: Mutex<Option<Flight>>,
    pub(super) nonces: Nonces,
}

struct State {
    /// Whether the store was looked into.
    loaded: bool,
    entry: Option<Stored>,
    /// The access token that was in the store when it was last read or written.
    seen: Option<Secret>,
    limits: Limits,
}

/// What is to be done for better credentials.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Nothing was refused yet.
    Prepare,
    /// What was shown was refused.
    Renew(Demand),
    /// More is needed than was granted.
    StepUp(Demand),
}

/// Work under way. It runs in a task of its own: a caller that goes away must not tear a login or a rotated token in two.
struct Flight {
    outcome: Outcome,
    task: AbortHandle,
}

type Outcome = Shared<BoxFuture<'static, Result<(), Arc<AuthError>>>>;

/// How a caller came to work under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Started,
    Joined,
}

impl Session {
    pub(super) fn new(plan: Plan) -> Self {
        let state =
            State { loaded: false, entry: None, seen: None, limits: Limits::new(plan.limit) };
        Self { plan, state: Mutex::new(state), flight: Mutex::new(None), nonces: Nonces::default() }
    }

    /// The value of `Authorization`; `None` where there is nothing yet, and the server has to say what it wants.
    pub(super) async fn authorization(self: &Arc<Self>) -> Result<Option<String>, Arc<AuthError>> {
        if self.is_wanting() {
            self.fly(Work::Prepare).0.await?;
        }
        Ok(self.shown())
    }

    /// What a request shows: the token, and for one that is bound to a key a proof for this request only.
    pub(super) async fn show(self: &Arc<Self>, to: Target<'_>) -> Result<Shown, Arc<AuthError>> {
        let Some(authorization) = self.authorization().await? else { return Ok(Shown::default()) };
        let Some((key, token)) = self.bound() else { return Ok(Shown::new(Some(authorization))) };
        let nonce = self.nonces.of(HERE);
        let proof = key.proof(to.method, to.url, nonce.as_deref(), Some(&token))?;
        Ok(Shown::new(Some(format!("{PROVED}{}", token.expose()))).header("dpop", proof))
    }

    /// Takes note of what the server wants to see in the next proof.
    pub(super) fn nonce(&self, nonce: &str) {
        self.nonces.take(HERE, nonce);
    }

    /// Gets something better to show than what was refused.
    pub(super) async fn refused(self: &Arc<Self>, refusal: Refused) -> Result<(), Arc<AuthError>> {
        let demand = Demand::of(&refusal.challenges);
        if let Some(nonce) = &refusal.nonce {
            self.nonce(nonce);
        }
        let was_proved = refusal.shown.as_deref().is_some_and(|shown| shown.starts_with(PROVED));
        if let Some(error) = demand.error.as_deref().filter(|_| was_proved)
            && (error == WANTS_NONCE || error == "invalid_dpop_proof")
        {
            return doubted(error, &refusal).map_err(Arc::new);
        }
        let is_scope = |error: &String| error == "insufficient_scope";
        let work = match refusal.status {
            401 => Work::Renew(demand),
            403 if demand.scope.is_some() && demand.error.as_ref().is_none_or(is_scope) => {
                Work::StepUp(demand)
            }
            status => {
                let error = demand.error.unwrap_or_else(|| format!("status {status}"));
                let error = super::address::shorten(&error);
                return Err(Arc::new(AuthError::Forbidden { error }));
            }
        };
        self.better_than(refusal.shown.as_deref(), work).await
    }

    /// Gets something to show, if there is nothing.
    pub(super) async fn log_in(self: &Arc<Self>) -> Result<(), Arc<AuthError>> {
        if self.authorization().await?.is_some() {
            return Ok(());
        }
        self.better_than(None, Work::Renew(Demand::default())).await
    }

    /// Works until there is something else to show.
    async fn better_than(
        self: &Arc<Self>,
        shown: Option<&str>,
        work: Work,
    ) -> Result<(), Arc<AuthError>> {
        loop {
            // Somebody else was refused before, and has got something better.
            if self.shown().is_some_and(|now| Some(now.as_str()) != shown) {
                return Ok(());
            }
            let (outcome, part) = self.fly(work.clone());
            outcome.await?;
            if part == Part::Started {
                return Ok(());
            }
        }
    }

    /// Joins the work under way, or starts this.
    fn fly(self: &Arc<Self>, work: Work) -> (Outcome, Part) {
        let mut flight = self.flight.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = flight.as_ref().filter(|flight| !flight.task.is_finished()) {
            return (flight.outcome.clone(), Part::Joined);
        }
        let session = Arc::clone(self);
        let running = tokio::spawn(async move { session.work(work).await });
        let task = running.abort_handle();
        let outcome =
            async move { running.await.unwrap_or(Err(AuthError::Stopped)).map_err(Arc::new) };
        let outcome = outcome.boxed().shared();
        *flight = Some(Flight { outcome: outcome.clone(), task });
        (outcome, Part::Started)
    }

    // === state ===

    /// The value of the header, of a token that is still valid.
    fn shown(&self) -> Option<String> {
        let state = self.state();
        let entry = state.entry.as_ref()?;
        let tokens = entry.tokens.as_ref()?;
        if tokens.kind == TokenKind::Dpop && entry.key.is_none() {
            return None;
        }
        tokens.expires_at.is_none_or(|at| at > now()).then(|| header(tokens))
    }

    /// A token that is bound to a key, with the key: of one moment, as both may be renewed at any time.
    fn bound(&self) -> Option<(ProofKey, Secret)> {
        let state = self.state();
        let entry = state.entry.as_ref()?;
        let tokens = entry.tokens.as_ref().filter(|tokens| tokens.kind == TokenKind::Dpop)?;
        Some((entry.key.clone()?, tokens.access.clone()))
    }

    /// Whether something can be done before the server is asked.
    fn is_wanting(&self) -> bool {
        let state = self.state();
        let tokens = state.entry.as_ref().and_then(|entry| entry.tokens.as_ref());
        let renewable = |tokens: &Tokens| tokens.refresh.is_some() || self.plan.is_machine();
        !state.loaded || tokens.is_some_and(|tokens| is_stale(tokens) && renewable(tokens))
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.state().loaded
    }

    /// Takes what the store had.
    pub(super) fn loaded(&self, entry: Option<Stored>) {
        let mut state = self.state();
        state.loaded = true;
        state.entry = entry;
    }

    pub(super) fn entry(&self) -> Option<Stored> {
        self.state().entry.clone()
    }

    /// Shows from now on what an entry has.
    pub(super) fn take(&self, entry: Stored) {
        self.state().entry = Some(entry);
    }

    /// Takes note of what is in the store.
    pub(super) fn saw(&self, kept: Option<&Stored>) {
        self.state().seen = kept.and_then(access).cloned();
    }

    /// Whether an entry of the store has other tokens than when it was last looked at.
    pub(super) fn is_overtaken_by(&self, kept: &Stored) -> bool {
        access(kept).is_some_and(|access| self.state().seen.as_ref() != Some(access))
    }

    pub(super) fn with_limits<T>(&self, run: impl FnOnce(&mut Limits) -> T) -> T {
        run(&mut self.state().limits)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn access(entry: &Stored) -> Option<&Secret> {
    entry.tokens.as_ref().map(|tokens| &tokens.access)
}

/// Whether a token ends soon.
pub(super) fn is_stale(tokens: &Tokens) -> bool {
    tokens.expires_at.is_some_and(|at| {
        let lifetime = at.saturating_sub(tokens.issued_at);
        at.saturating_sub(MARGIN.min(lifetime / 4)) <= now()
    })
}

const PROVED: &str = "DPoP ";

fn header(tokens: &Tokens) -> String {
    let scheme = match tokens.kind {
        TokenKind::Bearer => "Bearer ",
        TokenKind::Dpop => PROVED,
    };
    format!("{scheme}{}", tokens.access.expose())
}

/// What is done about a proof that was refused, while nothing is wrong with the token: where the server names a nonce,
/// the next proof has it.
fn doubted(error: &str, refusal: &Refused) -> Result<(), AuthError> {
    let hint = match &refusal.nonce {
        Some(_) if refusal.times <= NONCES => return Ok(()),
        Some(_) => "it wants to see another nonce each time",
        None if error == WANTS_NONCE => "it wants to see a nonce, and names none",
        None => {
            "compare the clock of this machine, and the server's URL with the one it is known by"
        }
    };
    Err(AuthError::Proof { error: error.to_owned(), hint })
}
