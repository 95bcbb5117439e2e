//! `mgp lock`: writes or checks `mgp.lock`, which `mgp serve --locked` enforces.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use mgp_contract::{Contract, LockDrift, LockFile, LockedServer};
use mgp_discovery::{
    ConfigFinding, Expander, FindingSeverity, LoadedConfig, SecretFile, ServerConfig, TargetConfig,
};
use mgp_types::{FileLock, PrivateFile};
use serde::Serialize;
use serde_json::Value;

use super::contract::{CommonArgs, source};
use super::probe::UnreadableTool;
use crate::args::{ConfigArg, Global};
use crate::exit::{CliResult, Failure};
use crate::output::{Cell, Color, Output, Render, plural, print, print_note};
use crate::replace_file::replace_file;
use crate::state;

/// The name of the lock file, which is in the folder of the configuration file.
pub(super) const FILE_NAME: &str = "mgp.lock";

/// The maximum time that a command waits while another one writes a lock file.
const TURN_TIMEOUT: Duration = Duration::from_secs(5);

/// `mgp lock`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Each server is started, and what was started and listed is written to `mgp.lock` beside the configuration file. `mgp serve --locked` then starts only that. A running kernel applies a changed file within about two seconds, or with `operator.proof` after `mgp reload`.\n\nExample:\n  mgp lock\n  mgp lock --check\n  mgp serve --http 127.0.0.1:8900 --locked"
)]
pub(crate) struct Lock {
    /// Servers whose entries are written; the default is all servers
    server: Vec<String>,
    /// Write nothing; fail if a server differs from the file
    #[arg(long)]
    check: bool,
    /// Lock file; the default is `mgp.lock` beside the configuration file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    common: CommonArgs,
}

/// The result of `mgp lock`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LockReport {
    /// The lock file.
    file: String,
    /// `true` if the file was written.
    is_written: bool,
    /// The servers that were read, and the servers in the file that are no longer configured.
    servers: Vec<LockedRow>,
}

/// A server in the result.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LockedRow {
    /// The id of the server.
    server: String,
    /// The number of tools.
    tools: usize,
    /// The package and its version, if a package is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    package: Option<String>,
    /// `true` if the server differs from the earlier file.
    is_changed: bool,
    /// `true` if the earlier file does not have the server, or there was no file.
    #[serde(skip)]
    is_new: bool,
    /// The differences from the earlier file, one line each.
    changes: Vec<String>,
}

impl Render for LockReport {
    fn render(&self, out: &mut Output) {
        for row in &self.servers {
            let (word, color) = match (row.is_new, row.is_changed) {
                (true, _) => ("new", Color::Yellow),
                (false, true) => ("changed", Color::Yellow),
                (false, false) => ("same", Color::Green),
            };
            let package =
                row.package.as_ref().map(|package| format!(", {package}")).unwrap_or_default();
            let text = format!("{}: {}{package}", row.server, plural(row.tools, "tool"));
            out.status_line(&Cell::from(word).color(color), &text);
            for change in &row.changes {
                out.line(format!("  {change}"));
            }
        }
        let verb = if self.is_written { "written" } else { "checked" };
        out.line(format!("{verb}: {}", self.file));
    }
}

pub(super) fn path_of(config: &ConfigArg) -> CliResult<PathBuf> {
    let sources = config.sources();
    let found = sources.files().filter(|file| file.exists()).last().map(PathBuf::from);
    let file = found.map_or_else(|| config.file_to_edit(), Ok)?;
    Ok(file.parent().unwrap_or(Path::new("")).join(FILE_NAME))
}

/// Reads the lock file of a configuration, and returns its absolute path too.
pub(crate) fn read(config: &ConfigArg) -> CliResult<(PathBuf, LockFile)> {
    let path = path_of(config)?;
    let lock = read_file(&path)?.ok_or_else(|| missing(&path))?;
    Ok((std::path::absolute(&path).unwrap_or(path), lock))
}

/// Checks that the lock file of a configuration can be read, if it exists.
pub(super) fn check(config: &ConfigArg) -> CliResult {
    read_file(&path_of(config)?).map(drop)
}

pub(super) fn missing(path: &Path) -> Failure {
    Failure::failed(format!("there is no `{}`; write it with `mgp lock`", path.display()))
}

