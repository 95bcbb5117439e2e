//! The conversations (cells) in which our client `call_tool` uses foreign stdio servers, in both protocol eras.

use super::{
    Cell, Quadrant, Run, Stage,
    clients::at_home,
    install::Places,
    ours::{Call, Mgp, Place, Seen},
    pins::{
        Pin, RMCP, SERVER_EVERYTHING, SERVER_FILESYSTEM, SERVER_GIT, SERVER_MEMORY, SERVER_TIME,
    },
    relay::mgp_named,
};
use crate::run::{Context, Failure, Outcome, Program};
use serde_json::{Value, json};
use std::{ffi::OsString, fs, path::PathBuf};

/// A foreign server, and a call that shows that it works.
struct Server {
    name: &'static str,
    pin: Pin,
    /// The newest revision that the server supports.
    best: &'static str,
    command: fn(&Places) -> Outcome<Vec<OsString>>,
    tool: &'static str,
    arguments: fn(&Places) -> Value,
    /// A text that the result of the call must contain.
    wanted: &'static str,
}

const SERVERS: &[Server] = &[
    Server {
        name: "time",
        pin: SERVER_TIME,
        best: MODERN,
        command: |places| Ok(vec![places.script(SERVER_TIME).into()]),
        tool: "convert_time",
        arguments: |_| json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
        wanted: "T21:00:00+09:00",
    },
    Server {
        name: "git",
        pin: SERVER_GIT,
        best: MODERN,
        command: |places| {
            let folder = folder(places)?;
            Program::new("git").args(&["init", "--quiet"]).args(&[&folder]).run()?;
            Ok(vec![places.script(SERVER_GIT).into(), "--repository".into(), folder.into()])
        },
        tool: "git_status",
        arguments: |places| json!({"repo_path": home_folder(places)}),
        wanted: "turtle.txt",
    },
    Server {
        name: "everything",
        pin: SERVER_EVERYTHING,
        best: LEGACY,
        command: |places| {
            Ok(vec![
                Places::node(SERVER_EVERYTHING)?.into(),
                places.module(SERVER_EVERYTHING).into(),
                "stdio".into(),
            ])
        },
        tool: "echo",
        arguments: |_| json!({"message": TEXT}),
        wanted: TEXT,
    },
    Server {
        name: "filesystem",
        pin: SERVER_FILESYSTEM,
        best: LEGACY,
        command: |places| {
            Ok(vec![
                Places::node(SERVER_FILESYSTEM)?.into(),
                places.module(SERVER_FILESYSTEM).into(),
                folder(places)?.into(),
            ])
        },
        tool: "read_text_file",
        arguments: |places| json!({"path": home_folder(places).join("turtle.txt")}),
        wanted: TEXT,
    },
    Server {
        name: "memory",
        pin: SERVER_MEMORY,
        best: LEGACY,
        command: |places| {
            let memory = places.home().join("memory.jsonl");
            // Removes the server's memory file of an earlier run, because its contents would change the result.
            let _ = fs::remove_file(&memory);
            let mut file = OsString::from("MEMORY_FILE_PATH=");
            file.push(memory);
            Ok(vec![
                "env".into(),
                file,
                Places::node(SERVER_MEMORY)?.into(),
                places.module(SERVER_MEMORY).into(),
            ])
        },
        tool: "create_entities",
        arguments: |_| json!({"entities": [{"name": TEXT, "entityType": "animal", "observations": ["is slow"]}]}),
        wanted: TEXT,
    },
    Server {
        name: "rmcp",
        pin: RMCP,
        best: MODERN,
        command: |places| Ok(vec![places.rmcp().into(), "stdio".into()]),
        tool: "echo",
        arguments: |_| json!({"message": TEXT}),
        wanted: TEXT,
    },
];

/// A text with non-ASCII characters, so that each reply shows whether it was decoded correctly.
pub(super) const TEXT: &str = "żółw 🦀";

pub(super) const LEGACY: &str = "2025-11-25";
pub(super) const MODERN: &str = "2026-07-28";

/// A function that returns the command to start a server.
pub(super) type Start = fn(&Places) -> Outcome<Vec<OsString>>;

/// Returns the servers of MCP's reference collection: name, package, and the command that starts each.
pub(super) fn collection() -> impl Iterator<Item = (&'static str, Pin, Start)> {
    let others = SERVERS.iter().filter(|server| server.pin != RMCP);
    others.map(|server| (server.name, server.pin, server.command))
}

