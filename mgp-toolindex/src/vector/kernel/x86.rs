//! The kernels of x86-64.
//!
//! This is one of the few files with `unsafe`; ARCHITECTURE.md lists them. A function that needs additional
//! instructions may only be called after a check that the processor has them, which the type system cannot express.
//! This file has no other unsafe code and no pointers: the compiler turns reading a whole array into one load.

#![expect(
    unsafe_code,
    reason = "a call of a function with additional instructions is unsafe; each call follows the check for them"
)]

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_add_epi32, _mm_extract_epi32, _mm_setr_epi8, _mm256_add_epi32,
    _mm256_castsi256_si128, _mm256_cvtepi8_epi16, _mm256_extracti128_si256, _mm256_hadd_epi32,
    _mm256_madd_epi16, _mm256_setr_epi16, _mm256_setr_epi64x, _mm256_setzero_si256,
    _mm512_castsi512_si256, _mm512_cvtepi8_epi16, _mm512_dpwssd_epi32, _mm512_extracti64x4_epi64,
    _mm512_setr_epi64, _mm512_setzero_si512,
};

use super::super::quantise::QuantisedQuery;
use super::super::scan::{Rows, scan};
use super::super::top_rows::TopRows;

pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

pub(super) fn has_avx512() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
}

/// Scores the rows for each query with AVX2; does nothing if the processor lacks these instructions.
pub(super) fn scan_avx2(rows: Rows<'_>, queries: &[QuantisedQuery<'_>], bests: &mut [TopRows]) {
    if has_avx2() {
        // SAFETY: `has_avx2` returned `true`, so the processor has the instructions that the function needs.
        unsafe { avx2(rows, queries, bests) }
    }
}

/// Scores the rows for each query with AVX-512 VNNI; does nothing if the processor lacks these instructions.
pub(super) fn scan_avx512(rows: Rows<'_>, queries: &[QuantisedQuery<'_>], bests: &mut [TopRows]) {
    if has_avx512() {
        // SAFETY: `has_avx512` returned `true`, so the processor has the instructions that the function needs.
        unsafe { avx512(rows, queries, bests) }
    }
}

// === AVX2 ===

#[target_feature(enable = "avx2")]
fn avx2(rows: Rows<'_>, queries: &[QuantisedQuery<'_>], bests: &mut [TopRows]) {
    scan(rows, queries, bests, |rows, query| four_256(rows, query));
}

/// Multiplies four rows with a query; their length is a multiple of 16.
#[inline]
#[target_feature(enable = "avx2")]
fn four_256([a, b, c, d]: [&[i8]; 4], query: &[i16]) -> [i32; 4] {
    let mut sums = [_mm256_setzero_si256(); 4];
    let (a, b) = (a.as_chunks::<16>().0, b.as_chunks::<16>().0);
    let (c, d) = (c.as_chunks::<16>().0, d.as_chunks::<16>().0);
    let rows = a.iter().zip(b).zip(c).zip(d);
    for ((((a, b), c), d), query) in rows.zip(query.as_chunks::<16>().0) {
        let query = numbers_256(query);
        sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(wide_256(a), query));
        sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(wide_256(b), query));
        sums[2] = _mm256_add_epi32(sums[2], _mm256_madd_epi16(wide_256(c), query));
        sums[3] = _mm256_add_epi32(sums[3], _mm256_madd_epi16(wide_256(d), query));
    }
    add_up(sums)
}

#[inline]
#[target_feature(enable = "avx2")]
#[expect(clippy::many_single_char_names, reason = "one for each byte")]
fn wide_256(bytes: &[i8; 16]) -> __m256i {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *bytes;
    _mm256_cvtepi8_epi16(_mm_setr_epi8(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p))
}

#[inline]
#[target_feature(enable = "avx2")]
#[expect(clippy::many_single_char_names, reason = "one for each number")]
fn numbers_256(numbers: &[i16; 16]) -> __m256i {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *numbers;
    _mm256_setr_epi16(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
}

/// Returns the sums of the eight numbers in each of the four vectors.
#[inline]
#[target_feature(enable = "avx2")]
fn add_up([a, b, c, d]: [__m256i; 4]) -> [i32; 4] {
    let halves = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    let low = _mm256_castsi256_si128(halves);
    let sums: __m128i = _mm_add_epi32(low, _mm256_extracti128_si256::<1>(halves));
    [
        _mm_extract_epi32::<0>(sums),
        _mm_extract_epi32::<1>(sums),
        _mm_extract_epi32::<2>(sums),
        _mm_extract_epi32::<3>(sums),
    ]
}

// === AVX-512 ===

#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
fn avx512(rows: Rows<'_>, queries: &[QuantisedQuery<'_>], bests: &mut [TopRows]) {
    scan(rows, queries, bests, |rows, query| four_512(rows, query));
}

/// Multiplies four rows with a query; their length is a multiple of 32.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
fn four_512([a, b, c, d]: [&[i8]; 4], query: &[i16]) -> [i32; 4] {
    let mut sums = [_mm512_setzero_si512(); 4];
    let (a, b) = (a.as_chunks::<32>().0, b.as_chunks::<32>().0);
    let (c, d) = (c.as_chunks::<32>().0, d.as_chunks::<32>().0);
    let rows = a.iter().zip(b).zip(c).zip(d);
    for ((((a, b), c), d), query) in rows.zip(query.as_chunks::<32>().0) {
        let query = numbers_512(query);
        sums[0] = _mm512_dpwssd_epi32(sums[0], wide_512(a), query);
        sums[1] = _mm512_dpwssd_epi32(sums[1], wide_512(b), query);
        sums[2] = _mm512_dpwssd_epi32(sums[2], wide_512(c), query);
        sums[3] = _mm512_dpwssd_epi32(sums[3], wide_512(d), query);
    }
    let [a, b, c, d] = sums;
    add_up([half(a), half(b), half(c), half(d)])
}

#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
fn wide_512(bytes: &[i8; 32]) -> __m512i {
    let (words, _) = bytes.as_chunks::<8>();
    let word = |at: usize| i64::from_le_bytes(words[at].map(i8::cast_unsigned));
    _mm512_cvtepi8_epi16(_mm256_setr_epi64x(word(0), word(1), word(2), word(3)))
}

#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
fn numbers_512(numbers: &[i16; 32]) -> __m512i {
    let (words, _) = numbers.as_chunks::<4>();
    let word = |at: usize| {
        let [a, b, c, d] = words[at].map(|number| u64::from(number.cast_unsigned()));
        (a | b << 16 | c << 32 | d << 48).cast_signed()
    };
    let (a, b, c, d) = (word(0), word(1), word(2), word(3));
    _mm512_setr_epi64(a, b, c, d, word(4), word(5), word(6), word(7))
}

/// Adds the numbers in the upper half of a vector to the numbers in the lower half.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
fn half(sum: __m512i) -> __m256i {
    _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum))
}
