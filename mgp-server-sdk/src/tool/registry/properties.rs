//! The properties of the tools that other parts of the server need.

use std::time::Duration;

use mgp_types::mcp::TaskSupport;
use mgp_types::mgp::Permission;
use mgp_types::service::{Call, Context};

use super::super::retry_hint;
use super::Tools;

impl Tools {
    /// Returns whether there is a tool of this name, including disabled ones.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.snapshot().by_name.contains_key(name)
    }

    pub(crate) fn enabled_len(&self) -> usize {
        self.snapshot().entries.iter().filter(|entry| entry.is_enabled).count()
    }

    /// Returns whether there is a tool whose calls can become tasks.
    pub(crate) fn any_task(&self) -> bool {
        self.snapshot().any_task
    }

    /// Returns whether calls of a tool can, must or cannot become tasks.
    pub(crate) fn task_support(&self, name: &str) -> TaskSupport {
        let snapshot = self.snapshot();
        let entry = if snapshot.any_task { snapshot.by_name.get(name) } else { None };
        entry.map_or(TaskSupport::Forbidden, |entry| entry.task_support())
    }

    /// Returns whether a tool has an output schema.
    pub(crate) fn is_typed(&self, name: &str) -> bool {
        let snapshot = self.snapshot();
        snapshot.by_name.get(name).is_some_and(|entry| entry.definition.output_schema.is_some())
    }

    /// Returns the time limit of the tool that a call names, if the tool has its own limit.
    pub(crate) fn timeout_of(&self, call: &Call) -> Option<Duration> {
        let snapshot = self.snapshot();
        if !snapshot.any_timeout {
            return None;
        }
        snapshot.by_name.get(call.tool()?.name)?.tool.timeout
    }

    /// Returns whether repeating a call of the tool is safe.
    pub(crate) fn is_repeatable(&self, name: &str) -> bool {
        let snapshot = self.snapshot();
        snapshot.by_name.get(name).is_some_and(|entry| retry_hint::is_repeatable(&entry.definition))
    }

    pub(crate) fn only_reads(&self, name: &str) -> bool {
        let snapshot = self.snapshot();
        let entry = snapshot.by_name.get(name);
        let hints = entry.and_then(|entry| entry.definition.annotations.as_ref());
        hints.and_then(|hints| hints.read_only_hint) == Some(true)
    }

    /// Returns the permissions that the tools need, by their standard names and without duplicates.
    pub(crate) fn permissions(&self) -> Vec<Permission> {
        let snapshot = self.snapshot();
        Permission::canonical(snapshot.entries.iter().flat_map(|entry| entry.permissions.iter()))
    }

    /// Returns whether a tool needs a permission; `false` if the tool does not exist for the caller.
    pub(crate) fn needs_permission(&self, name: &str, cx: &Context) -> bool {
        let snapshot = self.snapshot();
        let entry = snapshot.by_name.get(name);
        entry.is_some_and(|entry| !entry.permissions.is_empty() && entry.is_visible_to(cx))
    }
}
