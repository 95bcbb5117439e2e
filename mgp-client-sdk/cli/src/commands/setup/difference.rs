//! The lines by which two texts of a file differ, without secrets.

use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use crate::output::{Cell, Color, Output};

/// The maximum number of lines that are shown for one file.
const MAX_LINES: usize = 60;

/// The length of the shortest value that is hidden; hiding shorter ones, such as `1`, would hide parts of words.
const MIN_SECRET: usize = 4;

/// The lines that are removed and added, with a few lines around them; each starts with `-`, `+` or a space.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Difference(Vec<String>);

impl Difference {
    /// Compares two texts; `secrets` are shown as `•••`.
    pub(super) fn new(before: &str, after: &str, secrets: &[&str]) -> Self {
        let (before, after) = (hide(before, secrets), hide(after, secrets));
        let compared = TextDiff::from_lines(&before, &after);
        let mut lines = Vec::new();
        for hunk in compared.unified_diff().context_radius(1).iter_hunks() {
            for change in hunk.iter_changes() {
                let mark = match change.tag() {
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                    ChangeTag::Equal => ' ',
                };
                lines.push(format!("{mark} {}", change.value().trim_end()));
            }
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
            out.line(format!(
                "      and {more} lines more; `mgp setup --dry-run --json` shows all"
            ));
        }
    }
}

fn hide(text: &str, secrets: &[&str]) -> String {
    let mut text = text.to_owned();
    let shown = |secret: &str| secret.len() < MIN_SECRET || secret.starts_with("${");
    for secret in secrets.iter().filter(|secret| !shown(secret)) {
        // In the file the value is a quoted string, in which some characters are escaped.
        let quoted = serde_json::Value::from(*secret).to_string();
        text = text.replace(&quoted[1..quoted.len() - 1], "•••");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_shown_without_secrets() {
        let before =
            "{\n \"a\": 1,\n \"b\": \"s3\\\"cret\",\n \"c\": 3,\n \"d\": 4,\n \"e\": 5\n}\n";
        let after = "{\n \"a\": 1,\n \"c\": 3,\n \"d\": 4,\n \"e\": 6\n}\n";
        let difference = Difference::new(before, after, &["s3\"cret", "1"]);
        assert_eq!(
            difference.0,
            [
                "   \"a\": 1,",
                "-  \"b\": \"•••\",",
                "   \"c\": 3,",
                "   \"d\": 4,",
                "-  \"e\": 5",
                "+  \"e\": 6",
                "  }"
            ]
        );
        assert!(Difference::new(before, before, &[]).is_empty());
    }
}
