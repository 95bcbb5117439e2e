//! The functions ("kernels") that multiply rows with a query, one for each set of processor instructions. At run time,
//! the fastest kernel that the processor supports is chosen.
//!
//! All kernels return the same numbers. For ARM, [`Kernel::Plain`] is sufficient, because every 64-bit ARM processor
//! has the vector instructions NEON, so the compiler already uses them.

#[cfg(target_arch = "x86_64")]
mod x86;

use super::quantise::QuantisedQuery;
use super::scan::{Rows, scan};
use super::top_rows::TopRows;

/// A kernel, identified by the set of processor instructions that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// The instructions that every processor of the architecture has.
    Plain,
    /// AVX2: processes 256 bits at the same time.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 with VNNI: processes 512 bits at the same time, and multiplies and adds in one step.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Kernel {
    /// All kernels, slowest first.
    pub(super) const ALL: &[Self] = &[
        Self::Plain,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
    ];

    /// Returns the fastest kernel that this processor supports.
    pub(super) fn best() -> Self {
        Self::ALL.iter().rev().copied().find(|kernel| kernel.is_supported()).unwrap_or(Self::Plain)
    }

    /// Returns whether this processor has the instructions of the kernel; the standard library caches the result.
    pub(super) fn is_supported(self) -> bool {
        match self {
            Self::Plain => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => x86::has_avx2(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => x86::has_avx512(),
        }
    }

    /// Scores the rows for each query with this kernel; uses the plain kernel if the processor lacks its
    /// instructions.
    pub(super) fn scan(
        self,
        rows: Rows<'_>,
        queries: &[QuantisedQuery<'_>],
        bests: &mut [TopRows],
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 if self.is_supported() => x86::scan_avx2(rows, queries, bests),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 if self.is_supported() => x86::scan_avx512(rows, queries, bests),
            _ => scan(rows, queries, bests, |rows, query| rows.map(|row| product(row, query))),
        }
    }
}

/// Returns the dot product of a row and a query; the compiler turns the loop into vector instructions.
fn product(row: &[i8], query: &[i16]) -> i32 {
    row.iter().zip(query).map(|(byte, number)| i32::from(*byte) * i32::from(*number)).sum()
}
