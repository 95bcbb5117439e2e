//! `mgp servers`: the servers behind the kernel.
//!
//! Applies to: both.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use mgp_client_sdk::Client;
use mgp_discovery::import::{Fate, Host, Plan, read};
use mgp_discovery::{Registrations, Sources, Trust};
use mgp_types::method::{
    KernelServers, KernelServersDrain, KernelServersLogs, KernelServersRestart, KernelServersStart,
    KernelServersStop, Request,
};
use mgp_types::mgp::{
    DeregisterParams, KernelLogLine, KernelServer, KernelServerLogsParams, KernelServerParams,
    KernelServerResult, KernelServersParams, RegistrationStatus, ServerState,
};
use mgp_types::service::ServerId;
use mgp_types::store::MemoryStore;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::time::{Instant, sleep};

use super::grant::{self, Granted};
use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::output::{Cell, Done, Page, Shown, Tone, brief, show};
use crate::own_file::OwnFile;
use crate::places::Configured;
use crate::{control, span, state};

/// How long a server may take to be there.
const STARTS: Duration = Duration::from_secs(30);

/// How long a server that is taken back may take to be gone.
const LEAVES: Duration = Duration::from_mins(1);

/// How often is looked whether it is.
const LOOKS: Duration = Duration::from_millis(100);

/// `mgp servers`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Servers {
    /// List the servers and how they are
    Ls {
        /// Only this one
        server: Option<String>,
    },
    /// Add a server to your configuration, and let agents use it
    #[command(
        after_help = "Example:\n  mgp servers add files -- npx -y @modelcontextprotocol/server-filesystem ~/projects\n  mgp servers add tracker --url https://example.org/mcp --header 'Authorization=Bearer ${TRACKER_TOKEN}'"
    )]
    Add(Add),
    /// Remove a server from your configuration, or one that was registered while a kernel runs
    #[command(after_help = "Example:\n  mgp servers rm files")]
    Rm(Rm),
    /// Start a server
    Start(Which),
    /// Stop a server, once what runs there is finished
    Stop(Which),
    /// Stop a server and start it again
    Restart(Which),
    /// Let what runs at a server finish, and send it nothing more
    Drain(Which),
    /// Show what a server wrote to its standard error
    #[command(after_help = "Example:\n  mgp servers logs files -n 20")]
    Logs {
        /// The server
        server: String,
        /// How many lines, the last ones
        #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
        lines: u64,
    },
}

/// A server.
#[derive(Clone, Debug, Args)]
pub(crate) struct Which {
    /// The server
    server: String,
    /// How long running calls may take to end, and a server to be there, as 30s
    #[arg(long, value_name = "SPAN", value_parser = span::span)]
    timeout: Option<Duration>,
}

/// `mgp servers add`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Add {
    /// What it is called everywhere: letters, digits, `.`, `_`, `-`
    id: String,
    /// Where it is, instead of a program
    #[arg(long, conflicts_with = "command")]
    url: Option<String>,
    /// A header of every request, as NAME=VALUE; secrets as ${VAR}
    #[arg(long, value_name = "NAME=VALUE", requires = "url", value_parser = pair)]
    header: Vec<(String, String)>,
    /// A variable of its environment, as NAME=VALUE; secrets as ${VAR}
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// The folder it runs in
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// The era of MCP that is spoken with it, where the newest it knows is not wanted
    #[arg(long, value_parser = ["auto", "modern", "legacy"])]
    era: Option<String>,
    /// The agent that gets access; without one, all agents of your configuration, else `default`
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,
    /// Write the configuration only: no access, no permissions
    #[arg(long)]
    no_grant: bool,
    #[command(flatten)]
    configured: Configured,
    /// The program and its arguments, behind `--`
    #[arg(last = true, required_unless_present = "url", value_name = "COMMAND")]
    command: Vec<String>,
}

/// `mgp servers rm`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Rm {
    /// The server
    server: String,
    #[command(flatten)]
    configured: Configured,
}

/// All servers, or the one that was named.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct All {
    servers: Vec<KernelServer>,
    #[serde(skip)]
    is_named: bool,
}

/// A server that was added.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Added {
    /// The server.
    id: String,
    /// The file it was written to.
    file: PathBuf,
    /// What is left to do.
    notes: Vec<String>,
    /// What was granted.
    granted: Vec<Granted>,
}

/// Lines of a server's standard error.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Lines(Vec<KernelLogLine>);

/// How a server is, as a colour.
pub(super) fn state(state: &ServerState) -> Cell {
    let tone = match state {
        ServerState::Connected => Tone::Good,
        ServerState::Error => Tone::Bad,
        ServerState::Registered | ServerState::Disconnected => Tone::Quiet,
        _ => Tone::Doubtful,
    };
    Cell::from(state.as_str()).tone(tone)
}

