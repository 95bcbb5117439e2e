//! Trace ids created for calls without one (MGP §6.5).

use std::cell::RefCell;

use bytes::Bytes;
use bytestring::ByteString;

use crate::hex::hex_of_16;

const LENGTH: usize = 32;

/// The ids created at once; each of them keeps the common text alive, which is half a kilobyte.
const MANY: usize = 16;

thread_local! {
    static MADE: RefCell<Made> = const { RefCell::new(Made { text: ByteString::new(), given: 0 }) };
}

/// Ids that share one text.
struct Made {
    text: ByteString,
    /// The end of the ids already returned.
    given: usize,
}

/// Returns a new id: unique, but not secret, since it only correlates events.
///
/// Ids are ranges of one text: a separate allocation would be freed by the thread that writes the log, which costs
/// several times as much as the id.
pub(super) fn next() -> ByteString {
    MADE.with_borrow_mut(|made| {
        if made.given == made.text.len() {
            *made = Made::new();
        }
        let from = made.given;
        made.given += LENGTH;
        made.text.slice_ref(&made.text[from..made.given])
    })
}

impl Made {
    fn new() -> Self {
        let mut text = [0; LENGTH * MANY];
        for id in text.as_chunks_mut().0 {
            *id = hex_of_16(fastrand::u128(..).to_be_bytes());
        }
        // Digits are ASCII.
        let text = ByteString::try_from(Bytes::from_owner(text)).expect("digits are text");
        Self { text, given: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_id_is_given_out_twice() {
        let ids: HashSet<_> = (0..=MANY * 4).map(|_| next()).collect();
        assert_eq!(ids.len(), MANY * 4 + 1);
        let is_id =
            |id: &ByteString| id.len() == LENGTH && id.bytes().all(|b| b.is_ascii_hexdigit());
        assert!(ids.iter().all(is_id), "{ids:?}");
    }
}
