//! Confirmation by the caller's own user, with a token (extension `human_in_the_loop`).
//!
//! The first call is not run. Its answer contains a token that is bound to the caller, server, tool and arguments. The
//! client asks its user and repeats the call with the token. The operator decides which callers are allowed to confirm
//! in this way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mgp_types::mgp::{Extension, GrantDecision, Permission, RiskLevel};
use mgp_types::proposal::{
    CallMembers, ConfirmationRequired, ConfirmationRisk, ConfirmationStatus, ConfirmationToken,
    UserConfirmed,
};
use mgp_types::service::{
    BoxFuture, Call, Context, Either, MgpService, Principal, Reply, ServerId,
};
use mgp_types::sync::Mutex;
use mgp_types::{RpcError, Sealer, Sha256Hash, random_name};
use tokio::time::Instant;
use tower_service::Service;

use super::describe::describe;
use super::{AnswerPlace, Approver, Decision, Question, QuestionSubject};

/// The time for which the token of a confirmation by the caller is valid.
const TOKEN_TTL: Duration = Duration::from_mins(5);

/// The maximum number of used tokens that are remembered until they expire. At this limit, further tokens are not
/// accepted.
const MAX_USED: usize = 65_536;

/// The maximum length of a token, in bytes; a longer token is ignored.
const MAX_TOKEN: usize = 1024;

/// The purpose under which tokens are sealed; a value sealed for another purpose is not accepted as a token.
const PURPOSE: &str = "mgp.confirmation";

/// The member of an error's details that contains the token and the message for the caller.
const DETAIL: &str = "confirmation";

/// A function that returns whether a caller's own user is allowed to confirm the caller's calls.
pub(crate) type MayConfirm = dyn Fn(&Principal) -> bool + Send + Sync;

/// An approver that lets some callers confirm their calls with a token, and passes all other questions to the approver
/// `others`.
#[derive(Clone)]
pub(crate) struct ByCaller {
    may_confirm: Arc<MayConfirm>,
    tokens: Arc<Tokens>,
    others: Arc<dyn Approver>,
}

/// The issuer of the tokens of this process, which accepts each of them once. Tokens of an earlier process are not
/// valid.
struct Tokens {
    sealer: Sealer,
    used: Mutex<HashMap<Sha256Hash, Instant>>,
}

impl ByCaller {
    /// Creates the approver, or returns `None` if the system cannot provide a random key.
    pub(crate) fn new(may_confirm: Arc<MayConfirm>, others: Arc<dyn Approver>) -> Option<Self> {
        let sealer = Sealer::random().ok()?;
        let tokens = Arc::new(Tokens { sealer, used: Mutex::default() });
        Some(Self { may_confirm, tokens, others })
    }

    /// Decides about a call by the token in the call. If the call contains no valid token, its caller gets a new token.
    fn decide_call(
        &self,
        cx: &Context,
        question: &Question,
        risk: &RiskLevel,
    ) -> Result<Decision, RpcError> {
        if let Some(Given { token, confirmed }) = cx.extensions.get::<Given>().cloned()
            && self.tokens.take(&token, question)
        {
            let answer = if confirmed { GrantDecision::Approved } else { GrantDecision::Denied };
            let mut decision = Decision::new(answer, question.principal.subject().as_str());
            decision.via = Some(AnswerPlace::Host);
            return Ok(decision);
        }
        let required = ConfirmationRequired::new(
            ConfirmationStatus::Required,
            describe(question),
            ConfirmationRisk::of_risk(risk),
            self.tokens.create(question)?,
        );
        Ok(Decision::new(GrantDecision::Deferred, "").with(DETAIL, &required))
    }
}

#[async_trait]
impl Approver for ByCaller {
    async fn decide(&self, cx: &Context, question: Question) -> Result<Decision, RpcError> {
        match &question.about {
            QuestionSubject::Call { risk, .. }
                if cx.caller.has(Extension::HumanInTheLoop)
                    && (self.may_confirm)(&cx.principal) =>
            {
                self.decide_call(cx, &question, risk)
            }
            _ => self.others.decide(cx, question).await,
        }
    }

    fn grants(&self, server: Option<&ServerId>, permission: &Permission) -> bool {
        self.others.grants(server, permission)
    }

    fn timeout(&self) -> Duration {
        self.others.timeout()
    }
}

/// The token and the user's answer that a call contained, stored as an extension of the call.
#[derive(Clone)]
struct Given {
    token: String,
    confirmed: bool,
}

impl Tokens {
    fn create(&self, question: &Question) -> Result<String, RpcError> {
        let (binding, nonce) = (question.binding.to_string(), random_name()?);
        self.sealer.seal(PURPOSE, &[&binding], TOKEN_TTL, nonce.as_bytes())
    }

    /// Marks a token as used. Returns `false` if the token was used before, is not valid for this question, or cannot
    /// be remembered because the limit is reached.
    fn take(&self, token: &str, question: &Question) -> bool {
        let binding = question.binding.to_string();
        if token.len() > MAX_TOKEN || self.sealer.open(PURPOSE, &[&binding], token).is_err() {
            return false;
        }
        let mut used = self.used.lock();
        if used.len() >= MAX_USED {
            used.retain(|_, end| *end > Instant::now());
        }
        let is_new = used.len() < MAX_USED;
        // Remember the used token slightly longer than the token is valid, so that it cannot be used twice.
        let end = Instant::now() + TOKEN_TTL + Duration::from_secs(1);
        is_new && used.insert(Sha256Hash::digest(token.as_bytes()), end).is_none()
    }
}

/// Layer that reads the confirmation tokens of calls, and answers unconfirmed calls with a new token instead of an
/// error.
///
/// The layer acts only for callers that negotiated `human_in_the_loop`. Place it outside a governance that is built
/// with [`confirmed_by_caller`](crate::GovernanceBuilder::confirmed_by_caller).
#[derive(Clone, Copy, Debug)]
pub struct CallerConfirmLayer;

mgp_types::layer_service! {
    /// Service of [`CallerConfirmLayer`].
    pub CallerConfirm for CallerConfirmLayer
}

impl<S: MgpService> Service<Call> for CallerConfirm<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        if call.tool().is_none() || !call.cx().caller.has(Extension::HumanInTheLoop) {
            return Either::Left { future: self.inner.call(call) };
        }
        // Remove the token from the call, because a server to which a gateway forwards the call must not receive a
        // token of the gateway.
        match take_given(call.cx_mut()) {
            Ok(Some(given)) => call.cx_mut().extensions.insert(given),
            Ok(None) => {}
            Err(error) => {
                return Either::Right { future: Box::pin(std::future::ready(Err(error))) };
            }
        }
        let answer = self.inner.call(call);
        let future = Box::pin(async move {
            answer.await.or_else(|error| match required_by(&error) {
                Some(required) => Reply::of(&required.to_result()),
                None => Err(error),
            })
        });
        Either::Right { future }
    }
}

fn take_given(cx: &mut Context) -> Result<Option<Given>, RpcError> {
    let token = CallMembers::take::<ConfirmationToken>(cx)?;
    let confirmed = CallMembers::take::<UserConfirmed>(cx)?;
    let both = token.zip(confirmed);
    Ok(both.map(|(token, confirmed)| Given { token: token.0, confirmed: confirmed.0 }))
}

fn required_by(error: &RpcError) -> Option<ConfirmationRequired> {
    error.as_recovery()?.details.as_ref()?.decode(DETAIL).ok()?
}
