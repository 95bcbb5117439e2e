//! Counts the tokens of a catalogue twice: exactly, and with the estimator, which returns upper bounds. Also prints the
//! memory that counting takes (MGP §16.8).
//!
//! `cargo run --release -p mgp-programs --bin token_counts -- tools.jsonl…`; the files contain one definition per line.
#![expect(clippy::print_stdout, reason = "a program that prints measurements")]

use std::error::Error;

use mgp_toolindex::{TokenCounter, max_tokens_of};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut texts = Vec::new();
    for path in std::env::args().skip(1) {
        for line in std::fs::read_to_string(path)?.lines() {
            let tool: serde_json::Value = serde_json::from_str(line)?;
            let schema = match &tool["inputSchema"] {
                serde_json::Value::Null => &serde_json::json!({}),
                schema => schema,
            };
            let (name, description) = (&tool["name"], &tool["description"]);
            texts.push(format!(
                r#"{{"name":{name},"description":{description},"inputSchema":{schema}}}"#
            ));
        }
    }
    let before = resident()?;
    let (counts, _) = TokenCounter::count_all(&texts);
    let after = resident()?;
    let counter = TokenCounter::new();
    let during = resident()?;
    drop(counter);
    let bounds: Vec<u32> = texts.iter().map(|text| max_tokens_of(text)).collect();
    let sum = |counts: &[u32]| counts.iter().map(|count| u64::from(*count)).sum::<u64>();
    let low = bounds.iter().zip(&counts).filter(|(bound, count)| bound < count).count();
    println!(
        r#"{{"tools":{},"tokens":{},"at_most":{},"too_low":{low},"largest":{},"rss_kb":{{"before":{before},"after":{after},"with_tables":{during}}}}}"#,
        texts.len(),
        sum(&counts),
        sum(&bounds),
        counts.iter().max().unwrap_or(&0),
    );
    Ok(())
}

/// Returns the resident memory of this process in kB.
fn resident() -> Result<u64, Box<dyn Error + Send + Sync>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let number = line.split_whitespace().nth(1).ok_or("no number")?;
    Ok(number.parse()?)
}
