//! Keys that identify calls inside this process. Request ids cannot identify them, because several connections can use
//! the same id.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bytestring::ByteString;

use super::write::format_u64;

const PREFIX: &str = "call-";

/// The id of the tracing span that shows a call in exported traces; stored in the extensions of the call's context. The
/// next server receives it as the parent of its own span.
#[derive(Clone, Copy, Debug)]
pub struct TraceSpan(pub u64);

/// A random number of this process, which makes its span ids differ from the span ids of other processes. The spans of
/// several processes, also of an earlier run of this program, can be in one trace. The highest bit is set, so that no
/// span id is zero.
static PROCESS: LazyLock<u64> = LazyLock::new(|| fastrand::u64(..) | (1 << 63));

impl TraceSpan {
    /// Returns the id of the span of a call. It differs from the ids of all other calls of this process and, very
    /// probably, from those of other processes.
    #[must_use]
    pub fn of(key: CallKey) -> Self {
        Self(key.as_u64() ^ *PROCESS)
    }
}

/// The key of a call in this process. It is never used for another call, and never sent to a peer.
///
/// The number is never zero, so `Option<CallKey>` needs no extra space in the context of each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallKey(NonZeroU64);

impl CallKey {
    /// Returns a new key.
    #[must_use]
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns the key as text, e.g. as the id of a logical call, which is named after its first round.
    ///
    /// Formats the text by hand, because every call through a kernel needs it, and `format!` takes three times as long.
    #[must_use]
    pub fn to_text(self) -> ByteString {
        let mut digits = [0; 20];
        let digits = format_u64(self.as_u64(), &mut digits);
        // Cannot fail: the text is ASCII.
        ByteString::try_from([PREFIX.as_bytes(), digits].concat()).unwrap_or_default()
    }

    /// Returns the key as a number.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_span_is_not_the_number_of_its_call() {
        let keys = [1, 2, 3, 1 << 40].map(|key| CallKey(NonZeroU64::new(key).unwrap()));
        let ids: Vec<u64> = keys.iter().map(|key| TraceSpan::of(*key).0).collect();
        assert!(keys.iter().zip(&ids).all(|(key, id)| *id > key.as_u64()), "{ids:?}");
        assert!((1..ids.len()).all(|at| !ids[..at].contains(&ids[at])), "{ids:?}");
        assert_eq!(TraceSpan::of(keys[1]).0, ids[1], "a call has one span");
    }

    #[test]
    fn a_key_has_one_text() {
        for number in [1, 7, 10, 1_234_567_890_123] {
            let key = CallKey(NonZeroU64::new(number).unwrap());
            assert_eq!(*key.to_text(), *key.to_string());
        }
    }
}
