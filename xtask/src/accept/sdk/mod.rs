//! What the two SDKs must show.

mod docs;
mod first;
mod lifecycle;
mod scratch;

use super::Verdict;
use crate::{
    bench,
    run::{Outcome, Rigour},
};

pub(super) use docs::run as docs;
pub(super) use first::{client as first_client, server as first_server};
pub(super) use lifecycle::run as lifecycle;

/// The most instructions of a call with checked arguments and a typed result.
const TYPED: f64 = 22_000.0;

/// `sdk.bench`: the budgets of the core, and one for a tool as people write it.
pub(super) fn sdk_bench(rigour: Rigour) -> Outcome<Verdict> {
    let core = bench::core_bench(rigour)?;
    let programs = [("by_builder", include_str!("programs/by_builder.rs"))];
    let built = scratch::Scratch::new("typed", &programs)?.build()?;
    let Some(typed) = bench::instructions_of(&built.join("by_builder"), &[], rigour)? else {
        return Ok(core);
    };
    Ok(core.and(Verdict {
        pass: typed <= TYPED,
        figure: format!("{typed:.0} instructions for a typed call"),
        bound: format!("{TYPED:.0}"),
    }))
}
