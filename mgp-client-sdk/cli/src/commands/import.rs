//! The command `mgp import`: copies the servers of other hosts into the configuration (MGP §15.2).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use mgp_discovery::import::{
    Entry, Host, Import as Read, ImportLine, ImportOutcome, ImportedServer, Plan, ToolLimit, read,
    read_of_user, switched_off,
};
use mgp_discovery::{Config, DiscoveryError, Origin, SecretFile, describe_target, settings};
use mgp_security::NameFlaw;
use serde::Serialize;

use super::grant::{self, GrantResult, NewAccess};
use crate::args::{ConfigArg, Global};
use crate::config_file;
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::hosts::{KnownHost, claude_settings, home};
use crate::operator::admit_edit;
use crate::output::{Cell, Color, Output, Render, print, print_note};
use crate::state;
pub(super) use crate::this_program::is_mgp;

mod denied;

use denied::without_denied;

/// `mgp import`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  mgp import                          # show the servers of all hosts of this computer\n  mgp import claude-code --apply      # copy them, and let the agent claude-code use exactly these\n  mgp import ./server.json --apply --agent default"
)]
pub(crate) struct Import {
    /// Hosts, as `mgp connect --help` lists them, or files; the default is all hosts of this user
    #[arg(value_name = "HOST|FILE")]
    from: Vec<String>,
    /// Write the configuration; without this, only show the plan
    #[arg(long)]
    apply: bool,
    /// Also read the hosts' files in the project of this folder
    #[arg(long)]
    project: bool,
    /// Agent that gets access; the default is the name of the host
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Write the configuration only; grant nothing and start no server
    #[arg(long)]
    no_grant: bool,
    #[command(flatten)]
    config: ConfigArg,
}

/// The result of `mgp import`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ImportResult {
    /// The configuration file.
    file: PathBuf,
    /// `true` if the file was written; otherwise this is the plan.
    applied: bool,
    /// The path of a copy of the file as it was before this change.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<PathBuf>,
    /// Each server and its source.
    servers: Vec<ServerReport>,
    /// The servers that each agent gets access to, i.e. the servers of its host.
    access: BTreeMap<String, BTreeSet<String>>,
    /// The access and permissions that were granted, for each server.
    granted: Vec<GrantResult>,
}

/// A server of another host.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ServerReport {
    /// The name in the file of the host.
    name: String,
    /// The file of that host.
    source: PathBuf,
    /// The server's id in the configuration; absent if the server was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// `true` if the configuration has the same server already, or gets it from another host.
    present: bool,
    /// The command line or URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<String>,
    /// The environment variables and headers that the server gets.
    sets: Vec<String>,
    /// The reason why the server was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
    /// Settings that were not copied, and steps that remain.
    notes: Vec<String>,
}

impl ServerReport {
    fn new(line: &ImportLine, config: &Config) -> Self {
        let (id, is_present, left_out) = match &line.outcome {
            ImportOutcome::Added(id) => (Some(id.clone()), false, None),
            ImportOutcome::Present(id) => (Some(id.clone()), true, None),
            ImportOutcome::Skipped(reason) => (None, false, Some(reason.clone())),
            _ => (None, false, None),
        };
        let server = id.as_ref().filter(|_| !is_present).and_then(|id| config.server(id));
        Self {
            name: line.name.clone(),
            source: line.source.clone(),
            id,
            present: is_present,
            runs: server.map(describe_target),
            sets: server.map(settings).unwrap_or_default(),
            left_out,
            notes: line.notes.clone(),
        }
    }

    pub(super) fn is_added(&self) -> bool {
        self.id.is_some() && !self.present
    }

    /// Returns whether the import does not add the server, because the configuration already has it, or because it
    /// stays in the host's file. For the entry of mgp itself, returns `false`.
    pub(super) fn is_kept(&self) -> bool {
        !self.is_added() && self.left_out.as_deref() != Some(IS_MGP)
    }

    pub(super) fn has_notes(&self) -> bool {
        !self.notes.is_empty()
    }

