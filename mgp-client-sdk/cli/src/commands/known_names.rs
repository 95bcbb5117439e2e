//! Checks names on the command line against existing servers, tools and agents, because a decision about a misspelled
//! name would have no effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clap::Args;
use mgp_client_sdk::Client;
use mgp_discovery::{
    Config, Origin, Registrations, ServerConfig, Sources, TokenTenant, Trust, nearest,
};
use mgp_security::ServerHoldings;
use mgp_security::auth::{ApiKeys, FileKeys};
use mgp_types::method::{KERNEL_TOOLS, KernelInfo, KernelServers, KernelTools, find_kernel_tool};
use mgp_types::mgp::{KernelInfoParams, KernelServer, KernelServersParams, KernelToolsParams};
use mgp_types::service::ServerId;
use mgp_types::store::{Db, Store};

use super::connect::connected_agents;
use crate::args::Global;
use crate::backend::{Backend, operator};
use crate::exit::{CliResult, Failure};
use crate::hosts::KnownHost;
use crate::socket_hello::Intent;
use crate::state;
use crate::state_option::shell_word_or;

/// The server id of the kernel's own tools.
pub(super) const KERNEL_ID: &str = "mgp";

/// The end of an error about an unknown name. It names the option for a decision about a name that does not exist yet.
const FORCE: &str = "add --force to decide about one that will be added later";

/// The words of an error message before the known name that the user probably meant.
pub(super) const DID_YOU_MEAN: &str = "; did you mean";

/// The hint at the end of an error: the agent is unknown, but its name resembles the name of a known agent.
pub(crate) const NEW_AGENT: &str = "add --new-agent if it is a new one";

/// The options that make a command accept names that no server, tool or agent has.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct AcceptedNames {
    /// Accept a server or tool that does not exist yet
    #[arg(long)]
    pub(super) force: bool,
    /// Accept an agent that is not known yet, although its name resembles a known one
    #[arg(long)]
    pub(super) new_agent: bool,
}

/// The names of the servers, tools and agents that exist at the time of the command.
pub(super) struct KnownNames {
    /// The servers and their tools; the set is empty if the server has not listed its tools yet.
    servers: BTreeMap<String, BTreeSet<String>>,
    agents: BTreeSet<String>,
    /// The agents that have keys only in tenants about which this operator cannot decide, each with one of these
    /// tenants.
    agents_elsewhere: BTreeMap<String, String>,
    /// The tenants that the configuration names.
    tenants: BTreeSet<String>,
    db: Db,
}

impl KnownNames {
    /// Reads the names from the running kernel, or from the configuration and the state folder if no kernel runs.
    pub(super) async fn read(global: &Global, backend: &Backend) -> CliResult<Self> {
        let db = state::db(global).await?;
        let held = ServerHoldings::read(&db).await?;
        let mut servers = BTreeMap::from([(KERNEL_ID.to_owned(), BTreeSet::new())]);
        let loaded = Sources::from_env().load(&Trust::new(Arc::new(db.clone()))).await;
        let config = loaded.as_ref().map(|loaded| loaded.config.clone()).unwrap_or_default();
        let mut agents = agents_in_use(global, &db).await?;
        let (own, elsewhere) = keys_by_tenant(global).await?;
        agents.extend(own);
        if let Backend::Kernel(client) = backend {
            read_kernel(client, &mut servers).await?;
            let info = client.request::<KernelInfo>(&KernelInfoParams::new()).await?;
            let connected = info.clients.into_iter().filter_map(|client| client.agent);
            agents.extend(connected.filter(|agent| !elsewhere.contains_key(agent)));
        } else if let Ok(loaded) = &loaded {
            let ids = loaded.config.servers.iter().map(|server| server.id.to_string());
            servers.extend(
                ids.chain(loaded.broken.clone())
                    .chain(loaded.disabled.clone())
                    .map(|id| (id, BTreeSet::new())),
            );
        }
        for (id, tools) in &mut servers {
            tools.extend(held.get(id).into_iter().flat_map(|held| held.tools.iter().cloned()));
        }
        let tenants = config.servers.iter().flat_map(|server| server.tenants.iter().flatten());
        let of_tokens =
            config.kernel.http.tokens.iter().filter_map(|tokens| match &tokens.tenant {
                TokenTenant::Named(tenant) => Some(tenant),
                _ => None,
            });
        let tenants = tenants.chain(of_tokens).cloned().collect();
        for (agent, settings) in config.agents {
            agents.extend(settings.groups.iter().map(|group| format!("group:{group}")));
            agents.insert(agent);
        }
        Ok(Self { servers, agents, agents_elsewhere: elsewhere, tenants, db })
    }

