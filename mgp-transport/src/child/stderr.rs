//! The stderr of a child: it is read to the end, and logged up to a limit.
//!
//! See MGP §11. Each line is logged as one event with target `mgp::child`, level info, and the fields `server` and
//! `pid`. Lines above the limit are still read; they are counted and dropped, and one event at level warn reports the
//! counts of a time window.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info, warn};

/// The limits for the logging of a child's stderr.
///
/// Default: lines of up to 8 KiB, and at most 1,000 lines and 256 KiB in 10 s.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[must_use]
pub struct StderrLimits {
    /// The length at which a line is cut, in bytes.
    pub line_bytes: usize,
    /// The length of a time window; after it, the counts of lines and bytes restart at zero.
    pub window: Duration,
    /// The maximum number of lines per window.
    pub lines: u64,
    /// The maximum number of bytes per window.
    pub bytes: u64,
}

/// The callback for each logged line, and for each message that lines were dropped.
pub(super) type StderrCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// Reads and logs stderr until the child, and all processes that inherited its stderr, have ended.
pub(super) async fn drain(
    mut stderr: ChildStderr,
    cap: StderrLimits,
    callback: Option<StderrCallback>,
    server: String,
    pid: u32,
) {
    let mut log = LineLog::new(cap, |event| {
        if let Some(callback) = &callback {
            event.forward(&**callback);
        }
        event.emit(&server, pid);
    });
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = match log.next_summary() {
            None => stderr.read(&mut buffer).await,
            Some(due) => {
                let Ok(read) = timeout_at(due, stderr.read(&mut buffer)).await else {
                    log.start_window(due);
                    continue;
                };
                read
            }
        };
        match read {
            Ok(0) => break,
            Ok(read) => log.feed(&buffer[..read]),
            Err(error) => {
                debug!(target: "mgp::child", server, pid, %error, "stderr read failed");
                break;
            }
        }
    }
    log.finish();
}

/// A splitter of bytes into lines, which decides which lines are logged.
struct LineLog<F> {
    cap: StderrLimits,
    emit: F,
    line: Vec<u8>,
    /// Number of bytes cut from the current line because it is too long.
    cut: u64,
    window_began: Instant,
    lines: u64,
    bytes: u64,
    dropped_lines: u64,
    dropped_bytes: u64,
}

#[derive(Debug, PartialEq)]
enum Event {
    Line { text: String, cut: u64 },
    Dropped { lines: u64, bytes: u64 },
}

impl StderrLimits {
    /// Sets the length at which a line is cut.
    pub fn line_bytes(mut self, bytes: usize) -> Self {
        self.line_bytes = bytes;
        self
    }

    /// Sets how many lines and bytes are logged within a window.
    pub fn rate(mut self, lines: u64, bytes: u64, window: Duration) -> Self {
        self.lines = lines;
        self.bytes = bytes;
        self.window = window;
        self
    }
}

impl Default for StderrLimits {
    fn default() -> Self {
        Self {
            line_bytes: 8 * 1024,
            window: Duration::from_secs(10),
            lines: 1_000,
            bytes: 256 * 1024,
        }
    }
}

impl<F: FnMut(Event)> LineLog<F> {
    fn new(cap: StderrLimits, emit: F) -> Self {
        Self {
            window_began: Instant::now(),
            cap,
            emit,
            line: Vec::new(),
            cut: 0,
            lines: 0,
            bytes: 0,
            dropped_lines: 0,
            dropped_bytes: 0,
        }
    }

    /// Returns the time at which the dropped lines are reported; `None` if no lines were dropped.
    fn next_summary(&self) -> Option<Instant> {
        if self.dropped_lines == 0 {
            return None;
        }
        self.window_began.checked_add(self.cap.window)
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.extend(&bytes[..end]);
            self.end_line();
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes);
    }

    fn extend(&mut self, bytes: &[u8]) {
        let room = self.cap.line_bytes.saturating_sub(self.line.len());
        let fits = bytes.len().min(room);
        self.line.extend_from_slice(&bytes[..fits]);
        self.cut += (bytes.len() - fits) as u64;
    }

    fn end_line(&mut self) {
        if self.line.is_empty() && self.cut == 0 {
            return;
        }
        let now = Instant::now();
        if now.saturating_duration_since(self.window_began) >= self.cap.window {
            self.start_window(now);
        }
        let length = self.line.len() as u64;
        if self.lines < self.cap.lines && self.bytes + length <= self.cap.bytes {
            self.lines += 1;
            self.bytes += length;
            (self.emit)(Event::Line { text: readable(&self.line), cut: self.cut });
        } else {
            self.dropped_lines += 1;
            self.dropped_bytes += length + self.cut;
        }
        self.line.clear();
        self.cut = 0;
    }

    /// Reports the lines that were dropped, and begins a new time window.
    fn start_window(&mut self, now: Instant) {
        if self.dropped_lines > 0 {
            (self.emit)(Event::Dropped { lines: self.dropped_lines, bytes: self.dropped_bytes });
        }
        self.window_began = now;
        (self.lines, self.bytes, self.dropped_lines, self.dropped_bytes) = (0, 0, 0, 0);
    }

    fn finish(&mut self) {
        self.end_line();
        self.start_window(Instant::now());
    }
}

