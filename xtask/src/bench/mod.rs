//! `bench stdio`: our echo server against rmcp and a bare loop, on figures that repeat.
//!
//! Instructions and allocations are the difference of two run lengths, so that start-up cancels.
//! CPU time is taken in alternating rounds, all servers in each, and compared by the minimum.

mod measure;
mod programs;
mod stdio;
mod table;

use crate::{
    accept::Verdict,
    flags::Flags,
    run::{Context, Failure, Outcome, Rigour, has},
};
use programs::{Generator, Programs, Server};
use std::{fs, path::Path};
use table::Row;

/// How much time to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// Fewer calls and rounds.
    Quick,
    /// As the budgets were set.
    Full,
}

/// Measures, prints the rows, and fails if one misses its budget.
pub(crate) fn bench(flags: &Flags) -> Outcome {
    match flags.words() {
        [transport] if transport == "stdio" => {}
        _ => return Err(Failure::new("give a transport: stdio (http comes with its transport)")),
    }
    let effort = if flags.has("--quick") { Effort::Quick } else { Effort::Full };
    let mut programs = Programs::build(flags.rest())?;
    if !flags.has("--free") {
        programs = programs.pinned()?;
    }
    let rows = rows(&programs, effort, Rigour::from_strict(flags.has("--strict")))?;
    if flags.has("--json") {
        for row in &rows {
            println!("{}", row.json());
        }
    } else {
        print!("{}", table::text(&rows));
    }
    if let Some(file) = flags.value("--markdown") {
        fs::write(file, table::markdown(&rows, effort, programs.generator.processor.is_some()))
            .context(file)?;
        println!("wrote {file}");
    }
    let missed: Vec<_> = rows.iter().filter(|row| row.missed()).map(Row::title).collect();
    if missed.is_empty() { Ok(()) } else { Err(Failure::new(missed.join(", "))) }
}

/// `accept core.bench`.
pub(crate) fn core_bench(rigour: Rigour) -> Outcome<Verdict> {
    let rows = rows(&Programs::build(&[])?.pinned()?, Effort::Full, rigour)?;
    print!("{}", table::text(&rows));
    let missed = rows.iter().filter(|row| row.missed()).count();
    Ok(Verdict {
        pass: missed == 0,
        figure: format!("{} of {} budgets kept", rows.len() - missed, rows.len()),
        bound: "all".to_owned(),
    })
}

/// Instructions of one small echo by a server of somebody else; `None` where they cannot be counted.
pub(crate) fn instructions_of(server: &Path, rigour: Rigour) -> Outcome<Option<f64>> {
    if !has("valgrind") {
        rigour.skip("instructions", "valgrind is not installed")?;
        return Ok(None);
    }
    let server = Server { name: "theirs", command: vec![server.to_string_lossy().into_owned()] };
    let generator = Generator::build()?;
    let lengths = measure::Lengths(500, 4500);
    measure::instructions(&generator, &server, measure::echo(64, 16), lengths).map(Some)
}

fn rows(programs: &Programs, effort: Effort, rigour: Rigour) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    if has("valgrind") {
        rows.extend(stdio::counted(programs, effort)?);
    } else {
        rigour.skip("instructions and allocations", "valgrind is not installed")?;
    }
    rows.extend(stdio::timed(programs, effort)?);
    Ok(rows)
}
