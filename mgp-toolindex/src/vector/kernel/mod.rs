//! The instructions that multiply rows: the best the processor has, found out when it runs.
//!
//! All kernels return the same numbers.
//! NEON is part of every 64-bit ARM, where the compiler makes [`Kernel::Plain`] of it.
//!
//! Applies to: both.

#[cfg(target_arch = "x86_64")]
mod x86;

use super::best::Best;
use super::number::Asked;
use super::scan::{Rows, scan};

/// Instructions to multiply rows with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// What every processor of this kind has.
    Plain,
    /// 256 bits at once.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512 bits at once, multiplied and added in one step.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Kernel {
    /// All that this processor has, the best one last.
    pub(super) const ALL: &[Self] = &[
        Self::Plain,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
    ];

    /// The best one that this processor has.
    pub(super) fn best() -> Self {
        Self::ALL.iter().rev().copied().find(|kernel| kernel.is_here()).unwrap_or(Self::Plain)
    }

    /// Whether this processor has it; the answer is remembered by the standard library.
    pub(super) fn is_here(self) -> bool {
        match self {
            Self::Plain => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => x86::has_avx2(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => x86::has_avx512(),
        }
    }

    /// Offers rows to questions; a kernel that is not here leaves it to the plain one.
    pub(super) fn scan(self, rows: Rows<'_>, asked: &[Asked<'_>], bests: &mut [Best]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 if self.is_here() => x86::scan_avx2(rows, asked, bests),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 if self.is_here() => x86::scan_avx512(rows, asked, bests),
            _ => scan(rows, asked, bests, |rows, asked| rows.map(|row| product(row, asked))),
        }
    }
}

/// The product of a row and a question; the compiler widens it.
fn product(row: &[i8], asked: &[i16]) -> i32 {
    row.iter().zip(asked).map(|(byte, number)| i32::from(*byte) * i32::from(*number)).sum()
}
