//! Prints the progress and the result of `mgp demo`.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::steps::{Step, StepResult};
use crate::output::{has_color, print_json_line};

/// A printer of the demo's steps: as text while they run, or as one JSON document at the end.
pub(super) struct Printer {
    /// The finished steps with `--json`; `None` if steps are printed as text.
    steps: Option<Vec<Value>>,
    number: usize,
    color: bool,
}

impl Printer {
    pub(super) fn new(json: bool) -> Self {
        Self { steps: json.then(Vec::new), number: 0, color: has_color() }
    }

    pub(super) fn begin(&self, folder: &Path) {
        if self.steps.is_none() {
            print_line(&format!(
                "Two servers run behind one kernel, whose state is in {}.\n\
                 An agent uses them, and a person decides. Nothing leaves this machine.\n",
                folder.display()
            ));
        }
    }

    pub(super) fn step(&mut self, step: &Step, result: StepResult, took: Duration) {
        self.number += 1;
        if let Some(steps) = &mut self.steps {
            let (ok, what) = match result {
                Ok(what) => (true, what),
                Err(what) => (false, what),
            };
            let ms = mgp_types::millis(took);
            steps.push(json!({"step": step.title, "ok": ok, "seen": what, "ms": ms}));
            return;
        }
        let (sign, what) = match &result {
            Ok(what) => (self.paint("32", "✓"), what),
            Err(what) => (self.paint("31", "✗"), what),
        };
        let title = self.paint("1", step.title);
        print_line(&format!("{:>2} {sign} {title}", self.number));
        for line in step.why.lines().chain(what.lines()) {
            print_line(&format!("     {line}"));
        }
        print_line("");
    }

    pub(super) fn end(self, failed: usize) {
        let Some(steps) = self.steps else {
            if failed == 0 {
                print_line(
                    "With your own servers: `mgp setup` puts the kernel between your hosts and their servers, and `mgp undo` takes that back.",
                );
            }
            return;
        };
        // Ignore an error: printing fails only if the reader has closed standard output.
        let _ = print_json_line(&json!({"steps": steps, "ok": failed == 0}));
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Prints a line, and ignores an error if the reader has closed standard output.
fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
