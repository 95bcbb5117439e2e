//! Permissions a server asks for itself, by a request or by `input_required` (MGP §3.5, §3.6; checklist C5).
//!
//! Applies to: inbound.

use std::time::SystemTime;

use mgp_types::RpcError;
use mgp_types::mgp::{PermissionDecision, PermissionRequestParams, PermissionRequestResult};
use mgp_types::service::Context;
use tokio::time::timeout;

use super::PermissionFlow;
use super::told::{Told, Wanted};
use crate::error::Refusal;

/// How many requests of one server may be open; a further one is refused with 3001.
const MAX_ASKING: usize = 4;

impl PermissionFlow {
    /// Answers what a server asks for: it learns the decision about each permission, `deferred` where there is none yet.
    ///
    /// # Errors
    /// 3001 when the server asks too much at once.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the question.
    pub async fn answer(
        &self,
        mut cx: Context,
        params: PermissionRequestParams,
    ) -> Result<PermissionRequestResult, RpcError> {
        let _turn = self.take_turn()?;
        let wanted = Wanted::of(params.permissions);
        cx.server = Some(self.0.server.clone());
        let deciding = self.0.grantor.decide(&cx, &self.0.server, wanted.askable());
        let decision = timeout(self.0.limit, deciding).await.unwrap_or_else(|_| {
            // What was decided before holds; the rest is deferred.
            self.0.grantor.standing(&cx, &self.0.server)
        });
        Ok(self.worded(params.request_id, &decision, &wanted))
    }

    fn worded(
        &self,
        request_id: String,
        decision: &PermissionDecision,
        wanted: &Wanted,
    ) -> PermissionRequestResult {
        let told = Told::of(decision, wanted, SystemTime::now()).about(wanted);
        let mut state = self.state();
        state.wanted.add(wanted.names().iter().cloned());
        // It need not be told a second time; what it was told before stands as it was.
        let known = told.clone().about(&state.wanted);
        state.last.grants.extend(known.grants);
        if told.expires_at.is_some() {
            state.last.expires_at.clone_from(&told.expires_at);
        }
        drop(state);
        let mut result = PermissionRequestResult::new();
        result.request_id = Some(request_id);
        result.grants = Some(told.grants);
        result.approved_by = told.approved_by;
        result.expires_at = told.expires_at;
        result
    }

    fn take_turn(&self) -> Result<Turn<'_>, RpcError> {
        let mut state = self.state();
        if state.asking >= MAX_ASKING {
            return Err(Refusal::TooManyPermissionRequests(MAX_ASKING).into());
        }
        state.asking += 1;
        Ok(Turn(self))
    }
}

/// One of the requests that may be open.
struct Turn<'a>(&'a PermissionFlow);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state().asking -= 1;
    }
}
