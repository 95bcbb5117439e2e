//! The command `bench toolindex`: measures searches among 3 thousand to a million tools, changes, opening and memory,
//! and checks the bounds.
//!
//! The catalogues are generated from a real catalogue with a fixed seed, or from typical words if there is no real
//! catalogue. Searches run on one processor with a warm index. The time of a search is its CPU time in the best of
//! several rounds over all queries, because other processes on the machine can only make a round slower. Opening an
//! index uses all processors.

mod program;

use super::{
    Effort, Report,
    row::{self, Row},
    table,
};
use crate::{
    accept::{Verdict, shared},
    flags::Flags,
    run::{Failure, Outcome},
};
use program::Program;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The heading of this benchmark's section in the Markdown file.
const HEADING: &str = "## toolindex";

/// A size of the catalogue, with the number of searches and the bounds for it.
struct Size {
    tools: usize,
    /// The number of queries in a round, and the number of rounds.
    asked: [usize; 2],
    /// The maximum time that 99 of 100 hybrid searches may take, in milliseconds; `None` if there is no bound.
    /// `keyword` is this maximum for keyword searches.
    hybrid: Option<f64>,
    keyword: Option<f64>,
    /// The maximum memory per tool in KiB, without the text of its definition.
    memory: Option<f64>,
}

const SIZES: [Size; 4] = [
    // This size has no bound for the memory per tool, because a small index consists mostly of its fixed cost.
    Size { tools: 3_000, asked: [2_000, 7], hybrid: Some(0.5), keyword: Some(0.2), memory: None },
    Size { tools: 15_000, asked: [1_000, 5], hybrid: None, keyword: None, memory: MEMORY },
    Size {
        tools: 100_000,
        asked: [1_000, 5],
        hybrid: Some(5.0),
        keyword: Some(2.0),
        memory: MEMORY,
    },
    Size {
        tools: 1_000_000,
        asked: [500, 3],
        hybrid: Some(40.0),
        keyword: Some(20.0),
        memory: MEMORY,
    },
];

/// The maximum memory per tool in KiB, without the text of its definition.
const MEMORY: Option<f64> = Some(1.5);

/// The number of tools of a small index, as in a gateway with a few servers. The maximum memory is that of a program
/// with such an index, in MiB, beyond the memory of an empty program.
const FEW: usize = 50;
const FEW_MEMORY: f64 = 6.0;

/// The number of tools in the stored index that the benchmark opens. `OPENED` is the number of times that it opens the
/// index.
const KEPT: usize = 15_000;
const OPENED: usize = 7;

/// The maximum time from opening a stored index to the first search result, in milliseconds.
const OPENING: f64 = 300.0;

/// The number of tools in the index to which the benchmark adds tools. `ADDING` is the maximum time until a search
/// finds the added tools, in milliseconds.
const ADDED_TO: usize = 100_000;
const ADDING: f64 = 10.0;

/// The labelled sets from which the queries are taken. The sets take turns, so that short and long queries alternate.
const ASKED: [&str; 6] =
    ["livemcp", "metatool", "bfcl", "sealtools", "stabletoolbench", "mcpm_server"];

/// The results of all measurements.
struct Figures {
    rows: Vec<Row>,
    /// The JSON output of the measuring programs.
    outputs: Vec<Value>,
}

/// Measures, prints the rows and fails if a row misses its bound; with `--markdown`, also writes them to a file.
pub(super) fn bench(flags: &Flags) -> Outcome {
    let effort = Effort::of(flags);
    let data = flags.value("--data").map(PathBuf::from);
    let figures =
        figures(data, effort, if flags.has("--free") { Place::Free } else { Place::One })?;
    let rows: Vec<_> = figures.rows.iter().map(Row::json).collect();
    let report = Report {
        json: json!({"rows": rows, "runs": figures.outputs}).to_string(),
        text: row::text(&figures.rows),
        heading: HEADING,
        section: &|| section(&figures.rows, effort),
        missed: row::missed(&figures.rows),
    };
    report.show(flags)
}

/// Runs the acceptance check `index.speed`.
pub(crate) fn index_speed(data: Option<PathBuf>) -> Outcome<Verdict> {
    let rows = figures(data, Effort::Full, Place::One)?.rows;
    Ok(row::verdict(&rows))
}

/// Returns the section of the Markdown file, with the command and the machine that produced the figures.
fn section(rows: &[Row], effort: Effort) -> String {
    let flag = effort.flag();
    format!(
        "{HEADING}\n\n\
         Measured by `cargo xtask bench toolindex{flag} --markdown FILE` on {}.\n\
         The catalogues are derived from a real one of 15,643 tools: each additional server is a copy with its words replaced by others of the same kind, so that vocabulary and postings grow realistically.\n\
         The measurement uses one processor, a warm index and the static table; it is the CPU time of the best of several rounds over all queries.\n\
         Memory is the increase over an empty index, without the JSON of the definitions.\n\
         The index for the cold opening was written by another process, including the words of its tools.\n\n{}",
        table::machine(),
        row::markdown(rows),
    )
}