    pub(super) fn render(&self, out: &mut Output) {
        let Self { name, source, id, runs, sets, left_out, notes, .. } = self;
        let mark = match id {
            Some(_) if self.present => Cell::from("=").color(Color::Dim),
            Some(_) => Cell::from("+").color(Color::Green),
            None => Cell::from("-").color(Color::Dim),
        };
        let mut line = format!("{name}  from {}", source.display());
        if let Some(runs) = runs {
            let verb = if runs.contains("://") && !runs.contains(' ') { "at" } else { "runs" };
            line = format!("{line}  {verb} {runs}");
        }
        match id {
            Some(id) if self.present => line = format!("{line}  is the same as `{id}` in mgp"),
            Some(id) if id != name => line = format!("{line}  as {id}"),
            _ => {}
        }
        if let Some(reason) = left_out {
            line = format!("{line}  left out: {reason}");
        }
        out.status_line(&mark, &line);
        for set in sets {
            out.line(format!("    sets {set}"));
        }
        for note in notes {
            out.line(format!("    {note}"));
        }
    }
}

impl Render for ImportResult {
    fn render(&self, out: &mut Output) {
        for server in &self.servers {
            server.render(out);
        }
        GrantResult::render_all(&self.granted, out);
        GrantResult::render_failed(&self.granted, &BTreeSet::new(), out);
        let added = self.servers.iter().filter(|server| server.is_added()).count();
        let file = self.file.display();
        if !self.applied {
            for (agent, servers) in &self.access {
                let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
                out.line(format!("`--apply` lets {agent} use {}", servers.join(", ")));
            }
        }
        if !self.applied && added > 0 {
            out.line(format!("nothing was written; `--apply` adds {added} to {file}"));
        } else if added == 0 {
            out.line("nothing to add");
        } else {
            out.line(format!("added {added} to {file}"));
            if let Some(backup) = &self.backup {
                out.line(config_file::backup_line(backup));
            }
            out.hint("next: `mgp doctor`, then `mgp connect HOST --replace`");
        }
    }
}

/// A host's file that was read, with the agent name of the host.
pub(super) struct Source {
    read: Read,
    agent: String,
}

impl Source {
    /// Returns whether the host has servers that can be copied, or starts mgp already.
    pub(super) fn has_servers(&self) -> bool {
        !self.read.servers.is_empty()
    }

    /// Returns whether the host starts servers of the user that cannot be copied.
    fn has_left_out(&self) -> bool {
        self.read.refused.iter().any(|refused| !refused.is_intended())
    }
}

/// A plan to add the servers of hosts to the configuration.
pub(super) struct ImportPlan {
    plan: Plan,
    /// The configuration after the import.
    config: Config,
    sources: Vec<Source>,
    pub(super) servers: Vec<ServerReport>,
}

impl ImportPlan {
    pub(super) fn new(file: &Path, mut sources: Vec<Source>) -> CliResult<Self> {
        let mut servers: Vec<ServerReport> =
            sources.iter_mut().flat_map(|source| remove_mgp(&mut source.read)).collect();
        let reads: Vec<Read> = sources.iter().map(|source| source.read.clone()).collect();
        // Refuse ids with a flaw, because the kernel uses no tool of a server with such an id.
        let fits =
            |id: &str, others: &[&str]| NameFlaw::check_server(id, others.iter().copied()).is_ok();
        let plan = Plan::with_id_rule(file, &reads, &fits)?;
        let config = planned_config(file, &plan)?;
        servers.extend(plan.lines().iter().map(|line| ServerReport::new(line, &config)));
        Ok(Self { plan, config, sources, servers })
    }

    /// Returns the text of the configuration after the import.
    pub(super) fn text(&self) -> &str {
        self.plan.text()
    }

    /// Returns the servers that each agent gets access to, i.e. exactly the servers of its host.
    pub(super) fn access(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut access = BTreeMap::<String, BTreeSet<String>>::new();
        for source in &self.sources {
            let of_source =
                self.servers.iter().filter(|server| server.source == source.read.source);
            let ids: Vec<String> = of_source.filter_map(|server| server.id.clone()).collect();
            if !ids.is_empty() {
                access.entry(source.agent.clone()).or_default().extend(ids);
            }
        }
        access
    }

