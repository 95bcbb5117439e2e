//! `mgp guard`: judges test cases of the validators, without a kernel.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, builder::PossibleValuesParser};
use mgp_security::guard::Guard as Judge;

use crate::exit::{CliResult, Failure};
use crate::output::print_stderr;

/// `mgp guard`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The answer to each line of standard input is a line with `id`, `decision` (`block` or `allow`) and `reason`.\n\nExample:\n  echo '{\"id\":1,\"input\":\"rm -rf /\"}' | mgp guard sandbox"
)]
pub(crate) struct Guard {
    /// Kind of test cases to judge
    #[arg(value_parser = PossibleValuesParser::new(Judge::KINDS))]
    kind: String,
    /// File with named allowlists; a test case with code names one of them in `config`
    #[arg(long, value_name = "FILE")]
    configs: Option<PathBuf>,
    /// Report the median and the 99th percentile of the time for a line, on standard error
    #[arg(long)]
    timing: bool,
}

pub(crate) fn run(arguments: &Guard) -> CliResult {
    let unknown = || Failure::usage(format!("unknown judge `{}`", arguments.kind));
    let mut judge = Judge::from_name(&arguments.kind).ok_or_else(unknown)?;
    if let Some(file) = &arguments.configs {
        let named =
            |error: &dyn std::fmt::Display| Failure::failed(format!("{}: {error}", file.display()));
        let text = fs::read_to_string(file).map_err(|error| named(&error))?;
        judge = judge.configs(&text).map_err(|error| named(&error))?;
    }
    let timing = match judge.answer_all(io::stdin().lock(), io::stdout().lock()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            return Err(Failure::output_closed());
        }
        answered => answered?,
    };
    if arguments.timing {
        let micros = |percent| timing.percentile(percent).as_micros();
        print_stderr(&format!("p50_us {} p99_us {}", micros(50), micros(99)));
    }
    Ok(())
}
