//! The conversations (cells) in which foreign clients use our server over HTTP, with JSON replies and event streams.

use super::{
    super::{
        Cell, Ours, Quadrant, Stage,
        clients::{SDKS, Sdk, converse, plain},
    },
    PREFIX,
    tap::Tap,
};
use crate::{run::Outcome, serving::Served};
use std::ffi::OsString;

/// The form of our server's replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    Json,
    Events,
}

/// Returns a cell with JSON replies for each SDK and mode, and for the legacy mode also one with event streams.
pub(super) fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for sdk in SDKS {
        for &(mode, revision) in sdk.modes {
            let mut add = |answers: Answers| {
                let suffix = if answers == Answers::Events { "-events" } else { "" };
                cells.push(Cell {
                    name: format!("{PREFIX}{}/{mode}{suffix}", sdk.name),
                    quadrant: Quadrant::PlainClient,
                    client: sdk.pin.shown(),
                    server: format!("ours, `echo --http`, {answers:?}"),
                    mode: mode.to_owned(),
                    revision,
                    pins: vec![sdk.pin],
                    run: Box::new(move |cell, stage| talk(sdk, mode, answers, cell, stage)),
                });
            };
            add(Answers::Json);
            if mode == "legacy" {
                add(Answers::Events);
            }
        }
    }
    cells
}

/// Starts our echo server, which replies with event streams if `events` is set, else with JSON.
pub(super) fn echo(stage: &Stage, cell: &Cell, events: bool) -> Outcome<Served> {
    let mut words: Vec<OsString> = vec![stage.program(Ours::Echo)?.into()];
    words.extend(["--http", "127.0.0.1:PORT"].map(OsString::from));
    words.extend(events.then(|| OsString::from("--sse")));
    Served::words(&words, &stage.places.log(&cell.name, "server"))
}

fn talk(sdk: &Sdk, mode: &str, answers: Answers, cell: &Cell, stage: &Stage) -> Outcome<String> {
    let served = echo(stage, cell, answers == Answers::Events)?;
    let tap = Tap::before(served.port())?;
    let mut command = sdk.driven(&stage.places)?;
    command.arg(mode).arg(tap.url());
    converse(command, cell, &stage.places)?;
    plain(&tap.traffic(), cell.revision)
}
