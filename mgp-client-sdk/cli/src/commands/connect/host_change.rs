//! The planned change of one host's file by `mgp setup`.

use std::path::{Path, PathBuf};

use mgp_discovery::import::parse_json;
use serde_json::Value;

use super::Connect;
use super::change::Change;
use super::entry::EntryOptions;
use super::host_file::{ServerEntry, entries};
use super::syntax::Syntax;
use super::target::{HostArg, HostTarget};
use super::text_file::read;
use super::undo::CommandRun;
use crate::args::{ConfigArg, Global};
use crate::config_file::check_agent;
use crate::exit::{CliResult, Failure};
use crate::hosts::KnownHost;
use crate::redaction::mask_entry;
use crate::state;
use crate::state_option::shell_path_or;

/// A change of a host's configuration file, planned by `mgp setup`. After the change, the host starts `mgp` instead of
/// the servers that are in the planned configuration of `mgp`.
pub(in crate::commands) struct HostChange {
    host: KnownHost,
    agent: String,
    file: PathBuf,
    text: Option<String>,
    change: Change,
}

impl HostChange {
    /// Plans the change. A host that already starts mgp keeps its agent, configuration file and state folder. The file
    /// of such a host stays as it is if the change would remove none of its other servers.
    pub(in crate::commands) fn plan(
        global: &Global,
        host: KnownHost,
        config: &ConfigArg,
        planned_config: &str,
    ) -> CliResult<Self> {
        let target = target(host);
        let file = target.path()?;
        let text = read(&file)?;
        let now = text.as_deref().unwrap_or_default();
        let earlier = EntryOptions::read(host.format(), &file, now);
        if let Some(earlier) = &earlier {
            check_places(global, host, config, earlier)?;
        }
        let agent = earlier.as_ref().and_then(|earlier| earlier.agent.clone());
        let agent = agent.unwrap_or_else(|| host.name().to_owned());
        check_agent(&agent).map_err(|failure| {
            Failure::failed(format!("`{}` was not changed: {failure}", file.display()))
        })?;
        let connect = Connect {
            target,
            replace: true,
            interactive: None,
            agent: None,
            grant: Vec::new(),
            no_grant: true,
            config: config.clone(),
            planned_config: Some(planned_config.to_owned()),
            earlier,
        };
        let mut change = Change::plan(global, &connect, &file, text.as_deref(), &agent)?;
        let written = EntryOptions::read(host.format(), &file, &change.after);
        let others = |text: &str| {
            let mut others = entries_of(&connect.target, &file, text)?;
            others.retain(|entry| !entry.is_mgp());
            Some(others)
        };
        if connect.earlier.is_some()
            && connect.earlier == written
            && others(now) == others(&change.after)
        {
            now.clone_into(&mut change.after);
        }
        Ok(Self { host, agent, file, text, change })
    }

    /// Returns the agent name in the host's entry for mgp.
    pub(in crate::commands) fn agent(&self) -> &str {
        &self.agent
    }

    pub(in crate::commands) fn file(&self) -> &Path {
        &self.file
    }

    /// Returns whether the change alters the text of the host's file.
    pub(in crate::commands) fn is_change(&self) -> bool {
        self.text.as_deref().unwrap_or_default() != self.change.after
    }

    /// Returns the [note](KnownHost::note) on the host, if its file changes.
    pub(in crate::commands) fn note(&self) -> Option<&'static str> {
        self.host.note(&self.change.after).filter(|_| self.is_change())
    }

    /// Returns the servers of the file before and after the change, each as one line without secrets.
    pub(in crate::commands) fn server_lines(&self) -> (Vec<String>, Vec<String>) {
        let lines = |text: &str| {
            let all = entries_of(&target(self.host), &self.file, text).unwrap_or_default();
            all.iter().map(line).collect()
        };
        (lines(self.text.as_deref().unwrap_or_default()), lines(&self.change.after))
    }

    /// Returns the servers that the host will still start in addition to mgp.
    pub(in crate::commands) fn beside(&self) -> &[String] {
        &self.change.beside
    }

    pub(in crate::commands) fn write(
        self,
        global: &Global,
        run: CommandRun,
    ) -> CliResult<Option<PathBuf>> {
        self.change.write(global, run, &self.file, self.text.as_deref())
    }
}

fn target(host: KnownHost) -> HostTarget {
    HostTarget { host: HostArg::Known(host), file: None, project: false }
}

fn entries_of(target: &HostTarget, file: &Path, text: &str) -> Option<Vec<ServerEntry>> {
    let syntax = Syntax::of(file);
    entries(syntax, text, &target.table(syntax, text)).ok()
}

/// Returns a server of a host's file as one line, without its comments and secrets.
fn line(entry: &ServerEntry) -> String {
    let name = Value::from(entry.name.as_str());
    let place = entry.project.as_ref().map(|folder| format!(" in {folder}")).unwrap_or_default();
    let shown = parse_json(&entry.value).map(|mut value| {
        mask_entry(&mut value);
        value.to_string()
    });
    format!("{name}{place}: {}", shown.unwrap_or_else(|_| "…".to_owned()))
}

/// Fails if the host starts mgp with a configuration file that differs from the default, and the user has named no file
/// for this command. Checks the state folder in the same way. Otherwise this command would copy servers and grant
/// access in places that the host's mgp does not read.
fn check_places(
    global: &Global,
    host: KnownHost,
    config: &ConfigArg,
    earlier: &EntryOptions,
) -> CliResult {
    let (own_file, own_folder) = (config.file_to_edit()?, state::folder(global)?);
    let is_file_named = config.named_file().is_some();
    let is_folder_named = global.state.is_some() || state::folder_from_environment().is_some();
    let file = earlier.config.as_ref().filter(|file| !is_file_named && **file != own_file);
    let folder = earlier.state.as_ref().filter(|folder| !is_folder_named && **folder != own_folder);
    let options = [("--config", file), ("--state", folder)].into_iter();
    let options: Vec<String> = options
        .filter_map(|(name, path)| Some(format!("{name} {}", shell_path_or("PATH", path?))))
        .collect();
    if options.is_empty() {
        return Ok(());
    }
    let (name, options) = (host.name(), options.join(" "));
    Err(Failure::failed(format!(
        "{name} starts mgp with `{options}`, so its file stays as it is; to change it: `mgp setup {name} {options}`"
    )))
}
