//! Tests that mutated lines cause no panic, no wrong answer and no growth of memory, in the parser of messages and over
//! a whole connection. The variable `LINES` sets how many lines are tested.

#![expect(clippy::print_stdout, reason = "a test that prints what it has tested")]

mod corpus;
mod mutate;
mod parse;
mod wire;

use self::mutate::Mutator;
use self::wire::TestConnection;

/// The seed of the lines; the same seed produces the same lines.
const SEED: u64 = 20_250_618;
/// The maximum growth of this process's memory after the first check of it.
const MAX_GROWTH: u64 = 32 << 20;
/// The number of lines of which one is also sent through the connection.
const CONNECTION_INTERVAL: u64 = 5;
/// The number of lines between two checks of the memory.
const MEMORY_CHECK_INTERVAL: u64 = 100_000;

#[tokio::test]
async fn mutated_lines_cause_no_panic_and_no_wrong_answer() {
    let lines: u64 = std::env::var("LINES").map_or(20_000, |lines| lines.parse().unwrap());
    let mut mutator = Mutator::new(SEED);
    let mut wire = TestConnection::open();
    let mut base = None;
    for number in 0..lines {
        let line = mutator.line();
        let parsed = std::panic::catch_unwind(|| parse::check(line));
        let mut checked = parsed.unwrap_or_else(|_| Err("the parser panicked".to_owned()));
        if checked.is_ok() && number % CONNECTION_INTERVAL == 0 {
            checked = wire.take(line).await;
        }
        if let Err(why) = checked {
            let shown = line[..line.len().min(2_000)].escape_ascii();
            panic!("line {number}: {why}: {shown}");
        }
        if number % MEMORY_CHECK_INTERVAL == MEMORY_CHECK_INTERVAL - 1 {
            let now = resident_bytes();
            let growth = now.saturating_sub(*base.get_or_insert(now));
            assert!(growth <= MAX_GROWTH, "line {number}: memory grew by {growth} bytes");
        }
    }
    let (through, answers) = wire.close().await.unwrap();
    println!("{lines} mutated lines, {through} through a connection, {answers} answers");
}

/// Returns the resident memory of this process; 0 on systems without `/proc`.
fn resident_bytes() -> u64 {
    mgp_testkit::process_memory(std::process::id(), "VmRSS").unwrap_or(0)
}
