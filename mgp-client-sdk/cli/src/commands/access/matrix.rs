//! The command `mgp access matrix`: the access of all agents to all servers.

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::Args;
use mgp_discovery::{Config, Sources, Trust};
use mgp_security::{NameFlaw, ServerHoldings};
use mgp_types::method::KernelServers;
use mgp_types::mgp::{AccessEntry, AccessPermission, KernelServersParams};
use mgp_types::service::TenantId;
use mgp_types::store::Db;
use serde::Serialize;

use super::super::default_policy;
use super::super::known_names::KERNEL_ID;
use super::query_params;
use crate::args::{ConfigArg, Global};
use crate::backend::{Backend, operator};
use crate::exit::{CliResult, Failure};
use crate::output::{Cell, Color, Output, Render};
use crate::state;

/// `mgp access matrix`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Matrix {
    /// Also show this agent; may be given several times
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,
    /// Show the access entries of this tenant; the default is `local`
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    #[command(flatten)]
    config: ConfigArg,
}

/// The access of all agents to all servers.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AccessMatrix {
    /// The ids of the servers.
    pub(crate) servers: Vec<String>,
    /// The ids in `servers` of servers that no longer exist. Their access entries would apply to a later server with
    /// the same id.
    pub(crate) left: Vec<String>,
    /// The agents and their access.
    pub(crate) agents: Vec<MatrixRow>,
}

/// The access of an agent.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MatrixRow {
    /// The name of the agent.
    pub(crate) agent: String,
    /// The agent's access to each server, in the order of `servers`.
    pub(crate) access: Vec<ServerAccess>,
}

/// The access of an agent to a server.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ServerAccess {
    /// The id of the server.
    pub(crate) server: String,
    /// `allow` or `deny` if an entry decides for the whole server, else `default`.
    pub(crate) whole: &'static str,
    /// The decision of the server's `default_policy`, `allow` or `deny`; `excluded` if no entry can allow access,
    /// because the server is not for the agent's tenant.
    pub(crate) by_default: &'static str,
    /// The tools of the server that entries allow by name.
    pub(crate) allowed: Vec<String>,
    /// The tools of the server that entries deny by name.
    pub(crate) denied: Vec<String>,
    /// The access entries of the agent for the server and its tools, which `mgp access query` shows too.
    #[serde(skip)]
    pub(crate) entries: Vec<AccessEntry>,
}

impl ServerAccess {
    /// Returns whether the server is not for the tenant of the agent, so that no entry allows access.
    pub(crate) fn is_excluded(&self) -> bool {
        self.by_default == default_policy::EXCLUDED
    }

    fn cell(&self) -> Cell {
        let (word, color) = match (self.whole, self.by_default) {
            (_, default_policy::EXCLUDED) => ("never", Color::Red),
            ("allow", _) => ("yes", Color::Green),
            ("deny", _) => ("no", Color::Red),
            (_, "allow") => ("yes*", Color::Green),
            (_, "?") => ("?", Color::Dim),
            _ => ("-", Color::Dim),
        };
        let count = |sign: char, names: &[String]| match names.len() {
            0 => String::new(),
            many => format!(" {sign}{many}"),
        };
        let (allowed, denied) = (count('+', &self.allowed), count('-', &self.denied));
        Cell::from(format!("{word}{allowed}{denied}")).color(color)
    }
}

impl Render for AccessMatrix {
    fn render(&self, out: &mut Output) {
        if self.servers.is_empty() || self.agents.is_empty() {
            return out.hint("no servers, or no agents with access entries; see `mgp servers ls`");
        }
        let agents = self.agents.iter().map(|row| row.agent.as_str());
        let heads: Vec<&str> = std::iter::once("SERVER").chain(agents).collect();
        let rows = self.servers.iter().enumerate().map(|(at, server)| {
            let cells = self.agents.iter().map(|row| row.access[at].cell());
            std::iter::once(server.as_str().into()).chain(cells).collect()
        });
        out.grid(&heads, rows);
        out.line("yes: granted; no: denied; yes*: by the server's default_policy; -: not granted");
        let any =
            |is: fn(&ServerAccess) -> bool| self.agents.iter().flat_map(|row| &row.access).any(is);
        if any(ServerAccess::is_excluded) {
            out.line("never: the server is not for the tenant of the agent");
        }
        if any(|one| one.by_default == "?") {
            out.line("?: not granted, and the server's default_policy is not known");
        }
        out.hint(
            "+N -N: so many single tools granted or denied; `mgp access matrix --json` names them",
        );
        for id in &self.left {
            out.hint(format!(
                "there is no server `{id}`, but a later server with this id would have this access; to end it: `mgp access revoke AGENT {id}`"
            ));
        }
    }
}

