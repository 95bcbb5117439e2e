//! The answers of operators to the requests of the inbox. Also the review of the permissions that a server needs, if
//! the server was not ready when an operator granted access to it (MGP §3).

use mgp_types::RpcError;
use mgp_types::mgp::Permission;
use mgp_types::service::{Principal, ServerId};

use super::Governance;
use crate::approval::{AnswerPlace, ApprovalRequest, ApprovalTerm};
use crate::permission::{ApprovalDecision, ChangeCause, MissingStatus, PermissionChange};

impl Governance {
    /// Asks an operator once about the permissions that the tools of a server need, as soon as these tools are known.
    ///
    /// # Errors
    /// Code 1000 (permission denied) if `by` is not an operator; other codes if there is no inbox, or if the request
    /// cannot be stored.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not be stored.
    pub async fn review_later(&self, by: &Principal, server: &ServerId) -> Result<(), RpcError> {
        self.inbox_or_error()?.keep_review(by, server).await?;
        self.review_ready(server).await
    }

    /// Asks an operator about the permissions that a server needs, if a [review](Self::review_later) of the server is
    /// outstanding and its tools are known by now.
    ///
    /// # Errors
    /// An error if the inbox cannot be read, or if the request cannot be stored or recorded.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not have been made.
    pub async fn review_ready(&self, server: &ServerId) -> Result<(), RpcError> {
        let Some(inbox) = self.inbox() else { return Ok(()) };
        for tenant in inbox.tenants_of_reviews(server)? {
            let Some(tools) = self.definitions().tools(Some(server)) else { continue };
            // The permissions of a server are the same for all principals of a tenant, so the name of the principal
            // does not matter.
            let principal = Principal::new(&*tenant, "");
            let missing = tools.names().flat_map(|tool| {
                let missing = self.missing_permissions(&principal, server, tool);
                missing.into_iter().filter(|one| one.status == MissingStatus::Undecided)
            });
            let mut missing: Vec<Permission> = missing.map(|one| one.permission).collect();
            missing.sort_by(|one, other| one.as_str().cmp(other.as_str()));
            missing.dedup();
            inbox.ask_for_review(server, &tenant, &missing).await?;
        }
        Ok(())
    }

    /// Approves a request of the inbox, and records where the operator answered. If the request is about permissions of
    /// a server, these permissions are approved as well, whether or not a call still waits for the answer.
    ///
    /// `expected` is the state that the operator saw, as in [`Inbox::expecting`](crate::Inbox::expecting).
    ///
    /// # Errors
    /// The same errors as [`Inbox::approve_for`](crate::Inbox::approve_for). Also code −32602 (invalid params) if the
    /// request has another state than expected, and an error if the permissions cannot be approved.
    ///
    /// # Cancel safety
    /// If the future is dropped, the decision may or may not be made.
    pub async fn approve_request(
        &self,
        by: &Principal,
        id: &str,
        term: &ApprovalTerm,
        because: Option<&str>,
        place: Option<AnswerPlace>,
        expected: Option<&str>,
    ) -> Result<ApprovalRequest, RpcError> {
        let inbox = self.inbox_or_error()?.answered_at(place).expecting(expected);
        let request = inbox.approve_for(by, id, term, because).await?;
        self.keep_answer(by, &request, ApprovalDecision::Approved).await?;
        Ok(request)
    }

    /// Denies a request of the inbox, and records where the operator answered. If the request is about permissions of a
    /// server, these permissions are denied as well. `expected` is as in [`approve_request`](Self::approve_request).
    ///
    /// # Errors
    /// The same errors as [`approve_request`](Self::approve_request).
    ///
    /// # Cancel safety
    /// If the future is dropped, the decision may or may not be made.
    pub async fn deny_request(
        &self,
        by: &Principal,
        id: &str,
        because: Option<&str>,
        place: Option<AnswerPlace>,
        expected: Option<&str>,
    ) -> Result<ApprovalRequest, RpcError> {
        let inbox = self.inbox_or_error()?.answered_at(place).expecting(expected);
        let request = inbox.deny(by, id, because).await?;
        self.keep_answer(by, &request, ApprovalDecision::Denied).await?;
        Ok(request)
    }

    /// Stores the answer to a request about permissions of a server as a decision about these permissions, and applies
    /// it to the other open requests. Does nothing for a request about a call.
    async fn keep_answer(
        &self,
        by: &Principal,
        request: &ApprovalRequest,
        decision: ApprovalDecision,
    ) -> Result<(), RpcError> {
        let Some(change) = change_of(request) else { return Ok(()) };
        let permissions = self.permissions();
        match decision {
            _ if !request.is_review => {
                let (trace, tool) = (request.trace_id.as_deref(), request.tool.as_deref());
                let cause = ChangeCause { trace, tool };
                permissions.keep_answer(by, &change, decision, &cause).await?;
            }
            ApprovalDecision::Approved => drop(permissions.approve(by, change).await?),
            _ => drop(permissions.deny(by, change).await?),
        }
        self.settle(by, request.server_id.as_deref()).await
    }

    /// Applies the stored decisions about a server's permissions to the open requests that ask for these permissions.
    ///
    /// # Errors
    /// The same errors as [`Inbox::settle`](crate::Inbox::settle).
    ///
    /// # Cancel safety
    /// The same as for [`Inbox::settle`](crate::Inbox::settle).
    pub async fn settle(&self, by: &Principal, server: Option<&str>) -> Result<(), RpcError> {
        let (Some(inbox), Some(server)) = (self.inbox(), server.map(ServerId::from)) else {
            return Ok(());
        };
        let decisions = self.permissions().list(by, Some(&server)).await?;
        inbox.settle(by, &server, &decisions).await
    }

    fn inbox_or_error(&self) -> Result<&crate::Inbox, RpcError> {
        self.inbox().ok_or_else(|| RpcError::internal("this governance has no inbox of approvals"))
    }
}

/// Returns the decision about permissions that follows from the answer to a request; `None` if the request is about a
/// call, or about the tools of this process.
fn change_of(request: &ApprovalRequest) -> Option<PermissionChange> {
    let server = request.server_id.as_deref().filter(|_| request.arguments.is_none())?;
    let mut change = PermissionChange::of(ServerId::from(server), request.permissions.clone());
    if let Some(until) = request.holds_until.clone() {
        change = change.until(until);
    }
    if let Some(because) = &request.justification {
        change = change.because(because.as_str());
    }
    Some(change)
}
