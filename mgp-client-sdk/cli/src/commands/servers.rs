//! The command `mgp servers`: lists, finds, adds, updates, removes and controls servers.

mod published;
mod registry;
mod remove;
pub(crate) mod search;
#[cfg(test)]
mod testdata;
mod unpack;
pub(crate) mod update;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use mgp_client_sdk::Client;
use mgp_discovery::Registrations;
use mgp_discovery::import::{Host, ImportOutcome, Plan, read};
use mgp_types::method::{
    KernelServers, KernelServersDrain, KernelServersLogs, KernelServersRestart, KernelServersStart,
    KernelServersStop, Request,
};
use mgp_types::mgp::{
    KernelServer, KernelServerLogsParams, KernelServerParams, KernelServerResult,
    KernelServersParams, ServerState,
};
use mgp_types::service::ServerId;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::connect::connected_agents;
use super::grant::{self, GrantResult, NewAccess};
use super::import::planned_config;
use super::known_names::{DISABLED, KnownNames, check_running, disabled};
use super::login::{self, Login, LoginArg};
use super::logs;
use crate::args::ConfigArg;
use crate::args::Global;
use crate::config_file::ConfigFile;
use crate::exit::{CliResult, Failure};
use crate::operator::admit_edit;
use crate::output::{ActionReport, Cell, Color, Output, Render, first_line, print, print_note};
use crate::socket_hello::DEFAULT_AGENT;
use crate::{control, state, time_args};

/// The maximum time to wait for a start; normally the server's own `start_timeout` expires first.
const START_TIMEOUT: Duration = Duration::from_mins(5);

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// `mgp servers`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Servers {
    /// List the servers and their states
    #[command(alias = "list")]
    Ls {
        /// Show only this server, in full
        server: Option<String>,
    },
    /// Find published servers by what they are for
    Search(search::Search),
    /// Add a server to your configuration, and grant agents access
    #[command(
        after_help = "Example:\n  mgp servers add io.github.example/weather --set API_KEY=…\n  mgp servers add ./weather.mcpb\n  mgp servers add files -- npx -y @modelcontextprotocol/server-filesystem ~/projects\n  mgp servers add tracker --url https://example.org/mcp --header 'Authorization=Bearer ${TRACKER_TOKEN}'"
    )]
    Add(Add),
    /// Compare the servers from the registry with their latest versions, and update them
    Update(update::Update),
    /// Remove a server from your configuration, or a registered server from the running kernel
    #[command(alias = "remove", after_help = "Example:\n  mgp servers rm files")]
    Rm(Rm),
    /// Use a disabled server again
    Enable(Rm),
    /// Stop using a server, and keep its access entries and permissions
    #[command(after_help = "Example:\n  mgp servers disable files")]
    Disable(Rm),
    /// Start a server
    Start(ServerArg),
    /// Stop a server after its running calls have finished
    Stop(ServerArg),
    /// Restart a server
    Restart(ServerArg),
    /// Finish the running calls of a server, and send it no new ones
    Drain(ServerArg),
    /// Log in to a server at a URL
    #[command(
        after_help = "Prints the address of the login page and waits for the browser. The tokens are stored in the state folder.\n\nExample:\n  mgp servers login linear"
    )]
    Login(Login),
    /// Delete the login at a server
    Logout(LoginArg),
    /// Show the standard error of a server
    #[command(after_help = "Example:\n  mgp servers logs files -n 20")]
    Logs {
        /// Server
        server: String,
        /// Number of lines, the last ones
        #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
        lines: u64,
    },
}

/// A server and a time limit.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerArg {
    /// Server
    server: String,
    /// Time for running calls to finish and for the server to connect, e.g. 30s
    #[arg(long, value_name = "DURATION", value_parser = time_args::duration)]
    timeout: Option<Duration>,
}

