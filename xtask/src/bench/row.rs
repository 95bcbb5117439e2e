//! The rows of `bench kernel` and `bench toolindex`: a figure, its bound, and further figures.

use super::{grid, table};
use crate::accept::Verdict;
use serde_json::{Map, Value, json};

/// One measured figure with its bound.
#[derive(Debug, Clone)]
pub(super) struct Row {
    name: String,
    unit: &'static str,
    /// The figure; `None` means that the measurement failed, which counts as missing the bound.
    measured: Option<f64>,
    /// The upper bound of the figure; `None` if it has none.
    most: Option<f64>,
    beside: Vec<(&'static str, f64)>,
}

impl Row {
    pub(super) fn new(
        name: impl Into<String>,
        unit: &'static str,
        measured: Option<f64>,
        most: Option<f64>,
    ) -> Self {
        Self { name: name.into(), unit, measured, most, beside: Vec::new() }
    }

    /// Adds a further figure, which is shown next to the measured figure.
    pub(super) fn beside(mut self, what: &'static str, figure: Option<f64>) -> Self {
        self.beside.extend(figure.map(|figure| (what, figure)));
        self
    }

    pub(super) fn is_memory(&self) -> bool {
        matches!(self.unit, "KiB" | "MiB")
    }

    /// Returns the title of the row: its name and unit.
    fn title(&self) -> String {
        format!("{} ({})", self.name, self.unit)
    }

    /// Returns whether the bound is missed.
    fn missed(&self) -> bool {
        match (self.measured, self.most) {
            (Some(measured), Some(most)) => measured.is_nan() || measured > most,
            (measured, None) => measured.is_none(),
            (None, Some(_)) => true,
        }
    }

    pub(super) fn json(&self) -> Value {
        let beside: Map<_, _> =
            self.beside.iter().map(|(what, figure)| ((*what).to_owned(), json!(figure))).collect();
        json!({
            "row": self.name, "unit": self.unit, "measured": self.measured, "bound": self.most,
            "pass": !self.missed(), "beside": beside,
        })
    }

    fn cells(&self) -> [String; 6] {
        let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), table::figure);
        let beside =
            self.beside.iter().map(|(what, figure)| format!("{what} {}", table::figure(*figure)));
        [
            self.name.clone(),
            self.unit.to_owned(),
            optional(self.measured),
            self.most.map_or_else(|| "-".to_owned(), |most| format!("<= {}", table::figure(most))),
            match (self.missed(), self.most) {
                (true, _) => "MISSED".to_owned(),
                (false, Some(_)) => "ok".to_owned(),
                (false, None) => "-".to_owned(),
            },
            beside.collect::<Vec<_>>().join(", "),
        ]
    }
}

const HEADS: [&str; 6] = ["row", "unit", "measured", "bound", "verdict", "beside"];

/// Prints the rows, and returns a verdict with the number of met bounds and the names of the rows that miss their
/// bounds.
pub(super) fn verdict(rows: &[Row]) -> Verdict {
    print!("{}", text(rows));
    let missed = missed(rows);
    let kept = format!("{} of {} bounds kept", rows.len() - missed.len(), rows.len());
    let figure =
        if missed.is_empty() { kept } else { format!("{kept}; not {}", missed.join(", ")) };
    Verdict { pass: missed.is_empty(), figure, bound: "all".to_owned() }
}

/// Returns the titles of the rows that miss their bounds.
pub(super) fn missed(rows: &[Row]) -> Vec<String> {
    rows.iter().filter(|row| row.missed()).map(Row::title).collect()
}

pub(super) fn text(rows: &[Row]) -> String {
    grid::text(HEADS, rows.iter().map(Row::cells), HEADS.len())
}

pub(super) fn markdown(rows: &[Row]) -> String {
    grid::markdown(HEADS, rows.iter().map(Row::cells))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(measured: Option<f64>, most: Option<f64>) -> Row {
        Row::new("search", "ms", measured, most).beside("p50", Some(0.25))
    }

    #[test]
    fn bounds_are_kept_or_missed() {
        assert!(!row(Some(0.5), Some(0.5)).missed());
        assert!(row(Some(0.51), Some(0.5)).missed());
        assert!(row(None, Some(0.5)).missed() && row(Some(f64::NAN), Some(0.5)).missed());
        assert!(!row(Some(9.0), None).missed() && row(None, None).missed());
    }
}