    /// Opens a backend to read the names, for commands that use no backend themselves.
    pub(super) async fn read_alone(global: &Global) -> CliResult<Self> {
        let backend = Backend::open(global, Intent::Read).await?;
        let known = Self::read(global, &backend).await;
        backend.close().await?;
        known
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }

    pub(super) fn tools_of(&self, server: &str) -> impl Iterator<Item = &str> {
        self.servers.get(server).into_iter().flatten().map(String::as_str)
    }

    pub(super) fn agents(&self) -> impl Iterator<Item = &str> {
        self.agents.iter().map(String::as_str)
    }

    /// Splits `SERVER.TOOL` after the longest prefix that is the id of a known server.
    pub(super) fn split<'a>(&self, name: &'a str) -> Option<(&'a str, &'a str)> {
        // Recognize the kernel's own tools first: their names begin with the id of the kernel.
        if let Some(tool) = find_kernel_tool(name) {
            return Some((KERNEL_ID, tool.name));
        }
        let dots = name.match_indices('.').map(|(at, _)| (&name[..at], &name[at + 1..]));
        let known =
            |(server, tool): &(&str, &str)| self.servers.contains_key(*server) && !tool.is_empty();
        dots.rev().find(known)
    }

    /// Returns a server and optionally one of its tools; either argument may be given as `SERVER.TOOL`.
    pub(super) fn resolve(&self, server: &str, tool: Option<&str>) -> (String, Option<String>) {
        match (tool, self.split(server)) {
            (None, Some((own, tool))) if !self.servers.contains_key(server) => {
                (own.to_owned(), Some(tool.to_owned()))
            }
            _ => (server.to_owned(), tool.map(|tool| self.bare(server, tool).to_owned())),
        }
    }

    /// Returns the name of a tool without the prefix of its server, unless the server has a tool of the whole name.
    fn bare<'a>(&self, server: &str, tool: &'a str) -> &'a str {
        if let Some(own) = find_kernel_tool(tool).filter(|_| server == KERNEL_ID) {
            return own.name;
        }
        let is_whole = self.servers.get(server).is_some_and(|tools| tools.contains(tool));
        let bare = tool.strip_prefix(server).and_then(|rest| rest.strip_prefix('.'));
        bare.filter(|_| !is_whole).unwrap_or(tool)
    }

    /// Refuses a server that does not exist.
    pub(super) async fn check_server(&self, server: &str) -> CliResult {
        if self.servers.contains_key(server)
            || Registrations::is_approved_in(&self.db, &ServerId::from(server)).await?
        {
            return Ok(());
        }
        Err(unknown("server", server, self.servers.keys().map(String::as_str)))
    }

    /// Refuses a tool that the server does not have; returns a note if the server's tools are not known.
    pub(super) fn check_tool(&self, server: &str, tool: &str) -> CliResult<Option<String>> {
        if server == KERNEL_ID {
            let own = find_kernel_tool(tool).map(|_| None);
            let names = KERNEL_TOOLS.iter().map(|own| own.name);
            return own.ok_or_else(|| unknown("`mgp` tool", tool, names));
        }
        let known = self.servers.get(server).filter(|known| !known.is_empty());
        match known {
            Some(known) if known.contains(tool) => Ok(None),
            Some(known) => {
                Err(unknown(&format!("`{server}` tool"), tool, known.iter().map(String::as_str)))
            }
            None => Ok(Some(format!(
                "the tools of {server} are not known yet, so `{tool}` was not checked"
            ))),
        }
    }

    /// Refuses a tool, given by name or as `SERVER.TOOL`, that no server has; returns a note if no tools are known.
    pub(super) fn check_any_tool(&self, name: &str) -> CliResult<Option<String>> {
        if let Some((server, tool)) = self.split(name) {
            return self.check_tool(server, tool);
        }
        let mut all = self.servers.values().flatten().map(String::as_str).peekable();
        if all.peek().is_none() {
            return Ok(Some(format!("no tools are known yet, so `{name}` was not checked")));
        }
        if all.any(|tool| tool == name) {
            return Ok(None);
        }
        Err(unknown("tool", name, self.servers.values().flatten().map(String::as_str)))
    }

    /// Refuses an unknown agent if its name resembles the name of a known agent, and differs from it by more than
    /// digits. For any other unknown agent, also one of another tenant, returns a note.
    pub(super) fn check_agent(&self, agent: &str) -> CliResult<Option<String>> {
        let Some(note) = self.note_on_agent(agent) else { return Ok(None) };
        if self.agents_elsewhere.contains_key(agent) {
            return Ok(Some(note));
        }
        // Ignore digits: `agent-2` is most likely not a typing error for the known name `agent-1`.
        let letters = |name: &str| name.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        let is_typo = |near: &str| letters(near) != letters(agent);
        if self.nearest_agent(agent).is_some_and(is_typo) {
            return Err(Failure::failed(format!("{note} {NEW_AGENT}")));
        }
        Ok(Some(note))
    }

    /// Returns a note if the agent is not known yet, or only in another tenant, where decisions do not apply.
    pub(super) fn note_on_agent(&self, agent: &str) -> Option<String> {
        if let Some(tenant) = self.agents_elsewhere.get(agent) {
            return Some(format!(
                "the key of `{agent}` belongs to the tenant `{tenant}`, to which this does not apply; {}",
                elsewhere_remedy(tenant)
            ));
        }
        self.note_on_unknown_agent(agent)
    }

    /// Returns a note if the agent is not known in any tenant yet.
    pub(super) fn note_on_unknown_agent(&self, agent: &str) -> Option<String> {
        if self.agents.contains(agent) || self.agents_elsewhere.contains_key(agent) {
            return None;
        }
        let near = self.nearest_agent(agent);
        let near = near.map(|near| format!("{DID_YOU_MEAN} `{near}`?")).unwrap_or_default();
        let kind = if agent.starts_with("group:") { "group" } else { "agent" };
        Some(format!("no {kind} `{agent}` is known yet{near}"))
    }

    /// Returns a note if neither the configuration nor anything stored names the tenant. `stored` are the tenants for
    /// which something is stored.
    pub(super) fn note_on_tenant(&self, tenant: &str, stored: &[String]) -> Option<String> {
        let known = || self.tenants.iter().chain(stored).map(String::as_str);
        if known().any(|one| one == tenant) {
            return None;
        }
        let near = did_you_mean(tenant, known()).unwrap_or_default();
        Some(format!("no tenant `{tenant}` is known yet{near}"))
    }

    fn nearest_agent(&self, agent: &str) -> Option<&str> {
        nearest(agent, self.agents.iter().map(String::as_str).filter(|one| *one != "*"))
    }
}

