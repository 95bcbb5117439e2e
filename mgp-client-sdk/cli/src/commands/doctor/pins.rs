//! The tools that are pinned for agents: whether they are there, and fit (MGP §16.7, §16.8).
//!
//! Applies to: inbound.

use mgp_discovery::{Config, Server};
use mgp_toolindex::{BudgetError, ContextPlan, Pins};
use mgp_types::mgp::ContextBudget;
use mgp_types::service::Principal;

use super::kernel::Running;
use super::server::Judged;
use super::{Check, Level};

/// The most that the tools to find tools cost; they are always there.
const FINDING: u64 = 450;

/// The tools of all servers, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Known {
    tools: Vec<Tool>,
    /// The servers of which it is not known what they have.
    dark: Vec<String>,
}

/// A tool of a server, and what it costs.
#[derive(Debug)]
struct Tool {
    server: String,
    name: String,
    tokens: u64,
}

/// What a pin means.
enum Meant<'a> {
    One(&'a Tool),
    Several(Vec<&'a Tool>),
    Nothing,
    /// Who could have it did not say what it has.
    Unclear,
}

impl Known {
    /// What servers said that were looked at, else what a kernel knows of them.
    pub(super) fn of(
        servers: &[Server],
        judged: &[Judged],
        broken: &[String],
        running: &Running,
    ) -> Self {
        let mut known = Self { tools: Vec::new(), dark: broken.to_vec() };
        let mut said = Vec::new();
        for (server, judged) in servers.iter().zip(judged) {
            let id = server.id.as_str();
            match &judged.listed {
                Some(listed) => {
                    said.push(id);
                    known
                        .tools
                        .extend(listed.iter().map(|(name, tokens)| Tool::new(id, name, *tokens)));
                }
                None if running.server(id).is_some_and(|server| server.tools > 0) => {}
                None => known.dark.push(id.to_owned()),
            }
        }
        let others = running.tools.iter().filter(|tool| !said.contains(&tool.server_id.as_str()));
        known.tools.extend(others.map(|tool| {
            let name = tool.tool_id.strip_prefix(&tool.server_id);
            let name = name.and_then(|name| name.strip_prefix('.')).unwrap_or(&tool.name);
            Tool::new(&tool.server_id, name, tool.tokens)
        }));
        known
    }

    /// As the index reads a name: that of one server's tool first, else of the only tool that is called so.
    fn meant(&self, pin: &str) -> Meant<'_> {
        if let Some(tool) = self.tools.iter().find(|tool| tool.is(pin)) {
            return Meant::One(tool);
        }
        let of = |server: &String| {
            pin.strip_prefix(server.as_str()).is_some_and(|rest| rest.starts_with('.'))
        };
        let named: Vec<_> = self.tools.iter().filter(|tool| tool.name == pin).collect();
        match named.as_slice() {
            _ if self.dark.iter().any(of) => Meant::Unclear,
            [] if !self.dark.is_empty() && !pin.contains('.') => Meant::Unclear,
            [] => Meant::Nothing,
            [tool] => Meant::One(tool),
            _ => Meant::Several(named),
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

    fn is(&self, pin: &str) -> bool {
        let own = pin.strip_prefix(self.server.as_str());
        own.and_then(|own| own.strip_prefix('.')) == Some(self.name.as_str())
    }
}

/// Looks at what is pinned for each agent.
pub(super) fn judge(config: &Config, known: &Known) -> Vec<Check> {
    let budget = config.kernel.tool_context_budget;
    let budget = ContextBudget::new(
        budget.max_tokens,
        budget.pinned_reserve,
        budget.discovery_reserve,
        budget.cache_limit,
    );
    let own = config.agents.iter().filter_map(|(name, agent)| Some((name, agent.budget?)));
    let plan = own.fold(ContextPlan::new(budget, Pins::new()), |plan, (name, most)| {
        plan.agent(name.as_str(), most)
    });
    let mut checks = Vec::new();
    for (name, agent) in &config.agents {
        let (before, mut there) = (checks.len(), Vec::<&Tool>::new());
        for pin in &agent.pinned {
            match known.meant(pin) {
                Meant::One(tool) if there.iter().any(|other| other.id() == tool.id()) => {}
                Meant::One(tool) => there.push(tool),
                Meant::Several(named) => {
                    let ids: Vec<_> = named.iter().map(|tool| format!("`{}`", tool.id())).collect();
                    let what = format!(
                        "`{pin}` is pinned for `{name}`, and could be {}",
                        ids.join(" or ")
                    );
                    let fix = format!("name one of them in `pinned` of `[agents.{name}]`");
                    checks.push(Check::new("pins", Level::Warn, what).fix(fix));
                }
                Meant::Nothing => {
                    let what = format!("`{pin}` is pinned for `{name}`, and no server has it");
                    checks.push(Check::new("pins", Level::Warn, what).fix(unpin(pin, name)));
                }
                Meant::Unclear => {}
            }
        }
        let budget = plan.budget_of(&Principal::local().agent(name.as_str()));
        checks.extend(room(name, budget, &there));
        if checks.len() == before && !agent.pinned.is_empty() {
            let what = format!("{} pinned for `{name}`, and there is room", agent.pinned.len());
            checks.push(Check::new("pins", Level::Ok, what));
        }
    }
    checks
}

/// Whether what is pinned fits what is kept for it.
fn room(agent: &str, budget: &ContextBudget, pinned: &[&Tool]) -> Option<Check> {
    let tokens = pinned.iter().fold(FINDING, |sum, tool| sum.saturating_add(tool.tokens));
    let largest = pinned.iter().max_by_key(|tool| tool.tokens)?;
    if tokens <= budget.pinned_reserve {
        return None;
    }
    let largest = Some((largest.id(), u32::try_from(largest.tokens).unwrap_or(u32::MAX)));
    let error = BudgetError::Pins { tokens, reserve: budget.pinned_reserve, largest }.to_string();
    let (what, fix) = error.split_once("; ").unwrap_or((&error, ""));
    // Others give way up to here; beyond, what is pinned is cut short or left out.
    let most = budget.max_tokens.saturating_sub(budget.discovery_reserve);
    let (level, more) = if tokens > most {
        (Level::Fail, ", and not all of them are listed whole")
    } else {
        (Level::Warn, "")
    };
    Some(Check::new("pins", level, format!("`{agent}`: {what}{more}")).fix(fix))
}

fn unpin(pin: &str, agent: &str) -> String {
    if pin.contains('.') {
        format!("run `mgp tools pin {pin} --agent {agent} --remove`, or see `mgp tools ls`")
    } else {
        format!("take it out of `pinned` of `[agents.{agent}]`, or see `mgp tools ls`")
    }
}
