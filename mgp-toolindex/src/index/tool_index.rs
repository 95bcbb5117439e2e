//! The handle of an index (MGP §16.4).
//!
//! Applies to: both.

use std::fmt;
use std::sync::Arc;

use mgp_types::mgp::ServerState;

use super::builder::ToolIndexBuilder;
use super::put::Put;
use super::shared::Shared;
use crate::catalog::{Allowed, CategoryTree, LONGEST_ID, Listed, ServerEntry, Slot};
use crate::embed::EmbedError;
use crate::error::IndexError;
use crate::learn::History;
use crate::search::Filter;

/// The tools of all servers, found by words, by meaning and by category.
///
/// A handle: clones are the same index, and any number of threads search while servers come and go. A change is one
/// commit and is seen by every search that begins after it; a search never waits for one.
///
/// ```
/// use mgp_toolindex::{Everything, Query, ServerEntry, ToolIndex};
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
/// let found = index.search(&Query::new("file contents").most(5), &Everything)?;
/// assert_eq!(found.hits[0].tool.name(), "read_file");
/// assert_eq!(index.remove("files")?, 1);
/// # Ok::<(), mgp_toolindex::IndexError>(())
/// ```
#[derive(Clone)]
pub struct ToolIndex {
    pub(crate) shared: Arc<Shared>,
}

/// What a name means to a caller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Resolved {
    /// One tool.
    One(Listed),
    /// Several; the server says which is meant.
    Ambiguous(Vec<Listed>),
    /// None, or none the caller may call.
    Unknown,
}

impl ToolIndex {
    /// Makes an empty index in memory, with the table of word vectors if that feature is on.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Begins an index that is to be different.
    pub fn builder() -> ToolIndexBuilder {
        ToolIndexBuilder::new()
    }

    /// Replaces the tools of a server, in one commit; what is the same as before costs nothing.
    ///
    /// A tool that is not taken is in [`Put::refused`] with the reason; no other tool suffers from it.
    ///
    /// # Errors
    /// [`IndexError::ServerId`] for an id that is none, [`IndexError::Keywords`] if the commit failed; the index is
    /// what it was before.
    pub fn put(&self, server: ServerEntry) -> Result<Put, IndexError> {
        self.put_all([server])
    }

    /// Replaces the tools of several servers, in one commit for all: a thousand times as quick as one by one.
    ///
    /// # Errors
    /// As of [`Self::put`]; an id that is none keeps all of them out.
    pub fn put_all(
        &self,
        servers: impl IntoIterator<Item = ServerEntry>,
    ) -> Result<Put, IndexError> {
        let put = self.shared.change(|change| {
            let mut all = Put::default();
            for server in servers {
                let bytes = server.id.len();
                if !(1..=LONGEST_ID).contains(&bytes) {
                    return Err(IndexError::ServerId { bytes, most: LONGEST_ID });
                }
                all += change.put(server);
            }
            Ok(all)
        })?;
        self.shared.tell_history();
        Ok(put)
    }

    /// Takes out a server with its tools, in one commit; says how many tools these were.
    ///
    /// # Errors
    /// [`IndexError::Keywords`] if the commit failed; the index is what it was before.
    pub fn remove(&self, server: &str) -> Result<usize, IndexError> {
        self.shared.change(|change| Ok(change.remove(server)))
    }

    /// Notes the state of a server, which filters ask for; nothing is indexed anew.
    pub fn set_state(&self, server: &str, state: ServerState) {
        self.shared.set_state(server, state);
    }

    /// The tool of a server.
    #[must_use]
    pub fn get(&self, server: &str, tool: &str) -> Option<Listed> {
        let now = self.shared.snapshot();
        now.catalog.listed(now.catalog.find(server, tool)?)
    }

    /// The tools of a server, in its order.
    #[must_use]
    pub fn tools_of(&self, server: &str) -> Vec<Listed> {
        let now = self.shared.snapshot();
        now.catalog.slots_of(server).iter().filter_map(|slot| now.catalog.listed(*slot)).collect()
    }

    /// The tool that a name means to a caller (C37): `server.tool`, else the name of exactly one tool it may call.
    ///
    /// Ids of servers are the operator's words and names of tools are the servers' own, so a qualified name goes first:
    /// no server takes it over with a tool that is named so, not even for those who may not call the one it means.
    #[must_use]
    pub fn resolve(&self, name: &str, allowed: &dyn Allowed) -> Resolved {
        let now = self.shared.snapshot();
        let mut slots: Vec<Slot> = now.catalog.by_tool_id(name).collect();
        if slots.is_empty() {
            slots.extend(now.catalog.by_name(name));
        }
        let tools = slots.into_iter().filter_map(|slot| now.catalog.listed(slot));
        let mut tools: Vec<Listed> =
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

    /// All categories, with how many tools each has.
    #[must_use]
    pub fn categories(&self) -> CategoryTree {
        CategoryTree::of(&self.shared.snapshot().catalog, None)
    }

    /// The categories of what passes a filter and a caller may call, with how many of these tools each has.
    ///
    /// # Errors
    /// [`IndexError::Keywords`] if the index cannot be read.
    pub fn categories_of(
        &self,
        filter: &Filter,
        allowed: &dyn Allowed,
    ) -> Result<CategoryTree, IndexError> {
        let now = self.shared.snapshot();
        let within = self.shared.within(&now, filter, allowed)?;
        Ok(CategoryTree::of(&now.catalog, within.as_deref()))
    }

    /// Waits until the vectors that are made in the background are made.
    ///
    /// Nothing needs it to search; figures and exports may.
    ///
    /// # Errors
    /// [`EmbedError`] if the model cannot be used any more; it is tried again after the next change.
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

    /// What it learns from, if it was built with that.
    #[must_use]
    pub fn history(&self) -> Option<&History> {
        self.shared.history.as_ref()
    }

    /// Counts the changes.
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

impl fmt::Debug for ToolIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = self.shared.snapshot();
        f.debug_struct("ToolIndex")
            .field("tools", &now.catalog.len())
            .field("servers", &now.catalog.server_count())
            .field("generation", &now.generation)
            .finish_non_exhaustive()
    }
}
