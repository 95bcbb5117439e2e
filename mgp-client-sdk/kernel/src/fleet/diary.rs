//! What is kept of a server for whoever looks after it: since when it is as it is, why, and the end of its stderr.
//!
//! Applies to: outbound.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mgp_types::Timestamp;
use mgp_types::mgp::{KernelLogLine, ServerState};

/// How many lines are kept; the oldest go first.
const LINES: usize = 500;

/// How many bytes they may have.
const BYTES: usize = 64 * 1024;

/// The diary of one server; it outlives its processes.
#[derive(Default)]
pub(crate) struct Diary(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    lines: VecDeque<KernelLogLine>,
    bytes: usize,
    since: Option<Timestamp>,
    error: Option<String>,
}

impl Diary {
    /// Keeps a line of stderr.
    pub(super) fn line(&self, text: &str) {
        let mut pages = self.pages();
        let end = text.floor_char_boundary(text.len().min(BYTES));
        pages.lines.push_back(KernelLogLine::new(Timestamp::now(), text[..end].to_owned()));
        pages.bytes += end;
        while pages.lines.len() > LINES || pages.bytes > BYTES {
            let Some(gone) = pages.lines.pop_front() else { break };
            pages.bytes -= gone.text.len();
        }
    }

    /// Keeps that the server entered a state, and why.
    pub(super) fn entered(&self, state: &ServerState, why: Option<&str>) {
        let mut pages = self.pages();
        pages.since = Some(Timestamp::now());
        match state {
            ServerState::Connected => pages.error = None,
            ServerState::Error | ServerState::Restarting => pages.error = why.map(str::to_owned),
            _ => {}
        }
    }

    /// The last lines, the oldest first.
    pub(crate) fn lines(&self, most: usize) -> Vec<KernelLogLine> {
        let pages = self.pages();
        pages.lines.iter().skip(pages.lines.len().saturating_sub(most)).cloned().collect()
    }

    /// Since when it is as it is, and why it is not there.
    pub(crate) fn standing(&self) -> (Option<Timestamp>, Option<String>) {
        let pages = self.pages();
        (pages.since.clone(), pages.error.clone())
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_the_bounds_hold() {
        let diary = Diary::default();
        for number in 0..600 {
            diary.line(&format!("line {number}"));
        }
        let lines = diary.lines(usize::MAX);
        assert_eq!((lines.len(), lines[0].text.as_str()), (500, "line 100"));
        assert_eq!(diary.lines(2)[0].text, "line 598");

        diary.line(&"ä".repeat(BYTES));
        assert_eq!(diary.lines(9).len(), 1, "a long line takes the place of all others");
        assert!(diary.lines(9)[0].text.len() <= BYTES);
    }

    #[test]
    fn an_error_lasts_until_the_server_is_there() {
        let diary = Diary::default();
        diary.entered(&ServerState::Restarting, Some("it ended with code 1"));
        diary.entered(&ServerState::Connecting, None);
        assert_eq!(diary.standing().1.as_deref(), Some("it ended with code 1"));
        diary.entered(&ServerState::Connected, None);
        assert_eq!(diary.standing().1, None);
    }
}
