//! The rule of `tidy` about benchmark figures: the figures in README.md must be equal to the figures in
//! docs/benchmarks.md.

use super::Violation;

/// The columns of the table of figures in README.md.
const COLUMNS: [&str; 5] = ["row", "unit", "ours", "other", "ratio"];

/// Refuses rows of the table in README.md whose figures docs/benchmarks.md does not contain.
pub(super) fn agree(readme: Option<&str>, benchmarks: Option<&str>) -> Vec<Violation> {
    let (readme, benchmarks) = (readme.unwrap_or_default(), benchmarks.unwrap_or_default());
    let mut found = Vec::new();
    let mut has_rows = false;
    for row in rows(readme).filter(|row| row.columns == COLUMNS) {
        has_rows = true;
        if let Err(what) = compare(&row, benchmarks) {
            let place = format!("README.md:{}", row.line);
            found.push(Violation::new(place, format!("`{}`: {what}", row.cells[0])));
        }
    }
    if !has_rows {
        let what = format!("has no table of figures with the columns {}", COLUMNS.join(", "));
        found.push(Violation::new("README.md", what));
    }
    found
}

struct Row<'a> {
    /// The line number of the row in its file.
    line: usize,
    columns: Vec<&'a str>,
    cells: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn get(&self, column: &str) -> Option<&'a str> {
        let at = self.columns.iter().position(|name| *name == column)?;
        self.cells.get(at).copied()
    }
}

/// Returns the rows of all tables in a Markdown text.
fn rows(text: &str) -> impl Iterator<Item = Row<'_>> {
    let mut columns: Vec<&str> = Vec::new();
    text.lines().enumerate().filter_map(move |(at, line)| {
        let Some(inside) = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|'))
        else {
            columns.clear();
            return None;
        };
        let cells: Vec<&str> = inside.split('|').map(str::trim).collect();
        if columns.is_empty() {
            columns = cells;
            return None;
        }
        let is_rule = cells.iter().all(|cell| cell.chars().all(|c| c == '-' || c == ':'));
        (!is_rule).then(|| Row { line: at + 1, columns: columns.clone(), cells })
    })
}

/// Compares a row of README.md with the row of the same name and unit in docs/benchmarks.md.
fn compare(row: &Row<'_>, benchmarks: &str) -> Result<(), String> {
    let same = |source: &Row<'_>| {
        source.get("row") == row.get("row") && source.get("unit") == row.get("unit")
    };
    let source = rows(benchmarks).find(same);
    let source = source.ok_or("docs/benchmarks.md has no row of this name and unit")?;
    let check = |name: &str, ours: Option<&str>, theirs: Option<&str>| {
        if ours == theirs {
            return Ok(());
        }
        let shown = |cell: Option<&str>| cell.unwrap_or("nothing").to_owned();
        Err(format!("{name} is {} here, {} in docs/benchmarks.md", shown(ours), shown(theirs)))
    };
    let ours = row.get("ours");
    check("`ours`", ours, source.get("ours").or(source.get("measured")))?;
    let other = row.get("other").and_then(|other| other.rsplit_once(' '));
    let (name, figure) = other.ok_or("`other` is not a name and a figure")?;
    // If docs/benchmarks.md has no column for this figure, look in its column `beside`.
    let beside = || source.get("beside")?.split(", ").find_map(|part| part.strip_prefix(name));
    let theirs = source.get(name).or_else(|| beside().map(str::trim));
    check("`other`", Some(figure), theirs)?;
    let quotient = || {
        let ours: f64 = ours?.parse().ok()?;
        Some(format!("{:.2}x", ours / figure.parse::<f64>().ok()?))
    };
    let ratio = source.get("ratio").map(str::to_owned).or_else(quotient);
    check("`ratio`", row.get("ratio"), ratio.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BENCHMARKS: &str = "\
| row | unit | ours | rmcp | ratio |
|---|---|---|---|---|
| echo | us | 4.23 | 7.51 | 0.56x |

| row | unit | measured | beside |
|---|---|---|---|
| HTTP | instructions | 300 | bare 7, floor 200 |
";

    #[track_caller]
    fn check(row: &str, expected: Option<&str>) {
        let readme =
            format!("| row | unit | ours | other | ratio |\n|---|---|---|---|---|\n{row}\n");
        let found = agree(Some(&readme), Some(BENCHMARKS));
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.first().map(String::as_str), expected);
    }

    #[test]
    fn another_figure_is_refused() {
        check(
            "| echo | us | 4.00 | rmcp 7.51 | 0.56x |",
            Some("README.md:3: `echo`: `ours` is 4.00 here, 4.23 in docs/benchmarks.md"),
        );
        check(
            "| echo | us | 4.23 | rmcp 8.51 | 0.56x |",
            Some("README.md:3: `echo`: `other` is 8.51 here, 7.51 in docs/benchmarks.md"),
        );
        check(
            "| echo | us | 4.23 | rmcp 7.51 | 0.50x |",
            Some("README.md:3: `echo`: `ratio` is 0.50x here, 0.56x in docs/benchmarks.md"),
        );
        check(
            "| HTTP | instructions | 300 | floor 200 | 1.40x |",
            Some("README.md:3: `HTTP`: `ratio` is 1.40x here, 1.50x in docs/benchmarks.md"),
        );
    }

    #[test]
    fn a_row_that_was_not_measured_is_refused() {
        let missing = "docs/benchmarks.md has no row of this name and unit";
        check(
            "| ping | us | 1 | rmcp 2 | 0.50x |",
            Some(&format!("README.md:3: `ping`: {missing}")),
        );
        check(
            "| echo | ms | 4.23 | rmcp 7.51 | 0.56x |",
            Some(&format!("README.md:3: `echo`: {missing}")),
        );
        assert_eq!(agree(Some("# No table\n"), Some(BENCHMARKS)).len(), 1);
    }
}
