//! `mgp import`: copies the servers of other hosts into the configuration (MGP §15.2).

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use mgp_discovery::import::{Entry, Host, Import as Read, ImportOutcome, Plan, read};
use mgp_discovery::{Config, ServerConfig, settings};
use serde::Serialize;

use super::grant::{self, GrantResult};
use super::probe::describe_reach;
use crate::args::ConfigArg;
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::hosts::{KnownHost, home};
use crate::output::{Cell, Color, Output, Render, print, print_note};

/// `mgp import`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  mgp import                          # show the servers of all hosts of this computer\n  mgp import claude-code --apply      # copy them, and grant the agent claude-code access\n  mgp import ./server.json --apply --agent default"
)]
pub(crate) struct Import {
    /// Hosts (claude-desktop, claude-code, cursor, vscode) or files; the default is all hosts of this user
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
    /// A copy of the file before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<PathBuf>,
    /// Each server and its source.
    servers: Vec<ImportedServer>,
    /// The grants, by server.
    granted: Vec<GrantResult>,
}

/// A server of another host.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ImportedServer {
    /// The name in the file of the host.
    name: String,
    /// The file of that host.
    source: PathBuf,
    /// The id in the configuration; absent if it was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The command line or URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<String>,
    /// The environment variables and headers.
    sets: Vec<String>,
    /// The reason it was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
    /// Settings that were not copied, and steps that remain.
    notes: Vec<String>,
}

