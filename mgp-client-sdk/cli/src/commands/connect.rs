//! The command `mgp connect`: edits a host's file so that the host starts `mgp`. The edits are in `connect/`.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use mgp_discovery::import::Host;
use mgp_discovery::{Config, ServerConfig};
use serde::Serialize;

use super::grant::{self, GrantResult, NewAccess};
use super::known_names::did_you_mean;
use crate::args::{ConfigArg, Global};
use crate::config_file::{self, ConfigFile};
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::hosts::{KnownHost, home};
use crate::operator::admit_edit;
use crate::output::{Output, Render, print, print_note};
use crate::replace_file::replace_file;
use crate::{prompt, state};

pub(crate) mod disconnect;
mod edit_json;
mod edit_toml;
mod edit_yaml;
mod entry;
mod host_change;
mod host_file;
mod present;
mod record;
mod syntax;
pub(crate) mod undo;

use entry::EntryOptions;
pub(super) use entry::{connected_agents, mgp_command};
pub(super) use host_change::HostChange;
pub(super) use host_file::{HostFile, host_file};
use host_file::{beside, note_other_key, refused};
use present::{PresentServer, present, starts_mgp};
pub(crate) use record::is_connected;
use record::{ENTRY, Record};
use syntax::Syntax;
use undo::CommandRun;

/// `mgp connect`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The agent of the host gets access to the servers that were imported from the host's file, and to no others.\n\nExample:\n  mgp connect claude-code --replace       # the host no longer starts the servers that mgp has\n  mgp connect cursor --project --interactive yes\n  mgp connect cursor --grant files clock  # besides or instead of imported servers\n  mgp connect generic ~/.config/other-host/mcp.json --agent other-host --interactive no"
)]
pub(crate) struct Connect {
    #[command(flatten)]
    target: HostTarget,
    /// Remove from the host's file the servers that mgp has too; `mgp disconnect` restores them
    #[arg(long)]
    replace: bool,
    /// A person sits at the host and can confirm calls
    #[arg(long, value_name = "yes|no")]
    interactive: Option<YesNo>,
    /// Agent name of the host; the default is the name of the host
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Servers that the agent may use, or `all`; the default is the servers imported from the host's file
    #[arg(long, value_name = "SERVER", num_args = 1.., conflicts_with = "no_grant")]
    grant: Vec<String>,
    /// Grant the agent no access
    #[arg(long)]
    no_grant: bool,
    #[command(flatten)]
    config: ConfigArg,
    /// The text that mgp's configuration file will have, if it is about to change together with the host's file. If
    /// `None`, the configuration file is read as it is.
    #[arg(skip)]
    planned_config: Option<String>,
    /// The options of the existing entry in the host's file; options that this command does not set are kept.
    #[arg(skip)]
    earlier: Option<EntryOptions>,
}

/// A host and its file.
#[derive(Clone, Debug, Args)]
struct HostTarget {
    /// Host
    host: HostArg,
    /// File to edit; required for a generic host
    file: Option<PathBuf>,
    /// Edit the host's file in the project of this folder
    #[arg(long, conflicts_with = "file")]
    project: bool,
}

/// A host as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostArg {
    Known(KnownHost),
    /// Any other host whose file has `mcpServers`; the user must name the file.
    Generic,
}

