//! The counter that a command shows while it does several things.

use std::io::{self, IsTerminal as _, Write as _};

use super::{is_dumb, print_note};
use crate::args::Global;

/// A counter on standard error that shows how many of several things are done. Without a terminal, it prints only one
/// line at the beginning.
#[derive(Debug)]
pub(crate) struct Progress {
    label: &'static str,
    total: usize,
    done: usize,
    is_visible: bool,
}

impl Progress {
    pub(crate) fn new(global: &Global, label: &'static str, total: usize) -> Self {
        let is_terminal = io::stderr().is_terminal() && !is_dumb();
        if total > 0 && !is_terminal {
            print_note(global, &format!("{label}: {total}"));
        }
        let is_visible = total > 1 && !global.json && is_terminal;
        Self { label, total, done: 0, is_visible }
    }

    pub(crate) fn step(&mut self) {
        self.done += 1;
        if self.is_visible {
            let _ = write!(io::stderr(), "\r\u{1b}[K{} {}/{}", self.label, self.done, self.total);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_visible {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}
