//! The plan of an import: the changes of the configuration, and the access that agents get.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mgp_discovery::import::{Import as Read, ImportOutcome, ImportedServer, Plan, ToolLimit};
use mgp_discovery::{Config, Origin};
use mgp_security::NameFlaw;

use super::ServerReport;
use super::sources::Source;
use crate::args::Global;
use crate::commands::grant::{self, GrantResult, NewAccess};
use crate::config_file;
use crate::exit::CliResult;
use crate::this_program::is_mgp;

/// The reason, in reports, why an entry that starts mgp is not imported.
pub(super) const IS_MGP: &str = "it is mgp itself";

/// A plan to add the servers of hosts to the configuration.
pub(in crate::commands) struct ImportPlan {
    pub(super) plan: Plan,
    /// The configuration after the import.
    config: Config,
    sources: Vec<Source>,
    pub(in crate::commands) servers: Vec<ServerReport>,
}

impl ImportPlan {
    pub(in crate::commands) fn new(file: &Path, mut sources: Vec<Source>) -> CliResult<Self> {
        let mut servers: Vec<ServerReport> =
            sources.iter_mut().flat_map(|source| remove_mgp(&mut source.read)).collect();
        let reads: Vec<Read> = sources.iter().map(|source| source.read.clone()).collect();
        // Refuse ids with a flaw, because the kernel uses no tool of a server with such an id.
        let fits =
            |id: &str, others: &[&str]| NameFlaw::check_server(id, others.iter().copied()).is_ok();
        let plan = Plan::with_id_rule(file, &reads, fits)?;
        let config = planned_config(file, &plan)?;
        servers.extend(plan.lines().iter().map(|line| ServerReport::new(line, &config)));
        Ok(Self { plan, config, sources, servers })
    }

    /// Returns the text of the configuration after the import.
    pub(in crate::commands) fn text(&self) -> &str {
        self.plan.text()
    }

    /// Returns the configuration after the import.
    pub(in crate::commands) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the servers to which each agent gets access: the servers of its hosts, except those that the import left
    /// out.
    pub(in crate::commands) fn access(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut access = BTreeMap::<String, BTreeSet<String>>::new();
        for source in &self.sources {
            let of_source =
                self.servers.iter().filter(|server| server.source == source.read.source);
            let ids: Vec<String> = of_source.filter_map(|server| server.id.clone()).collect();
            if !ids.is_empty() {
                access.entry(source.agent.clone()).or_default().extend(ids);
            }
        }
        access
    }

    /// Starts the servers once, writes the configuration, calls `configure`, grants access, and then calls `switch`.
    /// Returns the grants, and the path of a back-up of the previous configuration.
    pub(in crate::commands) async fn apply(
        &self,
        global: &Global,
        access: &BTreeMap<String, BTreeSet<String>>,
        command: &str,
        configure: impl FnOnce() -> CliResult,
        switch: impl FnOnce() -> CliResult,
    ) -> CliResult<(Vec<GrantResult>, Option<PathBuf>)> {
        let mut backup = None;
        let write = || {
            backup = config_file::apply(&self.plan)?;
            configure()
        };
        let wanted = access.iter().map(|(agent, ids)| NewAccess {
            agent: agent.clone(),
            servers: ids.iter().filter_map(|id| self.config.server(id)).collect(),
            tools: ids.iter().map(|id| (id.clone(), self.tools(agent, id))).collect(),
            because: format!("mgp {command}, for {agent}"),
        });
        let wanted = wanted.collect();
        let granted = grant::grant_access(global, &self.config, wanted, write, switch).await?;
        Ok((granted, backup))
    }

    /// Returns the tools of a server that an agent gets, i.e. the tools that its host lets it use.
    fn tools(&self, agent: &str, id: &str) -> ToolLimit {
        let lines = self.plan.lines().iter().filter(|line| match &line.outcome {
            ImportOutcome::Added(own) | ImportOutcome::Present(own) => own == id,
            _ => false,
        });
        let of_agent = lines.filter(|line| {
            let mut sources = self.sources.iter().filter(|source| source.agent == agent);
            sources.any(|source| source.read.source == line.source)
        });
        let limits = of_agent.map(|line| line.tools.clone());
        limits.reduce(|one, other| one.union(&other)).unwrap_or_default()
    }
}

/// Returns the configuration that a plan will write.
pub(in crate::commands) fn planned_config(file: &Path, plan: &Plan) -> CliResult<Config> {
    let mut config = Config::parse(file, plan.text())?.config;
    // The file belongs to the user, so a `${…}` in it is allowed to name any variable, file or command.
    for server in &mut config.servers {
        server.origin = Origin::Named;
    }
    Ok(config)
}

/// Removes the entries that start mgp, because with them the kernel would start itself.
fn remove_mgp(read: &mut Read) -> Vec<ServerReport> {
    let mut removed = Vec::new();
    let source = read.source.clone();
    read.servers.retain(|ImportedServer { name, entry, .. }| {
        let is_mgp = is_mgp(entry);
        if is_mgp {
            removed.push(ServerReport {
                name: name.clone(),
                source: source.clone(),
                id: None,
                present: false,
                runs: None,
                sets: Vec::new(),
                left_out: Some(IS_MGP.to_owned()),
                notes: Vec::new(),
            });
        }
        !is_mgp
    });
    removed
}
