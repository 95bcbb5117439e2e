//! The acceptance checks `stream.bulk` and `stream.cost`: the memory and the instructions of streamed results (MGP
//! §12).

use super::{Options, Verdict};
use crate::{
    bench::total_instructions,
    run::{Context, Outcome, Program, has, release_example, target},
};
use std::{fs, path::Path};

/// The number of calls in the check `stream.bulk`, each with a result of 1 MiB.
const CALLS: &str = "1024";
/// The maximum growth of the process's memory during these calls, in MiB.
const MAX_GROWTH: f64 = 16.0;
/// The maximum numbers of instructions for a chunk: first for a chunk directly from a server, then for a chunk through
/// a kernel with governance.
const MAX_INSTRUCTIONS: [f64; 2] = [6_000.0, 12_000.0];
/// The numbers of chunks in two streams. The difference between the instructions of these streams gives the cost of a
/// chunk.
const CHUNKS: [u32; 2] = [1_000, 5_000];

/// Streams many large results through two kernels, and checks the memory.
pub(super) fn bulk() -> Outcome<Verdict> {
    let text = Program::new(program()?).args(&["--calls", CALLS]).output()?;
    print!("{text}");
    let growth = text.split("growth ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let growth: f64 = growth.context("growth")?.parse()?;
    Ok(Verdict {
        pass: growth < MAX_GROWTH,
        figure: format!("{growth:.0} MiB growth in {CALLS} calls of 1 MiB"),
        bound: format!("{MAX_GROWTH:.0} MiB"),
    })
}

/// Counts the instructions for a chunk.
pub(super) fn cost(options: &Options) -> Outcome<Verdict> {
    if !has("valgrind") {
        return options.skip("the instructions of a chunk", "valgrind is not installed");
    }
    let program = program()?;
    let direct = of_chunk(&program, "0", MAX_INSTRUCTIONS[0])?;
    Ok(direct.and(of_chunk(&program, "1", MAX_INSTRUCTIONS[1])?))
}

fn program() -> Outcome<std::path::PathBuf> {
    release_example("mgp-kernel", "token_stream", &[])
}

fn of_chunk(program: &Path, kernels: &str, bound: f64) -> Outcome<Verdict> {
    let file = target()?.join("token_stream.callgrind");
    let flag = format!("--callgrind-out-file={}", file.display());
    let mut counts = [0.0; 2];
    for (count, chunks) in counts.iter_mut().zip(CHUNKS) {
        Program::new("valgrind")
            .args(&["--quiet", "--tool=callgrind", &flag])
            .args(&[program])
            .args(&["--kernels", kernels, "--quiet", &chunks.to_string()])
            .output()?;
        let text = fs::read_to_string(&file).context(file.display())?;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let total = total_instructions(&text).context("callgrind totals")? as f64;
        *count = total;
    }
    let each = (counts[1] - counts[0]) / f64::from(CHUNKS[1] - CHUNKS[0]);
    Ok(Verdict {
        pass: each > 0.0 && each <= bound,
        figure: format!("{each:.0} instructions for a chunk behind {kernels} kernels"),
        bound: format!("{bound:.0}"),
    })
}
