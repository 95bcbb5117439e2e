//! The URL elicitations that callers received, stored so that these callers can be notified of the completion
//! (MCP elicitation).

use std::collections::VecDeque;

use mgp_types::mcp::{ElicitationCompleteParams, Era, UrlElicitationRequiredData};
use mgp_types::method::{ElicitationComplete, ElicitationCreate, Request as _};
use mgp_types::service::{
    Call, CallKey, CallerAccess, CallerRequest, Context, Extensions, Outlet, Peer,
};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};
use serde::Deserialize;

/// The maximum number of elicitations per connection; the oldest is dropped first.
const MAX_ELICITATIONS: usize = 256;

/// The peer of a legacy caller that is asked through a channel, because its call can become a task; stored in the
/// extensions of the call.
#[derive(Clone, Debug)]
pub(crate) struct CallerPeer(pub(crate) Peer);

/// The callers of open URL elicitations, by the id of the elicitation.
#[derive(Default)]
pub(crate) struct UrlElicitations(Mutex<VecDeque<(String, Context)>>);

impl UrlElicitations {
    /// Stores the caller of a question if the question is a URL elicitation.
    pub(crate) fn remember(&self, ask: &CallerRequest, caller: &Context) {
        #[derive(Deserialize)]
        struct UrlQuestion {
            mode: Option<String>,
            #[serde(rename = "elicitationId")]
            id: Option<String>,
        }
        // The modern era has no notification for the completion.
        if ask.method() != ElicitationCreate::METHOD || caller.caller.era == Era::Modern {
            return;
        }
        let ((CallerAccess::Peer(peer), _) | (_, Some(CallerPeer(peer)))) =
            (&caller.caller_access, caller.extensions.get::<CallerPeer>())
        else {
            return;
        };
        let Ok(UrlQuestion { mode: Some(mode), id: Some(id) }) = ask.params().get::<UrlQuestion>()
        else {
            return;
        };
        if mode == "url" {
            self.insert(id, caller, peer);
        }
    }

    /// Stores the caller of a call that its server refused until the user has visited pages; `caller` is the context in
    /// which the call arrived.
    pub(crate) fn remember_refusal(&self, error: &RpcError, caller: &Context) {
        let is_asked = !matches!(caller.caller_access, CallerAccess::Unavailable);
        if error.code() != ErrorCode::URL_ELICITATION_REQUIRED || !is_asked {
            return;
        }
        let data = error.as_data().and_then(|data| data.get::<UrlElicitationRequiredData>().ok());
        let pages = data.map(|data| data.elicitations).unwrap_or_default();
        let ids = pages.into_iter().filter_map(|page| page.elicitation_id);
        for id in ids.take(MAX_ELICITATIONS) {
            self.insert(id, caller, &caller.peer);
        }
    }

    fn insert(&self, id: String, caller: &Context, peer: &Peer) {
        let mut cx = caller.clone();
        // The call's context points to the server; the notification is sent back to the caller.
        cx.peer = peer.clone();
        cx.outlet = Outlet::none();
        cx.extensions = Extensions::default();
        let mut pages = self.0.lock();
        let forgotten = if pages.len() >= MAX_ELICITATIONS { pages.pop_front() } else { None };
        pages.push_back((id, cx));
        drop(pages);
        // The entry is dropped after the lock is released, because it may hold the last handle of a connection.
        drop(forgotten);
    }

    /// Notifies the caller that an elicitation is complete.
    pub(crate) fn complete(&self, params: &ElicitationCompleteParams) {
        let mut pages = self.0.lock();
        let place = pages.iter().position(|(id, _)| *id == params.elicitation_id);
        let Some((_, mut cx)) = place.and_then(|place| pages.remove(place)) else { return };
        drop(pages);
        cx.key = CallKey::next();
        cx.wire_id = None;
        if let Ok(call) = Call::tell::<ElicitationComplete>(params, cx.clone()) {
            // The message is sent in a task, because sending may wait for a client that reads slowly.
            tokio::spawn(async move { cx.peer.send(call).await.map(drop) });
        }
    }
}
