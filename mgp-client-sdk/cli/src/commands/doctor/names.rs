//! Checks the names of the tools that each agent sees: the APIs of many model providers refuse a whole list because of
//! one name with a dot, or with more than 64 characters (`portable_names`).

use std::collections::BTreeMap;

use mgp_discovery::Config;
use mgp_security::NameFlaw;
use mgp_types::mgp::{AccessPermission, AccessQueryParams, AccessSource};
use mgp_types::store::Store;

use super::super::default_policy;
use super::super::tools::agents_in_access;
use super::pins::ToolInventory;
use super::report::{Check, Level};
use crate::args::Global;
use crate::backend::Backend;
use crate::exit::CliResult;
use crate::hosts::{KnownHost, MAX_TOOL_NAME_CHARS, is_portable_name};
use crate::socket_hello::Intent;

/// The maximum number of an agent's tools to check.
const MAX_TOOLS: usize = 64;

/// Returns a warning about agents without `portable_names`, if their tool lists may contain names that some APIs
/// refuse.
pub(super) async fn check(
    global: &Global,
    store: &dyn Store,
    config: &Config,
    inventory: &ToolInventory,
) -> Option<Check> {
    let candidates = Candidates::new(inventory);
    // Ignore failures to read the state, which other checks report.
    let found = candidates.concerned(global, store, config).await.unwrap_or_default();
    let (first, name) = found.first()?;
    let agents: Vec<_> = found.iter().map(|(agent, _)| format!("`{agent}`")).collect();
    let what = format!(
        "{} may get names such as `{name}`: OpenAI, Anthropic and Semantic Kernel refuse all tools because of a name with a dot, or of more than {MAX_TOOL_NAME_CHARS} characters",
        agents.join(", ")
    );
    // Quote the name for TOML if it contains a dot or a blank.
    let key = toml_edit::Key::new(first.as_str());
    let others = if found.len() > 1 { ", and so on for the others" } else { "" };
    let fix = format!(
        "write `portable_names = true` under `[agents.{key}]`{others}; for a host that rewrites names write `false`"
    );
    Some(Check::new("names", Level::Warn, what).with_fix(fix))
}

/// The tools whose listed names some APIs would refuse, and the tools that might get such a name.
struct Candidates<'a> {
    /// The tools whose own name is refused, each with the id of its server.
    refused: Vec<(&'a str, &'a str)>,
    /// The names that tools of several servers share, each with these servers. An agent that sees more than one of
    /// these tools gets names that contain the id of the server.
    shared: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Candidates<'a> {
    fn new(inventory: &'a ToolInventory) -> Self {
        let mut shared: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut refused = Vec::new();
        // Skip tools that the kernel refuses because of their names: they are in no agent's list.
        for (server, tool) in
            inventory.names().filter(|(_, tool)| NameFlaw::check_tool(tool).is_ok())
        {
            if is_portable_name(tool) {
                shared.entry(tool).or_default().push(server);
            } else {
                refused.push((server, tool));
            }
        }
        shared.retain(|_, servers| servers.len() > 1);
        Self { refused, shared }
    }

    /// Returns the agents whose tool lists may contain a refused or shared name, each with one such name.
    async fn concerned(
        &self,
        global: &Global,
        store: &dyn Store,
        config: &Config,
    ) -> CliResult<Vec<(String, String)>> {
        let mut concerned = Vec::new();
        if config.kernel.portable_names || self.refused.is_empty() && self.shared.is_empty() {
            return Ok(concerned);
        }
        let mut agents = agents_in_access(store).await?;
        agents.retain(|agent| {
            let of_agent = config.agents.get(agent.as_str());
            let is_decided = of_agent.is_some_and(|agent| agent.portable_names.is_some());
            !is_decided && !KnownHost::from_name(agent).is_some_and(KnownHost::rewrites_names)
        });
        if agents.is_empty() {
            return Ok(concerned);
        }
        let backend = Backend::open(global, Intent::Read).await?;
        for agent in agents {
            if let Some(name) = self.first_of(&backend, config, &agent).await? {
                concerned.push((agent, name));
            }
        }
        backend.close().await?;
        Ok(concerned)
    }

    /// Returns the first refused or shared name in the tool list of an agent.
    async fn first_of(
        &self,
        backend: &Backend,
        config: &Config,
        agent: &str,
    ) -> CliResult<Option<String>> {
        for (server, tool) in self.refused.iter().take(MAX_TOOLS) {
            if may_use(backend, config, agent, server, tool).await? {
                return Ok(Some((*tool).to_owned()));
            }
        }
        for (tool, servers) in self.shared.iter().take(MAX_TOOLS) {
            let mut allowed = Vec::new();
            for server in servers {
                if may_use(backend, config, agent, server, tool).await? {
                    allowed.push(*server);
                }
                if let [first, _] = &allowed[..] {
                    return Ok(Some(format!("{first}.{tool}")));
                }
            }
        }
        Ok(None)
    }
}

async fn may_use(
    backend: &Backend,
    config: &Config,
    agent: &str,
    server: &str,
    tool: &str,
) -> CliResult<bool> {
    let mut params = AccessQueryParams::new(agent, server);
    params.tool_name = Some(tool.to_owned());
    let result = backend.query(params).await?;
    let is_default = result.source == Some(AccessSource::DefaultPolicy);
    Ok(result.permission == Some(AccessPermission::Allow)
        || is_default && default_policy::of_config(config, server, None) == "allow")
}
