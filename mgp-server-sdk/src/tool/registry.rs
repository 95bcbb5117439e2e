//! The tools of a server, and their lists as ready bytes.
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mgp_types::mcp::{self, Era, ListToolsResult, ResultType, TaskSupport, key};
use mgp_types::mgp::Extension;
use mgp_types::service::{Call, Facts, Reply};
use mgp_types::{ErrorCode, Payload, RpcError};
use serde::Serialize;

use super::Tool;
use super::extract::ToolRequest;
use super::run::Running;

/// The tools of a server; they can change while it runs.
#[derive(Clone, Debug, Default)]
pub struct Tools(Arc<Mutex<Arc<Snapshot>>>);

/// The tools at one moment; a change makes a new one, so that calls and lists never wait.
#[derive(Debug, Default)]
struct Snapshot {
    order: Vec<Arc<Entry>>,
    by_name: HashMap<String, Arc<Entry>>,
    /// Whether any tool supports tasks: most servers have none, and need not look.
    any_task: bool,
    lists: [OnceLock<Result<Payload, RpcError>>; 4],
}

#[derive(Debug)]
struct Entry {
    tool: Tool,
    definition: Arc<mcp::Tool>,
}

impl Tools {
    /// Adds a tool, replacing one of the same name.
    pub fn add(&self, tool: Tool) {
        self.change(|order| {
            let definition = Arc::new(tool.definition.clone());
            let entry = Arc::new(Entry { tool, definition });
            match order.iter_mut().find(|old| old.definition.name == entry.definition.name) {
                Some(old) => *old = entry,
                None => order.push(entry),
            }
        });
    }

    /// Removes a tool; `true` when there was one.
    #[must_use]
    pub fn remove(&self, name: &str) -> bool {
        self.change(|order| {
            let before = order.len();
            order.retain(|entry| entry.definition.name != name);
            order.len() < before
        })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.snapshot().order.len()
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
    pub(crate) fn list(&self, caller: &Facts) -> Result<Reply, RpcError> {
        let form = Form {
            security: caller.has(Extension::ToolSecurity),
            modern: caller.era == Era::Modern,
        };
        let snapshot = self.snapshot();
        let list = snapshot.lists[form.index()].get_or_init(|| snapshot.encode(form));
        list.clone().map(Reply::raw)
    }

    /// Starts the tool a call names.
    pub(crate) fn call(&self, call: Call) -> Result<Running, RpcError> {
        let tool =
            call.tool().ok_or_else(|| RpcError::invalid_params("`name` must be a string"))?;
        let snapshot = self.snapshot();
        let entry = snapshot.by_name.get(tool.name).ok_or_else(|| unknown(tool.name, &snapshot))?;
        let is_object = tool.arguments.is_none_or(|text| text.starts_with('{'));
        if !is_object {
            return Err(RpcError::invalid_params("`arguments` must be an object"));
        }
        let arguments = call.tool_arguments();
        let (_, _, cx) = call.into_parts();
        Ok(entry.tool.start(ToolRequest {
            definition: Arc::clone(&entry.definition),
            arguments,
            cx,
        }))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<Entry>>) -> T) -> T {
        let mut current = self.current();
        let mut order = current.order.clone();
        let result = change(&mut order);
        let by_name =
            order.iter().map(|entry| (entry.definition.name.clone(), Arc::clone(entry))).collect();
        let any_task =
            order.iter().any(|entry| support_of(&entry.definition) != TaskSupport::Forbidden);
        *current = Arc::new(Snapshot { order, by_name, any_task, lists: Default::default() });
        result
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current())
    }

    fn current(&self) -> MutexGuard<'_, Arc<Snapshot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a definition says about tasks; nothing means none.
fn support_of(definition: &mcp::Tool) -> TaskSupport {
    let execution = definition.execution.as_ref();
    execution.and_then(|execution| execution.task_support.clone()).unwrap_or(TaskSupport::Forbidden)
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
    fn encode(&self, form: Form) -> Result<Payload, RpcError> {
        let tools = self
            .order
            .iter()
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
    match (&definition.security, form.security) {
        (None, _) => {}
        (Some(_), false) => shown.security = None,
        (Some(security), true) => {
            shown.meta.get_or_insert_default().encode(key::MGP, &Mirror { security })?;
        }
    }
    Ok(shown)
}

/// 4001, with the nearest name there is.
fn unknown(name: &str, snapshot: &Snapshot) -> RpcError {
    let shown: String = name.chars().take(80).collect();
    let near = snapshot
        .order
        .iter()
        .map(|entry| (distance(&shown, &entry.definition.name), &entry.definition.name))
        .filter(|(distance, known)| *distance <= known.len().div_ceil(3))
        .min();
    let hint = near.map_or_else(String::new, |(_, known)| format!("; did you mean `{known}`?"));
    RpcError::new(ErrorCode::TOOL_NOT_FOUND, format!("unknown tool `{shown}`{hint}"))
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
