//! Tests that `docs/errors.md` agrees with the code: every error code has a section, an existing test, and a row with
//! its recovery hints.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mgp_security::Unconfirmed;
use mgp_types::{ErrorCode, Recovery};
use serde_json::Value;

/// The page `docs/errors.md`.
pub(crate) struct Page {
    text: String,
}

pub(crate) struct Row {
    cells: Vec<String>,
    /// The text of the section about the code; empty for codes of JSON-RPC and MCP, which have no section.
    section: String,
}

impl Page {
    pub(crate) fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
        Self { text: fs::read_to_string(path).unwrap() }
    }

    /// Returns the row and the section of a code.
    #[track_caller]
    pub(crate) fn row(&self, code: ErrorCode) -> Row {
        let mut rows = self.rows().filter(|row| number(&row[0]) == code.0.to_string());
        let cells = rows.next().unwrap_or_else(|| panic!("docs/errors.md has no row for {code}"));
        assert!(rows.next().is_none(), "docs/errors.md has two rows for {code}");
        let heading = format!("\n### {code} {}\n", code.name().unwrap());
        let section = self.text.split_once(&heading).map_or("", |(_, rest)| rest);
        let section = section.split("\n## ").next().unwrap_or_default();
        let section = section.split("\n### ").next().unwrap_or_default().to_owned();
        Row { cells, section }
    }

    /// Returns the cells of all table rows that begin with a code.
    fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.text.lines().filter_map(|line| {
            let inner = line.strip_prefix('|')?.strip_suffix('|')?;
            let cells: Vec<_> = inner.split('|').map(|cell| cell.trim().to_owned()).collect();
            number(&cells[0]).parse::<i32>().is_ok().then_some(cells)
        })
    }
}

impl Row {
    /// Returns whether the section documents a member of the details.
    pub(crate) fn documents_detail(&self, name: &str) -> bool {
        let item = self.section.split("\n- **").find(|item| item.starts_with("Details**: "));
        item.is_some_and(|item| item.contains(&format!("`{name}`")))
    }
}

/// Returns the code in the first cell of a row, which may be a link to the section of the code.
fn number(cell: &str) -> &str {
    cell.trim_start_matches('[').split(']').next().unwrap_or_default()
}

/// Returns the names of the tests in this folder.
fn tests() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/errors");
    let mut names = BTreeSet::new();
    for file in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let mut is_test = false;
        for line in text.lines() {
            if let (true, Some(rest)) = (is_test, line.strip_prefix("async fn ")) {
                names.insert(rest.split('(').next().unwrap().to_owned());
            }
            is_test = line.starts_with("#[tokio::test");
        }
    }
    names
}

#[test]
fn every_code_has_its_row_and_its_test() {
    let (page, tests, mut documented) = (Page::read(), tests(), BTreeSet::new());
    for code in ErrorCode::KNOWN {
        let name = code.name().unwrap();
        let Row { cells, section } = page.row(*code);
        assert_eq!(cells[1], format!("`{name}`"), "{code}");
        let is_ours = code.category().is_some();
        if is_ours {
            let anchor = format!("[{code}](#{code}-{})", name.to_lowercase());
            assert_eq!(cells[0], anchor);
            for part in ["Raised by", "Details", "Plain MCP", "What to do"] {
                let line = format!("\n- **{part}**: ");
                assert!(section.contains(&line), "the section of {code} lacks `{part}`");
            }
        }
        let last = cells.last().unwrap();
        let named = last.trim_matches('`');
        let lower = name.to_lowercase();
        let expected = if is_ours {
            format!("code_{code}_{lower}")
        } else {
            format!("code_minus_{}_{lower}", -code.0)
        };
        assert_eq!(named, expected, "{code}");
        assert!(tests.contains(named), "docs/errors.md names `{named}`, and there is no such test");
        documented.insert(named.to_owned());
    }
    let untold: Vec<_> = tests
        .iter()
        .filter(|test| test.starts_with("code_") && !documented.contains(*test))
        .collect();
    assert!(untold.is_empty(), "docs/errors.md does not name {untold:?}");
}

