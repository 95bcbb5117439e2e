//! What the demonstration says.
//!
//! Applies to: both.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::Seen;
use super::steps::Step;

/// Tells what happens, for people as it happens, for programs at the end.
pub(super) struct Teller {
    /// The steps, where a program listens.
    told: Option<Vec<Value>>,
    number: usize,
    color: bool,
}

impl Teller {
    pub(super) fn new(json: bool) -> Self {
        let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { told: json.then(Vec::new), number: 0, color }
    }

    pub(super) fn begin(&self, folder: &Path) {
        if self.told.is_none() {
            say(&format!(
                "Two servers run behind one kernel, whose state is in {}.\n\
                 An agent uses them, a person decides. Nothing leaves this machine.\n",
                folder.display()
            ));
        }
    }

    pub(super) fn step(&mut self, step: &Step, seen: Seen, took: Duration) {
        self.number += 1;
        if let Some(told) = &mut self.told {
            let (ok, what) = match seen {
                Ok(what) => (true, what),
                Err(what) => (false, what),
            };
            let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            told.push(json!({"step": step.title, "ok": ok, "seen": what, "ms": ms}));
            return;
        }
        let (sign, what) = match &seen {
            Ok(what) => (self.in_color("32", "✓"), what),
            Err(what) => (self.in_color("31", "✗"), what),
        };
        let title = self.in_color("1", step.title);
        say(&format!("{:>2} {sign} {title}", self.number));
        for line in step.why.lines().chain(what.lines()) {
            say(&format!("     {line}"));
        }
        say("");
    }

    pub(super) fn end(self, missed: usize) {
        let Some(told) = self.told else {
            if missed == 0 {
                say(
                    "Your own servers: `mgp import` takes over what your host has, `mgp connect HOST` puts the \
                     kernel before it.",
                );
            }
            return;
        };
        say(&json!({"steps": told, "ok": missed == 0}).to_string());
    }

    fn in_color(&self, code: &str, text: &str) -> String {
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Says a line; whoever does not listen any more is not told.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
