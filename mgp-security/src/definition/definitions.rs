//! What is known of the tools of all servers.
//!
//! Applies to: both.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use mgp_types::mcp;
use mgp_types::service::{AuditSink, MemoryAudit, ServerId};
use mgp_types::store::{MemoryStore, Store, StoreError};

use super::Standing;
use super::table::{Known, Table};
use crate::policy::{Policies, ServerPolicy};
use crate::tool::Assessment;

/// What is known of the tools of all servers; a cheap handle.
#[derive(Clone)]
pub struct Definitions(Arc<Inner>);

struct Inner {
    policies: Policies,
    now: RwLock<Arc<Table>>,
    hooks: Mutex<Vec<Arc<dyn Fn() + Send + Sync>>>,
}

impl Definitions {
    /// Definitions that are pinned in a store; until it was [opened](Self::open) no pin is known.
    #[must_use]
    pub fn new(_store: Arc<dyn Store>, _audit: Arc<dyn AuditSink>, policies: Policies) -> Self {
        Self(Arc::new(Inner { policies, now: RwLock::default(), hooks: Mutex::default() }))
    }

    /// Definitions that are pinned as long as the process runs.
    #[must_use]
    pub fn in_memory(policies: Policies) -> Self {
        Self::new(Arc::new(MemoryStore::new()), Arc::new(MemoryAudit::new()), policies)
    }

    /// Reads the pins and follows them from then on.
    ///
    /// # Errors
    /// [`StoreError`] when they cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the pins unread.
    pub async fn open(&self) -> Result<(), StoreError> {
        std::future::ready(Ok(())).await
    }

    /// What a call of a tool needs; [`Assessment::unknown`] where nobody has seen the tool.
    #[must_use]
    pub fn assessment(&self, server: Option<&ServerId>, tool: &str) -> Arc<Assessment> {
        static UNKNOWN: LazyLock<Arc<Assessment>> = LazyLock::new(|| Assessment::unknown().into());
        match self.table().get(server, tool) {
            Some(known) => Arc::clone(&known.assessment),
            None => Arc::clone(&UNKNOWN),
        }
    }

    /// How the definition of a tool stands.
    #[must_use]
    pub fn standing(&self, server: Option<&ServerId>, tool: &str) -> Standing {
        self.table().get(server, tool).map(|known| known.standing.clone()).unwrap_or_default()
    }

    /// The definition of a tool as it was last listed.
    #[must_use]
    pub fn definition(&self, server: Option<&ServerId>, tool: &str) -> Option<Arc<mcp::Tool>> {
        self.table().get(server, tool).map(|known| Arc::clone(&known.tool))
    }

    /// Learns the tools that a server runs itself: they are trusted as they are, and nothing is pinned.
    pub fn learn(&self, server: Option<&ServerId>, tools: &[mcp::Tool]) {
        let policy = self.0.policies.of(server);
        let known = |tool: &mcp::Tool| Known {
            tool: Arc::new(tool.clone()),
            assessment: Arc::new(assess(tool, &policy)),
            standing: Standing::Pinned,
        };
        let tools = tools.iter().map(|tool| (tool.name.as_str().into(), known(tool).into()));
        let tools = Arc::new(tools.collect());
        let mut now = self.0.now.write().unwrap_or_else(PoisonError::into_inner);
        let table = Arc::make_mut(&mut now);
        match server {
            Some(server) => drop(table.servers.insert(server.clone(), tools)),
            None => table.own = tools,
        }
        drop(now);
        let hooks = self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for hook in &hooks {
            hook();
        }
    }

    /// Runs after each change of what is known; it must not wait.
    pub fn on_change(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(hook));
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.0.now.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What follows from a definition and the operator's policy.
fn assess(_tool: &mcp::Tool, _policy: &ServerPolicy) -> Assessment {
    Assessment::unknown()
}

impl fmt::Debug for Definitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.table().servers.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learned_tools_are_known_and_others_are_dangerous() {
        let definitions = Definitions::in_memory(Policies::default());
        definitions.learn(None, &[mcp::Tool::new("water", mgp_types::RawObject::empty())]);
        assert_eq!(definitions.standing(None, "water"), Standing::Pinned);
        assert!(definitions.definition(None, "water").is_some());
        assert_eq!(definitions.standing(None, "shell"), Standing::Unseen);
        assert_eq!(*definitions.assessment(None, "shell"), Assessment::unknown());
    }
}
