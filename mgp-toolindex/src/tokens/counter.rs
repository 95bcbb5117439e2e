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
/// Making one takes 100 ms and 60 MB; without feature `tokens` it counts from above and costs nothing.
///
/// ```
/// use mgp_toolindex::{TokenCounter, tokens_at_most};
///
/// let text = r#"{"name":"read_file","inputSchema":{"type":"object"}}"#;
/// assert_eq!(TokenCounter::new().count(text), 14);
/// assert!(tokens_at_most(text) >= 14);
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

/// Counts many texts and lets the tables go.
///
/// It blocks, for 100 ms and more.
/// The tables live and die on a thread of their own: half a million small pieces of memory between those of other
/// work would never find back to the system.
pub(crate) fn count_all(texts: &[impl AsRef<str> + Sync]) -> Vec<u32> {
    let at_most = || texts.iter().map(|text| tokens_at_most(text.as_ref())).collect();
    if cfg!(not(feature = "tokens")) || texts.is_empty() {
        return at_most();
    }
    std::thread::scope(|scope| {
        let count = || {
            let counter = TokenCounter::new();
            texts.iter().map(|text| counter.count(text.as_ref())).collect()
        };
        let counting = std::thread::Builder::new().name("mgp-tokens".to_owned());
        match counting.spawn_scoped(scope, count) {
            Ok(counting) => counting.join().unwrap_or_else(|_| at_most()),
            Err(_) => at_most(),
        }
    })
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
        let end = match is_plain && bytes.len() > from {
            true => (from..bytes.len()).find(place).unwrap_or(bytes.len()),
            false => bytes.len(),
        };
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
        assert_eq!(count_all(&["hello", "hello world", ""]), [1, 2, 0]);
        assert!(count_all(&[""; 0]).is_empty());
    }
}
