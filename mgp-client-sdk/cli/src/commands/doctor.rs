//! The command `mgp doctor`: checks the installation and names a remedy for each problem.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use mgp_discovery::{Config, FindingSeverity, LoadedConfig, Trust};
use mgp_types::store::Store;
use std::sync::Arc;

use super::known_names::{disabled, no_server, unknown_limited_agents};
use super::probe::Prober;
use crate::args::{ConfigArg, Global};
use crate::exit::{CliResult, Failure};
use crate::output::{plural, print};
use crate::{state as state_folder, time_args};

pub(crate) use report::Report;
use report::{Check, Level};

mod environment;
mod hosts;
mod kernel;
mod names;
mod outgoing;
mod pins;
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

/// Runs all checks, and prints the report. The order matters, because later checks need what earlier ones read: the
/// store with the approvals, then the configuration, then the running kernel.
///
/// If servers are named on the command line, `select` deletes the findings about other servers from the checks so far.
/// A check that runs after it must be limited to the selected servers.
pub(crate) async fn run(global: &Global, doctor: &Doctor) -> CliResult {
    let mut checks = Vec::new();
    let (of_state, store) = state::check(global).await;
    checks.extend(of_state);
    let loaded = match &store {
        Some(store) => check_config(doctor, Arc::clone(store), &mut checks).await,
        None => None,
    };
    let running = kernel::check(global, &mut checks).await;
    checks.extend(state::check_keys(global).await);
    let selected = select(doctor, loaded, &mut checks)?;
    let kernel = &selected.config.kernel;
    let folder = state_folder::folder(global).unwrap_or_default();
    let prober = (!doctor.no_start).then(|| Prober::new(doctor.timeout, kernel, &folder));
    let reports = server::check(global, prober, &selected.config, &running).await;
    checks.extend(running.check_variables(&selected.config));
    let broken = &selected.broken;
    // Run the following checks only if no servers are named on the command line, because they are about more than
    // single servers.
    if doctor.server.is_empty() {
        let servers = &selected.config.servers;
        let ids = servers.iter().map(|server| server.id.as_str());
        let ids: Vec<_> = ids.chain(broken.iter().map(String::as_str)).collect();
        checks.extend(running.check_others(&ids));
        checks.extend(running.check_project(&doctor.config.sources()));
        checks.extend(running.check_deliveries());
        let inventory = pins::ToolInventory::new(servers, &reports, broken, &running);
        checks.extend(environment::check(&selected.config));
        checks.extend(environment::check_proxies().await);
        checks.extend(hosts::check(global));
        checks.extend(pins::check(&selected.config, &inventory));
        checks.extend(pins::check_named_tools(&selected.config, &inventory));
        checks.extend(running.check_metrics(&selected.config.kernel));
        checks.extend(outgoing::check(kernel, &folder).await);
        checks.extend(tls::check(&kernel.http, &folder));
        if let Some(store) = store {
            checks.extend(names::check(global, &*store, &selected.config, &inventory).await);
            let unknown = unknown_limited_agents(global, &*store, &selected.config).await;
            let unknown = unknown.unwrap_or_default().into_iter();
            checks.extend(
                unknown.map(|(what, fix)| Check::new("limits", Level::Warn, what).with_fix(fix)),
            );
        }
    }
    let mut report = Report {
        is_started: !doctor.no_start,
        level: Level::Ok,
        servers: reports.len() + broken.len(),
        broken: reports.iter().filter(|server| server.is_broken()).count() + broken.len(),
        tools: reports.iter().map(|server| server.tools).sum(),
        tokens: reports.iter().map(|server| server.tokens).sum(),
        checks,
    };
    report.checks.extend(reports.into_iter().flat_map(|server| server.checks));
    report.level = report.checks.iter().map(|check| check.level).max().unwrap_or(Level::Ok);
    print(global, &report)?;
    conclude(&report)
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

/// The configuration to check, and the ids of configured servers that an error makes unusable.
#[derive(Default)]
struct Selected {
    config: Config,
    broken: Vec<String>,
}

/// Selects the servers named on the command line, or all servers. Deletes the `checks` about servers that are not
/// selected.
fn select(
    doctor: &Doctor,
    loaded: Option<LoadedConfig>,
    checks: &mut Vec<Check>,
) -> CliResult<Selected> {
    let Some(loaded) = loaded else { return Ok(Selected::default()) };
    let LoadedConfig { mut config, mut broken, disabled: off, .. } = loaded;
    if doctor.server.is_empty() {
        return Ok(Selected { config, broken });
    }
    let is_known = |id: &String| {
        broken.contains(id) || config.servers.iter().any(|server| server.id.as_str() == *id)
    };
    if let Some(unknown) = doctor.server.iter().find(|id| !is_known(id)) {
        if off.contains(unknown) {
            return Err(disabled(unknown));
        }
        let ids = config.servers.iter().map(|server| server.id.as_str());
        return Err(no_server(unknown, ids.chain(broken.iter().map(String::as_str))));
    }
    config.servers.retain(|server| doctor.server.iter().any(|id| id == server.id.as_str()));
    broken.retain(|server| doctor.server.contains(server));
    checks.retain(|check| check.server.as_ref().is_none_or(|id| doctor.server.contains(id)));
    Ok(Selected { config, broken })
}

async fn check_config(
    doctor: &Doctor,
    store: Arc<dyn Store>,
    checks: &mut Vec<Check>,
) -> Option<LoadedConfig> {
    let sources = doctor.config.sources();
    let loaded = match sources.load(&Trust::new(store)).await {
        Ok(loaded) => loaded,
        Err(error) => {
            checks.extend(
                error.to_string().lines().map(|line| Check::new("config", Level::Fail, line)),
            );
            return None;
        }
    };
    for finding in &loaded.findings {
        let level =
            if finding.severity == FindingSeverity::Error { Level::Fail } else { Level::Warn };
        let mut problem = finding.clone();
        let fix = problem.remedy.take();
        let mut check = Check::new("config", level, problem.to_string());
        check.fix = fix;
        check.server.clone_from(&finding.server);
        checks.push(check);
    }
    if !loaded.disabled.is_empty() {
        let what = format!("not used, for `enabled = false`: {}", loaded.disabled.join(", "));
        checks.push(Check::new("config", Level::Ok, what));
    }
    if let Some(unapproved) = &loaded.unapproved {
        let what = format!("`{}` is not approved, so it has no effect", unapproved.file.display());
        checks.push(
            Check::new("config", Level::Warn, what).with_fix("read it, then run `mgp trust`"),
        );
    }
    let unapproved = loaded.unapproved.as_ref().map(|project| &project.file);
    let is_used = |file: &&Path| {
        file.exists()
            && dunce::canonicalize(file).ok().as_ref().is_none_or(|real| Some(real) != unapproved)
    };
    let files: Vec<_> = sources.files().filter(is_used).collect();
    let count = loaded.config.servers.len() + loaded.broken.len();
    if count == 0 {
        let what = "no servers are configured";
        let fix = "run `mgp setup`, or `mgp servers add`";
        checks.push(Check::new("config", Level::Warn, what).with_fix(fix));
    } else {
        let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        checks.push(Check::new(
            "config",
            Level::Ok,
            format!("{} in {}", plural(count, "server"), files.join(", ")),
        ));
    }
    Some(loaded)
}