/// Returns the end of a message that asks whether a known name was meant; `None` if no known name resembles the given
/// one.
pub(super) fn did_you_mean<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(name, known).map(|near| format!("{DID_YOU_MEAN} `{near}`?"))
}

/// Creates the failure for an unknown name, and suggests a similar name.
pub(super) fn unknown<'a>(
    kind: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Failure {
    let near = did_you_mean(name, known);
    Failure::failed(format!(
        "there is no {kind} `{name}`{} {FORCE}",
        near.unwrap_or_else(|| ";".to_owned())
    ))
}

/// Returns the failure's text without the hint at `--force`, for commands and pages that do not have this option.
pub(crate) fn without_force(failure: &Failure) -> String {
    failure.to_string().replace(FORCE, "").trim_end_matches([' ', ';']).to_owned()
}

/// Returns a server that was registered at run time as a configuration entry; `None` if no approved server has this id.
pub(super) async fn registered_server(
    global: &Global,
    id: &str,
) -> CliResult<Option<ServerConfig>> {
    if !state::folder(global)?.join("state.db").exists() {
        return Ok(None);
    }
    let db = state::db(global).await?;
    let found = Registrations::approved_in(&db, &ServerId::from(id)).await?;
    Ok(found.map(|mut server| {
        // An operator approved the server, so its headers may name the user's secrets.
        server.origin = Origin::Named;
        server
    }))
}

/// Returns the failure of a command about a server that does not exist, with the name that the user probably meant.
pub(super) fn no_server<'a>(id: &str, known: impl IntoIterator<Item = &'a str>) -> Failure {
    let near = did_you_mean(id, known);
    let near = near.unwrap_or_else(|| "; see `mgp servers ls`".to_owned());
    Failure::failed(format!("there is no server `{id}`{near}"))
}

/// The state of a server that the configuration switches off.
pub(super) const DISABLED: &str = "disabled";

/// Returns the failure of a command about a server that the configuration switches off.
pub(super) fn disabled(id: &str) -> Failure {
    Failure::failed(format!("`{id}` is disabled; run `mgp servers enable {id}`"))
}

/// Returns the failure of a command about a tool, if the configuration switches off the tool's server.
pub(super) async fn disabled_server_of(client: &Client, tool: &str) -> CliResult<Option<Failure>> {
    let all = client.request::<KernelServers>(&KernelServersParams::new()).await?.servers;
    let has_tool = |id: &str| tool.strip_prefix(id).is_some_and(|rest| rest.starts_with('.'));
    let mut off = all.iter().filter(|server| server.status.as_str() == DISABLED);
    Ok(off.find(|server| has_tool(&server.id)).map(|server| disabled(&server.id)))
}

