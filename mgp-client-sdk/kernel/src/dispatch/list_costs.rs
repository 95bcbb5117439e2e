//! Counts the tokens of the tool lists of agents.

use mgp_toolindex::listed_tools;
use mgp_types::mgp::ContextLevel;
use mgp_types::service::{Context, Peer, Principal, Scope, ScopeKind};

use super::dispatcher::DispatcherParts;
use super::surface;

/// Returns the context that a call by the agent with this name in the local tenant would have.
pub(crate) fn context_of_agent(agent: &str) -> Context {
    let principal = Principal::local().agent(agent);
    Context::new(Peer::none(), Scope::new(ScopeKind::Request), principal)
}

/// Returns the number of tokens of the tool list that an agent receives, and the number of tokens of a list of all
/// tools to which the agent has access.
pub(crate) fn list_costs(
    parts: &DispatcherParts,
    agent: &str,
    count: impl Fn(&str) -> u32,
) -> (u64, u64) {
    let (cx, context) = (context_of_agent(agent), parts.fleet.context());
    let index = &context.index;
    let caller = parts.search.caller(&cx);
    let session = parts.sessions.view(&cx.principal, None, index, &caller);
    let tokens = session.total_tokens;
    let level = surface::level(context, &parts.meta_tools, &cx, &caller, tokens, true);
    let list = |level| {
        let meta_tools = parts.meta_tools.listed(&cx);
        let tools = listed_tools(&level, &meta_tools, index, &caller, &session);
        let definitions = tools.iter().filter_map(|tool| serde_json::to_string(tool).ok());
        definitions.map(|text| u64::from(count(&text))).sum::<u64>()
    };
    (list(level), list(ContextLevel::Standard))
}
