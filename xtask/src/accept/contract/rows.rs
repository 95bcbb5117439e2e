//! The acceptance check `contract.rows`.
use crate::accept::binaries::{LIBRARY, Tests};
pub(crate) const TESTS: &[Tests] =
    &[Tests::of("mgp-types", LIBRARY)
        .each(&["strict_reading_refuses_what_lenient_reading_accepts"])];
