//! Splits bytes into lines whose length is bounded.
//!
//! A short line is copied out of the read buffer, so that a long-running call does not keep the whole buffer in memory.
//! A long line takes over the buffer, so that megabytes need not be copied.

use bytes::Bytes;
use bytestring::ByteString;

/// The number of bytes for which a read gets room: the capacity of a Linux pipe.
const READ_SIZE: usize = 64 * 1024;
/// The number of bytes that are stored from each end of an overlong line. The id of the message is expected in one of
/// the two ends, so that the message can still be answered.
const KEPT_OF_LONG_LINE: usize = 1024;
/// The maximum length of a line that is always copied. A longer line is copied only if it fills less than half of the
/// buffer.
const MAX_COPIED_LINE: usize = 16 * 1024;
/// The UTF-8 byte order mark, which some programs on Windows write before their first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A buffer that collects bytes and splits them into lines.
#[derive(Debug)]
pub(crate) struct LineBuffer {
    buffer: Vec<u8>,
    /// The position at which the current line begins.
    start: usize,
    /// The position up to which the buffer was searched: between `start` and this position there is no newline.
    scanned: usize,
    limit: usize,
    /// If set, the rest of an overlong line is being discarded.
    skipping: bool,
    /// The last bytes of the discarded part, at most [`KEPT_OF_LONG_LINE`].
    tail: Vec<u8>,
    /// If set, the overlong line has ended, and `tail` is returned as the next line.
    has_tail: bool,
    /// The capacity for the next long line, whose size is probably similar to that of the last long line.
    hint: usize,
    /// `true` until the first line was read, before which a byte order mark is skipped.
    is_first: bool,
}

/// One line, or an end of a line that is too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line of text, without its line end.
    Text(ByteString),
    /// The bytes of a line that is not UTF-8.
    NotText(Bytes),
    /// The beginning of an overlong line, returned as soon as the line exceeds the limit.
    TooLong(Bytes),
    /// The end of an overlong line whose beginning was returned before.
    LongTail(Bytes),
}

