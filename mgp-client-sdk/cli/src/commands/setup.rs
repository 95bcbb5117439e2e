//! The command `mgp setup`: copies the servers of all hosts, makes the hosts start mgp instead, and checks the result.
//!
//! The command does what `mgp import --apply` and `mgp connect HOST --replace` do, in one step that `mgp undo` takes
//! back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mgp_discovery::KernelConfig;
use serde::Serialize;

use super::connect::undo::CommandRun;
use super::connect::{HostChange, YesNo, portable_names_note};
use super::grant::GrantResult;
use super::import::{ImportPlan, ServerReport, Source, read_host_file};
use crate::args::{ConfigArg, Global};
use crate::config_file::ConfigFile;
use crate::exit::{CliResult, Failure};
use crate::hosts::{KnownHost, with_tilde};
use crate::operator::admit_edit;
use crate::output::{Cell, Color, Output, Render, plural, print, print_note};
use crate::{prompt, state};

mod difference;
pub(crate) mod try_host;

use difference::Difference;

/// `mgp setup`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Copies the servers of your hosts into your configuration, lets the agent of each host use exactly the servers that its host had, makes the hosts start mgp instead of these servers, and starts what each host will start. `mgp undo` restores the hosts' files, byte for byte.\n\nExample:\n  mgp setup                       # shows what would change, and asks\n  mgp setup claude-code cursor --yes --interactive yes\n  mgp setup --dry-run"
)]
pub(crate) struct Setup {
    /// Hosts; the default is all hosts of this user that have servers
    #[arg(value_name = "HOST")]
    hosts: Vec<KnownHost>,
    /// Change the files without asking
    #[arg(long, short)]
    yes: bool,
    /// Only show what would change
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// A person sits at these hosts and can confirm calls there; with --yes the default is no
    #[arg(long, value_name = "yes|no")]
    interactive: Option<YesNo>,
    #[command(flatten)]
    config: ConfigArg,
}

/// The result of `mgp setup`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SetupResult {
    /// `true` if the files were written; otherwise this is the plan.
    applied: bool,
    /// The configuration file.
    file: PathBuf,
    /// Each host and its file.
    hosts: Vec<HostReport>,
    /// Hosts of this user that have no servers, and stay as they are.
    without_servers: Vec<String>,
    /// Each server and its source.
    servers: Vec<ServerReport>,
    /// The servers that each agent gets access to, i.e. the servers of its host.
    access: BTreeMap<String, BTreeSet<String>>,
    /// The access and permissions that were granted, for each server.
    granted: Vec<GrantResult>,
    /// The reasons for which files of hosts are not read or not changed.
    faults: Vec<String>,
    /// Servers that were not ready when the hosts were tried. Servers that had already failed to start for the grants
    /// are not in the set.
    #[serde(skip)]
    not_ready: BTreeSet<String>,
}

/// A host of `mgp setup`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct HostReport {
    /// The host.
    host: String,
    /// The agent name of the host.
    agent: String,
    /// `true` if the command writes `portable_names = true` for the agent, because the host is not known to rewrite
    /// names of tools.
    portable_names: bool,
    /// The configuration file of the host.
    file: PathBuf,
    /// The servers of the file that change, as JSON without secrets; each line begins with `-` or `+`.
    difference: Difference,
    /// Servers that the host will still start by itself.
    beside: Vec<String>,
    /// The path of a copy of the file as it was before this change.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<PathBuf>,
    /// The number of the agent's servers that were ready when the host was tried; absent if the host was not tried, or
    /// the try failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<usize>,
    /// The number of tools of the servers that were ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<u64>,
    /// The ready servers that this command did not start, because their tools are recorded.
    recorded: Vec<String>,
    /// Problems of the host or of its servers.
    problems: Vec<String>,
    /// The name of a tool that may cause the host to refuse all tools.
    #[serde(skip)]
    refused_name: Option<String>,
    /// The [note](KnownHost::note) on a host whose file changes.
    #[serde(skip)]
    note: Option<&'static str>,
}

impl HostReport {
    /// Returns the report of a host whose file was not written yet.
    fn planned(host: KnownHost, change: &HostChange, own: &ConfigFile) -> Self {
        let (before, after) = change.server_lines();
        Self {
            host: host.name().to_owned(),
            agent: change.agent().to_owned(),
            portable_names: change.is_change()
                && !host.rewrites_names()
                && own.lacks_portable_names(change.agent()),
            file: change.file().to_owned(),
            difference: Difference::new(&before, &after, change.is_change()),
            beside: change.beside().to_vec(),
            backup: None,
            ready: None,
            tools: None,
            recorded: Vec::new(),
            problems: Vec::new(),
            refused_name: None,
            note: change.note(),
        }
    }

