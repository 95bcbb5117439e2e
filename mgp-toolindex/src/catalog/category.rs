//! The categories of a tool: the categories that the user of the index gave it, or else one category that is derived
//! from its texts (MGP §16.4).

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::category_words::{SUBJECTS, VERBS};

/// The separator of the levels in the name of a category.
pub(crate) const SEPARATOR: char = '/';

/// The maximum number of levels in the name of a category.
const MAX_LEVELS: usize = 4;

/// The maximum length of the name of one level, in bytes.
const MAX_LEVEL_BYTES: usize = 48;

/// The maximum number of categories of a tool.
pub(crate) const MAX_CATEGORIES: usize = 16;

/// The score that a subject gets for each of its words in the name of a tool. The subject with the highest score
/// becomes the category of the tool.
const NAME_WORD: u32 = 6;
/// The score that a subject gets for each of its words in the texts of the tool's server.
const SERVER_WORD: u32 = 3;
/// The score that a subject gets for each of its words in the tool's description.
const DESCRIPTION_WORD: u32 = 2;

/// The category of a tool whose words suggest no category.
pub(crate) const UNCATEGORISED: &str = "other";

/// Returns a category's canonical name: lower case, levels separated by [`SEPARATOR`]; returns `None` if it is empty.
///
/// In the input, levels are separated by `/`, `>` and `.`.
pub(crate) fn canonical(given: &str) -> Option<String> {
    let mut out = String::new();
    let mut levels = 0;
    for level in given.split(['/', '>', '.']) {
        let clean: String = level.chars().filter(|c| !c.is_control()).collect();
        let clean = clean.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let clean = clean[..clean.floor_char_boundary(MAX_LEVEL_BYTES)].trim_end();
        if clean.is_empty() || levels == MAX_LEVELS {
            continue;
        }
        if levels > 0 {
            out.push(SEPARATOR);
        }
        out.push_str(clean);
        levels += 1;
    }
    (levels > 0).then_some(out)
}

/// Returns at most [`MAX_CATEGORIES`] categories in canonical form, without duplicates and empty names.
pub(crate) fn all_canonical<'a>(given: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut all = Vec::new();
    for category in given {
        match canonical(category) {
            Some(category) if !all.contains(&category) && all.len() < MAX_CATEGORIES => {
                all.push(category);
            }
            _ => {}
        }
    }
    all
}

/// Derives the category of a tool: its subject, and within the subject the kind of action, e.g. reading or changing.
///
/// All words must be in lower case. Words of the name count most, then words of the server, then words of the
/// description. A single word of the description is not enough for a category: a tool that echoes a message does not
/// send messages.
pub(crate) fn derive<'a>(
    name: &[&'a str],
    description: impl IntoIterator<Item = &'a str>,
    server: impl IntoIterator<Item = &'a str>,
) -> String {
    let mut scores = [0u32; SUBJECTS.len()];
    let mut add_scores = |words: &mut dyn Iterator<Item = &'a str>, score: u32| {
        let about = words.filter_map(|word| SUBJECT_BY_WORD.get(word));
        about.for_each(|about| scores[*about] += score);
    };
    add_scores(&mut name.iter().copied(), NAME_WORD);
    add_scores(&mut server.into_iter(), SERVER_WORD);
    add_scores(&mut description.into_iter(), DESCRIPTION_WORD);
    // Among subjects with equal scores, choose the first, because it is the more common subject. `max_by_key` returns
    // the last maximum, so reverse the order.
    let best = (0..SUBJECTS.len()).rev().max_by_key(|at| scores[*at]);
    let Some(best) = best.filter(|best| scores[*best] > DESCRIPTION_WORD) else {
        return UNCATEGORISED.to_owned();
    };
    let about = SUBJECTS[best].0;
    let does = name.iter().find_map(|word| {
        VERBS.iter().find(|(_, verbs)| verbs.contains(word)).map(|(does, _)| *does)
    });
    match does {
        Some(does) => format!("{about}{SEPARATOR}{does}"),
        None => about.to_owned(),
    }
}

/// The index of the subject in `SUBJECTS`, by each of its words.
static SUBJECT_BY_WORD: LazyLock<FxHashMap<&str, usize>> = LazyLock::new(|| {
    let words = SUBJECTS.iter().enumerate().rev();
    words.flat_map(|(at, (_, words))| words.iter().map(move |word| (*word, at))).collect()
});

/// Returns whether a category is the wanted category or a subcategory of it. A wanted name without a separator also
/// matches if any level of the category has this name.
pub(crate) fn is_in(category: &str, wanted: &str) -> bool {
    let below = |rest: &str| rest.is_empty() || rest.starts_with(SEPARATOR);
    category.strip_prefix(wanted).is_some_and(below)
        || !wanted.contains(SEPARATOR) && category.split(SEPARATOR).any(|level| level == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_have_one_canonical_form() {
        for given in ["Data/ Analysis", "data.analysis", " DATA > analysis\u{7} /"] {
            assert_eq!(canonical(given).as_deref(), Some("data/analysis"));
        }
        assert_eq!(canonical(" . / "), None);
        assert_eq!(canonical("a/b/c/d/e/f").as_deref(), Some("a/b/c/d"));
        assert_eq!(canonical(&"é".repeat(100)).map(|c| c.len()), Some(MAX_LEVEL_BYTES));
    }

    #[test]
    fn a_category_matches_its_subcategories() {
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
        check("frobnicate", "does it", "thing", UNCATEGORISED);
        check("echo", "returns the message", "everything", UNCATEGORISED);
    }
}
