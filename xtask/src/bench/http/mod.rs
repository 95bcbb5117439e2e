//! The benchmarks of the echo server over HTTP: calls in both protocol revisions, replies as JSON and as event streams,
//! and idle sessions.

pub(super) mod run;

use super::{
    Effort,
    measure::Lengths,
    programs::{Programs, Server},
    table::{Bound, Row},
};
use crate::run::{Failure, Outcome};
use run::{Ask, Form, Hold, call_instructions, sessions_per_gib, user_times};

/// The commands of the compared servers; `ADDR` in a command is replaced by the address.
struct Servers {
    ours_json: Server,
    ours_events: Server,
    rmcp_json: Server,
    rmcp_events: Server,
    bare: Server,
}

impl Servers {
    fn of(programs: &Programs) -> Self {
        let served = |server: &Server, flags: &[&str]| {
            let mut server = server.clone();
            server.command.extend(flags.iter().map(ToString::to_string));
            server
        };
        Self {
            ours_json: served(&programs.ours, &["--http", "ADDR"]),
            ours_events: served(&programs.ours, &["--http", "ADDR", "--sse"]),
            rmcp_json: served(&programs.rmcp_http, &["http", "ADDR", "json", "--rt", "current"]),
            rmcp_events: served(&programs.rmcp_http, &["http", "ADDR", "sse", "--rt", "current"]),
            bare: served(&programs.bare_http, &["ADDR"]),
        }
    }
}

const JSON_LEGACY: Ask = Ask { form: Form::Legacy, connections: 1 };
const JSON_MODERN: Ask = Ask { form: Form::Modern, connections: 1 };

/// Counts instructions per call. The counts hardly vary, so one measurement is enough.
pub(super) fn counted(programs: &Programs, effort: Effort) -> Outcome<Vec<Row>> {
    let calls = match effort {
        Effort::Quick => Lengths(100, 600),
        Effort::Full | Effort::Counted => Lengths(300, 2300),
    };
    let servers = Servers::of(programs);
    let count =
        |server: &Server, ask| call_instructions(&programs.generator, [server; 2], ask, calls);
    let row = |name, ask, ours: &Server, peer: &Server, most| {
        Ok::<_, Failure>(Row {
            name,
            unit: "instructions",
            ours: count(ours, ask)?,
            median: None,
            ours_multi: None,
            peer: count(peer, ask)?,
            bare: Some(count(&servers.bare, ask)?),
            bound: Bound::Figure(most),
        })
    };
    let Servers { ours_json, ours_events, rmcp_json, rmcp_events, .. } = &servers;
    Ok(vec![
        row("JSON call, 2026-07-28", JSON_MODERN, ours_json, rmcp_json, 45_000.0)?,
        row("JSON call, 2025-11-25", JSON_LEGACY, ours_json, rmcp_json, 45_000.0)?,
        row("session and events", JSON_LEGACY, ours_events, rmcp_events, 55_000.0)?,
    ])
}

/// Measures the user-space CPU time per call, with all servers in each round. The result is the mean of the rounds,
/// because the system counts CPU time in coarse ticks.
pub(super) fn timed(programs: &Programs, effort: Effort) -> Outcome<Vec<Row>> {
    let (rounds, calls) = match effort {
        Effort::Quick => (3, 40_000),
        Effort::Full | Effort::Counted => (6, 60_000),
    };
    let servers = Servers::of(programs);
    let three = [&servers.ours_json, &servers.rmcp_json, &servers.bare];
    let cells = [
        ("JSON call, 2026-07-28, 1 connection", JSON_MODERN),
        ("JSON call, 2026-07-28, 16 connections", Ask { connections: 16, ..JSON_MODERN }),
        ("JSON call, 2025-11-25, 1 connection", JSON_LEGACY),
        ("JSON call, 2025-11-25, 16 connections", Ask { connections: 16, ..JSON_LEGACY }),
    ];
    let mut rows = Vec::new();
    for (name, ask) in cells {
        let [ours, peer, bare] = user_times(&programs.generator, three, ask, rounds, calls)?;
        rows.push(Row {
            name,
            unit: "user CPU us",
            ours,
            median: None,
            ours_multi: None,
            peer,
            bare: Some(bare),
            bound: Bound::Both { bare: 2.0, peer: 0.4 },
        });
    }
    Ok(rows)
}

/// Measures how many idle sessions fit into 1 GiB, with and without an open event stream.
pub(super) fn sessions(programs: &Programs, effort: Effort) -> Outcome<Vec<Row>> {
    let count = match effort {
        Effort::Quick => 2_000,
        Effort::Full | Effort::Counted => 5_000,
    };
    let servers = Servers::of(programs);
    let row = |name, hold, least| {
        let measure = |server| sessions_per_gib(&programs.generator, server, hold, count);
        Ok::<_, Failure>(Row {
            name,
            unit: "per GiB",
            ours: measure(&servers.ours_events)?,
            median: None,
            ours_multi: None,
            peer: measure(&servers.rmcp_events)?,
            bare: None,
            bound: Bound::AtLeast(least),
        })
    };
    Ok(vec![
        row("idle sessions", Hold::Nothing, 100_000.0)?,
        row("idle sessions with a GET stream", Hold::Stream, 40_000.0)?,
    ])
}
