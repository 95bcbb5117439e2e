//! The handle of an index (MGP §16.4).

use std::sync::Arc;

use mgp_types::mgp::ServerState;

use super::builder::ToolIndexBuilder;
use super::put_report::PutReport;
use super::shared::SharedIndex;
use crate::catalog::{Allowed, Catalog, IndexedTool, MAX_SERVER_ID_BYTES, ServerEntry, Slot};
use crate::embed::EmbedError;
use crate::error::IndexError;
use crate::learn::History;

/// The maximum number of removed servers whose ids are remembered.
const MAX_REMOVED: usize = 4096;

/// The tools of all servers, found by words, by meaning and by category.
///
/// The value is a handle: clones refer to the same index, and any number of threads can search while other threads
/// change it. A change is published as a whole, and every later search sees it; a search never waits for a change.
///
/// ```
/// use mgp_toolindex::{AllTools, Query, ServerEntry, ToolIndex};
/// use mgp_types::RawObject;
/// use mgp_types::mcp::Tool;
///
/// let mut tool = Tool::new("read_file".to_owned(), RawObject::empty());
/// tool.description = Some("Reads the contents of a file".to_owned());
///
/// let index = ToolIndex::new();
/// let put = index.put(ServerEntry::new("files").description("The user's files").tool(tool))?;
/// assert_eq!(put.added, 1);
///
/// let found = index.search(&Query::new("file contents").limit(5), &AllTools)?;
/// assert_eq!(found.hits[0].tool.name(), "read_file");
/// assert_eq!(index.remove("files")?, 1);
/// # Ok::<(), mgp_toolindex::IndexError>(())
/// ```
#[derive(Clone)]
pub struct ToolIndex {
    pub(crate) shared: Arc<SharedIndex>,
}

/// The tools to which a name can refer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Resolved {
    /// The name refers to one tool.
    One(IndexedTool),
    /// Several servers have a tool of this name; the caller needs a qualified name.
    Ambiguous(Vec<IndexedTool>),
    /// The tool does not exist, or the caller is not allowed to call it.
    Unknown,
}

impl ToolIndex {
    /// Creates an empty index in memory. With the feature `static-table`, it uses the built-in word table as its
    /// embedder.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder.
    pub fn builder() -> ToolIndexBuilder {
        ToolIndexBuilder::new()
    }

    /// Replaces the tools of a server in one change. Unchanged tools are not indexed again.
    ///
    /// [`PutReport::refused`] has the refused tools with their reasons; they affect no other tool.
    ///
    /// # Errors
    /// Returns [`IndexError::ServerId`] if the id is empty or too long, [`IndexError::Keywords`] if the commit failed;
    /// the index then does not change.
    pub fn put(&self, server: ServerEntry) -> Result<PutReport, IndexError> {
        self.put_all([server])
    }

    /// Replaces the tools of several servers in one change, which is much faster than one change per server.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::put`]; if an id is invalid, no server is replaced.
    pub fn put_all(
        &self,
        servers: impl IntoIterator<Item = ServerEntry>,
    ) -> Result<PutReport, IndexError> {
        self.shared.change(|change| {
            let mut all = PutReport::default();
            for server in servers {
                let bytes = server.id.len();
                if !(1..=MAX_SERVER_ID_BYTES).contains(&bytes) {
                    return Err(IndexError::ServerId { bytes, most: MAX_SERVER_ID_BYTES });
                }
                all += change.put(server);
            }
            Ok(all)
        })
    }

    /// Removes a server with its tools in one change; returns the number of removed tools.
    ///
    /// # Errors
    /// Returns [`IndexError::Keywords`] if the commit failed; the index then does not change.
    pub fn remove(&self, server: &str) -> Result<usize, IndexError> {
        let count = self.shared.change(|change| Ok(change.remove(server)))?;
        let mut removed = self.shared.removed.lock();
        if removed.len() < MAX_REMOVED {
            removed.insert(server.to_owned());
        }
        Ok(count)
    }