    fn render_plan(&self, out: &mut Output) {
        let file = self.file.display();
        if self.difference.is_empty() {
            out.line(with_tilde(&format!("{}: {file} stays as it is", self.host)));
        } else {
            out.line(with_tilde(&format!("{}: {file} would change", self.host)));
            self.difference.render(out);
        }
        if self.portable_names {
            out.line(format!(
                "    `portable_names = true` would be written under `[agents.{}]`: the host may refuse names of tools with a dot",
                self.agent
            ));
        }
        for name in &self.beside {
            out.line(format!("    {name} stays there, and is not governed"));
        }
    }

    fn render_done(&self, out: &mut Output) {
        let is_empty = self.ready == Some(0) && self.problems.is_empty();
        let is_good = self.problems.is_empty() && !is_empty;
        let (mark, color) = if is_good { ("ok", Color::Green) } else { ("!", Color::Yellow) };
        let found = match (self.ready, self.tools) {
            (Some(ready), Some(tools)) => {
                format!("started mgp: {} with {}", plural(ready, "server"), plural(tools, "tool"))
            }
            _ => "its file was not tried".to_owned(),
        };
        out.status_line(&Cell::from(mark).color(color), &format!("{}  {found}", self.host));
        if is_empty {
            let agent = &self.agent;
            out.hint(format!(
                "    no server that {agent} may use is ready: `mgp doctor` explains it; `mgp access grant {agent} SERVER` lets it use another"
            ));
        }
        if !self.recorded.is_empty() {
            let names = self.recorded.join(", ");
            out.hint(format!(
                "    not started now, because their tools are recorded: {names}; `mgp doctor` starts them"
            ));
        }
        for problem in &self.problems {
            out.hint(with_tilde(&format!("    {problem}")));
        }
        if self.portable_names {
            out.hint(format!("    {}", portable_names_note(&self.agent)));
        }
        if let Some(note) = self.note {
            out.hint(format!("    {note}"));
        }
        if let Some(name) = &self.refused_name {
            out.line(format!(
                "    it may refuse all tools because of the name `{name}`: write `portable_names = true` under `[agents.{}]`",
                self.agent
            ));
        }
        if !self.beside.is_empty() {
            let names = self.beside.join(", ");
            out.line(format!(
                "    not governed, because the host still starts them itself: {names}"
            ));
        }
    }
}

impl SetupResult {
    /// Returns whether neither a file nor a grant would change.
    fn changes_nothing(&self) -> bool {
        self.hosts.iter().all(|host| host.difference.is_empty())
            && !self.servers.iter().any(ServerReport::is_added)
            && self.access.values().all(BTreeSet::is_empty)
    }

    fn render_plan(&self, out: &mut Output) {
        let added = self.servers.iter().filter(|server| server.is_added()).count();
        let line = format!("{} would be added to {}", plural(added, "server"), self.file.display());
        out.line(with_tilde(&line));
        for server in &self.servers {
            server.render(out);
        }
        for (agent, servers) in &self.access {
            let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
            out.line(format!("{agent} would be allowed to use {}", servers.join(", ")));
        }
        if !self.access.is_empty() {
            out.line("permissions of these servers that are not dangerous, e.g. to read files, would be approved; a dangerous one is asked for at its first use");
        }
        for host in &self.hosts {
            host.render_plan(out);
        }
        self.render_faults(out);
        for host in &self.without_servers {
            out.hint(format!(
                "{host} has no servers; `mgp connect {host} --grant all` gives it yours"
            ));
        }
    }

    fn render_faults(&self, out: &mut Output) {
        for fault in &self.faults {
            out.hint(with_tilde(&format!("! {fault}")));
        }
    }

    fn render_done(&self, out: &mut Output) {
        let is_shown = |server: &&ServerReport| server.is_kept() || server.is_notable();
        for server in self.servers.iter().filter(is_shown) {
            server.render(out);
        }
        GrantResult::render_all(&self.granted, out);
        for host in &self.hosts {
            host.render_done(out);
        }
        self.render_faults(out);
        GrantResult::render_failed(&self.granted, &self.not_ready, out);
        let changed = || self.hosts.iter().filter(|host| !host.difference.is_empty());
        // Advise a restart only of hosts that were tried. A host whose file could not be written, or whose mgp does not
        // start, needs another remedy first.
        let tried = changed().filter(|host| host.ready.is_some());
        let names = tried.map(|host| host.host.as_str()).collect::<Vec<_>>().join(", ");
        if self.hosts.is_empty() {
            out.line("nothing to change: no server of these hosts can be copied");
        } else if changed().next().is_none() {
            out.line("nothing to change: these hosts start mgp already");
        } else if !names.is_empty() {
            out.line(format!("next: restart {names}, and ask there: “Which tools do you have?”"));
        }
        out.hint("  `mgp console`  approvals, servers and the record of calls, as a page");
        out.hint("  `mgp undo`     restores the files of these hosts");
    }
}

