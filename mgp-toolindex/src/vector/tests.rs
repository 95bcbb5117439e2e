//! Tests that compare the scan with a naive search.

use proptest::prelude::*;

use super::VectorTable;
use super::kernel::Kernel;
use crate::catalog::{Bitmap, Slot};

/// Pseudo-random vectors, the same in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f32::from(u16::try_from(self.0 >> 48).unwrap()) / 32_768.0 - 1.0
    }

    fn vector(&mut self, dimensions: usize) -> Vec<f32> {
        (0..dimensions).map(|_| self.next()).collect()
    }

    fn table(&mut self, dimensions: usize, rows: Slot) -> VectorTable {
        let mut table = VectorTable::new(dimensions);
        (0..rows).for_each(|slot| table.set(slot, &self.vector(dimensions)));
        table
    }
}

fn refs(vectors: &[Vec<f32>]) -> Vec<&[f32]> {
    vectors.iter().map(Vec::as_slice).collect()
}

fn naive(
    table: &VectorTable,
    query: &[f32],
    k: usize,
    slots: impl Iterator<Item = Slot>,
) -> Vec<(Slot, f32)> {
    let mut all: Vec<_> =
        slots.filter_map(|slot| Some((slot, table.cosine(query, slot)?))).collect();
    all.sort_by(|(a_slot, a), (b_slot, b)| b.total_cmp(a).then(a_slot.cmp(b_slot)));
    all.truncate(k);
    all
}

#[test]
fn a_row_keeps_the_direction_of_its_vector() {
    let mut noise = Noise(7);
    for dimensions in [1, 3, 32, 100, 128, 384, 1024] {
        let vector = noise.vector(dimensions);
        let mut table = VectorTable::new(dimensions);
        table.set(5, &vector);
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        let kept = table.vector(5).unwrap();
        let dot: f32 = kept.iter().zip(&vector).map(|(a, b)| a * b / length).sum();
        assert!(dot > 0.9999, "{dimensions}: {dot}");
        let cosine = table.cosine(&vector, 5).unwrap();
        assert!((cosine - dot).abs() < 1e-5, "{dimensions}: {cosine} {dot}");
    }
}

#[test]
fn a_vector_without_direction_is_neither_stored_nor_searched() {
    let mut table = VectorTable::new(3);
    let without: [&[f32]; 5] =
        [&[0.0; 3], &[f32::NAN, 1.0, 0.0], &[f32::INFINITY, 1.0, 0.0], &[1.0; 2], &[1.0; 4]];
    for vector in without {
        table.set(1, &[1.0, 0.0, 0.0]);
        table.set(1, vector);
        assert_eq!((table.len(), table.row(1)), (0, None), "{vector:?}");
    }
    table.set(1, &[1.0, 0.0, 0.0]);
    table.restore(2, &[0, 0, 0]);
    table.restore(3, &[1, 2]);
    assert_eq!(table.len(), 1);
    for query in without {
        assert_eq!(table.cosine(query, 1), None, "{query:?}");
    }
    let found = table.top(&[without[0], &[1.0, 0.0, 0.0], without[3]], 5, None);
    assert_eq!(found, [vec![], vec![(1, 1.0)], vec![]]);
    assert_eq!(table.top(&[&[1.0, 0.0, 0.0]], 0, None), [vec![]]);
    assert_eq!(VectorTable::new(0).top(&[&[]], 5, None), [vec![]]);
}

#[test]
fn vectors_of_any_size_have_a_direction() {
    let mut table = VectorTable::new(2);
    table.set(0, &[1e-30, 0.0]);
    table.set(1, &[0.0, 1e30]);
    let found = table.top(&[&[1e30, 1e29], &[1e-30, 1e-29]], 1, None);
    assert_eq!((found[0][0].0, found[1][0].0), (0, 1));
    assert!(found[0][0].1 <= 1.0);
}

