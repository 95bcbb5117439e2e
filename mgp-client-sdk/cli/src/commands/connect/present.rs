//! Compares the servers in a host's file with those of mgp's configuration.

use std::path::Path;

use mgp_discovery::import::{self as host_files, Import, ImportOutcome, ImportedServer, Plan};

use super::Connect;
use super::record::ENTRY;
use crate::args::Global;
use crate::commands::import::{is_mgp, read_servers as read_servers_of};

/// Returns the servers of the host's file that mgp's configuration has too, each with its path and name in the file,
/// and its id in the configuration.
pub(super) fn present(
    global: &Global,
    connect: &Connect,
    file: &Path,
    text: &str,
    table: &[String],
) -> Vec<(Vec<String>, String, String)> {
    let Some(mut import) = read_servers(global, connect, file, text, table) else {
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
        Some((path, line.name.clone(), id.clone()))
    });
    present.collect()
}

/// Returns whether the entry of a host's file that has the name of mgp starts mgp, and is not another server.
pub(super) fn starts_mgp(
    global: &Global,
    connect: &Connect,
    file: &Path,
    text: &str,
    table: &[String],
) -> bool {
    let servers = read_servers(global, connect, file, text, table).map(|import| import.servers);
    let is_other = |server: &ImportedServer| server.name == ENTRY && !is_mgp(&server.entry);
    !servers.is_some_and(|servers| servers.iter().any(is_other))
}

fn read_servers(
    global: &Global,
    connect: &Connect,
    file: &Path,
    text: &str,
    table: &[String],
) -> Option<Import> {
    match connect.target.known() {
        Some(host) => read_servers_of(global, host, file, text).ok(),
        None => host_files::read(connect.target.format(table), file, text).ok(),
    }
}