/// `mgp servers add`.
#[derive(Clone, Debug, Args)]
#[command(disable_version_flag = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Add {
    /// Id of the server: letters, digits, `.`, `_`, `-`; or its name in the registry, or a bundle (`FILE.mcpb`)
    id: String,
    /// Id of a server from the registry or a bundle; the default is the last part of its name
    #[arg(long = "id", value_name = "ID")]
    new_id: Option<String>,
    /// Version in the registry; the default is the latest
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["url", "command"])]
    version: Option<String>,
    /// Value that a server from the registry or a bundle asks for; a secret value is stored as with `mgp secrets set`
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, conflicts_with_all = ["url", "command"])]
    set: Vec<(String, String)>,
    /// Add a server from the registry or a bundle without asking
    #[arg(long, short)]
    yes: bool,
    /// Show a server from the registry or a bundle, and write nothing
    #[arg(long, conflicts_with_all = ["url", "command"])]
    dry_run: bool,
    #[command(flatten)]
    registry: search::RegistryArg,
    /// URL of the server, instead of a program
    #[arg(long, conflicts_with = "command")]
    url: Option<String>,
    /// Header of every request; write secrets as ${VAR}; may be given several times
    #[arg(long, value_name = "NAME=VALUE", requires = "url", value_parser = pair)]
    header: Vec<(String, String)>,
    /// Environment variable of the program; write secrets as ${VAR}; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Working folder of the program
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Era of MCP to use with the server; the default is the newest one it supports
    #[arg(long, value_parser = ["auto", "modern", "legacy"])]
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
    config: ConfigArg,
    /// Program and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// `mgp servers rm`, `enable` and `disable`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Rm {
    /// Server
    server: String,
    #[command(flatten)]
    config: ConfigArg,
}

/// All servers, or the named one.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ServerList {
    servers: Vec<KernelServer>,
    #[serde(skip)]
    is_named: bool,
}

/// The result of `mgp servers add`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AddResult {
    /// The server.
    id: String,
    /// The configuration file.
    file: PathBuf,
    /// The steps that remain for the user.
    notes: Vec<String>,
    /// The access and permissions that were granted, for each agent.
    granted: Vec<GrantResult>,
}

fn state_cell(state: &ServerState) -> Cell {
    let color = match state {
        state if state.as_str() == DISABLED => Color::Dim,
        ServerState::Connected => Color::Green,
        ServerState::Error => Color::Red,
        ServerState::Registered | ServerState::Disconnected => Color::Dim,
        _ => Color::Yellow,
    };
    let word = match state {
        // Shown as `idle`, because people would confuse `registered` with a server that was registered at run time.
        ServerState::Registered => "idle",
        state => state.as_str(),
    };
    Cell::from(word).color(color)
}

impl Render for ServerList {
    fn render(&self, out: &mut Output) {
        if self.servers.is_empty() {
            return out.line(
                "no servers; add one with `mgp servers add`, or copy those of other hosts with `mgp import`",
            );
        }
        if let ([server], true) = (self.servers.as_slice(), self.is_named) {
            return render_server(server, out);
        }
        let rows = self.servers.iter().map(|server| {
            // Shows the problem if there is one, else the command line or URL of the server.
            let text = server.error.as_ref().or(server.lacks.as_ref()).unwrap_or(&server.reach);
            [
                server.id.as_str().into(),
                state_cell(&server.status),
                server.era.as_deref().into(),
                Cell::number(server.tools),
                Cell::number(server.tokens),
                Cell::number(server.restarts),
                first_line(text, 90).into(),
            ]
        });
        out.table(["ID", "STATE", "ERA", "TOOLS", "TOKENS", "RESTARTS", "RUNS"], rows);
    }
}

fn render_server(server: &KernelServer, out: &mut Output) {
    let mgp = server.mgp_version.as_ref().map(ToString::to_string);
    let lines: [(&str, Option<String>); 14] = [
        ("runs", Some(server.reach.clone())),
        ("error", server.error.clone()),
        ("since", server.since.as_ref().map(ToString::to_string)),
        ("process", server.pid.map(|pid| pid.to_string())),
        ("restarts", Some(server.restarts.to_string())),
        ("trust", Some(server.trust_level.to_string())),
        ("calls itself", server.name.clone()),
        ("version", server.version.clone()),
        ("era", server.era.clone()),
        ("MCP", server.protocol_version.clone()),
        ("MGP", mgp),
        ("tools", Some(format!("{}, {} tokens", server.tools, server.tokens))),
        ("lacks", server.lacks.clone()),
        ("configured in", Some(server.source.clone())),
    ];
    out.status_line(&state_cell(&server.status), &server.id);
    for (name, text) in lines {
        if let Some(text) = text {
            out.line(format!("  {name:14}{text}"));
        }
    }
}

