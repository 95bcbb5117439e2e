//! One measurement over stdio: the load generator sends calls to one server, with or without valgrind.

use super::programs::{Generator, Server};
use crate::run::{Context, Failure, Outcome, Program};
use serde_json::Value;
use std::fs;

/// The requests that the load generator sends to a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// The method: `tools/call` of the echo tool, or another method without parameters.
    pub(super) method: &'static str,
    /// The number of bytes of the echoed message.
    pub(super) payload: usize,
    /// The number of requests in flight.
    pub(super) depth: usize,
}

/// Returns a load of echo calls, to which most bounds apply.
pub(super) const fn echo(payload: usize, depth: usize) -> Load {
    Load { method: "tools/call", payload, depth }
}

/// The numbers of calls in a short and a long run. Only the difference between the runs counts, so the cost of the
/// start has no effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lengths(pub(super) usize, pub(super) usize);

/// The figures of one run of the load generator.
#[derive(Debug)]
pub(super) struct Run(Value);

impl Run {
    /// Returns the CPU time of the server for one call, in microseconds.
    pub(super) fn cpu_us(&self) -> f64 {
        self.number("server_cpu_s_per_1k") * 1000.0
    }

    /// Returns the median time of a call, in microseconds.
    pub(super) fn p50_us(&self) -> f64 {
        self.number("p50_us")
    }

    /// Returns the time from the start of the process to its reply to `initialize`, in milliseconds.
    pub(super) fn start_ms(&self) -> f64 {
        self.number("start_to_init_ms")
    }

    /// Returns the peak memory of the server, in MiB.
    pub(super) fn memory_mib(&self) -> f64 {
        self.number("server_peak_rss_kb") / 1024.0
    }

    fn number(&self, key: &str) -> f64 {
        self.0[key].as_f64().unwrap_or(f64::NAN)
    }
}

/// Makes `calls` calls after a warm-up that is not measured; `more` are further flags of the load generator, e.g.
/// `--alone` to leave the child processes of the server out of the figures.
pub(super) fn run(
    generator: &Generator,
    server: &Server,
    load: Load,
    calls: usize,
    more: &[&str],
) -> Outcome<Run> {
    let warm = (calls / 10).min(2000);
    drive(generator, &server.command, load, calls, warm, more)
}

/// Counts the server's instructions for one call with callgrind.
pub(super) fn instructions(
    generator: &Generator,
    server: &Server,
    load: Load,
    lengths: Lengths,
) -> Outcome<f64> {
    let file = generator.scratch.join("callgrind.out");
    let flag = format!("--callgrind-out-file={}", file.display());
    let [few, many] = [lengths.0, lengths.1].map(|calls| {
        let tool = ["valgrind", "--quiet", "--tool=callgrind", &flag];
        under(generator, &tool, server, load, calls)?;
        let text = fs::read_to_string(&file).context(file.display())?;
        total_instructions(&text).context(format!("{}: callgrind totals", server.name))
    });
    Ok(per_call(few?, many?, lengths))
}

/// Counts the server's allocations and allocated bytes for one call with dhat.
pub(super) fn allocations(
    generator: &Generator,
    server: &Server,
    load: Load,
    lengths: Lengths,
) -> Outcome<(f64, f64)> {
    let log = generator.scratch.join("dhat.log");
    let flags = [
        format!("--log-file={}", log.display()),
        format!("--dhat-out-file={}", generator.scratch.join("dhat.out").display()),
    ];
    let [few, many] = [lengths.0, lengths.1].map(|calls| {
        let tool = ["valgrind", "--tool=dhat", &flags[0], &flags[1]];
        under(generator, &tool, server, load, calls)?;
        let text = fs::read_to_string(&log).context(log.display())?;
        total_allocations(&text).context(format!("{}: dhat totals", server.name))
    });
    let (few, many) = (few?, many?);
    Ok((per_call(few.0, many.0, lengths), per_call(few.1, many.1, lengths)))
}

fn under(
    generator: &Generator,
    tool: &[&str],
    server: &Server,
    load: Load,
    calls: usize,
) -> Outcome<Run> {
    let tool = tool.iter().map(ToString::to_string);
    let command: Vec<String> = tool.chain(server.command.iter().cloned()).collect();
    drive(generator, &command, load, calls, 0, &[])
}

fn drive(
    generator: &Generator,
    command: &[String],
    load: Load,
    calls: usize,
    warm: usize,
    more: &[&str],
) -> Outcome<Run> {
    let numbers = [
        ("--n", calls),
        ("--warmup", warm),
        ("--depth", load.depth),
        ("--payload-bytes", load.payload),
        ("--startup-timeout", 200),
        ("--exit-grace", 120),
    ];
    let mut program = match &generator.processor {
        Some(processor) => {
            Program::new("taskset").args(&["--cpu-list", processor]).args(&[&generator.program])
        }
        None => Program::new(&generator.program),
    };
    program = program.args(&["stdio", "--method", load.method]).args(more);
    for (flag, number) in numbers {
        program = program.args(&[flag, &number.to_string()]);
    }
    let text = program.args(&["--"]).args(command).output()?;
    let figures: Value = serde_json::from_str(text.trim()).context("the load generator")?;
    let clean = figures["errors"] == 0 && figures["bad"] == 0 && figures.get("fatal").is_none();
    if clean { Ok(Run(figures)) } else { Err(Failure::new(format!("{command:?}: {figures}"))) }
}

/// Returns the total number of instructions in a callgrind file.
pub(crate) fn total_instructions(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("summary:").or_else(|| line.strip_prefix("totals:")))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the blocks and the bytes in a dhat log, from the line `Total: 12,345 bytes in 67 blocks`.
fn total_allocations(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.split_once("Total:"))?.1.replace(',', "");
    let mut words = line.split_whitespace();
    let bytes = words.next()?.parse().ok()?;
    let blocks = words.nth(2)?.parse().ok()?;
    Some((blocks, bytes))
}

/// Returns the difference between a long and a short run, per call.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(super) fn per_call(few: u64, many: u64, lengths: Lengths) -> f64 {
    many.saturating_sub(few) as f64 / (lengths.1 - lengths.0) as f64
}
