//! Runs validators and the guard of tool definitions over test cases: for each line of standard input, `guard` reports
//! whether a call, a tool definition, a change of a definition, or a registration would be blocked (MGP §4, §7).
//!
//! The answer is `{"id", "decision": "block" | "allow", "reason"}`, one per line, in order; an unreadable line is
//! blocked. `docs/validators.md` has the members of a line. With `--timing`, the program reports at the end how long
//! the checks took.
//!
//! ```sh
//! echo '{"id":1,"input":"rm -rf /"}' | cargo run -q -p mgp-security --all-features --example guard -- sandbox
//! ```

use std::io::{self, Write};
use std::process::ExitCode;

use mgp_security::guard::Guard;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "guard: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let Some(mut guard) = arguments.next().and_then(|name| Guard::from_name(&name)) else {
        return usage();
    };
    let mut timed = false;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--timing" => timed = true,
            "--configs" => {
                let Some(file) = arguments.next() else { return usage() };
                guard = guard.configs(&std::fs::read_to_string(file)?)?;
            }
            _ => return usage(),
        }
    }
    let timing = guard.answer_all(io::stdin().lock(), io::stdout().lock())?;
    if timed {
        let micros = |percent| timing.percentile(percent).as_micros();
        writeln!(io::stderr(), "p50_us {} p99_us {}", micros(50), micros(99))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn usage() -> io::Result<ExitCode> {
    let kinds = Guard::KINDS.join("|");
    writeln!(io::stderr(), "usage: guard <{kinds}> [--configs FILE] [--timing] < LINES")?;
    Ok(ExitCode::from(2))
}
