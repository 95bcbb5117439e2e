//! Compares the servers in a host's file with the servers of mgp's configuration.

use std::collections::BTreeMap;
use std::path::Path;

use mgp_discovery::import::{
    self as host_files, Import, ImportOutcome, ImportedServer, Plan, ToolLimit,
};

use super::Connect;
use super::record::ENTRY;
use super::target::HostTarget;
use crate::args::Global;
use crate::commands::import::read_servers as read_servers_of;
use crate::this_program::is_mgp;

/// A server of a host's file that mgp's configuration has too.
pub(super) struct PresentServer {
    /// The path to the table that has the server in the file.
    pub(super) path: Vec<String>,
    pub(super) name: String,
    pub(super) id: String,
    /// The tools that the host lets its agent use.
    tools: ToolLimit,
}

/// Returns the tools that a host lets its agent use, by the ids of the servers.
pub(super) fn tools(present: &[PresentServer]) -> BTreeMap<String, ToolLimit> {
    let mut all = BTreeMap::<String, ToolLimit>::new();
    for PresentServer { id, tools, .. } in present {
        let tools = all.get(id).map_or_else(|| tools.clone(), |other| other.union(tools));
        all.insert(id.clone(), tools);
    }
    all
}

/// Returns the servers of the host's file that mgp's configuration has too.
pub(super) fn present(
    global: &Global,
    connect: &Connect,
    file: &Path,
    text: &str,
    table: &[String],
) -> Vec<PresentServer> {
    let Some(mut import) = read_servers(global, &connect.target, file, text, table) else {
        return Vec::new();
    };
    import.servers.retain(|server| !is_mgp(&server.entry));
    let Ok(own) = connect.config.file_to_edit() else { return Vec::new() };
    let plan = match &connect.planned_config {
        Some(text) => Plan::from_text(own, text, &[import]),
        None => Plan::new(own, &[import]),
    };
    let Ok(plan) = plan else { return Vec::new() };
    let present = plan.lines().iter().filter_map(|line| {
        let ImportOutcome::Present(id) = &line.outcome else { return None };
        let of_project = line.project.iter().flat_map(|folder| ["projects", folder.as_str()]);
        let path = of_project.map(str::to_owned).chain(table.iter().cloned()).collect();
        let (name, id, tools) = (line.name.clone(), id.clone(), line.tools.clone());
        Some(PresentServer { path, name, id, tools })
    });
    present.collect()
}

/// Returns whether the entry named `mgp` in a host's file starts this program; `None` if the entry cannot be read.
pub(super) fn starts_mgp(
    global: &Global,
    target: &HostTarget,
    file: &Path,
    text: &str,
    table: &[String],
) -> Option<bool> {
    let import = read_servers(global, target, file, text, table)?;
    let is_named = |server: &&ImportedServer| server.name == ENTRY && server.project.is_none();
    import.servers.iter().find(is_named).map(|server| is_mgp(&server.entry))
}

fn read_servers(
    global: &Global,
    target: &HostTarget,
    file: &Path,
    text: &str,
    table: &[String],
) -> Option<Import> {
    match target.known() {
        Some(host) => read_servers_of(global, host, file, text).ok(),
        None => host_files::read(target.format(table), file, text).ok(),
    }
}