/// Returns a server of the running kernel; fails if the kernel has no server with this id.
pub(super) async fn check_running(client: &Client, id: &str) -> CliResult<KernelServer> {
    let mut all = client.request::<KernelServers>(&KernelServersParams::new()).await?.servers;
    if let Some(at) = all.iter().position(|server| server.id == id) {
        return Ok(all.swap_remove(at));
    }
    Err(no_server(id, all.iter().map(|server| server.id.as_str())))
}

/// Returns the failure of a command about a tool that does not exist, with the name that the user probably meant.
pub(super) fn no_tool<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Failure {
    let near = did_you_mean(name, known);
    let near = near.unwrap_or_else(|| "; see `mgp tools ls`".to_owned());
    Failure::failed(format!("there is no tool `{name}`{near}"))
}

/// Returns the agents that access entries or connected hosts use, the names of all known hosts, `*` and `default`.
async fn agents_in_use(global: &Global, store: &dyn Store) -> CliResult<BTreeSet<String>> {
    let mut agents = mgp_security::Access::named_in(store, operator().tenant()).await?;
    agents.extend(connected_agents(global)?);
    agents.extend(KnownHost::ALL.map(|host| host.name().to_owned()));
    agents.extend(["*".to_owned(), "default".to_owned()]);
    Ok(agents)
}

/// Finds the agents that have limits in a configuration but no key, host or access entry, so that their limits might
/// apply to no call. Returns the finding and the remedy for each.
pub(crate) async fn unknown_limited_agents(
    global: &Global,
    store: &dyn Store,
    config: &Config,
) -> CliResult<Vec<(String, String)>> {
    let limited = config.agents.iter().filter(|(_, agent)| !agent.limits.is_empty());
    let limited: Vec<&String> = limited.map(|(name, _)| name).collect();
    if limited.is_empty() {
        return Ok(Vec::new());
    }
    let mut known = agents_in_use(global, store).await?;
    let (own, elsewhere) = keys_by_tenant(global).await?;
    known.extend(own.into_iter().chain(elsewhere.into_keys()));
    let unknown = limited.into_iter().filter(|name| !known.contains(*name)).map(|name| {
        let names = known.iter().map(String::as_str).filter(|one| *one != "*");
        let near = did_you_mean(name, names);
        let what = format!("`[agents.{name}.limits]`: no key, host or access entry names `{name}`");
        let agent = shell_word_or("AGENT", name);
        let fix = format!("correct the name, or give it access: `mgp access grant {agent} SERVER`");
        (what + &near.unwrap_or_default(), fix)
    });
    Ok(unknown.collect())
}

/// Returns the agents with API keys of the operator's tenant. Also returns the agents that have keys only in other
/// tenants, each with one of these tenants.
async fn keys_by_tenant(
    global: &Global,
) -> CliResult<(BTreeSet<String>, BTreeMap<String, String>)> {
    let (mut own, mut elsewhere) = (BTreeSet::new(), BTreeMap::new());
    let file = state::folder(global)?.join("keys.json");
    if !file.exists() {
        return Ok((own, elsewhere));
    }
    for key in ApiKeys::open(FileKeys::new(file)).await?.records().await? {
        let principal = key.grant().principal();
        let Some(agent) = principal.as_agent() else { continue };
        if principal.tenant() == operator().tenant() {
            own.insert(agent.to_string());
        } else {
            elsewhere.insert(agent.to_string(), principal.tenant().to_string());
        }
    }
    elsewhere.retain(|agent, _| !own.contains(agent));
    Ok((own, elsewhere))
}

/// Returns the remedy for granting access in a tenant in which the commands of this operator do not apply.
pub(super) fn elsewhere_remedy(tenant: &str) -> String {
    format!(
        "an operator of `{tenant}` (`mgp keys add NAME --tenant {tenant} --admin`) grants access there, with the tool `mgp_access_grant` of a kernel with --http"
    )
}

async fn read_kernel(
    client: &Client,
    servers: &mut BTreeMap<String, BTreeSet<String>>,
) -> CliResult {
    let all = client.request::<KernelServers>(&KernelServersParams::new()).await?.servers;
    servers.extend(all.into_iter().map(|server| (server.id, BTreeSet::new())));
    for tool in client.request::<KernelTools>(&KernelToolsParams::new()).await?.tools {
        let bare = tool.tool_id.strip_prefix(&*tool.server_id).and_then(|id| id.strip_prefix('.'));
        let bare = bare.unwrap_or(&tool.name).to_owned();
        servers.entry(tool.server_id).or_default().insert(bare);
    }
    Ok(())
}
