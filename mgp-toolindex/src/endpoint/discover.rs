//! Mode A of tool search: a model searches for tools (MGP §16.5).

use std::collections::HashMap;
use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::mgp::{DiscoverOrder, DiscoverToolsParams, DiscoverToolsResult};
use mgp_types::service::Context;
use mgp_types::sync::Mutex;
use tokio::task::JoinHandle;

use super::bounds;
use super::caller::Caller;
use super::endpoints::EndpointsState;
use super::hooks::Availability;
use super::render::present_as;
use crate::catalog::{Allowed, CategoryTree, IndexedTool, cost_hints};
use crate::error::RequestError;
use crate::meta::{brief, name_for};
use crate::search::{Explain, Query, SearchResult};

/// The maximum number of categories or servers that an error names.
const MAX_NAMED: usize = 24;

/// The note in a result of a search with a filter, if no tool fits the query well.
const FILTER_NOTE: &str = "the filter may exclude the right tool; search again without it";

/// Handles `mgp/tools/discover`.
///
/// # Cancel safety
/// If the future is dropped, a search that has begun still finishes, and its result is lost.
pub(super) async fn answer(
    inner: Arc<EndpointsState>,
    cx: Context,
    params: DiscoverToolsParams,
) -> Result<DiscoverToolsResult, RpcError> {
    let query = read(&cx, &params)?;
    let session = inner.sessions.find(&cx, params.session_handle.as_deref())?;
    let caller = inner.caller(&cx);
    inner.counting.start(&inner.index);
    let working = Arc::clone(&inner);
    let text = query.text().to_owned();
    let order = params.sort;
    let work = move || find(&working, &query, &caller, order.as_ref());
    let (found, result) = if inner.index.is_slow() { run_blocking(work).await? } else { work()? };
    // Do not record a search with explanations: only operators make such searches, to test queries, so it is not
    // evidence that an agent needs a tool.
    if params.explain != Some(true) {
        inner.record_search(&cx, session.as_ref(), &text, &found);
    }
    Ok(result)
}

/// Runs a function on a blocking thread. If the future is dropped before the function began, the function does not run.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    let mut running = AbortOnDrop(tokio::task::spawn_blocking(work));
    let done = (&mut running.0).await;
    done.map_err(|error| RpcError::internal("the search was aborted").because(error))?
}

/// A task on a blocking thread. Dropping this value aborts the task if it still waits in tokio's unbounded queue.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn find(
    inner: &EndpointsState,
    query: &Query,
    caller: &Caller,
    order: Option<&DiscoverOrder>,
) -> Result<(SearchResult, DiscoverToolsResult), RpcError> {
    let mut found = AvailableTools::new(inner, caller).search(query)?;
    if found.total_available == 0 {
        known_categories(inner, query, caller)?;
        known_servers(inner, query, caller)?;
    }
    found.check_fit();
    if let Some(order) = order {
        sort(&mut found, order);
    }
    let plan = inner.sessions.plan();
    let budget = plan.budget_of(&caller.cx().principal);
    let is_filtered = !query.filter.is_empty() && found.total_available < found.visible;
    let is_unfruitful = found.is_weak || found.hits.is_empty();
    let filter_note = (is_filtered && is_unfruitful).then(|| FILTER_NOTE.to_owned());
    let notes = filter_note.into_iter().chain(inner.note(caller.cx(), found.visible)).collect();
    let is_clear = |tool: &IndexedTool| name_for(tool, &inner.index, caller) == tool.name();
    let result = present_as(&found, budget, notes, is_clear);
    Ok((found, result))
}

/// Sorts the found tools by the cost or latency that they state. Tools without the value come last, and tools with
/// equal values stay in the order of relevance.
fn sort(found: &mut SearchResult, order: &DiscoverOrder) {
    let stated = |tool: &IndexedTool| {
        let hints = cost_hints(tool.definition());
        let value = match order {
            DiscoverOrder::Cost => hints.units(),
            DiscoverOrder::Latency => hints.latency.map(|latency| latency.rank().into()),
            _ => Some(0),
        };
        value.unwrap_or(u64::MAX)
    };
    found.hits.sort_by_cached_key(|hit| stated(&hit.tool));
}

/// The tools that the caller of one request sees and whose availability is not [`Availability::Refused`].
pub(super) struct AvailableTools<'a> {
    inner: &'a EndpointsState,
    caller: &'a Caller,
    /// The earlier decisions in this request, by server and name of the tool. They are kept because the searches of one
    /// request find the same tools repeatedly.
    decided: Mutex<HashMap<String, HashMap<String, bool>>>,
}

