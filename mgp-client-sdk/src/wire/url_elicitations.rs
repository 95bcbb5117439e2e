//! The URL elicitations that callers received, stored so that these callers can be notified of the completion
//! (MCP elicitation).

use std::collections::VecDeque;
use std::time::Duration;

use mgp_types::mcp::{ElicitationCompleteParams, Era, UrlElicitationRequiredData};
use mgp_types::method::{ElicitationComplete, ElicitationCreate, Request as _};
use mgp_types::service::{
    Call, CallKey, CallerAccess, CallerRequest, Context, Extensions, Outlet, Peer,
};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};
use serde::Deserialize;
use tokio::time::Instant;

/// The maximum number of elicitations per connection; the oldest is dropped first.
const MAX_ELICITATIONS: usize = 256;

/// The maximum number of completions per connection that arrived before their elicitation; the oldest is dropped first.
const MAX_EARLY: usize = 32;

/// The maximum length in bytes of the id of an elicitation or completion that is stored.
const MAX_ID_BYTES: usize = 256;

/// The time that the completion of an unknown elicitation is kept. The refusal that names the elicitation arrives at
/// about the same time, but is processed later, because it passes through the layers of its call.
const EARLY_TTL: Duration = Duration::from_secs(5);

/// The minimum time between an elicitation and the notification of its completion. The caller must receive the
/// elicitation first, because callers ignore the completion of an unknown elicitation.
const NOTIFY_DELAY: Duration = Duration::from_millis(200);

/// The peer of a legacy caller that is asked through a channel, because its call can become a task; stored in the
/// extensions of the call.
#[derive(Clone, Debug)]
pub(crate) struct CallerPeer(pub(crate) Peer);

/// The callers of open URL elicitations, by the id of the elicitation.
#[derive(Default)]
pub(crate) struct UrlElicitations(Mutex<Elicitations>);

#[derive(Default)]
struct Elicitations {
    open: VecDeque<OpenElicitation>,
    /// The ids of completions that arrived before their elicitation, with the time of arrival.
    early: VecDeque<(String, Instant)>,
}

struct OpenElicitation {
    id: String,
    caller: Context,
    stored_at: Instant,
}

impl UrlElicitations {
    /// Stores the caller of a question if the question is a URL elicitation.
    pub(crate) fn remember(&self, ask: &CallerRequest, caller: &Context) {
        #[derive(Deserialize)]
        struct UrlQuestion {
            mode: Option<String>,
            #[serde(rename = "elicitationId")]
            id: Option<String>,
        }
        // Store nothing for a modern caller, because the modern era has no notification of the completion.
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

    /// Stores the caller of a call if `error` is the server's refusal because the user must first visit pages. `caller`
    /// is the context of the received call.
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

    /// Stores the caller of an elicitation, unless the id is too long: the server chooses it.
    fn insert(&self, id: String, caller: &Context, peer: &Peer) {
        if id.len() > MAX_ID_BYTES {
            return;
        }
        let mut cx = caller.clone();
        // The peer in the call's context is the server, but the notification must be sent back to the caller.
        cx.peer = peer.clone();
        cx.outlet = Outlet::none();
        cx.extensions = Extensions::default();
        let elicitation = OpenElicitation { id, caller: cx, stored_at: Instant::now() };
        let mut pages = self.0.lock();
        if pages.take_early(&elicitation.id) {
            drop(pages);
            let params = ElicitationCompleteParams::new(elicitation.id.clone());
            return elicitation.notify(&params);
        }
        let forgotten =
            if pages.open.len() >= MAX_ELICITATIONS { pages.open.pop_front() } else { None };
        pages.open.push_back(elicitation);
        drop(pages);
        // The entry is dropped after the lock is released, because it may hold the last handle of a connection.
        drop(forgotten);
    }

    /// Notifies the caller that an elicitation is complete.
    pub(crate) fn complete(&self, params: &ElicitationCompleteParams) {
        let mut pages = self.0.lock();
        // Use the newest entry, because a server may use an id again after a question that was refused and never
        // completes.
        let place = pages.open.iter().rposition(|one| one.id == params.elicitation_id);
        let Some(elicitation) = place.and_then(|place| pages.open.remove(place)) else {
            return pages.keep_early(params);
        };
        drop(pages);
        elicitation.notify(params);
    }
}

impl Elicitations {
    /// Stores the completion of an elicitation that might be stored soon.
    fn keep_early(&mut self, params: &ElicitationCompleteParams) {
        if params.elicitation_id.len() > MAX_ID_BYTES {
            return;
        }
        if self.early.len() >= MAX_EARLY {
            self.early.pop_front();
        }
        self.early.push_back((params.elicitation_id.clone(), Instant::now()));
    }

    /// Removes the early completion of an elicitation, and returns whether such a completion was stored.
    fn take_early(&mut self, id: &str) -> bool {
        self.early.retain(|(_, arrived_at)| arrived_at.elapsed() < EARLY_TTL);
        let place = self.early.iter().position(|(early, _)| early == id);
        place.and_then(|place| self.early.remove(place)).is_some()
    }
}

impl OpenElicitation {
    fn notify(self, params: &ElicitationCompleteParams) {
        let Self { caller: mut cx, stored_at, .. } = self;
        cx.key = CallKey::next();
        cx.wire_id = None;
        if let Ok(call) = Call::tell::<ElicitationComplete>(params, cx.clone()) {
            // The message is sent in a task, because sending may wait for a client that reads slowly.
            tokio::spawn(async move {
                tokio::time::sleep_until(stored_at + NOTIFY_DELAY).await;
                cx.peer.send(call).await.map(drop)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::{Principal, Scope, ScopeKind};

    use super::*;

    #[test]
    fn an_elicitation_with_an_excessive_id_is_not_stored() {
        let scope = Scope::new(ScopeKind::Connection);
        let caller = Context::new(Peer::none(), scope, Principal::local());
        let elicitations = UrlElicitations::default();
        for (length, stored) in [(MAX_ID_BYTES + 1, 0), (MAX_ID_BYTES, 1)] {
            elicitations.insert("e".repeat(length), &caller, &caller.peer);
            assert_eq!(elicitations.0.lock().open.len(), stored, "{length}");
        }
    }

    #[tokio::test]
    async fn a_completion_is_of_the_newest_elicitation_with_its_id() {
        let scope = Scope::new(ScopeKind::Connection);
        let elicitations = UrlElicitations::default();
        let (ann, bob) = (Principal::local().agent("ann"), Principal::local().agent("bob"));
        for principal in [&ann, &bob] {
            let caller = Context::new(Peer::none(), scope.clone(), principal.clone());
            elicitations.insert("login".to_owned(), &caller, &caller.peer);
        }
        elicitations.complete(&ElicitationCompleteParams::new("login".to_owned()));
        let pages = elicitations.0.lock();
        let open: Vec<_> = pages.open.iter().map(|one| one.caller.principal.as_agent()).collect();
        assert_eq!(open, [ann.as_agent()]);
    }
}