#[test]
fn the_hints_of_every_row_are_those_of_the_code() {
    let page = Page::read();
    for code in ErrorCode::KNOWN {
        let Some(recovery) = Recovery::default_for(*code) else { continue };
        let recovery = serde_json::to_value(recovery).unwrap();
        let cells = page.row(*code).cells;
        let shown = |name: &str| match &recovery[name] {
            Value::Null => String::new(),
            Value::String(word) => word.clone(),
            Value::Bool(true) => "yes".to_owned(),
            Value::Bool(false) => "no".to_owned(),
            other => other.to_string(),
        };
        let names = ["category", "retryable", "retry_after_ms", "retry_strategy", "max_retries"];
        let expected: Vec<_> = names.into_iter().map(shown).collect();
        assert_eq!(cells[2..7], expected, "{code}");
    }
}

#[test]
fn every_reason_of_an_unconfirmed_call_is_on_the_page() {
    let page = Page::read();
    let (denied, full, invalid) = (
        page.row(ErrorCode::PERMISSION_DENIED),
        page.row(ErrorCode::RESOURCE_EXHAUSTED),
        page.row(ErrorCode::INVALID_TOOL_ARGS),
    );
    for (why, row) in [
        (Unconfirmed::NobodyToAsk, &denied),
        (Unconfirmed::Denied, &denied),
        (Unconfirmed::Deferred, &denied),
        (Unconfirmed::Closed, &denied),
        (Unconfirmed::Unanswered, &denied),
        (Unconfirmed::Expired, &denied),
        (Unconfirmed::Changed, &denied),
        (Unconfirmed::NewlyNeeded, &denied),
        (Unconfirmed::Used, &denied),
        (Unconfirmed::TooLong, &denied),
        (Unconfirmed::Unreadable, &invalid),
        (Unconfirmed::TooMany, &full),
        (Unconfirmed::Full, &full),
    ] {
        assert!(row.documents_detail(why.as_str()), "{why:?}");
    }
}

/// Returns the lines of code that name an error code, in all crates. Each line has the path of its file.
fn code_lines() -> Vec<(String, String)> {
    fn search(folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                search(&path, found);
            } else if !path.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                let lines = code.lines().map(str::trim);
                let lines = lines.filter(|line| line.contains("ErrorCode::"));
                let lines = lines.filter(|line| !line.starts_with("//"));
                found.extend(lines.map(|line| (path.display().to_string(), line.to_owned())));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for package in fs::read_dir(&root).unwrap() {
        let package = package.unwrap();
        if !package.file_name().to_string_lossy().starts_with("mgp-") {
            continue;
        }
        let nested = fs::read_dir(package.path()).unwrap().map(|folder| folder.unwrap().path());
        for source in nested.map(|folder| folder.join("src")).chain([package.path().join("src")]) {
            if source.is_dir() {
                search(&source, &mut found);
            }
        }
    }
    found
}

/// Returns the files in which the code raises an error code, as far as a text search finds them.
fn raised_in<'a>(name: &str, lines: &'a [(String, String)]) -> BTreeSet<&'a str> {
    let words = ["=> ", "= ", "(", "{ "].map(|before| format!("{before}ErrorCode::{name}"));
    let first = format!("ErrorCode::{name},");
    let raises = |line: &str| {
        line.starts_with(&first) || words.iter().any(|words| line.contains(words.as_str()))
    };
    lines.iter().filter(|(_, line)| raises(line)).map(|(file, _)| file.as_str()).collect()
}

#[test]
fn no_code_is_raised_that_the_page_calls_unused() {
    let (page, lines) = (Page::read(), code_lines());
    for code in ErrorCode::KNOWN {
        if page.row(*code).section.contains("- **Raised by**: nobody yet") {
            let found = raised_in(code.name().unwrap(), &lines);
            assert!(
                found.is_empty(),
                "{code} is raised; name the crate and the wire test in docs/errors.md: {found:?}"
            );
        }
    }
    // The search for codes must find at least two files, because the test would otherwise check nothing.
    let found = raised_in("TOOL_DISABLED", &lines);
    assert!(found.len() >= 2, "{found:?}");
}

#[test]
fn every_row_is_of_a_known_code() {
    let known: BTreeSet<_> = ErrorCode::KNOWN.iter().map(|code| code.0.to_string()).collect();
    for cells in Page::read().rows() {
        assert!(known.contains(number(&cells[0])), "{cells:?}");
    }
}
