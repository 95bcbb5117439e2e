//! Cells of text as a table for a terminal, and as a Markdown table.

use std::fmt::Write;

/// Returns rows as text for a terminal. The first `left` columns are aligned left, all other columns right.
pub(super) fn text<const N: usize>(
    heads: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    left: usize,
) -> String {
    let table: Vec<_> = std::iter::once(heads.map(str::to_owned)).chain(rows).collect();
    let widths: Vec<usize> =
        (0..N).map(|column| table.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in table {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Ignores the results of `write!`, because writing to a string cannot fail.
            let _ = if column < left {
                write!(text, "{cell:<width$}  ")
            } else {
                write!(text, "{cell:>width$}  ")
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// Returns rows as a Markdown table.
pub(super) fn markdown<const N: usize>(
    heads: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut text = format!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(N));
    for row in rows {
        // Ignores the result, because writing to a string cannot fail.
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}
