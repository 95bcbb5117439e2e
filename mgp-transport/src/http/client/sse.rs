//! A parser for event streams that stores at most one event at a time (WHATWG server-sent events).

use std::time::Duration;

use bytestring::ByteString;
use http::HeaderValue;

/// The maximum length, in bytes, of an event id, which the client sends back in a header. After a longer id, the stream
/// cannot be resumed.
const MAX_ID_BYTES: usize = 1024;

/// The number of bytes that are kept from the beginning and from the end of the data of an event that is too long; one
/// of these two parts contains the id of the message.
const KEPT_OF_LONG_DATA: usize = 1024;

/// The number of bytes that are kept of the beginning of a line in an event that is too long: a byte order mark, the
/// name of the field, and [`KEPT_OF_LONG_DATA`] bytes of data.
const KEPT_OF_LONG_LINE: usize = KEPT_OF_LONG_DATA + 16;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// The name of the event; empty if the stream does not name it.
    pub(super) name: String,
    /// The data of the event, with its lines joined.
    pub(super) data: ByteString,
}

/// The error for an event that exceeded the limit and was skipped; later events can still be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TooLong {
    /// The beginning of the data of the event.
    pub(super) head: Vec<u8>,
    /// The end of the data of the event.
    pub(super) tail: Vec<u8>,
}

impl TooLong {
    /// Adds a line of data, given as its beginning and its end; bytes between these two may be missing.
    fn add_line(&mut self, begin: &[u8], end: &[u8]) {
        if !self.head.is_empty() {
            self.add(b"\n");
        }
        self.add(begin);
        self.add(end);
    }

    fn add(&mut self, data: &[u8]) {
        let room = KEPT_OF_LONG_DATA - self.head.len();
        self.head.extend_from_slice(&data[..data.len().min(room)]);
        keep_end(&mut self.tail, data);
    }
}

/// Adds bytes to the end of a text; only the last bytes of the text are kept.
fn keep_end(end: &mut Vec<u8>, bytes: &[u8]) {
    end.extend_from_slice(&bytes[bytes.len().saturating_sub(KEPT_OF_LONG_DATA)..]);
    let excess = end.len().saturating_sub(KEPT_OF_LONG_DATA);
    end.drain(..excess);
}

/// A parser that converts bytes to events. The last event id and the retry delay are preserved when the client
/// reconnects.
#[derive(Debug)]
pub(super) struct SseReader {
    bound: usize,
    /// The current line, if it arrived in several pieces; only its beginning if the event is too long.
    line: Vec<u8>,
    /// The last bytes of what `line` leaves out.
    line_end: Vec<u8>,
    draft: Draft,
    last_id: Option<HeaderValue>,
    retry: Option<Duration>,
    is_start: bool,
    after_cr: bool,
    /// The number of events with data or an id so far. If the number has grown, the stream made progress. An event that
    /// is too long and has no id does not count, because the next stream would repeat it.
    progress: u64,
}

/// The event that is being read, as far as it has arrived.
#[derive(Debug, Default)]
struct Draft {
    name: Vec<u8>,
    data: Option<Vec<u8>>,
    id: Option<Vec<u8>>,
    /// The beginning and the end of the data if the event is too long; `data` is then empty.
    cut: Option<TooLong>,
}

impl Draft {
    fn len(&self) -> usize {
        self.data.as_ref().map_or(0, Vec::len)
    }

    /// Marks the event as too long, so that only the beginning and the end of its data are kept.
    fn cut(&mut self) {
        let cut = self.cut.get_or_insert_default();
        if let Some(data) = self.data.take() {
            cut.add(&data);
        }
    }
}

