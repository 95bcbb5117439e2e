//! A Rust file, prepared for the rules of `tidy`: code, string literals and comments are separated.
//!
//! This is a small lexer, not a parser: it recognises comments, strings, raw strings, character literals and lifetimes.

use std::ops::Range;

#[derive(Debug)]
pub(crate) struct Source {
    /// The path relative to the workspace root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text with comments and the contents of literals replaced by spaces; it has the same length and the same
    /// lines.
    pub(crate) code: String,
    /// The position of the contents of each string literal in the text.
    pub(crate) strings: Vec<Range<usize>>,
    /// The positions of the comments, including `//` and the like.
    pub(crate) comments: Vec<Range<usize>>,
    /// The positions of the items under `#[cfg(test)]`.
    tests: Vec<Range<usize>>,
    /// The position of the first byte of each line.
    lines: Vec<usize>,
}

impl Source {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let Blanked { code, strings, comments } = blank(&text);
        let tests = test_items(&code);
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
        let lines = lines.collect();
        Self { path, text, code, strings, comments, tests, lines }
    }

    /// Returns the number of the line that contains the byte at `at`, counted from one.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// Returns whether the byte at `at` belongs to a test, an example, a benchmark, a fuzz target or a build script.
    pub(crate) fn is_test(&self, at: usize) -> bool {
        let file = self.path.split('/').any(|part| {
            matches!(part, "tests" | "tests.rs" | "examples" | "benches" | "fuzz" | "build.rs")
        });
        file || self.tests.iter().any(|range| range.contains(&at))
    }

    /// Returns the positions and contents of all attributes (`#[…]`, `#![…]`), with literals blanked as in
    /// [`Self::code`].
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (usize, &str)> {
        let starts = self.code.match_indices('#').map(|(at, _)| at);
        starts.filter_map(|at| {
            let open = at + 1 + usize::from(self.code[at + 1..].starts_with('!'));
            let open = open + self.code[open..].len() - self.code[open..].trim_start().len();
            let end = closing(&self.code, open).filter(|_| self.code[open..].starts_with('['))?;
            Some((at, &self.code[open + 1..end]))
        })
    }
}

/// Returns the position of the bracket that closes the one at `open`.
pub(crate) fn closing(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, byte) in code.as_bytes()[open..].iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(open + offset);
                }
            }
            _ => {}
        }
    }
    None
}

/// A text in which comments and literals are replaced by spaces, and the positions of the string literals and comments.
struct Blanked {
    code: String,
    strings: Vec<Range<usize>>,
    comments: Vec<Range<usize>>,
}

/// Replaces comments and the contents of literals by spaces.
fn blank(text: &str) -> Blanked {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let (mut strings, mut comments) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = if rest.starts_with(b"//") {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            erase(&mut code[at..at + end]);
            comments.push(at..at + end);
            at + end
        } else if rest.starts_with(b"/*") {
            let end = at + comment_length(rest);
            erase(&mut code[at..end]);
            comments.push(at..end);
            end
        } else if let Some((inside, end)) = string(bytes, at) {
            erase(&mut code[inside.clone()]);
            strings.push(inside);
            end
        } else if rest[0] == b'\'' {
            let length = character_length(rest);
            if length > 1 {
                erase(&mut code[at..at + length]);
            }
            at + length
        } else if rest[0].is_ascii_alphanumeric() || rest[0] == b'_' {
            // Skip a whole word, so that the `r` in `for"` does not start a raw string.
            at + rest.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_').unwrap_or(1)
        } else {
            at + 1
        };
        at = end.max(at + 1);
    }
    // Only whole literals and comments were replaced, so the text is still valid UTF-8.
    let code = String::from_utf8_lossy(&code).into_owned();
    Blanked { code, strings, comments }
}

/// Replaces all bytes except line ends by spaces.
fn erase(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

/// Returns the length of a block comment; block comments can be nested.
fn comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Returns the position of the contents and the end of the string literal that starts at `at`, if any.
fn string(bytes: &[u8], at: usize) -> Option<(Range<usize>, usize)> {
    let rest = &bytes[at..];
    let prefix = rest.iter().take(2).take_while(|b| matches!(b, b'b' | b'r' | b'c')).count();
    let raw = rest[..prefix].contains(&b'r');
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') || (hashes > 0 && !raw) {
        return None;
    }
    let start = at + prefix + hashes + 1;
    let mut end = start;
    while end < bytes.len() {
        if bytes[end] == b'\\' && !raw {
            end += 2;
        } else if bytes[end] == b'"'
            && bytes[end + 1..].iter().take_while(|byte| **byte == b'#').count() >= hashes
        {
            return Some((start..end, end + 1 + hashes));
        } else {
            end += 1;
        }
    }
    Some((start..bytes.len(), bytes.len()))
}

/// Returns the length of a character literal; 1 for a lifetime, so that only its `'` is skipped.
fn character_length(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return rest.iter().skip(3).position(|byte| *byte == b'\'').map_or(1, |at| at + 4);
    }
    // Look for the closing quotation mark only in the next bytes, because a character has at most four bytes in UTF-8.
    match rest.iter().take(6).skip(2).position(|byte| *byte == b'\'') {
        Some(0) => 3,
        Some(at) if rest[1] >= 0x80 => at + 3,
        _ => 1,
    }
}

/// Returns the positions of the items under `#[cfg(test)]`.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut items = Vec::new();
    for (at, _) in code.match_indices("#[cfg(test)]") {
        let end = code[at..].find(['{', ';']).map_or(code.len(), |offset| {
            let stop = at + offset;
            if code[stop..].starts_with('{') {
                closing(code, stop).unwrap_or(code.len())
            } else {
                stop
            }
        });
        items.push(at..end);
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, code: &str, strings: &[&str]) {
        let source = Source::new("a/src/b.rs", text);
        assert_eq!(source.code, code);
        let found: Vec<_> = source.strings.iter().map(|range| &text[range.clone()]).collect();
        assert_eq!(found, strings);
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        check("a // b\nc", "a     \nc", &[]);
        check("a /* /* */ b */ c", "a               c", &[]);
        check(r#"f("x\"y", 'a', '\'', &'b c)"#, r#"f("    ",    ,     , &'b c)"#, &[r#"x\"y"#]);
        check(r##"r#"a"b"# c"##, r##"r#"   "# c"##, &[r#"a"b"#]);
        check("b\"x\" 'ü' z", "b\" \"      z", &["x"]);
        check("for_r\"q\"", "for_r\" \"", &["q"]);
    }

    #[test]
    fn test_items_are_known() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\nfn c() {}";
        let source = Source::new("a/src/b.rs", text);
        assert!(!source.is_test(text.find("fn a").unwrap()));
        assert!(source.is_test(text.find("fn b").unwrap()));
        assert!(!source.is_test(text.find("fn c").unwrap()));
        assert!(Source::new("a/tests/b.rs", text).is_test(0));
    }

    #[test]
    fn attributes_are_found() {
        let source = Source::new("b.rs", "#![x(y)]\n#[z = \"#[no]\"] struct A;");
        let found: Vec<_> = source.attributes().map(|(_, inside)| inside.trim()).collect();
        assert_eq!(found, ["x(y)", "z = \"     \""]);
    }
}
