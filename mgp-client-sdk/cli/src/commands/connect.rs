//! `mgp connect`: has a host start `mgp`, and says whether a person sits there.
//!
//! Applies to: both.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mgp_discovery::{Server, Trust};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::grant::{self, Granted};
use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::hosts::Known;
use crate::output::{Page, Shown, note, show};
use crate::own_file::{self, OwnFile};
use crate::places::{Configured, home};
use crate::{ask, state};

mod edit;

/// `mgp connect`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  mgp connect claude-code\n  mgp connect cursor --project --interactive yes\n  mgp connect generic ~/.config/other-host/mcp.json --agent other-host --interactive no"
)]
pub(crate) struct Connect {
    /// The host
    host: Host,
    /// The file to write, for a generic host; else that of the host
    file: Option<PathBuf>,
    /// Write the host's file of this folder's project
    #[arg(long, conflicts_with = "file")]
    project: bool,
    /// Whether a person sits at the host, who may confirm calls
    #[arg(long, value_name = "yes|no")]
    interactive: Option<Answer>,
    /// The agent the host counts as; without it, its name
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Give the agent no access to the configured servers
    #[arg(long)]
    no_grant: bool,
    #[command(flatten)]
    configured: Configured,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Host {
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code
    ClaudeCode,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    #[value(name = "vscode")]
    VsCode,
    /// Any host with a file of `mcpServers`: name the file
    Generic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Answer {
    Yes,
    No,
}

/// What was written.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Connected {
    /// The agent the host counts as.
    agent: String,
    /// The host's file.
    file: PathBuf,
    /// What it was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<PathBuf>,
    /// Whether a person sits there.
    interactive: bool,
    /// Servers that the host still starts by itself.
    beside: Vec<String>,
    /// What was granted.
    granted: Vec<Granted>,
}

impl Shown for Connected {
    fn show(&self, page: &mut Page) {
        page.line(format!("{} starts mgp from now on: {}", self.agent, self.file.display()));
        if let Some(backup) = &self.backup {
            page.line(format!("what it was before is in {}", backup.display()));
        }
        for granted in &self.granted {
            granted.show(page);
        }
        if !self.beside.is_empty() {
            let (names, agent) = (self.beside.join(", "), &self.agent);
            page.line(format!("not governed, for the host starts them itself: {names}"));
            page.line(format!(
                "remove them there; `mgp import {agent} --apply` takes over what mgp does not have yet"
            ));
        }
        page.line("next: restart the host");
    }
}

impl Host {
    fn known(self) -> Option<Known> {
        Some(match self {
            Self::ClaudeDesktop => Known::ClaudeDesktop,
            Self::ClaudeCode => Known::ClaudeCode,
            Self::Cursor => Known::Cursor,
            Self::VsCode => Known::VsCode,
            Self::Generic => return None,
        })
    }
}

pub(crate) async fn run(global: &Global, connect: &Connect) -> Ended {
    let known = connect.host.known();
    let agent = connect.agent.as_deref().or(known.map(Known::name)).unwrap_or("default");
    own_file::check_agent(agent)?;
    let file = file(connect, known)?;
    let table = known.map_or("mcpServers", Known::table);
    let text = before(&file)?;
    let wrong =
        |why: String| Failure::failed(format!("`{}` is left as it is: {why}", file.display()));
    let names = edit::names(text.as_deref().unwrap_or_default(), table).map_err(wrong)?;
    let beside = names.into_iter().filter(|name| name != "mgp").collect();
    let entry = serde_json::to_string_pretty(&entry(global, connect, known, agent)?)?;
    let after =
        edit::put(text.as_deref().unwrap_or_default(), table, "mgp", &entry).map_err(wrong)?;
    // Asked before anything is written.
    let own = OwnFile::open(connect.configured.own_file()?)?;
    let interactive = interactive(global, connect, &own, agent)?;
    own.set_interactive(agent, interactive)?;
    let backup = write(&file, text.as_deref(), &after)?;
    let mut connected = Connected {
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
    show(global, &connected)
}

fn file(connect: &Connect, known: Option<Known>) -> Ended<PathBuf> {
    let file = match (&connect.file, known) {
        (Some(file), _) => file.clone(),
        (None, None) => {
            return Err(Failure::usage("name the host's file: `mgp connect generic FILE`"));
        }
        (None, Some(host)) if connect.project => {
            let folder = std::env::current_dir()?;
            host.project_file(&folder).ok_or_else(|| {
                Failure::usage(format!("{} has no file for single projects", host.name()))
            })?
        }
        (None, Some(host)) => host.user_file(&home()?),
    };
    // Of a link, what it leads to is written, so that the link stays.
    Ok(file.canonicalize().unwrap_or(file))
}

fn before(file: &Path) -> Ended<Option<String>> {
    let failed = |error| Failure::failed(format!("`{}` cannot be read: {error}", file.display()));
    match fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
        // Opening a pipe would wait for its other end.
        Ok(metadata) if !metadata.is_file() => {
            Err(Failure::failed(format!("`{}` is not a plain file", file.display())))
        }
        Ok(_) => fs::read_to_string(file).map(Some).map_err(failed),
    }
}

/// What the host is to start.
fn entry(global: &Global, connect: &Connect, known: Option<Known>, agent: &str) -> Ended<Value> {
    let absolute = |path: &Path| -> Ended<String> {
        Ok(std::path::absolute(path)?.to_string_lossy().into_owned())
    };
    // Hosts have a PATH of their own.
    let program = absolute(&std::env::current_exe()?)?;
    let mut args = vec!["serve".to_owned(), "--stdio".into(), "--agent".into(), agent.to_owned()];
    // The host has an environment of its own: what ours decided is written down.
    let config = connect.configured.named();
    let state = global.state.clone().or_else(state::by_environment);
    for (name, path) in [("--config", config), ("--state", state)] {
        if let Some(path) = path {
            args.extend([name.to_owned(), absolute(&path)?]);
        }
    }
    let mut entry = Map::new();
    if known == Some(Known::VsCode) {
        entry.insert("type".to_owned(), json!("stdio"));
    }
    entry.insert("command".to_owned(), json!(program));
    entry.insert("args".to_owned(), json!(args));
    Ok(Value::Object(entry))
}

/// Whether a person sits there: as said, as it was said before, else whoever is here is asked.
fn interactive(global: &Global, connect: &Connect, own: &OwnFile, agent: &str) -> Ended<bool> {
    if let Some(answer) = connect.interactive {
        return Ok(answer == Answer::Yes);
    }
    if let Some(said) = own.interactive(agent) {
        return Ok(said);
    }
    let question = format!("Does a person sit at {agent}, who may confirm dangerous calls there?");
    ask::yes(global, &question)?.ok_or_else(|| {
        Failure::usage(format!(
            "nobody can be asked here whether a person sits at {agent}; say --interactive yes or --interactive no"
        ))
    })
}

/// Writes the host's file, and what it was into a file beside it.
fn write(file: &Path, before: Option<&str>, after: &str) -> Ended<Option<PathBuf>> {
    if before == Some(after) {
        return Ok(None);
    }
    let failed =
        |error| Failure::failed(format!("`{}` cannot be written: {error}", file.display()));
    // While a person thought about the question the host may have written it.
    if self::before(file)?.as_deref() != before {
        let file = file.display();
        return Err(Failure::failed(format!("`{file}` was changed meanwhile; try again")));
    }
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    own_file::swap(file, before, after).map_err(failed)
}

async fn grants(global: &Global, connect: &Connect, agent: &str) -> Ended<Vec<Granted>> {
    let trust = Trust::new(std::sync::Arc::new(state::db(global).await?));
    let loaded = match connect.configured.sources().load(&trust).await {
        Ok(loaded) => loaded,
        // Without servers there is nothing to grant.
        Err(error) => {
            note(global, &format!("no access was granted: {error}"));
            return Ok(Vec::new());
        }
    };
    let servers: Vec<&Server> = loaded.config.servers.iter().collect();
    if servers.is_empty() {
        note(global, "no servers are configured yet; run `mgp import` or `mgp servers add`");
        return Ok(Vec::new());
    }
    grant::visible(global, agent, &servers, "mgp connect").await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_wrote_meanwhile_stays() {
        let folder = std::env::temp_dir().join(format!("mgp-connect-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("mcp.json");
        let refused = |before: Option<&str>| {
            let refused = write(&file, before, "ours").unwrap_err().to_string();
            assert!(refused.ends_with("was changed meanwhile; try again"), "{refused}");
        };
        fs::write(&file, "theirs").unwrap();
        refused(Some("before"));
        refused(None);
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "there is no back-up");
        assert!(write(&file, Some("theirs"), "ours").unwrap().is_some());
        fs::remove_dir_all(&folder).unwrap();
    }
}
