//! Generates texts that match a regular expression.

use regex_syntax::hir::{Class, Hir, HirKind};

/// The maximum length of a generated text, in bytes.
const MAX_TEXT: usize = 1 << 14;

/// The maximum depth of a regular expression in a schema.
const MAX_DEPTH: u32 = 64;

/// Returns a text for a pattern, with at least `min` characters if the pattern permits it. Boundaries such as `\b` are
/// ignored, so the text might not match.
///
/// Returns `None` if the pattern is not supported, or if the text becomes too long.
pub(crate) fn text_for(pattern: &str, min: usize) -> Option<String> {
    let mut parser = regex_syntax::ParserBuilder::new().nest_limit(MAX_DEPTH).build();
    let hir = parser.parse(pattern).ok()?;
    // The number of repetitions is increased step by step until the text is long enough.
    let mut text = String::new();
    let mut more = 0;
    while more <= min.max(1) {
        text.clear();
        push(&hir, more, &mut text)?;
        if text.chars().count() >= min {
            return Some(text);
        }
        more = (more + 1).max(more + more / 8);
    }
    // A pattern without `$` at its end also matches longer texts, so the text can simply be extended.
    let is_anchored = pattern.ends_with('$') && !pattern.ends_with("\\$");
    if !is_anchored {
        let missing = min.saturating_sub(text.chars().count());
        text.extend(std::iter::repeat_n('a', missing.min(MAX_TEXT)));
    }
    Some(text)
}

/// Appends a text for `hir`, a part of the pattern. Each repetition has `more` more rounds than necessary.
/// Returns `None` if the part is not supported, or the text becomes too long.
fn push(hir: &Hir, more: usize, text: &mut String) -> Option<()> {
    if text.len() > MAX_TEXT {
        return None;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => text.push(character_of(class)?),
        HirKind::Capture(capture) => push(&capture.sub, more, text)?,
        HirKind::Repetition(repetition) => {
            let min = usize::try_from(repetition.min).ok()?;
            let max = repetition.max.and_then(|max| usize::try_from(max).ok());
            let count = (min + more).min(max.unwrap_or(usize::MAX));
            for _ in 0..count {
                push(&repetition.sub, more, text)?;
            }
        }
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| push(part, more, text))?,
        HirKind::Alternation(parts) => push(parts.first()?, more, text)?,
    }
    Some(())
}

/// Returns a character of a character class, if possible a letter or a digit.
fn character_of(class: &Class) -> Option<char> {
    match class {
        Class::Unicode(class) => {
            let contains = |wanted: &char| {
                class.ranges().iter().any(|range| (range.start()..=range.end()).contains(wanted))
            };
            let usual = ('a'..='z').chain('A'..='Z').chain('0'..='9').chain(" -_./:@".chars());
            let first = || class.ranges().first().map(regex_syntax::hir::ClassUnicodeRange::start);
            usual.into_iter().find(contains).or_else(first)
        }
        Class::Bytes(class) => class.ranges().first().map(|range| char::from(range.start())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, min: usize, expected: &str) {
        assert_eq!(text_for(pattern, min).as_deref(), Some(expected), "{pattern}");
    }

    #[test]
    fn a_text_matches_its_pattern() {
        check("^[A-Z]{1,5}$", 0, "A");
        check("^[A-Z]{1,5}$", 3, "AAA");
        check(r"^\d{4}-\d{2}$", 0, "0000-00");
        check("^(a|b)+c?$", 0, "a");
        check("x", 4, "xaaa");
        assert_eq!(text_for("(?=x)", 0), None);
        assert_eq!(text_for("(a{200}){200}", 0), None);
    }
}
