//! The conversations (cells) in which foreign clients use foreign servers through our kernel, with all features of MCP,
//! over stdio and HTTP, in both protocol eras.
//!
//! One kernel serves all cells, as it would serve all hosts of a user; each cell is a different agent.

mod inspector;
mod same;
mod script;
mod world;

use super::{
    Cell, Quadrant, Stage,
    clients::{SDKS, Sdk, at_home},
    pins::Pin,
    relay::Traffic,
    relayed, servers,
    tap::Tap,
};
use crate::{
    child,
    run::{Failure, Outcome},
};
use std::time::Duration;

pub(super) use world::World;

/// The prefix of the names of the cells in this module.
pub(super) const PREFIX: &str = "kernel/";

/// The time limit of one conversation, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_mins(3);

/// The minimum share of tokens, in percent, that the tool list of an agent saves, compared with the definitions of all
/// tools.
const MIN_SAVED_PERCENT: f64 = 95.0;

/// The way in which a client is connected to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    /// The host starts a shim and talks to it on stdio; the shim connects to the running kernel.
    Stdio,
    /// The client connects to the running kernel over HTTP, with an API key.
    Http,
    /// The host starts a process that contains its own kernel, and talks to it on stdio. The running kernel is not
    /// used.
    Standalone,
}

impl Connection {
    fn shown(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Standalone => "standalone",
        }
    }
}

/// Returns all cells of this module: one cell for each connection, SDK and mode, the cells of the Inspector, the
/// comparisons with direct calls, and a comparison of tokens.
pub(super) fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for connection in [Connection::Stdio, Connection::Http, Connection::Standalone] {
        for sdk in SDKS {
            for &(mode, revision) in sdk.modes {
                // Keep only one of the cells that would use a kernel of their own: each such kernel starts all servers
                // again, which takes long.
                if connection == Connection::Standalone && (sdk.name, mode) != ("python-2", "auto")
                {
                    continue;
                }
                let shown = (format!("{}/{}/{mode}", connection.shown(), sdk.name), mode, sdk.pin);
                cells.push(cell(shown, revision, move |cell, stage| {
                    talk(connection, sdk, mode, cell, stage)
                }));
            }
        }
    }
    cells.extend(inspector::cells());
    cells.extend(same::cells());
    let none = ("tokens".to_owned(), "-", SDKS[0].pin);
    cells.push(cell(none, "-", |_, stage| tokens(stage)));
    cells
}

/// Creates a cell in which a client calls servers through the kernel.
fn cell(
    (name, mode, pin): (String, &str, Pin),
    revision: &'static str,
    run: impl Fn(&Cell, &Stage) -> Outcome<String> + 'static,
) -> Cell {
    Cell {
        name: format!("{PREFIX}{name}"),
        quadrant: Quadrant::Between,
        client: pin.shown(),
        server: "`mgp serve`, five servers".to_owned(),
        mode: mode.to_owned(),
        revision,
        pins: [pin].into_iter().chain(servers::collection().map(|server| server.1)).collect(),
        run: Box::new(run),
    }
}

/// Returns the agent names of the cells over HTTP. Each of these agents needs an API key.
fn with_keys() -> Vec<String> {
    let begin = format!("{PREFIX}{}/", Connection::Http.shown());
    cells().iter().filter(|cell| cell.name.starts_with(&begin)).map(agent).collect()
}

/// Returns the agent name under which the kernel sees the cell's client.
fn agent(cell: &Cell) -> String {
    cell.name[PREFIX.len()..].replace('/', "-")
}

fn talk(
    connection: Connection,
    sdk: &Sdk,
    mode: &str,
    cell: &Cell,
    stage: &Stage,
) -> Outcome<String> {
    let (places, world, agent) = (&stage.places, stage.kernel()?, agent(cell));
    let (root, folder) = (format!("file:///work/{agent}"), servers::home_folder(places));
    let mut command = sdk.driven_in_full(places)?;
    command.arg(mode);
    let traffic = places.log(&cell.name, "traffic");
    let (mut tap, mut key) = (None, None);
    if connection == Connection::Http {
        let before = Tap::before(world.port())?;
        command.arg(before.url());
        (tap, key) = (Some(before), Some(world.key(&agent)?));
    } else {
        let alone = connection == Connection::Standalone;
        let kernel = if alone { world.alone(places, &agent)? } else { world.shim(&agent) };
        command.args(relayed(&traffic)?).args(kernel);
    }
    at_home(&mut command, places);
    let errors = places.log(&cell.name, "stderr");
    let script = script::script(&root, key, &folder)?;
    let ended = child::run(command, &script, &errors, TIMEOUT)?;
    let steps = script::judge(&ended.stdout, &root, &folder, cell.revision)?;
    if !ended.success {
        return Err(Failure::new(format!("the client failed; see {}", errors.display())));
    }
    let above = tap.map_or_else(|| Traffic::read(&traffic), |tap| Ok(tap.traffic()))?;
    if let Some(line) = above.down.iter().find(|line| has_member(line)) {
        return Err(Failure::new(format!("a plain client saw {line}")));
    }
    below(&root, world)?;
    Ok(format!("{steps} steps; cancelled below too"))
}

/// Checks the recorded traffic between the kernel and the server instance of this client. The kernel must have
/// forwarded the cancellation of the client's call. Apart from its offer in the handshake, it must not have sent
/// members of MGP.
fn below(root: &str, world: &World) -> Outcome {
    let all = world.below(world::EVERYTHING)?;
    let own = all.iter().find(|one| one.up.iter().any(|line| line.contains(root)));
    let own = own.ok_or_else(|| Failure::new("no instance received the roots of this client"))?;
    if !own.up.iter().any(|line| line.contains("notifications/cancelled")) {
        return Err(Failure::new("the call that was cancelled above went on below"));
    }
    let first = own.up.iter().position(|line| line.contains("notifications/initialized"));
    match own.up.iter().skip(first.unwrap_or(0)).find(|line| has_member(line)) {
        Some(line) => Err(Failure::new(format!("a plain server saw {line}"))),
        None => Ok(()),
    }
}

/// Returns whether a line contains a member or a method of MGP; the names of the kernel's own tools, e.g.
/// `mgp_tools_call`, do not count.
fn has_member(line: &str) -> bool {
    ["\"_mgp\"", "\"mgp\":", "dev.cloto/", "\"mgp/", "\"notifications/mgp"]
        .iter()
        .any(|name| line.contains(name))
}

/// Compares the tokens of a new agent's tool list with the tokens of all definitions.
fn tokens(stage: &Stage) -> Outcome<String> {
    let tokens = stage.kernel()?.ask(&["tools", "tokens", "--agent", "newcomer"])?;
    let saved = tokens["saved_percent"].as_f64().unwrap_or(0.0);
    let shown = format!("{} of {} tokens: {saved} % less", tokens["listed"], tokens["all"]);
    let counted = tokens["servers"].as_array().is_some_and(|servers| {
        servers.len() == 5 && servers.iter().all(|server| server["tokens"].as_u64() > Some(0))
    });
    if !counted || saved < MIN_SAVED_PERCENT {
        return Err(Failure::new(format!(
            "{shown}, expected {MIN_SAVED_PERCENT} % over five servers"
        )));
    }
    Ok(shown)
}