impl<'a> AvailableTools<'a> {
    pub(super) fn new(inner: &'a EndpointsState, caller: &'a Caller) -> Self {
        Self { inner, caller, decided: Mutex::default() }
    }

    /// Searches among these tools. If found tools are refused, the next tools in the ranking take their places.
    pub(super) fn search(&self, query: &Query) -> Result<SearchResult, RpcError> {
        let index = &self.inner.index;
        if !self.inner.has_standing() {
            return Ok(index.search(query, self.caller)?);
        }
        let mut found = index.search(&query.clone().limit(Query::CAP), self.caller)?;
        let before = found.hits.len();
        found.hits.retain(|hit| self.is_available(&hit.tool));
        if before == Query::CAP && found.hits.len() < query.max_hits() {
            // Other available tools may rank below the maximum number of hits, so search again, only among the
            // available tools.
            let is_available = |tool: &IndexedTool| self.is_available(tool);
            return Ok(index.search_among(query, self.caller, Some(&is_available))?);
        }
        found.total_available = found.total_available.saturating_sub(before - found.hits.len());
        found.hits.truncate(query.max_hits());
        Ok(found)
    }

    fn is_available(&self, tool: &IndexedTool) -> bool {
        let (server, name) = (tool.server_id(), tool.name());
        let decided = self.decided.lock().get(server).and_then(|tools| tools.get(name)).copied();
        decided.unwrap_or_else(|| {
            let is_available = self.inner.standing(self.caller.cx(), tool) != Availability::Refused;
            let mut decided = self.decided.lock();
            decided.entry(server.to_owned()).or_default().insert(name.to_owned(), is_available);
            is_available
        })
    }
}

/// Returns an error that lists visible top-level categories, if the filter has a category that the caller cannot see. A
/// caller without tools sees no category, and gets no error.
fn known_categories(
    inner: &EndpointsState,
    query: &Query,
    caller: &dyn Allowed,
) -> Result<(), RpcError> {
    let wanted = &query.filter.categories;
    if wanted.is_empty() {
        return Ok(());
    }
    let (_, tree) = inner.index.caller_overview(caller);
    if tree.is_empty() {
        return Ok(());
    }
    let unknown = wanted.iter().find(|category| !has_category(&tree, category));
    unknown.map_or(Ok(()), |category| {
        let roots: Vec<&str> = tree.roots.iter().map(|node| &*node.path).collect();
        let known = named(&roots);
        Err(RequestError::UnknownWord { what: "category", word: brief(category), known }.into())
    })
}

/// Returns an error that lists servers whose tools the caller sees, if the filter has another server. A caller without
/// tools gets no error.
fn known_servers(
    inner: &EndpointsState,
    query: &Query,
    caller: &dyn Allowed,
) -> Result<(), RpcError> {
    let wanted = &query.filter.servers;
    if wanted.is_empty() {
        return Ok(());
    }
    let tools = inner.index.listed(caller);
    let mut known: Vec<&str> = tools.iter().map(IndexedTool::server_id).collect();
    known.sort_unstable();
    known.dedup();
    let unknown = wanted.iter().find(|server| !known.contains(&server.as_str()));
    unknown.filter(|_| !known.is_empty()).map_or(Ok(()), |server| {
        let known = named(&known);
        Err(RequestError::UnknownWord { what: "server", word: brief(server), known }.into())
    })
}

/// Returns a list of at most [`MAX_NAMED`] names, and the number of the names that are left out.
fn named(names: &[&str]) -> String {
    let listed = names[..names.len().min(MAX_NAMED)].join(", ");
    match names.len().saturating_sub(MAX_NAMED) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

fn has_category(tree: &CategoryTree, category: &str) -> bool {
    crate::catalog::canonical(category).is_some_and(|wanted| tree.has(&wanted))
}

fn read(cx: &Context, params: &DiscoverToolsParams) -> Result<Query, RpcError> {
    let text = params.query.as_deref().unwrap_or_default();
    bounds::query(text)?;
    bounds::strategy(params.strategy.as_ref())?;
    bounds::order(params.sort.as_ref())?;
    let max = params
        .max_results
        .map_or(Query::DEFAULT_MOST, |max| usize::try_from(max).unwrap_or(Query::CAP));
    let mut query =
        Query::new(text.trim()).limit(max).filter(bounds::filter(params.filter.clone())?);
    query = query.principal(&cx.principal);
    query.strategy.clone_from(&params.strategy);
    Ok(match params.explain {
        Some(true) => query.explain(Explain::Yes),
        _ => query,
    })
}