impl SseReader {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            bound,
            line: Vec::new(),
            line_end: Vec::new(),
            draft: Draft::default(),
            last_id: None,
            retry: None,
            is_start: true,
            after_cr: false,
            progress: 0,
        }
    }

    /// Discards an unfinished event, because the next bytes are from a new connection.
    pub(super) fn reconnect(&mut self) {
        self.line.clear();
        self.line_end.clear();
        self.draft = Draft::default();
        self.is_start = true;
        self.after_cr = false;
    }

    /// Returns the id of the event after which the stream can be resumed.
    pub(super) fn last_id(&self) -> Option<&HeaderValue> {
        self.last_id.as_ref()
    }

    /// Returns the retry delay that the server requested, if any.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Returns the maximum length of an event.
    pub(super) fn bound(&self) -> usize {
        self.bound
    }

    /// Returns the number of events with data or an id, without those that are too long and have no id.
    pub(super) fn progress(&self) -> u64 {
        self.progress
    }

    /// Consumes bytes from the front of `input` until an event is complete; `None` when all are consumed.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Option<Result<Event, TooLong>> {
        loop {
            // Return before the check for a line feed below: the line feed of a CRLF can be the first byte of the next
            // input.
            if input.is_empty() {
                return None;
            }
            if std::mem::take(&mut self.after_cr) && input[0] == b'\n' {
                *input = &input[1..];
                continue;
            }
            let Some(at) = memchr::memchr2(b'\n', b'\r', input) else {
                self.buffer_piece(input);
                *input = &[];
                return None;
            };
            let (mut piece, end) = (&input[..at], input[at]);
            *input = &input[at + 1..];
            self.after_cr = end == b'\r';
            let mut held = Vec::new();
            if !self.line.is_empty() {
                self.buffer_piece(piece);
                held = std::mem::take(&mut self.line);
                piece = &held;
            }
            let event = self.take_line(piece);
            self.line_end.clear();
            // The buffer is reused for the next line that arrives in several pieces.
            if held.capacity() <= 64 << 10 {
                held.clear();
                self.line = held;
            }
            if event.is_some() {
                return event;
            }
        }
    }

    /// Buffers a piece of a line. If the event is too long, keeps only the beginning and the end of the line.
    fn buffer_piece(&mut self, piece: &[u8]) {
        if self.draft.cut.is_some() {
            self.buffer_ends(piece);
        } else if self.line.len() + self.draft.len() + piece.len() > self.bound {
            self.draft.cut();
            let line = std::mem::take(&mut self.line);
            self.buffer_ends(&line);
            self.buffer_ends(piece);
        } else {
            self.line.extend_from_slice(piece);
        }
    }

    fn buffer_ends(&mut self, piece: &[u8]) {
        let room = KEPT_OF_LONG_LINE - self.line.len();
        let (begin, rest) = piece.split_at(piece.len().min(room));
        self.line.extend_from_slice(begin);
        keep_end(&mut self.line_end, rest);
    }

    fn take_line(&mut self, mut line: &[u8]) -> Option<Result<Event, TooLong>> {
        let draft = &mut self.draft;
        if draft.len() + line.len() > self.bound {
            draft.cut();
        }
        if std::mem::take(&mut self.is_start) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(at) => (&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..])),
            None => (line, &b""[..]),
        };
        if let Some(cut) = &mut draft.cut {
            if field == b"data" {
                cut.add_line(value, &self.line_end);
            }
            return None;
        }
        match field {
            b"data" => match &mut draft.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                none => *none = Some(value.to_vec()),
            },
            b"event" => draft.name = value.to_vec(),
            b"id" if !value.contains(&0) => draft.id = Some(value.to_vec()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let text = std::str::from_utf8(value).unwrap_or_default();
                self.retry = Some(Duration::from_millis(text.parse().unwrap_or(u64::MAX)));
            }
            // Comments begin with a colon and keep the connection alive; unknown fields are ignored.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<Result<Event, TooLong>> {
        let draft = std::mem::take(&mut self.draft);
        self.progress += u64::from(draft.id.is_some() || draft.data.is_some());
        if let Some(id) = draft.id {
            let fits = !id.is_empty() && id.len() <= MAX_ID_BYTES;
            self.last_id = HeaderValue::try_from(id).ok().filter(|_| fits);
        }
        if let Some(cut) = draft.cut {
            return Some(Err(cut));
        }
        let name = String::from_utf8_lossy(&draft.name).into_owned();
        draft.data.map(|data| Ok(Event { name, data: text(data) }))
    }
}

