//! The command `bench kernel`: measures the cost of a kernel between a host and a server, with all policies and the
//! audit log enabled.
//!
//! - A kernel over HTTP is compared with a proxy that makes no decisions (`bare-proxy`), and a kernel over stdio with a
//!   program that only copies pipes (`floor-hop`). Only the process between host and server is measured.
//! - The server behind the kernel is `echo`, on the same processor; its tool is known, granted and declared safe.
//! - Start time and memory are those of the whole kernel process.

mod hop;
mod order;
mod rest;
mod world;

use super::{
    Effort, Report,
    row::{self, Row},
    table,
};
use crate::{
    accept::Verdict,
    flags::Flags,
    run::{Context, Outcome, Rigour, has},
};
use serde_json::{Value, json};
use std::{fs, path::Path};
use world::World;

/// The heading of this benchmark's section in the Markdown file.
const HEADING: &str = "## kernel";

/// Measures, prints the rows and fails if a row misses its bound; with `--markdown`, also writes them to a file. With
/// `--write-order`, writes the order of the functions of `mgp` for the linker instead. `--bin` names a program that was
/// built before, e.g. that of a release.
pub(super) fn bench(flags: &Flags) -> Outcome {
    let world = match flags.value("--bin") {
        Some(program) => World::of(&fs::canonicalize(program).context(program)?)?,
        None => World::build()?,
    };
    if flags.has("--write-order") {
        return order::write(&world);
    }
    let effort = Effort::of(flags);
    let rows = rows(&world, effort, Rigour::from_strict(flags.has("--strict")))?;
    let all: Vec<Value> = rows.iter().map(Row::json).collect();
    let report = Report {
        json: json!({ "rows": all }).to_string(),
        text: row::text(&rows),
        heading: HEADING,
        section: &|| section(&rows, effort),
        missed: row::missed(&rows),
    };
    report.show(flags)
}

/// Runs the acceptance check `kernel.bench`.
pub(crate) fn kernel_bench(rigour: Rigour) -> Outcome<Verdict> {
    Ok(row::verdict(&rows(&World::build()?, Effort::Full, rigour)?))
}

/// Makes the calls of the quick benchmark through an instrumented program, which counts how often each of its parts
/// runs.
pub(crate) fn train(program: &Path) -> Outcome {
    let world = World::of(program)?;
    hop::http(&world, Effort::Quick)?;
    hop::stdio(&world, Effort::Quick)?;
    Ok(())
}

fn rows(world: &World, effort: Effort, rigour: Rigour) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    if has("valgrind") {
        rows.extend(hop::counted(world, effort)?);
    } else {
        rigour.skip("instructions", "valgrind is not installed")?;
    }
    if effort != Effort::Counted {
        rows.extend(hop::http(world, effort)?);
        rows.extend(hop::stdio(world, effort)?);
        rows.extend(rest::start(world, effort)?);
    }
    rows.extend(rest::memory(world)?);
    Ok(rows)
}

/// Returns the section of the Markdown file, with the command and the machine that produced the figures.
fn section(rows: &[Row], effort: Effort) -> String {
    let flag = effort.flag();
    format!(
        "{HEADING}\n\n\
         Measured by `cargo xtask bench kernel{flag} --markdown FILE` on {}.\n\
         A call echoes 64 bytes through `mgp serve --standalone`, with access, definitions, permissions, risk and the audit log on disk.\n\
         `floor` is `bare-proxy` over HTTP, and a program that copies two pipes over stdio; only the process in the middle counts.\n\
         CPU times are the medians of alternating rounds, all on one processor with the generator.\n\
         Added time is the time of a call through the kernel minus that of a direct call.\n\n{}",
        table::machine(),
        row::markdown(rows),
    )
}
