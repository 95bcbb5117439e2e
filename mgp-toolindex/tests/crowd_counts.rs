//! A test in which many threads count tokens at the same time. One thread must build the tables, and no thread may wait
//! forever (MGP §16.8).
//!
//! The test needs its own process, because all counts of a process share the tables.
#![cfg(feature = "tokens")]

use std::sync::Barrier;

use mgp_toolindex::{Exactness, TokenCounter, max_tokens_of};

#[test]
fn concurrent_counts_wait_or_get_upper_bounds() {
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
    let exact_counts = counted.iter().filter(is_exact).count();
    assert!((4..12).contains(&exact_counts), "{exact_counts}");
    for (counts, exactness) in counted {
        match exactness {
            Exactness::Exact => assert_eq!(counts, [exact]),
            _ => assert_eq!(counts, [max_tokens_of(&text)]),
        }
    }
}
