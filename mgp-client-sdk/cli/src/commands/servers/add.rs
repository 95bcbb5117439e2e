//! The command `mgp servers add`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use mgp_discovery::Registrations;
use mgp_discovery::import::{ImportOutcome, Plan, read_own};
use mgp_security::NameFlaw;
use mgp_types::service::ServerId;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::published;
use super::search::RegistryArg;
use crate::args::{ConfigArg, Global};
use crate::commands::connect::connected_agents;
use crate::commands::grant::{self, GrantResult, NewAccess};
use crate::commands::import::planned_config;
use crate::commands::known_names::KnownNames;
use crate::commands::probe::find_program;
use crate::commands::validate::header_pair;
use crate::config_file::{self, ConfigFile};
use crate::exit::{CliResult, Failure};
use crate::hosts::home;
use crate::operator::admit_edit;
use crate::output::{Output, Render, first_line, print, print_note};
use crate::socket_hello::DEFAULT_AGENT;
use crate::state_option::shell_word_or;
use crate::{control, state};

/// `mgp servers add`.
#[derive(Clone, Debug, Args)]
#[command(disable_version_flag = true)]
#[command(group = clap::ArgGroup::new("target").args(["url", "command"]))]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Add {
    /// Id of the server: letters, digits, `.`, `_`, `-`; or its name in the registry, or a bundle (`FILE.mcpb`)
    pub(super) id: String,
    /// Words that belong after `--url` or `--`; they are an error that names the remedy
    #[arg(hide = true, value_name = "WORD")]
    misplaced: Vec<String>,
    /// Id of a server from the registry or a bundle; the default is the last part of its name
    #[arg(long = "id", value_name = "ID", conflicts_with_all = ["url", "command"])]
    pub(super) new_id: Option<String>,
    /// Version in the registry; the default is the latest
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["url", "command"])]
    pub(super) version: Option<String>,
    /// Value that a server from the registry or a bundle asks for; a secret value is stored as with `mgp secrets set`
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, conflicts_with_all = ["url", "command"])]
    pub(super) set: Vec<(String, String)>,
    /// Add a server from the registry or a bundle without asking
    #[arg(long, short)]
    pub(super) yes: bool,
    /// Show a server from the registry or a bundle, and write nothing
    #[arg(long, conflicts_with_all = ["url", "command"])]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) registry: RegistryArg,
    /// URL of the server, instead of a program
    #[arg(long, conflicts_with = "command")]
    url: Option<String>,
    /// Header of every request; write secrets as ${VAR}; may be given several times
    #[arg(long, value_name = "NAME: VALUE", requires = "url", conflicts_with = "command", value_parser = header_pair)]
    header: Vec<(String, String)>,
    /// Environment variable of the program; write secrets as ${VAR}; may be given several times
    #[arg(long, value_name = "NAME=VALUE", requires = "command", conflicts_with = "url", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Working folder of the program
    #[arg(long, value_name = "DIR", requires = "command", conflicts_with = "url")]
    cwd: Option<String>,
    /// Era of MCP to use with a program or URL; the default is the newest era that the server supports
    #[arg(long, requires = "target", value_parser = ["auto", "modern", "legacy"])]
    era: Option<String>,
    /// Agent that gets access; the default is `default`, the agents of connected hosts, and those of your configuration
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,
    /// Accept an agent that is not known yet, although its name resembles a known one
    #[arg(long)]
    new_agent: bool,
    /// Write the configuration only; grant nothing
    #[arg(long)]
    no_grant: bool,
    #[command(flatten)]
    pub(super) config: ConfigArg,
    /// Program and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Splits `NAME=VALUE` into the name and the value.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{}` is not NAME=VALUE", first_line(text, 20))),
    }
}

/// The result of `mgp servers add`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AddResult {
    /// The server.
    pub(super) id: String,
    /// The configuration file.
    pub(super) file: PathBuf,
    /// The steps that remain for the user.
    pub(super) notes: Vec<String>,
    /// The access and permissions that were granted, for each agent.
    pub(super) granted: Vec<GrantResult>,
}

impl Render for AddResult {
    fn render(&self, out: &mut Output) {
        out.line(format!("added {} to {}", self.id, self.file.display()));
        for note in &self.notes {
            out.hint(format!("  {note}"));
        }
        GrantResult::render_all(&self.granted, out);
        if let Some(first) = self.granted.first() {
            let (id, agent) = (&self.id, first.agent());
            if first.failed_server().is_some() {
                out.hint(format!(
                    "to correct it: edit its entry, or run `mgp servers rm {id}` and add it again; `mgp doctor {id}` starts it again"
                ));
            }
            out.hint(format!(
                "to change who may use it: `mgp access revoke {agent} {id}`, `mgp access grant AGENT {id}`; next time `--agent NAME` chooses"
            ));
        }
    }
}

