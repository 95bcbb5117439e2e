//! The acceptance check `core.spec`: our types read and rewrite each example message of the specification. The tests of
//! `mgp-types` show that damaged messages are refused.

use super::{Verdict, shared};
use crate::{
    run::{Context, Outcome},
    spec,
};

/// The number of examples in the specification.
const EXAMPLES: usize = 50;

/// Reads each example, and counts them.
pub(super) fn core_spec() -> Outcome<Verdict> {
    let folder = shared("spec/mgp-examples").context("the examples of the specification")?;
    let count = spec::folder_of_examples(&folder)?;
    Ok(Verdict {
        pass: count == EXAMPLES,
        figure: format!("{count} read"),
        bound: format!("{EXAMPLES} read"),
    })
}
