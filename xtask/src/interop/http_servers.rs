//! The conversations (cells) in which our client uses foreign servers over HTTP, in every mode.

use super::{
    Cell, Quadrant, Stage,
    clients::at_home,
    install::Places,
    ours::{Call, Mgp, Place},
    pins::{PYTHON_2, Pin, RMCP, SERVER_EVERYTHING},
    servers::{LEGACY, MODERN, TEXT, of_server, short, stays_plain},
    tap::Tap,
};
use crate::{
    run::{Context, Failure, Outcome},
    serving::Served,
};
use serde_json::json;
use std::process::Command;

/// The prefix of the names of the cells with a foreign HTTP server.
pub(super) const PREFIX: &str = "http/";

/// A foreign server with a tool named `echo`.
struct Server {
    name: &'static str,
    pin: Pin,
    /// The newest revision that the server supports, which mode `auto` must negotiate.
    best: &'static str,
    command: fn(&Places, u16) -> Outcome<Command>,
}

const SERVERS: &[Server] = &[
    Server {
        name: "python-2-server",
        pin: PYTHON_2,
        best: MODERN,
        command: |places, port| Ok(python(places, port)),
    },
    Server { name: "everything-server", pin: SERVER_EVERYTHING, best: LEGACY, command: everything },
    Server {
        name: "rmcp-server",
        pin: RMCP,
        best: MODERN,
        command: |places, port| Ok(rmcp(places, port, "sse")),
    },
    Server {
        name: "rmcp-json-server",
        pin: RMCP,
        best: MODERN,
        command: |places, port| Ok(rmcp(places, port, "json")),
    },
];

fn python(places: &Places, port: u16) -> Command {
    let mut command = Command::new(places.python(PYTHON_2));
    command.arg(places.driver("server.py")).arg(port.to_string());
    command
}

/// Returns the command of the server "everything". A script makes it listen on loopback; without the script, it would
/// listen on every interface.
fn everything(places: &Places, port: u16) -> Outcome<Command> {
    let mut command = Command::new(Places::node(SERVER_EVERYTHING)?);
    command.arg("--require").arg(places.driver("loopback.cjs"));
    command.arg(places.module(SERVER_EVERYTHING)).arg("streamableHttp");
    command.env("PORT", port.to_string());
    Ok(command)
}

fn rmcp(places: &Places, port: u16, answers: &str) -> Command {
    let mut command = Command::new(places.rmcp());
    command.args(["http", &format!("127.0.0.1:{port}"), answers]);
    command
}

/// Returns a cell for each server, mode and set of offered extensions.
pub(super) fn cells() -> Vec<Cell> {
    let of = |server: &'static Server| {
        let (name, client) = (format!("{PREFIX}{}", server.name), "ours, `call_tool --url`");
        of_server(&name, server.pin, server.best, client, |mode, mgp| {
            Box::new(move |cell: &Cell, stage: &Stage| talk(server, mode, mgp, cell, stage))
        })
    };
    let mut cells: Vec<Cell> = SERVERS.iter().flat_map(of).collect();
    cells.sort_by_key(|cell| cell.quadrant == Quadrant::BothPlain);
    cells
}

fn talk(server: &Server, era: &str, mgp: Mgp, cell: &Cell, stage: &Stage) -> Outcome<String> {
    let places = &stage.places;
    let start = |port| {
        let mut command = (server.command)(places, port)?;
        at_home(&mut command, places);
        Ok(command)
    };
    let served = Served::start(start, &places.log(&cell.name, "server"))?;
    let tap = Tap::before(served.port())?;
    let url = tap.url();
    let place = Place::Url(&url);
    let arguments = json!({"message": TEXT});
    let call = Call { era, mgp, server: place, tool: "echo", arguments };
    let mut seen = call.make(cell, stage, "traffic", |_| {})?;
    seen.traffic = tap.traffic();
    let text = seen.result()?.to_string();
    if !text.contains(TEXT) {
        return Err(Failure::new(format!("{TEXT:?} is not in {text}")));
    }
    stays_plain(&seen, cell, mgp)?;
    let unknown = Call { tool: "no_such_tool", arguments: json!({}), ..call };
    let seen = unknown.make(cell, stage, "unknown", |_| {})?;
    let refusal = seen.refusal().context("an unknown tool is refused")?;
    Ok(format!("`echo` answers; an unknown tool: {}", short(&refusal)))
}