impl LineBuffer {
    /// Creates a buffer for lines of up to `limit` bytes.
    #[must_use]
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            limit,
            skipping: false,
            tail: Vec::new(),
            has_tail: false,
            hint: READ_SIZE,
            is_first: true,
        }
    }

    /// Makes room for a read and returns the buffer to read into.
    pub(crate) fn reading(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            // Only the incomplete last line is left in the buffer.
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        let wanted = self.hint.max(READ_SIZE).min(self.limit.saturating_add(READ_SIZE));
        if self.buffer.capacity() == 0 {
            self.buffer.reserve_exact(wanted);
        } else if self.buffer.capacity() - self.buffer.len() < READ_SIZE / 4 {
            let largest = self.limit.saturating_add(2 * READ_SIZE);
            let grown = (self.buffer.capacity() * 2).min(largest);
            self.buffer.reserve_exact(grown.saturating_sub(self.buffer.len()).max(READ_SIZE));
        }
        &mut self.buffer
    }

    /// Returns the next line, if a complete line was received.
    pub(crate) fn next_line(&mut self) -> Option<Line> {
        if std::mem::take(&mut self.has_tail) {
            return Some(Line::LongTail(std::mem::take(&mut self.tail).into()));
        }
        loop {
            let found = memchr::memchr(b'\n', &self.buffer[self.scanned..]);
            let Some(offset) = found else {
                self.scanned = self.buffer.len();
                return self.check_length();
            };
            let end = self.scanned + offset;
            let begin = self.start;
            self.start = end + 1;
            self.scanned = end + 1;
            if std::mem::take(&mut self.skipping) {
                self.keep_tail(begin, end);
                return Some(Line::LongTail(std::mem::take(&mut self.tail).into()));
            }
            if end - begin > self.limit {
                let head = self.head_of(&self.buffer[begin..end]);
                self.keep_tail(begin, end);
                self.has_tail = true;
                return Some(Line::TooLong(head));
            }
            let text = self.text_range(begin, end);
            if !text.is_empty() {
                return Some(self.take(text.start, text.end));
            }
        }
    }

    /// Returns the text after the last newline, at the end of the stream; `None` if the text is empty, or the text
    /// is too long.
    pub(crate) fn rest(&mut self) -> Option<Line> {
        let text = self.text_range(self.start, self.buffer.len());
        let skipping = std::mem::take(&mut self.skipping);
        if text.is_empty() || skipping {
            return None;
        }
        let line = self.take(text.start, text.end);
        self.buffer.clear();
        self.start = 0;
        self.scanned = 0;
        Some(line)
    }

    /// Returns the range of a line's text: without the blanks around it, and without a byte order mark before the first
    /// line.
    fn text_range(&mut self, mut begin: usize, end: usize) -> std::ops::Range<usize> {
        if std::mem::take(&mut self.is_first)
            && self.buffer[begin..end].starts_with(BYTE_ORDER_MARK)
        {
            begin += BYTE_ORDER_MARK.len();
        }
        let trimmed = trim(&self.buffer[begin..end]);
        begin + trimmed.start..begin + trimmed.end
    }

    /// Checks the length of the unfinished line. If it exceeds the limit, returns its beginning and discards the rest.
    fn check_length(&mut self) -> Option<Line> {
        if self.skipping {
            self.keep_tail(self.start, self.buffer.len());
            self.forget();
            return None;
        }
        if self.buffer.len() - self.start <= self.limit {
            return None;
        }
        self.skipping = true;
        let head = self.head_of(&self.buffer[self.start..]);
        self.keep_tail(self.start, self.buffer.len());
        self.forget();
        Some(Line::TooLong(head))
    }

    /// Returns the beginning of an overlong line; it does not depend on how the line was split into reads.
    fn head_of(&self, line: &[u8]) -> Bytes {
        Bytes::copy_from_slice(&line[..self.limit.min(KEPT_OF_LONG_LINE)])
    }

    /// Stores the last bytes of a line that is being discarded.
    fn keep_tail(&mut self, from: usize, to: usize) {
        let from = from.max(to.saturating_sub(KEPT_OF_LONG_LINE));
        self.tail.extend_from_slice(&self.buffer[from..to]);
        let excess = self.tail.len().saturating_sub(KEPT_OF_LONG_LINE);
        self.tail.drain(..excess);
    }

    fn forget(&mut self) {
        if self.buffer.capacity() > 4 * READ_SIZE {
            self.buffer = Vec::new();
        }
        self.buffer.clear();
        self.start = 0;
        self.scanned = 0;
    }

    fn take(&mut self, from: usize, to: usize) -> Line {
        let (bytes, kept) = if to - from <= MAX_COPIED_LINE || (to - from) * 2 < self.buffer.len() {
            (copy(&self.buffer[from..to]), None)
        } else {
            // The line takes over the buffer; the bytes after it move to a new buffer with the size of this line.
            self.hint = (to - from + READ_SIZE).next_multiple_of(READ_SIZE);
            let mut rest = Vec::with_capacity(self.hint.max(self.buffer.len() - self.start));
            rest.extend_from_slice(&self.buffer[self.start..]);
            self.start = 0;
            self.scanned = 0;
            let mut whole = std::mem::replace(&mut self.buffer, rest);
            whole.truncate(to);
            let line = Bytes::from(whole).slice(from..to);
            (line.clone(), Some(line))
        };
        let broken = |_| Line::NotText(kept.unwrap_or_else(|| copy(&self.buffer[from..to])));
        ByteString::try_from(bytes).map_or_else(broken, Line::Text)
    }
}

/// Inline storage for a short line: one allocation contains the bytes and the reference count, so slices need no
/// further allocation.
struct Short<const ROOM: usize> {
    room: [u8; ROOM],
    length: usize,
}

impl<const ROOM: usize> Short<ROOM> {
    fn of(line: &[u8]) -> Self {
        let mut room = [0; ROOM];
        room[..line.len()].copy_from_slice(line);
        Self { room, length: line.len() }
    }
}

impl<const ROOM: usize> AsRef<[u8]> for Short<ROOM> {
    fn as_ref(&self) -> &[u8] {
        &self.room[..self.length]
    }
}

fn copy(line: &[u8]) -> Bytes {
    match line.len() {
        0..=256 => Bytes::from_owner(Short::<256>::of(line)),
        257..=1024 => Bytes::from_owner(Short::<1024>::of(line)),
        _ => Bytes::copy_from_slice(line),
    }
}