    /// Starts the servers once, writes the configuration, calls `configure`, grants access, and then calls `switch`.
    /// Returns the grants, and the path of a back-up of the previous configuration.
    pub(super) async fn apply(
        &self,
        global: &Global,
        access: &BTreeMap<String, BTreeSet<String>>,
        command: &str,
        configure: impl FnOnce() -> CliResult,
        switch: impl FnOnce() -> CliResult,
    ) -> CliResult<(Vec<GrantResult>, Option<PathBuf>)> {
        let mut backup = None;
        let write = || {
            backup = config_file::apply(&self.plan)?;
            configure()
        };
        let wanted = access.iter().map(|(agent, ids)| NewAccess {
            agent: agent.clone(),
            servers: ids.iter().filter_map(|id| self.config.server(id)).collect(),
            tools: ids.iter().map(|id| (id.clone(), self.tools(agent, id))).collect(),
            because: format!("mgp {command}, for {agent}"),
        });
        let wanted = wanted.collect();
        let granted = grant::grant_access(global, &self.config, wanted, write, switch).await?;
        Ok((granted, backup))
    }

    /// Returns the tools of a server that an agent gets, i.e. the tools that its host lets it use.
    fn tools(&self, agent: &str, id: &str) -> ToolLimit {
        let lines = self.plan.lines().iter().filter(|line| match &line.outcome {
            ImportOutcome::Added(own) | ImportOutcome::Present(own) => own == id,
            _ => false,
        });
        let of_agent = lines.filter(|line| {
            let mut sources = self.sources.iter().filter(|source| source.agent == agent);
            sources.any(|source| source.read.source == line.source)
        });
        let limits = of_agent.map(|line| line.tools.clone());
        limits.reduce(|one, other| one.union(&other)).unwrap_or_default()
    }
}

pub(crate) async fn run(global: &Global, import: &Import) -> CliResult {
    let file = import.config.file_to_edit()?;
    let mut sources = sources(global, import)?;
    if let Some(agent) = &import.agent {
        for source in &mut sources {
            source.agent.clone_from(agent);
        }
    }
    let mut planned = ImportPlan::new(&file, sources)?;
    let mut result = ImportResult {
        file,
        applied: import.apply,
        backup: None,
        access: if import.no_grant { BTreeMap::new() } else { planned.access() },
        servers: std::mem::take(&mut planned.servers),
        granted: Vec::new(),
    };
    if import.apply {
        admit_edit(global, &import.config).await?;
    }
    if import.apply && import.no_grant {
        result.backup = config_file::apply(&planned.plan)?;
        control::reload(global).await;
    } else if import.apply {
        (result.granted, result.backup) =
            planned.apply(global, &result.access, "import", || Ok(()), || Ok(())).await?;
    }
    print(global, &result)
}

/// Returns the configuration that a plan will write.
pub(super) fn planned_config(file: &Path, plan: &Plan) -> CliResult<Config> {
    let mut config = Config::parse(file, plan.text())?.config;
    // The file belongs to the user, so a `${…}` in it is allowed to name any variable, file or command.
    for server in &mut config.servers {
        server.origin = Origin::Named;
    }
    Ok(config)
}

/// The reason reported for the entry that `mgp connect` has written.
const IS_MGP: &str = "it is mgp itself";

/// Removes the entry that `mgp connect` has written, because with it the kernel would start itself.
fn remove_mgp(read: &mut Read) -> Vec<ServerReport> {
    let mut removed = Vec::new();
    let source = read.source.clone();
    read.servers.retain(|ImportedServer { name, entry, .. }| {
        let is_mgp = is_mgp(entry);
        if is_mgp {
            removed.push(ServerReport {
                name: name.clone(),
                source: source.clone(),
                id: None,
                present: false,
                runs: None,
                sets: Vec::new(),
                left_out: Some(IS_MGP.to_owned()),
                notes: Vec::new(),
            });
        }
        !is_mgp
    });
    removed
}

