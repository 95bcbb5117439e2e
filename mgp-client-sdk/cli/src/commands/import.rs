//! `mgp import`: takes over the servers of other hosts (MGP §15.2).
//!
//! Applies to: both.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use mgp_discovery::import::{Entry, Fate, Host, Import as Read, Plan, read};
use mgp_discovery::{Config, Server, settings};
use serde::Serialize;

use super::grant::{self, Granted};
use super::probe::shown;
use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::hosts::Known;
use crate::output::{Cell, Page, Shown, Tone, note, show};
use crate::places::{Configured, home};

/// `mgp import`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  mgp import                          # what do the hosts of this computer have?\n  mgp import claude-code --apply      # take it over, and let the agent claude-code use it\n  mgp import ./server.json --apply --agent default"
)]
pub(crate) struct Import {
    /// Hosts (claude-desktop, claude-code, cursor, vscode) or files; without one, all hosts of this user
    #[arg(value_name = "HOST|FILE")]
    from: Vec<String>,
    /// Write; without it only what would be done is shown
    #[arg(long)]
    apply: bool,
    /// Read the hosts' files of this folder's project too
    #[arg(long)]
    project: bool,
    /// The agent that gets access, instead of the host's name
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Write the configuration only: no access, no permissions, nothing is started to be pinned
    #[arg(long)]
    no_grant: bool,
    #[command(flatten)]
    configured: Configured,
}

/// What became of the servers of other hosts.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Imported {
    /// The file they come into.
    file: PathBuf,
    /// Whether it was written; otherwise this is what would be done.
    applied: bool,
    /// What the file was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<PathBuf>,
    /// Each server and its source.
    servers: Vec<Found>,
    /// What was granted.
    granted: Vec<Granted>,
}

/// A server of another host.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Found {
    /// Its name there.
    name: String,
    /// The file it is from.
    source: PathBuf,
    /// Its id here; absent where it was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// What it runs, or where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<String>,
    /// Its variables and headers.
    sets: Vec<String>,
    /// Why it was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
    /// What could not be taken, and what is left to do.
    notes: Vec<String>,
}

impl Shown for Imported {
    fn show(&self, page: &mut Page) {
        for Found { name, source, id, runs, sets, left_out, notes } in &self.servers {
            let mark = if id.is_some() {
                Cell::from("+").tone(Tone::Good)
            } else {
                Cell::from("-").tone(Tone::Quiet)
            };
            let mut line = format!("{name}  from {}", source.display());
            if let Some(runs) = runs {
                line = format!("{line}  runs {runs}");
            }
            if let Some(id) = id.as_ref().filter(|id| *id != name) {
                line = format!("{line}  as {id}");
            }
            if let Some(why) = left_out {
                line = format!("{line}  left out: {why}");
            }
            page.marked(&mark, &line);
            for set in sets {
                page.line(format!("    sets {set}"));
            }
            for note in notes {
                page.line(format!("    {note}"));
            }
        }
        for granted in &self.granted {
            granted.show(page);
        }
        let added = self.servers.iter().filter(|server| server.id.is_some()).count();
        let file = self.file.display();
        if !self.applied && added > 0 {
            page.line(format!("nothing was written; `--apply` adds {added} to {file}"));
        } else if added == 0 {
            page.line("there is nothing to add");
        } else {
            page.line(format!("added {added} to {file}"));
            if let Some(backup) = &self.backup {
                page.line(format!("what it was before is in {}", backup.display()));
            }
            page.line("next: `mgp doctor`, then `mgp connect HOST`");
        }
    }
}

/// A file that was read, and the agent its host is.
struct Source {
    read: Read,
    agent: String,
}

pub(crate) async fn run(global: &Global, import: &Import) -> Ended {
    let file = import.configured.own_file()?;
    let mut sources = sources(global, import)?;
    let mut servers = Vec::new();
    for source in &mut sources {
        let path = source.read.source.clone();
        // What `mgp connect` wrote would start us behind ourselves.
        source.read.servers.retain(|(name, entry, _)| {
            let is_us = is_us(entry);
            if is_us {
                servers.push(Found {
                    name: name.clone(),
                    source: path.clone(),
                    id: None,
                    runs: None,
                    sets: Vec::new(),
                    left_out: Some("it is mgp itself".to_owned()),
                    notes: Vec::new(),
                });
            }
            !is_us
        });
    }
    let reads: Vec<Read> = sources.iter().map(|source| source.read.clone()).collect();
    let plan = Plan::new(&file, &reads)?;
    let after = Config::parse(&file, plan.text())?.config;
    servers.extend(plan.lines().iter().map(|line| {
        let (id, left_out) = match &line.fate {
            Fate::Added(id) => (Some(id.clone()), None),
            Fate::Left(why) => (None, Some(why.clone())),
            _ => (None, None),
        };
        let server = id.as_ref().and_then(|id| after.server(id));
        Found {
            name: line.name.clone(),
            source: line.source.clone(),
            id,
            runs: server.map(shown),
            sets: server.map(settings).unwrap_or_default(),
            left_out,
            notes: line.notes.clone(),
        }
    }));
    let mut imported =
        Imported { file, applied: import.apply, backup: None, servers, granted: Vec::new() };
    if import.apply && !plan.is_idle() {
        imported.backup = plan.apply()?;
        if !import.no_grant {
            imported.granted =
                grants(global, import, &sources, &imported.servers, &imported.file).await?;
        }
    }
    show(global, &imported)
}