/// Adds a server to the configuration, and grants agents access to it.
pub(super) async fn run(global: &Global, add: &Add) -> CliResult {
    check_places(add)?;
    if add.url.is_none() && add.command.is_empty() {
        return published::add(global, add).await;
    }
    let file = add.config.file_to_edit()?;
    valid_id(&file, add, &add.id)?;
    check_words(&add.command)?;
    // Plan the entry as an import of one server, so that it gets the same checks and the same format as an imported
    // server.
    let text = json!({ "mcpServers": { &*add.id: entry(add) } }).to_string();
    let import = read_own(Path::new("mgp servers add"), &text)?;
    let plan = Plan::new(&file, &[import])?;
    let Some(line) = plan.lines().first() else {
        return Err(Failure::failed("nothing was added"));
    };
    let notes = match &line.outcome {
        ImportOutcome::Added(id) if *id == add.id => {
            line.notes.iter().cloned().chain(relative_file(add)).collect()
        }
        ImportOutcome::Skipped(reason) => {
            return Err(Failure::failed(format!("`{}` was not added: {reason}", add.id)));
        }
        // An earlier run of this command may have been killed before it granted access.
        ImportOutcome::Present(id) => {
            return Err(Failure::failed(format!(
                "`{id}` is this server already; run `mgp access grant AGENT {id}` to give an agent access, or `mgp servers rm {id}` to add it again"
            )));
        }
        _ => {
            let id = &add.id;
            return Err(Failure::failed(format!(
                "there is a server `{id}` already; choose another id, or run `mgp servers rm {id}` first"
            )));
        }
    };
    admit_edit(global, &add.config).await?;
    let result = AddResult { id: add.id.clone(), file, notes, granted: Vec::new() };
    finish_add(global, add, &plan, result).await
}

/// Refuses a URL that is not given with `--url`, and a program that is not given after `--`.
fn check_places(add: &Add) -> CliResult {
    let is_url = |word: &str| word.starts_with("http://") || word.starts_with("https://");
    let url_of = |id: &str, url: &str| {
        let (id, url) = (shell_word_or("ID", id), shell_word_or("URL", url));
        Err(Failure::usage(format!(
            "a URL is given with `--url`: `mgp servers add {id} --url {url}`"
        )))
    };
    match add.misplaced.first() {
        Some(word) if is_url(word) => url_of(&add.id, word),
        Some(word) => {
            let (id, word) = (shell_word_or("ID", &add.id), shell_word_or("COMMAND", word));
            Err(Failure::usage(format!(
                "a program and its arguments are given after `--`: `mgp servers add {id} -- {word} …`"
            )))
        }
        None if is_url(&add.id) => url_of("ID", &add.id),
        None => Ok(()),
    }
}

/// Refuses a word that contains both a program and its arguments, e.g. because the user put quotes around all of them.
fn check_words(command: &[String]) -> CliResult {
    let [line] = command else { return Ok(()) };
    let program = line.split_once(' ').map_or("", |(program, _)| program);
    let is_name = !program.contains(std::path::is_separator) && !program.starts_with(['~', '$']);
    if program.is_empty() || !is_name || find_program(line, Path::new("."), None).is_ok() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "there is no program `{line}`; write it without quotes around its arguments: `-- {line}`"
    )))
}

/// Refuses a text that cannot be the id of a new server in a configuration file. The kernel uses no tool of a server
/// whose id is reserved or looks like the id of another server.
pub(super) fn valid_id(file: &Path, add: &Add, id: &str) -> CliResult {
    let is_derived = add.url.is_none() && add.command.is_empty() && add.new_id.is_none();
    config_file::check_server_id(id).map_err(|failure| {
        if is_derived {
            Failure::usage(format!("{failure}; choose one with --id"))
        } else {
            failure
        }
    })?;
    let ids = ConfigFile::open(file.to_owned())?.server_ids()?;
    let remedy = if is_derived { " with --id" } else { "" };
    NameFlaw::check_server(id, ids.iter().map(String::as_str))
        .map_err(|flaw| Failure::usage(format!("{flaw}{remedy}")))
}