impl Shown for All {
    fn show(&self, page: &mut Page) {
        if self.servers.is_empty() {
            return page.line(
                "no servers; add one with `mgp servers add`, or take them over with `mgp import`",
            );
        }
        if let ([server], true) = (self.servers.as_slice(), self.is_named) {
            return one(server, page);
        }
        let rows = self.servers.iter().map(|server| {
            // What is wrong comes first; where all is well, what it runs.
            let says = server.error.as_ref().or(server.lacks.as_ref()).unwrap_or(&server.reach);
            [
                server.id.as_str().into(),
                state(&server.status),
                server.era.as_deref().into(),
                Cell::number(server.tools),
                Cell::number(server.tokens),
                Cell::number(server.restarts),
                brief(says, 90).into(),
            ]
        });
        page.table(["ID", "STATE", "ERA", "TOOLS", "TOKENS", "RESTARTS", "RUNS"], rows);
    }
}

/// A server in full.
fn one(server: &KernelServer, page: &mut Page) {
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
    page.marked(&state(&server.status), &server.id);
    for (name, text) in lines {
        if let Some(text) = text {
            page.line(format!("  {name:14}{text}"));
        }
    }
}

impl Shown for Added {
    fn show(&self, page: &mut Page) {
        page.line(format!("added {} to {}", self.id, self.file.display()));
        for note in &self.notes {
            page.line(format!("  {note}"));
        }
        for granted in &self.granted {
            granted.show(page);
        }
    }
}

impl Shown for Lines {
    fn show(&self, page: &mut Page) {
        for line in &self.0 {
            page.line(format!("{} {}", line.at, line.text));
        }
    }
}

pub(crate) async fn run(global: &Global, servers: &Servers) -> Ended {
    match servers {
        Servers::Add(add) => self::add(global, add).await,
        Servers::Rm(rm) => remove(global, rm).await,
        Servers::Ls { server } => {
            let client = control::connect(global).await?;
            let mut params = KernelServersParams::new();
            params.server_id.clone_from(server);
            let all = client.request::<KernelServers>(&params).await?.servers;
            if let (Some(server), true) = (server, all.is_empty()) {
                return Err(Failure::failed(format!(
                    "there is no server `{server}`; see `mgp servers ls`"
                )));
            }
            show(global, &All { servers: all, is_named: server.is_some() })
        }
        Servers::Logs { server, lines } => {
            let client = control::connect(global).await?;
            let mut params = KernelServerLogsParams::new(&**server);
            params.lines = Some(*lines);
            show(global, &Lines(client.request::<KernelServersLogs>(&params).await?.lines))
        }
        Servers::Start(which) => change::<KernelServersStart>(global, which).await,
        Servers::Stop(which) => change::<KernelServersStop>(global, which).await,
        Servers::Restart(which) => change::<KernelServersRestart>(global, which).await,
        Servers::Drain(which) => change::<KernelServersDrain>(global, which).await,
    }
}

async fn change<R>(global: &Global, which: &Which) -> Ended
where
    R: Request<Params = KernelServerParams, Result = KernelServerResult>,
{
    let client = control::connect_for(global, which.timeout.unwrap_or_default()).await?;
    let mut params = KernelServerParams::new(&*which.server);
    params.timeout_ms = which.timeout.map(millis);
    let mut status = client.request::<R>(&params).await?.status;
    let is_start = [KernelServersStart::METHOD, KernelServersRestart::METHOD].contains(&R::METHOD);
    // Whoever starts a server wants to know whether it came up.
    let end = Instant::now() + which.timeout.unwrap_or(STARTS);
    while is_start && !is_settled(&status) && Instant::now() < end {
        sleep(LOOKS).await;
        status = match told(&client, &which.server).await? {
            Some(server) => server.status,
            None => break,
        };
    }
    if status == ServerState::Error || (is_start && status != ServerState::Connected) {
        return Err(Failure::failed(why(&client, &which.server).await));
    }
    Done::new(&*which.server, status.as_str()).tell(global)
}

/// Whether a server that is started is there, or will not be at once.
fn is_settled(state: &ServerState) -> bool {
    matches!(state, ServerState::Connected | ServerState::Error | ServerState::Restarting)
}

async fn told(client: &Client, server: &str) -> Ended<Option<KernelServer>> {
    let mut params = KernelServersParams::new();
    params.server_id = Some(server.to_owned());
    Ok(client.request::<KernelServers>(&params).await?.servers.into_iter().next())
}

