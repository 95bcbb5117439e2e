//! Tables of search scores: a row for each labelled set, and their mean.

use super::score::{COLUMNS, Scores};
use std::fmt::Write;

/// The scores of all sets for one strategy and embedder.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) rows: Vec<(&'static str, Scores)>,
}

impl Table {
    pub(super) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), rows: Vec::new() }
    }

    /// Returns the mean over the sets. Each set has the same weight, whatever its size.
    pub(super) fn macro_mean(&self) -> Scores {
        Scores::mean(self.rows.iter().map(|(_, scores)| *scores))
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{:32}", self.title);
        // Ignores the results of `write!`, because writing to a string cannot fail.
        for head in COLUMNS {
            let _ = write!(text, "{head:>9}");
        }
        let mean = ("macro", self.macro_mean());
        for (name, scores) in self.rows.iter().chain([&mean]) {
            let _ = write!(text, "\n{name:32}");
            for score in scores.0 {
                let _ = write!(text, "{score:>9.4}");
            }
        }
        text.push('\n');
        text
    }
}