/// Returns the server as an entry of `mcpServers` in JSON, which [`read_own`] checks.
fn entry(add: &Add) -> Value {
    let map = |pairs: &[(String, String)]| -> Value {
        pairs.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<Map<_, _>>().into()
    };
    let mut entry = Map::new();
    if let Some((command, args)) = add.command.split_first() {
        // Make the path absolute: on the command line it is relative to the shell's folder, but the kernel resolves a
        // path in the configuration from the folder of the configuration file.
        let is_path = command.contains(std::path::is_separator);
        entry.insert(
            "command".to_owned(),
            json!(if is_path { absolute(command) } else { command.clone() }),
        );
        entry.insert("args".to_owned(), json!(args));
        entry.insert("env".to_owned(), map(&add.env));
    }
    if let Some(url) = &add.url {
        entry.insert("url".to_owned(), json!(url));
        entry.insert("headers".to_owned(), map(&add.header));
    }
    if let Some(cwd) = &add.cwd {
        entry.insert("cwd".to_owned(), json!(absolute(cwd)));
    }
    if let Some(era) = &add.era {
        entry.insert("era".to_owned(), json!(era));
    }
    entry.into()
}

/// Returns a path from the command line as an absolute path, unless it begins with `~` or `$`.
pub(super) fn absolute(path: &str) -> String {
    let full =
        std::path::absolute(path).ok().and_then(|full| full.into_os_string().into_string().ok());
    full.filter(|_| !path.starts_with(['~', '$'])).unwrap_or_else(|| path.to_owned())
}

/// Returns a note about an argument that names a file of the shell's folder, if the server starts in another folder.
fn relative_file(add: &Add) -> Option<String> {
    let starts_here = add.cwd.is_some() || std::env::current_dir().ok() == home().ok();
    let arguments = add.command.iter().skip(1).filter(|_| !starts_here);
    let file = arguments.map(Path::new).find(|file| file.is_relative() && file.is_file())?;
    let (file, full) = (file.display(), std::path::absolute(file).ok()?);
    let full = full.display();
    Some(format!(
        "`{file}` is not found from the folder in which the server starts; write `{full}`, or add --cwd DIR"
    ))
}

/// Writes the planned configuration, grants agents access, and prints the result.
pub(super) async fn finish_add(
    global: &Global,
    add: &Add,
    plan: &Plan,
    mut result: AddResult,
) -> CliResult {
    let id = &result.id;
    if is_registered(global, id).await {
        result.notes.push(format!(
            "`{id}` is also a registered server, which this entry replaces; `mgp servers rm {id}` restores it"
        ));
    }
    if add.no_grant {
        config_file::apply(plan)?;
        // Ask the kernel to reload the configuration; with grants, `apply_and_grant` does so.
        control::reload(global).await;
    } else {
        result.granted = apply_and_grant(global, add, &result, plan).await?;
    }
    print(global, &result)
}

async fn is_registered(global: &Global, id: &str) -> bool {
    let is_there = state::folder(global).is_ok_and(|folder| folder.join("state.db").exists());
    if !is_there {
        return false;
    }
    let Ok(store) = state::db(global).await else { return false };
    match Registrations::is_approved_in(&store, &ServerId::from(id)).await {
        Ok(is_registered) => is_registered,
        Err(error) => {
            tracing::debug!(%error, "cannot read registrations");
            false
        }
    }
}

/// Tries to start the server, then writes the configuration and grants agents access; returns the grants.
async fn apply_and_grant(
    global: &Global,
    add: &Add,
    result: &AddResult,
    plan: &Plan,
) -> CliResult<Vec<GrantResult>> {
    let config = planned_config(&result.file, plan)?;
    let server = config.server(&result.id).ok_or_else(|| Failure::failed("nothing was added"))?;
    let agents: BTreeSet<String> = if add.agent.is_empty() {
        let connected = connected_agents(global)?.into_iter().chain([DEFAULT_AGENT.to_owned()]);
        config.agents.keys().cloned().chain(connected).collect()
    } else {
        add.agent.iter().cloned().collect()
    };
    // Check only names that the user typed, because other names cannot be misspelled.
    let checks_names = !add.agent.is_empty() && !add.new_agent;
    let is_new = |agent: &&String| checks_names && !config.agents.contains_key(*agent);
    let new: Vec<&String> = agents.iter().filter(is_new).collect();
    if !new.is_empty() {
        let known = KnownNames::read_alone(global).await?;
        for agent in new {
            if let Some(note) = known.check_agent(agent)? {
                print_note(global, &format!("mgp: {note}"));
            }
        }
    }
    let access = |agent| NewAccess {
        agent,
        servers: vec![server],
        tools: BTreeMap::new(),
        because: "mgp servers add".to_owned(),
    };
    let write = || config_file::apply(plan).map(drop);
    let wanted = agents.into_iter().map(access).collect();
    grant::grant_access(global, &config, wanted, write, || Ok(())).await
}
