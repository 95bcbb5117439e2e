//! `kernel.interop`: foreign clients use foreign servers through the kernel.

use super::super::{Asked, Verdict};
use crate::{interop, run::Outcome};

/// Runs every cell that goes through the kernel.
pub(in crate::accept) fn interop(asked: &Asked) -> Outcome<Verdict> {
    interop::through_the_kernel(asked.rigour)
}
