//! Trace ids for calls that have none (MGP §6.5).

use std::cell::RefCell;

use bytes::Bytes;
use bytestring::ByteString;

use crate::hex::hex_of_16;

const LENGTH: usize = 32;

/// The number of trace ids that are created together. Each id keeps the shared text of its batch (512 bytes) in memory.
const IDS_PER_BATCH: usize = 16;

thread_local! {
    static BATCH: RefCell<IdBatch> = const { RefCell::new(IdBatch { text: ByteString::new(), used: 0 }) };
}

struct IdBatch {
    text: ByteString,
    used: usize,
}

/// Returns a new trace id. It is unique but not secret, because it is only used to find events that belong together.
///
/// All ids of a batch share one allocation. With one allocation per id, the thread that writes the log would free what
/// another thread allocated, which takes several times as long as creating the id.
pub(super) fn next() -> ByteString {
    BATCH.with_borrow_mut(|batch| {
        if batch.used == batch.text.len() {
            *batch = IdBatch::new();
        }
        let from = batch.used;
        batch.used += LENGTH;
        batch.text.slice_ref(&batch.text[from..batch.used])
    })
}

impl IdBatch {
    fn new() -> Self {
        let mut text = [0; LENGTH * IDS_PER_BATCH];
        for id in text.as_chunks_mut().0 {
            *id = hex_of_16(fastrand::u128(..).to_be_bytes());
        }
        // Cannot fail: hexadecimal digits are ASCII.
        let text = ByteString::try_from(Bytes::from_owner(text)).expect("digits are text");
        Self { text, used: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_id_is_given_out_twice() {
        let ids: HashSet<_> = (0..=IDS_PER_BATCH * 4).map(|_| next()).collect();
        assert_eq!(ids.len(), IDS_PER_BATCH * 4 + 1);
        let is_id =
            |id: &ByteString| id.len() == LENGTH && id.bytes().all(|b| b.is_ascii_hexdigit());
        assert!(ids.iter().all(is_id), "{ids:?}");
    }
}
