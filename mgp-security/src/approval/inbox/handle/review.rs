//! Reviews of the permissions of servers that were not ready when an operator granted access to them.
//!
//! The inbox stores one request per server, and asks an operator once the server is ready.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_types::mgp::{AuditEvent, Permission};
use mgp_types::service::{Principal, ServerId};
use mgp_types::{RpcError, random_name};

use super::super::request::{ApprovalRequest, RequestState, Requests};
use super::Inbox;
use super::beside::changed_by_others;
use crate::access::{AdminCheck, Need};
use crate::approval::{Question, QuestionSubject};
use crate::audit::Event;
use crate::entries::MAX_ATTEMPTS;
use crate::error::Refusal;

/// The maximum time that a review waits until its server is ready, and the maximum time that it then waits for an
/// operator.
const REVIEW_TTL: Duration = Duration::from_hours(24 * 30);

impl Inbox {
    /// Stores a review of a server's permissions, unless the operator's tenant already has an undecided review of this
    /// server.
    pub(crate) async fn keep_review(
        &self,
        by: &Principal,
        server: &ServerId,
    ) -> Result<(), RpcError> {
        let caller = AdminCheck::without_call(by).within_tenant();
        self.admit(caller, Need::Write, "approvals.decide").await?;
        let _turn = self.0.turn.lock().await;
        let now = SystemTime::now();
        let is_open = |request: &Arc<ApprovalRequest>| {
            request.is_review_of(server)
                && request.tenant == by.tenant().as_str()
                && matches!(request.state, RequestState::Later | RequestState::Open)
                && !request.is_over(now)
        };
        if self.0.state.now()?.all().any(is_open) {
            return Ok(());
        }
        let id: String = random_name()?.chars().take(10).collect();
        let review = ApprovalRequest::review(by, server, id, now, now + REVIEW_TTL);
        let writes = vec![(review.id.clone(), Some(review))];
        self.0.state.write(writes, Vec::new()).await.map_err(Refusal::from)?;
        Ok(())
    }

    /// Returns a review as an open request. If the review waited for its server, it is opened and asks for the
    /// permissions of the question. Returns `None` if another process changed the review meanwhile, so that it must be
    /// read again.
    ///
    /// The caller of this method must hold the lock of the requests.
    pub(super) async fn opened(
        &self,
        review: &Arc<ApprovalRequest>,
        question: &Question,
        now: SystemTime,
    ) -> Result<Option<Arc<ApprovalRequest>>, RpcError> {
        let (QuestionSubject::Permissions { permissions, .. }, Some(server), RequestState::Later) =
            (&question.about, &question.server, review.state)
        else {
            return Ok(Some(Arc::clone(review)));
        };
        let (asked, event) = asking(review, server, permissions, now);
        let writes = vec![(Arc::clone(review), asked.clone())];
        let is_opened = self.replace(writes, vec![event]).await?;
        Ok(is_opened.then(|| Arc::new(asked)))
    }

    /// Returns the tenants with a review that still waits until this server is ready.
    pub(crate) fn tenants_of_reviews(&self, server: &ServerId) -> Result<Vec<String>, RpcError> {
        let (requests, now) = (self.0.state.now()?, SystemTime::now());
        let waiting = requests.all().filter(|request| {
            request.is_review_of(server)
                && request.state == RequestState::Later
                && !request.is_over(now)
        });
        Ok(waiting.map(|request| request.tenant.clone()).collect())
    }

    /// Asks the operators of a tenant about the permissions that a server needs, now that the server is ready. Removes
    /// the review if the server needs none.
    pub(crate) async fn ask_for_review(
        &self,
        server: &ServerId,
        tenant: &str,
        permissions: &[Permission],
    ) -> Result<(), RpcError> {
        let _turn = self.0.turn.lock().await;
        let is_waiting = |request: &ApprovalRequest| {
            request.is_review_of(server)
                && request.tenant == tenant
                && request.state == RequestState::Later
        };
        if permissions.is_empty() {
            return Ok(self.0.state.take_out(is_waiting, |_| None).await.map_err(Refusal::from)?);
        }
        for _ in 0..MAX_ATTEMPTS {
            let (requests, now) = (self.0.state.now()?, SystemTime::now());
            let (mut writes, mut events) = (Vec::new(), Vec::new());
            for request in requests.all().filter(|request| is_waiting(request)) {
                let (asked, event) = asking(request, server, permissions, now);
                events.push(event);
                writes.push((Arc::clone(request), asked));
            }
            // If another process changed a review meanwhile, repeat: read again which reviews still wait.
            if writes.is_empty() || self.replace(writes, events).await? {
                return Ok(());
            }
        }
        Err(changed_by_others())
    }
}

/// Returns the review that serves as the request for a question about permissions, if any: an open review of all these
/// permissions or, for a question about no tool, a review that waits for its server.
pub(super) fn review_about<'a>(
    question: &Question,
    requests: &'a Requests,
    now: SystemTime,
) -> Option<&'a Arc<ApprovalRequest>> {
    let (QuestionSubject::Permissions { permissions, tool }, Some(server)) =
        (&question.about, &question.server)
    else {
        return None;
    };
    requests.all().find(|request| {
        request.is_review_of(server)
            && request.tenant == question.principal.tenant().as_str()
            && !request.is_over(now)
            && match request.state {
                RequestState::Later => tool.is_none(),
                RequestState::Open => {
                    permissions.iter().all(|one| request.permissions.contains(one))
                }
                _ => false,
            }
    })
}

/// Returns an open request that asks for `permissions` in place of a waiting review, and the audit event for this
/// request.
fn asking(
    review: &ApprovalRequest,
    server: &ServerId,
    permissions: &[Permission],
    now: SystemTime,
) -> (ApprovalRequest, AuditEvent) {
    let asked = review.asking_for(permissions, now, now + REVIEW_TTL);
    let by = Principal::new(&*asked.tenant, &*asked.subject);
    let event = Event::approval_requested(&by, &asked.id, Some(&asked.expires_at));
    let event = event.server(Some(server)).build();
    (asked, event)
}
