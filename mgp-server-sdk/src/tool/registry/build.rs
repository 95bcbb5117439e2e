//! Changes of the tools and their settings that a server makes while it is built.

use std::sync::Arc;

use mgp_types::service::Extensions;
use rustc_hash::FxHashMap;

use super::super::{SchemaStyle, Tool};
use super::Tools;
use super::entry::Entry;
use crate::error::BuildError;
use crate::subscribers::Subscribers;

impl Tools {
    /// Adds a tool of the server that is being built; fails if another tool has the same name.
    pub(crate) fn declare(&self, tool: Tool) -> Result<(), BuildError> {
        let name = &tool.definition.name;
        if self.snapshot().by_name.contains_key(name) {
            return Err(BuildError::DuplicateTool(name.clone()));
        }
        self.put(tool)
    }

    /// Sets whether schemas describe the types of fields in place or under `$defs`, in tools without their own style.
    pub(crate) fn set_schema_style(&self, style: SchemaStyle) {
        self.configure(|settings| settings.style = style);
        // Tools that are added from now on already have the new style, so only the others are created again.
        let snapshot = self.snapshot();
        let outdated = snapshot.entries.iter().filter(|entry| entry.tool.style.is_none());
        let renew = |entry: &Arc<Entry>| {
            let mut tool = (*entry.tool).clone();
            tool.write_schemas(style);
            (Arc::clone(&entry.tool), Entry::new(tool, entry.is_enabled))
        };
        let renewed: FxHashMap<&str, _> =
            outdated.map(|entry| (&*entry.definition.name, renew(entry))).collect();
        self.change(|entries| {
            for entry in entries {
                // A layer that ran meanwhile may have replaced, removed, enabled or disabled a tool.
                if let Some((outdated, new)) = renewed.get(&*entry.definition.name)
                    && Arc::ptr_eq(outdated, &entry.tool)
                {
                    let is_enabled = entry.is_enabled;
                    *entry = Arc::new(Entry { is_enabled, ..(**new).clone() });
                }
            }
        });
    }

    /// Makes the server check arguments against the schema of their tool before the tool runs.
    #[cfg(feature = "schemas")]
    pub(crate) fn check_arguments(&self) {
        self.configure(|settings| settings.checks_arguments = true);
    }

    /// Makes the server omit tools from a client's list if the client is known to deny a permission that they need.
    pub(crate) fn hide_denied_tools(&self) {
        self.configure(|settings| settings.hides_denied = true);
    }

    /// Sets the server's state, and whether callers may know the names of all tools. If the server lacks state that a
    /// tool needs, returns an error for this tool.
    pub(crate) fn set_state(&self, state: Arc<Extensions>, shows_names: bool) -> Vec<BuildError> {
        let snapshot = self.snapshot();
        let missing = snapshot.entries.iter().map(|entry| entry.tool.check_state(&state));
        let errors = missing.filter_map(Result::err).collect();
        self.configure(|settings| {
            settings.state = Some(state);
            settings.shows_names = shows_names;
        });
        errors
    }

    /// Sets the table of the clients that are notified of changes.
    pub(crate) fn set_subscribers(&self, subscribers: Subscribers) {
        // Ignore the result: `Server::into_stack` consumes the server, so the value is never set twice.
        let _ = self.0.subscribers.set(subscribers);
    }
}
