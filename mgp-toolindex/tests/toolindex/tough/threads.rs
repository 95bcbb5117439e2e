//! Eight threads search while servers are added and removed. They must always find permanent servers, and never removed
//! servers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use mgp_toolindex::ToolIndex;
use tokio::time::Instant;

use super::setting;
use super::tools::{by_all, by_words, server};

const SEARCHERS: u64 = 8;
const STAYING: u64 = 20;
const GUESTS: u64 = 8;
const TOOLS: u64 = 20;

/// The number of times that each temporary server (guest) is added and removed by default.
const ROUNDS: u64 = 2;

#[test]
fn searches_find_exactly_the_current_servers() {
    let rounds = setting("ROUNDS", ROUNDS);
    let index = ToolIndex::new();
    for number in 0..STAYING {
        index.put(server(&format!("stays-{number}"), &format!("stay{number}er"), TOOLS)).unwrap();
    }
    // The last finished visit of each guest, numbered from one.
    let ended: Vec<AtomicU64> = (0..GUESTS).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicBool::new(false);
    let (searches, slowest) = thread::scope(|scope| {
        let searchers: Vec<_> = (0..SEARCHERS)
            .map(|number| {
                let (index, ended, done) = (&index, &ended, &done);
                scope.spawn(move || search(index, ended, done, number))
            })
            .collect();
        let hosts: Vec<_> = (0..2)
            .map(|host| {
                let (index, ended) = (&index, &ended);
                scope.spawn(move || {
                    for visit in 1..=rounds {
                        for guest in (host..GUESTS).step_by(2) {
                            come_and_go(index, guest, visit);
                            ended[usize::try_from(guest).unwrap()].store(visit, Ordering::SeqCst);
                        }
                    }
                })
            })
            .collect();
        let hosts: Vec<_> = hosts.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::SeqCst);
        let seen: Vec<_> = searchers.into_iter().map(|one| one.join().unwrap()).collect();
        assert!(hosts.iter().all(Result::is_ok));
        let slowest = seen.iter().map(|(_, slowest)| *slowest).max().unwrap();
        (seen.iter().map(|(count, _)| count).sum::<u64>(), slowest)
    });
    assert!(searches > SEARCHERS);
    assert_eq!(index.stats().tools, usize::try_from(STAYING * TOOLS).unwrap());
    println!(
        "tough: {searches} searches on {SEARCHERS} threads while servers came and went {} times, the slowest took {:.1} ms",
        rounds * GUESTS,
        slowest.as_secs_f64() * 1000.0
    );
}

/// Adds a guest, finds it, removes it, and checks that it is no longer found.
fn come_and_go(index: &ToolIndex, guest: u64, visit: u64) {
    let (id, word) = (format!("guest-{guest}"), format!("guest{guest}v{visit}x"));
    index.put(server(&id, &word, TOOLS)).unwrap();
    let found = by_words(index, &word);
    assert!(found.hits.iter().any(|hit| hit.tool.server_id() == id), "{word} is not found");
    assert_eq!(index.remove(&id).unwrap(), usize::try_from(TOOLS).unwrap());
    let found = by_words(index, &word);
    assert!(found.hits.iter().all(|hit| hit.tool.server_id() != id), "{word} is still found");
}

/// Searches until `done` is set, and returns the number of searches and the longest time of a search.
fn search(
    index: &ToolIndex,
    ended: &[AtomicU64],
    done: &AtomicBool,
    mut number: u64,
) -> (u64, Duration) {
    let (mut count, mut slowest) = (0, Duration::ZERO);
    while !done.load(Ordering::SeqCst) {
        number += 7;
        let before: Vec<u64> = ended.iter().map(|last| last.load(Ordering::SeqCst)).collect();
        let word = format!("stay{}er", number % STAYING);
        let begin = Instant::now();
        let found =
            if number.is_multiple_of(2) { by_words(index, &word) } else { by_all(index, &word) };
        slowest = slowest.max(begin.elapsed());
        let first = found.hits.first().unwrap_or_else(|| panic!("nothing is found for {word}"));
        assert_eq!(first.tool.server_id(), format!("stays-{}", number % STAYING));
        for found in [found, by_all(index, "what a guest keeps: guest part")] {
            for hit in found.hits {
                let Some((guest, visit)) = visit(hit.tool.name()) else { continue };
                assert!(visit > before[guest], "{} was gone before", hit.tool.name());
            }
        }
        count += 2;
    }
    (count, slowest)
}

/// Returns the number of the guest and of its visit from the name of a tool; `None` for a tool of a permanent server.
fn visit(name: &str) -> Option<(usize, u64)> {
    let (guest, rest) = name.strip_prefix("guest")?.split_once('v')?;
    Some((guest.parse().ok()?, rest.split_once('x')?.0.parse().ok()?))
}
