//! The command `mgp connect`: edits a host's file so that the host starts `mgp`. `connect/change.rs` plans the edit.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mgp_discovery::{Config, ServerConfig};
use serde::Serialize;

use super::grant::{self, GrantResult, NewAccess};
use super::known_names::did_you_mean;
use crate::args::{ConfigArg, Global};
use crate::config_file::{self, ConfigFile};
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::hosts::KnownHost;
use crate::operator::admit_edit;
use crate::output::{Output, Render, print, print_note};
use crate::replace_file::backup_line;
use crate::{prompt, state};

mod change;
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
mod target;
mod text_file;
pub(crate) mod undo;

use change::Change;
use entry::EntryOptions;
pub(super) use entry::{connected_agents, mgp_command};
pub(super) use host_change::HostChange;
use host_file::note_other_key;
pub(super) use host_file::{HostFile, host_file};
pub(crate) use record::is_connected;
use target::HostTarget;
use text_file::{check_unchanged, read};
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
    /// The future text of mgp's configuration file, if it is about to change together with the host's file. If `None`,
    /// the current file is read.
    #[arg(skip)]
    planned_config: Option<String>,
    /// The options of the existing entry in the host's file; options that this command does not set are kept.
    #[arg(skip)]
    earlier: Option<EntryOptions>,
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
            out.line(backup_line(backup));
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

/// Returns the note that a command has written `portable_names = true` for an agent.
pub(super) fn portable_names_note(agent: &str) -> String {
    format!(
        "{agent} gets names of tools that all model providers accept, e.g. `weather_plan` for `weather.plan` (`portable_names` in `[agents.{agent}]`)"
    )
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

/// Returns whether a person sits at the host. The answer comes from the option, else from the configuration, else from
/// the user; `None` if the user would have to be asked but has no terminal.
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
