//! `mgp connect`: makes a host start `mgp`, and records whether a person sits at the host.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mgp_discovery::{ServerConfig, Trust};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::grant::{self, GrantResult};
use crate::args::ConfigArg;
use crate::args::Global;
use crate::config_file::{self, ConfigFile};
use crate::exit::{CliResult, Failure};
use crate::hosts::{KnownHost, home};
use crate::output::{Output, Render, print, print_note};
use crate::{prompt, state};

mod edit;

/// `mgp connect`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  mgp connect claude-code\n  mgp connect cursor --project --interactive yes\n  mgp connect generic ~/.config/other-host/mcp.json --agent other-host --interactive no"
)]
pub(crate) struct Connect {
    /// Host
    host: HostArg,
    /// File to edit; required for a generic host
    file: Option<PathBuf>,
    /// Edit the host's file in the project of this folder
    #[arg(long, conflicts_with = "file")]
    project: bool,
    /// A person sits at the host and can confirm calls
    #[arg(long, value_name = "yes|no")]
    interactive: Option<YesNo>,
    /// Agent name of the host; the default is the name of the host
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Do not grant the agent access to the configured servers
    #[arg(long)]
    no_grant: bool,
    #[command(flatten)]
    config: ConfigArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HostArg {
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code
    ClaudeCode,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    #[value(name = "vscode")]
    VsCode,
    /// Any host with a file of `mcpServers`, which must be named
    Generic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum YesNo {
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
    /// A copy of the file before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<PathBuf>,
    /// `true` if a person sits at the host.
    interactive: bool,
    /// Servers that the host still starts by itself.
    beside: Vec<String>,
    /// The grants, by server.
    granted: Vec<GrantResult>,
}

impl Render for ConnectResult {
    fn render(&self, out: &mut Output) {
        out.line(format!("{} will start mgp ({})", self.agent, self.file.display()));
        if let Some(backup) = &self.backup {
            out.line(format!(
                "the previous file is in {}; the newest ten are kept",
                backup.display()
            ));
        }
        for granted in &self.granted {
            granted.render(out);
        }
        if !self.beside.is_empty() {
            let (names, agent) = (self.beside.join(", "), &self.agent);
            out.line(format!("not governed, because the host still starts them itself: {names}"));
            out.line(format!(
                "remove them there; `mgp import {agent} --apply` copies those that mgp does not have yet"
            ));
        }
        out.line("next: restart the host");
    }
}

impl HostArg {
    fn known(self) -> Option<KnownHost> {
        Some(match self {
            Self::ClaudeDesktop => KnownHost::ClaudeDesktop,
            Self::ClaudeCode => KnownHost::ClaudeCode,
            Self::Cursor => KnownHost::Cursor,
            Self::VsCode => KnownHost::VsCode,
            Self::Generic => return None,
        })
    }
}

pub(crate) async fn run(global: &Global, connect: &Connect) -> CliResult {
    let known = connect.host.known();
    let agent = connect.agent.as_deref().or(known.map(KnownHost::name)).unwrap_or("default");
    config_file::check_agent(agent)?;
    let file = file(connect, known)?;
    let table = known.map_or("mcpServers", KnownHost::servers_key);
    let text = read(&file)?;
    let unchanged =
        |reason: String| Failure::failed(format!("`{}` was not changed: {reason}", file.display()));
    let names = edit::names(text.as_deref().unwrap_or_default(), table).map_err(unchanged)?;
    let beside = names.into_iter().filter(|name| name != "mgp").collect();
    let entry = serde_json::to_string_pretty(&entry(global, connect, known, agent)?)?;
    let after =
        edit::put(text.as_deref().unwrap_or_default(), table, "mgp", &entry).map_err(unchanged)?;
    // The question comes before anything is written.
    let own = ConfigFile::open(connect.config.file_to_edit()?)?;
    let interactive = interactive(global, connect, &own, agent)?;
    own.set_interactive(agent, interactive)?;
    let backup = write(&file, text.as_deref(), &after)?;
    let mut connected = ConnectResult {
        agent: agent.to_owned(),
        file,
        backup,
        interactive,
        beside,
        granted: Vec::new(),
    };
    if !connect.no_grant {
        connected.granted = grants(global, connect, agent).await?;
    }
    print(global, &connected)
}

fn file(connect: &Connect, known: Option<KnownHost>) -> CliResult<PathBuf> {
    let file = match (&connect.file, known) {
        (Some(file), _) => file.clone(),
        (None, None) => {
            return Err(Failure::usage("name the host's file: `mgp connect generic FILE`"));
        }
        (None, Some(host)) if connect.project => {
            let folder = std::env::current_dir()?;
            host.project_file(&folder)
                .ok_or_else(|| Failure::usage(format!("{} has no project files", host.name())))?
        }
        (None, Some(host)) => host.user_file(&home()?),
    };
    // The target of a link is replaced, so that the link stays.
    Ok(file.canonicalize().unwrap_or(file))
}

fn read(file: &Path) -> CliResult<Option<String>> {
    let failed = |error| Failure::failed(format!("`{}` cannot be read: {error}", file.display()));
    match fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
        // Opening a pipe would block.
        Ok(metadata) if !metadata.is_file() => {
            Err(Failure::failed(format!("`{}` is not a plain file", file.display())))
        }
        Ok(_) => fs::read_to_string(file).map(Some).map_err(failed),
    }
}

/// Builds the server entry for the host's file.
fn entry(
    global: &Global,
    connect: &Connect,
    known: Option<KnownHost>,
    agent: &str,
) -> CliResult<Value> {
    let absolute = |path: &Path| -> CliResult<String> {
        Ok(std::path::absolute(path)?.to_string_lossy().into_owned())
    };
    // Absolute, because hosts have their own PATH.
    let program = absolute(&std::env::current_exe()?)?;
    let mut args = vec!["serve".to_owned(), "--stdio".into(), "--agent".into(), agent.to_owned()];
    // Written down, because the host has its own environment.
    let config = connect.config.named_file();
    let state = global.state.clone().or_else(state::folder_from_environment);
    for (name, path) in [("--config", config), ("--state", state)] {
        if let Some(path) = path {
            args.extend([name.to_owned(), absolute(&path)?]);
        }
    }
    let mut entry = Map::new();
    if known == Some(KnownHost::VsCode) {
        entry.insert("type".to_owned(), json!("stdio"));
    }
    entry.insert("command".to_owned(), json!(program));
    entry.insert("args".to_owned(), json!(args));
    Ok(Value::Object(entry))
}

/// Returns whether a person sits at the host: by option, by the configuration, else by asking.
fn interactive(
    global: &Global,
    connect: &Connect,
    own: &ConfigFile,
    agent: &str,
) -> CliResult<bool> {
    if let Some(answer) = connect.interactive {
        return Ok(answer == YesNo::Yes);
    }
    if let Some(configured) = own.interactive(agent) {
        return Ok(configured);
    }
    let question = format!("Does a person sit at {agent} and confirm dangerous calls there?");
    prompt::confirm(global, &question)?.ok_or_else(|| {
        Failure::usage(format!(
            "there is no terminal to ask whether a person sits at {agent}; use --interactive yes or --interactive no"
        ))
    })
}

/// Writes the host's file, and a back-up beside it.
fn write(file: &Path, before: Option<&str>, after: &str) -> CliResult<Option<PathBuf>> {
    if before == Some(after) {
        return Ok(None);
    }
    let failed =
        |error| Failure::failed(format!("`{}` cannot be written: {error}", file.display()));
    // The host may have written the file while the question was open.
    if read(file)?.as_deref() != before {
        let file = file.display();
        return Err(Failure::failed(format!("`{file}` was changed by another program; try again")));
    }
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    config_file::replace_with_backup(file, before, after).map_err(failed)
}

async fn grants(global: &Global, connect: &Connect, agent: &str) -> CliResult<Vec<GrantResult>> {
    let trust = Trust::new(std::sync::Arc::new(state::db(global).await?));
    let loaded = match connect.config.sources().load(&trust).await {
        Ok(loaded) => loaded,
        // Without servers there is nothing to grant.
        Err(error) => {
            print_note(global, &format!("no access was granted: {error}"));
            return Ok(Vec::new());
        }
    };
    let servers: Vec<&ServerConfig> = loaded.config.servers.iter().collect();
    if servers.is_empty() {
        print_note(global, "no servers are configured yet; run `mgp import` or `mgp servers add`");
        return Ok(Vec::new());
    }
    grant::grant_access(global, agent, &servers, "mgp connect").await
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
