//! The command `interop`: runs conversations between our programs and real programs of others, over stdio and HTTP. In
//! each, the client, the server or both work without MGP. In some, foreign clients use foreign servers through our
//! kernel.
//!
//! Each conversation is called a cell. It is a row of the printed table. The same builds of our programs are used with
//! all peers.

mod clients;
mod http_servers;
mod install;
mod kernel;
mod ours;
mod peers;
mod pins;
mod relay;
mod servers;
mod tap;

use crate::{
    accept::Verdict,
    flags::Flags,
    run::{Context, Failure, Outcome, Rigour, debug_programs, now, release_example, seconds},
};
use install::Places;
use pins::Pin;
use serde_json::json;
use std::{
    cell::OnceCell,
    ffi::OsString,
    fmt::Write,
    path::{Path, PathBuf},
    time::Duration,
};

pub(crate) use relay::relay;

/// The kind of a cell: which sides use MGP. Every cell contains one of our programs; in `BothPlain`, our client runs
/// without MGP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quadrant {
    PlainClient,
    PlainServer,
    BothPlain,
    Between,
}

impl Quadrant {
    fn shown(self) -> &'static str {
        match self {
            Self::PlainClient => "plain client, MGP server",
            Self::PlainServer => "MGP client, plain server",
            Self::BothPlain => "plain client, plain server",
            Self::Between => "plain client, kernel, plain servers",
        }
    }
}

/// One conversation between a client and a server, in one mode.
struct Cell {
    name: String,
    quadrant: Quadrant,
    client: String,
    server: String,
    mode: String,
    /// The protocol revision that client and server must negotiate.
    revision: &'static str,
    /// The foreign packages that the conversation needs.
    pins: Vec<Pin>,
    run: Run,
}

/// A function that runs the conversation, and returns a sentence about what was observed.
type Run = Box<dyn Fn(&Cell, &Stage) -> Outcome<String>>;

/// The installed peers, our built programs and the kernel, shared by all cells.
#[derive(Debug)]
struct Stage {
    places: Places,
    programs: [OnceCell<Result<PathBuf, String>>; 3],
    kernel: OnceCell<Result<kernel::World, String>>,
}

/// One of our own programs that cells use.
#[derive(Debug, Clone, Copy)]
enum Ours {
    Echo,
    CallTool,
    /// The program `mgp`, built in the dev profile because an optimised build takes long.
    Mgp,
}

impl Stage {
    fn set() -> Outcome<Self> {
        let (programs, kernel) = Default::default();
        Ok(Self { places: Places::new()?, programs, kernel })
    }

    /// Returns the path of one of our programs. Builds the program when it is first needed.
    fn program(&self, ours: Ours) -> Outcome<PathBuf> {
        let build = || match ours {
            Ours::Echo => release_example("mgp-server-sdk", "echo", &[]),
            Ours::CallTool => release_example("mgp-client-sdk", "call_tool", &[]),
            Ours::Mgp => Ok(debug_programs(&["conformance_server"])?.join("mgp")),
        };
        let built = self.programs[ours as usize]
            .get_or_init(|| build().map_err(|failure: Failure| failure.to_string()));
        built.clone().map_err(Failure::new)
    }

    /// Returns the kernel that the cells share. Starts the kernel when it is first needed.
    fn kernel(&self) -> Outcome<&kernel::World> {
        let start = || kernel::World::start(self).map_err(|failure| failure.to_string());
        self.kernel.get_or_init(start).as_ref().map_err(Failure::new)
    }
}

/// Returns the beginning of a command that starts a server and records its traffic; the caller appends the server's
/// command.
fn relayed(traffic: &Path) -> Outcome<[OsString; 4]> {
    let ourselves = std::env::current_exe().context("our own program")?;
    Ok([ourselves.into(), "relay".into(), traffic.into(), "--".into()])
}

/// The result of one cell, which is a row of the printed table.
struct Row {
    cell: Cell,
    outcome: Outcome<String>,
    took: Duration,
}

/// Runs all cells, or only the cells whose names begin with one of the given words.
pub(crate) fn interop(flags: &Flags) -> Outcome {
    let rigour = Rigour::from_strict(flags.has("--strict"));
    let words = flags.words();
    let named =
        |cell: &Cell| words.is_empty() || words.iter().any(|word| cell.name.starts_with(&**word));
    let rows = table(&named, rigour)?;
    if flags.has("--json") {
        for row in &rows {
            println!("{}", row.json());
        }
    } else {
        print!("{}", markdown(&rows));
    }
    let failed: Vec<_> =
        rows.iter().filter(|row| row.outcome.is_err()).map(|row| &*row.cell.name).collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join(", "))) }
}

/// Runs the part of the acceptance check `sdk.cells` that needs foreign peers.
pub(crate) fn verdict(rigour: Rigour) -> Outcome<Verdict> {
    let others = [http_servers::PREFIX, kernel::PREFIX, peers::PREFIX];
    judged(&|cell| !others.iter().any(|other| cell.name.starts_with(other)), rigour)
}

