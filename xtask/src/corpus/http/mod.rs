//! Plays the HTTP test cases (rows) of the corpus: each request is sent over a new socket, byte for byte, to one
//! shared server.
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

pub(crate) use host::alive;

use super::Summary;
use crate::run::{Context, Outcome, now, seconds};
use host::Host;
use row::Row;
use serde_json::{Value, json};
use std::{fs, path::Path, sync::Mutex, thread};

/// The number of rows that run in parallel, so that a slow row does not block the others.
const AT_A_TIME: usize = 3;

/// The result of one row.
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
    let text = fs::read_to_string(file).context(file.display())?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let rows: Vec<Row> = lines.map(Row::read).collect::<Outcome<_>>()?;
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.transport == "http").collect();
    let host = Mutex::new(Host::start(command)?);
    let start = now();
    let queue = Mutex::new(rows.iter());
    let summary = Mutex::new(Summary::default());
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(row) = queue.lock().ok().and_then(|mut rows| rows.next()) {
                    let report = play::run(row, &host);
                    println!("{}", line(row, &report));
                    if let Ok(mut summary) = summary.lock() {
                        summary.rows += 1;
                        summary.ok += usize::from(report.ok && report.alive);
                        summary.alive += usize::from(report.alive);
                    }
                }
            });
        }
    });
    let summary = summary.into_inner().unwrap_or_default();
    let Summary { rows, ok, alive } = summary;
    let ratio = (summary.ratio() * 10_000.0).round() / 10_000.0;
    println!("{}", json!({"rows": rows, "ok": ok, "alive": alive, "ratio": ratio}));
    println!("corpus: {}", seconds(start.elapsed()));
    Ok(summary)
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
