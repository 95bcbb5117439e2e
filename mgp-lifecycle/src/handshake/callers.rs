//! A cache of recent callers of the modern era, so that the same `_meta` is not parsed twice.

use std::sync::Arc;

use mgp_types::mcp::Revision;
use mgp_types::service::PeerInfo;
use mgp_types::sync::Mutex;

/// The maximum number of callers in the cache.
const MAX_CALLERS: usize = 16;
/// The maximum size, in bytes, of the cached `_meta` members of one caller; larger members are not cached.
const MAX_META_BYTES: usize = 4 * 1024;

/// The members of a request's `_meta` that describe its caller, as raw JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerMeta<'a> {
    pub(crate) capabilities: &'a str,
    pub(crate) info: Option<&'a str>,
}

/// The cached facts about recent callers. A request reuses the facts that were parsed from an earlier request with the
/// same revision and the same `_meta`.
#[derive(Debug, Default)]
pub(crate) struct RecentCallers(Mutex<Vec<Caller>>);

#[derive(Debug)]
struct Caller {
    capabilities: String,
    info: Option<String>,
    facts: Arc<PeerInfo>,
}

impl RecentCallers {
    pub(crate) fn get(&self, revision: &Revision, meta: CallerMeta<'_>) -> Option<Arc<PeerInfo>> {
        let callers = self.0.lock();
        let same = |caller: &&Caller| {
            caller.capabilities == meta.capabilities
                && caller.info.as_deref() == meta.info
                && caller.facts.revision == *revision
        };
        callers.iter().find(same).map(|caller| Arc::clone(&caller.facts))
    }

    /// Adds a caller. If the cache is full, drops the oldest caller.
    pub(crate) fn insert(&self, meta: CallerMeta<'_>, facts: &Arc<PeerInfo>) {
        if meta.capabilities.len() + meta.info.map_or(0, str::len) > MAX_META_BYTES {
            return;
        }
        let caller = Caller {
            capabilities: meta.capabilities.to_owned(),
            info: meta.info.map(str::to_owned),
            facts: Arc::clone(facts),
        };
        let mut callers = self.0.lock();
        if callers.len() == MAX_CALLERS {
            callers.remove(0);
        }
        callers.push(caller);
    }
}
