//! The registry of a server's tools.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use mgp_security::Grants;
use mgp_types::mcp::{self, TaskSupport};
use mgp_types::mgp::Permission;
use mgp_types::proposal::check_input_size;
use mgp_types::service::{Call, Context, Extensions};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError};
use rustc_hash::FxHashMap;

use self::entry::Entry;
use self::list::Form;
use super::extract::{ToolRequest, admit, received_meta};
use super::layers::CarriedState;
use super::run::Running;
use super::{SchemaStyle, Tool, name_errors, retry_hint, version};
use crate::error::{BuildError, BuildErrors};
use crate::subscribers::{ListKind, Subscribers};

mod entry;
mod list;

/// The tools of a server, which can change while the server runs. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tools(Arc<ToolsState>);

/// A handle that does not keep the tools alive.
#[derive(Clone, Debug)]
pub(crate) struct WeakTools(Weak<ToolsState>);

impl WeakTools {
    pub(crate) fn upgrade(&self) -> Option<Tools> {
        self.0.upgrade().map(Tools)
    }
}

#[derive(Debug, Default)]
struct ToolsState {
    snapshot: Mutex<Arc<Snapshot>>,
    /// The clients that are notified of changes; set when the server is built.
    subscribers: OnceLock<Subscribers>,
    /// The function that receives the definitions after each change; set if the server is governed.
    observer: OnceLock<DefinitionObserver>,
    /// The function that [`Tools::recheck`] calls; set if the server is governed.
    recheck: OnceLock<Recheck>,
    /// The function that returns whether a caller has access to a tool; set if the server is governed.
    view: OnceLock<View>,
}

/// A function that checks the rights of a call again if the call had to wait after it was admitted.
struct Recheck(Box<CheckFn>);

type CheckFn = dyn Fn(&Call) -> Result<(), RpcError> + Send + Sync;

mgp_types::opaque_debug!(Recheck);

/// A function that returns whether a caller has access to a tool.
struct View(Box<ViewFn>);

type ViewFn = dyn Fn(&Context, &str) -> bool + Send + Sync;

mgp_types::opaque_debug!(View);

struct DefinitionObserver(Box<ObserveFn>);

type ObserveFn = dyn Fn(&[mcp::Tool]) + Send + Sync;

mgp_types::opaque_debug!(DefinitionObserver);

/// The tools at one point in time. A change replaces the snapshot, so that a call can use its snapshot without a lock.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts about all tools, read for each call")]
struct Snapshot {
    order: Vec<Arc<Entry>>,
    /// The tools by name. The hash needs no random seed, because callers cannot choose the names of the tools.
    by_name: FxHashMap<String, Arc<Entry>>,
    settings: Settings,
    /// `true` if at least one tool supports tasks. If none does, as on most servers, calls skip the lookup of the tool.
    any_task: bool,
    /// `true` if at least one tool has an output schema.
    any_typed: bool,
    /// `true` if at least one tool has its own time limit.
    any_timeout: bool,
    /// `true` if a tool has members of proposals; the list then depends on the proposals that the caller negotiated.
    any_proposed: bool,
    /// `true` if a tool exists only for some callers; the list then depends on its caller.
    any_audience: bool,
    lists: [OnceLock<Result<Payload, RpcError>>; Form::COUNT],
}