impl ValueEnum for HostArg {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: [HostArg; KnownHost::ALL.len() + 1] = {
            let mut all = [HostArg::Generic; KnownHost::ALL.len() + 1];
            let mut at = 0;
            while at < KnownHost::ALL.len() {
                all[at] = HostArg::Known(KnownHost::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Known(host) => host.to_possible_value(),
            Self::Generic => Some(
                PossibleValue::new("generic")
                    .help("Any host with a file of `mcpServers`, which must be named"),
            ),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum YesNo {
    Yes,
    No,
}

/// The result of `mgp connect`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ConnectResult {
    /// The agent name of the host.
    agent: String,
    /// The host's file.
    file: PathBuf,
    /// The path of a copy of the file as it was before this change.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<PathBuf>,
    /// `true` if a person sits at the host.
    interactive: bool,
    /// `true` if this command has written `portable_names = true` for the agent, because the host is not known to
    /// rewrite names of tools.
    portable_names: bool,
    /// Servers that were taken out of the host's file.
    replaced: Vec<String>,
    /// Servers that the host still starts by itself.
    beside: Vec<String>,
    /// The access and permissions that were granted, for each server.
    granted: Vec<GrantResult>,
    /// Servers that the agent may not use.
    not_granted: Vec<String>,
    /// The advice on how mgp takes over the servers of `beside`.
    #[serde(skip)]
    advice: String,
    /// The [note](KnownHost::note) on the host.
    #[serde(skip)]
    note: Option<&'static str>,
}

impl Render for ConnectResult {
    fn render(&self, out: &mut Output) {
        let agent = &self.agent;
        out.line(format!("{agent} will start mgp ({})", self.file.display()));
        if let Some(backup) = &self.backup {
            out.line(config_file::backup_line(backup));
        }
        if self.portable_names {
            out.hint(portable_names_note(agent));
        }
        if let Some(note) = self.note {
            out.hint(note);
        }
        GrantResult::render_all(&self.granted, out);
        if !self.not_granted.is_empty() {
            let (names, first) = (self.not_granted.join(", "), &self.not_granted[0]);
            out.hint(format!(
                "not for {agent}: {names}; to change that: `mgp access grant {agent} {first}`"
            ));
        }
        if !self.replaced.is_empty() {
            let names = self.replaced.join(", ");
            out.hint(format!("taken out of the file: {names}; `mgp disconnect` restores them"));
        }
        if !self.beside.is_empty() {
            let names = self.beside.join(", ");
            out.line(format!("not governed, because the host still starts them itself: {names}"));
            out.hint(&self.advice);
        }
        out.line("next: restart the host");
    }
}

impl HostTarget {
    /// Returns the target for a file: the known host to which the path of the file belongs, or else the generic host.
    fn of_file(file: &Path) -> Self {
        let host = KnownHost::from_file(file).map_or(HostArg::Generic, HostArg::Known);
        Self { host, file: Some(file.to_owned()), project: false }
    }

    fn known(&self) -> Option<KnownHost> {
        match self.host {
            HostArg::Known(host) => Some(host),
            HostArg::Generic => None,
        }
    }

    fn path(&self) -> CliResult<PathBuf> {
        let file = match (&self.file, self.known()) {
            (Some(file), _) => std::path::absolute(file)?,
            (None, None) => {
                return Err(Failure::usage(
                    "name the file of the host, e.g. `mgp connect generic FILE`",
                ));
            }
            (None, Some(host)) if self.project => {
                let folder = std::env::current_dir()?;
                host.project_file(&folder).ok_or_else(|| {
                    Failure::usage(format!("{} has no project files", host.name()))
                })?
            }
            (None, Some(host)) => host.user_file(&home()?),
        };
        // A symbolic link is resolved, so that the edit replaces its target and not the link.
        Ok(with_links_resolved(&file))
    }

    /// Returns whether a file is the user's own file of a known host. Other files can come from other people.
    fn is_of_user(&self, file: &Path) -> bool {
        let own = self.known().and_then(|host| Some(host.user_file(&home().ok()?)));
        own.is_some_and(|own| with_links_resolved(&own) == file)
    }

    /// Returns the format of the host's file, given the path to the table that lists its servers.
    fn format(&self, table: &[String]) -> Host {
        match self.known() {
            Some(host) => host.format(),
            None if table == ["servers"] => Host::VsCode,
            None => Host::Generic,
        }
    }

    /// Returns the path to the table in which the host's file lists its servers.
    fn table(&self, syntax: Syntax, text: &str) -> Vec<String> {
        let has = |path: &[&str], name: &str| {
            let path: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
            let members = syntax.members(text, &path);
            members.is_ok_and(|all| all.iter().any(|(own, _)| own == name))
        };
        let key = match self.known() {
            Some(host) => host.format().servers_key(),
            None if has(&[], "servers") && !has(&[], "mcpServers") => "servers",
            None => "mcpServers",
        };
        // Newer files of OpenCode nest the servers one level deeper.
        let is_nested = key == Host::OpenCode.servers_key() && has(&[key], "servers");
        let nested = is_nested.then_some("servers");
        [Some(key), nested].into_iter().flatten().map(str::to_owned).collect()
    }
}

/// Returns the note on an agent for which a command has written `portable_names = true`.
pub(super) fn portable_names_note(agent: &str) -> String {
    format!(
        "{agent} gets names of tools that all model providers accept, e.g. `weather_plan` for `weather.plan` (`portable_names` in `[agents.{agent}]`)"
    )
}

/// Returns the path of a file with its symbolic links resolved. The file and its folders need not exist: the path is
/// the same before and after they are created.
fn with_links_resolved(file: &Path) -> PathBuf {
    let real =
        |above: &Path| Some((dunce::canonicalize(above).ok()?, file.strip_prefix(above).ok()?));
    match file.ancestors().find_map(real) {
        Some((real, rest)) if rest.as_os_str().is_empty() => real,
        Some((real, rest)) => real.join(rest),
        None => file.to_owned(),
    }
}

/// The planned change of a host's file, and the values from which the change can be undone.
struct Change {
    /// The text of the file without the entry of mgp, and with all entries that the host itself had.
    base: String,
    /// `true` if `base` is byte for byte the file as it was before mgp was connected.
    is_exact: bool,
    after: String,
    /// The entry of mgp in `after`, as JSON.
    entry: String,
    record: Option<Record>,
    taken: Vec<record::TakenEntry>,
    /// The servers of the host's file that mgp's configuration has too.
    present: Vec<PresentServer>,
    beside: Vec<String>,
}

impl Change {
    fn plan(
        global: &Global,
        connect: &Connect,
        file: &Path,
        text: Option<&str>,
        agent: &str,
    ) -> CliResult<Self> {
        let unchanged = |reason: String| {
            Failure::failed(format!("`{}` was not changed: {reason}", file.display()))
        };
        let now = text.unwrap_or_default();
        let syntax = Syntax::of(file);
        let table = &connect.target.table(syntax, now);
        let of_table = syntax.members(now, table).map_err(unchanged)?;
        let is_connected = of_table.iter().any(|(name, _)| name == ENTRY);
        // Read the record even if the host has removed the entry of mgp but not its file, because the record still has
        // the servers that mgp removed.
        let record = Record::read(global, file)?.filter(|_| text.is_some());
        // Plan the change from the file as it was before mgp was connected, so that connecting twice has the same
        // result as once.
        let starts_mgp = starts_mgp(global, &connect.target, file, now, table);
        let restored = record.as_ref().map(|record| record.restore(syntax, table, now, starts_mgp));
        let restored = restored.transpose().map_err(unchanged)?;
        let is_exact = restored.as_ref().is_some_and(|restored| restored.is_exact);
        let base = match restored {
            Some(restored) => restored.text.unwrap_or_default(),
            // Remove an entry of mgp that has no record: it was written by hand, or is in the records of another state
            // folder.
            None if is_connected && starts_mgp == Some(true) => {
                record::without_mgp(syntax, table, now).map_err(unchanged)?
            }
            None => now.to_owned(),
        };
        let present = present(global, connect, file, &base, table);
        let earlier = record.iter().flat_map(|record| &record.taken);
        let earlier = earlier.filter(|entry| is_connected || !entry.is_in(syntax, now));
        let mut entries: Vec<(Vec<String>, String)> =
            earlier.map(|entry| (entry.path.clone(), entry.name.clone())).collect();
        if connect.replace {
            entries.extend(present.iter().map(|one| (one.path.clone(), one.name.clone())));
        }
        // Also take an entry of another server with mgp's name out of the file; `mgp disconnect` puts it back.
        entries.push((table.clone(), ENTRY.to_owned()));
        let (bare, taken) = record::take(syntax, base.clone(), entries).map_err(unchanged)?;
        let is_own = |now: &str| record::is_own(record.as_ref(), now, starts_mgp);
        let own = of_table.iter().find(|(name, now)| name == ENTRY && is_own(now));
        let kept = own.map(|(_, own)| entry::kept_members(connect, file, own)).unwrap_or_default();
        let entry = serde_json::to_string_pretty(&entry::entry(global, connect, agent, kept)?)?;
        let after = syntax.put(&bare, table, ENTRY, &entry).map_err(unchanged)?;
        let mut refused = refused(&connect.target, file, &after, table);
        if refused.iter().any(|error| error.name == ENTRY && error.project.is_none()) {
            let reason = "its `mcp.allowed` or `mcp.excluded` keeps the host from starting `mgp`; change that list, then try again";
            return Err(unchanged(reason.to_owned()));
        }
        refused.retain(|error| !error.is_started());
        let beside = beside(syntax, &after, table, &refused).map_err(unchanged)?;
        Ok(Self { base, is_exact, after, entry, record, taken, present, beside })
    }

    /// Writes a back-up beside the host's file, then the records from which `mgp undo` and `mgp disconnect` restore the
    /// file, then the file. So a command that is killed at any point leaves a file that can be restored.
    fn write(
        self,
        global: &Global,
        run: CommandRun,
        file: &Path,
        text: Option<&str>,
    ) -> CliResult<Option<PathBuf>> {
        if text == Some(&*self.after) {
            return Ok(None);
        }
        prepare(file, text)?;
        let backup = text.map(|text| config_file::write_backup(file, text)).transpose();
        let backup = backup.map_err(|error| Failure::unwritable(file, &error))?;
        let is_base = text.unwrap_or_default() == self.base;
        let before = match self.record {
            _ if is_base => backup.clone(),
            Some(record) if self.is_exact => record.before,
            _ => Some(config_file::write_backup(file, &self.base)?),
        };
        let previous = Record::read(global, file)?;
        let before = before.map(|path| (path, &*self.base));
        let record = Record::new(before, &self.after, self.entry, self.taken);
        let unwritten = run.clone();
        let apply = || -> CliResult {
            Record::write(global, file, Some(record))?;
            let texts = (text, Some(&*self.after));
            undo::remember(global, run, file, texts, previous.clone(), backup.clone())?;
            check_unchanged(file, text)?;
            replace_file(file, &self.after).map_err(|error| Failure::unwritable(file, &error))
        };
        if let Err(failure) = apply() {
            // If this record cannot be removed, it does no harm, because the host's file is still as it was before the
            // change.
            let _ = undo::forget(global, &unwritten, file);
            let _ = Record::write(global, file, previous);
            return Err(failure);
        }
        Ok(backup)
    }
}

pub(crate) async fn run(global: &Global, connect: &Connect) -> CliResult {
    let known = connect.target.known();
    let agent = connect.agent.as_deref().or(known.map(KnownHost::name)).unwrap_or("default");
    config_file::check_agent(agent)?;
    let file = connect.target.path()?;
    let text = read(&file)?;
    let change = Change::plan(global, connect, &file, text.as_deref(), agent)?;
    let config = config(global, connect).await?;
    let servers = chosen(connect, &config, &change)?;
    admit_edit(global, &connect.config).await?;
    // Create the state folder first: if it cannot be used, no file is written.
    state::create_folder(global)?;
    // Ask the person before any file is written.
    let own = ConfigFile::open(connect.config.file_to_edit()?)?;
    let interactive = interactive(global, connect, &own, agent)?;
    let needs_portable_names =
        !known.is_some_and(KnownHost::rewrites_names) && own.lacks_portable_names(agent);
    let is_configured = own.set_agent(agent, interactive, needs_portable_names)?;
    note_other_key(global, &connect.target, &file, text.as_deref());
    let mut connected = ConnectResult {
        agent: agent.to_owned(),
        file: file.clone(),
        backup: None,
        interactive: interactive.unwrap_or_default(),
        portable_names: needs_portable_names,
        replaced: change.taken.iter().map(|entry| entry.name.clone()).collect(),
        beside: change.beside.clone(),
        granted: Vec::new(),
        not_granted: Vec::new(),
        advice: connect.advice(&file),
        note: known.and_then(|host| host.note(&change.after)),
    };
    // Do not limit the tools of servers that the user names: such a grant covers all tools of a server.
    let is_named = !connect.grant.is_empty();
    let tools = if is_named { BTreeMap::new() } else { present::tools(&change.present) };
    let backup = &mut connected.backup;
    let switch = || {
        *backup = change.write(global, CommandRun::of("connect"), &file, text.as_deref())?;
        Ok(())
    };
    if servers.is_empty() {
        switch()?;
        // Reload only if this command has changed the configuration, because a reload also applies changes by other
        // programs.
        if is_configured {
            control::reload(global).await;
        }
    } else {
        let access =
            NewAccess { agent: agent.to_owned(), servers, tools, because: "mgp connect".into() };
        let check = || check_unchanged(&file, text.as_deref());
        connected.granted =
            grant::grant_access(global, &config, vec![access], check, switch).await?;
    }
    connected.not_granted = grant::not_granted(global, agent, &config).await?;
    print(global, &connected)
}

/// Returns the configured servers to which `mgp connect` gives the agent access.
fn chosen<'a>(
    connect: &Connect,
    config: &'a Config,
    change: &Change,
) -> CliResult<Vec<&'a ServerConfig>> {
    if connect.no_grant {
        return Ok(Vec::new());
    }
    if connect.grant.iter().any(|id| id == "all") {
        return Ok(config.servers.iter().collect());
    }
    let named = connect.grant.iter().map(|id| {
        config.server(id).ok_or_else(|| {
            let known = config.servers.iter().map(|server| server.id.as_str());
            let near = did_you_mean(id, known).unwrap_or_default();
            Failure::failed(format!("there is no server `{id}`{near}"))
        })
    });
    let named: Vec<&ServerConfig> = named.collect::<CliResult<_>>()?;
    let imported = change.present.iter().filter(|_| connect.grant.is_empty());
    let imported = imported.filter_map(|server| config.server(&server.id));
    Ok(named.into_iter().chain(imported).collect())
}

fn read(file: &Path) -> CliResult<Option<String>> {
    let failed = |error| Failure::failed(format!("`{}` cannot be read: {error}", file.display()));
    match fs::metadata(file) {
        Err(error) if error.kind() == ErrorKind::NotFound && file.is_symlink() => {
            Err(Failure::dangling(file))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
        // Check the kind of the file before reading it, because opening a named pipe would block.
        Ok(metadata) if !metadata.is_file() => {
            Err(Failure::failed(format!("`{}` is not a plain file", file.display())))
        }
        Ok(_) => fs::read_to_string(file).map(Some).map_err(failed),
    }
}

/// Returns whether a person sits at the host. The answer comes from the option, else from the configuration, else from
/// the user; it is `None` if the user must be asked and there is no terminal.
fn interactive(
    global: &Global,
    connect: &Connect,
    own: &ConfigFile,
    agent: &str,
) -> CliResult<Option<bool>> {
    if let Some(answer) = connect.interactive {
        return Ok(Some(answer == YesNo::Yes));
    }
    if let Some(configured) = own.interactive(agent) {
        return Ok(Some(configured));
    }
    let question = format!("Does a person sit at {agent} and confirm dangerous calls there?");
    let answer = prompt::confirm(global, &question)?;
    if answer.is_none() {
        print_note(
            global,
            &format!(
                "mgp: there is no terminal to ask whether a person sits at {agent}, so dangerous calls wait in `mgp approvals`; --interactive yes lets {agent} ask"
            ),
        );
    }
    Ok(answer)
}

/// Writes the host's file and a back-up beside it; returns the path of the back-up.
fn write(file: &Path, before: Option<&str>, after: &str) -> CliResult<Option<PathBuf>> {
    if before == Some(after) {
        return Ok(None);
    }
    prepare(file, before)?;
    config_file::replace_with_backup(file, before, after)
        .map_err(|error| Failure::unwritable(file, &error))
}

/// Creates the folder of a file. Fails if the text of the file is no longer `before`.
fn prepare(file: &Path, before: Option<&str>) -> CliResult {
    check_unchanged(file, before)?;
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|error| Failure::unwritable(file, &error))?;
    }
    Ok(())
}

