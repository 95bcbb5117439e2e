//! Pages that callers were asked to visit on behalf of a server, so that they hear when that is over (MCP elicitation).
//!
//! Applies to: both.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mgp_types::mcp::{ElicitationCompleteParams, Era};
use mgp_types::method::{ElicitationComplete, ElicitationCreate, Request as _};
use mgp_types::service::{Ask, Asking, Call, CallKey, Context, Extensions, Outlet};
use serde::Deserialize;

/// How many pages of one connection are remembered; the oldest is forgotten first.
const PAGES: usize = 256;

/// Who was asked to visit what, by the id of the question.
#[derive(Default)]
pub(crate) struct Visits(Mutex<VecDeque<(String, Context)>>);

impl Visits {
    /// Remembers a question that is about a page.
    pub(crate) fn note(&self, ask: &Ask, caller: &Context) {
        #[derive(Deserialize)]
        struct Page {
            mode: Option<String>,
            #[serde(rename = "elicitationId")]
            id: Option<String>,
        }
        // Of the modern era nobody is told.
        let Asking::Peer(peer) = &caller.asking else { return };
        if ask.method() != ElicitationCreate::METHOD || caller.caller.era == Era::Modern {
            return;
        }
        let Ok(Page { mode: Some(mode), id: Some(id) }) = ask.params().get::<Page>() else {
            return;
        };
        if mode != "url" {
            return;
        }
        let mut cx = caller.clone();
        // The call is on its way to the server; what is told goes back to where it came from.
        cx.peer = peer.clone();
        cx.outlet = Outlet::none();
        cx.extensions = Extensions::default();
        let mut pages = self.pages();
        let forgotten = if pages.len() >= PAGES { pages.pop_front() } else { None };
        pages.push_back((id, cx));
        drop(pages);
        // After the lock: the last handle of a connection may go with it.
        drop(forgotten);
    }

    /// Tells whoever was asked that what happened on the page is over.
    pub(crate) fn over(&self, params: &ElicitationCompleteParams) {
        let mut pages = self.pages();
        let place = pages.iter().position(|(id, _)| *id == params.elicitation_id);
        let Some((_, mut cx)) = place.and_then(|place| pages.remove(place)) else { return };
        drop(pages);
        cx.key = CallKey::next();
        cx.wire_id = None;
        if let Ok(call) = Call::tell::<ElicitationComplete>(params, cx.clone()) {
            // It may wait for a client that reads slowly.
            tokio::spawn(async move { cx.peer.send(call).await.map(drop) });
        }
    }

    fn pages(&self) -> MutexGuard<'_, VecDeque<(String, Context)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