/// Returns a cell for each server, mode and set of offered extensions.
pub(super) fn cells() -> Vec<Cell> {
    let of = |server: &'static Server| {
        of_server(server.name, server.pin, server.best, "ours, `call_tool`", |mode, mgp| {
            Box::new(move |cell: &Cell, stage: &Stage| talk(server, mode, mgp, cell, stage))
        })
    };
    let mut cells: Vec<Cell> = SERVERS.iter().flat_map(of).collect();
    cells.sort_by_key(|cell| cell.quadrant == Quadrant::BothPlain);
    cells
}

/// Returns the cells of a server: one for each mode, and one without MGP. `best` is the newest revision that the server
/// supports, which mode `auto` must negotiate.
pub(super) fn of_server(
    name: &str,
    pin: Pin,
    best: &'static str,
    client: &str,
    run: impl Fn(&'static str, Mgp) -> Run,
) -> Vec<Cell> {
    let modes = [
        ("auto", Mgp::All, best),
        ("legacy", Mgp::All, LEGACY),
        ("modern", Mgp::All, MODERN),
        ("auto", Mgp::None, best),
    ];
    let modes = modes.into_iter().filter(|(mode, ..)| *mode != "modern" || best == MODERN);
    let cell = |(mode, mgp, revision): (&'static str, Mgp, &'static str)| {
        let plain = mgp == Mgp::None;
        let suffix = if plain { "-plain" } else { "" };
        Cell {
            name: format!("{name}/{mode}{suffix}"),
            quadrant: if plain { Quadrant::BothPlain } else { Quadrant::PlainServer },
            client: client.to_owned(),
            server: pin.shown(),
            mode: mode.to_owned(),
            revision,
            pins: vec![pin],
            run: run(mode, mgp),
        }
    };
    modes.map(cell).collect()
}

fn talk(server: &Server, era: &str, mgp: Mgp, cell: &Cell, stage: &Stage) -> Outcome<String> {
    let command = (server.command)(&stage.places)?;
    let arguments = (server.arguments)(&stage.places);
    let call = Call { era, mgp, server: Place::Command(&command), tool: server.tool, arguments };
    let seen = call.make(cell, stage, "traffic", |command| at_home(command, &stage.places))?;
    let text = seen.result()?.to_string();
    // The text of a result may itself be JSON, so one level of escapes is removed.
    if !text.contains(server.wanted) && !text.replace("\\\\", "\\").contains(server.wanted) {
        return Err(Failure::new(format!("{:?} is not in {text}", server.wanted)));
    }
    stays_plain(&seen, cell, mgp)?;
    let unknown = Call { tool: "no_such_tool", arguments: json!({}), ..call };
    let seen = unknown.make(cell, stage, "unknown", |command| at_home(command, &stage.places))?;
    let message = seen.refusal().context("an unknown tool is refused")?;
    Ok(format!("`{}` answers; an unknown tool: {}", server.tool, short(&message)))
}

/// Returns the lines that a client sends from `notifications/initialized` on; all lines if it does not send this
/// notification.
fn after_the_handshake(up: &[String]) -> Vec<String> {
    let first = up.iter().position(|line| line.contains("notifications/initialized"));
    first.map_or_else(|| up.to_vec(), |first| up[first..].to_vec())
}

/// Returns the first line of a text, cut to 60 characters.
pub(super) fn short(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= 60 {
        line.to_owned()
    } else {
        line.chars().take(59).collect::<String>() + "…"
    }
}

/// Creates a folder that contains one file, for servers that read files.
fn folder(places: &Places) -> Outcome<PathBuf> {
    let folder = home_folder(places);
    fs::create_dir_all(&folder).context(folder.display())?;
    fs::write(folder.join("turtle.txt"), TEXT)?;
    Ok(folder)
}

pub(super) fn home_folder(places: &Places) -> PathBuf {
    places.home().join("folder")
}

/// Checks that the expected revision was negotiated. Also checks that only the client's offer of extensions mentioned
/// MGP to the server.
pub(super) fn stays_plain(seen: &Seen, cell: &Cell, mgp: Mgp) -> Outcome {
    seen.settled_on(cell.revision)?;
    if seen.negotiated_mgp()? {
        return Err(Failure::new("a plain server is taken for one that speaks MGP"));
    }
    // The offer mentions MGP: in the legacy era only during the handshake, in the modern era in every request.
    let quiet = match (mgp, cell.revision == LEGACY) {
        (Mgp::None, _) => seen.traffic.up.clone(),
        (Mgp::All, true) => after_the_handshake(&seen.traffic.up),
        (Mgp::All, false) => Vec::new(),
    };
    if let Some(line) = mgp_named(&quiet) {
        return Err(Failure::new(format!("a plain server saw {line}")));
    }
    Ok(())
}