    /// Sets the connection state of a server, which filters can test. No tool is indexed again.
    pub fn set_state(&self, server: &str, state: ServerState) {
        self.shared.set_state(server, state);
    }

    /// Returns a tool by the id of its server and its name.
    #[must_use]
    pub fn get(&self, server: &str, tool: &str) -> Option<IndexedTool> {
        let now = self.shared.snapshot();
        now.catalog.listed(now.catalog.find(server, tool)?)
    }

    /// Returns the tools of a server, in the server's own order.
    #[must_use]
    pub fn tools_of(&self, server: &str) -> Vec<IndexedTool> {
        let now = self.shared.snapshot();
        now.catalog.slots_of(server).iter().filter_map(|slot| now.catalog.listed(*slot)).collect()
    }

    /// Finds the tool that a caller means by a name: the tool with the id `server.tool`, or else the only tool with
    /// this name that the caller is allowed to call.
    ///
    /// Operators choose the ids of servers, but servers choose the names of their tools, so ids have precedence. A
    /// server cannot capture the id `server.tool` of another server's tool by giving this name to a tool of its own,
    /// not even for callers without access to the real tool. The id is also reserved if `server` has no such tool. It
    /// stays reserved after `server` was removed, until the index is closed; only the first 4,096 removed servers
    /// count.
    #[must_use]
    pub fn resolve(&self, name: &str, allowed: &dyn Allowed) -> Resolved {
        let now = self.shared.snapshot();
        let mut slots: Vec<Slot> = now.catalog.by_tool_id(name).collect();
        if slots.is_empty() {
            let is_shadow = |slot: &Slot| self.is_name_of_another(&now.catalog, *slot, name);
            slots.extend(now.catalog.by_name(name).filter(|slot| !is_shadow(slot)));
        }
        let tools = slots.into_iter().filter_map(|slot| now.catalog.listed(slot));
        let mut tools: Vec<IndexedTool> =
            tools.filter(|tool| allowed.allows(tool.server_id(), tool.name())).collect();
        match (tools.pop(), tools.is_empty()) {
            (None, _) => Resolved::Unknown,
            (Some(only), true) => Resolved::One(only),
            (Some(last), false) => {
                tools.push(last);
                Resolved::Ambiguous(tools)
            }
        }
    }

    /// Returns whether a tool's name begins with the id of another server that is, or was, in the index. Such a name is
    /// reserved for that server.
    fn is_name_of_another(&self, catalog: &Catalog, slot: Slot, name: &str) -> bool {
        let own = catalog.server_of(slot).and_then(|number| catalog.server(number));
        let own = own.map(|own| &*own.server.id);
        name.match_indices(['.', '/']).map(|(end, _)| &name[..end]).any(|id| {
            own != Some(id)
                && (catalog.server_number(id).is_some() || self.shared.removed.lock().contains(id))
        })
    }

    /// Waits until the background computation of vectors has ended. Texts on which the model failed have no vector.
    ///
    /// Searches do not need complete vectors; call this before measurements and exports.
    ///
    /// # Errors
    /// Returns [`EmbedError`] if embedding stopped, e.g. because the model is unavailable; embedding is retried after
    /// the next change.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn embedded(&self) -> Result<(), EmbedError> {
        let mut progress = self.shared.embedding.progress();
        let idle = progress.wait_for(|now| !now.is_running).await;
        match idle.ok().and_then(|now| now.stopped.clone()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Returns the history, if the index was built with a history.
    #[must_use]
    pub fn history(&self) -> Option<&History> {
        self.shared.history.as_ref()
    }

    /// Returns the number of changes so far.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.shared.snapshot().generation
    }
}

impl Default for ToolIndex {
    fn default() -> Self {
        Self::new()
    }
}

mgp_types::opaque_debug!(ToolIndex);
