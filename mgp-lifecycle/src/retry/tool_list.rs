//! The request for a server's tool list: a tool's definition can permit a second run of a call, or a fallback.

use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::mcp::ListParams;
use mgp_types::method::ToolsList;
use mgp_types::service::{Call, CallKey, Deadline, Extensions, MgpService, Outlet};
use tokio::time::{Instant, timeout_at};

use super::retryable_call::RetryableCall;
use super::tools::ListPage;

/// The time limit for listing a server's tools. After it, the decision about a retry is made without the definitions
/// that are still missing.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

const MAX_LIST_PAGES: usize = 64;

impl<S: MgpService> RetryableCall<S> {
    /// Requests the server's list of tools, unless the list is known or was requested recently, or the server's circuit
    /// is open.
    pub(super) async fn learn_tools(&mut self, end: Deadline) {
        if !self.context.learns()
            || !self.server.refuses_for().is_zero()
            || !self.server.tools.lock().begin_listing(Instant::now())
        {
            return;
        }
        let changes = self.server.tools.lock().changes();
        let end = Deadline::after(LIST_TIMEOUT).earlier(end);
        let mut params = ListParams::new();
        for number in 0..MAX_LIST_PAGES {
            let page = if number == 0 { ListPage::First } else { ListPage::Next };
            let Ok(request) = list_request(&self.call, &params, end) else { return };
            let listing = std::pin::pin!(self.inner.call(request));
            let reply = match end.instant() {
                Some(at) => timeout_at(at, listing).await.ok(),
                None => Some(listing.await),
            };
            let Some(Ok(reply)) = reply else {
                tracing::debug!("failed to list tools");
                return;
            };
            let next = self.context.learn(&self.server, &reply, page, changes);
            // A server that ignores cursors repeats its first page, so stop when a cursor is repeated.
            if next.is_none() || next == params.cursor {
                return;
            }
            params.cursor = next;
        }
    }
}

/// Returns a request for a page of the server's tool list, made on behalf of a call.
fn list_request(call: &Call, params: &ListParams, end: Deadline) -> Result<Call, RpcError> {
    let mut cx = call.cx().clone();
    cx.key = CallKey::next();
    cx.logical = None;
    cx.outlet = Outlet::none();
    cx.extensions = Extensions::default();
    cx.deadline = end.earlier(cx.deadline);
    let mut list = Call::ask::<ToolsList>(params, cx)?;
    *list.hop_mut() = call.hop().sender_members();
    Ok(list)
}