#[test]
fn equal_rows_come_in_the_order_of_their_slots() {
    let mut table = VectorTable::new(4);
    for slot in (0..3000).rev() {
        table.set(slot, &[1.0, 2.0, 3.0, 4.0]);
    }
    let found = table.top(&[&[0.3, 0.1, 0.2, 0.9]], 7, None);
    let slots: Vec<_> = found[0].iter().map(|(slot, _)| *slot).collect();
    assert_eq!(slots, [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_clone_does_not_change() {
    let mut table = Noise(3).table(8, 2000);
    let before = table.clone();
    let query = [1.0; 8];
    let was = before.top(&[&query], 10, None);
    table.clear(was[0][0].0);
    table.set(1500, &query);
    table.set(9000, &query);
    assert_eq!(before.top(&[&query], 10, None), was);
    assert_eq!((before.len(), table.len()), (2000, 2000));
    let now = table.top(&[&query], 2, None);
    assert_eq!(now[0].iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [1500, 9000]);
}

#[test]
fn removed_rows_leave_nothing() {
    let mut table = VectorTable::new(8);
    let mut noise = Noise(11);
    for slot in 0..5000 {
        table.set(slot, &noise.vector(8));
        table.set(slot, &noise.vector(8));
    }
    assert_eq!(table.len(), 5000);
    for slot in 0..5000 {
        table.clear(slot);
        table.clear(slot);
    }
    table.clear(1_000_000);
    assert_eq!(table.len(), 0);
    assert_eq!(table.top(&[&[1.0; 8]], 3, None), [vec![]]);
}

#[test]
fn a_row_is_restored_as_it_was() {
    let table = Noise(13).table(100, 50);
    let mut again = VectorTable::new(100);
    for slot in 0..50 {
        again.restore(slot, table.row(slot).unwrap());
    }
    let query = Noise(17).vector(100);
    assert_eq!(again.top(&[&query], 50, None), table.top(&[&query], 50, None));
}

#[test]
fn a_filter_of_any_length_is_obeyed() {
    let table = Noise(19).table(16, 3000);
    let query = Noise(23).vector(16);
    let empty = Bitmap::with_len(3000);
    assert_eq!(table.top(&[&query], 5, Some(&empty)), [vec![]]);
    assert_eq!(table.top(&[&query], 5, Some(&Bitmap::default())), [vec![]]);
    let beyond: Bitmap = [2999, 70_000].into_iter().collect();
    assert_eq!(table.top(&[&query], 5, Some(&beyond))[0].len(), 1);
}

/// The sum of the products of extreme numbers fits into 32 bits.
#[test]
fn no_sum_overflows() {
    for dimensions in [128, 384, 4096, 20_000] {
        let mut table = VectorTable::new(dimensions);
        table.set(0, &vec![1.0; dimensions]);
        table.restore(1, &vec![-128; dimensions]);
        for kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_supported()) {
            let found = table.top_with(*kernel, &[&vec![1.0; dimensions]], 2, None);
            assert_eq!(found[0].iter().map(|found| found.0).collect::<Vec<_>>(), [0, 1]);
            assert!(found[0][0].1 > 0.9999 && found[0][1].1 < -0.9999, "{kernel:?}: {found:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every kernel must find the same rows as a naive search, with scores that are equal to the last bit.
    #[test]
    fn the_scan_finds_the_same_as_a_naive_search(
        seed in 1_u64..u64::MAX,
        dimensions in 1_usize..200,
        rows in 0_u32..2500,
        queries in 1_usize..9,
        k in 1_usize..60,
        gone in prop::collection::vec(0_u32..2500, 0..40),
        within in prop::option::of(prop_oneof![1_u32..4, 40_u32..400]),
    ) {
        let mut noise = Noise(seed);
        let mut table = noise.table(dimensions, rows);
        for slot in gone {
            table.clear(slot);
        }
        // The filter passes either a few rows, or all except a few.
        let filter: Option<Bitmap> = within.map(|each| {
            (0..rows).filter(|slot| slot % each == 0 || (each < 4 && slot % 64 != 5)).collect()
        });
        let queries: Vec<_> = (0..queries).map(|_| noise.vector(dimensions)).collect();
        let expected: Vec<_> = queries
            .iter()
            .map(|query| {
                let queries = (0..rows).filter(|slot| filter.as_ref().is_none_or(|set| set.contains(*slot)));
                naive(&table, query, k, queries)
            })
            .collect();
        for kernel in Kernel::ALL.iter().filter(|kernel| kernel.is_supported()) {
            let found = table.top_with(*kernel, &refs(&queries), k, filter.as_ref());
            prop_assert_eq!(&found, &expected, "{:?}", kernel);
        }
    }

    /// These rows differ so little that only the exact scores distinguish them.
    #[test]
    fn rows_that_are_nearly_equal_come_in_the_right_order(seed in 1_u64..u64::MAX, rows in 30_u32..600) {
        let mut noise = Noise(seed);
        let same = noise.vector(64);
        let mut table = VectorTable::new(64);
        for slot in 0..rows {
            let vector: Vec<_> = same.iter().map(|value| value + noise.next() * 0.01).collect();
            table.set(slot, &vector);
        }
        let query: Vec<_> = same.iter().map(|value| value + noise.next() * 0.01).collect();
        let found = table.top(&[&query], 10, None);
        prop_assert_eq!(&found[0], &naive(&table, &query, 10, 0..rows));
    }

    #[test]
    fn no_row_or_vector_causes_a_panic(
        rows in prop::collection::vec(prop::collection::vec(any::<i8>(), 0..40), 0..20),
        vectors in prop::collection::vec(prop::collection::vec(any::<f32>(), 0..40), 1..9),
        dimensions in 0_usize..40,
        k in 0_usize..30,
    ) {
        let mut table = VectorTable::new(dimensions);
        for (slot, row) in (0..).zip(&rows) {
            table.restore(slot, row);
        }
        for (slot, vector) in (10..).zip(&vectors) {
            table.set(slot, vector);
        }
        for found in table.top(&refs(&vectors), k, None) {
            prop_assert!(found.len() <= k);
            prop_assert!(found.iter().all(|(_, cosine)| (-1.0..=1.0).contains(cosine)));
        }
    }
}
