//! The servers that differ between two texts of a host's file.

use serde::Serialize;

use crate::output::{Cell, Color, Output, plural};

/// The maximum number of lines to show for one file.
const MAX_LINES: usize = 60;

/// The servers that are removed and added, one a line; each line starts with `-` or `+`.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Difference(Vec<String>);

impl Difference {
    /// Compares the servers of a file before and after a change, given as lines without secrets. `is_change` is `true`
    /// if the text of the file changes, even if its servers do not.
    pub(super) fn new(before: &[String], after: &[String], is_change: bool) -> Self {
        let marked = |mark: char, lines: &[String], others: &[String]| -> Vec<String> {
            let own = lines.iter().filter(|line| !others.contains(line));
            own.map(|line| format!("{mark} {line}")).collect()
        };
        let mut lines = marked('-', before, after);
        lines.extend(marked('+', after, before));
        if lines.is_empty() && is_change {
            lines.push("+ the same servers, written in another way".to_owned());
        }
        Self(lines)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn render(&self, out: &mut Output) {
        for line in self.0.iter().take(MAX_LINES) {
            let (mark, text) = line.split_at(1);
            let color = match mark {
                "-" => Color::Red,
                "+" => Color::Green,
                _ => Color::Dim,
            };
            out.status_line(&Cell::from(format!("    {mark}")).color(color), &text[1..]);
        }
        if let Some(more) = self.0.len().checked_sub(MAX_LINES).filter(|more| *more > 0) {
            let more = plural(more, "line");
            out.line(format!("      and {more} more; `mgp setup --dry-run --json` shows all"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_servers_are_shown() {
        let lines = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let (before, after) = (lines(&["a", "b", "c"]), lines(&["a", "d"]));
        assert_eq!(Difference::new(&before, &after, true).0, ["- b", "- c", "+ d"]);
        assert!(Difference::new(&before, &before, false).is_empty());
        assert!(!Difference::new(&before, &before, true).is_empty());
    }
}
