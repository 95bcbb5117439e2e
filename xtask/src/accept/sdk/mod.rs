//! The acceptance checks of the two SDKs that are not plain tests.

mod docs;
mod first;
mod scratch;

use super::Verdict;
use crate::{
    bench,
    run::{Outcome, Rigour},
};

pub(super) use docs::docs;
pub(super) use first::{first_client, first_server};

/// The maximum number of instructions of a call whose arguments are checked and whose result is typed.
const MAX_TYPED: f64 = 22_000.0;

/// Runs `sdk.bench`: the bounds of `core.bench`, and a bound for a tool with typed arguments and a typed result.
pub(super) fn bench(rigour: Rigour) -> Outcome<Verdict> {
    let core = bench::core_bench(rigour)?;
    let programs = [("by_builder", include_str!("programs/by_builder.rs"))];
    let built = scratch::Scratch::new("typed", &programs)?.build()?;
    let Some(typed) = bench::instructions_of(&built.join("by_builder"), &[], rigour)? else {
        return Ok(core);
    };
    Ok(core.and(Verdict {
        pass: typed <= MAX_TYPED,
        figure: format!("{typed:.0} instructions for a typed call"),
        bound: format!("{MAX_TYPED:.0}"),
    }))
}
