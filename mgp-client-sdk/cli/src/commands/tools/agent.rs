//! Chooses the agent whose view a command shows if the command line names no agent.

use std::collections::BTreeSet;

use mgp_types::store::Store;

use super::super::known_names::KnownNames;
use crate::args::Global;
use crate::backend;
use crate::exit::{CliResult, Failure};
use crate::output::print_note;
use crate::socket_hello::DEFAULT_AGENT;
use crate::state;

/// The agent name in access entries that apply to every agent.
const EVERY_AGENT: &str = "*";

/// The maximum number of agents that a command considers.
const MAX_AGENTS: usize = 64;

/// Like [`viewed_agent`], but also prints a note if the named agent is not known. Only for commands of operators: the
/// kernel lets a shell of a host search as the host's agent, but not read all names.
pub(super) async fn operator_viewed_agent(
    global: &Global,
    named: Option<&str>,
) -> CliResult<String> {
    if let Some(agent) = named
        && !global.json
        && let Some(note) = KnownNames::read_alone(global).await?.note_on_agent(agent)
    {
        print_note(global, &format!("mgp: {note}"));
    }
    viewed_agent(global, named).await
}

/// Returns the named agent, else `default` if an access entry applies to it or no agent has an entry, else the first
/// agent with an entry: after `mgp setup`, only the agents of hosts have access.
pub(super) async fn viewed_agent(global: &Global, named: Option<&str>) -> CliResult<String> {
    if let Some(agent) = named {
        return Ok(agent.to_owned());
    }
    let agents = named_in(&state::db(global).await?).await?;
    let is_default = agents.iter().any(|agent| agent == DEFAULT_AGENT || agent == EVERY_AGENT);
    let first = agents.into_iter().find(|agent| is_agent(agent)).filter(|_| !is_default);
    Ok(first.unwrap_or_else(|| DEFAULT_AGENT.to_owned()))
}

/// Returns the agents with an access entry of their own, except `default`.
pub(super) async fn agents_with_access(global: &Global) -> CliResult<Vec<String>> {
    let mut agents = agents_in_access(&state::db(global).await?).await?;
    agents.retain(|agent| agent != DEFAULT_AGENT);
    agents.truncate(MAX_AGENTS);
    Ok(agents)
}

/// Returns the agents with an access entry of their own in a store.
pub(in crate::commands) async fn agents_in_access(store: &dyn Store) -> CliResult<Vec<String>> {
    Ok(named_in(store).await?.into_iter().filter(|agent| is_agent(agent)).collect())
}

async fn named_in(store: &dyn Store) -> CliResult<BTreeSet<String>> {
    let named = mgp_security::Access::named_in(store, backend::operator().tenant()).await;
    named.map_err(|error| Failure::failed(error.to_string()))
}

fn is_agent(named: &str) -> bool {
    named != EVERY_AGENT && !named.starts_with("group:")
}
