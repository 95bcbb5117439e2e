//! The lists of the started servers, so that the next kernel need not start these servers before it answers.

use mgp_discovery::Config;
use mgp_kernel::{ProbedLists, store_probed_lists};

use super::Probes;
use crate::args::Global;
use crate::backend::Backend;
use crate::exit::CliResult;
use crate::state;

/// Stores the lists of the started servers for the next kernel. After a failure, that kernel starts the servers to read
/// their lists. If a kernel runs, stores nothing, because that kernel reads the lists itself.
pub(super) async fn store(global: &Global, backend: &Backend, config: &Config, probed: &Probes) {
    let lists = probed.values().filter_map(|probed| probed.as_ref().ok()?.lists.as_ref());
    let lists: Vec<&ProbedLists> = lists.collect();
    if let Err(failure) = store_in(global, backend, config, &lists).await {
        tracing::warn!(%failure, "lists of servers not stored; the next kernel starts them again");
    }
}

async fn store_in(
    global: &Global,
    backend: &Backend,
    config: &Config,
    lists: &[&ProbedLists],
) -> CliResult {
    let Backend::Folder(governance, _) = backend else { return Ok(()) };
    if !lists.is_empty() {
        store_probed_lists(governance, state::db(global).await?, config, lists).await?;
    }
    Ok(())
}
