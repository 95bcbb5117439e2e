//! The command `mgp demo`: runs a kernel with built-in example servers and shows what the kernel does.
//!
//! Each step checks the real outcome; if the check fails, the step and the demo fail.

mod kernel;
mod printer;
mod steps;

use tokio::time::Instant;

use crate::args::Global;
use crate::exit::{CliResult, Failure};
use kernel::DemoKernel;
use printer::Printer;

/// Runs all steps of the demo; fails if any step fails.
pub(crate) async fn run(global: &Global) -> CliResult {
    let mut printer = Printer::new(global.json);
    let mut kernel = DemoKernel::open().await?;
    printer.begin(kernel.folder());
    let mut failed = 0;
    for step in steps::ALL {
        let began = Instant::now();
        let result = (step.run)(&mut kernel).await;
        failed += usize::from(result.is_err());
        printer.step(step, result, began.elapsed());
    }
    kernel.close().await;
    printer.end(failed);
    match failed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("{failed} of {} steps failed", steps::ALL.len()))),
    }
}
