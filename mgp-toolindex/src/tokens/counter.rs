//! Exact counts, from tables that are there only while somebody counts (MGP §16.8).
//!
//! Applies to: both.

use std::fmt;
#[cfg(feature = "tokens")]
use std::sync::PoisonError;
#[cfg(feature = "tokens")]
use std::sync::atomic::{AtomicUsize, Ordering};

use super::tokens_at_most;

/// How good a count is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exactness {
    /// It is the count.
    Exact,
    /// The count is no higher.
    AtMost,
}

/// Counts the tokens of texts; drop it when they are counted.
///
/// Making one takes 100 ms and 50 MB; without feature `tokens` it counts from above and costs nothing.
///
/// ```
/// use mgp_toolindex::{TokenCounter, tokens_at_most};
///
/// let text = r#"{"name":"read_file","inputSchema":{"type":"object"}}"#;
/// let counter = TokenCounter::new();
/// assert_eq!(counter.count("Reads a file"), 3);
/// assert!(tokens_at_most(text) >= counter.count(text));
/// ```
pub struct TokenCounter {
    #[cfg(feature = "tokens")]
    encoder: Option<Box<tiktoken_rs::CoreBPE>>,
}

impl TokenCounter {
    /// Makes the tables.
    #[must_use]
    pub fn new() -> Self {
        Self {
            #[cfg(feature = "tokens")]
            encoder: match tiktoken_rs::o200k_base() {
                Ok(encoder) => Some(Box::new(encoder)),
                Err(error) => {
                    tracing::warn!(%error, "tokens are counted from above: no tables");
                    None
                }
            },
        }
    }

    /// How good its counts are.
    #[must_use]
    pub fn exactness(&self) -> Exactness {
        #[cfg(feature = "tokens")]
        if self.encoder.is_some() {
            return Exactness::Exact;
        }
        Exactness::AtMost
    }

    /// Counts the tokens of a text.
    ///
    /// A stretch of 64 KiB without a place to divide it, which no honest definition has, is counted from above.
    #[must_use]
    pub fn count(&self, text: &str) -> u32 {
        #[cfg(feature = "tokens")]
        if let Some(encoder) = &self.encoder {
            return stretches(text)
                .map(|stretch| match stretch.len() {
                    0..LONGEST => {
                        u32::try_from(encoder.encode_ordinary(stretch).len()).unwrap_or(u32::MAX)
                    }
                    _ => tokens_at_most(stretch),
                })
                .fold(0, u32::saturating_add);
        }
        tokens_at_most(text)
    }

    /// Counts many texts, with tables that are made for it and go with it, and says how good the counts are.
    ///
    /// It blocks, for 100 ms and more. One caller counts at a time, so that the tables are there once; where four wait
    /// already, and where there are no tables, all are counted from above.
    #[must_use]
    pub fn count_all<T: AsRef<str> + Sync>(texts: &[T]) -> (Vec<u32>, Exactness) {
        // Made before the thread runs: what outlives it must not lie among what it leaves.
        let mut counts = vec![0; texts.len()];
        let fill = |counts: &mut [u32], count: &dyn Fn(&str) -> u32| {
            counts.iter_mut().zip(texts).for_each(|(slot, text)| *slot = count(text.as_ref()));
        };
        if texts.is_empty() {
            return (counts, Exactness::Exact);
        }
        #[cfg(feature = "tokens")]
        if let Some(_turn) = Turn::wait() {
            let counted = std::thread::scope(|scope| {
                let counts = &mut counts;
                let run = move || {
                    let counter = Self::new();
                    fill(counts, &|text| counter.count(text));
                    counter.exactness()
                };
                let thread = std::thread::Builder::new().name("mgp-tokens".to_owned());
                thread.spawn_scoped(scope, run).ok().and_then(|running| running.join().ok())
            });
            give_back();
            if let Some(exactness) = counted {
                return (counts, exactness);
            }
            tracing::warn!("tokens are counted from above: the thread that counts failed");
        }
        fill(&mut counts, &tokens_at_most);
        (counts, Exactness::AtMost)
    }
}

impl Default for TokenCounter {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TokenCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenCounter").field(&self.exactness()).finish()
    }
}

/// A turn to count.
#[cfg(feature = "tokens")]
struct Turn {
    _alone: std::sync::MutexGuard<'static, ()>,
}

