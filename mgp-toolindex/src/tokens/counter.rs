//! Counts tokens exactly, with tables that are in memory only while they are used (MGP §16.8).

#[cfg(feature = "tokens")]
use std::sync::atomic::{AtomicUsize, Ordering};

use super::max_tokens_of;

/// The quality of a token count: exact, or an upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exactness {
    /// The exact count.
    Exact,
    /// An upper bound of the count.
    AtMost,
}

/// An exact counter of tokens. Drop it after use, because it keeps large tables in memory.
///
/// Creating a counter takes 100 ms and 50 MB of memory. Without the feature `tokens`, creating it costs nothing, but it
/// returns only upper bounds.
///
/// ```
/// use mgp_toolindex::{TokenCounter, max_tokens_of};
///
/// let text = r#"{"name":"read_file","inputSchema":{"type":"object"}}"#;
/// let counter = TokenCounter::new();
/// assert_eq!(counter.count("Reads a file"), 3);
/// assert!(max_tokens_of(text) >= counter.count(text));
/// ```
pub struct TokenCounter {
    #[cfg(feature = "tokens")]
    encoder: Option<Box<tiktoken_rs::CoreBPE>>,
}

impl TokenCounter {
    /// Creates a counter, which builds the tables.
    #[must_use]
    pub fn new() -> Self {
        Self {
            #[cfg(feature = "tokens")]
            encoder: match tiktoken_rs::o200k_base() {
                Ok(encoder) => Some(Box::new(encoder)),
                Err(error) => {
                    tracing::warn!(%error, "token tables unavailable; counts are upper bounds");
                    None
                }
            },
        }
    }

    /// Returns whether this counter's results are exact.
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
    /// If 64 KiB of the text have no place where they can be split, e.g. because the text contains control characters,
    /// the result is an upper bound.
    #[must_use]
    pub fn count(&self, text: &str) -> u32 {
        #[cfg(feature = "tokens")]
        if let Some(encoder) = &self.encoder {
            return split_at_pieces(text)
                .map(|stretch| match stretch.len() {
                    0..MAX_ENCODED_BYTES => {
                        u32::try_from(encoder.encode_ordinary(stretch).len()).unwrap_or(u32::MAX)
                    }
                    _ => max_tokens_of(stretch),
                })
                .fold(0, u32::saturating_add);
        }
        max_tokens_of(text)
    }

    /// Counts the tokens of a tool's definition, as the index does.
    #[must_use]
    pub fn count_definition(&self, definition: &str) -> u32 {
        self.count(&super::lean::lean(definition))
    }

    /// Counts the tokens of many texts with temporary tables, and returns whether the counts are exact.
    ///
    /// Blocks for at least 100 ms. Only one batch is counted at a time, so that only one copy of the tables is in
    /// memory. If four callers are already waiting, or the tables are not available, the counts are upper bounds.
    #[must_use]
    pub fn count_all<T: AsRef<str> + Sync>(texts: &[T]) -> (Vec<u32>, Exactness) {
        // Allocate the counts before the counting thread runs. Otherwise they could be located between the memory
        // blocks that the thread frees, and less memory could be returned to the system.
        let mut counts = vec![0; texts.len()];
        let fill = |counts: &mut [u32], count: &dyn Fn(&str) -> u32| {
            counts.iter_mut().zip(texts).for_each(|(slot, text)| *slot = count(text.as_ref()));
        };
        if texts.is_empty() {
            return (counts, Exactness::Exact);
        }
        #[cfg(feature = "tokens")]
        if let Some(_permit) = CountPermit::wait() {
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
            trim_allocator();
            if let Some(exactness) = counted {
                return (counts, exactness);
            }
            tracing::warn!("token counting thread failed; counts are upper bounds");
        }
        fill(&mut counts, &max_tokens_of);
        (counts, Exactness::AtMost)
    }
}

impl Default for TokenCounter {
    fn default() -> Self {
        Self::new()
    }
}

