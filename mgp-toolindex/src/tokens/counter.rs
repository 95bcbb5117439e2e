//! Exact counts, from tables that are there only while somebody counts (MGP §16.8).
//!
//! Applies to: both.

use std::fmt;

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

    /// Counts many texts, with tables that are made for it and go with it.
    ///
    /// It blocks, for 100 ms and more.
    #[must_use]
    pub fn count_all<T: AsRef<str> + Sync>(texts: &[T]) -> Vec<u32> {
        // Made before the thread runs: what outlives it must not lie among what it leaves.
        let mut counts = vec![0; texts.len()];
        let fill = |counts: &mut [u32], count: &dyn Fn(&str) -> u32| {
            counts.iter_mut().zip(texts).for_each(|(slot, text)| *slot = count(text.as_ref()));
        };
        #[cfg(feature = "tokens")]
        if !texts.is_empty() {
            let counted = std::thread::scope(|scope| {
                let counts = &mut counts;
                let run = move || {
                    let counter = Self::new();
                    fill(counts, &|text| counter.count(text));
                };
                let thread = std::thread::Builder::new().name("mgp-tokens".to_owned());
                thread.spawn_scoped(scope, run).is_ok_and(|running| running.join().is_ok())
            });
            give_back();
            if counted {
                return counts;
            }
        }
        fill(&mut counts, &tokens_at_most);
        counts
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

/// Lets an allocator give back what the tables took.
///
/// The tables are half a million small pieces. Freed on a thread, they stay with the part of memory that served it,
/// until a large piece is freed there: the next thread is served from it, and large pieces that nobody writes to cost
/// nothing. Measured with `examples/token_counts.rs`: 21 MB kept without this, 8 MB with it.
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
        assert_eq!(TokenCounter::count_all(&["hello", "hello world", ""]), [1, 2, 0]);
        assert!(TokenCounter::count_all(&[""; 0]).is_empty());
    }
}
