//! The tools of a server at one point in time, with the settings that apply to all of them.

use std::sync::{Arc, OnceLock};

use mgp_types::mcp::TaskSupport;
use mgp_types::service::{Context, Extensions};
use mgp_types::{Payload, RpcError};
use rustc_hash::FxHashMap;

use super::super::{SchemaStyle, name_errors};
use super::entry::Entry;
use super::list::Form;

/// The tools at one point in time. If a call uses a snapshot, a change creates a new snapshot instead of changing this
/// one, so that the call needs no lock.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts about all tools, read for each call")]
pub(super) struct Snapshot {
    /// The tools in the order in which they were added; lists have the same order.
    pub(super) entries: Vec<Arc<Entry>>,
    /// The tools by name. The hash needs no random seed, because callers cannot choose the names of the tools.
    pub(super) by_name: FxHashMap<String, Arc<Entry>>,
    pub(super) settings: Settings,
    /// `true` if at least one tool supports tasks. If none does, as on most servers, calls skip the lookup of the tool.
    pub(super) any_task: bool,
    /// `true` if at least one tool has its own time limit.
    pub(super) any_timeout: bool,
    /// `true` if a tool has members of extensions beyond MGP; the list then depends on the extensions that the caller
    /// negotiated.
    pub(super) any_proposed: bool,
    /// `true` if a tool exists only for some callers; the list then depends on its caller.
    pub(super) any_audience: bool,
    /// The encoded lists for callers that see all tools, one for each [`Form`]; each is encoded when it is first used.
    pub(super) lists: [OnceLock<Result<Payload, RpcError>>; Form::COUNT],
}

/// The server's settings for all tools.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) style: SchemaStyle,
    /// `true` if a client's list omits tools that need a permission that the client denies; calls fail in either case.
    pub(super) hides_denied: bool,
    /// `true` if errors may propose the names of tools to every caller, because the author added no layers that could
    /// hide tools.
    pub(super) shows_names: bool,
    /// `true` if the arguments of a call are checked against the schema of its tool before the tool runs.
    #[cfg(feature = "schemas")]
    pub(super) checks_arguments: bool,
    /// The values that tools extract as `State`; `None` until the server is built.
    pub(super) state: Option<Arc<Extensions>>,
}

impl Snapshot {
    pub(super) fn new(entries: Vec<Arc<Entry>>, settings: Settings) -> Self {
        let mut snapshot = Self { settings, ..Self::default() };
        for entry in entries {
            snapshot.push(entry);
        }
        snapshot
    }

    /// Adds a tool, or replaces the tool with the same name; returns the replaced tool.
    pub(super) fn put(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let Some(replaced) = self.by_name.get(&entry.definition.name).cloned() else {
            self.lists = Default::default();
            self.push(entry);
            return None;
        };
        let mut entries = std::mem::take(&mut self.entries);
        for old in &mut entries {
            if Arc::ptr_eq(old, &replaced) {
                *old = Arc::clone(&entry);
            }
        }
        *self = Self::new(entries, self.settings.clone());
        Some(replaced)
    }

    /// Adds a tool with a new name.
    fn push(&mut self, entry: Arc<Entry>) {
        self.any_task |= entry.task_support() != TaskSupport::Forbidden;
        self.any_timeout |= entry.tool.timeout.is_some();
        self.any_proposed |= !entry.tool.proposed.is_empty();
        self.any_audience |= entry.tool.audience.is_some();
        self.by_name.insert(entry.definition.name.clone(), Arc::clone(&entry));
        self.entries.push(entry);
    }

    /// Returns the tool of this name. Fails with code 4001 (unknown tool) if no such tool exists for this caller, and
    /// with code 4002 (tool disabled) if it is disabled.
    pub(super) fn find(&self, name: &str, cx: &Context) -> Result<&Arc<Entry>, RpcError> {
        match self.by_name.get(name).filter(|entry| entry.is_visible_to(cx)) {
            Some(entry) if entry.is_enabled => Ok(entry),
            Some(_) => Err(name_errors::disabled(name)),
            None => {
                let shows_names = self.settings.shows_names && !self.settings.hides_denied;
                let shown = self
                    .entries
                    .iter()
                    .filter(|entry| shows_names && entry.is_enabled && entry.is_visible_to(cx));
                Err(name_errors::unknown(name, shown.map(|entry| &*entry.definition.name)))
            }
        }
    }
}
