//! The tools of a server, and their lists as ready bytes.
//!
//! Applies to: inbound.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use mgp_types::mcp::{self, Era, ListToolsResult, ResultType, TaskSupport, key};
use mgp_types::mgp::{Extension, Permission};
use mgp_types::service::{Call, Context, Extensions, HeaderParams, HeaderPlan, Reply, Stack};
use mgp_types::{ErrorCode, Payload, RpcError};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::extract::{Grants, ToolRequest, admit};
use super::layers::Carried;
use super::run::Running;
use super::{SchemaStyle, Tool, check, repeat, schema};
use crate::audience::{Audience, List};
use crate::error::{Flaw, Flaws};

/// The tools of a server; they can change while it runs.
#[derive(Clone, Debug, Default)]
pub struct Tools(Arc<Inner>);

/// The tools, as long as somebody holds them.
#[derive(Clone, Debug)]
pub(crate) struct WeakTools(Weak<Inner>);

impl WeakTools {
    pub(crate) fn upgrade(&self) -> Option<Tools> {
        self.0.upgrade().map(Tools)
    }
}

#[derive(Debug, Default)]
struct Inner {
    now: Mutex<Arc<Snapshot>>,
    /// Who is told about changes, once the server is put together.
    audience: OnceLock<Audience>,
    /// Who judges calls by the definitions, where the server is governed.
    judge: OnceLock<Judge>,
    /// Decides anew about calls that waited below the gates, where the server is governed.
    recheck: OnceLock<Recheck>,
}

/// Refuses calls that waited and may not run any more.
struct Recheck(Box<Decide>);

type Decide = dyn Fn(&Call) -> Result<(), RpcError> + Send + Sync;

impl fmt::Debug for Recheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recheck")
    }
}

/// Learns the definitions of tools whenever they change.
struct Judge(Box<Learn>);

type Learn = dyn Fn(&[mcp::Tool]) + Send + Sync;

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Judge")
    }
}

/// The tools at one moment; a change makes a new one, so that calls and lists never wait.
#[derive(Debug, Default)]
struct Snapshot {
    order: Vec<Arc<Entry>>,
    /// The names are the author's, so they are hashed without a seed.
    by_name: FxHashMap<String, Arc<Entry>>,
    settings: Settings,
    /// Whether any tool supports tasks: most servers have none, and need not look.
    any_task: bool,
    /// Whether any tool has an output schema.
    any_typed: bool,
    /// Whether any tool has a bound of its own.
    any_timeout: bool,
    lists: [OnceLock<Result<Payload, RpcError>>; 4],
}

/// What the server gives all its tools.
#[derive(Clone, Debug, Default)]
struct Settings {
    style: SchemaStyle,
    refused: Refused,
    /// `None` while the server is still put together.
    state: Option<Arc<Extensions>>,
}

/// What becomes of tools whose permissions are known not to be granted, in the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Refused {
    /// They are listed, and answer 1000.
    #[default]
    Listed,
    /// They are left out, and answer 1000.
    Hidden,
}

#[derive(Clone, Debug)]
struct Entry {
    tool: Arc<Tool>,
    definition: Arc<mcp::Tool>,
    /// What a call needs, by standard names.
    permissions: Arc<[Permission]>,
    /// The arguments that stand in headers too, where a call has headers.
    headers: HeaderPlan,
    /// The tool with its own layers around it.
    wrapped: Option<Stack>,
    state: Switch,
}

impl Entry {
    fn new(mut tool: Tool, style: SchemaStyle, state: Switch) -> Arc<Self> {
        if tool.style.is_none() && style != SchemaStyle::default() {
            tool.write_schemas(style);
        }
        let mut definition = tool.definition.clone();
        mgp_security::derive_hints(&mut definition);
        let permissions = check::permissions(&definition).into();
        // What cannot be read was refused before.
        let headers = HeaderPlan::of(&definition.input_schema).unwrap_or_default();
        let (tool, definition) = (Arc::new(tool), Arc::new(definition));
        let wrapped = tool.layers.wrap(&tool, &definition);
        Arc::new(Self { tool, definition, permissions, headers, wrapped, state })
    }

    /// Compares headers with arguments: whoever routed the call by its headers must have seen what runs here.
    ///
    /// Headers are part of the modern era, and only HTTP has them.
    fn check_headers(&self, call: &Call) -> Result<(), RpcError> {
        let cx = call.cx();
        if cx.caller.era == Era::Modern
            && let Some(came) = cx.extensions.get::<HeaderParams>()
        {
            let arguments = call.tool().and_then(|tool| tool.arguments);
            self.headers.check(arguments.unwrap_or("{}"), came)?;
        }
        Ok(())
    }
}

/// Whether a tool can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    On,
    Off,
}

