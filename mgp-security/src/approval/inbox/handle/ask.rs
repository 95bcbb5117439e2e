//! Waits for the answers to questions.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use mgp_types::RpcError;
use mgp_types::mgp::GrantDecision;
use mgp_types::service::Context;
use tokio::time::sleep;

use super::super::request::{ApprovalRequest, RequestState};
use super::{Inbox, Lookup};
use crate::approval::{Approver, Decision, LeftOpen, Question};

impl Inbox {
    /// Waits for the answer to a question, for a limited time.
    pub(in crate::approval::inbox) async fn ask(
        &self,
        question: Question,
    ) -> Result<Decision, RpcError> {
        let mut moves = self.0.moved.subscribe();
        let mut late = pin!(sleep(self.wait()));
        let mut asked: Option<Arc<ApprovalRequest>> = None;
        loop {
            moves.borrow_and_update();
            let requests = self.0.state.now()?;
            let known = asked.as_ref().and_then(|asked| requests.get(&asked.id));
            let is_replaced = || requests.all().any(|other| other.is_about(&question));
            if asked.is_some() && known.is_none() && !is_replaced() {
                // The request was removed with its server, so do not ask again.
                let removed = Decision::new(GrantDecision::Deferred, "the inbox of approvals");
                return Ok(removed.with("cause", &LeftOpen::Closed));
            }
            if let Some(now) = known
                && (now.state == RequestState::Settled || now.is_decision(now.state))
            {
                // The request was closed or decided meanwhile, so stop waiting.
                return Ok(now.closing_decision());
            }
            // If the call was granted one of the permissions meanwhile, that permission was removed from the request,
            // so the request does not match the question any more. Keep waiting: the `gate` module will ask again with
            // fewer permissions.
            // Also keep waiting if only other requests have changed, because many calls can wait.
            let is_unchanged = |known: &Arc<ApprovalRequest>| {
                asked.as_ref().is_some_and(|asked| Arc::ptr_eq(asked, known))
                    && !known.is_over(SystemTime::now())
            };
            let known = known.filter(|known| is_unchanged(known) || !known.answers(&question));
            let waiting = match known.cloned() {
                Some(known) => known,
                None => match self.find(&question).await? {
                    Lookup::Decided(decision) => return Ok(decision),
                    Lookup::Open(request) => request,
                },
            };
            asked = Some(Arc::clone(&waiting));
            tokio::select! {
                moved = moves.changed() => if moved.is_err() {
                    return Ok(waiting.decision(GrantDecision::Deferred));
                },
                () = &mut late => return Ok(waiting.decision(GrantDecision::Deferred)),
                () = self.waits_ended() => {
                    let closed = waiting.decision(GrantDecision::Deferred);
                    return Ok(closed.with("cause", &LeftOpen::Closed));
                }
            }
        }
    }
}

#[async_trait]
impl Approver for Inbox {
    async fn decide(&self, _: &Context, question: Question) -> Result<Decision, RpcError> {
        self.ask(question).await
    }

    /// Returns [`InboxConfig::wait`](super::InboxConfig::wait) plus a margin in which the waiting call can still get
    /// the approval id.
    fn timeout(&self) -> Duration {
        self.wait() + Duration::from_secs(4)
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::Sha256Hash;
    use mgp_types::mgp::RiskLevel;
    use mgp_types::service::{MemoryAudit, Principal};
    use mgp_types::store::MemoryStore;

    use super::*;
    use crate::approval::QuestionSubject;

    fn wipe(arguments: &str) -> Question {
        let about = QuestionSubject::Call {
            tool: "wipe".to_owned(),
            arguments: arguments.to_owned(),
            risk: RiskLevel::Dangerous,
            permissions: Vec::new(),
        };
        let binding = Sha256Hash::digest(arguments.as_bytes());
        Question::new(about, Some("disk".into()), Principal::local().agent("eve"), binding)
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_call_does_not_look_up_its_request_again_after_a_change_of_others() {
        let inbox = Inbox::new(Arc::new(MemoryStore::new()), Arc::new(MemoryAudit::new()));
        inbox.open().await.unwrap();
        let ask = |question| {
            let inbox = inbox.clone();
            tokio::spawn(async move { inbox.ask(question).await.unwrap() })
        };
        let waits = ask(wipe(r#"{"what":"all"}"#));
        let other = inbox.find(&wipe(r#"{"what":"home"}"#)).await.unwrap();
        let Lookup::Open(other) = other else { panic!("it is decided") };
        tokio::time::sleep(Duration::from_secs(1)).await;

        // A lookup needs this lock.
        let _turn = inbox.0.turn.lock().await;
        inbox.0.state.write(vec![(other.id.clone(), None)], Vec::new()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        inbox.end_waits();
        let left = tokio::time::timeout(Duration::from_secs(1), waits).await.unwrap().unwrap();
        assert_eq!(left.answer, GrantDecision::Deferred);
    }
}
