//! The command `mgp servers ls`.

use mgp_client_sdk::Client;
use mgp_types::method::{KernelInfo, KernelServers};
use mgp_types::mgp::{KernelInfoParams, KernelServer, KernelServersParams, ServerState};
use serde::Serialize;

use crate::args::Global;
use crate::commands::kernel::with_place;
use crate::commands::known_names::{DISABLED, check_running};
use crate::control;
use crate::exit::CliResult;
use crate::output::{Cell, Color, Output, Render, first_line, plural, print, print_note};

/// The maximum length of the command line or URL of a server in the table.
const MAX_REACH: usize = 400;

/// The maximum length of the description of a server's problem, which is printed below the table.
const MAX_PROBLEM: usize = 1000;

/// All servers, or the named one.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ServerList {
    servers: Vec<KernelServer>,
    #[serde(skip)]
    is_named: bool,
}

impl Render for ServerList {
    fn render(&self, out: &mut Output) {
        if self.servers.is_empty() {
            return out.hint(
                "no servers; add one with `mgp servers add`, or copy those of your hosts with `mgp setup`",
            );
        }
        if let ([server], true) = (self.servers.as_slice(), self.is_named) {
            return render_server(server, out);
        }
        let rows = self.servers.iter().map(|server| {
            [
                server.id.as_str().into(),
                state_cell(server),
                server.era.as_deref().into(),
                Cell::number(server.tools),
                Cell::number(server.tokens),
                Cell::number(server.restarts),
                first_line(&server.reach, MAX_REACH).into(),
            ]
        });
        out.table(["ID", "STATE", "ERA", "TOOLS", "TOKENS", "RESTARTS", "RUNS"], rows);
        // Print problems below the table, because a terminal could lack the room for a problem and its remedy in a row.
        for server in &self.servers {
            if let Some(problem) = server.error.as_ref().or(server.lacks.as_ref()) {
                out.hint(format!("{}: {}", server.id, first_line(problem, MAX_PROBLEM)));
            }
        }
    }
}

fn render_server(server: &KernelServer, out: &mut Output) {
    let mgp = server.mgp_version.as_ref().map(ToString::to_string);
    let instances = server.instances.filter(|instances| *instances > 0);
    let lines: [(&str, Option<String>); 18] = [
        ("runs", Some(server.reach.clone())),
        ("error", server.error.clone()),
        ("since", server.since.as_ref().map(ToString::to_string)),
        ("process", server.pid.map(|pid| pid.to_string())),
        ("instances", instances.map(|instances| format!("{instances}, one for each agent"))),
        ("restarts", Some(server.restarts.to_string())),
        ("last failure", server.last_failure.clone()),
        ("confined", server.confinement.clone()),
        ("local hosts", server.local_hosts.clone()),
        ("trust", Some(server.trust_level.to_string())),
        ("calls itself", server.name.clone()),
        ("version", server.version.clone()),
        ("era", server.era.clone()),
        ("MCP", server.protocol_version.clone()),
        ("MGP", mgp),
        ("tools", Some(format!("{}, {}", server.tools, plural(server.tokens, "token")))),
        ("lacks", server.lacks.clone()),
        ("configured in", Some(server.source.clone())),
    ];
    out.status_line(&state_cell(server), &server.id);
    for (name, text) in lines {
        let Some(text) = text else { continue };
        let line = format!("  {name:14}{text}");
        // Only these texts were written by the kernel, so only their commands may get the option `--state`; the other
        // texts quote the server or its entry.
        if matches!(name, "error" | "last failure" | "lacks") {
            out.hint(line);
        } else {
            out.line(line);
        }
    }
}

/// Returns the state to show to people. If each agent has its own instance of a server, its `status` is only that of
/// the instance that lists the tools. Therefore the server counts as connected while any instance runs.
fn shown_state(server: &KernelServer) -> &ServerState {
    let is_resting = matches!(server.status, ServerState::Registered | ServerState::Disconnected);
    let has_instances = is_resting && server.instances.is_some_and(|instances| instances > 0);
    if has_instances { &ServerState::Connected } else { &server.status }
}

/// Returns the word for the state of a server, in the table and in the console.
pub(crate) fn state_word(server: &KernelServer) -> &str {
    match shown_state(server) {
        // Show `idle`, because people would confuse `registered` with a server that was registered at run time.
        ServerState::Registered => "idle",
        state => state.as_str(),
    }
}

fn state_cell(server: &KernelServer) -> Cell {
    let color = match shown_state(server) {
        state if state.as_str() == DISABLED => Color::Dim,
        ServerState::Connected => Color::Green,
        ServerState::Error => Color::Red,
        ServerState::Registered | ServerState::Disconnected => Color::Dim,
        _ => Color::Yellow,
    };
    Cell::from(state_word(server)).color(color)
}

/// Lists all servers of the kernel, or shows one server in full.
pub(super) async fn run(global: &Global, server: Option<&str>) -> CliResult {
    let client = control::connect_or_start(global).await?;
    let mut params = KernelServersParams::new();
    if let Some(server) = server {
        check_running(&client, server).await?;
        params.server_id = Some(server.to_owned());
    }
    let all = client.request::<KernelServers>(&params).await?.servers;
    if server.is_none() {
        // Show warnings only if the kernel has no servers: only then can a warning be the reason.
        let severity = Some("error").filter(|_| !all.is_empty());
        note_findings(global, &client, severity).await?;
    }
    print(global, &ServerList { servers: all, is_named: server.is_some() })
}

/// Prints the findings about the configuration, which may be the reason why the kernel lacks a server. Prints the
/// findings of one severity, or all.
async fn note_findings(global: &Global, client: &Client, severity: Option<&str>) -> CliResult {
    for finding in client.request::<KernelInfo>(&KernelInfoParams::new()).await?.findings {
        if severity.is_some_and(|severity| severity != finding.severity) {
            continue;
        }
        print_note(global, &format!("mgp: {}", with_place(&finding)));
    }
    Ok(())
}

/// Returns a server of the running kernel, if the kernel lists it.
pub(super) async fn fetch_server(client: &Client, server: &str) -> CliResult<Option<KernelServer>> {
    let mut params = KernelServersParams::new();
    params.server_id = Some(server.to_owned());
    Ok(client.request::<KernelServers>(&params).await?.servers.into_iter().next())
}