impl Tools {
    /// Adds a tool, replacing one of the same name.
    ///
    /// A tool that cannot be served is logged and left out; [`Tools::try_add`] says why.
    pub fn add(&self, tool: Tool) {
        if let Err(error) = self.try_add(tool) {
            tracing::error!(%error, "a tool was left out");
        }
    }

    /// Adds a tool, replacing one of the same name.
    ///
    /// # Errors
    /// −32603 when its name or a permission cannot be used, or the server lacks state it takes.
    pub fn try_add(&self, tool: Tool) -> Result<(), RpcError> {
        self.put(tool).map_err(|flaw| Flaws(vec![flaw]).into())
    }

    /// Adds a tool whose name is not taken.
    pub(crate) fn declare(&self, tool: Tool) -> Result<(), Flaw> {
        let name = &tool.definition.name;
        if self.snapshot().by_name.contains_key(name) {
            return Err(Flaw::Twice(name.clone()));
        }
        self.put(tool)
    }

    /// Adds or replaces a tool.
    pub(crate) fn put(&self, tool: Tool) -> Result<(), Flaw> {
        tool.check()?;
        if let Some(state) = &self.snapshot().settings.state {
            tool.check_state(state)?;
        }
        tool.advise();
        self.change(|order, settings| {
            let entry = Entry::new(tool, settings.style, Switch::On);
            match order.iter_mut().find(|old| old.definition.name == entry.definition.name) {
                Some(old) => *old = entry,
                None => order.push(entry),
            }
        });
        Ok(())
    }

    /// Chooses how the schemas of the tools are written.
    pub(crate) fn write_schemas(&self, style: SchemaStyle) {
        self.change(|order, settings| {
            settings.style = style;
            for entry in order {
                let mut tool = (*entry.tool).clone();
                if tool.style.is_none() {
                    tool.write_schemas(style);
                    *entry = Entry::new(tool, style, entry.state);
                }
            }
        });
    }

    /// Leaves tools whose permissions are known not to be granted out of the list.
    pub(crate) fn hide_refused(&self) {
        self.change(|_, settings| settings.refused = Refused::Hidden);
    }

    /// Gives the tools the server's state, and says what is missing in it.
    pub(crate) fn provide(&self, state: Arc<Extensions>) -> Vec<Flaw> {
        let snapshot = self.snapshot();
        let lacking = snapshot.order.iter().map(|entry| entry.tool.check_state(&state));
        let flaws = lacking.filter_map(Result::err).collect();
        self.change(|_, settings| settings.state = Some(state));
        flaws
    }

    /// The permissions the tools need, by standard names, each once.
    pub(crate) fn permissions(&self) -> Vec<Permission> {
        let snapshot = self.snapshot();
        Permission::canonical(snapshot.order.iter().flat_map(|entry| entry.permissions.iter()))
    }

    /// Whether a tool has an output schema.
    pub(crate) fn is_typed(&self, name: &str) -> bool {
        let snapshot = self.snapshot();
        snapshot.any_typed
            && snapshot.by_name.get(name).is_some_and(|entry| is_typed(&entry.definition))
    }

    /// The bound of its own that the tool of a call has.
    pub(crate) fn timeout_of(&self, call: &Call) -> Option<Duration> {
        let snapshot = self.snapshot();
        if !snapshot.any_timeout {
            return None;
        }
        snapshot.by_name.get(call.tool()?.name)?.tool.timeout
    }

    /// Whether a tool does no harm when it runs twice.
    pub(super) fn repeats(&self, name: &str) -> bool {
        let snapshot = self.snapshot();
        snapshot.by_name.get(name).is_some_and(|entry| repeat::repeats(&entry.definition))
    }

    /// Removes a tool; `true` when there was one.
    #[must_use]
    pub fn remove(&self, name: &str) -> bool {
        self.change(|order, _| {
            let before = order.len();
            order.retain(|entry| entry.definition.name != name);
            order.len() < before
        })
    }

    /// Lists a disabled tool again and lets it be called; `true` when there is such a tool.
    #[must_use]
    pub fn enable(&self, name: &str) -> bool {
        self.switch(name, Switch::On)
    }

    /// Keeps a tool and neither lists nor calls it (4002); `true` when there is such a tool.
    #[must_use]
    pub fn disable(&self, name: &str) -> bool {
        self.switch(name, Switch::Off)
    }

    /// How many there are, disabled ones too.
    #[must_use]
    pub fn len(&self) -> usize {
        self.snapshot().order.len()
    }

