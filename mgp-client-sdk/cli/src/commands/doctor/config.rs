//! Checks the configuration, and selects the servers to check.

use std::path::Path;
use std::sync::Arc;

use mgp_discovery::{Config, ConfigFinding, FindingSeverity, LoadedConfig, Sources, Trust};
use mgp_types::store::Store;

use super::report::{Check, Level};
use crate::args::ConfigArg;
use crate::commands::known_names::{self, no_server};
use crate::exit::CliResult;
use crate::output::plural;

/// Loads the configuration, and reports what is wrong with it and which files are used.
pub(super) async fn check(
    config: &ConfigArg,
    store: Arc<dyn Store>,
    checks: &mut Vec<Check>,
) -> Option<LoadedConfig> {
    let sources = config.sources();
    let loaded = match sources.load(&Trust::new(store)).await {
        Ok(loaded) => loaded,
        Err(error) => {
            checks.extend(
                error.to_string().lines().map(|line| Check::new("config", Level::Fail, line)),
            );
            return None;
        }
    };
    checks.extend(loaded.findings.iter().map(reported));
    if !loaded.disabled.is_empty() {
        let what =
            format!("not used, because of `enabled = false`: {}", loaded.disabled.join(", "));
        checks.push(Check::new("config", Level::Ok, what));
    }
    if let Some(unapproved) = &loaded.unapproved {
        let what = format!("`{}` is not approved, so it has no effect", unapproved.file.display());
        checks.push(
            Check::new("config", Level::Warn, what).with_fix("read it, then run `mgp trust`"),
        );
    }
    if let Some(unused) = Sources::unused_folder().filter(|_| config.named_file().is_none()) {
        let unused = unused.display();
        let what = format!("`{unused}` is not used, because `~/.config/mgp` exists");
        let fix = "to use it, move the files of `~/.config/mgp` there, and remove that folder";
        checks.push(Check::new("config", Level::Ok, what).with_fix(fix));
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

/// Returns a finding of the configuration as a check.
fn reported(finding: &ConfigFinding) -> Check {
    let is_error = finding.severity == FindingSeverity::Error;
    let level = if is_error { Level::Fail } else { Level::Warn };
    let mut problem = finding.clone();
    let fix = problem.remedy.take();
    let mut check = Check::new("config", level, problem.to_string());
    check.fix = fix;
    check.server.clone_from(&finding.server);
    check
}

/// The configuration to check, and the ids of configured servers that are not used.
#[derive(Default)]
pub(super) struct Selected {
    pub(super) config: Config,
    /// The ids of servers that an error makes unusable.
    pub(super) broken: Vec<String>,
    /// The ids of servers that the configuration switches off.
    disabled: Vec<String>,
}

impl Selected {
    /// Returns whether the configuration has a server, even one that is broken or switched off.
    pub(super) fn has(&self, id: &str) -> bool {
        let mut unused = self.broken.iter().chain(&self.disabled);
        self.config.server(id).is_some() || unused.any(|other| other == id)
    }
}

/// Selects the servers named on the command line, or all servers. Deletes the `checks` about servers that are not
/// selected.
pub(super) fn select(
    named: &[String],
    loaded: Option<LoadedConfig>,
    checks: &mut Vec<Check>,
) -> CliResult<Selected> {
    let Some(loaded) = loaded else { return Ok(Selected::default()) };
    let LoadedConfig { mut config, mut broken, disabled, .. } = loaded;
    if named.is_empty() {
        return Ok(Selected { config, broken, disabled });
    }
    let is_known = |id: &String| {
        broken.contains(id) || config.servers.iter().any(|server| server.id.as_str() == *id)
    };
    if let Some(unknown) = named.iter().find(|id| !is_known(id)) {
        if disabled.contains(unknown) {
            return Err(known_names::disabled(unknown));
        }
        let ids = config.servers.iter().map(|server| server.id.as_str());
        return Err(no_server(unknown, ids.chain(broken.iter().map(String::as_str))));
    }
    config.servers.retain(|server| named.iter().any(|id| id == server.id.as_str()));
    broken.retain(|server| named.contains(server));
    checks.retain(|check| check.server.as_ref().is_none_or(|id| named.contains(id)));
    Ok(Selected { config, broken, disabled })
}
