//! The modern callers heard last, so that one who says the same in each request is read once.
//!
//! Applies to: inbound.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgp_types::mcp::Revision;
use mgp_types::service::Facts;

/// How many are remembered.
const REMEMBERED: usize = 16;
/// How long what one says of itself may be.
const SAID: usize = 4 * 1024;

/// What a request says of its caller, as it stands there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    pub(crate) capabilities: &'a str,
    pub(crate) info: Option<&'a str>,
}

/// The facts that followed from what was said.
#[derive(Debug, Default)]
pub(crate) struct Callers(Mutex<Vec<Caller>>);

#[derive(Debug)]
struct Caller {
    capabilities: String,
    info: Option<String>,
    facts: Arc<Facts>,
}

impl Callers {
    /// What is known of a caller who says this.
    pub(crate) fn known(&self, revision: &Revision, said: Said<'_>) -> Option<Arc<Facts>> {
        let callers = self.callers();
        let same = |caller: &&Caller| {
            caller.capabilities == said.capabilities
                && caller.info.as_deref() == said.info
                && caller.facts.revision == *revision
        };
        callers.iter().find(same).map(|caller| Arc::clone(&caller.facts))
    }

    /// Remembers what followed; the oldest is forgotten.
    pub(crate) fn remember(&self, said: Said<'_>, facts: &Arc<Facts>) {
        if said.capabilities.len() + said.info.map_or(0, str::len) > SAID {
            return;
        }
        let caller = Caller {
            capabilities: said.capabilities.to_owned(),
            info: said.info.map(str::to_owned),
            facts: Arc::clone(facts),
        };
        let mut callers = self.callers();
        if callers.len() == REMEMBERED {
            callers.remove(0);
        }
        callers.push(caller);
    }

    fn callers(&self) -> MutexGuard<'_, Vec<Caller>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
