//! `index.speed`: how long searches, changes and opening take, and what the index keeps in memory.

use crate::{
    accept::{Asked, Verdict},
    bench,
    run::Outcome,
};

/// All rows of `bench toolindex`.
pub(in crate::accept) fn speed(asked: &Asked) -> Outcome<Verdict> {
    bench::index_speed(asked.data.clone())
}
