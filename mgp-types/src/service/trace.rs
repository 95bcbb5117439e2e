//! Trace ids that we make ourselves, where a caller brought none (MGP §6.5).

use std::cell::RefCell;

use bytes::Bytes;
use bytestring::ByteString;

use crate::hex::hex_of_16;

/// The length of an id.
const LENGTH: usize = 32;

/// So many are made at once; each keeps the text of all alive, which is half a kilobyte.
const MANY: usize = 16;

thread_local! {
    static MADE: RefCell<Made> = const { RefCell::new(Made { text: ByteString::new(), given: 0 }) };
}

/// Ids that were made together.
struct Made {
    text: ByteString,
    /// Up to where they were given out.
    given: usize,
}

/// A new id: unique, not secret, since it only says what belongs together.
///
/// Ids are ranges of one text: an allocation for each would be freed by the thread that writes the log, which costs
/// several times what the id does.
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
