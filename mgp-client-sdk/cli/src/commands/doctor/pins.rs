//! Checks the context budget and pinned tools: each tool must exist, and all together must fit the agent's budget (MGP
//! §16.7, §16.8).

use mgp_discovery::Config;
use mgp_toolindex::{BudgetError, ContextPlan, META_TOKENS, Pins};
use mgp_types::mgp::ContextBudget;
use mgp_types::service::Principal;

use super::config::Selected;
use super::kernel::KernelState;
use super::report::{Check, Level};
use super::server::ServerReport;

/// The tools of all servers, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct ToolInventory {
    tools: Vec<Tool>,
    /// The servers whose tools are unknown, e.g. because they did not start.
    unknown: Vec<String>,
}

/// A tool of a server, and the number of tokens of its definition.
#[derive(Debug)]
struct Tool {
    server: String,
    name: String,
    tokens: u64,
}

/// The result of looking up the tool that a pin names, i.e. a tool that is always in an agent's list.
enum PinTarget<'a> {
    One(&'a Tool),
    Ambiguous(Vec<&'a Tool>),
    Missing,
    /// The server of the pinned tool is known, but its tools are not.
    Unknown,
}

impl ToolInventory {
    /// Collects the tools that the started servers have listed; for other servers, the tools that the kernel knows.
    pub(super) fn new(
        selected: &Selected,
        reports: &[ServerReport],
        running: &KernelState,
    ) -> Self {
        let mut inventory = Self { tools: Vec::new(), unknown: selected.broken.clone() };
        let mut listed = Vec::new();
        for (server, report) in selected.config.servers.iter().zip(reports) {
            let id = server.id.as_str();
            match &report.listed {
                Some(tools) => {
                    listed.push(id);
                    inventory
                        .tools
                        .extend(tools.iter().map(|(name, tokens)| Tool::new(id, name, *tokens)));
                }
                None if running.server(id).is_some_and(|server| server.tools > 0) => {}
                None => inventory.unknown.push(id.to_owned()),
            }
        }
        let others = running.tools.iter().filter(|tool| !listed.contains(&tool.server_id.as_str()));
        inventory.tools.extend(others.map(|tool| {
            let name = tool.tool_id.strip_prefix(&tool.server_id);
            let name = name.and_then(|name| name.strip_prefix('.')).unwrap_or(&tool.name);
            Tool::new(&tool.server_id, name, tool.tokens)
        }));
        inventory
    }

    /// Returns the ids of the servers and the names of their tools.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tools.iter().map(|tool| (tool.server.as_str(), tool.name.as_str()))
    }

    /// Finds the tool of a pin as the tool index does: by its full id, else by its name if only one tool has that name.
    fn resolve(&self, pin: &str) -> PinTarget<'_> {
        if let Some(tool) = self.tools.iter().find(|tool| tool.has_id(pin)) {
            return PinTarget::One(tool);
        }
        let may_have = |server: &String| {
            pin.strip_prefix(server.as_str()).is_some_and(|rest| rest.starts_with('.'))
        };
        let named: Vec<_> = self.tools.iter().filter(|tool| tool.name == pin).collect();
        match named.as_slice() {
            _ if self.unknown.iter().any(may_have) => PinTarget::Unknown,
            [] if !self.unknown.is_empty() && !pin.contains('.') => PinTarget::Unknown,
            [] => PinTarget::Missing,
            [tool] => PinTarget::One(tool),
            _ => PinTarget::Ambiguous(named),
        }
    }
}

impl Tool {
    fn new(server: &str, name: &str, tokens: u64) -> Self {
        Self { server: server.to_owned(), name: name.to_owned(), tokens }
    }

    fn id(&self) -> String {
        format!("{}.{}", self.server, self.name)
    }

    fn has_id(&self, pin: &str) -> bool {
        let own = pin.strip_prefix(self.server.as_str());
        own.and_then(|own| own.strip_prefix('.')) == Some(self.name.as_str())
    }
}

/// Checks that each server has the tools that its configuration names, e.g. in `tool_timeouts`.
pub(super) fn check_named_tools(config: &Config, inventory: &ToolInventory) -> Vec<Check> {
    let mut checks = Vec::new();
    for server in &config.servers {
        let id = server.id.as_str();
        let (limits, mgp) = (&server.limits, server.mgp.as_ref());
        let keys = [
            ("tool_timeouts", server.timeouts.tools.keys().collect::<Vec<_>>()),
            ("limits.tool_units", limits.tool_units.keys().collect()),
            ("limits.tool_calls_per_minute", limits.tool_calls_per_minute.keys().collect()),
            ("limits.tool_max_stream_bytes", limits.tool_max_stream_bytes.keys().collect()),
            (
                "mgp.validators",
                mgp.map(|mgp| mgp.validators.keys()).into_iter().flatten().collect(),
            ),
            ("mgp.risk", mgp.map(|mgp| mgp.risk.keys()).into_iter().flatten().collect()),
        ];
        for (key, tools) in keys {
            let is_missing = |tool: &&&String| {
                matches!(inventory.resolve(&format!("{id}.{tool}")), PinTarget::Missing)
            };
            checks.extend(tools.iter().filter(is_missing).map(|tool| {
                let what =
                    format!("`{key}` of `{id}` names the tool `{tool}`, which it does not have");
                let fix = format!("correct the name, or remove it; see `mgp tools ls {id}`");
                Check::new("limits", Level::Warn, what).with_fix(fix)
            }));
        }
    }
    checks
}