/// Fails if the text of the file is no longer `before`: a host may change the file while the command waits for the
/// person's answer.
fn check_unchanged(file: &Path, before: Option<&str>) -> CliResult {
    if read(file)?.as_deref() == before {
        return Ok(());
    }
    let file = file.display();
    Err(Failure::failed(format!("`{file}` was changed by another program; try again")))
}

/// Reads the configuration; if it cannot be read, prints a note and returns an empty configuration, so that nothing is
/// granted.
async fn config(global: &Global, connect: &Connect) -> CliResult<Config> {
    let trust = state::trust(global).await?;
    let config = match connect.config.sources().load(&trust).await {
        Ok(loaded) => loaded.config,
        Err(error) => {
            print_note(global, &format!("no access was granted: {error}"));
            return Ok(Config::default());
        }
    };
    if config.servers.is_empty() {
        print_note(global, "no servers are configured yet; run `mgp import` or `mgp servers add`");
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_the_host_has_changed_is_not_overwritten() {
        let folder = mgp_testkit::temp_dir();
        let file = folder.path().join("mcp.json");
        let refused = |before: Option<&str>| {
            let refused = write(&file, before, "ours").unwrap_err().to_string();
            assert!(refused.ends_with("was changed by another program; try again"), "{refused}");
        };
        fs::write(&file, "theirs").unwrap();
        refused(Some("before"));
        refused(None);
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "there is no back-up");
        assert!(write(&file, Some("theirs"), "ours").unwrap().is_some());
    }
}
