//! Changes an agent's access entries for a server, so that they allow the tools that the agent's host lets it use.

use mgp_discovery::ServerConfig;
use mgp_discovery::import::ToolLimit;
use mgp_types::mgp::{
    AccessEntry, AccessGrantParams, AccessPermission, AccessQueryParams, AccessRevokeParams,
    DefaultPolicy,
};

use super::NewAccess;
use crate::args::Global;
use crate::backend::Backend;
use crate::exit::CliResult;
use crate::output::print_note;

/// The command that is repeated for several files of one agent, so that the tools of all these files add up.
const IMPORT: &str = "mgp import";

/// The commands whose access entries a later run can replace; the reason of an entry names the command. All other
/// entries are decisions of an operator, which stay.
const COMMANDS: [&str; 3] = ["mgp setup", "mgp connect", IMPORT];

/// The changes of an agent's access entries for a server.
struct Changes {
    revoked: Vec<AccessRevokeParams>,
    granted: Vec<AccessGrantParams>,
}

impl Changes {
    fn new(wanted: &NewAccess<'_>, server: &str, entries: &[AccessEntry]) -> Self {
        let (agent, limit) = (&wanted.agent, wanted.limit(server));
        let own = || entries.iter().filter(move |entry| entry.agent_id == *agent);
        let (stale, kept): (Vec<&AccessEntry>, Vec<&AccessEntry>) =
            own().partition(|entry| is_stale(entry, &limit, &wanted.because));
        let revoked = stale.into_iter().map(|entry| {
            let params = AccessRevokeParams::server_grant(agent, server);
            match &entry.tool_name {
                Some(tool) => params.tool(tool),
                None => params,
            }
        });
        // If an operator has decided about the server, add nothing, unless a command has allowed the whole server.
        let mut whole = own().filter(|entry| entry.tool_name.is_none());
        let is_open = own().all(is_of_command) || whole.any(is_of_command);
        let mut granted = if is_open { grants(wanted, server, &limit) } else { Vec::new() };
        granted.retain(|params| {
            kept.iter().all(|entry| entry.tool_name != params.tool_name || confirms(entry))
        });
        Self { revoked: revoked.collect(), granted }
    }

    fn is_empty(&self) -> bool {
        self.revoked.is_empty() && self.granted.is_empty()
    }
}

/// Returns the access entries for an agent that has none yet. With these entries, the agent can use exactly the tools
/// that `limit` allows, unless the server's `default_policy` allows further tools.
fn grants(wanted: &NewAccess<'_>, server: &str, limit: &ToolLimit) -> Vec<AccessGrantParams> {
    let NewAccess { agent, because, .. } = wanted;
    let allow = || AccessGrantParams::allow(agent, server).because(because);
    let deny = || AccessGrantParams::deny(agent, server).because(because);
    match limit {
        ToolLimit::Only(tools) => {
            tools.iter().map(|tool| allow().tool(tool).with_usual_confirmation()).collect()
        }
        // Deny the tools first, so that no call of them is possible between the changes.
        ToolLimit::Except(tools) => {
            tools.iter().map(|tool| deny().tool(tool)).chain([allow()]).collect()
        }
    }
}

fn is_of_command(entry: &AccessEntry) -> bool {
    let because = entry.justification.as_deref().unwrap_or_default();
    COMMANDS.iter().any(|command| because.starts_with(command))
}

/// Returns whether an entry makes a person confirm the calls of its tool only because a command of an earlier version
/// wrote it.
fn confirms(entry: &AccessEntry) -> bool {
    let allows_tool = entry.tool_name.is_some() && entry.permission == AccessPermission::Allow;
    allows_tool && entry.extra.get("confirm").is_none() && is_of_command(entry)
}

/// Returns whether a command wrote this entry, and the entry contradicts `limit`, which the command named in `because`
/// applies now. An import never contradicts an allowed tool, because imports add up.
fn is_stale(entry: &AccessEntry, limit: &ToolLimit, because: &str) -> bool {
    if !is_of_command(entry) {
        return false;
    }
    let allows = entry.permission == AccessPermission::Allow;
    let Some(tool) = &entry.tool_name else {
        return allows && matches!(limit, ToolLimit::Only(_));
    };
    let earlier = entry.justification.as_deref().unwrap_or_default();
    let adds_up = allows && (because.starts_with(IMPORT) || earlier.starts_with(IMPORT));
    !adds_up && allows != limit.allows(tool)
}

