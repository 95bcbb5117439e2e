//! Runs the HTTP test cases (rows) of the corpus: each request is sent over a new socket, byte for byte, to one shared
//! server.
//!
//! No HTTP library is used, because half of the rows are not valid HTTP.

mod fixture;
mod host;
mod plan;
mod play;
mod reset;
mod row;
mod secrets;
mod wire;

use super::{Summary, read_rows, run_rows};
use crate::run::Outcome;
use host::Host;
use row::Row;
use serde_json::{Value, json};
use std::{path::Path, sync::Mutex};

/// The number of rows that run in parallel, so that a slow row does not delay all other rows.
const AT_A_TIME: usize = 3;

#[derive(Debug, Default)]
struct Report {
    ok: bool,
    alive: bool,
    /// The HTTP status as a number; `"closed"` if the server closed the connection, `"silent"` if no reply arrived.
    status: Value,
    code: Option<i64>,
    why: String,
}

/// Runs the HTTP rows of a file against a server; an empty command selects our own conformance server.
pub(crate) fn http(file: &Path, command: &[String]) -> Outcome<Summary> {
    let rows = read_rows(file, Row::read)?;
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.transport == "http").collect();
    let host = Mutex::new(Host::start(command)?);
    Ok(run_rows(&rows, AT_A_TIME, |row| {
        let report = play::run(row, &host);
        (line(row, &report), report.ok, report.alive)
    }))
}

fn line(row: &Row, report: &Report) -> Value {
    let Report { ok, alive, status, code, why } = report;
    let ok = *ok && *alive;
    let mut line = json!({"id": row.id, "status": status, "code": code, "ok": ok, "alive": alive});
    if !ok {
        line["why"] = json!(why);
        line["about"] = json!(row.why);
    }
    line
}
