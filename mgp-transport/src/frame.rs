//! Splits bytes into lines whose length is bounded (MGP §1.4, stdio).
//!
//! A short line is copied out of the read buffer, so that a long-running call does not keep the whole buffer in memory.
//! A long line takes over the buffer, so that megabytes need not be copied.

use bytes::Bytes;
use bytestring::ByteString;

/// The usual room for one read, in bytes: the capacity of a Linux pipe.
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
    /// The position up to which the buffer was searched: the bytes between `start` and this position contain no
    /// newline.
    scanned: usize,
    limit: usize,
    overlong: Overlong,
    /// The last bytes of an overlong line, at most [`KEPT_OF_LONG_LINE`].
    tail: Vec<u8>,
    /// The capacity for the next long line, whose size is probably similar to that of the last long line.
    next_capacity: usize,
    /// `true` until the first line was read. Before this line, a byte order mark is skipped.
    is_first: bool,
}

/// The state of a line that is longer than the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Overlong {
    /// The current line is within the limit so far.
    #[default]
    No,
    /// The beginning of the line was returned, and the rest of the line is being discarded.
    Discarding,
    /// The line has ended, and its beginning was returned; its end is returned as the next line.
    TailLeft,
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
            overlong: Overlong::No,
            tail: Vec::new(),
            next_capacity: READ_SIZE,
            is_first: true,
        }
    }

    /// Makes room for a read and returns the buffer to read into.
    pub(crate) fn reading(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            // All complete lines were taken, so only the incomplete last line is left in the buffer: move it to the
            // beginning.
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        let wanted = self.next_capacity.max(READ_SIZE).min(self.limit.saturating_add(READ_SIZE));
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
        if self.overlong == Overlong::TailLeft {
            self.overlong = Overlong::No;
            return Some(self.take_tail());
        }
        loop {
            let found = memchr::memchr(b'\n', &self.buffer[self.scanned..]);
            let Some(offset) = found else {
                self.scanned = self.buffer.len();
                return self.cut_overlong();
            };
            let end = self.scanned + offset;
            let begin = self.start;
            self.start = end + 1;
            self.scanned = end + 1;
            if std::mem::take(&mut self.overlong) == Overlong::Discarding {
                self.keep_tail(begin, end);
                return Some(self.take_tail());
            }
            if end - begin > self.limit {
                let head = self.head_of(&self.buffer[begin..end]);
                self.keep_tail(begin, end);
                self.overlong = Overlong::TailLeft;
                return Some(Line::TooLong(head));
            }
            let text = self.text_range(begin, end);
            if !text.is_empty() {
                return Some(self.take_line(text.start, text.end));
            }
        }
    }

    /// Returns the text after the last newline, at the end of the stream; `None` if the text is empty or too long.
    pub(crate) fn last_line(&mut self) -> Option<Line> {
        let text = self.text_range(self.start, self.buffer.len());
        let overlong = std::mem::take(&mut self.overlong);
        if text.is_empty() || overlong == Overlong::Discarding {
            return None;
        }
        let line = self.take_line(text.start, text.end);
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

    /// If the unfinished line exceeds the limit, discards what was received of it; returns its beginning the first time.
    fn cut_overlong(&mut self) -> Option<Line> {
        if self.overlong == Overlong::Discarding {
            self.keep_tail(self.start, self.buffer.len());
            self.discard();
            return None;
        }
        if self.buffer.len() - self.start <= self.limit {
            return None;
        }
        self.overlong = Overlong::Discarding;
        let head = self.head_of(&self.buffer[self.start..]);
        self.keep_tail(self.start, self.buffer.len());
        self.discard();
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

    /// Discards the content of the buffer, and frees its memory if the buffer is large.
    fn discard(&mut self) {
        if self.buffer.capacity() > 4 * READ_SIZE {
            self.buffer = Vec::new();
        }
        self.buffer.clear();
        self.start = 0;
        self.scanned = 0;
    }

    fn take_tail(&mut self) -> Line {
        Line::LongTail(std::mem::take(&mut self.tail).into())
    }

    /// Returns a part of the buffer as a line: a copy of it, or the buffer itself if the line is long.
    fn take_line(&mut self, from: usize, to: usize) -> Line {
        let (bytes, kept) = if to - from <= MAX_COPIED_LINE || (to - from) * 2 < self.buffer.len() {
            (copy(&self.buffer[from..to]), None)
        } else {
            // The line takes over the buffer; the bytes after it move to a new buffer with the size of this line.
            self.next_capacity = (to - from + READ_SIZE).next_multiple_of(READ_SIZE);
            let mut rest =
                Vec::with_capacity(self.next_capacity.max(self.buffer.len() - self.start));
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
        assert_eq!(buffer.last_line(), Some(text("end")));
        assert_eq!(buffer.last_line(), None);
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
        assert_eq!(rest.last_line(), Some(text("one")));
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
