//! Foreign clients, our kernel, foreign servers: everything MCP has, on stdio and over HTTP, in both eras.
//!
//! One kernel serves all cells, as it would all hosts of a person; each cell is an agent of its own.

mod inspector;
mod same;
mod script;
mod world;

use super::{
    Cell, Quadrant, Stage,
    clients::{SDKS, Sdk, at_home},
    http::Tap,
    pins::Pin,
    relay::Traffic,
    relayed, servers,
};
use crate::{
    child,
    run::{Failure, Outcome},
};
use std::time::Duration;

pub(super) use world::World;

/// What the names of these cells begin with.
pub(super) const PREFIX: &str = "kernel/";

/// How long one conversation may take on a busy machine.
const LIMIT: Duration = Duration::from_mins(3);

/// What the list must cost less than all definitions, in percent.
const SAVED: f64 = 95.0;

/// How a client reaches the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Through a shim, which finds the kernel that runs.
    Stdio,
    /// With a key.
    Http,
    /// The kernel is the process that the host starts.
    Standalone,
}

impl Way {
    fn shown(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Standalone => "standalone",
        }
    }
}

/// Every cell of this kind.
pub(super) fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for way in [Way::Stdio, Way::Http, Way::Standalone] {
        for sdk in SDKS {
            for &(mode, revision) in sdk.modes {
                // One that starts all servers anew shows what is different about it.
                if way == Way::Standalone && (sdk.name, mode) != ("python-2", "auto") {
                    continue;
                }
                let shown = (format!("{}/{}/{mode}", way.shown(), sdk.name), mode, sdk.pin);
                cells.push(cell(shown, revision, move |cell, stage| {
                    talk(way, sdk, mode, cell, stage)
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

/// A cell of the kernel, with all servers behind it.
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

/// The agents of the cells that show a key.
fn with_keys() -> Vec<String> {
    let begin = format!("{PREFIX}{}/", Way::Http.shown());
    cells().iter().filter(|cell| cell.name.starts_with(&begin)).map(agent).collect()
}

/// The agent of a cell.
fn agent(cell: &Cell) -> String {
    cell.name[PREFIX.len()..].replace('/', "-")
}

fn talk(way: Way, sdk: &Sdk, mode: &str, cell: &Cell, stage: &Stage) -> Outcome<String> {
    let (places, world, agent) = (&stage.places, stage.kernel()?, agent(cell));
    let (root, folder) = (format!("file:///work/{agent}"), servers::home_folder(places));
    let mut command = sdk.driven_in_full(places)?;
    command.arg(mode);
    let traffic = places.log(&cell.name, "traffic");
    let (mut tap, mut key) = (None, None);
    if way == Way::Http {
        let before = Tap::before(world.port())?;
        command.arg(before.url());
        (tap, key) = (Some(before), Some(world.key(&agent)?));
    } else {
        let alone = way == Way::Standalone;
        let kernel = if alone { world.alone(places, &agent)? } else { world.shim(&agent) };
        command.args(relayed(&traffic)?).args(kernel);
    }
    at_home(&mut command, places);
    let errors = places.log(&cell.name, "stderr");
    let script = script::script(&root, key, &folder);
    let ended = child::run(command, &script, &errors, LIMIT)?;
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

/// What the instance of this client saw: that a call was cancelled, and no MGP after the offer.
fn below(root: &str, world: &World) -> Outcome {
    let all = world.below(world::EVERYTHING)?;
    let own = all.iter().find(|one| one.up.iter().any(|line| line.contains(root)));
    let own = own.ok_or_else(|| Failure::new("no instance was told the roots of this client"))?;
    if !own.up.iter().any(|line| line.contains("notifications/cancelled")) {
        return Err(Failure::new("the call that was cancelled above went on below"));
    }
    let first = own.up.iter().position(|line| line.contains("notifications/initialized"));
    match own.up.iter().skip(first.unwrap_or(0)).find(|line| has_member(line)) {
        Some(line) => Err(Failure::new(format!("a plain server saw {line}"))),
        None => Ok(()),
    }
}

/// Whether a line has a member or a method of MGP; the tools to find tools are called after it, and may be.
fn has_member(line: &str) -> bool {
    ["\"_mgp\"", "\"mgp\":", "dev.cloto/", "\"mgp/", "\"notifications/mgp"]
        .iter()
        .any(|name| line.contains(name))
}

/// What the list of a newcomer costs against all definitions.
fn tokens(stage: &Stage) -> Outcome<String> {
    let told = stage.kernel()?.ask(&["tools", "tokens", "--agent", "newcomer"])?;
    let saved = told["saved_percent"].as_f64().unwrap_or(0.0);
    let shown = format!("{} of {} tokens: {saved} % less", told["listed"], told["all"]);
    let counted = told["servers"].as_array().is_some_and(|servers| {
        servers.len() == 5 && servers.iter().all(|server| server["tokens"].as_u64() > Some(0))
    });
    if !counted || saved < SAVED {
        return Err(Failure::new(format!("{shown}, expected {SAVED} % over five servers")));
    }
    Ok(shown)
}
