//! The command `corpus`: sends the malformed input of a labelled corpus to a server, and compares the reactions with
//! the labels.
//!
//! A row is one test case of the corpus: an input, and the expected reaction (the label). Each stdio row gets a server
//! process of its own, so that rows do not affect each other.

mod child;
mod drive;
mod http;
mod input;
mod judge;
mod row;
mod server;

use crate::{
    flags::Flags,
    run::{Context, Failure, Outcome, now, release_example, seconds},
};
pub(crate) use http::http;
use row::Row;
use serde_json::{Value, json};
pub(crate) use server::Server;
use std::{fs, path::Path, sync::Mutex, thread};

/// The number of servers that run in parallel.
const AT_A_TIME: usize = 2;

/// The result of one row: whether it matched its label, whether the server stayed alive, the replies, and the reason
/// for a failure.
#[derive(Debug, Default)]
struct Report {
    ok: bool,
    alive: bool,
    got: Vec<String>,
    why: String,
}

/// Three numbers of rows: all that were run, those that matched their labels, and those after which the server was
/// alive.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Summary {
    pub(crate) rows: usize,
    pub(crate) ok: usize,
    pub(crate) alive: usize,
}

impl Report {
    /// Runs `attempt`, which fills in the report of a row. An error of `attempt` is the reason why the row does not
    /// match its label.
    fn of(attempt: impl FnOnce(&mut Self) -> Result<(), String>) -> Self {
        let mut report = Self::default();
        match attempt(&mut report) {
            Ok(()) => report.ok = true,
            Err(why) => report.why = why,
        }
        report
    }
}

impl Summary {
    /// Returns the share of rows that match their label.
    pub(crate) fn ratio(self) -> f64 {
        if self.rows == 0 { 0.0 } else { ratio(self.ok, self.rows) }
    }

    /// Returns a failure unless all rows match their labels and all servers stayed alive.
    fn whole(self) -> Outcome {
        if self.ok == self.rows && self.alive == self.rows {
            Ok(())
        } else {
            Err(Failure::new(format!("{} of {} rows", self.ok, self.rows)))
        }
    }
}

/// Returns the share of `part` in `whole`; both are small counts.
#[expect(clippy::cast_precision_loss, reason = "counts of rows are small")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// Runs the rows of a file; prints a JSON line for each row, and one for the total.
pub(crate) fn corpus(flags: &Flags) -> Outcome {
    match flags.words() {
        [transport, file] if transport == "stdio" => stdio(Path::new(file), flags.rest())?.whole(),
        [transport, file] if transport == "http" => http(Path::new(file), flags.rest())?.whole(),
        _ => Err(Failure::new("give a transport (stdio, http) and a file")),
    }
}

/// Runs the stdio rows of a file against a server; an empty command selects our own echo server.
pub(crate) fn stdio(file: &Path, command: &[String]) -> Outcome<Summary> {
    let rows = read_rows(file, Row::read)?;
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.transport == "stdio").collect();
    let command = if command.is_empty() { vec![echo()?] } else { command.to_vec() };
    let prober = if rows.iter().any(Row::needs_child) { Some(child::prober()?) } else { None };
    Ok(run_rows(&rows, AT_A_TIME, |row| {
        let report = if row.needs_child() {
            child::run(row, prober.as_deref())
        } else {
            drive::run(row, &command)
        };
        (line(row, &report), report.ok, report.alive)
    }))
}

/// Reads the rows of a file, which has one row per line.
fn read_rows<R>(file: &Path, read: impl Fn(&str) -> Outcome<R>) -> Outcome<Vec<R>> {
    let text = fs::read_to_string(file).context(file.display())?;
    text.lines().filter(|line| !line.trim().is_empty()).map(read).collect()
}

/// Runs rows in parallel; prints a JSON line for each row, and one for the total. `run` returns the line of a row,
/// whether the row matched its label, and whether the server stayed alive.
fn run_rows<R: Sync>(
    rows: &[R],
    at_a_time: usize,
    run: impl Fn(&R) -> (Value, bool, bool) + Sync,
) -> Summary {
    let start = now();
    let queue = Mutex::new(rows.iter());
    let summary = Mutex::new(Summary::default());
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some(row) = queue.lock().ok().and_then(|mut rows| rows.next()) {
                    let (line, ok, alive) = run(row);
                    println!("{line}");
                    if let Ok(mut summary) = summary.lock() {
                        summary.rows += 1;
                        summary.ok += usize::from(ok && alive);
                        summary.alive += usize::from(alive);
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
    summary
}

/// Builds our echo server and returns its path.
pub(crate) fn echo() -> Outcome<String> {
    Ok(release_example("mgp-server-sdk", "echo", &[])?.to_string_lossy().into_owned())
}

fn line(row: &Row, report: &Report) -> Value {
    let Report { ok, alive, got, why } = report;
    json!({"id": row.id, "ok": ok, "alive": alive, "got": got, "why": why, "about": row.why})
}
