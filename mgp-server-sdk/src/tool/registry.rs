//! The registry of a server's tools.

mod entry;
mod hooks;
mod list;
mod snapshot;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use mgp_types::RpcError;
#[cfg(feature = "schemas")]
use mgp_types::mcp;
use mgp_types::mcp::TaskSupport;
use mgp_types::mgp::Permission;
use mgp_types::service::{Call, Context, Extensions};
use mgp_types::sync::Mutex;

use self::entry::Entry;
use self::hooks::Hooks;
use self::snapshot::{Settings, Snapshot};
use super::extract::{ToolRequest, received_meta};
use super::layers::CarriedState;
use super::run::Running;
use super::{SchemaStyle, Tool, name_errors, retry_hint};
use crate::error::{BuildError, BuildErrors};
use crate::subscribers::{ListKind, Subscribers};

/// The tools of a server, which can change while the server runs. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tools(Arc<ToolsState>);

#[derive(Debug, Default)]
struct ToolsState {
    snapshot: Mutex<Arc<Snapshot>>,
    /// The clients that are notified of changes; set when the server is built.
    subscribers: OnceLock<Subscribers>,
    hooks: Hooks,
}

/// A handle that does not keep the tools alive.
#[derive(Clone, Debug)]
pub(crate) struct WeakTools(Weak<ToolsState>);

impl WeakTools {
    pub(crate) fn upgrade(&self) -> Option<Tools> {
        self.0.upgrade().map(Tools)
    }
}

impl Tools {
    /// Adds a tool, or replaces the tool with the same name.
    ///
    /// If the tool is invalid, it is logged and not added; [`Tools::try_add`] returns the error instead.
    pub fn add(&self, tool: Tool) {
        if let Err(error) = self.try_add(tool) {
            tracing::error!(%error, "invalid tool left out");
        }
    }

    /// Adds a tool, or replaces the tool with the same name.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the tool's name or one of its permissions is invalid, or if the server lacks
    /// state that the tool needs.
    pub fn try_add(&self, tool: Tool) -> Result<(), RpcError> {
        self.put(tool).map_err(|error| BuildErrors(vec![error]).into())
    }

    /// Removes a tool; returns `true` if there was a tool of this name.
    #[must_use]
    pub fn remove(&self, name: &str) -> bool {
        let exists = self.snapshot().by_name.contains_key(name);
        if exists {
            self.change(|entries, _| entries.retain(|entry| entry.definition.name != name));
        }
        exists
    }

    /// Enables a disabled tool; returns `true` if there is such a tool.
    #[must_use]
    pub fn enable(&self, name: &str) -> bool {
        self.set_enabled(name, true)
    }

    /// Disables a tool: it is not listed, and calls fail with code 4002 (tool disabled). Returns `true` if there is
    /// such a tool.
    #[must_use]
    pub fn disable(&self, name: &str) -> bool {
        self.set_enabled(name, false)
    }

