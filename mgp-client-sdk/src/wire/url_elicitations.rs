//! The URL elicitations that callers received, stored so that these callers can be notified of the completion
//! (MCP elicitation).

use std::collections::VecDeque;

use mgp_types::mcp::{ElicitationCompleteParams, Era};
use mgp_types::method::{ElicitationComplete, ElicitationCreate, Request as _};
use mgp_types::service::{Call, CallKey, CallerAccess, CallerRequest, Context, Extensions, Outlet};
use mgp_types::sync::Mutex;
use serde::Deserialize;

/// The maximum number of elicitations per connection; the oldest is dropped first.
const MAX_ELICITATIONS: usize = 256;

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
        let CallerAccess::Peer(peer) = &caller.caller_access else { return };
        if ask.method() != ElicitationCreate::METHOD || caller.caller.era == Era::Modern {
            return;
        }
        let Ok(UrlQuestion { mode: Some(mode), id: Some(id) }) = ask.params().get::<UrlQuestion>()
        else {
            return;
        };
        if mode != "url" {
            return;
        }
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
