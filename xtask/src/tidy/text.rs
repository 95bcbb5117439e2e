//! The rules of `tidy` about text: method names outside mgp-types, silenced lints, skipped tests, and marks of
//! unfinished work.

use super::{Violation, source::Source};

/// The prefixes of the protocol's method names.
#[rustfmt::skip]
const METHOD_PREFIXES: &[&str] = &[
    "completion/", "elicitation/", "logging/", "mgp/", "notifications/", "prompts/", "resources/",
    "roots/", "sampling/", "server/", "subscriptions/", "tasks/", "tools/",
];

/// Method names that have no prefix.
const METHOD_WORDS: &[&str] = &["initialize", "ping"];

/// Words that mark unfinished work, each in two halves so that this file does not contain the words.
const LOOSE_ENDS: &[(&str, &str)] = &[("TO", "DO"), ("FIX", "ME"), ("XX", "X")];

/// Refuses method names in string literals outside mgp-types, which defines each name once.
///
/// The rule exempts `xtask` and `mgp-validate`, because they act as foreign peers and write raw messages.
pub(super) fn method_literals(source: &Source) -> Vec<Violation> {
    const EXEMPT: &[&str] = &["mgp-types/", "mgp-client-sdk/validate/", "xtask/"];
    if EXEMPT.iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    let literals = source.strings.iter().filter(|range| !source.is_test(range.start));
    literals
        .filter_map(|range| {
            let method = method_in(&source.text[range.clone()])?;
            let what = format!("method name `{method}` belongs to mgp-types; use its marker");
            Some(Violation::at(source, range.start, what))
        })
        .collect()
}

/// Returns the method name in a string literal: the whole literal, or a part of it in quotes.
fn method_in(literal: &str) -> Option<&str> {
    let quoted = literal.split('"').map(|part| part.trim_end_matches('\\'));
    quoted.into_iter().find(|part| {
        let rest = METHOD_PREFIXES.iter().find_map(|prefix| part.strip_prefix(prefix));
        METHOD_WORDS.contains(part)
            || rest.is_some_and(|rest| {
                let plain = |c: char| c.is_ascii_alphabetic() || "/._".contains(c);
                rest.ends_with(|c: char| c.is_ascii_alphabetic()) && rest.chars().all(plain)
            })
    })
}

/// Refuses untagged enums, lints that are silenced with `allow` or without a reason, and tests that are ignored or
/// expect a panic.
pub(super) fn attributes(source: &Source) -> Vec<Violation> {
    let found = source.attributes().filter_map(|(at, inside)| {
        let inside = inside.trim();
        let has = |word: &str| words(inside).any(|found| found == word);
        let what = if has("serde") && has("untagged") {
            "untagged enums buffer the message; dispatch on the method"
        } else if has("allow") {
            "silence a lint with `expect` and a reason"
        } else if has("expect") && !has("reason") {
            "`expect` needs a reason"
        } else if inside == "ignore" || inside.starts_with("ignore ") {
            "a test must run"
        } else if has("should_panic") {
            "assert on the error, not on a panic"
        } else {
            return None;
        };
        Some(Violation::at(source, at, what))
    });
    found.collect()
}

/// Refuses marks of unfinished work.
pub(super) fn unfinished(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (first, second) in LOOSE_ENDS {
            let word = format!("{first}{second}");
            if words(line).any(|found| found == word) {
                found.push(Violation::new(format!("{path}:{}", number + 1), format!("`{word}`")));
            }
        }
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literals(path: &str, text: &str) -> usize {
        method_literals(&Source::new(path, text)).len()
    }

    #[test]
    fn a_method_name_outside_the_vocabulary_is_refused() {
        assert_eq!(literals("mgp-stream/src/a.rs", r#"f("tools/call")"#), 1);
        assert_eq!(literals("mgp-stream/src/a.rs", r#"f("notifications/mgp.stream.chunk")"#), 1);
        assert_eq!(literals("mgp-stream/src/a.rs", r#"f("{\"method\":\"mgp/health/ping\"}")"#), 1);
        assert_eq!(literals("mgp-stream/src/a.rs", r#"f("initialize")"#), 1);
    }

    #[track_caller]
    fn refused(text: &str, count: usize) {
        assert_eq!(attributes(&Source::new("a/src/b.rs", text)).len(), count, "{text}");
    }

    #[test]
    fn attributes_that_hide_something_are_refused() {
        refused("#[serde(untagged)] enum A {}", 1);
        refused("#[cfg_attr(feature = \"x\", serde(untagged))] enum A {}", 1);
        refused("#![allow(dead_code)]", 1);
        refused("#[cfg_attr(test, allow(dead_code))] fn a() {}", 1);
        refused("#[expect(dead_code)] fn a() {}", 1);
        refused("#[test]\n#[ignore] fn a() {}", 1);
        refused("#[ignore = \"slow\"] fn a() {}", 1);
        refused("#[should_panic(expected = \"x\")] fn a() {}", 1);
    }

    #[test]
    fn loose_ends_are_refused() {
        assert_eq!(unfinished("a.md", &format!("one\n{}{}: two", "TO", "DO")).len(), 1);
        assert_eq!(unfinished("a.md", "nothing to do"), []);
    }
}