impl Render for AddResult {
    fn render(&self, out: &mut Output) {
        out.line(format!("added {} to {}", self.id, self.file.display()));
        for note in &self.notes {
            out.line(format!("  {note}"));
        }
        for granted in &self.granted {
            granted.render(out);
        }
        if let Some(first) = self.granted.first() {
            let (id, agent) = (&self.id, first.agent());
            out.line(format!(
                "to change who may use it: `mgp access revoke {agent} {id}`, `mgp access grant AGENT {id}`; next time `--agent NAME` chooses"
            ));
        }
    }
}

pub(crate) async fn run(global: &Global, servers: &Servers) -> CliResult {
    match servers {
        Servers::Search(search) => search::run(global, search).await,
        Servers::Update(update) => update::run(global, update).await,
        Servers::Add(add) => self::add(global, add).await,
        Servers::Rm(rm) => remove::run(global, rm).await,
        Servers::Enable(arg) => set_enabled(global, arg, true).await,
        Servers::Disable(arg) => set_enabled(global, arg, false).await,
        Servers::Login(login) => login::log_in(global, login).await,
        Servers::Logout(at) => login::log_out(global, at).await,
        Servers::Ls { server } => {
            let client = control::connect_or_start(global).await?;
            let mut params = KernelServersParams::new();
            if let Some(server) = server {
                check_running(&client, server).await?;
                params.server_id = Some(server.clone());
            }
            let all = client.request::<KernelServers>(&params).await?.servers;
            print(global, &ServerList { servers: all, is_named: server.is_some() })
        }
        Servers::Logs { server, lines } => logs::last_of_server(global, server, *lines).await,
        Servers::Start(server) => change::<KernelServersStart>(global, server).await,
        Servers::Stop(server) => change::<KernelServersStop>(global, server).await,
        Servers::Restart(server) => change::<KernelServersRestart>(global, server).await,
        Servers::Drain(server) => change::<KernelServersDrain>(global, server).await,
    }
}

async fn change<R>(global: &Global, arg: &ServerArg) -> CliResult
where
    R: Request<Params = KernelServerParams, Result = KernelServerResult>,
{
    let client =
        control::connect_with_timeout(global, arg.timeout.unwrap_or(START_TIMEOUT)).await?;
    let server = check_running(&client, &arg.server).await?;
    if server.status.as_str() == DISABLED {
        return Err(disabled(&arg.server));
    }
    let mut params = KernelServerParams::new(&*arg.server);
    params.timeout_ms = arg.timeout.map(mgp_types::millis);
    let mut status = client.request::<R>(&params).await?.status;
    let is_start = [KernelServersStart::METHOD, KernelServersRestart::METHOD].contains(&R::METHOD);
    // A start is complete when the server has connected or failed.
    let end = Instant::now() + arg.timeout.unwrap_or(START_TIMEOUT);
    while is_start && !is_settled(&status) && Instant::now() < end {
        sleep(POLL_INTERVAL).await;
        status = match fetch_server(&client, &arg.server).await? {
            Some(server) => server.status,
            None => break,
        };
    }
    if status == ServerState::Error || (is_start && status != ServerState::Connected) {
        return Err(Failure::failed(failure_reason(&client, &arg.server).await));
    }
    ActionReport::new(&*arg.server, status.as_str()).print(global)
}

/// Returns whether the start of a server has ended: it has connected, or it has failed and is perhaps being restarted.
fn is_settled(state: &ServerState) -> bool {
    matches!(state, ServerState::Connected | ServerState::Error | ServerState::Restarting)
}

async fn fetch_server(client: &Client, server: &str) -> CliResult<Option<KernelServer>> {
    let mut params = KernelServersParams::new();
    params.server_id = Some(server.to_owned());
    Ok(client.request::<KernelServers>(&params).await?.servers.into_iter().next())
}

async fn failure_reason(client: &Client, server: &str) -> String {
    let error = fetch_server(client, server).await.ok().flatten().and_then(|server| server.error);
    let error = error.unwrap_or_else(|| "it is not running".to_owned());
    let mut params = KernelServerLogsParams::new(server);
    params.lines = Some(1);
    let lines = client.request::<KernelServersLogs>(&params).await.map(|result| result.lines);
    let stderr = match lines.unwrap_or_default().pop() {
        Some(line) => format!("; it wrote: {}", first_line(&line.text, 200)),
        None => String::new(),
    };
    format!("{server} is not connected: {error}{stderr}; run `mgp doctor {server}`")
}