/// Reads the files and hosts named on the command line, or the files of all hosts.
fn sources(global: &Global, import: &Import) -> CliResult<Vec<Source>> {
    let (mut sources, mut faults) = (Vec::new(), Vec::new());
    if import.from.is_empty() {
        for host in KnownHost::ALL {
            for file in host_files(global, host, import)? {
                match read_host(global, host, &file) {
                    Ok(source) => sources.push(source),
                    // Skip hosts that have no servers.
                    Err(failure) if failure.is_no_servers() => {}
                    Err(failure) => faults.push(failure.to_string()),
                }
            }
        }
    }
    for name in &import.from {
        match KnownHost::from_name(name) {
            Some(host) => {
                let files = host_files(global, host, import)?;
                if files.is_empty() {
                    let file = host.user_file(&home()?);
                    return Err(Failure::failed(format!(
                        "{name} has no file; looked for `{}`",
                        file.display()
                    )));
                }
                for file in files {
                    sources.push(read_host(global, host, &file)?);
                }
            }
            None => sources.push(read_file(name)?),
        }
    }
    if sources.is_empty() && !faults.is_empty() {
        return Err(Failure::failed(format!(
            "no host's servers can be read: {}; correct this, or name a file: `mgp import FILE`",
            faults.join("; ")
        )));
    }
    if sources.is_empty() {
        return Err(Failure::failed(
            "no host of this computer has servers; name a file: `mgp import FILE`",
        ));
    }
    for fault in &faults {
        print_note(global, fault);
    }
    Ok(sources)
}

/// Returns the existing files of a host. Prints a note about the host's settings file, if it lists servers, because no
/// command can change that file.
fn host_files(global: &Global, host: KnownHost, import: &Import) -> CliResult<Vec<PathBuf>> {
    let home = home()?;
    let settings = host.settings_with_servers(&home);
    if let Some(settings) = &settings {
        let (shown, title) = (settings.display(), host.title());
        print_note(
            global,
            &format!(
                "mgp cannot change `{shown}`, so {title} starts the servers in it itself, not governed; remove there what you import"
            ),
        );
    }
    warn_of_unread(global, host, &home);
    // A project's file may come from other people, so it is read only with `--project`.
    let project = host.project_file(&std::env::current_dir()?).filter(|_| import.project);
    let files = std::iter::once(host.user_file(&home)).chain(settings).chain(project);
    // A file whose folder cannot be read is reported when it is read.
    Ok(files.filter(|file| file.try_exists().unwrap_or(true)).collect())
}

