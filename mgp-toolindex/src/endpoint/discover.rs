//! Mode A: a model says what it needs, and is told which tools do it (MGP §16.5).
//!
//! Applies to: inbound.

use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::mgp::{DiscoverToolsParams, DiscoverToolsResult};
use mgp_types::service::Context;
use tokio::task::JoinHandle;

use super::bounds;
use super::caller::Caller;
use super::endpoints::Inner;
use super::hooks::Standing;
use super::present::present_as;
use crate::catalog::{Allowed, CategoryTree};
use crate::error::RequestError;
use crate::meta::{brief, name_for};
use crate::search::{Explain, Found, Query};

/// How many categories an answer names.
const NAMED: usize = 24;

/// Answers `mgp/tools/discover`.
///
/// # Cancel safety
/// Dropping the future leaves at most a search running, whose answer nobody takes.
pub(super) async fn answer(
    inner: Arc<Inner>,
    cx: Context,
    params: DiscoverToolsParams,
) -> Result<DiscoverToolsResult, RpcError> {
    let query = read(&cx, &params)?;
    let session = inner.sessions.find(&cx, params.session_handle.as_deref())?;
    let caller = inner.caller(&cx);
    inner.counting.begin(&inner.index);
    let working = Arc::clone(&inner);
    let text = query.text().to_owned();
    let work = move || find(&working, &query, &caller);
    let (found, result) = if inner.index.is_large() { aside(work).await? } else { work()? };
    inner.asked(&cx, session.as_ref(), &text, &found);
    Ok(result)
}

/// Runs work on a thread for it; whoever leaves before it began takes it along.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    let mut running = Running(tokio::task::spawn_blocking(work));
    let done = (&mut running.0).await;
    done.map_err(|error| RpcError::internal("the search was not finished").because(error))?
}

/// Work on a thread, or in line for one. The line has no bound, so nobody may leave work in it.
struct Running<T>(JoinHandle<T>);

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn find(
    inner: &Inner,
    query: &Query,
    caller: &Caller,
) -> Result<(Found, DiscoverToolsResult), RpcError> {
    let found = if inner.has_standing() {
        standing(inner, query, caller)?
    } else {
        inner.index.search(query, caller)?
    };
    if found.total_available == 0 {
        known_categories(inner, query, caller)?;
    }
    let plan = inner.sessions.plan();
    let budget = plan.budget_of(&caller.cx().principal);
    let result = present_as(&found, budget, query.how_many(), |tool| {
        name_for(tool, &inner.index, caller) == tool.name()
    });
    Ok((found, result))
}

/// What a search finds of what may be called or asked for: the list is filled from further behind.
fn standing(inner: &Inner, query: &Query, caller: &Caller) -> Result<Found, RpcError> {
    let mut found = inner.index.search(&query.clone().most(Query::CAP), caller)?;
    let before = found.hits.len();
    found.hits.retain(|hit| inner.standing(caller.cx(), &hit.tool) != Standing::Refused);
    found.total_available = found.total_available.saturating_sub(before - found.hits.len());
    found.hits.truncate(query.how_many());
    Ok(found)
}

/// A category that the caller does not see at all is a mistake; it is told which it sees.
fn known_categories(inner: &Inner, query: &Query, caller: &dyn Allowed) -> Result<(), RpcError> {
    let wanted = &query.filter.categories;
    if wanted.is_empty() {
        return Ok(());
    }
    let (_, tree) = inner.index.seen(caller);
    let unknown = wanted.iter().find(|category| !knows(&tree, category));
    unknown.map_or(Ok(()), |category| {
        Err(RequestError::UnknownWord {
            what: "category",
            word: brief(category),
            known: tree
                .roots
                .iter()
                .take(NAMED)
                .map(|node| &*node.path)
                .collect::<Vec<_>>()
                .join(", "),
        }
        .into())
    })
}

fn knows(tree: &CategoryTree, category: &str) -> bool {
    crate::catalog::canonical(category).is_some_and(|path| tree.find(&path).is_some())
}

fn read(cx: &Context, params: &DiscoverToolsParams) -> Result<Query, RpcError> {
    let text = params.query.as_deref().unwrap_or_default();
    bounds::query(text)?;
    bounds::strategy(params.strategy.as_ref())?;
    let most = params
        .max_results
        .map_or(Query::DEFAULT_MOST, |most| usize::try_from(most).unwrap_or(Query::CAP));
    let mut query =
        Query::new(text.trim()).most(most).filter(bounds::filter(params.filter.clone())?);
    query = query.asker(&cx.principal);
    query.strategy.clone_from(&params.strategy);
    Ok(match params.explain {
        Some(true) => query.explain(Explain::Yes),
        _ => query,
    })
}