mgp_types::opaque_debug!(TokenCounter);

/// The permit to count tokens with the tables; only one caller has it at a time.
#[cfg(feature = "tokens")]
struct CountPermit {
    _guard: mgp_types::sync::MutexGuard<'static, ()>,
}

#[cfg(feature = "tokens")]
impl CountPermit {
    /// The maximum number of callers that wait for the permit.
    const MAX_WAITING: usize = 4;

    /// Waits for the permit; returns `None` if too many callers are already waiting.
    fn wait() -> Option<Self> {
        static COUNTING: mgp_types::sync::Mutex<()> = mgp_types::sync::Mutex::new(());
        static WAITING_CALLERS: AtomicUsize = AtomicUsize::new(0);
        // The number of waiting callers does not include the caller that is counting now.
        let enter = |waiting| (waiting < Self::MAX_WAITING).then_some(waiting + 1);
        WAITING_CALLERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter).ok()?;
        let guard = COUNTING.lock();
        WAITING_CALLERS.fetch_sub(1, Ordering::Relaxed);
        Some(Self { _guard: guard })
    }
}

/// Makes the allocator return the memory of the dropped tables to the operating system.
///
/// The tables consist of half a million small allocations. glibc serves each thread from its own arena, and keeps freed
/// memory there until a large block at the end of the arena is freed. Calling `malloc_trim` would need `unsafe`.
/// Instead, a thread that reuses the arena allocates and frees some large blocks, which cost nothing because they are
/// never written. With other allocators, this has no effect and takes some microseconds. Measured with the program
/// `token_counts`: 21 MB remain without this function, 8 MB with it.
#[cfg(feature = "tokens")]
fn trim_allocator() {
    let pieces =
        || drop(std::hint::black_box([(); 50].map(|()| Vec::<u8>::with_capacity(1 << 20))));
    if let Ok(thread) = std::thread::Builder::new().name("mgp-tokens".to_owned()).spawn(pieces) {
        let _ = thread.join();
    }
}

/// The maximum length, in bytes, of a piece of text that is encoded; an upper bound is used for a longer piece.
#[cfg(feature = "tokens")]
const MAX_ENCODED_BYTES: usize = 64 << 10;

/// Splits a text at places where the encoding splits it anyway.
///
/// The encoding always ends a piece where a letter follows two punctuation signs, unless the end of a line is near,
/// e.g. in `,"a` in JSON. Texts with control characters are not split.
#[cfg(feature = "tokens")]
fn split_at_pieces(text: &str) -> impl Iterator<Item = &str> {
    let is_plain = text.len() < MAX_ENCODED_BYTES || !text.bytes().any(|byte| byte < b' ');
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
        let from = MAX_ENCODED_BYTES / 4;
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
    fn splitting_changes_no_count() {
        let counter = TokenCounter::new();
        assert_eq!(counter.exactness(), Exactness::Exact);
        let part = r#""name_of 'it's":{"type":"string","description":"It reads 1234567 files/dirs — 文件を読む"},"#;
        for copies in [1, 150, 700] {
            let text = format!("{{{}\"x\":1}}", part.repeat(copies));
            let whole = counter.encoder.as_ref().unwrap().encode_ordinary(&text).len();
            assert_eq!(counter.count(&text) as usize, whole, "{copies}");
            assert_eq!(split_at_pieces(&text).collect::<String>(), text);
        }
    }

    #[test]
    fn hostile_texts_are_counted() {
        let counter = TokenCounter::new();
        #[rustfmt::skip]
        let parts = [
            "a", "A", "aA", " ", "\n", " \n", "\u{301}", "文", "'s", "/", "\u{0}", "1", "\u{1f600}",
            ",\"",
        ];
        for part in parts {
            for bytes in [60_000, 70_000, 1 << 20] {
                let text = part.repeat(bytes / part.len());
                let count = counter.count(&text);
                assert!(count > 0 && count <= max_tokens_of(&text), "{part:?} {bytes}");
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