#[cfg(feature = "tokens")]
impl Turn {
    /// How many wait for their turn.
    const MOST: usize = 4;

    /// Waits for a turn; none where too many wait already.
    fn wait() -> Option<Self> {
        static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        static WAITING: AtomicUsize = AtomicUsize::new(0);
        // The one who counts is no longer among those who wait.
        let enter = |waiting| (waiting < Self::MOST).then_some(waiting + 1);
        WAITING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter).ok()?;
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        WAITING.fetch_sub(1, Ordering::Relaxed);
        Some(Self { _alone: alone })
    }
}

/// Lets an allocator give back what the tables took.
///
/// The tables are half a million small pieces. glibc serves each thread from a part of memory of its own, and keeps
/// there what the thread freed: only a large piece that is freed at its end makes it look whether it can give pages
/// back. There is no call for that without `unsafe`, so a thread that is served from the same part takes some large
/// pieces, which cost nothing while nobody writes to them, and frees them. With other allocators it does nothing, in
/// some microseconds. Measured with `examples/token_counts.rs`: 21 MB kept without this, 8 MB with it.
#[cfg(feature = "tokens")]
fn give_back() {
    let pieces =
        || drop(std::hint::black_box([(); 50].map(|()| Vec::<u8>::with_capacity(1 << 20))));
    if let Ok(thread) = std::thread::Builder::new().name("mgp-tokens".to_owned()).spawn(pieces) {
        let _ = thread.join();
    }
}

/// How long a stretch may be that is encoded in one go.
#[cfg(feature = "tokens")]
const LONGEST: usize = 64 << 10;

/// Divides a text where the encoding divides it too.
///
/// Where two signs stand before a letter the encoding always ends a piece, unless a line ends near; so `,"a` is such a
/// place in JSON, and texts with control characters are not divided.
#[cfg(feature = "tokens")]
fn stretches(text: &str) -> impl Iterator<Item = &str> {
    let is_plain = text.len() < LONGEST || !text.bytes().any(|byte| byte < b' ');
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let bytes = rest.as_bytes();
        let place = |at: &usize| {
            bytes[*at].is_ascii_alphanumeric()
                && bytes[at - 1] == b'"'
                && b",{:[".contains(&bytes[at - 2])
        };
        let from = LONGEST / 4;
        let end = (from..bytes.len()).find(|at| is_plain && place(at)).unwrap_or(bytes.len());
        let (stretch, after) = rest.split_at(end);
        rest = after;
        Some(stretch)
    })
}

#[cfg(all(test, feature = "tokens"))]
mod tests {
    use super::*;

    #[test]
    fn dividing_changes_no_count() {
        let counter = TokenCounter::new();
        assert_eq!(counter.exactness(), Exactness::Exact);
        let part = r#""name_of 'it's":{"type":"string","description":"It reads 1234567 files/dirs — 文件を読む"},"#;
        for copies in [1, 150, 700] {
            let text = format!("{{{}\"x\":1}}", part.repeat(copies));
            let whole = counter.encoder.as_ref().unwrap().encode_ordinary(&text).len();
            assert_eq!(counter.count(&text) as usize, whole, "{copies}");
            assert_eq!(stretches(&text).collect::<String>(), text);
        }
    }

    #[test]
    fn hostile_texts_are_counted() {
        let counter = TokenCounter::new();
        for part in [
            "a",
            "A",
            "aA",
            " ",
            "\n",
            " \n",
            "\u{301}",
            "文",
            "'s",
            "/",
            "\u{0}",
            "1",
            "\u{1f600}",
            ",\"",
        ] {
            for bytes in [60_000, 70_000, 1 << 20] {
                let text = part.repeat(bytes / part.len());
                let count = counter.count(&text);
                assert!(count > 0 && count <= tokens_at_most(&text), "{part:?} {bytes}");
            }
        }
        assert_eq!(counter.count("<|endoftext|>"), 7);
        assert_eq!(counter.count(""), 0);
    }

    #[test]
    fn a_batch_is_counted_in_its_order() {
        let counted = TokenCounter::count_all(&["hello", "hello world", ""]);
        assert_eq!(counted, (vec![1, 2, 0], Exactness::Exact));
        assert!(TokenCounter::count_all(&[""; 0]).0.is_empty());
    }
}