fn read_file(path: &Path) -> CliResult<Option<LockFile>> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::failed(format!(
            "`{}` is not a lock file: {error}; restore it, or move it away and write it with `mgp lock`",
            path.display()
        ))
    };
    // Refuse a pipe, because opening it would wait for another process.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(failed(&"it is not a plain file"));
    }
    match fs::read_to_string(path) {
        Ok(text) => LockFile::parse(&text).map(Some).map_err(|error| failed(&error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

pub(crate) async fn run(global: &Global, lock: &Lock) -> CliResult {
    let path = lock.file.clone().map_or_else(|| path_of(&lock.common.config), Ok)?;
    let before = read_file(&path)?;
    if lock.check && before.is_none() {
        return Err(missing(&path));
    }
    let loaded = lock.common.config.load(global).await?;
    check_loaded(&loaded, &lock.server)?;
    let mut servers: Vec<&ServerConfig> = loaded.config.servers.iter().collect();
    if !lock.server.is_empty() {
        let named = lock.server.iter().map(|id| source::find(&loaded, id));
        servers = named.collect::<CliResult<_>>()?;
    }
    servers.retain(|server| !matches!(server.target, TargetConfig::InProcess));
    if servers.is_empty() && before.is_none() {
        let what = "no servers are configured; run `mgp setup`, or `mgp servers add`";
        return Err(Failure::failed(what));
    }
    let mut read = Vec::new();
    for server in &servers {
        let now = read_server(global, &loaded, server, &lock.common).await?;
        read.push((server.id.as_str(), now));
    }
    // Read the file again, because another `mgp lock` may have written it while this command started the servers.
    let turn = if lock.check { None } else { Some(turn(global)?) };
    let before = read_file(&path)?;
    let (entries, rows) = merged(lock, &loaded, before.as_ref(), read);
    let is_changed = rows.iter().any(|row| row.is_changed);
    if !lock.check {
        write(&path, entries)?;
        drop(turn);
        if is_changed && before.is_some() {
            print_note(
                global,
                "mgp: a kernel that runs with --locked applies the file within about two seconds, or with `operator.proof` after `mgp reload`",
            );
        }
    }
    let file = path.display().to_string();
    print(global, &LockReport { file, is_written: !lock.check, servers: rows })?;
    if lock.check && is_changed {
        return Err(Failure::failed("a server differs from the lock file"));
    }
    Ok(())
}

/// Fails if servers could not be loaded: they would be neither checked nor locked, and would lose their entries.
fn check_loaded(loaded: &LoadedConfig, chosen: &[String]) -> CliResult {
    let is_loaded =
        |id: &String| loaded.config.servers.iter().any(|server| server.id.as_str() == *id);
    if !chosen.is_empty() && chosen.iter().all(is_loaded) {
        return Ok(());
    }
    if let Some(unapproved) = &loaded.unapproved {
        return Err(Failure::failed(unapproved));
    }
    let is_broken =
        |id: &String| loaded.broken.contains(id) && (chosen.is_empty() || chosen.contains(id));
    let is_cause = |finding: &&ConfigFinding| {
        finding.severity == FindingSeverity::Error && finding.server.as_ref().is_none_or(is_broken)
    };
    let causes: Vec<String> =
        loaded.findings.iter().filter(is_cause).map(ToString::to_string).collect();
    if causes.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(causes.join("\n")))
}

/// Acquires the lock of the commands that write a lock file; waits up to [`TURN_TIMEOUT`] for another one.
fn turn(global: &Global) -> CliResult<FileLock> {
    let file = state::create_folder(global)?.join(FILE_NAME);
    Ok(PrivateFile::new(file, 0).lock(TURN_TIMEOUT)?)
}

/// Returns the entries of the new lock file, and the rows of the report. `before` is the current file, and `read` has
/// the servers that this command has started.
fn merged(
    lock: &Lock,
    loaded: &LoadedConfig,
    before: Option<&LockFile>,
    read: Vec<(&str, LockedServer)>,
) -> (BTreeMap<String, LockedServer>, Vec<LockedRow>) {
    let mut entries = before.map(|lock| lock.servers.clone()).unwrap_or_default();
    let ids: BTreeSet<&str> = read.iter().map(|(id, _)| *id).collect();
    let mut rows = Vec::new();
    for (id, now) in read {
        rows.push(row(id, before.and_then(|lock| lock.servers.get(id)), &now));
        entries.insert(id.to_owned(), now);
    }
    if lock.server.is_empty() {
        // Keep the entry of a server that is switched off, for the time when it is switched on again.
        let is_kept = |id: &String| loaded.disabled.contains(id) || ids.contains(id.as_str());
        let gone = entries.iter().filter(|entry| !is_kept(entry.0));
        rows.extend(gone.map(|(id, old)| gone_row(id, old)));
        entries.retain(|id, _| is_kept(id));
    }
    (entries, rows)
}

fn write(path: &Path, servers: BTreeMap<String, LockedServer>) -> CliResult {
    let text = LockFile::new(servers).to_text();
    replace_file(path, &text).map_err(|error| Failure::unwritable(path, &error))
}

/// Starts a server, and reads what was started and which tools it lists.
async fn read_server(
    global: &Global,
    loaded: &LoadedConfig,
    server: &ServerConfig,
    common: &CommonArgs,
) -> CliResult<LockedServer> {
    let probed = source::probe(global, loaded, server, common).await?;
    let folder = state::folder(global).unwrap_or_default();
    let (expander, own) =
        (Expander::from_env().secrets(SecretFile::in_folder(&folder)), server.clone());
    let pass_env = loaded.config.kernel.pass_env.clone();
    // Read the server's files on a blocking thread. Expanding its variables may also run commands of the configuration.
    let read = tokio::task::spawn_blocking(move || {
        let expanded = expander.server(&own).map_err(|error| error.to_string())?;
        mgp_kernel::read_start(&pass_env, &own, &expanded)
    });
    let read = read.await.map_err(|error| Failure::failed(error.to_string()))?;
    let mut locked = read.map_err(|error| Failure::failed(format!("`{}`: {error}", server.id)))?;
    for (at, raw) in probed.raw.iter().enumerate() {
        if let Some(tool) = raw.get().ok().and_then(Contract::from_definition) {
            locked.tools.push(tool.definition);
        } else {
            let tool = UnreadableTool::new(at, raw);
            print_note(global, &format!("mgp: `{}`: {tool}; it is not locked", server.id));
        }
    }
    for name in remove_ambiguous(&mut locked.tools) {
        let id = &server.id;
        print_note(
            global,
            &format!(
                "mgp: `{id}`: the tool `{name}` cannot be used: the server lists it with two definitions; it is not locked"
            ),
        );
    }
    Ok(locked)
}

/// Removes the tools that a server lists with two definitions, because a kernel calls neither. Returns their names.
fn remove_ambiguous(tools: &mut Vec<Value>) -> BTreeSet<String> {
    let mut ambiguous = BTreeSet::new();
    let mut first = BTreeMap::new();
    for tool in tools.iter() {
        let name = tool["name"].as_str().unwrap_or_default();
        if *first.entry(name).or_insert(tool) != tool {
            ambiguous.insert(name.to_owned());
        }
    }
    tools.retain(|tool| tool["name"].as_str().is_none_or(|name| !ambiguous.contains(name)));
    ambiguous
}

fn row(id: &str, old: Option<&LockedServer>, now: &LockedServer) -> LockedRow {
    let drift = old.map(|old| LockDrift {
        server: id.to_owned(),
        started: old.changes_of_start(now),
        tools: old.changed_tools(&now.contracts()),
    });
    let changes = drift.iter().filter(|drift| !drift.is_empty());
    // Skip the first line of each description, which only repeats the name of the server.
    let changes = changes.flat_map(|drift| {
        drift
            .to_string()
            .lines()
            .skip(1)
            .map(|line| line.trim_start().to_owned())
            .collect::<Vec<_>>()
    });
    LockedRow {
        server: id.to_owned(),
        tools: now.tools.len(),
        package: now.package.as_ref().map(ToString::to_string),
        is_changed: drift.as_ref().is_none_or(|drift| !drift.is_empty()),
        is_new: old.is_none(),
        changes: changes.collect(),
    }
}

/// Returns the row of a server that is in the lock file, but not in the configuration.
fn gone_row(id: &str, old: &LockedServer) -> LockedRow {
    LockedRow {
        server: id.to_owned(),
        tools: old.tools.len(),
        package: old.package.as_ref().map(ToString::to_string),
        is_changed: true,
        is_new: false,
        changes: vec!["the server is not configured any more".to_owned()],
    }
}
