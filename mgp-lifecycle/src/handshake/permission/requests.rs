//! Permissions that a server itself requests, by a request or by `input_required` (MGP §3.5, §3.6).

use std::time::SystemTime;

use mgp_types::RpcError;
use mgp_types::mgp::{PermissionDecision, PermissionRequestParams, PermissionRequestResult};
use mgp_types::service::Context;
use tokio::time::timeout;

use super::PermissionFlow;
use super::notice::{GrantNotice, RequestedPermissions};
use crate::error::LifecycleError;

/// Maximum number of open permission requests of one server; further requests are refused with code 3001 (resource
/// exhausted).
const MAX_OPEN_REQUESTS: usize = 4;

impl PermissionFlow {
    /// Answers a server's request with the decision about each permission, `deferred` if there is none yet.
    ///
    /// # Errors
    /// Returns 3001 (resource exhausted) if too many requests of the server are open.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the request.
    pub async fn answer(
        &self,
        mut cx: Context,
        params: PermissionRequestParams,
    ) -> Result<PermissionRequestResult, RpcError> {
        let _open = self.open_request()?;
        let requested = RequestedPermissions::of(params.permissions);
        cx.server = Some(self.0.server.clone());
        let deciding = self.0.grantor.decide(&cx, &self.0.server, requested.decidable());
        let decision = timeout(self.0.limit, deciding).await.unwrap_or_else(|_| {
            // On a timeout, earlier decisions apply; all other permissions are deferred.
            self.0.grantor.standing(&cx, &self.0.server, &requested.decidable())
        });
        Ok(self.to_result(params.request_id, &decision, &requested))
    }

    fn to_result(
        &self,
        request_id: String,
        decision: &PermissionDecision,
        requested: &RequestedPermissions,
    ) -> PermissionRequestResult {
        let notice =
            GrantNotice::of(decision, requested, SystemTime::now()).restricted_to(requested);
        let mut state = self.0.state.lock();
        state.requested.add(requested.names().iter().cloned());
        // The server learns these grants from this answer. Add them to the last notice that it acknowledged, so that
        // they are not sent again.
        let known = notice.clone().restricted_to(&state.requested);
        state.last.grants.extend(known.grants);
        if notice.expires_at.is_some() {
            state.last.expires_at.clone_from(&notice.expires_at);
        }
        drop(state);
        let mut result = PermissionRequestResult::new();
        result.request_id = Some(request_id);
        result.grants = Some(notice.grants);
        result.approved_by = notice.approved_by;
        result.expires_at = notice.expires_at;
        result
    }

    fn open_request(&self) -> Result<OpenRequest<'_>, RpcError> {
        let mut state = self.0.state.lock();
        if state.open_requests >= MAX_OPEN_REQUESTS {
            return Err(LifecycleError::TooManyPermissionRequests(MAX_OPEN_REQUESTS).into());
        }
        state.open_requests += 1;
        Ok(OpenRequest(self))
    }
}

/// A guard that counts a request as open until the guard is dropped.
struct OpenRequest<'a>(&'a PermissionFlow);

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.0.state.lock().open_requests -= 1;
    }
}
