//! Categories: as they are given, else derived from what a tool says (MGP §16.4).
//!
//! Applies to: both.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::category_words::{TABLE, VERBS};

/// What stands between a category and one below it.
pub(crate) const BELOW: char = '/';

/// The most levels of a category.
const MOST_LEVELS: usize = 4;

/// The longest name of one level, in bytes.
const LONGEST: usize = 48;

/// The most categories of a tool.
pub(crate) const MOST: usize = 16;

/// The category of a tool nobody can place.
pub(crate) const OTHER: &str = "other";

/// A category as it is kept: in lower case, its levels with [`BELOW`] between them; none if nothing is left of it.
///
/// Levels are told apart by `/`, `>` and by a `.` between two words.
pub(crate) fn canonical(given: &str) -> Option<String> {
    let mut out = String::new();
    let mut levels = 0;
    for level in given.split(['/', '>', '.']) {
        let clean: String = level.chars().filter(|c| !c.is_control()).collect();
        let clean = clean.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let clean = clean[..clean.floor_char_boundary(LONGEST)].trim_end();
        if clean.is_empty() || levels == MOST_LEVELS {
            continue;
        }
        if levels > 0 {
            out.push(BELOW);
        }
        out.push_str(clean);
        levels += 1;
    }
    (levels > 0).then_some(out)
}

/// The categories that were given, each once.
pub(crate) fn all_canonical<'a>(given: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut all = Vec::new();
    for category in given {
        match canonical(category) {
            Some(category) if !all.contains(&category) && all.len() < MOST => all.push(category),
            _ => {}
        }
    }
    all
}

/// Derives the category of a tool nobody gave one: what it is about, and whether it reads or changes it.
///
/// The words are in lower case. Those of the name count most, then those of the server, then those of the description.
pub(crate) fn derive<'a>(
    name: &[&'a str],
    description: impl IntoIterator<Item = &'a str>,
    server: impl IntoIterator<Item = &'a str>,
) -> String {
    let mut scores = [0u32; TABLE.len()];
    let mut speak = |words: &mut dyn Iterator<Item = &'a str>, counts: u32| {
        let about = words.filter_map(|word| SPEAKING.get(word));
        about.for_each(|about| scores[*about] += counts);
    };
    speak(&mut name.iter().copied(), 6);
    speak(&mut server.into_iter(), 3);
    speak(&mut description.into_iter(), 2);
    // The first of the best, because the table has the plainer things first.
    let best = (0..TABLE.len()).rev().max_by_key(|at| scores[*at]);
    let Some(best) = best.filter(|best| scores[*best] > 0) else { return OTHER.to_owned() };
    let about = TABLE[best].0;
    let does = name.iter().find_map(|word| {
        VERBS.iter().find(|(_, verbs)| verbs.contains(word)).map(|(does, _)| *does)
    });
    match does {
        Some(does) => format!("{about}{BELOW}{does}"),
        None => about.to_owned(),
    }
}

/// Which category of the table a word speaks for.
static SPEAKING: LazyLock<FxHashMap<&str, usize>> = LazyLock::new(|| {
    let words = TABLE.iter().enumerate().rev();
    words.flat_map(|(at, (_, words))| words.iter().map(move |word| (*word, at))).collect()
});

/// Whether a category is the wanted one or lies below it; a wanted word without levels also matches a lower level.
pub(crate) fn is_in(category: &str, wanted: &str) -> bool {
    let below = |rest: &str| rest.is_empty() || rest.starts_with(BELOW);
    category.strip_prefix(wanted).is_some_and(below)
        || !wanted.contains(BELOW) && category.split(BELOW).any(|level| level == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_written_one_way() {
        for given in ["Data/ Analysis", "data.analysis", " DATA > analysis\u{7} /"] {
            assert_eq!(canonical(given).as_deref(), Some("data/analysis"));
        }
        assert_eq!(canonical(" . / "), None);
        assert_eq!(canonical("a/b/c/d/e/f").as_deref(), Some("a/b/c/d"));
        assert_eq!(canonical(&"é".repeat(100)).map(|c| c.len()), Some(LONGEST));
    }

    #[test]
    fn a_category_matches_what_lies_below_it() {
        assert!(is_in("filesystem/read", "filesystem") && is_in("filesystem", "filesystem"));
        assert!(is_in("filesystem/read", "read") && is_in("filesystem/read", "filesystem/read"));
        assert!(!is_in("filesystems", "filesystem") && !is_in("filesystem", "filesystem/read"));
        assert!(!is_in("a/b/c", "b/c"));
    }

    #[test]
    fn categories_are_derived() {
        let words = |text: &'static str| text.split(' ').collect::<Vec<_>>();
        let check = |name, description, server, expected: &str| {
            assert_eq!(derive(&words(name), words(description), words(server)), expected);
        };
        check("read file", "reads the contents of a file", "", "filesystem/read");
        check("send", "sends an email to somebody", "gmail", "messaging/run");
        check("create event", "makes an entry", "google calendar", "calendar/write");
        check("frobnicate", "does it", "thing", OTHER);
    }
}