/// Returns the access entries of every known agent for every server, so that they can be revoked even if the
/// configuration has an error. With such an error and without a running kernel, each `default_policy` is `?`.
pub(crate) async fn matrix_of_all(
    global: &Global,
    sources: &Sources,
    backend: &Backend,
) -> CliResult<AccessMatrix> {
    let db = state::db(global).await?;
    let loaded = sources.load(&Trust::new(Arc::new(db.clone()))).await;
    let config = loaded.ok().map(|loaded| loaded.config);
    entries(&db, config.as_ref(), operator().tenant(), &[], backend).await
}

/// Returns the access of the agents that the command names, and of all known agents.
pub(super) async fn read(
    global: &Global,
    matrix: &Matrix,
    backend: &Backend,
) -> CliResult<AccessMatrix> {
    let db = state::db(global).await?;
    let loaded = matrix.config.sources().load(&Trust::new(Arc::new(db.clone()))).await?;
    let tenant = matrix.tenant.as_deref().map(TenantId::from);
    let tenant = tenant.unwrap_or_else(|| operator().tenant().clone());
    entries(&db, Some(&loaded.config), &tenant, &matrix.agent, backend).await
}

/// Returns the access entries of every known agent of a tenant, and of further `agents`, for every server.
async fn entries(
    db: &Db,
    config: Option<&Config>,
    tenant: &TenantId,
    agents: &[String],
    backend: &Backend,
) -> CliResult<AccessMatrix> {
    let named = mgp_security::Access::named_in(db, tenant).await;
    let is_local = tenant == operator().tenant();
    let held = ServerHoldings::read(db).await?;
    let mut agents: BTreeSet<String> = agents.iter().cloned().collect();
    agents.extend(named.map_err(|error| Failure::failed(error.to_string()))?);
    if is_local {
        agents.extend(config.into_iter().flat_map(|config| config.agents.keys().cloned()));
        agents.extend(["*".to_owned(), "default".to_owned()]);
    }
    let known = match backend {
        // Ask the kernel, because it may use other configuration files, and also has servers that were registered at
        // run time.
        Backend::Kernel(client) => {
            let all = client.request::<KernelServers>(&KernelServersParams::new()).await?.servers;
            all.into_iter().map(|server| server.id).collect()
        }
        Backend::Folder(..) => {
            let servers = config.into_iter().flat_map(|config| &config.servers);
            servers.map(|server| server.id.to_string()).collect::<Vec<_>>()
        }
    };
    // Show the kernel's own tools if entries name them. Their reserved server id is in no configuration, but it is not
    // left over from a removed server.
    let own = held.get(KERNEL_ID).filter(|held| !held.agents.is_empty());
    let own: Vec<String> = own.map(|_| KERNEL_ID.to_owned()).into_iter().collect();
    let is_left = |id: &String| !known.contains(id) && NameFlaw::check_server(id, []).is_ok();
    let left = held.into_iter().filter(|(id, held)| !held.agents.is_empty() && is_left(id));
    let left: Vec<String> = left.map(|(id, _)| id).collect();
    let servers = [known, own, left.clone()].concat();
    let mut defaults = Vec::new();
    for server in &servers {
        let tenant = Some(tenant.as_str()).filter(|_| !is_local);
        let decided = default_policy::of_kernel(server, tenant, backend).await?;
        let of_config = || Some(default_policy::of_config(config?, server, tenant));
        defaults.push(decided.or_else(of_config).unwrap_or("?"));
    }
    let mut rows = Vec::new();
    for agent in agents {
        let mut access = Vec::new();
        for (server, &by_default) in servers.iter().zip(&defaults) {
            let mut params = query_params(&agent, server, None);
            if !is_local {
                params.extra.encode("tenant", tenant.as_str())?;
            }
            let result = backend.query(params).await?;
            access.push(server_access(server, by_default, result.entries.into_iter()));
        }
        rows.push(MatrixRow { agent, access });
    }
    // An operator of `local` cannot revoke entries of another tenant, so no hint names them.
    let left = if is_local { left } else { vec![] };
    Ok(AccessMatrix { servers, left, agents: rows })
}

fn server_access(
    server: &str,
    by_default: &'static str,
    entries: impl Iterator<Item = AccessEntry>,
) -> ServerAccess {
    let mut access = ServerAccess {
        server: server.to_owned(),
        whole: "default",
        by_default,
        allowed: vec![],
        denied: vec![],
        entries: entries.collect(),
    };
    for entry in &access.entries {
        let allows = entry.permission == AccessPermission::Allow;
        match entry.tool_name.clone() {
            Some(tool) if allows => access.allowed.push(tool),
            Some(tool) => access.denied.push(tool),
            // Ignore a grant of the whole server if another entry denies the whole server, because the denial takes
            // precedence.
            None if access.whole == "deny" => {}
            None => access.whole = if allows { "allow" } else { "deny" },
        }
    }
    access
}
