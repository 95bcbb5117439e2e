//! `life.retry`: what calls that fail cost their server, and what a hostile one gets out of them.

use crate::accept::{Verdict, binary};
use crate::run::Outcome;

/// Runs the tests of governed clients against servers that ask to be called again.
pub(in crate::accept) fn retry() -> Outcome<Verdict> {
    binary::run(&[("mgp-client-sdk", "retry")])
}
