//! The command `mgp doctor`: checks the installation and names a remedy for each problem.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use mgp_discovery::Config;
use mgp_kernel::quota_counts;
use mgp_types::store::Store;

use self::config::Selected;
use self::kernel::KernelState;
use self::pins::ToolInventory;
use self::report::{Check, Level};
use super::known_names::unknown_limited_agents;
use super::lock;
use super::probe::Prober;
use crate::args::{ConfigArg, Global};
use crate::exit::{CliResult, Failure};
use crate::output::{plural, print};
use crate::{state as state_folder, time_args};

pub(crate) use self::report::Report;

mod config;
mod environment;
mod hosts;
mod kernel;
mod names;
mod outgoing;
mod pins;
mod removed;
mod report;
mod server;
mod state;
mod tls;

/// `mgp doctor`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Each server is started briefly, several at a time; a hanging server delays the others by 10 s at most.\n\nExample:\n  mgp doctor\n  mgp doctor files --timeout 60s     # a package runner may download first"
)]
pub(crate) struct Doctor {
    /// Servers to check; the default is all servers
    server: Vec<String>,
    /// Time limit for each server, in place of its `start_timeout`
    #[arg(long, value_name = "DURATION", value_parser = time_args::duration)]
    timeout: Option<Duration>,
    /// Do not start servers
    #[arg(long)]
    no_start: bool,
    #[command(flatten)]
    config: ConfigArg,
}

/// Runs all checks, and prints the report. Later checks need what earlier checks read: the store with the approvals,
/// then the configuration, then the running kernel.
pub(crate) async fn run(global: &Global, doctor: &Doctor) -> CliResult {
    let (mut checks, store) = state::check(global).await;
    let loaded = match &store {
        Some(store) => config::check(&doctor.config, Arc::clone(store), &mut checks).await,
        None => None,
    };
    let is_loaded = loaded.is_some();
    let running = kernel::check(global, &mut checks).await;
    checks.extend(state::check_keys(global).await);
    checks.extend(state::check_secrets(global));
    // From here on, every check must be limited to the selected servers.
    let selected = config::select(&doctor.server, loaded, &mut checks)?;
    let folder = state_folder::folder(global).unwrap_or_default();
    let kernel = &selected.config.kernel;
    let prober = (!doctor.no_start).then(|| Prober::new(doctor.timeout, kernel, &folder));
    let servers = server::check(global, prober, &selected.config, &running).await;
    checks.extend(running.check_variables(&selected.config));
    // Run the checks that are about more than single servers only if no servers are named on the command line.
    if doctor.server.is_empty() {
        let inventory = ToolInventory::new(&selected, &servers, &running);
        checks.extend(check_kernel(global, doctor, &selected, &running));
        checks.extend(check_machine(global, &selected.config, &folder, &running).await);
        checks.extend(pins::check(&selected.config, &inventory));
        checks.extend(pins::check_named_tools(&selected.config, &inventory));
        if let Some(store) = store {
            if is_loaded {
                checks.extend(removed::check(&store, &selected, &running).await);
            }
            checks.extend(check_agents(global, &*store, &selected.config, &inventory).await);
        }
    }
    let report = Report::new(!doctor.no_start, checks, servers, selected.broken.len());
    print(global, &report)?;
    conclude(&report)
}

/// Checks parts of the running kernel and of its configuration that do not belong to the selected servers, e.g. its
/// other servers, deliveries and metrics address.
fn check_kernel(
    global: &Global,
    doctor: &Doctor,
    selected: &Selected,
    running: &KernelState,
) -> Vec<Check> {
    let servers = selected.config.servers.iter().map(|server| server.id.as_str());
    let ids: Vec<_> = servers.chain(selected.broken.iter().map(String::as_str)).collect();
    let mut checks: Vec<_> = running.check_others(&ids).collect();
    checks.extend(running.check_project(&doctor.config.sources()));
    checks.extend(kernel::check_file(global, &doctor.config.sources()));
    checks.extend(running.check_deliveries());
    checks.extend(running.check_metrics(&selected.config.kernel));
    checks.extend(lock::check(&doctor.config).err().map(|failure| {
        let failure = failure.to_string();
        let (what, fix) = failure.rsplit_once("; ").unwrap_or((&*failure, "see `mgp lock --help`"));
        Check::new("config", Level::Warn, what).with_fix(fix)
    }));
    checks
}

/// Checks the programs, proxies, hosts and certificates of this machine that the configuration needs.
async fn check_machine(
    global: &Global,
    config: &Config,
    folder: &Path,
    running: &KernelState,
) -> Vec<Check> {
    let mut checks = hosts::check(global);
    checks.extend(environment::check(config));
    checks.extend(environment::check_folders());
    checks.extend(environment::check_proxies().await);
    checks.extend(outgoing::check(&config.kernel, folder, running).await);
    checks.extend(tls::check(&config.kernel.http, folder));
    checks
}

/// Checks the tool names that agents see, and that the stored counts of quotas can be read. Reports agents that have
/// limits but are not known otherwise.
async fn check_agents(
    global: &Global,
    store: &dyn Store,
    config: &Config,
    inventory: &ToolInventory,
) -> Vec<Check> {
    let mut checks = Vec::from_iter(names::check(global, store, config, inventory).await);
    if let Err(error) = quota_counts(store, config).await {
        checks.push(state::unusable(&format!("`state.db`: {error}")));
    }
    // Ignore failures to read the state, which other checks report.
    let unknown = unknown_limited_agents(global, store, config).await.unwrap_or_default();
    let warn = |(what, fix)| Check::new("limits", Level::Warn, what).with_fix(fix);
    checks.extend(unknown.into_iter().map(warn));
    checks
}

/// Returns an error if a check of the report failed.
fn conclude(report: &Report) -> CliResult {
    let failed = report.checks.iter().filter(|check| check.level == Level::Fail);
    let failed: Vec<&Check> = failed.collect();
    if failed.is_empty() {
        return Ok(());
    }
    let has_fix = failed.iter().any(|check| check.fix.is_some());
    let hint = if has_fix { "; see `fix:` for the remedy" } else { "" };
    Err(Failure::failed(format!("{} failed{hint}", plural(failed.len(), "check"))))
}
