//! The command `mgp demo`: runs a kernel with built-in example servers and shows what the kernel does.
//!
//! Each step checks the real outcome; if the check fails, the step and the demo fail.

mod kernel;
mod printer;
mod steps;

use tokio::time::Instant;

use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::signals::{Signals, exit_code};
use kernel::DemoKernel;
use printer::Printer;

/// Runs all steps of the demo; fails if any step fails. A signal ends the demo, and its folder is removed.
pub(crate) async fn run(global: &Global) -> CliResult {
    let mut signals = Signals::new()?;
    let mut printer = Printer::new(global.json);
    let mut kernel = DemoKernel::open().await?;
    printer.begin(kernel.folder());
    let mut failed = 0;
    for step in steps::ALL {
        let began = Instant::now();
        let result = tokio::select! {
            result = (step.run)(&mut kernel) => result,
            number = signals.next() => {
                signals.exit_on_second(Some(number));
                kernel.close().await;
                let code = u8::try_from(exit_code(number)).unwrap_or(1);
                return Err(Failure::with_code(code, "stopped by a signal"));
            }
        };
        failed += usize::from(result.is_err());
        printer.step(step, result, began.elapsed());
    }
    signals.exit_on_second(None);
    kernel.close().await;
    printer.end(failed);
    match failed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("{failed} of {} steps failed", steps::ALL.len()))),
    }
}