/// Runs the acceptance check `mcp.interop`: our client uses foreign servers at URLs, and foreign clients use a kernel
/// at its URL. The kernel is a server of our SDK.
pub(crate) fn over_http(rigour: Rigour) -> Outcome<Verdict> {
    let over_http = [http_servers::PREFIX, "kernel/http/"];
    judged(&|cell| over_http.iter().any(|prefix| cell.name.starts_with(prefix)), rigour)
}

/// Runs the acceptance check `kernel.interop`.
pub(crate) fn through_the_kernel(rigour: Rigour) -> Outcome<Verdict> {
    judged(&|cell| cell.name.starts_with(kernel::PREFIX), rigour)
}

/// Runs the acceptance check `stream.peers`.
pub(crate) fn older_peers(rigour: Rigour) -> Outcome<Verdict> {
    judged(&|cell| cell.name.starts_with(peers::PREFIX), rigour)
}

fn judged(wanted: &dyn Fn(&Cell) -> bool, rigour: Rigour) -> Outcome<Verdict> {
    let rows = table(wanted, rigour)?;
    print!("{}", markdown(&rows));
    let green = rows.iter().filter(|row| row.outcome.is_ok()).count();
    Ok(Verdict {
        pass: green == rows.len() && !rows.is_empty(),
        figure: format!("{green} of {} cells", rows.len()),
        bound: "all".to_owned(),
    })
}

/// Returns the cells of all modules.
fn all() -> Vec<Cell> {
    let mut cells = clients::cells();
    cells.extend(servers::cells());
    cells.extend(http_servers::cells());
    cells.extend(kernel::cells());
    cells.extend(peers::cells());
    cells
}

/// Runs the wanted cells one by one; skips a cell whose foreign packages cannot be installed.
fn table(wanted: &dyn Fn(&Cell) -> bool, rigour: Rigour) -> Outcome<Vec<Row>> {
    let mut cells = all();
    cells.retain(wanted);
    if cells.is_empty() {
        return Err(Failure::new("no cell has such a name"));
    }
    let stage = Stage::set()?;
    let mut installed: Vec<(Pin, Result<(), String>)> = Vec::new();
    let mut rows = Vec::new();
    for cell in cells {
        let mut missing = None;
        for &pin in &cell.pins {
            let known = installed.iter().position(|(known, _)| *known == pin);
            let known = known.unwrap_or_else(|| {
                let outcome = stage.places.install(pin).map_err(|failure| failure.to_string());
                installed.push((pin, outcome));
                installed.len() - 1
            });
            missing = missing.or_else(|| installed[known].1.clone().err());
        }
        if let Some(why) = missing {
            if let Err(outcome) = rigour.skip(&cell.name, &why) {
                rows.push(Row { cell, outcome: Err(outcome), took: Duration::ZERO });
            }
            continue;
        }
        let start = now();
        let outcome = (cell.run)(&cell, &stage);
        let row = Row { cell, outcome, took: start.elapsed() };
        eprintln!("{}", row.line());
        rows.push(row);
    }
    Ok(rows)
}

impl Row {
    fn seen(&self) -> String {
        match &self.outcome {
            Ok(seen) => seen.clone(),
            Err(failure) => failure.to_string(),
        }
    }

    fn word(&self) -> &'static str {
        if self.outcome.is_ok() { "pass" } else { "FAIL" }
    }

    fn line(&self) -> String {
        let took = seconds(self.took);
        format!(
            "{:28} {} {:10} {took:>7}  {}",
            self.cell.name,
            self.word(),
            self.cell.revision,
            self.seen()
        )
    }

    fn json(&self) -> serde_json::Value {
        let Cell { name, client, server, mode, revision, .. } = &self.cell;
        json!({
            "cell": name, "kind": self.cell.quadrant.shown(), "client": client, "server": server,
            "mode": mode, "revision": revision, "pass": self.outcome.is_ok(), "seen": self.seen(),
            "seconds": self.took.as_secs_f64(),
        })
    }
}

fn markdown(rows: &[Row]) -> String {
    let mut text =
        "| Cell | Client | Server | Mode | Revision | | Seen |\n|---|---|---|---|---|---|---|\n"
            .to_owned();
    let mut quadrant = None;
    for row in rows {
        let Cell { name, client, server, mode, revision, .. } = &row.cell;
        if quadrant != Some(row.cell.quadrant) {
            quadrant = Some(row.cell.quadrant);
            // Ignores the results of `writeln!` here and below, because writing to a string cannot fail.
            let _ = writeln!(text, "| **{}** | | | | | | |", row.cell.quadrant.shown());
        }
        let seen = row.seen().replace('|', "\\|").replace('\n', " ");
        let _ = writeln!(
            text,
            "| {name} | {client} | {server} | {mode} | {revision} | {} | {seen} |",
            row.word()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_names_of_their_own() {
        let cells = all();
        let mut names: Vec<_> = cells.iter().map(|cell| cell.name.clone()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), cells.len());
        for pin in pins::ALL {
            assert!(cells.iter().any(|cell| cell.pins.contains(pin)), "{pin:?} is for nothing");
        }
    }
}
