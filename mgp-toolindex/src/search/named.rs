//! Finds tools that the query names, even if it writes the name in another form or with a typing error, and raises
//! their scores (MGP §16.5).

use rustc_hash::FxHashMap;

use super::view::{Search, View};
use super::weight::{
    MAX_UNNAMED_SCORE, MIN_NAMED_SCORE, MISSPELLED_NAME_WEIGHT, NAMED_EVIDENCE_WEIGHT,
};
use crate::catalog::{Bitmap, MAX_SERVER_ID_BYTES, Slot};
use crate::error::IndexError;
use crate::keyword::letter_changes;
use crate::text::{QueryWords, fold_name};

/// The maximum length, in bytes of letters and digits, of a query that is compared with names.
const MAX_NAME_LETTERS: usize = 96;

/// The maximum number of words in a query that is tried as a misspelled name.
const MAX_WORDS: usize = 8;

/// The maximum number of words of a query that is tried as a misspelled name even though all of its words occur in the
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

/// Returns the tools that a query with this text names, each with the nearness of its name. `words` are the words of
/// the query, in English if it was translated.
///
/// If the query was translated, its original words are compared first, because they may be misspelled English words,
/// e.g. `fiel`, which is also a German word. A query of a single word is an exception, because many foreign words
/// resemble English words.
pub(super) fn of_query(
    search: &Search<'_>,
    text: &str,
    words: &QueryWords,
    is_translated: bool,
) -> Result<FxHashMap<Slot, f32>, IndexError> {
    if is_translated {
        let original = search.view.analyzer.query(text);
        let found = find(search, text, &original)?;
        if original.raw.len() > 1 && !found.is_empty() {
            return Ok(found.into_iter().collect());
        }
    }
    Ok(find(search, text, words)?.into_iter().collect())
}

/// Returns the tools that a text names, each with the nearness of its name. A nearness below 1 means that the text has
/// typing errors. From 1 on, a higher nearness means that the text agrees more exactly with the name.
///
/// A query of several words must be similar to a whole name, with or without its stop words: `PR review` does not mean
/// `create_preview`. If each of its words occurs in the tools, only one letter may differ: `resize image` does not mean
/// `resize_page`.
pub(super) fn find(
    search: &Search<'_>,
    text: &str,
    words: &QueryWords,
) -> Result<Vec<(Slot, f32)>, IndexError> {
    if words.whole.is_empty() || words.whole.len() > MAX_NAME_LETTERS {
        return Ok(Vec::new());
    }
    let (view, within) = (search.view, search.within);
    let visible = |slot: &Slot| search.can_find(*slot);
    let text = text.trim();
    let qualified = qualified(view, text, visible);
    let written = view.catalog.by_name(text).filter(visible).take(MAX_TOOLS);
    let mut found: Vec<(Slot, f32)> =
        qualified.into_iter().chain(written).map(|slot| (slot, IDENTICAL)).collect();
    for slot in view.catalog.by_folded(text).filter(visible).take(MAX_TOOLS) {
        if found.iter().all(|(known, _)| *known != slot) {
            let entry = view.catalog.entry(slot);
            let is_same = entry.is_some_and(|entry| entry.name().eq_ignore_ascii_case(text));
            found.push((slot, if is_same { SAME_EXCEPT_CASE } else { SAME_LETTERS }));
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
        let is_known = |word: &String| search.has_word(word);
        let max_changes = if words.raw.iter().all(is_known) { 1 } else { 2 };
        let texts = [words.whole.clone(), words.raw.concat()];
        let is_near =
            |name: &str| texts.iter().any(|text| letter_changes(name, text) <= max_changes);
        near.retain(|(slot, nearness)| {
            let entry = view.catalog.entry(*slot);
            *nearness >= SAME_LETTERS
                || entry.is_some_and(|entry| is_near(&fold_name(entry.name())))
        });
    }
    if !near.is_empty()
        && let Some(exact) = with_all_words(search, words)?
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

/// Returns the visible tools whose names have all words of the query; `None` if no tool has all of them.
///
/// If such tools exist, the query is spelled correctly. The name of a tool without one of its words is then similar
/// only by chance: `delete note` does not mean `delete_node` if a tool `archive_delete_note` exists.
fn with_all_words(search: &Search<'_>, words: &QueryWords) -> Result<Option<Bitmap>, IndexError> {
    let mut all: Option<Bitmap> = None;
    for word in &words.raw {
        let with = search.view.keywords.tools_named(&search.view.analyzer.stem(word))?;
        match &mut all {
            Some(all) => all.and(&with),
            None => all = Some(with),
        }
    }
    if let (Some(all), Some(within)) = (&mut all, search.within) {
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

/// Raises the scores of the tools that the query names. `scores` are the scores of the tools in `slots`.
pub(super) fn raise(named: &FxHashMap<Slot, f32>, slots: &[Slot], scores: &mut [f32]) {
    for (slot, value) in slots.iter().zip(scores) {
        if let Some(nearness) = named.get(slot) {
            *value = score(*nearness, *value);
        }
    }
}

/// Returns the score of a tool that the query names. It is higher than the scores of tools that the query does not
/// name, and increases with fewer typing errors in the query.
fn score(nearness: f32, score: f32) -> f32 {
    let between = score / MAX_UNNAMED_SCORE;
    if nearness >= SAME_LETTERS {
        MIN_NAMED_SCORE + NAMED_EVIDENCE_WEIGHT * (nearness - SAME_LETTERS + between) / IDENTICAL
    } else {
        MAX_UNNAMED_SCORE + MISSPELLED_NAME_WEIGHT * nearness + NAMED_EVIDENCE_WEIGHT * between
    }
}
