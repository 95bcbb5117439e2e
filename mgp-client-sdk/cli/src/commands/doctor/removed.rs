//! Names servers whose entries were removed by hand, and what is still stored for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use mgp_discovery::{Registrations, Trust};
use mgp_security::{NameFlaw, ServerHoldings};
use mgp_types::service::ServerId;
use mgp_types::store::Store;

use super::config::Selected;
use super::kernel::KernelState;
use super::report::{Check, Level};
use crate::config_file::ConfigFile;
use crate::exit::CliResult;
use crate::state_option::shell_word_or;

/// Returns a check for each server that no known configuration has, although decisions about it are stored.
///
/// Nothing deletes these decisions by itself: another configuration may have the server, and its recorded definitions
/// protect against changed tools.
pub(super) async fn check(
    store: &Arc<dyn Store>,
    selected: &Selected,
    running: &KernelState,
) -> Vec<Check> {
    // Ignore failures to read the state, which other checks report.
    let removed = removed(store, selected, running).await.unwrap_or_default();
    let checks = removed.iter().map(|(id, held)| {
        let what = format!("the configuration has no server `{id}`, but stored for it are {held}");
        let word = shell_word_or("ID", id);
        let fix = format!("if no other configuration has it, run `mgp servers rm {word}`");
        Check::new("state", Level::Ok, what).with_fix(fix)
    });
    checks.collect()
}

/// Returns the removed servers, each with the decisions that are stored for it.
async fn removed(
    store: &Arc<dyn Store>,
    selected: &Selected,
    running: &KernelState,
) -> CliResult<Vec<(String, ServerHoldings)>> {
    let registered = Registrations::registered_in(&**store).await?;
    // Include the servers of all approved projects, because this command reads only the project of the current folder.
    let projects = Trust::new(Arc::clone(store)).list().await?.into_iter();
    let files = projects.map(|project| project.file).filter(|file| file.is_file());
    let ids = files.filter_map(|file| ConfigFile::open(file).ok()?.server_ids().ok());
    let of_projects: BTreeSet<String> = ids.flatten().collect();
    let is_removed = |id: &str| {
        // The decisions about the kernel's own tools are stored under a reserved id.
        NameFlaw::check_server(id, []).is_ok()
            && !selected.has(id)
            && running.server(id).is_none()
            && !registered.contains(&ServerId::from(id))
            && !of_projects.contains(id)
            && ConfigFile::file_with(id).is_none()
    };
    let held = ServerHoldings::read(&**store).await?;
    Ok(held.into_iter().filter(|(id, _)| is_removed(id)).collect())
}