    /// Whether there is one of this name, be it off.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.snapshot().by_name.contains_key(name)
    }

    /// How many can be called.
    pub(crate) fn available(&self) -> usize {
        self.snapshot().order.iter().filter(|entry| entry.state == Switch::On).count()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether calls of a tool may become tasks.
    pub(crate) fn task_support(&self, name: &str) -> TaskSupport {
        let snapshot = self.snapshot();
        if !snapshot.any_task {
            return TaskSupport::Forbidden;
        }
        let entry = snapshot.by_name.get(name);
        entry.map_or(TaskSupport::Forbidden, |entry| support_of(&entry.definition))
    }

    /// Whether calls of any tool may become tasks.
    pub(crate) fn any_task(&self) -> bool {
        self.snapshot().any_task
    }

    /// The list as a caller may see it: encoded once per form, then bytes.
    pub(crate) fn list(&self, cx: &Context) -> Result<Reply, RpcError> {
        let caller = &cx.caller;
        let form = Form {
            security: caller.has(Extension::ToolSecurity),
            modern: caller.era == Era::Modern,
        };
        let snapshot = self.snapshot();
        if snapshot.settings.refused == Refused::Hidden {
            let grants = Grants::of(cx);
            if grants.is_told() {
                let shown = |entry: &Entry| {
                    admit(&grants, &entry.definition.name, &entry.permissions).is_ok()
                };
                return snapshot.encode(form, shown).map(Reply::raw);
            }
        }
        let list = snapshot.lists[form.index()].get_or_init(|| snapshot.encode(form, |_| true));
        list.clone().map(Reply::raw)
    }

    /// The permissions a tool needs; none where it needs none, or is unknown.
    pub(crate) fn permissions_of(&self, name: &str) -> Option<Arc<[Permission]>> {
        let snapshot = self.snapshot();
        let needed = &snapshot.by_name.get(name)?.permissions;
        (!needed.is_empty()).then(|| Arc::clone(needed))
    }

    /// Starts the tool a call names.
    pub(crate) fn call(&self, mut call: Call) -> Result<Running, RpcError> {
        let tool =
            call.tool().ok_or_else(|| RpcError::invalid_params("`name` must be a string"))?;
        let snapshot = self.snapshot();
        let entry = snapshot.by_name.get(tool.name).ok_or_else(|| unknown(tool.name, &snapshot))?;
        if entry.state == Switch::Off {
            return Err(disabled(tool.name));
        }
        if !entry.headers.is_empty() {
            entry.check_headers(&call)?;
        }
        if !entry.permissions.is_empty() {
            admit(&Grants::of(call.cx()), tool.name, &entry.permissions)?;
        }
        let is_object = tool.arguments.is_none_or(|text| text.starts_with('{'));
        if !is_object {
            return Err(RpcError::invalid_params("`arguments` must be an object"));
        }
        let state = snapshot.settings.state.clone().unwrap_or_default();
        if let Some(stack) = &entry.wrapped {
            call.cx_mut().extensions.insert(Carried(state));
            return Ok(Running::Inline(stack.send(call)));
        }
        let arguments = call.tool_arguments();
        let (_, _, cx) = call.into_parts();
        Ok(entry.tool.start(ToolRequest {
            definition: Arc::clone(&entry.definition),
            arguments,
            cx,
            state,
        }))
    }

    /// Tells everyone who listens that the list of tools has changed for them, though no tool has: their access has.
    ///
    /// Changes that come at once are told once.
    pub fn tell_changed(&self) {
        if let Some(audience) = self.0.audience.get() {
            audience.changed(List::Tools);
        }
    }

    /// Says who judges calls by the definitions of the tools; `false` when somebody does already.
    pub(crate) fn judged_by(&self, learn: impl Fn(&[mcp::Tool]) + Send + Sync + 'static) -> bool {
        let is_first = self.0.judge.set(Judge(Box::new(learn))).is_ok();
        self.judge();
        is_first
    }

    /// Says who decides anew about calls that waited below the gates.
    pub(crate) fn rechecked_by(
        &self,
        check: impl Fn(&Call) -> Result<(), RpcError> + Send + Sync + 'static,
    ) {
        // Governing a server twice is refused where it is put together.
        let _ = self.0.recheck.set(Recheck(Box::new(check)));
    }

    /// Refuses a call that waited and may not run any more.
    pub(crate) fn recheck(&self, call: &Call) -> Result<(), RpcError> {
        self.0.recheck.get().map_or(Ok(()), |Recheck(check)| check(call))
    }

    fn judge(&self) {
        if let Some(Judge(learn)) = self.0.judge.get() {
            let snapshot = self.snapshot();
            let all: Vec<_> =
                snapshot.order.iter().map(|entry| mcp::Tool::clone(&entry.definition)).collect();
            learn(&all);
        }
    }

    /// A handle that does not keep the tools alive.
    pub(crate) fn downgrade(&self) -> WeakTools {
        WeakTools(Arc::downgrade(&self.0))
    }

    /// Says who is told about changes.
    pub(crate) fn tell(&self, audience: Audience) {
        // A server is put together once; a second audience would be the same.
        let _ = self.0.audience.set(audience);
    }

    fn switch(&self, name: &str, state: Switch) -> bool {
        self.change(|order, _| {
            let Some(entry) = order.iter_mut().find(|entry| entry.definition.name == name) else {
                return false;
            };
            *entry = Arc::new(Entry { state, ..(**entry).clone() });
            true
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<Entry>>, &mut Settings) -> T) -> T {
        let result = self.swap(change);
        self.judge();
        self.tell_changed();
        result
    }

    fn swap<T>(&self, change: impl FnOnce(&mut Vec<Arc<Entry>>, &mut Settings) -> T) -> T {
        let mut current = self.current();
        let (mut order, mut settings) = (current.order.clone(), current.settings.clone());
        let result = change(&mut order, &mut settings);
        let by_name =
            order.iter().map(|entry| (entry.definition.name.clone(), Arc::clone(entry))).collect();
        let any_task =
            order.iter().any(|entry| support_of(&entry.definition) != TaskSupport::Forbidden);
        let any_typed = order.iter().any(|entry| is_typed(&entry.definition));
        let any_timeout = order.iter().any(|entry| entry.tool.timeout.is_some());
        let lists = Default::default();
        *current = Arc::new(Snapshot {
            order,
            by_name,
            settings,
            any_task,
            any_typed,
            any_timeout,
            lists,
        });
        result
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current())
    }

    fn current(&self) -> MutexGuard<'_, Arc<Snapshot>> {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a definition says about tasks; nothing means none.
fn support_of(definition: &mcp::Tool) -> TaskSupport {
    let execution = definition.execution.as_ref();
    execution.and_then(|execution| execution.task_support.clone()).unwrap_or(TaskSupport::Forbidden)
}

fn is_typed(definition: &mcp::Tool) -> bool {
    definition.output_schema.is_some()
}

/// In which words a list is written.
#[derive(Clone, Copy)]
struct Form {
    /// With the security metadata, for peers that negotiated it.
    security: bool,
    /// With what 2026-07-28 demands of every list.
    modern: bool,
}

impl Form {
    fn index(self) -> usize {
        usize::from(self.security) * 2 + usize::from(self.modern)
    }
}

/// How long a modern client may keep the list: changes are announced, so this only bounds a lost announcement.
const LIST_TTL_MS: u64 = 60_000;

impl Snapshot {
    fn encode(&self, form: Form, is_shown: impl Fn(&Entry) -> bool) -> Result<Payload, RpcError> {
        let tools = self
            .order
            .iter()
            .filter(|entry| entry.state == Switch::On && is_shown(entry))
            .map(|entry| shown(&entry.definition, form))
            .collect::<Result<Vec<_>, _>>()?;
        let mut list = ListToolsResult::new(tools);
        if form.modern {
            list.result_type = Some(ResultType::Complete);
            list.ttl_ms = Some(LIST_TTL_MS);
            list.cache_scope = Some(mcp::CacheScope::Private);
        }
        Payload::of(&list)
    }
}

/// A definition as one kind of peer sees it: the security metadata stands twice or not at all (DESIGN §4).
fn shown(definition: &mcp::Tool, form: Form) -> Result<mcp::Tool, RpcError> {
    #[derive(Serialize)]
    struct Mirror<'a, T> {
        security: &'a T,
    }
    let mut shown = definition.clone();
    if !form.modern {
        // Before 2026-07-28 structured content is an object.
        shown.output_schema = shown.output_schema.filter(schema::is_of_objects);
    }
    match (&definition.security, form.security) {
        (None, _) => {}
        (Some(_), false) => shown.security = None,
        (Some(security), true) => {
            shown.meta.get_or_insert_default().encode(key::MGP, &Mirror { security })?;
        }
    }
    Ok(shown)
}

/// 4002.
fn disabled(name: &str) -> RpcError {
    let message =
        format!("the tool `{name}` is disabled by its server; use another one from `tools/list`");
    RpcError::new(ErrorCode::TOOL_DISABLED, message)
}

/// 4001, with the nearest name there is, or where to find one.
fn unknown(name: &str, snapshot: &Snapshot) -> RpcError {
    let shown: String = name.chars().take(80).collect();
    let near = snapshot
        .order
        .iter()
        .map(|entry| (distance(&shown, &entry.definition.name), &entry.definition.name))
        .filter(|(distance, known)| *distance <= known.len().div_ceil(3))
        .min();
    let hint = near.map_or_else(
        || "use a name from `tools/list`".to_owned(),
        |(_, known)| format!("did you mean `{known}`?"),
    );
    RpcError::new(ErrorCode::TOOL_NOT_FOUND, format!("unknown tool `{shown}`; {hint}"))
}

/// The edit distance of two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let next = (diagonal + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[b.len()]
}