/// Refuses a text that cannot be the id of a server.
fn valid_id(id: &str) -> CliResult {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if id.chars().all(fits) && id.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Ok(());
    }
    let id = id.escape_debug();
    Err(Failure::usage(format!("`{id}` is not a valid id; use letters, digits, `.`, `_`, `-`")))
}

async fn add(global: &Global, add: &Add) -> CliResult {
    if add.url.is_none() && add.command.is_empty() {
        return published::add(global, add).await;
    }
    let file = add.config.file_to_edit()?;
    valid_id(&add.id)?;
    // The entry is planned as an import of one server, so that it gets the same checks and the same format.
    let text = json!({ "mcpServers": { &*add.id: entry(add) } }).to_string();
    let import = read(Host::Generic, Path::new("mgp servers add"), &text)?;
    let plan = Plan::new(&file, &[import])?;
    let Some(line) = plan.lines().first() else {
        return Err(Failure::failed("nothing was added"));
    };
    let notes = match &line.outcome {
        ImportOutcome::Added(id) if *id == add.id => line.notes.clone(),
        ImportOutcome::Skipped(reason) => {
            return Err(Failure::failed(format!("`{}` was not added: {reason}", add.id)));
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

/// Writes the planned configuration, grants agents access, and prints the result.
async fn finish_add(global: &Global, add: &Add, plan: &Plan, mut result: AddResult) -> CliResult {
    let id = &result.id;
    if is_registered(global, id).await {
        result.notes.push(format!(
            "`{id}` is also a registered server, which this entry replaces; `mgp servers rm {id}` restores it"
        ));
    }
    if add.no_grant {
        plan.apply()?;
        // The kernel must be asked to reload the configuration here; `grants` does that itself.
        control::reload(global).await;
    } else {
        result.granted = grants(global, add, (&result.id, &result.file, plan)).await?;
    }
    print(global, &result)
}

/// Returns whether a server with this id was registered at run time.
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

fn entry(add: &Add) -> Value {
    let map = |pairs: &[(String, String)]| -> Value {
        pairs.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<Map<_, _>>().into()
    };
    let mut entry = Map::new();
    if let Some((command, args)) = add.command.split_first() {
        // A path on the command line is relative to the shell's folder, but the kernel resolves a path in the
        // configuration from the folder of the configuration file.
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
fn absolute(path: &str) -> String {
    let full =
        std::path::absolute(path).ok().and_then(|full| full.into_os_string().into_string().ok());
    full.filter(|_| !path.starts_with(['~', '$'])).unwrap_or_else(|| path.to_owned())
}

/// Tries to start the server, then writes the configuration and grants agents access; returns the grants.
async fn grants(
    global: &Global,
    add: &Add,
    (id, file, plan): (&str, &Path, &Plan),
) -> CliResult<Vec<GrantResult>> {
    let config = planned_config(file, plan)?;
    let server = config.server(id).ok_or_else(|| Failure::failed("nothing was added"))?;
    let agents: BTreeSet<String> = if add.agent.is_empty() {
        let connected = connected_agents(global)?.into_iter().chain([DEFAULT_AGENT.to_owned()]);
        config.agents.keys().cloned().chain(connected).collect()
    } else {
        add.agent.iter().cloned().collect()
    };
    let new = agents.iter().filter(|agent| !config.agents.contains_key(*agent));
    let new: Vec<&String> = new.filter(|_| !add.new_agent && !add.agent.is_empty()).collect();
    if !new.is_empty() {
        let known = KnownNames::read_alone(global).await?;
        for agent in new {
            if let Some(note) = known.check_agent(agent)? {
                print_note(global, &format!("mgp: {note}"));
            }
        }
    }
    let access =
        |agent| NewAccess { agent, servers: vec![server], because: "mgp servers add".to_owned() };
    let write = || {
        plan.apply()?;
        Ok(())
    };
    grant::grant_access(global, &config, agents.into_iter().map(access).collect(), write).await
}

/// Enables or disables a server in the configuration.
async fn set_enabled(global: &Global, arg: &Rm, is_enabled: bool) -> CliResult {
    let id = &arg.server;
    let own = ConfigFile::open(arg.config.file_to_edit()?)?;
    own.check_server(id)?;
    admit_edit(global, &arg.config).await?;
    own.set_enabled(id, is_enabled)?;
    control::reload(global).await;
    ActionReport::new(&**id, if is_enabled { "enabled" } else { "disabled" }).print(global)
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{}` is not NAME=VALUE", first_line(text, 20))),
    }
}
