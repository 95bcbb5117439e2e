//! Chooses the agent whose view a command shows if the command line names no agent.

use mgp_types::store::Store;

use crate::args::Global;
use crate::backend;
use crate::exit::{CliResult, Failure};
use crate::socket_hello::DEFAULT_AGENT;
use crate::state;

/// The maximum number of agents that a command considers.
const MAX_AGENTS: usize = 64;

/// Returns the named agent. If none is named, returns `default`, or the first agent with access if `default` has none:
/// after `mgp setup`, only the agents of hosts have access.
pub(super) async fn viewed_agent(global: &Global, named: Option<&str>) -> CliResult<String> {
    if let Some(agent) = named {
        return Ok(agent.to_owned());
    }
    let agents = named_in_access(global).await?;
    let is_default = agents.iter().any(|agent| agent == DEFAULT_AGENT);
    let first = agents.into_iter().next().filter(|_| !is_default);
    Ok(first.unwrap_or_else(|| DEFAULT_AGENT.to_owned()))
}

/// Returns the agents with an access entry of their own, except `default`.
pub(super) async fn agents_with_access(global: &Global) -> CliResult<Vec<String>> {
    let mut agents = named_in_access(global).await?;
    agents.retain(|agent| agent != DEFAULT_AGENT);
    agents.truncate(MAX_AGENTS);
    Ok(agents)
}

async fn named_in_access(global: &Global) -> CliResult<Vec<String>> {
    agents_in_access(&state::db(global).await?).await
}

/// Returns the agents with an access entry of their own in a store.
pub(in crate::commands) async fn agents_in_access(store: &dyn Store) -> CliResult<Vec<String>> {
    let named = mgp_security::Access::named_in(store, backend::operator().tenant()).await;
    let named = named.map_err(|error| Failure::failed(error.to_string()))?.into_iter();
    Ok(named.filter(|agent| *agent != "*" && !agent.starts_with("group:")).collect())
}