/// Lets the agent of each host use what is from there.
async fn grants(
    global: &Global,
    import: &Import,
    sources: &[Source],
    found: &[Found],
    file: &Path,
) -> Ended<Vec<Granted>> {
    // As it was written: by whoever wrote it, it is the user's own.
    let given = mgp_discovery::Sources::given(file);
    let trust =
        mgp_discovery::Trust::new(std::sync::Arc::new(mgp_types::store::MemoryStore::new()));
    let config = given.load(&trust).await?.config;
    let mut granted = Vec::new();
    for source in sources {
        let from = |server: &&Server| {
            let is_it = |found: &Found| {
                found.id.as_deref() == Some(server.id.as_str())
                    && found.source == source.read.source
            };
            found.iter().any(is_it)
        };
        let servers: Vec<&Server> = config.servers.iter().filter(from).collect();
        if servers.is_empty() {
            continue;
        }
        let agent = import.agent.as_deref().unwrap_or(&source.agent);
        let because = format!("mgp import from {}", source.read.source.display());
        granted.extend(grant::visible(global, agent, &servers, &because).await?);
    }
    Ok(granted)
}

/// Reads the files that were named, or those of all hosts.
fn sources(global: &Global, import: &Import) -> Ended<Vec<Source>> {
    let home = home()?;
    let folder = std::env::current_dir()?;
    let mut sources = Vec::new();
    let hosts: Vec<Known> = if import.from.is_empty() {
        Known::ALL.to_vec()
    } else {
        import.from.iter().filter_map(|from| Known::named(from)).collect()
    };
    for host in hosts {
        let user = std::iter::once(host.user_file(&home));
        // Whoever wrote a project wrote its files too: they are read when that is asked for.
        let project = host.project_file(&folder).filter(|_| import.project);
        let files: Vec<PathBuf> = user.chain(project).filter(|file| file.exists()).collect();
        if files.is_empty() && !import.from.is_empty() {
            return Err(Failure::failed(format!(
                "{} has no file here; looked for `{}`",
                host.name(),
                host.user_file(&home).display()
            )));
        }
        for file in files {
            match text(&file).and_then(|text| Ok(read(host.kind(), &file, &text)?)) {
                Ok(read) => sources.push(Source { read, agent: host.name().to_owned() }),
                // A host without servers has nothing to say.
                Err(failure) if import.from.is_empty() => {
                    if !failure.to_string().contains("it has no `") {
                        note(global, &failure.to_string());
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
    }
    for name in import.from.iter().filter(|from| Known::named(from).is_none()) {
        let file = PathBuf::from(name);
        if !file.exists() {
            let known: Vec<_> = Known::ALL.iter().map(|host| host.name()).collect();
            let known = known.join(", ");
            return Err(Failure::usage(format!(
                "`{name}` is no host that is known and no file; known: {known}"
            )));
        }
        let file = file.canonicalize().unwrap_or(file);
        let text = text(&file)?;
        let (kind, agent) = match Known::of_file(&file) {
            Some(host) => (host.kind(), host.name()),
            None if is_registry(&text) => (Host::Registry, "default"),
            None => (Host::Generic, "default"),
        };
        sources.push(Source { read: read(kind, &file, &text)?, agent: agent.to_owned() });
    }
    if sources.is_empty() {
        return Err(Failure::failed(
            "no host of this computer has servers; name a file: `mgp import FILE`",
        ));
    }
    Ok(sources)
}

/// Longer than any file that is read.
const LONGEST: u64 = 64 << 20;

fn text(file: &Path) -> Ended<String> {
    let failed =
        |why: String| Failure::failed(format!("`{}` cannot be read: {why}", file.display()));
    let metadata = fs::metadata(file).map_err(|error| failed(error.to_string()))?;
    // Opening a pipe would wait for its other end.
    if !metadata.is_file() || metadata.len() > LONGEST {
        return Err(failed("it is not a plain file, or too long".to_owned()));
    }
    fs::read_to_string(file).map_err(|error| failed(error.to_string()))
}

/// A document of the registry says which packages it has.
fn is_registry(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return false };
    let value = value.get("server").unwrap_or(&value);
    value.get("name").is_some()
        && (value.get("packages").is_some() || value.get("remotes").is_some())
}

fn is_us(entry: &Entry) -> bool {
    let program = entry.command.as_deref().map(Path::new).and_then(Path::file_stem);
    program.is_some_and(|name| name == "mgp") && entry.args.iter().any(|arg| arg == "serve")
}
