//! The key of a call inside this process (DESIGN: wire ids live only in the transport).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use bytestring::ByteString;

use super::message::format_i64;

/// What stands before the number where a key is shown.
const BEFORE: &str = "call-";

/// Names one call in this process; never reused, never on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallKey(u64);

impl CallKey {
    /// Takes the next key.
    #[must_use]
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The same as it is shown, to name a logical call by its first part.
    ///
    /// Each call through a kernel has such a name; it is put together by hand, which costs a third.
    #[must_use]
    pub fn to_text(self) -> ByteString {
        let mut digits = [0; 20];
        // There are never so many calls.
        let digits = format_i64(i64::try_from(self.0).unwrap_or(i64::MAX), &mut digits);
        // All of it is ASCII.
        ByteString::try_from([BEFORE.as_bytes(), digits].concat()).unwrap_or_default()
    }

    /// The number behind it.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BEFORE}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_text() {
        for number in [0, 7, 10, 1_234_567_890_123] {
            let key = CallKey(number);
            assert_eq!(*key.to_text(), *key.to_string());
        }
    }
}