impl Event {
    fn forward(&self, callback: &dyn Fn(&str)) {
        match self {
            Self::Line { text, .. } => callback(text),
            Self::Dropped { lines, .. } => callback(&format!("({lines} lines were dropped)")),
        }
    }

    fn emit(self, server: &str, pid: u32) {
        match self {
            Self::Line { text, cut: 0 } => info!(target: "mgp::child", server, pid, "{text}"),
            Self::Line { text, cut } => info!(target: "mgp::child", server, pid, cut, "{text}"),
            Self::Dropped { lines, bytes } => {
                warn!(target: "mgp::child", server, pid, lines, bytes, "dropped stderr lines above the cap");
            }
        }
    }
}

/// Decodes a line; control characters are escaped, because logs are shown on terminals.
pub(crate) fn readable(line: &[u8]) -> String {
    let lossy = String::from_utf8_lossy(line);
    let line = lossy.trim_end();
    let mut text = String::with_capacity(line.len());
    for char in line.chars() {
        if char.is_control() && char != '\t' {
            // Writing to a string never fails.
            let _ = write!(text, "{}", char.escape_default());
        } else {
            text.push(char);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes chunks to the log, a second apart, and returns the logged events.
    async fn logged(cap: StderrLimits, chunks: &[&[u8]]) -> Vec<Event> {
        tokio::time::pause();
        let mut events = Vec::new();
        let mut log = LineLog::new(cap, |event| events.push(event));
        for chunk in chunks {
            log.feed(chunk);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        log.finish();
        events
    }

    fn line(text: &str, cut: u64) -> Event {
        Event::Line { text: text.to_owned(), cut }
    }

    #[tokio::test]
    async fn lines_join_across_reads_and_blank_ones_vanish() {
        let chunks: &[&[u8]] = &[b"one\ntw", b"o\r\n\n\nthree"];
        let events = logged(StderrLimits::default(), chunks).await;
        assert_eq!(events, [line("one", 0), line("two", 0), line("three", 0)]);
    }

    #[tokio::test]
    async fn a_long_line_is_cut_once() {
        let events = logged(StderrLimits::default().line_bytes(4), &[b"abcdef", b"gh\nij\n"]).await;
        assert_eq!(events, [line("abcd", 4), line("ij", 0)]);
    }

    #[tokio::test]
    async fn lines_above_the_rate_are_counted() {
        let cap = StderrLimits::default().rate(2, 1_000, Duration::from_millis(1_500));
        let events = logged(cap, &[b"a\nb\nc\nd\n", b"e\n", b"f\n"]).await;
        let dropped = Event::Dropped { lines: 3, bytes: 3 };
        assert_eq!(events, [line("a", 0), line("b", 0), dropped, line("f", 0)]);
    }

    #[tokio::test]
    async fn bytes_count_as_well() {
        let cap = StderrLimits::default().rate(100, 5, Duration::MAX);
        let events = logged(cap, &[b"abc\ndef\nx\n"]).await;
        let dropped = Event::Dropped { lines: 1, bytes: 3 };
        assert_eq!(events, [line("abc", 0), line("x", 0), dropped]);
    }

    #[test]
    fn a_callback_gets_logged_lines_and_the_number_of_dropped_ones() {
        let lines = std::cell::RefCell::new(Vec::new());
        let callback = |line: &str| lines.borrow_mut().push(line.to_owned());
        for event in [line("one", 4), Event::Dropped { lines: 3, bytes: 9 }] {
            event.forward(&callback);
        }
        assert_eq!(*lines.borrow(), ["one", "(3 lines were dropped)"]);
    }

    #[test]
    fn terminals_are_safe() {
        assert_eq!(readable(b"\x1b[31mred\tblue\xff"), "\\u{1b}[31mred\tblue\u{fffd}");
    }
}
