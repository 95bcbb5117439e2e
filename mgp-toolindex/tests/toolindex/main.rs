//! Tests of the results that callers get from an index, of the lists at each context level, and of the index under
//! load.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod callers;
mod fit;
mod levels;
mod tough;
