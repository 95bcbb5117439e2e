//! An approver whose open questions also appear in the inbox (MGP §3.4, §4.4).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mgp_types::mgp::{GrantDecision, Permission};
use mgp_types::service::{Context, ServerId};
use mgp_types::{ErrorCode, RpcError};

use super::handle::{Inbox, Lookup};
use crate::approval::{Approver, Decision, LeftOpen, Question};

/// Asks an approver and meanwhile keeps the question in the inbox; the first answer decides.
///
/// A question that the approver leaves undecided stays open in the inbox, even after its caller has disconnected.
pub(crate) struct AskedAndKept {
    pub(crate) first: Arc<dyn Approver>,
    pub(crate) inbox: Inbox,
}

#[async_trait]
impl Approver for AskedAndKept {
    async fn decide(&self, cx: &Context, question: Question) -> Result<Decision, RpcError> {
        let (first, inbox) = (&self.first, &self.inbox);
        let kept = match inbox.find(&question).await {
            Ok(Lookup::Decided(decision)) => return Ok(decision),
            Ok(Lookup::Open(request)) => request,
            // The inbox is full, but the approver can still be asked.
            Err(error) if error.code() == ErrorCode::RESOURCE_EXHAUSTED => {
                return first.decide(cx, question).await.map_err(|_| error);
            }
            Err(error) => return Err(error),
        };
        let left_open =
            |cause: LeftOpen| kept.decision(GrantDecision::Deferred).with("cause", &cause);
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
                    inbox.close(&kept.id, &decision).await?;
                    Ok(decision)
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