impl Render for ImportResult {
    fn render(&self, out: &mut Output) {
        for ImportedServer { name, source, id, runs, sets, left_out, notes } in &self.servers {
            let mark = if id.is_some() {
                Cell::from("+").color(Color::Green)
            } else {
                Cell::from("-").color(Color::Dim)
            };
            let mut line = format!("{name}  from {}", source.display());
            if let Some(runs) = runs {
                let verb = if runs.contains("://") && !runs.contains(' ') { "at" } else { "runs" };
                line = format!("{line}  {verb} {runs}");
            }
            if let Some(id) = id.as_ref().filter(|id| *id != name) {
                line = format!("{line}  as {id}");
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
        for granted in &self.granted {
            granted.render(out);
        }
        let added = self.servers.iter().filter(|server| server.id.is_some()).count();
        let file = self.file.display();
        if !self.applied && added > 0 {
            out.line(format!("nothing was written; `--apply` adds {added} to {file}"));
        } else if added == 0 {
            out.line("nothing to add");
        } else {
            out.line(format!("added {added} to {file}"));
            if let Some(backup) = &self.backup {
                out.line(format!(
                    "the previous file is in {}; the newest ten are kept",
                    backup.display()
                ));
            }
            out.line("next: `mgp doctor`, then `mgp connect HOST`");
        }
    }
}

/// A file that was read, and the agent name of its host.
struct Source {
    read: Read,
    agent: String,
}

pub(crate) async fn run(global: &Global, import: &Import) -> CliResult {
    let file = import.config.file_to_edit()?;
    let mut sources = sources(global, import)?;
    let mut servers: Vec<ImportedServer> =
        sources.iter_mut().flat_map(|source| remove_mgp(&mut source.read)).collect();
    let reads: Vec<Read> = sources.iter().map(|source| source.read.clone()).collect();
    let plan = Plan::new(&file, &reads)?;
    let after = Config::parse(&file, plan.text())?.config;
    servers.extend(plan.lines().iter().map(|line| {
        let (id, left_out) = match &line.outcome {
            ImportOutcome::Added(id) => (Some(id.clone()), None),
            ImportOutcome::Skipped(reason) => (None, Some(reason.clone())),
            _ => (None, None),
        };
        let server = id.as_ref().and_then(|id| after.server(id));
        ImportedServer {
            name: line.name.clone(),
            source: line.source.clone(),
            id,
            runs: server.map(describe_reach),
            sets: server.map(settings).unwrap_or_default(),
            left_out,
            notes: line.notes.clone(),
        }
    }));
    let mut result =
        ImportResult { file, applied: import.apply, backup: None, servers, granted: Vec::new() };
    if import.apply && !plan.is_idle() {
        result.backup = plan.apply()?;
        if !import.no_grant {
            result.granted =
                grants(global, import, &sources, &result.servers, &result.file).await?;
        }
    }
    print(global, &result)
}

/// Removes the entry of `mgp connect`, with which the kernel would start itself.
fn remove_mgp(read: &mut Read) -> Vec<ImportedServer> {
    let mut removed = Vec::new();
    let source = read.source.clone();
    read.servers.retain(|(name, entry, _)| {
        let is_mgp = is_mgp(entry);
        if is_mgp {
            removed.push(ImportedServer {
                name: name.clone(),
                source: source.clone(),
                id: None,
                runs: None,
                sets: Vec::new(),
                left_out: Some("it is mgp itself".to_owned()),
                notes: Vec::new(),
            });
        }
        !is_mgp
    });
    removed
}

/// Grants the agent of each host access to the servers of that host.
async fn grants(
    global: &Global,
    import: &Import,
    sources: &[Source],
    imported: &[ImportedServer],
    file: &Path,
) -> CliResult<Vec<GrantResult>> {
    // No approvals are needed: the file is the user's own.
    let given = mgp_discovery::Sources::single(file);
    let trust =
        mgp_discovery::Trust::new(std::sync::Arc::new(mgp_types::store::MemoryStore::new()));
    let config = given.load(&trust).await?.config;
    let mut granted = Vec::new();
    for source in sources {
        let from = |server: &&ServerConfig| {
            let is_it = |one: &ImportedServer| {
                one.id.as_deref() == Some(server.id.as_str()) && one.source == source.read.source
            };
            imported.iter().any(is_it)
        };
        let servers: Vec<&ServerConfig> = config.servers.iter().filter(from).collect();
        if servers.is_empty() {
            continue;
        }
        let agent = import.agent.as_deref().unwrap_or(&source.agent);
        let because = format!("mgp import from {}", source.read.source.display());
        granted.extend(grant::grant_access(global, agent, &servers, &because).await?);
    }
    Ok(granted)
}

/// Reads the named files and hosts, or all hosts.
fn sources(global: &Global, import: &Import) -> CliResult<Vec<Source>> {
    let mut sources = Vec::new();
    if import.from.is_empty() {
        for host in KnownHost::ALL {
            for file in host_files(host, import)? {
                match read_host(host, &file) {
                    Ok(source) => sources.push(source),
                    // A host without servers is skipped.
                    Err(failure) if failure.to_string().contains("it has no `") => {}
                    Err(failure) => print_note(global, &failure.to_string()),
                }
            }
        }
    }
    for name in &import.from {
        match KnownHost::from_name(name) {
            Some(host) => {
                let files = host_files(host, import)?;
                if files.is_empty() {
                    let file = host.user_file(&home()?);
                    return Err(Failure::failed(format!(
                        "{name} has no file; looked for `{}`",
                        file.display()
                    )));
                }
                for file in files {
                    sources.push(read_host(host, &file)?);
                }
            }
            None => sources.push(read_file(name)?),
        }
    }
    if sources.is_empty() {
        return Err(Failure::failed(
            "no host of this computer has servers; name a file: `mgp import FILE`",
        ));
    }
    Ok(sources)
}

/// Returns the existing files of a host.
fn host_files(host: KnownHost, import: &Import) -> CliResult<Vec<PathBuf>> {
    // Files of a project are not written by the user, so they are read only on request.
    let project = host.project_file(&std::env::current_dir()?).filter(|_| import.project);
    let files = std::iter::once(host.user_file(&home()?)).chain(project);
    Ok(files.filter(|file| file.exists()).collect())
}

fn read_host(host: KnownHost, file: &Path) -> CliResult<Source> {
    let read = read(host.format(), file, &read_text(file)?)?;
    Ok(Source { read, agent: host.name().to_owned() })
}

fn read_file(name: &str) -> CliResult<Source> {
    let file = PathBuf::from(name);
    if !file.exists() {
        let known = KnownHost::ALL.map(KnownHost::name).join(", ");
        return Err(Failure::usage(format!(
            "`{name}` is neither a known host nor a file; known: {known}"
        )));
    }
    let file = file.canonicalize().unwrap_or(file);
    let text = read_text(&file)?;
    let (format, agent) = match KnownHost::from_file(&file) {
        Some(host) => (host.format(), host.name()),
        None if is_registry(&text) => (Host::Registry, "default"),
        None => (Host::Generic, "default"),
    };
    Ok(Source { read: read(format, &file, &text)?, agent: agent.to_owned() })
}

const MAX_FILE_BYTES: u64 = 64 << 20;

fn read_text(file: &Path) -> CliResult<String> {
    let failed =
        |reason: String| Failure::failed(format!("`{}` cannot be read: {reason}", file.display()));
    let metadata = fs::metadata(file).map_err(|error| failed(error.to_string()))?;
    // Opening a pipe would block.
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(failed("it is not a plain file, or too long".to_owned()));
    }
    fs::read_to_string(file).map_err(|error| failed(error.to_string()))
}

/// Returns whether a text is a document of the MCP registry.
fn is_registry(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return false };
    let value = value.get("server").unwrap_or(&value);
    value.get("name").is_some()
        && (value.get("packages").is_some() || value.get("remotes").is_some())
}

fn is_mgp(entry: &Entry) -> bool {
    let program = entry.command.as_deref().map(Path::new).and_then(Path::file_stem);
    program.is_some_and(|name| name == "mgp") && entry.args.iter().any(|arg| arg == "serve")
}
