//! The request for a server's tool list: a tool's definition can permit a second run of a call, or a fallback.

use std::time::Duration;

use mgp_types::Payload;
use mgp_types::method::{Request, ToolsList};
use mgp_types::service::{
    Call, CallKey, Deadline, Extensions, Method, MgpService, Outlet, Params, Reply,
};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::future::RetryableCall;
use super::tools::ListPage;

/// The time limit for listing a server's tools. After it, the decision about a retry is made without the definitions
/// that are still missing.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum number of pages of a tool list that are read.
const MAX_LIST_PAGES: usize = 64;

impl<S: MgpService> RetryableCall<S> {
    /// Requests the server's list of tools, unless it is known or was requested recently.
    pub(super) async fn learn_tools(&mut self, end: Deadline) {
        if !self.context.learns()
            || !self.server.refuses_for().is_zero()
            || !self.server.tools.lock().wants_list(Instant::now())
        {
            return;
        }
        let end = Deadline::after(LIST_TIMEOUT).earlier(end);
        let mut cursor = None;
        for number in 0..MAX_LIST_PAGES {
            let page = if number == 0 { ListPage::First } else { ListPage::Next };
            let listing = self.inner.call(list_request(&self.call, cursor.take(), end));
            let listing = std::pin::pin!(listing);
            let reply = match end.instant() {
                Some(at) => timeout_at(at, listing).await.ok(),
                None => Some(listing.await),
            };
            let Some(Ok(reply)) = reply else {
                tracing::debug!("failed to list tools");
                return;
            };
            self.context.learn(&self.server, &reply, page);
            cursor = next_cursor(&reply);
            if cursor.is_none() {
                return;
            }
        }
    }
}

/// Returns a request for a page of the server's tool list, made on behalf of a call.
fn list_request(call: &Call, cursor: Option<Payload>, end: Deadline) -> Call {
    let mut cx = call.cx().clone();
    cx.key = CallKey::next();
    cx.logical = None;
    cx.outlet = Outlet::none();
    cx.extensions = Extensions::default();
    cx.deadline = end.earlier(cx.deadline);
    let params = cursor.map(|cursor| format!(r#"{{"cursor":{}}}"#, cursor.as_str()));
    let params = params.and_then(|text| Params::split(ToolsList::METHOD, text.into()).ok());
    let method = Method::from_static(ToolsList::METHOD);
    let mut list = Call::request(method, params.unwrap_or_default(), cx);
    *list.hop_mut() = call.hop().sender_members();
    list
}

fn next_cursor(reply: &Reply) -> Option<Payload> {
    #[derive(Deserialize)]
    struct Cursor {
        #[serde(rename = "nextCursor")]
        next: Option<Payload>,
    }
    reply.get::<Cursor>().ok()?.next
}
