//! Reports lines of a peer that are not messages.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::child::readable;

/// The maximum number of lines that are reported for each connection.
const MAX_LINES: usize = 20;

/// The length at which a line is cut, in bytes.
const MAX_LINE_BYTES: usize = 4096;

/// A reporter that passes lines that are not messages to a callback, up to a maximum number of lines.
pub(super) struct StrayLines {
    callback: Box<dyn Fn(&str) + Send + Sync>,
    reported: AtomicUsize,
}

impl StrayLines {
    pub(super) fn new(callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { callback: Box::new(callback), reported: AtomicUsize::new(0) }
    }

    /// Reports a line, unless it is blank or the maximum number of lines was reported.
    pub(super) fn report(&self, line: &[u8]) {
        if self.reported.load(Ordering::Relaxed) >= MAX_LINES {
            return;
        }
        let text = readable(&line[..line.len().min(MAX_LINE_BYTES)]);
        if !text.is_empty() {
            self.reported.fetch_add(1, Ordering::Relaxed);
            (self.callback)(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mgp_types::sync::Mutex;

    use super::*;

    #[test]
    fn few_lines_are_reported_and_long_ones_are_cut() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let reported = Arc::clone(&lines);
        let stray = StrayLines::new(move |line| reported.lock().push(line.to_owned()));
        stray.report(b" \r");
        stray.report(b"\x1b[31mred");
        for _ in 0..100 {
            stray.report(&[b'a'; 2 * MAX_LINE_BYTES]);
        }
        let lines = lines.lock();
        assert_eq!((lines.len(), lines[0].as_str()), (MAX_LINES, "\\u{1b}[31mred"));
        assert!(lines[1..].iter().all(|line| line.len() == MAX_LINE_BYTES));
    }
}