    /// Returns the number of tools, including disabled ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.snapshot().entries.len()
    }

    /// Returns whether there are no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notifies all clients that the list of tools changed for them, e.g. because their access changed.
    ///
    /// Changes within a few milliseconds are sent as one notification.
    pub fn notify_changed(&self) {
        if let Some(subscribers) = self.0.subscribers.get() {
            subscribers.changed(ListKind::Tools);
        }
    }

    // === The build of the server ===

    /// Adds a tool of the server that is being built; fails if another tool has the same name.
    pub(crate) fn declare(&self, tool: Tool) -> Result<(), BuildError> {
        let name = &tool.definition.name;
        if self.snapshot().by_name.contains_key(name) {
            return Err(BuildError::DuplicateTool(name.clone()));
        }
        self.put(tool)
    }

    pub(crate) fn put(&self, tool: Tool) -> Result<(), BuildError> {
        tool.check()?;
        if let Some(state) = &self.snapshot().settings.state {
            tool.check_state(state)?;
        }
        tool.advise();
        {
            let mut current = self.0.snapshot.lock();
            // This copies the snapshot only if a call uses it, so adding thousands of tools to a new server is fast.
            let snapshot = Arc::make_mut(&mut current);
            snapshot.put(Entry::new(tool, snapshot.settings.style, true));
        }
        self.report_change();
        Ok(())
    }

    /// Sets whether schemas describe the types of fields in place or under `$defs`, and generates all schemas again.
    pub(crate) fn set_schema_style(&self, style: SchemaStyle) {
        self.change(|entries, settings| {
            settings.style = style;
            for entry in entries {
                let mut tool = (*entry.tool).clone();
                if tool.style.is_none() {
                    tool.write_schemas(style);
                    *entry = Entry::new(tool, style, entry.is_enabled);
                }
            }
        });
    }

    /// Makes the server check arguments against the schema of their tool before the tool runs.
    #[cfg(feature = "schemas")]
    pub(crate) fn check_arguments(&self) {
        self.change(|_, settings| settings.checks_arguments = true);
    }

    /// Makes the server omit tools from a client's list if the client is known to deny a permission that they need.
    pub(crate) fn hide_denied_tools(&self) {
        self.change(|_, settings| settings.hides_denied = true);
    }

    /// Sets the server's state, and whether callers may know the names of all tools. Returns an error for each tool
    /// that needs state that the server lacks.
    pub(crate) fn set_state(&self, state: Arc<Extensions>, shows_names: bool) -> Vec<BuildError> {
        let snapshot = self.snapshot();
        let missing = snapshot.entries.iter().map(|entry| entry.tool.check_state(&state));
        let errors = missing.filter_map(Result::err).collect();
        self.change(|_, settings| {
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

    /// Returns a handle that does not keep the tools alive.
    pub(crate) fn downgrade(&self) -> WeakTools {
        WeakTools(Arc::downgrade(&self.0))
    }

    // === Calls ===

    /// Starts the tool that a call names, after checking that the call is allowed.
    pub(crate) fn call(&self, mut call: Call) -> Result<Running, RpcError> {
        let tool =
            call.tool().ok_or_else(|| RpcError::invalid_params("`name` must be a string"))?;
        let snapshot = self.snapshot();
        let entry = snapshot.find(tool.name, call.cx())?;
        entry.check(
            &call,
            tool.arguments,
            #[cfg(feature = "schemas")]
            snapshot.settings.checks_arguments,
        )?;
        let state = snapshot.settings.state.clone().unwrap_or_default();
        if let Some(stack) = &entry.wrapped {
            call.cx_mut().extensions.insert(CarriedState(state));
            return Ok(Running::Inline(stack.send(call)));
        }
        let (arguments, meta) = (call.tool_arguments(), received_meta(&call));
        let (_, _, cx) = call.into_parts();
        let definition = Arc::clone(&entry.definition);
        let request = ToolRequest::new(definition, arguments, cx, state).with_meta(meta);
        Ok(entry.tool.start(request))
    }

    /// Checks that there is a tool of this name which is enabled, and that this caller may see it.
    pub(crate) fn check_callable(&self, name: &str, cx: &Context) -> Result<(), RpcError> {
        self.snapshot().find(name, cx)?;
        if self.0.hooks.has_access(cx, name) {
            Ok(())
        } else {
            Err(name_errors::unknown(name, std::iter::empty()))
        }
    }

    /// Checks arguments against the schema of a tool, without running the tool.
    #[cfg(feature = "schemas")]
    pub(crate) fn validate(
        &self,
        cx: &Context,
        params: &mcp::ValidateToolParams,
    ) -> Result<mcp::ValidateToolResult, RpcError> {
        let snapshot = self.snapshot();
        super::argument_schema::check(&snapshot.find(&params.name, cx)?.definition, params)
    }

    // === Properties of the tools ===

    /// Returns whether there is a tool of this name, including disabled ones.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.snapshot().by_name.contains_key(name)
    }

    /// Returns the number of enabled tools.
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
        if !snapshot.any_task {
            return TaskSupport::Forbidden;
        }
        let entry = snapshot.by_name.get(name);
        entry.map_or(TaskSupport::Forbidden, |entry| entry.task_support())
    }

    /// Returns whether a tool has an output schema.
    pub(crate) fn is_typed(&self, name: &str) -> bool {
        let snapshot = self.snapshot();
        snapshot.any_typed && snapshot.by_name.get(name).is_some_and(|entry| entry.is_typed())
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

    /// Returns whether a tool declares that it only reads.
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

    /// Returns the permissions a tool needs; `None` if there are none or the tool does not exist for the caller.
    pub(crate) fn permissions_of(&self, name: &str, cx: &Context) -> Option<Arc<[Permission]>> {
        let snapshot = self.snapshot();
        let entry = snapshot.by_name.get(name)?;
        let is_asked = !entry.permissions.is_empty() && entry.is_visible_to(cx);
        is_asked.then(|| Arc::clone(&entry.permissions))
    }

    // === Changes ===

    fn set_enabled(&self, name: &str, is_enabled: bool) -> bool {
        let Some(entry) = self.snapshot().by_name.get(name).cloned() else { return false };
        if entry.is_enabled != is_enabled {
            self.change(|entries, _| {
                for entry in entries.iter_mut().filter(|entry| entry.definition.name == name) {
                    *entry = Arc::new(Entry { is_enabled, ..(**entry).clone() });
                }
            });
        }
        true
    }

    /// Changes the tools or their settings, then reports the change.
    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Entry>>, &mut Settings)) {
        {
            let mut current = self.0.snapshot.lock();
            let (mut entries, mut settings) = (current.entries.clone(), current.settings.clone());
            change(&mut entries, &mut settings);
            *current = Arc::new(Snapshot::new(entries, settings));
        }
        self.report_change();
    }

    /// Reports the new definitions to the observer, and notifies the clients.
    fn report_change(&self) {
        self.report_definitions();
        self.notify_changed();
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.snapshot.lock())
    }
}