/// Why a server does not run.
async fn why(client: &Client, server: &str) -> String {
    let error = told(client, server).await.ok().flatten().and_then(|server| server.error);
    let error = error.unwrap_or_else(|| "it does not run".to_owned());
    let mut params = KernelServerLogsParams::new(server);
    params.lines = Some(1);
    let lines = client.request::<KernelServersLogs>(&params).await.map(|said| said.lines);
    let said = match lines.unwrap_or_default().pop() {
        Some(line) => format!("; it said: {}", brief(&line.text, 200)),
        None => String::new(),
    };
    format!("{server} is not there: {error}{said}; look with `mgp doctor {server}`")
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

async fn add(global: &Global, add: &Add) -> Ended {
    let file = add.configured.own_file()?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !add.id.chars().all(fits) || !add.id.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        let id = add.id.escape_debug();
        return Err(Failure::usage(format!(
            "`{id}` is no id of a server: letters, digits, `.`, `_` and `-` are"
        )));
    }
    // Added as from another host, so that it is judged and written the same way.
    let text = json!({ "mcpServers": { &*add.id: entry(add) } }).to_string();
    let import = read(Host::Generic, Path::new("mgp servers add"), &text)?;
    let plan = Plan::new(&file, &[import])?;
    let Some(line) = plan.lines().first() else {
        return Err(Failure::failed("nothing was added"));
    };
    let notes = match &line.fate {
        Fate::Added(_) => line.notes.clone(),
        Fate::Left(why) => {
            return Err(Failure::failed(format!("`{}` was not added: {why}", add.id)));
        }
        _ => Vec::new(),
    };
    plan.apply()?;
    let mut added = Added { id: add.id.clone(), file, notes, granted: Vec::new() };
    if is_registered(global, &add.id).await {
        let id = &add.id;
        added.notes.push(format!(
            "`{id}` was registered while a kernel ran; that server rests as long as this entry is there, and `mgp servers rm {id}` gives it back"
        ));
    }
    if add.no_grant {
        // With a grant the kernel looks at its configuration anyway.
        control::reload(global).await;
    } else {
        added.granted = grants(global, add, &added.file).await?;
    }
    show(global, &added)
}

/// Whether the id is that of a server that was registered while a kernel ran.
async fn is_registered(global: &Global, id: &str) -> bool {
    let is_there = state::folder(global).is_ok_and(|folder| folder.join("state.db").exists());
    if !is_there {
        return false;
    }
    let Ok(store) = state::db(global).await else { return false };
    match Registrations::is_approved_in(&store, &ServerId::from(id)).await {
        Ok(is_registered) => is_registered,
        Err(error) => {
            // The entry is written all the same.
            tracing::debug!(%error, "whether the id is registered is not known");
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
        entry.insert("command".to_owned(), json!(command));
        entry.insert("args".to_owned(), json!(args));
        entry.insert("env".to_owned(), map(&add.env));
    }
    if let Some(url) = &add.url {
        entry.insert("url".to_owned(), json!(url));
        entry.insert("headers".to_owned(), map(&add.header));
    }
    if let Some(cwd) = &add.cwd {
        entry.insert("cwd".to_owned(), json!(cwd));
    }
    if let Some(era) = &add.era {
        entry.insert("era".to_owned(), json!(era));
    }
    entry.into()
}

async fn grants(global: &Global, add: &Add, file: &Path) -> Ended<Vec<Granted>> {
    // What was approved of a project is not asked here: the file is the user's own.
    let trust = Trust::new(Arc::new(MemoryStore::new()));
    let config = Sources::given(file).load(&trust).await?.config;
    let Some(server) = config.server(&add.id) else { return Ok(Vec::new()) };
    let agents: Vec<String> = if add.agent.is_empty() {
        config.agents.keys().cloned().collect()
    } else {
        add.agent.clone()
    };
    let agents = if agents.is_empty() { vec!["default".to_owned()] } else { agents };
    let mut granted = Vec::new();
    for agent in agents {
        granted.extend(grant::visible(global, &agent, &[server], "mgp servers add").await?);
    }
    Ok(granted)
}

async fn remove(global: &Global, rm: &Rm) -> Ended {
    let id = &rm.server;
    let removed = Done::new(&**id, "removed");
    if OwnFile::open(rm.configured.own_file()?)?.remove_server(id)? {
        control::reload(global).await;
        return removed.tell(global);
    }
    // Not of the file, so perhaps one that was registered while a kernel ran.
    let client = match control::connect(global).await {
        Ok(client) => client,
        Err(failure) if failure.is_no_kernel() => {
            return Err(Failure::failed(format!(
                "there is no server `{id}` in {}; one that was registered can be removed while a kernel runs",
                rm.configured.own_file()?.display()
            )));
        }
        Err(failure) => return Err(failure),
    };
    let told = client.mgp().discovery_deregister(&DeregisterParams::new(&**id)).await?;
    let end = Instant::now() + LEAVES;
    // Calls that run there may take their time.
    let mut is_there = told.status != RegistrationStatus::Deregistered;
    while is_there && Instant::now() < end {
        sleep(LOOKS).await;
        let all = client.request::<KernelServers>(&KernelServersParams::new()).await?.servers;
        is_there = all.iter().any(|server| server.id == *id);
    }
    if is_there {
        return Err(Failure::failed(format!("`{id}` still drains; it goes once that is over")));
    }
    removed.tell(global)
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{}` is not NAME=VALUE", brief(text, 20))),
    }
}