fn text(bytes: Vec<u8>) -> ByteString {
    match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned().into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parses a text in pieces of `piece` bytes; returns each event as `name=data`, or as `!` if it was too long.
    fn read(reader: &mut SseReader, text: &[u8], piece: usize) -> Vec<String> {
        let mut events = Vec::new();
        for mut piece in text.chunks(piece.max(1)) {
            while let Some(event) = reader.next(&mut piece) {
                events.push(match event {
                    Ok(event) => format!("{}={}", event.name, event.data),
                    Err(TooLong { .. }) => "!".to_owned(),
                });
            }
        }
        events
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        for piece in [1, 2, 3, 7, 1000] {
            let mut reader = SseReader::new(64);
            assert_eq!(read(&mut reader, text.as_bytes(), piece), expected, "{text:?} by {piece}");
        }
    }

    #[test]
    fn events_in_all_line_endings() {
        check("data: a\n\ndata:b\n\n", &["=a", "=b"]);
        check("data: a\r\n\r\ndata: b\r\n\r\n", &["=a", "=b"]);
        check("data: a\r\rdata: b\r\r", &["=a", "=b"]);
        check("event: e\r\ndata: a\r\ndata: b\r\n\r\n", &["e=a\nb"]);
        check("event: message\ndata: a\ndata: b\n\n", &["message=a\nb"]);
        check(":ping\n\ndata:  a\n:x\n\n", &["= a"]);
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &["=a"]);
        check("data\n\n", &["="]);
        check("other: x\ndata: ä\n\n", &["=ä"]);
        // An unfinished event is discarded.
        check("data: a\n", &[]);
        check("event: x\n\ndata: a\n\n", &["=a"]);
    }

    #[test]
    fn a_line_end_in_two_reads_does_not_end_the_event() {
        let mut reader = SseReader::new(64);
        read(&mut reader, b"id: 7\r", 100);
        read(&mut reader, b"\n", 100);
        assert_eq!(reader.last_id(), None);
        assert_eq!(read(&mut reader, b"data: a\r\n\r\n", 100), ["=a"]);
        assert_eq!(reader.last_id().unwrap(), "7");
    }

    #[test]
    fn ids_and_waits_are_kept_over_connections() {
        let mut reader = SseReader::new(64);
        read(&mut reader, b"id: 7\nretry: 50\ndata:\n\nid: 8\ndata: half", 3);
        assert_eq!(reader.last_id().unwrap(), "7");
        assert_eq!((reader.retry(), reader.progress()), (Some(Duration::from_millis(50)), 1));
        reader.reconnect();
        assert_eq!(read(&mut reader, b"data: a\nretry: x\n\n", 5), ["=a"]);
        assert_eq!(reader.last_id().unwrap(), "7");
        read(&mut reader, b"id\n\n", 5);
        assert_eq!(reader.last_id(), None);
        read(&mut reader, b"id: a\x00b\nretry: 99999999999999999999999\n\n", 5);
        assert_eq!(
            (reader.last_id(), reader.retry()),
            (None, Some(Duration::from_millis(u64::MAX)))
        );
    }

    #[test]
    fn an_event_that_is_too_long_is_left_out_and_the_next_is_read() {
        let long = "x".repeat(100);
        check(&format!("data: {long}\n\ndata: a\n\n"), &["!", "=a"]);
        check(&format!("data: {}\n\ndata: b\n\n", "y".repeat(63)), &["!", "=b"]);
        check(&format!("{long}{long}\n\ndata: a\n\n"), &["!", "=a"]);
        let many = "data: 123456789\n".repeat(10);
        check(&format!("{many}\ndata: a\n\n"), &["!", "=a"]);
    }

    #[test]
    fn the_ends_of_an_event_that_is_too_long_are_kept() {
        #[track_caller]
        fn check(text: &str, head: &str, tail: &str) {
            for size in [1, 2, 3, 7, 1000, 1024, 1030, 4096, usize::MAX] {
                let mut reader = SseReader::new(64);
                let cut =
                    text.as_bytes().chunks(size).find_map(|mut piece| reader.next(&mut piece));
                let cut = cut.unwrap().unwrap_err();
                assert_eq!(
                    (&*cut.head, &*cut.tail),
                    (head.as_bytes(), tail.as_bytes()),
                    "by {size}"
                );
            }
        }
        let (a, b) = ("a".repeat(1024), "b".repeat(1024));
        for between in ["", "c", &"c".repeat(20), &"c".repeat(5000)] {
            check(&format!("data: {a}{between}{b}\n\n"), &a, &b);
            check(&format!("\u{feff}data: {a}{between}{b}\r\n\r\n"), &a, &b);
            check(&format!("data:{a}\ndata: {between}\ndata:{b}\n\n"), &a, &b);
        }
        let short = "d".repeat(100);
        check(&format!("data: {short}\n\n"), &short, &short);
        check(&format!("data: 1\n:{short}\nid: 2\ndata: 3\n\n"), "1\n3", "1\n3");
        check(&format!("data: {short}\ndata\n\n"), &format!("{short}\n"), &format!("{short}\n"));
        check(&format!("{short}\n\n"), "", "");
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_read_the_same(
            text in proptest::collection::vec(
                prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), Just(b' '), Just(b'd'), any::<u8>()],
                0..300,
            ),
            piece in 1_usize..40,
        ) {
            let (mut whole, mut pieces) = (SseReader::new(256), SseReader::new(256));
            let expected = read(&mut whole, &text, usize::MAX);
            prop_assert_eq!(read(&mut pieces, &text, piece), expected);
            prop_assert_eq!(pieces.last_id(), whole.last_id());
            prop_assert!(pieces.line.len() + pieces.draft.len() <= 512);
        }

        #[test]
        fn written_events_are_read_back(
            events in proptest::collection::vec(("[a-z]{0,5}", "[ -~äö]{1,20}(\n[ -~]{1,20}){0,3}"), 0..10),
            piece in 1_usize..50,
        ) {
            let mut text = String::new();
            for (name, data) in &events {
                text.push_str("event: ");
                text.push_str(name);
                text.push('\n');
                for line in data.split('\n') {
                    text.push_str("data: ");
                    text.push_str(line);
                    text.push('\n');
                }
                text.push('\n');
            }
            let expected: Vec<_> = events.iter().map(|(name, data)| format!("{name}={data}")).collect();
            prop_assert_eq!(read(&mut SseReader::new(1000), text.as_bytes(), piece), expected);
        }
    }
}
