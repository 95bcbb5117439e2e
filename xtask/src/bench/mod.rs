//! The command `bench`: measures our programs and checks their bounds.
//!
//! - `bench stdio|http` compares our echo server with rmcp and with a server without a framework.
//! - `bench toolindex` measures the tool index, `bench kernel` the cost of the kernel.
//!
//! Instructions and allocations are the difference between a short and a long run, so the cost of the start has no
//! effect. CPU time is measured in rounds in which all servers take turns: `bench stdio` compares the minima of the
//! rounds, `bench http` the means, and `bench kernel` the medians.

mod grid;
mod http;
mod kernel;
mod measure;
mod programs;
mod row;
mod stdio;
mod table;
mod toolindex;

use crate::{
    accept::Verdict,
    flags::Flags,
    run::{Context, Failure, Outcome, Rigour, has},
};
pub(crate) use measure::total_instructions;
use programs::{Generator, Programs, Server};
use std::{fs, path::Path};
use table::Row;

pub(crate) use kernel::{kernel_bench, train};
pub(crate) use toolindex::index_speed;

/// The amount of work that a benchmark does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// Uses fewer calls and rounds than `Full`.
    Quick,
    /// Uses the numbers of calls and rounds with which the bounds were set.
    Full,
    /// Measures only figures that other programs on the machine do not affect: instructions, allocations and memory.
    Counted,
}

impl Effort {
    fn of(flags: &Flags) -> Self {
        match () {
            () if flags.has("--counted") => Self::Counted,
            () if flags.has("--quick") => Self::Quick,
            () => Self::Full,
        }
    }

    /// Returns the command-line flag for this effort, with a space before it.
    fn flag(self) -> &'static str {
        match self {
            Self::Quick => " --quick",
            Self::Full => "",
            Self::Counted => " --counted",
        }
    }
}

/// The transport over which the measured calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Stdio,
    Http,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }

    /// Returns a description of the columns for the Markdown file, one sentence per line.
    fn about(self) -> &'static str {
        match self {
            Self::Stdio => {
                "`ours` runs on a current-thread runtime, and the bounds apply to it; `multi` is the same server on a multi-thread runtime.\n\
                 `rmcp` is the better of `stdio()` and `stdio_pipes()` of rmcp 3.8, on a current-thread runtime; `bare` is the same tool without a framework.\n\
                 CPU times are the minima of alternating rounds.\n"
            }
            Self::Http => {
                "`ours` is `echo --http` (JSON answers) or `echo --http --sse` (a session, answers as events); `rmcp` is rmcp 3.8 with the same setting; `bare` is the same tool on hyper alone.\n\
                 All run on a current-thread runtime.\n\
                 A call echoes 64 bytes; the bound applies to both forms of a JSON call.\n\
                 User CPU is the mean of alternating rounds, since the system counts it in ticks.\n\
                 The figure for sessions follows from the server's resident memory; the first session must still answer when the last is open.\n"
            }
        }
    }
}

/// Measures, prints the rows and fails if a row misses its bound; with `--markdown`, also writes them to a file.
pub(crate) fn bench(flags: &Flags) -> Outcome {
    match flags.words() {
        [word] if word == "toolindex" => return toolindex::bench(flags),
        [word] if word == "kernel" => return kernel::bench(flags),
        _ => {}
    }
    let known = [Transport::Stdio, Transport::Http];
    let transport = match flags.words() {
        [word] => known.into_iter().find(|transport| transport.name() == word),
        _ => None,
    };
    let transport = transport.context("what to measure: stdio, http, toolindex or kernel")?;
    let effort = Effort::of(flags);
    let mut programs = Programs::build(flags.rest())?;
    if !flags.has("--free") {
        programs = programs.pinned()?;
    }
    let rigour = Rigour::from_strict(flags.has("--strict"));
    let rows = rows(&programs, transport, effort, rigour)?;
    let lines: Vec<String> = rows.iter().map(|row| row.json().to_string()).collect();
    let pinned = programs.generator.processor.is_some();
    let report = Report {
        json: lines.join("\n"),
        text: table::text(&rows),
        heading: &table::heading(transport),
        section: &|| table::markdown(&rows, transport, effort, pinned),
        missed: rows.iter().filter(|row| row.missed()).map(Row::title).collect(),
    };
    report.show(flags)
}

/// The results of a benchmark, in all forms.
struct Report<'a> {
    json: String,
    text: String,
    /// The heading of the benchmark's section in the Markdown file.
    heading: &'a str,
    section: &'a dyn Fn() -> String,
    missed: Vec<String>,
}

impl Report<'_> {
    /// Prints the rows as JSON or text and, with `--markdown`, writes them to a file; fails if a row misses its bound.
    fn show(self, flags: &Flags) -> Outcome {
        if flags.has("--json") {
            println!("{}", self.json);
        } else {
            print!("{}", self.text);
        }
        if let Some(file) = flags.value("--markdown") {
            let old = fs::read_to_string(file).unwrap_or_default();
            fs::write(file, table::page(&old, self.heading, &(self.section)())).context(file)?;
            println!("wrote {file}");
        }
        if self.missed.is_empty() { Ok(()) } else { Err(Failure::new(self.missed.join(", "))) }
    }
}

/// Runs the acceptance check `core.bench`.
pub(crate) fn core_bench(rigour: Rigour) -> Outcome<Verdict> {
    verdict(Transport::Stdio, rigour)
}

/// Runs the acceptance check `mcp.bench`.
pub(crate) fn mcp_bench(rigour: Rigour) -> Outcome<Verdict> {
    verdict(Transport::Http, rigour)
}

fn verdict(transport: Transport, rigour: Rigour) -> Outcome<Verdict> {
    let rows = rows(&Programs::build(&[])?.pinned()?, transport, Effort::Full, rigour)?;
    print!("{}", table::text(&rows));
    let missed = rows.iter().filter(|row| row.missed()).count();
    Ok(Verdict {
        pass: missed == 0,
        figure: format!("{} of {} budgets kept", rows.len() - missed, rows.len()),
        bound: "all".to_owned(),
    })
}

/// Counts the instructions that a server program uses for one small echo call; returns `None` without valgrind.
pub(crate) fn instructions_of(
    program: &Path,
    arguments: &[&str],
    rigour: Rigour,
) -> Outcome<Option<f64>> {
    if !has("valgrind") {
        rigour.skip("instructions", "valgrind is not installed")?;
        return Ok(None);
    }
    let mut command = vec![program.to_string_lossy().into_owned()];
    command.extend(arguments.iter().map(ToString::to_string));
    let server = Server { name: "theirs", command };
    let generator = Generator::build()?;
    let lengths = measure::Lengths(500, 4500);
    measure::instructions(&generator, &server, measure::echo(64, 16), lengths).map(Some)
}

fn rows(
    programs: &Programs,
    transport: Transport,
    effort: Effort,
    rigour: Rigour,
) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    if has("valgrind") {
        rows.extend(match transport {
            Transport::Stdio => stdio::counted(programs, effort)?,
            Transport::Http => http::counted(programs, effort)?,
        });
    } else {
        rigour.skip("instructions and allocations", "valgrind is not installed")?;
    }
    rows.extend(match (transport, effort) {
        (Transport::Stdio, Effort::Counted) => vec![stdio::memory(programs)?],
        (Transport::Http, Effort::Counted) => Vec::new(),
        (Transport::Stdio, _) => stdio::timed(programs, effort)?,
        (Transport::Http, _) => http::timed(programs, effort)?,
    });
    if transport == Transport::Http {
        rows.extend(http::sessions(programs, effort)?);
    }
    Ok(rows)
}
