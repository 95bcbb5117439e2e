//! The rules of `tidy` about files: names, lengths of files and functions, header comments, and the contents of
//! `lib.rs`.

use super::{
    Violation,
    exports::visibility,
    source::{Source, closing},
};

/// The maximum number of lines of a source file.
const MAX_LINES: usize = 600;

/// The maximum number of lines of a function, from `fn` to its closing brace.
const MAX_FUNCTION_LINES: usize = 60;

/// Names of files and folders that do not describe their contents.
const EMPTY_NAMES: &[&str] = &["util", "utils", "helper", "helpers", "common", "misc"];

/// Refuses a file with too many lines; tests count too.
pub(super) fn length(source: &Source) -> Option<Violation> {
    let lines = source.text.lines().count();
    (lines > MAX_LINES).then(|| {
        Violation::new(&source.path, format!("has {lines} lines; {MAX_LINES} are allowed"))
    })
}

/// Refuses functions with too many lines, except in tests.
pub(super) fn function_length(source: &Source) -> Vec<Violation> {
    let code = &source.code;
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let word = code[..at].chars().next_back().is_none_or(|c| !c.is_ascii_alphanumeric());
        let name = code[at + 3..].split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
        let Some(name) = name.filter(|name| word && !name.is_empty()) else { continue };
        let Some(end) = body(code, at).and_then(|open| closing(code, open)) else { continue };
        let lines = source.line(end) - source.line(at) + 1;
        if lines > MAX_FUNCTION_LINES && !source.is_test(at) {
            let what = format!("`{name}` has {lines} lines; {MAX_FUNCTION_LINES} are allowed");
            found.push(Violation::at(source, at, what));
        }
    }
    found
}

/// Returns the position of the opening brace of a function's body; `None` for a declaration without a body.
fn body(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, byte) in code.as_bytes()[start..].iter().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.checked_sub(1)?,
            b';' if depth == 0 => return None,
            b'{' if depth == 0 => return Some(start + offset),
            _ => {}
        }
    }
    None
}

/// Refuses file and folder names that do not describe the contents.
pub(super) fn name(source: &Source) -> Option<Violation> {
    let path = source.path.strip_suffix(".rs").unwrap_or(&source.path);
    let name = path.split('/').find(|part| EMPTY_NAMES.contains(part))?;
    Some(Violation::new(&source.path, format!("`{name}` does not describe the contents")))
}

/// Refuses a file that does not begin with a `//!` comment.
pub(super) fn header(source: &Source) -> Option<Violation> {
    let first = source.text.lines().next().unwrap_or_default();
    let described = first.strip_prefix("//! ").is_some_and(|line| !line.trim().is_empty());
    (!described)
        .then(|| Violation::new(&source.path, "does not begin with `//! ` and a description"))
}

/// Refuses items in `lib.rs` other than docs, modules, re-exports and macros.
pub(super) fn lib_without_logic(source: &Source) -> Vec<Violation> {
    let is_lib = source.path.ends_with("src/lib.rs");
    if is_lib { items_with_logic(source, 0, source.code.len()) } else { Vec::new() }
}

/// Returns a violation for each item between two positions that is not a module, a `use` statement or a macro.
fn items_with_logic(source: &Source, mut at: usize, end: usize) -> Vec<Violation> {
    let code = &source.code[..end];
    let mut found = Vec::new();
    // Allows the entry points of a macro crate, which the compiler requires in the crate's root.
    let mut is_entry = false;
    while let Some(start) = code[at..].find(|c: char| !c.is_whitespace()).map(|skip| at + skip) {
        let rest = &code[start..];
        if rest.starts_with('#') {
            at = rest.find('[').and_then(|open| closing(code, start + open)).map_or(end, |e| e + 1);
            is_entry |= code[start..at].contains("[proc_macro");
            continue;
        }
        let word = visibility(rest).1;
        let stop = rest.find([';', '{']).map_or(end, |offset| start + offset);
        let block = code[stop..].starts_with('{').then(|| closing(code, stop).unwrap_or(end));
        let after_block = block.map_or(stop + 1, |close| close + 1).min(end);
        if word.starts_with("use ") || word.starts_with("extern crate ") {
            at = rest.find(';').map_or(end, |offset| start + offset + 1);
            continue;
        } else if word.starts_with("mod ") {
            if let Some(close) = block.filter(|_| !source.is_test(start)) {
                found.extend(items_with_logic(source, stop + 1, close));
            }
        } else if !is_macro(word) && !std::mem::take(&mut is_entry) {
            found.push(Violation::at(source, start, "`lib.rs` holds no logic; give it a module"));
        }
        at = after_block;
    }
    found
}

/// Returns whether an item is a macro or a macro call, or the `;` after one.
fn is_macro(item: &str) -> bool {
    let name = item.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_:".contains(c));
    name.starts_with(['!', ';'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lib(text: &str) -> usize {
        lib_without_logic(&Source::new("a/src/lib.rs", text)).len()
    }

    #[test]
    fn a_long_file_is_refused() {
        let long = Source::new("a/src/b.rs", "//! B.\n".repeat(MAX_LINES + 1));
        assert!(length(&long).is_some());
        assert!(length(&Source::new("a/src/b.rs", "//! B.\n".repeat(MAX_LINES))).is_none());
    }

    #[test]
    fn a_long_function_is_refused() {
        let count = |lines: usize, head: &str| {
            let text = format!("{head} {{\n{}}}\n", "    a();\n".repeat(lines - 2));
            function_length(&Source::new("a/src/b.rs", text)).len()
        };
        let head = "fn a(b: [u8; 3]) -> [u8; 3]";
        assert_eq!(count(MAX_FUNCTION_LINES, head), 0);
        assert_eq!(count(MAX_FUNCTION_LINES + 1, head), 1);
        assert_eq!(count(MAX_FUNCTION_LINES + 1, "#[cfg(test)]\nfn a()"), 0);
        assert_eq!(count(MAX_FUNCTION_LINES + 1, "fn a();\nstruct B"), 0);
    }

    #[test]
    fn an_empty_name_is_refused() {
        assert!(name(&Source::new("a/src/utils.rs", "")).is_some());
        assert!(name(&Source::new("a/tests/common/mod.rs", "")).is_some());
        assert!(name(&Source::new("a/src/commonality.rs", "")).is_none());
    }

    #[test]
    fn a_file_without_a_header_is_refused() {
        assert!(header(&Source::new("b.rs", "use a::b;\n")).is_some());
        assert!(header(&Source::new("b.rs", "//!\n//! B.\n")).is_some());
        assert!(header(&Source::new("b.rs", "//! B.\n")).is_none());
    }

    #[test]
    fn logic_in_lib_is_refused() {
        assert_eq!(lib("//! A.\npub struct B;\n"), 1);
        assert_eq!(lib("//! A.\nmod b;\nfn c() { 1 }\nconst D: u8 = 1;\n"), 2);
        assert_eq!(lib("//! A.\npub mod prelude { pub fn c() {} }\n"), 1);
    }
}