/// Reads the servers of a host; `None` if the host has no file, or its file has no servers, not even servers that
/// cannot be copied.
pub(super) fn read_host_file(global: &Global, host: KnownHost) -> CliResult<Option<Source>> {
    let home = home()?;
    if let Some(settings) = host.settings_with_servers(&home) {
        let (shown, name, title) = (settings.display(), host.name(), host.title());
        print_note(
            global,
            &format!(
                "`{shown}` has servers that {title} starts itself, not governed; `mgp import {name} --apply` copies them, then remove them there"
            ),
        );
    }
    warn_of_unread(global, host, &home);
    let file = host.user_file(&home);
    if !file.try_exists().unwrap_or(true) {
        return Ok(None);
    }
    match read_host(global, host, &file) {
        Ok(source) => Ok(Some(source).filter(|one| one.has_servers() || one.has_left_out())),
        Err(failure) if failure.is_no_servers() => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn warn_of_unread(global: &Global, host: KnownHost, home: &Path) {
    for warning in host.unread_servers(home) {
        print_note(global, &warning);
    }
}

fn read_host(global: &Global, host: KnownHost, file: &Path) -> CliResult<Source> {
    let mut read = read_servers(global, host, file, &read_text(file)?)?;
    read.leave_out(&switched_off_servers(host, file));
    Ok(Source { read, agent: agent_of(host) })
}

/// Returns the agent name with which the user's own file of a host starts mgp, else the name of the host. A project's
/// file may come from other people, so it chooses no agent.
fn agent_of(host: KnownHost) -> String {
    let named = || {
        let file = host.user_file(&home().ok()?);
        let servers = read(host.format(), &file, &read_text(&file).ok()?).ok()?.servers;
        let own = servers.iter().find(|server| is_own(server))?;
        option_of(&own.entry, "--agent")
    };
    named().unwrap_or_else(|| host.name().to_owned())
}

/// Reads the servers in the text of a host's file, without the tools that the host's rules deny.
pub(super) fn read_servers(
    global: &Global,
    host: KnownHost,
    file: &Path,
    text: &str,
) -> CliResult<Read> {
    without_denied(read_entries(global, host, file, text)?, file)
}

/// Reads the entries in the text of a host's file. Only the user's own file is allowed to name stored secrets.
fn read_entries(global: &Global, host: KnownHost, file: &Path, text: &str) -> CliResult<Read> {
    let home = home()?;
    let mut of_user = std::iter::once(host.user_file(&home)).chain(host.settings_file(&home));
    let is_same =
        |own: &PathBuf| file == own || Some(file) == dunce::canonicalize(own).ok().as_deref();
    let Some(user_file) = of_user.find(is_same) else {
        return read(host.format(), file, text).map_err(unreadable);
    };
    let secrets = SecretFile::in_folder(&state::folder(global)?).names();
    let secrets = secrets.map_err(|error| Failure::failed(error.to_string()))?;
    // Use the unresolved path even if `file` is the resolved one, so that each import has the same source.
    read_of_user(host.format(), &user_file, text, &secrets).map_err(unreadable)
}

/// Returns the failure to read a host's file, so that the caller can recognize a file without servers.
fn unreadable(error: DiscoveryError) -> Failure {
    match error {
        DiscoveryError::NoServers { .. } => Failure::no_servers(error),
        _ => error.into(),
    }
}

/// Returns the servers of a project's `.mcp.json` that the user has disabled in Claude Code. The servers of other files
/// stay, because these settings do not apply to them.
fn switched_off_servers(host: KnownHost, file: &Path) -> Vec<String> {
    let (Host::ClaudeCode, Some(project)) = (host.format(), file.parent()) else {
        return Vec::new();
    };
    if !file.ends_with(".mcp.json") {
        return Vec::new();
    }
    let of_user = home().map(|home| host.user_file(&home));
    let files = claude_settings(file).unwrap_or_default().into_iter().chain(of_user);
    let texts = files.filter_map(|file| read_text(&file).ok());
    texts.flat_map(|text| switched_off(&text, project)).collect()
}

fn read_file(name: &str) -> CliResult<Source> {
    let file = PathBuf::from(name);
    if !file.exists() {
        let known = KnownHost::ALL.map(KnownHost::name).join(", ");
        return Err(Failure::usage(format!(
            "`{name}` is neither a known host nor a file; known: {known}"
        )));
    }
    let file = dunce::canonicalize(&file).unwrap_or(file);
    let text = read_text(&file)?;
    let (format, agent) = match KnownHost::from_imported_file(&file) {
        Some(host) => (host.format(), agent_of(host)),
        None if is_registry(&text) => (Host::Registry, "default".to_owned()),
        None => (Host::Generic, "default".to_owned()),
    };
    match read(format, &file, &text) {
        // Other hosts have files of the same names, e.g. Trae one like VS Code, in the form that most hosts use.
        Err(error @ DiscoveryError::NoServers { .. }) => {
            let generic = read(Host::Generic, &file, &text).map_err(|_| error)?;
            Ok(Source { read: generic, agent: "default".to_owned() })
        }
        read => Ok(Source { read: without_denied(read?, &file)?, agent }),
    }
}

const MAX_FILE_BYTES: u64 = 64 << 20;

pub(super) fn read_text(file: &Path) -> CliResult<String> {
    let failed =
        |reason: String| Failure::failed(format!("`{}` cannot be read: {reason}", file.display()));
    let metadata = fs::metadata(file).map_err(|error| failed(error.to_string()))?;
    // Check the kind of the file before reading it, because opening a named pipe would block.
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(failed("it is not a plain file, or too long".to_owned()));
    }
    fs::read_to_string(file).map_err(|error| failed(error.to_string()))
}

/// Returns whether a text is a server document of the MCP registry.
fn is_registry(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return false };
    let value = value.get("server").unwrap_or(&value);
    value.get("name").is_some()
        && (value.get("packages").is_some() || value.get("remotes").is_some())
}

/// Returns whether a server in a host's file is the entry of mgp for all projects.
pub(super) fn is_own(server: &ImportedServer) -> bool {
    server.name == "mgp" && server.project.is_none() && is_mgp(&server.entry)
}

/// Returns the value of an option in the entry that starts mgp.
pub(super) fn option_of(entry: &Entry, name: &str) -> Option<String> {
    let mut args = entry.args.iter();
    while let Some(argument) = args.next() {
        let value = match argument.strip_prefix(name) {
            Some("") => args.next().map(String::as_str),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        if let Some(value) = value {
            // Undo the doubling of dollar signs: the reader of a host's file doubles each dollar sign outside of
            // variables.
            return Some(value.replace("$$", "$"));
        }
    }
    None
}