/// The server's settings for all tools.
#[derive(Clone, Debug, Default)]
struct Settings {
    style: SchemaStyle,
    /// `true` if a client's list omits tools that need a permission that the client denies; calls fail in either case.
    hides_refused: bool,
    /// `true` if errors may propose the names of tools to every caller, because no layer of the author can hide a tool.
    shows_names: bool,
    /// If set, the arguments of a call are checked against the schema of its tool before the tool runs.
    #[cfg(feature = "schemas")]
    checks_arguments: bool,
    /// The values that tools extract as `State`; `None` until the server is built.
    state: Option<Arc<Extensions>>,
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
    /// −32603 if the tool's name or one of its permissions is invalid, or the server lacks state that the tool needs.
    pub fn try_add(&self, tool: Tool) -> Result<(), RpcError> {
        self.put(tool).map_err(|error| BuildErrors(vec![error]).into())
    }

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
        self.change(|order, settings| {
            let entry = Entry::new(tool, settings.style, true);
            match order.iter_mut().find(|old| old.definition.name == entry.definition.name) {
                Some(old) => *old = entry,
                None => order.push(entry),
            }
        });
        Ok(())
    }

    /// Sets whether schemas describe the types of fields in place or under `$defs`, and generates all schemas again.
    pub(crate) fn write_schemas(&self, style: SchemaStyle) {
        self.change(|order, settings| {
            settings.style = style;
            for entry in order {
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

    /// Makes the server omit tools from a client's list if the client is known to deny a permission that they need.
    pub(crate) fn hide_denied_tools(&self) {
        self.change(|_, settings| settings.hides_refused = true);
    }

    /// Sets the server's state, and whether callers may know the names of all tools. Returns an error for each tool
    /// that needs state that the server lacks.
    pub(crate) fn complete(&self, state: Arc<Extensions>, shows_names: bool) -> Vec<BuildError> {
        let snapshot = self.snapshot();
        let missing = snapshot.order.iter().map(|entry| entry.tool.check_state(&state));
        let errors = missing.filter_map(Result::err).collect();
        self.change(|_, settings| {
            settings.state = Some(state);
            settings.shows_names = shows_names;
        });
        errors
    }

    /// Returns the permissions that the tools need, by their standard names and without duplicates.
    pub(crate) fn permissions(&self) -> Vec<Permission> {
        let snapshot = self.snapshot();
        Permission::canonical(snapshot.order.iter().flat_map(|entry| entry.permissions.iter()))
    }

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
    pub(super) fn is_repeatable(&self, name: &str) -> bool {
        let snapshot = self.snapshot();
        snapshot.by_name.get(name).is_some_and(|entry| retry_hint::is_repeatable(&entry.definition))
    }

    /// Removes a tool; returns `true` if there was a tool of this name.
    #[must_use]
    pub fn remove(&self, name: &str) -> bool {
        self.change(|order, _| {
            let before = order.len();
            order.retain(|entry| entry.definition.name != name);
            order.len() < before
        })
    }

    /// Enables a disabled tool; returns `true` if there is such a tool.
    #[must_use]
    pub fn enable(&self, name: &str) -> bool {
        self.set_enabled(name, true)
    }

    /// Disables a tool: it is not listed, and calls fail with code 4002. Returns `true` if there is such a tool.
    #[must_use]
    pub fn disable(&self, name: &str) -> bool {
        self.set_enabled(name, false)
    }

    /// Returns the number of tools, including disabled ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.snapshot().order.len()
    }

    /// Returns whether there is a tool of this name, including disabled ones.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.snapshot().by_name.contains_key(name)
    }

    /// Checks that there is a tool of this name which is enabled, and that this caller may see it.
    pub(crate) fn check_callable(&self, name: &str, cx: &Context) -> Result<(), RpcError> {
        self.snapshot().find(name, cx)?;
        match self.0.view.get() {
            Some(View(sees)) if !sees(cx, name) => {
                Err(name_errors::unknown(name, std::iter::empty()))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a tool declares that it only reads.
    pub(crate) fn only_reads(&self, name: &str) -> bool {
        let snapshot = self.snapshot();
        let entry = snapshot.by_name.get(name);
        let hints = entry.and_then(|entry| entry.definition.annotations.as_ref());
        hints.and_then(|hints| hints.read_only_hint) == Some(true)
    }

    pub(crate) fn available(&self) -> usize {
        self.snapshot().order.iter().filter(|entry| entry.is_enabled).count()
    }

    /// Returns whether there are no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn task_support(&self, name: &str) -> TaskSupport {
        let snapshot = self.snapshot();
        if !snapshot.any_task {
            return TaskSupport::Forbidden;
        }
        let entry = snapshot.by_name.get(name);
        entry.map_or(TaskSupport::Forbidden, |entry| entry.task_support())
    }

    /// Returns whether there is a tool whose calls can become tasks.
    pub(crate) fn any_task(&self) -> bool {
        self.snapshot().any_task
    }

    /// Returns the permissions a tool needs; `None` if there are none or the tool does not exist for the caller.
    pub(crate) fn permissions_of(&self, name: &str, cx: &Context) -> Option<Arc<[Permission]>> {
        let snapshot = self.snapshot();
        let entry = snapshot.by_name.get(name)?;
        let is_asked = !entry.permissions.is_empty() && entry.is_visible_to(cx);
        is_asked.then(|| Arc::clone(&entry.permissions))
    }

    /// Starts the tool that a call names, after checking that the call is allowed.
    pub(crate) fn call(&self, mut call: Call) -> Result<Running, RpcError> {
        let tool =
            call.tool().ok_or_else(|| RpcError::invalid_params("`name` must be a string"))?;
        let snapshot = self.snapshot();
        let entry = snapshot.find(tool.name, call.cx())?;
        if !entry.headers.is_empty() {
            entry.check_headers(&call)?;
        }
        if !entry.permissions.is_empty() {
            admit(&Grants::from_context(call.cx()), tool.name, &entry.permissions)?;
        }
        let is_object = tool.arguments.is_none_or(|text| text.starts_with('{'));
        if !is_object {
            return Err(RpcError::invalid_params("`arguments` must be an object"));
        }
        version::check(call.params(), &entry.definition)?;
        #[cfg(feature = "schemas")]
        if snapshot.settings.checks_arguments {
            let arguments = tool.arguments.unwrap_or("{}");
            super::argument_schema::refuse_arguments(&entry.definition, arguments)?;
        }
        if let Some(max) = entry.max_input {
            check_input_size(&entry.definition, tool.arguments.unwrap_or_default(), max)?;
        }
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

    /// Notifies all clients that the list of tools changed for them, e.g. because their access changed.
    ///
    /// Changes within a few milliseconds are sent as one notification.
    pub fn notify_changed(&self) {
        if let Some(subscribers) = self.0.subscribers.get() {
            subscribers.changed(ListKind::Tools);
        }
    }

    /// Sets the function that receives the tools' definitions; returns `false` if one is already set.
    pub(crate) fn observe_definitions(
        &self,
        observe: impl Fn(&[mcp::Tool]) + Send + Sync + 'static,
    ) -> bool {
        let is_first = self.0.observer.set(DefinitionObserver(Box::new(observe))).is_ok();
        self.report_definitions();
        is_first
    }

    /// Sets the function that checks the rights of a call again if the call had to wait after it was admitted.
    pub(crate) fn set_recheck(
        &self,
        check: impl Fn(&Call) -> Result<(), RpcError> + Send + Sync + 'static,
    ) {
        // The result is ignored, because `into_stack` reports an error if a server is governed twice.
        let _ = self.0.recheck.set(Recheck(Box::new(check)));
    }

    /// Sets the function that returns whether a caller has access to a tool.
    pub(crate) fn set_view(&self, sees: impl Fn(&Context, &str) -> bool + Send + Sync + 'static) {
        // The result is ignored, because `into_stack` reports an error if a server is governed twice.
        let _ = self.0.view.set(View(Box::new(sees)));
    }

    /// Refuses a call that waited and is no longer allowed.
    pub(crate) fn recheck(&self, call: &Call) -> Result<(), RpcError> {
        self.0.recheck.get().map_or(Ok(()), |Recheck(check)| check(call))
    }

    fn report_definitions(&self) {
        let Some(DefinitionObserver(observe)) = self.0.observer.get() else { return };
        loop {
            let snapshot = self.snapshot();
            let all: Vec<_> =
                snapshot.order.iter().map(|entry| mcp::Tool::clone(&entry.definition)).collect();
            observe(&all);
            // If the tools changed in the meantime, another thread may have reported the newer definitions first, so
            // report them again. A lock would prevent this, but the observer runs hooks of the author, which may change
            // tools.
            if Arc::ptr_eq(&snapshot, &self.snapshot()) {
                return;
            }
        }
    }

    /// Returns a handle that does not keep the tools alive.
    pub(crate) fn downgrade(&self) -> WeakTools {
        WeakTools(Arc::downgrade(&self.0))
    }

    /// Sets the table of the clients that are notified of changes.
    pub(crate) fn notify(&self, subscribers: Subscribers) {
        // Ignore the result: `Server::into_stack` consumes the server, so the value is never set twice.
        let _ = self.0.subscribers.set(subscribers);
    }

    fn set_enabled(&self, name: &str, is_enabled: bool) -> bool {
        self.change(|order, _| {
            let Some(entry) = order.iter_mut().find(|entry| entry.definition.name == name) else {
                return false;
            };
            *entry = Arc::new(Entry { is_enabled, ..(**entry).clone() });
            true
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<Entry>>, &mut Settings) -> T) -> T {
        let result = self.swap(change);
        self.report_definitions();
        self.notify_changed();
        result
    }

    fn swap<T>(&self, change: impl FnOnce(&mut Vec<Arc<Entry>>, &mut Settings) -> T) -> T {
        let mut current = self.0.snapshot.lock();
        let (mut order, mut settings) = (current.order.clone(), current.settings.clone());
        let result = change(&mut order, &mut settings);
        let by_name =
            order.iter().map(|entry| (entry.definition.name.clone(), Arc::clone(entry))).collect();
        let any_task = order.iter().any(|entry| entry.task_support() != TaskSupport::Forbidden);
        let any_typed = order.iter().any(|entry| entry.is_typed());
        let any_timeout = order.iter().any(|entry| entry.tool.timeout.is_some());
        let any_proposed = order.iter().any(|entry| !entry.tool.proposed.is_empty());
        let any_audience = order.iter().any(|entry| entry.tool.audience.is_some());
        let lists = Default::default();
        *current = Arc::new(Snapshot {
            order,
            by_name,
            settings,
            any_task,
            any_typed,
            any_timeout,
            any_proposed,
            any_audience,
            lists,
        });
        result
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.snapshot.lock())
    }
}

impl Snapshot {
    /// Returns the tool of this name; fails with code 4001 if there is none for this caller, and with 4002 if it is
    /// disabled.
    fn find(&self, name: &str, cx: &Context) -> Result<&Arc<Entry>, RpcError> {
        match self.by_name.get(name).filter(|entry| entry.is_visible_to(cx)) {
            Some(entry) if entry.is_enabled => Ok(entry),
            Some(_) => Err(name_errors::disabled(name)),
            None => {
                let shows_names = self.settings.shows_names && !self.settings.hides_refused;
                let shown = self
                    .order
                    .iter()
                    .filter(|entry| shows_names && entry.is_enabled && entry.is_visible_to(cx));
                Err(name_errors::unknown(name, shown.map(|entry| &*entry.definition.name)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observer_may_change_the_tools_and_receives_the_newest_definitions_last() {
        let (tools, seen) = (Tools::default(), Arc::new(Mutex::new(Vec::new())));
        let (weak, counts) = (tools.downgrade(), Arc::clone(&seen));
        tools.observe_definitions(move |all| {
            counts.lock().push(all.len());
            if all.len() == 1 {
                weak.upgrade().unwrap().add(Tool::new("b", "B", || async { "" }));
            }
        });
        tools.add(Tool::new("a", "A", || async { "" }));
        assert_eq!(*seen.lock(), [0, 1, 2, 2]);
    }
}
