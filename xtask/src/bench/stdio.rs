//! The benchmarks of the echo server over stdio.

use super::{
    Effort,
    measure::{Lengths, Load, allocations, echo, instructions, run},
    programs::{Programs, Server},
    table::{Bound, Row},
};
use crate::run::Outcome;

/// The number of tools of the measured `tools/list`.
const TOOLS: usize = 1000;

/// Counts instructions and allocations per call. The counts hardly vary, so one measurement is enough.
pub(super) fn counted(programs: &Programs, effort: Effort) -> Outcome<Vec<Row>> {
    let (calls, lists) = match effort {
        Effort::Quick => (Lengths(200, 1200), Lengths(4, 14)),
        Effort::Full | Effort::Counted => (Lengths(500, 4500), Lengths(5, 45)),
    };
    let small = echo(64, 16);
    let count = |server: &Server| instructions(&programs.generator, server, small, calls);
    let echo_row = Row {
        name: "echo 64 B, depth 16",
        unit: "instructions",
        ours: count(&programs.ours)?,
        median: None,
        ours_multi: Some(count(&programs.ours_multi)?),
        peer: count(&programs.rmcp_pipes)?,
        bare: Some(count(&programs.bare)?),
        bound: Bound::Figure(20_000.0),
    };
    let heap = |server: &Server| allocations(&programs.generator, server, small, calls);
    let (ours, multi) = (heap(&programs.ours)?, heap(&programs.ours_multi)?);
    let (peer, bare) = (heap(&programs.rmcp_pipes)?, heap(&programs.bare)?);
    let blocks = Row {
        unit: "allocations",
        ours: ours.0,
        ours_multi: Some(multi.0),
        peer: peer.0,
        bare: Some(bare.0),
        bound: Bound::Figure(15.0),
        ..echo_row.clone()
    };
    let bytes = Row {
        unit: "bytes allocated",
        ours: ours.1,
        ours_multi: Some(multi.1),
        peer: peer.1,
        bare: Some(bare.1),
        bound: Bound::Figure(2048.0),
        ..echo_row.clone()
    };
    let list = Load { method: "tools/list", payload: 0, depth: 1 };
    let count =
        |server: &Server| instructions(&programs.generator, &server.with_tools(TOOLS), list, lists);
    let list_row = Row {
        name: "tools/list of 1000",
        unit: "instructions",
        ours: count(&programs.ours)?,
        median: None,
        ours_multi: Some(count(&programs.ours_multi)?),
        peer: count(&programs.rmcp_pipes)?,
        bare: None,
        bound: Bound::Figure(1_000_000.0),
    };
    Ok(vec![echo_row, blocks, bytes, list_row])
}

/// Returns the servers of which the benchmark compares times and memory.
fn servers(programs: &Programs) -> [&Server; 5] {
    let Programs { ours, ours_multi, rmcp_stdio, rmcp_pipes, bare, .. } = programs;
    [ours, ours_multi, rmcp_stdio, rmcp_pipes, bare]
}

/// Measures CPU time, start time and memory in rounds in which all servers take turns.
pub(super) fn timed(programs: &Programs, effort: Effort) -> Outcome<Vec<Row>> {
    let (rounds, share) = match effort {
        Effort::Quick => (5, 4),
        Effort::Full | Effort::Counted => (11, 2),
    };
    let cells = [
        ("echo 64 B, depth 1", echo(64, 1), 20_000, 0.65),
        ("echo 64 B, depth 16", echo(64, 16), 40_000, 0.27),
        ("echo 64 B, depth 64", echo(64, 64), 40_000, 0.27),
        ("echo 256 KiB, depth 1", echo(262_144, 1), 800, 0.85),
    ];
    let servers = servers(programs);
    let mut rows = Vec::new();
    let mut memory = [0.0f64; 5];
    for (name, load, calls, ratio) in cells {
        let mut times = [const { Vec::new() }; 5];
        for _ in 0..rounds {
            for (place, server) in servers.iter().enumerate() {
                let figures = run(&programs.generator, server, load, calls / share, &[])?;
                times[place].push(figures.cpu_us());
                if load.payload == 64 {
                    memory[place] = memory[place].max(figures.memory_mib());
                }
            }
        }
        rows.push(row(name, "CPU us", &times, Bound::Ratio(ratio)));
    }
    let mut starts = [const { Vec::new() }; 5];
    for _ in 0..rounds * 4 {
        for (place, server) in servers.iter().enumerate() {
            let figures = run(&programs.generator, server, echo(64, 1), 1, &[])?;
            starts[place].push(figures.start_ms());
        }
    }
    rows.push(row("start to initialise", "ms", &starts, Bound::Ratio(1.0)));
    rows.push(memory_row(&memory.map(|most| vec![most])));
    Ok(rows)
}

/// Measures only the peak memory of all servers.
pub(super) fn memory(programs: &Programs) -> Outcome<Row> {
    let servers = servers(programs);
    let mut memory = [const { Vec::new() }; 5];
    for (place, server) in servers.iter().enumerate() {
        let figures = run(&programs.generator, server, echo(64, 16), 20_000, &[])?;
        memory[place].push(figures.memory_mib());
    }
    Ok(memory_row(&memory))
}

fn memory_row(memory: &[Vec<f64>; 5]) -> Row {
    Row { median: None, ..row("memory", "MiB", memory, Bound::Figure(5.0)) }
}

/// Creates a row from the figures of all rounds, given for each of the five servers.
fn row(name: &'static str, unit: &'static str, rounds: &[Vec<f64>; 5], bound: Bound) -> Row {
    let [ours, multi, rmcp_stdio, rmcp_pipes, bare] = rounds;
    Row {
        name,
        unit,
        ours: least(ours),
        median: Some(median(ours)),
        ours_multi: Some(least(multi)),
        peer: least(rmcp_stdio).min(least(rmcp_pipes)),
        bare: Some(least(bare)),
        bound,
    }
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_peer_counts() {
        let rounds = [vec![2.0, 1.0, 3.0], vec![4.0], vec![50.0], vec![8.0, 9.0], vec![0.5]];
        let row = row("a", "us", &rounds, Bound::Ratio(0.2));
        assert!((row.ours - 1.0).abs() < 1e-9 && (row.peer - 8.0).abs() < 1e-9);
        assert_eq!(row.median, Some(2.0));
        assert!(!row.missed());
    }
}