/// Checks the context budget, and the pinned tools of each agent.
pub(super) fn check(config: &Config, inventory: &ToolInventory) -> Vec<Check> {
    let budget = config.kernel.tool_context_budget;
    let budget = ContextBudget::new(
        budget.max_tokens,
        budget.pinned_reserve,
        budget.discovery_reserve,
        budget.cache_limit,
    );
    let mut checks: Vec<Check> = check_parts(&budget).into_iter().collect();
    let own = config.agents.iter().filter_map(|(name, agent)| Some((name, agent.budget?)));
    let plan = own.fold(ContextPlan::new(budget, Pins::new()), |plan, (name, budget)| {
        plan.agent(name.as_str(), budget)
    });
    for (name, agent) in &config.agents {
        let (before, mut pinned) = (checks.len(), Vec::<&Tool>::new());
        for pin in &agent.pinned {
            match inventory.resolve(pin) {
                PinTarget::One(tool) if pinned.iter().any(|other| other.id() == tool.id()) => {}
                PinTarget::One(tool) => pinned.push(tool),
                PinTarget::Ambiguous(named) => {
                    let ids: Vec<_> = named.iter().map(|tool| format!("`{}`", tool.id())).collect();
                    let what = format!(
                        "`{pin}` is pinned for `{name}`, but is ambiguous: {}",
                        ids.join(" or ")
                    );
                    let fix = format!("name one of them in `pinned` of `[agents.{name}]`");
                    checks.push(Check::new("pins", Level::Warn, what).with_fix(fix));
                }
                PinTarget::Missing => {
                    let what = format!("`{pin}` is pinned for `{name}`, but no server has it");
                    checks.push(Check::new("pins", Level::Warn, what).with_fix(unpin(pin, name)));
                }
                PinTarget::Unknown => {}
            }
        }
        let budget = plan.budget_of(&Principal::local().agent(name.as_str()));
        checks.extend(check_pins(name, budget, &pinned));
        if checks.len() == before && !agent.pinned.is_empty() {
            let what = format!("{} pinned for `{name}`, within the budget", agent.pinned.len());
            checks.push(Check::new("pins", Level::Ok, what));
        }
    }
    checks
}

/// Returns a warning if the parts of the budget do not fit its maximum.
fn check_parts(budget: &ContextBudget) -> Option<Check> {
    // Report only this error: any other error of the budget has no effect without pinned tools.
    let Err(error @ BudgetError::Parts { .. }) = mgp_toolindex::check_budget(budget, &[]) else {
        return None;
    };
    let error = error.to_string();
    let (what, fix) = error.split_once("; ").unwrap_or((&error, ""));
    let what = format!("`kernel.tool_context_budget`: {what}");
    Some(Check::new("limits", Level::Warn, what).with_fix(fix))
}

/// Returns a warning if the pinned tools exceed their part of the budget, and a failure if they exceed the room that
/// the maximum leaves for them.
fn check_pins(agent: &str, budget: &ContextBudget, pinned: &[&Tool]) -> Option<Check> {
    let tokens = pinned.iter().fold(META_TOKENS, |sum, tool| sum.saturating_add(tool.tokens));
    let largest = pinned.iter().max_by_key(|tool| tool.tokens)?;
    let reserve = budget.pinned_reserve;
    // Up to this limit, the kernel leaves out unpinned tools to make room for pinned tools. Beyond it, the kernel
    // shortens or leaves out pinned tools.
    let max = budget.max_tokens.saturating_sub(budget.discovery_reserve);
    if tokens <= reserve && tokens <= max {
        return None;
    }
    let error = if tokens > reserve {
        let largest = Some((largest.id(), u32::try_from(largest.tokens).unwrap_or(u32::MAX)));
        BudgetError::Pins { tokens, reserve, largest }.to_string()
    } else {
        format!(
            "the pinned tools and the meta-tools cost {tokens} tokens, `max_tokens` without `discovery_reserve` is \
             {max}; raise `max_tokens` or lower `discovery_reserve`"
        )
    };
    let (what, fix) = error.split_once("; ").unwrap_or((&error, ""));
    let (level, more) = if tokens > max {
        (Level::Fail, ", so not all of them are listed in full")
    } else {
        (Level::Warn, "")
    };
    Some(Check::new("pins", level, format!("`{agent}`: {what}{more}")).with_fix(fix))
}

fn unpin(pin: &str, agent: &str) -> String {
    if pin.contains('.') {
        format!("run `mgp tools pin {pin} --agent {agent} --remove`, or see `mgp tools ls`")
    } else {
        format!("remove it from `pinned` of `[agents.{agent}]`, or see `mgp tools ls`")
    }
}