/// The processors on which the measuring program is allowed to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The measuring program runs on one processor.
    One,
    /// The measuring program is allowed to use all processors.
    Free,
}

fn figures(data: Option<PathBuf>, effort: Effort, place: Place) -> Outcome<Figures> {
    let data = data.or_else(|| shared("retrieval"));
    if data.is_none() {
        println!("!! no real catalogue is available; typical words are used instead");
    }
    let program = Program::build(data.as_deref(), place)?;
    let mut figures = Figures { rows: Vec::new(), outputs: Vec::new() };
    let sizes = match effort {
        Effort::Quick | Effort::Counted => &SIZES[..3],
        Effort::Full => &SIZES[..],
    };
    for size in sizes {
        let output = program.measure(size, &ASKED)?;
        figures.rows.extend(rows(size, &output));
        figures.outputs.push(output);
    }
    let output = program.small(FEW)?;
    figures.rows.push(small(&output));
    figures.outputs.push(output);
    let (row, output) = opening(&program)?;
    figures.rows.push(row);
    figures.outputs.push(output);
    if effort == Effort::Counted {
        figures.rows.retain(Row::is_memory);
    }
    Ok(figures)
}

fn rows(size: &Size, output: &Value) -> Vec<Row> {
    let of = tools(size.tools);
    let milliseconds = |what: &str, which: &str| output[what][which].as_f64().map(|us| us / 1000.0);
    let search = |what: &str, most| {
        Row::new(format!("{what} search, {of}"), "ms, p99", milliseconds(what, "p99_us"), most)
            .beside("p50", milliseconds(what, "p50_us"))
            .beside("p99 by the wall", milliseconds(what, "wall_p99_us"))
    };
    let mut rows = vec![
        search("hybrid", size.hybrid),
        search("keyword", size.keyword),
        search("semantic", None),
    ];
    let adding = (size.tools == ADDED_TO).then_some(ADDING);
    rows.push(
        Row::new(format!("20 tools more, {of}"), "ms, p50", milliseconds("add", "p50_us"), adding)
            .beside("p99", milliseconds("add", "p99_us"))
            .beside("p50 by the wall", milliseconds("add", "wall_p50_us")),
    );
    let kib = |name: &str| output[name].as_f64().map(|bytes| bytes / 1024.0);
    rows.push(
        Row::new(format!("memory a tool, {of}"), "KiB", kib("bytes_per_tool"), size.memory)
            .beside("all, MiB", kib("rss_kb"))
            .beside("before, MiB", kib("rss_empty_kb"))
            .beside("peak, MiB", kib("rss_peak_kb"))
            .beside("build, s", output["build_ms"].as_f64().map(|ms| ms / 1000.0)),
    );
    rows
}

/// Returns the row about the memory of a small index.
fn small(output: &Value) -> Row {
    let mib = |name: &str| output[name].as_f64().map(|kib| kib / 1024.0);
    Row::new(format!("an index of {FEW} tools"), "MiB", mib("rss_beyond_kb"), Some(FEW_MEMORY))
        .beside("in no file", mib("heap_beyond_kb"))
        .beside("empty program", mib("rss_empty_kb"))
        .beside("peak", mib("rss_peak_kb"))
}

/// Stores an index in a file, and measures how long new processes take to open it and to search.
fn opening(program: &Program) -> Outcome<(Row, Value)> {
    let file = program.scratch.join("kept.db");
    remove(&file)?;
    program.keep(&file, KEPT)?;
    let opened: Vec<_> = (0..OPENED).map(|_| program.open(&file)).collect::<Outcome<_>>()?;
    remove(&file)?;
    if opened.iter().any(|output| output["tools"] != KEPT || output["hits"] == 0) {
        return Err(Failure::new(format!("the stored catalogue is not found: {}", opened[0])));
    }
    let mut times: Vec<_> =
        opened.iter().filter_map(|output| output["first_answer_ms"].as_f64()).collect();
    times.sort_by(f64::total_cmp);
    let middle = times.get(times.len() / 2).copied();
    let row = Row::new(format!("cold opening, {}", tools(KEPT)), "ms, p50", middle, Some(OPENING))
        .beside("worst", times.last().copied());
    Ok((row, json!({"opened": opened})))
}

/// Removes a SQLite database with its `-wal` and `-shm` files.
fn remove(file: &Path) -> Outcome {
    for end in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        match fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Formats a number of tools.
fn tools(count: usize) -> String {
    match count {
        1_000_000.. => format!("{} M tools", count / 1_000_000),
        _ => format!("{} k tools", count / 1_000),
    }
}