/// Returns the range of a line without the blanks around its text.
fn trim(line: &[u8]) -> std::ops::Range<usize> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    let start = line.iter().position(|byte| !blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(buffer: &mut LineBuffer, bytes: &[u8]) -> Vec<Line> {
        buffer.reading().extend_from_slice(bytes);
        std::iter::from_fn(|| buffer.next_line()).collect()
    }

    fn text(text: &str) -> Line {
        Line::Text(text.into())
    }

    #[test]
    fn cuts_lines_however_they_arrive() {
        let mut buffer = LineBuffer::new(100);
        assert_eq!(feed(&mut buffer, b"one\r\n\n  \ntw"), [text("one")]);
        assert_eq!(feed(&mut buffer, b"o\nthree\nfo"), [text("two"), text("three")]);
        assert_eq!(feed(&mut buffer, b"\xff\n"), [Line::NotText(Bytes::from_static(b"fo\xff"))]);
        buffer.reading().extend_from_slice(b"end");
        assert_eq!(buffer.next_line(), None);
        assert_eq!(buffer.rest(), Some(text("end")));
        assert_eq!(buffer.rest(), None);
    }

    #[test]
    fn a_byte_order_mark_before_the_first_line_is_ignored() {
        let bytes = b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n";
        let mut buffer = LineBuffer::new(100);
        assert_eq!(feed(&mut buffer, bytes), [text("one"), text("\u{feff}two")]);
        let mut pieces = LineBuffer::new(100);
        assert_eq!(feed(&mut pieces, &bytes[..2]), []);
        assert_eq!(feed(&mut pieces, &bytes[2..]), [text("one"), text("\u{feff}two")]);
        let mut rest = LineBuffer::new(100);
        assert_eq!(feed(&mut rest, &bytes[..6]), []);
        assert_eq!(rest.rest(), Some(text("one")));
    }

    #[test]
    fn a_line_over_the_limit_is_reported_once_and_the_next_one_works() {
        let mut buffer = LineBuffer::new(10);
        let (head, more) = (Bytes::from("0123456789"), Bytes::from("0123456789abmore of it"));
        let long = Line::TooLong(head.clone());
        assert_eq!(feed(&mut buffer, b"0123456789ab"), [long]);
        assert_eq!(feed(&mut buffer, b"more of it"), []);
        assert_eq!(feed(&mut buffer, b"\nok\n"), [Line::LongTail(more), text("ok")]);
        let whole = Line::TooLong(head);
        let tail = Line::LongTail("0123456789ab".into());
        assert_eq!(feed(&mut buffer, b"0123456789ab\nok\n"), [whole, tail, text("ok")]);
    }

    #[test]
    fn long_lines_take_the_buffer_and_leave_the_rest() {
        let mut buffer = LineBuffer::new(1 << 20);
        let long = "x".repeat(MAX_COPIED_LINE * 3);
        let lines = feed(&mut buffer, format!("a\n{long}\nb\nc").as_bytes());
        assert_eq!(lines, [text("a"), text(&long), text("b")]);
        let broken = [long.as_bytes(), b"\xff"].concat();
        let mut other = LineBuffer::new(1 << 20);
        let lines = feed(&mut other, &[&*broken, b"\nb\n"].concat());
        assert_eq!(lines, [Line::NotText(broken.into()), text("b")]);
        assert_eq!(feed(&mut buffer, b"d\n"), [text("cd")]);
    }

    /// Guards against an earlier fault: lines of 17 KiB kept buffers of ten times their size in memory.
    #[test]
    fn a_line_keeps_little_more_than_itself() {
        let mut buffer = LineBuffer::new(1 << 20);
        let long = "x".repeat(MAX_COPIED_LINE + 1);
        let many = format!("{long}\n").repeat(12);
        buffer.reading().reserve_exact(many.len());
        let before = buffer.reading().as_ptr();
        assert_eq!(feed(&mut buffer, many.as_bytes()).len(), 12);
        assert_eq!(buffer.buffer.as_ptr(), before, "each is copied");
        let _kept = feed(&mut buffer, format!("{long}\n").as_bytes());
        assert_ne!(buffer.buffer.as_ptr(), before, "alone, it takes the buffer");
    }

    #[test]
    fn a_buffer_without_a_limit_grows() {
        let mut buffer = LineBuffer::new(usize::MAX);
        for _ in 0..3 {
            assert_eq!(feed(&mut buffer, &vec![b'x'; READ_SIZE]), []);
        }
        assert_eq!(feed(&mut buffer, b"\n"), [text(&"x".repeat(3 * READ_SIZE))]);
    }

    #[test]
    fn skipping_holds_no_memory() {
        let mut buffer = LineBuffer::new(1 << 20);
        for _ in 0..64 {
            let _ = feed(&mut buffer, &vec![b'x'; READ_SIZE]);
        }
        assert!(buffer.buffer.capacity() <= 4 * READ_SIZE);
        let tail = Line::LongTail(vec![b'x'; KEPT_OF_LONG_LINE].into());
        assert_eq!(feed(&mut buffer, b"\nok\n"), [tail, text("ok")]);
    }

    proptest::proptest! {
        #[test]
        fn the_cut_does_not_depend_on_the_reads(bytes: Vec<u8>, step in 1usize..40) {
            let mut whole = LineBuffer::new(20);
            let expected = feed(&mut whole, &bytes);
            let mut pieces = LineBuffer::new(20);
            let found: Vec<_> = bytes.chunks(step).flat_map(|piece| feed(&mut pieces, piece)).collect();
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
