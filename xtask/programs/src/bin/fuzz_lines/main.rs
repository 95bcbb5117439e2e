//! Sends mutated lines to the message parser and through a whole connection; prints the result as one line of JSON.
//!
//! `fuzz_lines [--seed S] [--n N]` tests N lines; the same seed produces the same lines. Every line is passed to
//! `Message::parse`, and every fifth line through a connection as well. The program fails on a panic, a wrong or
//! missing answer, a message that changes when it is written and parsed again, or growing memory.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the result is a line on stdout")]

mod corpus;
mod mutate;
mod parse;
mod wire;

use std::error::Error;
use std::process::ExitCode;

use tokio::time::Instant;

use self::mutate::Mutator;
use self::wire::TestConnection;

/// The maximum growth of this process's memory after the warm-up.
const MAX_GROWTH: u64 = 32 << 20;
/// One of this many lines is also sent through the connection.
const CONNECTION_INTERVAL: u64 = 5;
/// The number of lines between two checks of the memory.
const MEMORY_CHECK_INTERVAL: u64 = 100_000;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let (seed, n) = arguments()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(fuzz(seed, n))
}

fn arguments() -> Result<(u64, u64), Box<dyn Error>> {
    let (mut seed, mut n) = (1, 1_000_000);
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let number = arguments.next().ok_or("a number is missing")?.parse()?;
        match flag.as_str() {
            "--seed" => seed = number,
            "--n" => n = number,
            _ => return Err(format!("unknown flag `{flag}`; known: --seed S, --n N").into()),
        }
    }
    Ok((seed, n))
}

async fn fuzz(seed: u64, n: u64) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let mut mutator = Mutator::new(seed);
    let mut wire = TestConnection::open();
    let mut panics = 0_u64;
    let (mut base, mut growth) = (None, 0);
    for number in 0..n {
        let line = mutator.line();
        match std::panic::catch_unwind(|| parse::check(line)) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Err(failure(seed, number, &why, line)),
            Err(_) => {
                panics += 1;
                eprintln!("{}", failure(seed, number, "the parser panicked", line));
            }
        }
        if number % CONNECTION_INTERVAL == 0
            && let Err(why) = wire.take(line).await
        {
            return Err(failure(seed, number, &why, line));
        }
        if number % MEMORY_CHECK_INTERVAL == MEMORY_CHECK_INTERVAL - 1 {
            let now = memory("VmRSS:")?;
            growth = now.saturating_sub(*base.get_or_insert(now));
            if growth > MAX_GROWTH {
                return Err(failure(seed, number, &format!("memory grew by {growth} bytes"), b""));
            }
        }
    }
    let (through, answers) = wire.close().await?;
    let seconds = started.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a speed")]
    let per_second = (n as f64 / seconds).round();
    println!(
        "{}",
        serde_json::json!({
            "lines": n,
            "through_connection": through,
            "answers": answers,
            "panics": panics,
            "growth_bytes": growth,
            "seconds": (seconds * 10.0).round() / 10.0,
            "lines_per_s": per_second,
        })
    );
    if panics > 0 { Err(format!("{panics} panics").into()) } else { Ok(()) }
}

/// Describes a failure and how to reproduce it.
fn failure(seed: u64, number: u64, why: &str, line: &[u8]) -> Box<dyn Error> {
    let shown = &line[..line.len().min(2_000)];
    format!("seed {seed}, line {number}: {why}: {}", shown.escape_ascii()).into()
}

/// Returns a memory figure of this process, e.g. that of `VmRSS:`, in bytes; 0 on systems without `/proc`.
fn memory(name: &str) -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib: u64 = line.unwrap_or("0 kB").trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}
