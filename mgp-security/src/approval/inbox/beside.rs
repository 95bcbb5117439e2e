//! An approver whose open questions also appear in the inbox (MGP §3.4, §4.4).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mgp_types::mgp::{GrantDecision, Permission};
use mgp_types::service::{Context, ServerId};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};

use super::handle::{Inbox, Lookup};
use super::request::ApprovalRequest;
use crate::approval::{Approver, Decision, LeftOpen, Question};

/// An approver that asks another approver, and meanwhile keeps the question open in the inbox. The first answer
/// decides.
///
/// A question that the approver leaves undecided stays open in the inbox, even after its caller has disconnected.
pub(crate) struct AskedAndKept {
    pub(crate) first: Arc<dyn Approver>,
    pub(crate) inbox: Inbox,
}

impl AskedAndKept {
    /// Closes the request of a question that the approver has answered. Returns the operator's decision if the operator
    /// decided first, otherwise the approver's decision with the id of the request.
    async fn settle(
        &self,
        question: &Question,
        kept: &ApprovalRequest,
        decision: Decision,
    ) -> Result<Decision, RpcError> {
        if self.inbox.close(&kept.id, &decision).await? {
            return Ok(with_id(decision, kept));
        }
        match self.inbox.outcome(question, kept).await? {
            Some(Lookup::Decided(first)) => Ok(first),
            // The operator had answered, but an equal call has used that answer. The question has a new request, so
            // close it.
            Some(Lookup::Open(again)) => {
                self.inbox.close(&again.id, &decision).await?;
                Ok(with_id(decision, &again))
            }
            None => Ok(decision),
        }
    }
}

/// Adds the id of a question's request to an answer, so that the record of the call names its question. A denied call
/// can still be approved under this id. Does not add the id of a request that stays open: of a question that was left
/// undecided, or of a review.
fn with_id(decision: Decision, request: &ApprovalRequest) -> Decision {
    if decision.answer == GrantDecision::Deferred || request.is_review {
        return decision;
    }
    decision.with("approval_id", &request.id)
}

#[async_trait]
impl Approver for AskedAndKept {
    async fn decide(&self, cx: &Context, question: Question) -> Result<Decision, RpcError> {
        let (first, inbox) = (&self.first, &self.inbox);
        let kept = match inbox.find(&question).await {
            Ok(Lookup::Decided(decision)) => return Ok(decision),
            Ok(Lookup::Open(request)) => request,
            // The inbox is full, so the question cannot be kept there. The approver can still be asked.
            Err(error) if error.code() == ErrorCode::RESOURCE_EXHAUSTED => {
                return first.decide(cx, question).await.map_err(|_| error);
            }
            Err(error) => return Err(error),
        };
        // The open request of the question. If an equal call uses the answer to this request, a new request replaces
        // it.
        let kept = Mutex::new(kept);
        let current = || Arc::clone(&kept.lock());
        let left_open =
            |cause: LeftOpen| current().decision(GrantDecision::Deferred).with("cause", &cause);
        let asking = tokio::time::timeout(first.timeout(), first.decide(cx, question.clone()));
        let answer = tokio::select! {
            biased;
            answer = asking => answer,
            decided = inbox.decided(&question, &kept) => return decided,
            () = inbox.waits_ended() => return Ok(left_open(LeftOpen::Closed)),
        };
        match answer {
            Ok(Ok(decision)) => match decision.left_open() {
                Some(LeftOpen::NotAllowed) | None => {
                    self.settle(&question, &current(), decision).await
                }
                Some(cause) => Ok(left_open(cause)),
            },
            // The approver is unavailable, so only the inbox remains.
            Ok(Err(_)) => inbox.ask(question).await,
            Err(_) => Ok(left_open(LeftOpen::Unanswered)),
        }
    }

    fn grants(&self, server: Option<&ServerId>, permission: &Permission) -> bool {
        self.first.grants(server, permission)
    }

    /// Returns the sum of the time limits of the approver and the inbox. The time limit of the inbox includes a margin
    /// in which the waiting call can still get the approval id.
    fn timeout(&self) -> Duration {
        self.first.timeout() + self.inbox.timeout()
    }
}
