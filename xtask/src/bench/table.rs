//! The rows of `bench stdio` and `bench http`: figures of our server and of the compared servers, and bounds.

use super::{Effort, Transport, grid};
use crate::run::Program;
use serde_json::{Value, json};
use std::fs;

/// The kind of bound for our server's figure.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bound {
    /// The maximum of our figure.
    Figure(f64),
    /// The minimum of our figure.
    AtLeast(f64),
    /// The maximum of our figure as a multiple of the figure of rmcp (the peer).
    Ratio(f64),
    /// Two maxima of our figure: as a multiple of the figure of the server without a framework (`bare`), and as a
    /// multiple of that of rmcp (`peer`).
    Both { bare: f64, peer: f64 },
}

/// One figure of our server, and the same figure of the compared servers.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// The figure of our server on a current-thread runtime, to which the bound applies.
    pub(super) ours: f64,
    /// The median of our figures, if there were several rounds.
    pub(super) median: Option<f64>,
    pub(super) ours_multi: Option<f64>,
    /// The figure of rmcp, in the better of its two configurations.
    pub(super) peer: f64,
    pub(super) bare: Option<f64>,
    pub(super) bound: Bound,
}

impl Row {
    /// Returns the title of the row: its name and unit.
    pub(super) fn title(&self) -> String {
        format!("{} ({})", self.name, self.unit)
    }

    /// Returns our figure relative to the figure of rmcp.
    fn ratio(&self) -> f64 {
        self.ours / self.peer
    }

    /// Returns whether the figure misses its bound; NaN always misses it.
    pub(super) fn missed(&self) -> bool {
        let kept = match self.bound {
            Bound::Figure(most) => self.ours <= most,
            Bound::AtLeast(least) => self.ours >= least,
            Bound::Ratio(most) => self.ratio() <= most,
            Bound::Both { bare, peer } => {
                self.bare.is_some_and(|floor| self.ours <= bare * floor) && self.ratio() <= peer
            }
        };
        !kept
    }

    fn bound(&self) -> String {
        match self.bound {
            Bound::Figure(most) => format!("<= {}", figure(most)),
            Bound::AtLeast(least) => format!(">= {}", figure(least)),
            Bound::Ratio(most) => format!("<= {most:.2}x"),
            Bound::Both { bare, peer } => format!("<= {bare:.2}x bare, {peer:.2}x"),
        }
    }

    fn verdict(&self) -> &'static str {
        if self.missed() { "MISSED" } else { "ok" }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "row": self.name, "unit": self.unit, "ours": round(self.ours), "peer": round(self.peer),
            "ratio": round(self.ratio()), "bound": self.bound(), "pass": !self.missed(),
            "ours_median": self.median.map(round), "ours_multi": self.ours_multi.map(round),
            "bare": self.bare.map(round),
        })
    }

    /// Returns the cells of the row, as text.
    fn cells(&self) -> [String; 10] {
        let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), figure);
        [
            self.name.to_owned(),
            self.unit.to_owned(),
            figure(self.ours),
            optional(self.median),
            optional(self.ours_multi),
            figure(self.peer),
            optional(self.bare),
            format!("{:.2}x", self.ratio()),
            self.bound(),
            self.verdict().to_owned(),
        ]
    }
}

const HEADS: [&str; 10] =
    ["row", "unit", "ours", "median", "multi", "rmcp", "bare", "ratio", "bound", "verdict"];

pub(super) fn text(rows: &[Row]) -> String {
    // Align the first two columns as words, because all other columns are numbers.
    grid::text(HEADS, rows.iter().map(Row::cells), 2)
}

/// Returns the rows as a Markdown section, with the command and the machine that produced the figures.
pub(super) fn markdown(rows: &[Row], transport: Transport, effort: Effort, pinned: bool) -> String {
    let free = if pinned { "" } else { " --free" };
    let shared = if pinned {
        "Generator and server share one processor, so no call pays for waking an idle one."
    } else {
        "Generator and server run on separate processors, so each call may pay for waking an idle one."
    };
    let flag = effort.flag();
    let name = transport.name();
    format!(
        "{}\n\nMeasured by `cargo xtask bench {name}{flag}{free} --markdown FILE` on {}.\n{}{shared}\n\n{}",
        heading(transport),
        machine(),
        transport.about(),
        grid::markdown(HEADS, rows.iter().map(Row::cells)),
    )
}

/// Returns the heading of a transport's section in the Markdown file.
pub(super) fn heading(transport: Transport) -> String {
    format!("## {}", transport.name())
}

/// Returns the Markdown file `old` with a section added or replaced.
pub(super) fn page(old: &str, heading: &str, section: &str) -> String {
    let mut parts = vec!["# Benchmarks\n".to_owned()];
    let mut placed = false;
    for part in format!("\n{old}").split("\n## ").skip(1) {
        let part = format!("## {}", part.trim_end());
        if part.lines().next() == Some(heading) {
            parts.push(section.trim_end().to_owned() + "\n");
            placed = true;
        } else {
            parts.push(part + "\n");
        }
    }
    if !placed {
        parts.push(section.trim_end().to_owned() + "\n");
    }
    parts.join("\n")
}

/// Returns the processors of this machine and the version of the compiler.
pub(super) fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let names = cpus.lines().filter_map(|line| line.strip_prefix("model name"));
    let names: Vec<_> = names.map(|name| name.trim_start_matches(['\t', ' ', ':'])).collect();
    let compiler = Program::new("rustc").args(&["--version"]).output().unwrap_or_default();
    format!("{} x {}, {}", names.len(), names.first().unwrap_or(&"unknown"), compiler.trim())
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Formats a figure with two decimals. A figure of at least 100, or a whole number of at least 10, gets no decimals.
pub(super) fn figure(value: f64) -> String {
    if value >= 100.0 || (value.fract() == 0.0 && value >= 10.0) {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: f64, bound: Bound) -> Row {
        Row {
            name: "echo",
            unit: "us",
            ours,
            median: None,
            ours_multi: None,
            peer: 10.0,
            bare: None,
            bound,
        }
    }

    #[test]
    fn budgets_are_kept_or_missed() {
        assert!(!row(6.5, Bound::Ratio(0.65)).missed());
        assert!(row(6.6, Bound::Ratio(0.65)).missed());
        assert!(!row(20.0, Bound::Figure(20.0)).missed());
        assert!(row(f64::NAN, Bound::Figure(20.0)).missed());
    }

    #[test]
    fn minimum_and_maximum_bounds_differ() {
        assert!(row(99.0, Bound::AtLeast(100.0)).missed());
        assert!(!row(100.0, Bound::AtLeast(100.0)).missed());
        let both = Bound::Both { bare: 2.0, peer: 0.4 };
        let with = |ours, bare| Row { bare: Some(bare), ..row(ours, both) };
        assert!(!with(4.0, 2.0).missed());
        assert!(with(4.0, 1.9).missed() && with(4.1, 3.0).missed());
        assert!(row(1.0, both).missed());
    }

    #[test]
    fn a_section_takes_the_place_of_its_own() {
        let old = "# Benchmarks\n\n## stdio\n\nold\n\n## http\n\nkept\n";
        let page = page(old, "## stdio", "## stdio\n\nnew\n");
        assert_eq!(page, "# Benchmarks\n\n## stdio\n\nnew\n\n## http\n\nkept\n");
        let first = super::page("", "## http", "## http\n\nnew\n");
        assert_eq!(first, "# Benchmarks\n\n## http\n\nnew\n");
    }
}
