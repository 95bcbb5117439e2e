//! The registry of a server's tools.
//!
//! [`Tools`] changes the registry and starts calls. Each change replaces the [`Snapshot`] (`snapshot.rs`), a list of
//! [`Entry`] values (`entry.rs`). Further methods of [`Tools`] are in `build.rs` (changes while the server is built),
//! `list.rs` (the lists for callers), `properties.rs` (facts about tools for other parts of the server) and `hooks.rs`
//! (the connection to governance).

mod build;
mod entry;
mod hooks;
mod list;
mod properties;
mod snapshot;

use std::sync::{Arc, OnceLock, Weak};

use mgp_types::RpcError;
#[cfg(feature = "schemas")]
use mgp_types::mcp;
use mgp_types::service::{Call, Context};
use mgp_types::sync::Mutex;

use self::entry::Entry;
use self::hooks::Hooks;
use self::snapshot::{Settings, Snapshot};
use super::extract::{ToolRequest, received_meta};
use super::layers::CarriedState;
use super::run::Running;
use super::{SchemaStyle, Tool, name_errors};
use crate::error::{BuildError, BuildErrors};
use crate::permission;
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
    /// Adds a tool, or replaces the tool with the same name. The new tool is enabled, even if the old one was disabled.
    ///
    /// If the tool is invalid, it is logged and not added; [`Tools::try_add`] returns the error instead.
    pub fn add(&self, tool: Tool) {
        if let Err(error) = self.try_add(tool) {
            tracing::error!(%error, "invalid tool left out");
        }
    }

    /// Adds a tool, or replaces the tool with the same name. The new tool is enabled, even if the old one was disabled.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the tool is invalid, e.g. its name or one of its permissions, or if the
    /// server lacks state that the tool needs.
    pub fn try_add(&self, tool: Tool) -> Result<(), RpcError> {
        self.put(tool).map_err(|error| BuildErrors(vec![error]).into())
    }

    /// Removes a tool; returns `true` if there was a tool of this name.
    #[must_use]
    pub fn remove(&self, name: &str) -> bool {
        self.has(name)
            && self.change(|entries| {
                let before = entries.len();
                entries.retain(|entry| entry.definition.name != name);
                entries.len() < before
            })
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

    /// Returns a handle that does not keep the tools alive.
    pub(crate) fn downgrade(&self) -> WeakTools {
        WeakTools(Arc::downgrade(&self.0))
    }

    // === Calls ===

    /// Starts the tool that a call names, after checking that the call is allowed; asks the caller for permissions that
    /// it has not decided about.
    pub(crate) fn call(&self, mut call: Call) -> Result<Running, RpcError> {
        let tool =
            call.tool().ok_or_else(|| RpcError::invalid_params("`name` must be a string"))?;
        let snapshot = self.snapshot();
        let entry = snapshot.find(tool.name, call.cx())?;
        // Ask only if the arguments are an object. The tool refuses any other call anyway, so such a call must not
        // cause a question to the caller.
        let may_ask = tool.arguments.is_none_or(|arguments| arguments.starts_with('{'))
            && !entry.permissions.is_empty();
        if may_ask
            && permission::sends_grants(&call)
            && let Some(question) = permission::apply_grants_or_ask(&mut call, &entry.permissions)?
        {
            return Ok(Running::Inline(Box::pin(std::future::ready(Ok(question)))));
        }
        entry.check(
            &call,
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

    /// Checks that a tool of this name exists and is enabled, and that this caller may see it.
    pub(crate) fn check_callable(&self, name: &str, cx: &Context) -> Result<(), RpcError> {
        self.snapshot().find(name, cx)?;
        if self.0.hooks.has_access(cx, name) {
            Ok(())
        } else {
            Err(name_errors::unknown(name, std::iter::empty()))
        }
    }

    /// Checks a call before a person is asked about it: its tool must exist for the caller and be enabled, and its
    /// arguments must fit the tool. If `has_others` is `true`, a layer might answer calls of tools that are not in this
    /// registry, so these calls pass.
    pub(crate) fn check_before_question(
        &self,
        call: &Call,
        has_others: bool,
    ) -> Result<(), RpcError> {
        // A layer has forwarded a call that names its server: the tool is one of that server.
        let tool = call.tool().filter(|_| call.cx().server.is_none());
        let Some(tool) = tool else { return Ok(()) };
        let snapshot = self.snapshot();
        // Layers of this SDK, e.g. the one for events, answer calls of names of MGP that are not in this registry.
        let may_be_other = has_others || tool.name.starts_with("mgp");
        if may_be_other && !snapshot.by_name.contains_key(tool.name) {
            return Ok(());
        }
        snapshot.find(tool.name, call.cx())?.check_arguments(
            call,
            #[cfg(feature = "schemas")]
            snapshot.settings.checks_arguments,
        )
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

    // === Changes ===

    /// Adds an enabled tool, or replaces the tool with the same name.
    pub(crate) fn put(&self, mut tool: Tool) -> Result<(), BuildError> {
        tool.check()?;
        let Settings { style, state, .. } = self.snapshot().settings.clone();
        if let Some(state) = &state {
            tool.check_state(state)?;
        }
        tool.advise();
        if tool.style.is_none() && style != SchemaStyle::default() {
            tool.write_schemas(style);
        }
        // Creating an entry and dropping one can run code of the author, which may use this registry. So both happen
        // without the lock.
        let entry = Entry::new(tool, true);
        // This copies the snapshot only if a call uses it, so adding thousands of tools to a new server is fast.
        let replaced = Arc::make_mut(&mut self.0.snapshot.lock()).put(entry);
        drop(replaced);
        self.report_change();
        Ok(())
    }

    fn set_enabled(&self, name: &str, is_enabled: bool) -> bool {
        let before = self.snapshot().by_name.get(name).map(|entry| entry.is_enabled);
        if before.is_none_or(|before| before == is_enabled) {
            return before.is_some();
        }
        // Search again, because another thread may have removed the tool meanwhile.
        self.change(|entries| {
            let found = entries.iter_mut().find(|entry| entry.definition.name == name);
            let Some(entry) = found else { return false };
            *entry = Arc::new(Entry { is_enabled, ..(**entry).clone() });
            true
        })
    }

    /// Changes the settings. The definitions stay the same, so nothing is reported.
    fn configure(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut Arc::make_mut(&mut self.0.snapshot.lock()).settings);
    }

    /// Changes the list of tools, then reports the change. The lock is held meanwhile, so `change` must not run code of
    /// the author.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<Entry>>) -> T) -> T {
        let (result, old) = {
            let mut current = self.0.snapshot.lock();
            let mut entries = current.entries.clone();
            let result = change(&mut entries);
            let new = Arc::new(Snapshot::new(entries, current.settings.clone()));
            (result, std::mem::replace(&mut *current, new))
        };
        // The entries that were removed are dropped without the lock, as in `put`.
        drop(old);
        self.report_change();
        result
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use mgp_types::service::Stack;
    use tower_layer::layer_fn;

    use super::*;

    fn tool(name: impl Into<String>) -> Tool {
        Tool::new(name, "A tool", || async { "" })
    }

    #[test]
    fn of_the_threads_that_remove_a_tool_only_one_removes_it() {
        let tools = Tools::default();
        let names: Vec<_> = (0..200).map(|number| number.to_string()).collect();
        for name in &names {
            tools.add(tool(name));
        }
        let remove_all = || names.iter().filter(|name| tools.remove(name)).count();
        let removed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(remove_all)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((removed, tools.len()), (200, 0));
    }

    #[test]
    fn a_tool_that_replaces_a_disabled_one_is_enabled() {
        let tools = Tools::default();
        tools.add(tool("a"));
        assert!(tools.disable("a") && tools.enabled_len() == 0);
        tools.add(tool("a"));
        assert_eq!((tools.len(), tools.enabled_len()), (1, 1));
        assert!(tools.remove("a") && !tools.enable("a"), "a removed tool cannot be enabled");
    }

    #[test]
    fn a_layer_may_change_the_registry_while_the_schemas_are_generated_again() {
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            let tools = Tools::default();
            let registry = tools.clone();
            let layer = layer_fn(move |inner: Stack| {
                registry.add(tool("added"));
                let _ = registry.disable("layered");
                inner
            });
            tools.add(tool("layered").layer(layer));
            tools.set_schema_style(SchemaStyle::Hoisted);
            done.send((tools.len(), tools.enabled_len())).unwrap();
        });
        let counts = is_done.recv_timeout(Duration::from_secs(30));
        assert_eq!(counts, Ok((2, 1)), "the layered tool stays disabled");
    }

    /// A value in a tool's function. When it is dropped, another tool is removed.
    struct Companion(Tools, &'static str);

    impl Drop for Companion {
        fn drop(&mut self) {
            assert!(self.0.remove(self.1));
        }
    }

    #[test]
    fn a_tool_may_change_the_registry_when_it_is_dropped() {
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            let tools = Tools::default();
            let with_companion = |name: &'static str, other: &'static str| {
                let companion = Companion(tools.clone(), other);
                Tool::new(name, "Counts the tools", move || {
                    let count = companion.0.len().to_string();
                    async { count }
                })
            };
            for name in ["a", "b", "c"] {
                tools.add(tool(name));
            }
            tools.add(with_companion("removed", "a"));
            tools.add(with_companion("replaced", "b"));
            assert!(tools.remove("removed"));
            tools.add(tool("replaced"));
            done.send(tools.len()).unwrap();
        });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(30)), Ok(2));
    }
}
