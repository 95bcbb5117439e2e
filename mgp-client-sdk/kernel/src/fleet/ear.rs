//! What hears the news of one server, and for whom they are (DESIGN §5).
//!
//! Applies to: outbound.

use std::time::SystemTime;

use mgp_security::Access;
use mgp_server_sdk::Herald;
use mgp_types::method::{Request as _, RootsList};
use mgp_types::service::{Asking, Context, Principal, ServerId};

use super::servers::News;
use crate::callers::Callers;
use crate::watch;
use mgp_client_sdk::Changed;

/// What may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Tools,
    Resources,
    Prompts,
}

impl What {
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];
}

/// Hears one server; it keeps no server alive.
#[derive(Clone)]
pub(crate) struct Ear {
    pub(super) id: ServerId,
    pub(super) access: Access,
    pub(super) news: News,
    pub(super) herald: Herald,
    pub(super) callers: Callers,
}

impl Ear {
    pub(crate) fn id(&self) -> &ServerId {
        &self.id
    }

    /// Takes what a server says of itself; `of` is whose instance it is, where it is not everyone's.
    pub(super) fn changed(&self, what: &Changed, of: Option<&Principal>) {
        match what {
            Changed::Tools => self.news.stale(&self.id, &[What::Tools]),
            Changed::Resources => self.news.stale(&self.id, &[What::Resources]),
            Changed::Prompts => self.news.stale(&self.id, &[What::Prompts]),
            Changed::Resource(uri) => {
                self.updated(&watch::name(&self.id, of, uri));
            }
            _ => {}
        }
    }

    /// Tells those who watch a resource, and still see its server, that it changed.
    pub(super) fn updated(&self, name: &str) {
        self.herald.updated(name, |principal| self.is_seen_by(principal));
    }

    /// Tells those who see the server that a list changed.
    pub(super) fn tell(&self, what: What) {
        let whom = |principal: &Principal| self.is_seen_by(principal);
        match what {
            // Of a server that is seen in part, only the tools are.
            What::Tools => self.herald.tools_changed(|_| true),
            What::Resources => self.herald.resources_changed(whom),
            What::Prompts => self.herald.prompts_changed(whom),
        }
    }

    /// Whom a question is for that belongs to no call: of roots the one client that may be meant, of others nobody.
    pub(super) fn bystander(&self, method: &str, of: Option<&Principal>) -> Option<Context> {
        if method != RootsList::METHOD {
            return None;
        }
        let mut askable = self.hearers(of);
        askable.retain(|cx| cx.caller.asks.roots && !matches!(cx.asking, Asking::Nobody));
        if askable.len() == 1 { askable.pop() } else { None }
    }

    /// The clients that see the server, as far as it is theirs.
    pub(crate) fn hearers(&self, of: Option<&Principal>) -> Vec<Context> {
        self.callers.all(|cx| of.is_none_or(|of| *of == cx.principal) && self.is_heard_by(cx))
    }

    /// Whether a client sees the server.
    pub(crate) fn is_heard_by(&self, cx: &Context) -> bool {
        self.access.sees_server(cx, &self.id).is_ok()
    }

    fn is_seen_by(&self, principal: &Principal) -> bool {
        self.access.decide(principal, Some(&self.id), None, SystemTime::now()).is_allowed()
    }
}
