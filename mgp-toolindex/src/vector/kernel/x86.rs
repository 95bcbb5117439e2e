//! The kernels of x86-64.
//!
//! Besides `child/unix/pre_exec.rs` of mgp-transport this is the only file with `unsafe`: a
//! function that uses instructions which not every processor has may only be called where it is
//! known that this one has them, and that cannot be said in types. Nothing else here is unsafe:
//! there are no pointers, the compiler makes one load of an array that is read whole.
//!
//! Applies to: both.

#![expect(
    unsafe_code,
    reason = "a call into further instructions is unsafe; each stands behind the check for them"
)]

use std::arch::is_x86_feature_detected;
use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_add_epi32, _mm_extract_epi32, _mm_setr_epi8, _mm256_add_epi32,
    _mm256_castsi256_si128, _mm256_cvtepi8_epi16, _mm256_extracti128_si256, _mm256_hadd_epi32,
    _mm256_madd_epi16, _mm256_setr_epi16, _mm256_setr_epi64x, _mm256_setzero_si256,
    _mm512_castsi512_si256, _mm512_cvtepi8_epi16, _mm512_dpwssd_epi32, _mm512_extracti64x4_epi64,
    _mm512_setr_epi64, _mm512_setzero_si512,
};

use super::super::best::Best;
use super::super::number::Asked;
use super::super::scan::{Rows, scan};

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

/// Does nothing where the processor has no AVX2.
pub(super) fn scan_avx2(rows: Rows<'_>, asked: &[Asked<'_>], bests: &mut [Best]) {
    if has_avx2() {
        // SAFETY: the processor has what the function needs.
        unsafe { avx2(rows, asked, bests) }
    }
}

/// Does nothing where the processor has no AVX-512 with its instructions for neural networks.
pub(super) fn scan_avx512(rows: Rows<'_>, asked: &[Asked<'_>], bests: &mut [Best]) {
    if has_avx512() {
        // SAFETY: the processor has what the function needs.
        unsafe { avx512(rows, asked, bests) }
    }
}

// === AVX2 ===

#[target_feature(enable = "avx2")]
fn avx2(rows: Rows<'_>, asked: &[Asked<'_>], bests: &mut [Best]) {
    scan(rows, asked, bests, |rows, asked| four_256(rows, asked));
}

/// Four rows times a question; their length is a multiple of 16.
#[inline]
#[target_feature(enable = "avx2")]
fn four_256([a, b, c, d]: [&[i8]; 4], asked: &[i16]) -> [i32; 4] {
    let mut sums = [_mm256_setzero_si256(); 4];
    let (a, b) = (a.as_chunks::<16>().0, b.as_chunks::<16>().0);
    let (c, d) = (c.as_chunks::<16>().0, d.as_chunks::<16>().0);
    let rows = a.iter().zip(b).zip(c).zip(d);
    for ((((a, b), c), d), asked) in rows.zip(asked.as_chunks::<16>().0) {
        let asked = numbers_256(asked);
        sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(wide_256(a), asked));
        sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(wide_256(b), asked));
        sums[2] = _mm256_add_epi32(sums[2], _mm256_madd_epi16(wide_256(c), asked));
        sums[3] = _mm256_add_epi32(sums[3], _mm256_madd_epi16(wide_256(d), asked));
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

/// The four sums of eight numbers each.
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
fn avx512(rows: Rows<'_>, asked: &[Asked<'_>], bests: &mut [Best]) {
    scan(rows, asked, bests, |rows, asked| four_512(rows, asked));
}

/// Four rows times a question; their length is a multiple of 32.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
fn four_512([a, b, c, d]: [&[i8]; 4], asked: &[i16]) -> [i32; 4] {
    let mut sums = [_mm512_setzero_si512(); 4];
    let (a, b) = (a.as_chunks::<32>().0, b.as_chunks::<32>().0);
    let (c, d) = (c.as_chunks::<32>().0, d.as_chunks::<32>().0);
    let rows = a.iter().zip(b).zip(c).zip(d);
    for ((((a, b), c), d), asked) in rows.zip(asked.as_chunks::<32>().0) {
        let asked = numbers_512(asked);
        sums[0] = _mm512_dpwssd_epi32(sums[0], wide_512(a), asked);
        sums[1] = _mm512_dpwssd_epi32(sums[1], wide_512(b), asked);
        sums[2] = _mm512_dpwssd_epi32(sums[2], wide_512(c), asked);
        sums[3] = _mm512_dpwssd_epi32(sums[3], wide_512(d), asked);
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

/// The lower half plus the upper half.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
fn half(sum: __m512i) -> __m256i {
    _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum))
}
