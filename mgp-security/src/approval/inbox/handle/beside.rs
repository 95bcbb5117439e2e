//! Questions that are open in the inbox while another approver is asked about them, too.

use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::mgp::GrantDecision;
use mgp_types::store::StoreError;
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError, Timestamp};

use super::super::request::{ApprovalRequest, RequestState};
use super::{Inbox, Lookup};
use crate::approval::{ApprovalTerm, Decision, Question};
use crate::entries::MAX_ATTEMPTS;
use crate::error::Refusal;
use crate::state::ChangeError;

/// The maximum length of a justification, in bytes.
const MAX_JUSTIFICATION: usize = 1024;

impl Inbox {
    /// Waits until an operator decides a question, whose open request is `kept`. If the request ends without a decision
    /// about this question, e.g. because an equal call has used the answer, the question gets a new request.
    pub(in crate::approval::inbox) async fn decided(
        &self,
        question: &Question,
        kept: &Mutex<Arc<ApprovalRequest>>,
    ) -> Result<Decision, RpcError> {
        let mut moves = self.0.moved.subscribe();
        loop {
            moves.borrow_and_update();
            let known = Arc::clone(&kept.lock());
            match self.outcome(question, &known).await? {
                Some(Lookup::Decided(decision)) => return Ok(decision),
                Some(Lookup::Open(request)) => *kept.lock() = request,
                None => {}
            }
            if moves.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Returns the decision about a question with the request `kept`. If that request ended without a decision about
    /// this question, returns the question's new request. Returns `None` while `kept` is open.
    pub(in crate::approval::inbox) async fn outcome(
        &self,
        question: &Question,
        kept: &ApprovalRequest,
    ) -> Result<Option<Lookup>, RpcError> {
        let requests = self.0.state.now()?;
        let has_ended = match requests.get(&kept.id) {
            Some(now) if kept.is_decision(now.state) => {
                return Ok(Some(Lookup::Decided(now.closing_decision())));
            }
            Some(now) => match now.state {
                RequestState::Approved | RequestState::Denied => now.answers(question),
                RequestState::Used | RequestState::Settled => true,
                RequestState::Later | RequestState::Open => false,
            },
            // A request about the same call with other permissions has replaced `kept`. Add no new request while that
            // request is open, because each of the two would replace the other again and again.
            None => {
                let mut open = requests.open(SystemTime::now());
                requests.all().any(|other| other.is_about(question))
                    && !open.any(|other| other.is_about(question))
            }
        };
        if !has_ended {
            return Ok(None);
        }
        match self.find(question).await {
            Ok(found) => Ok(Some(found)),
            // The inbox is full, so keep no new request. The other approver can still answer.
            Err(error) if error.code() == ErrorCode::RESOURCE_EXHAUSTED => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Closes an open request whose question was answered by another approver; a review stays open. Returns `false` if
    /// an operator's answer that no call has used yet, or a decision about the permissions, decides the question
    /// instead.
    pub(in crate::approval::inbox) async fn close(
        &self,
        id: &str,
        decision: &Decision,
    ) -> Result<bool, RpcError> {
        let _turn = self.0.turn.lock().await;
        for _ in 0..MAX_ATTEMPTS {
            if let Some(is_closed) = self.try_close(id, decision).await? {
                return Ok(is_closed);
            }
        }
        Err(changed_by_others())
    }

    /// Closes a request as [`close`](Self::close) does. Returns `None` if another process changed the request
    /// meanwhile, so that it must be read again.
    async fn try_close(&self, id: &str, decision: &Decision) -> Result<Option<bool>, RpcError> {
        let requests = self.0.state.now()?;
        let Some(known) = requests.get(id) else { return Ok(Some(true)) };
        if known.state != RequestState::Open {
            let is_answered = matches!(known.state, RequestState::Approved | RequestState::Denied);
            return Ok(Some(!is_answered && !known.is_decision(known.state)));
        }
        // The answer to a question about some permissions of a server does not end the review of all of them, so leave
        // the review open.
        if known.is_review {
            return Ok(Some(true));
        }
        let mut closed = ApprovalRequest::clone(known);
        closed.state = match decision.answer {
            GrantDecision::Approved => RequestState::Used,
            _ => RequestState::Settled,
        };
        closed.decided_by = Some(decision.by.clone());
        closed.via = decision.via;
        closed.justification = decision.reason();
        closed.expires_at = (SystemTime::now() + self.0.config.answer_ttl).into();
        let event = closed
            .decided_event(decision.actor(), closed.state_word())
            .justification(closed.justification.as_deref())
            .build();
        let is_closed = self.replace(vec![(Arc::clone(known), closed)], vec![event]).await?;
        Ok(is_closed.then_some(true))
    }
}

/// Checks an operator's answer before any part of the answer is stored. Otherwise a request about permissions could
/// count as approved, although the permissions cannot be approved with this justification or this expiry.
///
/// # Errors
/// Code −32602 (invalid params) if the justification is too long, or if the time until which the answer applies is
/// unreadable or past.
pub(super) fn check_answer(
    approved: Option<&ApprovalTerm>,
    justification: Option<&str>,
) -> Result<(), RpcError> {
    if justification.is_some_and(|text| text.len() > MAX_JUSTIFICATION) {
        let message = format!("the reason has more than {MAX_JUSTIFICATION} bytes");
        return Err(RpcError::invalid_params(message));
    }
    let until = match approved {
        Some(ApprovalTerm::Tool { until }) => Some(until),
        Some(ApprovalTerm::Like { until }) => until.as_ref(),
        Some(ApprovalTerm::Once) | None => None,
    };
    match until.map(Timestamp::to_system_time) {
        Some(None) => Err(RpcError::invalid_params("`until` is not an RFC 3339 time")),
        Some(Some(end)) if end <= SystemTime::now() => {
            Err(RpcError::invalid_params("`until` has passed"))
        }
        _ => Ok(()),
    }
}

/// Returns the error if no request has this id, or if the request cannot be answered in its state: it waits for its
/// server, is decided, or is open although the operator saw another state.
pub(super) fn not_open(request: Option<&Arc<ApprovalRequest>>, id: &str) -> RpcError {
    RpcError::invalid_params(match request {
        Some(later) if later.state == RequestState::Later => {
            format!("`{}` cannot be answered until its server is ready", later.id)
        }
        Some(open) if open.state == RequestState::Open => format!("`{}` is open", open.id),
        Some(decided) => {
            let mut text = format!("`{}` is {} already", decided.id, decided.state_word());
            if let Some(by) = &decided.decided_by {
                text.extend([", by ", by]);
            }
            if let Some(reason) = &decided.justification {
                text.extend([": ", reason]);
            }
            text
        }
        None => {
            let id = mgp_types::clip(id, 64);
            format!(
                "no open request has the id `{id}`; see `mgp approvals ls`, and give the id of a registration in full"
            )
        }
    })
}

/// Returns the error for a request that other processes changed at every attempt to change it.
pub(super) fn changed_by_others() -> RpcError {
    let busy = StoreError::Busy("others change the same request");
    Refusal::from(ChangeError::Store(busy)).into()
}
