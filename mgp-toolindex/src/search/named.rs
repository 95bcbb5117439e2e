//! Finds tools that the query names, also in another spelling or with a typing error (MGP §16.5).

use super::View;
use super::weight::MAX_UNNAMED_SCORE;
use crate::catalog::{Bitmap, MAX_SERVER_ID_BYTES, Slot};
use crate::error::IndexError;
use crate::keyword::letter_changes;
use crate::text::{QueryWords, fold_name};

/// The maximum length, in bytes of letters and digits, of a query that is compared with names.
const MAX_NAME_LETTERS: usize = 96;

/// The maximum number of words in a query that is tried as a misspelled name.
const MAX_WORDS: usize = 8;

/// The maximum number of words of a query that is tried as a misspelled name although each of its words occurs in the
/// caller's tools.
const MAX_KNOWN_WORDS: usize = 3;

/// The maximum number of tools that are returned for a name.
const MAX_TOOLS: usize = 50;

/// The prefix of the names that some hosts show to their models: `mcp__SERVER__TOOL`.
const HOST_PREFIX: &str = "mcp__";

/// The nearness (degree of similarity) of a name that differs from the query only in case and separators.
const SAME_LETTERS: f32 = 1.0;

/// The nearness of a name that differs only in case.
const SAME_EXCEPT_CASE: f32 = 2.0;

/// The nearness of an identical name.
const IDENTICAL: f32 = 3.0;

/// Returns the tools that the query names, each with the nearness of its name. A nearness below 1 means that the query
/// has typing errors. From 1 on, a higher nearness means a more similar spelling.
///
/// A query of several words must be similar to a whole name, with or without its stop words: `PR review` does not mean
/// `create_preview`. If each of its words occurs in the tools, only one letter may differ: `resize image` does not mean
/// `resize_page`.
pub(super) fn find(
    view: &View<'_>,
    text: &str,
    words: &QueryWords,
    within: Option<&Bitmap>,
) -> Result<Vec<(Slot, f32)>, IndexError> {
    if words.whole.is_empty() || words.whole.len() > MAX_NAME_LETTERS {
        return Ok(Vec::new());
    }
    let visible = |slot: &Slot| within.is_none_or(|within| within.contains(*slot));
    let text = text.trim();
    let qualified = qualified(view, text, visible);
    let written = view.catalog.by_name(text).filter(visible).take(MAX_TOOLS);
    let mut found: Vec<(Slot, f32)> =
        qualified.into_iter().chain(written).map(|slot| (slot, IDENTICAL)).collect();
    for slot in view.catalog.by_folded(text).filter(visible).take(MAX_TOOLS) {
        if found.iter().all(|(known, _)| *known != slot) {
            let is_case = |name: &str| name.eq_ignore_ascii_case(text);
            let is_case = view.catalog.entry(slot).is_some_and(|entry| is_case(entry.name()));
            found.push((slot, if is_case { SAME_EXCEPT_CASE } else { SAME_LETTERS }));
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let many = words.raw.len();
    let is_odd = || words.terms.iter().any(|term| !view.keywords.has_word(&term.text, within));
    if many > MAX_WORDS || many > MAX_KNOWN_WORDS && !is_odd() {
        return Ok(Vec::new());
    }
    let whole = QueryWords { whole: words.whole.clone(), ..QueryWords::default() };
    let mut near = view.keywords.find_similar(&whole, MAX_TOOLS, within)?;
    if many > 1 {
        let is_known = |word: &String| view.has_word(word, within);
        let max_changes = if words.raw.iter().all(is_known) { 1 } else { 2 };
        let texts = [words.whole.clone(), words.raw.concat()];
        near.retain(|(slot, nearness)| {
            let name = view.catalog.entry(*slot).map(|entry| fold_name(entry.name()));
            let is_near = |name: &str, text: &str| letter_changes(name, text) <= max_changes;
            let is_name = |name: String| texts.iter().any(|text| is_near(&name, text));
            *nearness >= SAME_LETTERS || name.is_some_and(is_name)
        });
    }
    if !near.is_empty()
        && let Some(exact) = with_all_words(view, words, within)?
    {
        near.retain(|(slot, _)| exact.contains(*slot));
    }
    for (slot, nearness) in &mut near {
        let name = view.catalog.entry(*slot).map_or(0, |entry| fold_name(entry.name()).len());
        *nearness *= alike(name, words.whole.len());
    }
    Ok(near)
}

/// Returns the visible tool whose server and name the query contains, e.g. `files.read_file`, `files/read_file`, or the
/// tool's name in a host.
fn qualified(view: &View<'_>, text: &str, visible: impl Fn(&Slot) -> bool + Copy) -> Option<Slot> {
    let of_host = text.strip_prefix(HOST_PREFIX);
    let name = of_host.unwrap_or(text);
    // Try to split the text at every dot, because ids of servers can contain dots.
    let mut signs = name.match_indices(['.', '/', ':']).chain(name.match_indices("__"));
    signs.find_map(|(at, sign)| {
        let is_split = at <= MAX_SERVER_ID_BYTES && (of_host.is_none() || sign == "__");
        let tool = is_split.then(|| view.catalog.find(&name[..at], &name[at + sign.len()..]))?;
        tool.filter(visible)
    })
}

/// Returns the tools in `within` whose names have all words of the query; `None` if no tool has all of them.
///
/// If such tools exist, the query is spelled correctly. The name of a tool without one of its words is then similar
/// only by chance: `delete note` does not mean `delete_node` if a tool `archive_delete_note` exists.
fn with_all_words(
    view: &View<'_>,
    words: &QueryWords,
    within: Option<&Bitmap>,
) -> Result<Option<Bitmap>, IndexError> {
    let mut all: Option<Bitmap> = None;
    for word in &words.raw {
        let with = view.keywords.tools_named(&view.analyzer.stem(word))?;
        match &mut all {
            Some(all) => all.and(&with),
            None => all = Some(with),
        }
    }
    if let (Some(all), Some(within)) = (&mut all, within) {
        all.and(within);
    }
    Ok(all.filter(|all| all.count() > 0))
}

/// Returns the ratio of the shorter to the longer of two lengths. It is low if the query resembles only one word of a
/// longer name.
#[expect(clippy::cast_precision_loss, reason = "names are short")]
fn alike(one: usize, other: usize) -> f32 {
    one.min(other) as f32 / one.max(other).max(1) as f32
}

/// Returns the score of a tool that the query names: above the scores of all other tools, and the higher, the fewer
/// typing errors the query has.
pub(super) fn score(nearness: f32, score: f32) -> f32 {
    let between = score / MAX_UNNAMED_SCORE;
    if nearness >= SAME_LETTERS {
        0.99 + 0.01 * (nearness - SAME_LETTERS + between) / IDENTICAL
    } else {
        MAX_UNNAMED_SCORE + 0.08 * nearness + 0.01 * between
    }
}