impl Render for SetupResult {
    fn render(&self, out: &mut Output) {
        if self.applied {
            self.render_done(out);
        } else {
            self.render_plan(out);
        }
    }
}

/// The changes that `mgp setup` will make.
struct Planned {
    import: ImportPlan,
    changes: Vec<HostChange>,
    result: SetupResult,
}

impl Planned {
    fn new(global: &Global, setup: &Setup) -> CliResult<Self> {
        let file = setup.config.file_to_edit()?;
        let (mut sources, mut hosts, mut without_servers) = (Vec::new(), Vec::new(), Vec::new());
        let mut faults = Vec::new();
        let is_named = !setup.hosts.is_empty();
        let wanted = if is_named { &*setup.hosts } else { &KnownHost::ALL };
        for host in wanted {
            match changeable_source(global, setup, *host) {
                _ if hosts.contains(host) => {}
                Ok(Some(source)) => {
                    // If no server of a host can be copied and the user did not name the host, only show the host with
                    // the reasons.
                    if is_named || source.has_servers() {
                        hosts.push(*host);
                    }
                    sources.push(source);
                }
                Ok(None) if is_named => hosts.push(*host),
                Ok(None) if host.has_user_file() => without_servers.push(host.name().to_owned()),
                Ok(None) => {}
                Err(failure) if is_named => return Err(failure),
                Err(failure) => faults.push(failure.to_string()),
            }
        }
        if hosts.is_empty() && sources.is_empty() {
            return Err(no_host(&faults));
        }
        let mut import = ImportPlan::new(&file, sources)?;
        let own = ConfigFile::open(file.clone())?;
        let (mut changes, mut reports) = (Vec::new(), Vec::new());
        for host in hosts {
            let change = HostChange::plan(global, host, &setup.config, import.text())?;
            reports.push(HostReport::planned(host, &change, &own));
            changes.push(change);
        }
        let result = SetupResult {
            applied: false,
            file,
            hosts: reports,
            without_servers,
            access: import.access(),
            servers: std::mem::take(&mut import.servers),
            granted: Vec::new(),
            not_ready: BTreeSet::new(),
            faults,
        };
        Ok(Self { import, changes, result })
    }

    /// Writes all files, the hosts' files last. If the file of one host cannot be written, still writes the files of
    /// the other hosts.
    async fn apply(
        self,
        global: &Global,
        setup: &Setup,
        interactive: Option<bool>,
    ) -> CliResult<SetupResult> {
        let Self { import, changes, mut result } = self;
        let run = CommandRun::of("setup");
        // Collect the agents in a map, because several hosts can have the same agent.
        let mut agents = BTreeMap::<String, bool>::new();
        for host in &result.hosts {
            *agents.entry(host.agent.clone()).or_default() |= host.portable_names;
        }
        let configure = || {
            for (agent, needs_portable_names) in &agents {
                let own = ConfigFile::open(setup.config.file_to_edit()?)?;
                own.set_agent(agent, interactive, *needs_portable_names)?;
            }
            Ok(())
        };
        let hosts = &mut result.hosts;
        let switch = || {
            for (change, report) in changes.into_iter().zip(hosts) {
                match change.write(global, run.clone()) {
                    Ok(backup) => report.backup = backup,
                    Err(failure) => report.problems.push(failure.to_string()),
                }
            }
            Ok(())
        };
        (result.granted, _) =
            import.apply(global, &result.access, "setup", configure, switch).await?;
        result.applied = true;
        Ok(result)
    }
}

/// Returns the failure of a setup without a host that can be changed. `faults` has the reasons for the hosts that have
/// a file.
fn no_host(faults: &[String]) -> Failure {
    if !faults.is_empty() {
        return Failure::failed(format!(
            "no host can be set up: {}; correct this, then run `mgp setup` again",
            faults.join("; ")
        ));
    }
    let known = KnownHost::ALL.map(KnownHost::name).join(", ");
    Failure::failed(format!(
        "no host of this user has servers; add one with `mgp servers add`, then name your host: `mgp setup HOST`, which is one of {known}"
    ))
}

/// Reads the servers of a host; `None` if it has none. Fails if mgp cannot change the host's file, unless the file
/// would stay as it is.
fn changeable_source(global: &Global, setup: &Setup, host: KnownHost) -> CliResult<Option<Source>> {
    let source = read_host_file(global, host)?;
    if source.as_ref().is_some_and(Source::has_servers) {
        HostChange::plan(global, host, &setup.config, "")?;
    }
    Ok(source)
}