/// Returns a description of what lets an agent use more tools than a limit allows, with the command that ends it;
/// `None` if the agent can use no more.
fn excess(
    agent: &str,
    server: &ServerConfig,
    limit: &ToolLimit,
    entries: &[AccessEntry],
) -> Option<String> {
    let of_tool = |tool: Option<&str>| {
        let of_tool = || entries.iter().filter(move |entry| entry.tool_name.as_deref() == tool);
        // Prefer a denial, because it decides if there are several entries about the tool.
        of_tool().find(|entry| entry.permission == AccessPermission::Deny).or(of_tool().next())
    };
    let is_opt_out =
        server.mgp.as_ref().is_some_and(|mgp| mgp.default_policy == DefaultPolicy::OptOut);
    let allowing = |tool: Option<&str>| match of_tool(tool).or_else(|| of_tool(None)) {
        Some(entry) if entry.permission == AccessPermission::Allow => {
            Some(format!("the access entry of `{}`", entry.agent_id))
        }
        None if is_opt_out => Some("its `default_policy`".to_owned()),
        _ => None,
    };
    let (ToolLimit::Only(listed) | ToolLimit::Except(listed)) = limit;
    let named = entries.iter().filter_map(|entry| entry.tool_name.as_deref());
    let named = named.chain(listed.iter().map(String::as_str)).filter(|tool| !limit.allows(tool));
    // Also check all tools that neither an entry nor the limit names (`None`).
    let unnamed = matches!(limit, ToolLimit::Only(_)).then_some(None);
    unnamed.into_iter().chain(named.map(Some)).find_map(|tool| {
        let cause = allowing(tool)?;
        let (what, tool) = match tool {
            Some(tool) => (format!("`{}`", tool.escape_debug()), " TOOL"),
            None => ("all tools".to_owned(), ""),
        };
        let id = &server.id;
        Some(format!(
            "{cause} allows {what}; `mgp access grant {agent} {id}{tool} --deny` ends that"
        ))
    })
}

async fn entries(backend: &Backend, agent: &str, server: &str) -> CliResult<Vec<AccessEntry>> {
    Ok(backend.query(AccessQueryParams::new(agent, server)).await?.entries.into_vec())
}

/// Returns the servers of a [`NewAccess`] that need changed entries for the agent. Prints a note for each other server
/// if the agent can use more of its tools than its host lets it use.
pub(super) async fn to_change<'a>(
    global: &Global,
    backend: &Backend,
    wanted: &NewAccess<'a>,
) -> CliResult<Vec<&'a ServerConfig>> {
    let mut servers = Vec::new();
    for server in wanted.servers.iter().copied() {
        let id = server.id.as_str();
        let entries = entries(backend, &wanted.agent, id).await?;
        let limit = wanted.limit(id);
        if !Changes::new(wanted, id, &entries).is_empty() {
            servers.push(server);
        } else if let Some(excess) = excess(&wanted.agent, server, &limit, &entries) {
            print_note(global, &format!("{id}: the host allows {limit}, but {excess}"));
        }
    }
    servers.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(servers)
}

/// Grants an agent access to a server, or to some of its tools. Returns a description of what lets the agent use more
/// tools than that, if anything does.
pub(super) async fn grant_tools(
    backend: &Backend,
    wanted: &NewAccess<'_>,
    server: &ServerConfig,
) -> CliResult<Option<String>> {
    let (agent, id) = (&wanted.agent, server.id.as_str());
    let changes = Changes::new(wanted, id, &entries(backend, agent, id).await?);
    for params in changes.revoked {
        backend.revoke(params).await?;
    }
    for params in changes.granted {
        backend.grant(params).await?;
    }
    Ok(excess(agent, server, &wanted.limit(id), &entries(backend, agent, id).await?))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use mgp_types::mgp::EntryType;

    use super::*;

    #[test]
    fn entries_of_earlier_versions_are_replaced_by_ones_that_confirm_nothing() {
        let only = ToolLimit::Only(BTreeSet::from(["write".to_owned()]));
        let wanted = NewAccess {
            agent: "ada".to_owned(),
            servers: vec![],
            tools: BTreeMap::from([("files".to_owned(), only)]),
            because: "mgp setup".to_owned(),
        };
        let granted = |because: &str, confirm: Option<&str>| {
            let allow = AccessPermission::Allow;
            let mut entry = AccessEntry::new(EntryType::ToolGrant, "ada", "files", allow);
            entry.tool_name = Some("write".to_owned());
            entry.justification = Some(because.to_owned());
            if let Some(rule) = confirm {
                entry.extra.encode("confirm", rule).unwrap();
            }
            let changes = Changes::new(&wanted, "files", &[entry]);
            assert!(changes.revoked.is_empty());
            changes.granted.len()
        };
        assert_eq!(granted("mgp setup", None), 1);
        assert_eq!(granted("mgp setup", Some("usual")), 0);
        assert_eq!(granted("for the report", None), 0);
        assert_eq!(granted("for the report", Some("never")), 0);
    }
}
