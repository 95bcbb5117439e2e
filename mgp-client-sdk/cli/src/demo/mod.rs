//! `mgp demo`: what the kernel does, shown on servers that are built in.
//!
//! Each step looks at what really happened; one that did not see it fails the whole.
//!
//! Applies to: both.

mod stage;
mod steps;
mod tell;

use tokio::time::Instant;

use crate::cli::Global;
use crate::exit::{Ended, Failure};
use stage::Stage;
use tell::Teller;

/// What a step saw, in a sentence; or what was not as it should be.
type Seen = Result<String, String>;

/// Shows all steps, and ends well if each was seen.
pub(crate) async fn run(global: &Global) -> Ended {
    let mut teller = Teller::new(global.json);
    let mut stage = Stage::open().await?;
    teller.begin(stage.folder());
    let mut missed = 0;
    for step in steps::ALL {
        let began = Instant::now();
        let seen = (step.show)(&mut stage).await;
        missed += usize::from(seen.is_err());
        teller.step(step, seen, began.elapsed());
    }
    stage.close().await;
    teller.end(missed);
    match missed {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("{missed} of {} steps were not seen", steps::ALL.len()))),
    }
}
