//! `docs/methods.md` is complete: each method has its section, side, client call, golden and test.

use super::{Violation, source::Source};

/// What a cell says when a later issue fills it.
const OPEN: &str = "open";

/// Each row of each table has all its cells, and the goldens and tests it names exist.
pub(super) fn complete(
    table: &str,
    sources: &[Source],
    exists: &dyn Fn(&str) -> bool,
) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut heads: Vec<&str> = Vec::new();
    for (number, line) in table.lines().enumerate() {
        let Some(row) = line.trim().strip_prefix('|').and_then(|row| row.strip_suffix('|')) else {
            heads.clear();
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        if heads.is_empty() {
            heads = cells;
            continue;
        }
        if cells.iter().all(|cell| cell.trim_matches([':', '-']).is_empty()) {
            continue;
        }
        let mut refuse = |what: String| {
            found.push(Violation::new(format!("docs/methods.md:{}", number + 1), what));
        };
        if cells.len() != heads.len() {
            refuse(format!("{} cells, {} heads", cells.len(), heads.len()));
        }
        for (head, cell) in heads.iter().zip(cells) {
            if cell.is_empty() {
                refuse(format!("`{head}` is empty"));
            } else if cell.trim_matches('*') != OPEN {
                for name in cell.split('`').skip(1).step_by(2) {
                    let known = match head.to_lowercase() {
                        head if head.contains("golden") => golden(name, exists),
                        head if head.contains("test") => test(name, sources),
                        _ => true,
                    };
                    if !known {
                        refuse(format!("`{name}` does not exist"));
                    }
                }
            }
        }
    }
    found
}

/// Whether a golden file of this name exists.
fn golden(name: &str, exists: &dyn Fn(&str) -> bool) -> bool {
    exists(name)
        || exists(&format!("mgp-types/tests/golden/{name}"))
        || exists(&format!("mgp-types/tests/golden/{name}.json"))
}

/// Whether a test function or test file of this name exists.
fn test(name: &str, sources: &[Source]) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    let function = format!("fn {last}(");
    sources.iter().any(|source| source.path.ends_with(name) || source.code.contains(&function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(row: &str, count: usize) {
        let table = format!("| Method | Golden | Test |\n|---|---|---|\n{row}\n");
        let sources = [Source::new("mgp-types/tests/wire.rs", "fn rounds_trip() {}")];
        let found = complete(&table, &sources, &|path| path.ends_with("golden/a.json"));
        assert_eq!(found.len(), count, "{found:?}");
    }

    #[test]
    fn missing_cells_goldens_and_tests_are_refused() {
        check("| `x/y` | `a.json` | `rounds_trip` |", 0);
        check("| `x/y` | open | **open** |", 0);
        check("| `x/y` |  | `wire.rs` |", 1);
        check("| `x/y` | `b.json` | `rounds_trip` |", 1);
        check("| `x/y` | `a` | `wire::other` |", 1);
        check("| `x/y` | `a` |", 1);
    }
}
