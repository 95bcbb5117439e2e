//! Many who count tokens at once: the tables are made by one at a time, and nobody waits without an end (MGP §16.8).
//!
//! A program of its own, because all who count in one take turns.
//!
//! Applies to: both.
#![cfg(feature = "tokens")]

use std::sync::Barrier;

use mgp_toolindex::{Exactness, TokenCounter, tokens_at_most};

#[test]
fn a_crowd_that_counts_waits_or_is_told_bounds() {
    let text = "qzxj vkwq".repeat(40);
    let exact = TokenCounter::new().count(&text);
    let together = Barrier::new(12);
    let counted: Vec<_> = std::thread::scope(|scope| {
        let count = || {
            together.wait();
            TokenCounter::count_all(&[&text])
        };
        let running: Vec<_> = (0..12).map(|_| scope.spawn(count)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let is_exact = |(_, exactness): &&(Vec<u32>, Exactness)| *exactness == Exactness::Exact;
    let many = counted.iter().filter(is_exact).count();
    assert!((4..12).contains(&many), "{many}");
    for (counts, exactness) in counted {
        match exactness {
            Exactness::Exact => assert_eq!(counts, [exact]),
            _ => assert_eq!(counts, [tokens_at_most(&text)]),
        }
    }
}
