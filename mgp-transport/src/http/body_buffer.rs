//! Collects the pieces of an HTTP body; a body that arrives in one piece is not copied.

use bytes::Bytes;

#[derive(Default)]
pub(super) struct BodyBuffer {
    /// The first piece, if no other piece has been received yet.
    first: Bytes,
    /// All pieces joined, if there are several.
    all: Vec<u8>,
}

impl BodyBuffer {
    pub(super) fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    /// Appends a piece; `expected` is the announced length of the whole body, or 0.
    #[inline]
    pub(super) fn push(&mut self, data: Bytes, expected: usize) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        if self.all.is_empty() {
            self.all.reserve(expected);
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.all.extend_from_slice(&data);
    }

    /// Returns the body. If it consists of a single piece, the piece is copied only if it is shorter than
    /// `copied_below`.
    #[inline]
    pub(super) fn into_bytes(self, copied_below: usize) -> Bytes {
        if !self.all.is_empty() {
            Bytes::from(self.all)
        } else if self.first.len() < copied_below {
            Bytes::copy_from_slice(&self.first)
        } else {
            self.first
        }
    }
}