pub(crate) async fn run(global: &Global, setup: &Setup) -> CliResult {
    let mut planned = Planned::new(global, setup)?;
    let has_changes = !planned.result.changes_nothing();
    // With `--json`, do not print a plan without changes: the output is one document, the result that follows.
    if setup.dry_run || (!setup.yes && (has_changes || !global.json)) {
        print(global, &planned.result)?;
        if setup.dry_run {
            return Ok(());
        }
        // Do not print the faults again with the result.
        planned.result.faults.clear();
    }
    if has_changes && !setup.yes {
        let no_terminal = "nothing was changed: there is no terminal for the question; `mgp setup --yes` changes the files without asking, and `mgp setup --dry-run` only shows the changes";
        prompt::require(global, "Change these files?", "nothing was changed", no_terminal)?;
    }
    admit_edit(global, &setup.config).await?;
    let interactive = match setup.interactive {
        Some(answer) => Some(answer == YesNo::Yes),
        None if setup.yes || !has_changes => None,
        None => ask_at_hosts(global, &planned.import.config().kernel)?,
    };
    // Create the state folder first: if it cannot be used, no file is written.
    state::create_folder(global)?;
    let mut result = planned.apply(global, setup, interactive).await?;
    try_host::try_hosts(global, &setup.config, &mut result).await;
    let is_useless = |host: &HostReport| host.ready.unwrap_or(0) == 0 && !host.problems.is_empty();
    let has_problem = !result.hosts.is_empty() && result.hosts.iter().all(is_useless)
        || result.hosts.iter().any(|host| host.ready.is_none());
    print(global, &result)?;
    if has_problem {
        return Err(Failure::failed(
            "not every host can use mgp yet; `mgp doctor` checks all of it, `mgp undo` restores the files",
        ));
    }
    Ok(())
}

/// Asks whether people will confirm dangerous calls in the hosts; `None` if this command cannot ask a person.
fn ask_at_hosts(global: &Global, kernel: &KernelConfig) -> CliResult<Option<bool>> {
    if prompt::is_interactive(global) {
        let (in_form, elsewhere) = (limit(kernel.form_timeout), limit(kernel.approval_timeout));
        let text = format!(
            "Where do you answer before a dangerous call?\n\
             \x20 y  in the host, if it shows forms and you sit at it: a call waits up to {in_form}\n\
             \x20 n  in `mgp console` or `mgp approvals watch`: a call waits up to {elsewhere}, and runs when it is\n\
             \x20    made again after a later answer"
        );
        print_note(global, &text);
    }
    prompt::prefer(global, "In the hosts?")
}

/// Returns a time limit as people read it, e.g. `10 minutes` or `50 s`.
fn limit(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    if minutes > 0 && time == Duration::from_mins(minutes) {
        plural(minutes, "minute")
    } else {
        mgp_types::duration_words(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_whose_file_could_not_be_written_is_not_among_those_to_restart() {
        let host = |name: &str, ready: Option<usize>, problems: &[&str]| HostReport {
            host: name.to_owned(),
            agent: name.to_owned(),
            portable_names: false,
            note: None,
            file: PathBuf::from("mcp.json"),
            difference: Difference::new(&[], &["mgp".to_owned()], true),
            beside: Vec::new(),
            backup: None,
            ready,
            tools: ready.map(|_| 3),
            recorded: Vec::new(),
            problems: problems.iter().map(|&problem| problem.to_owned()).collect(),
            refused_name: None,
        };
        let shown = |hosts: Vec<HostReport>| {
            let mut out = Output::default();
            let result = SetupResult {
                applied: true,
                file: PathBuf::from("servers.toml"),
                hosts,
                without_servers: Vec::new(),
                servers: Vec::new(),
                access: BTreeMap::new(),
                granted: Vec::new(),
                not_ready: BTreeSet::new(),
                faults: Vec::new(),
            };
            result.render_done(&mut out);
            out.text().to_owned()
        };
        let denied = || host("cursor", None, &["`mcp.json` cannot be written"]);
        let both = shown(vec![denied(), host("zed", Some(1), &[])]);
        assert!(both.contains("next: restart zed, and"), "{both}");
        let idle = shown(vec![host("zed", Some(0), &[])]);
        assert!(idle.contains("no server that zed may use is ready: `mgp doctor`"), "{idle}");
        let alone = shown(vec![denied()]);
        assert!(!alone.contains("restart") && !alone.contains("nothing to change"), "{alone}");
    }
}
