//! Finds tools that the query names, even if it writes the name in another form or with a typing error, and raises
//! their scores (MGP §16.5).

use rustc_hash::FxHashMap;

use super::view::{Search, View};
use super::weight::{
    MAX_UNNAMED_SCORE, MIN_NAMED_SCORE, MISSPELLED_NAME_WEIGHT, NAMED_EVIDENCE_WEIGHT,
};
use crate::catalog::{Bitmap, Entry, MAX_SERVER_ID_BYTES, ServerRecord, Slot};
use crate::error::IndexError;
use crate::keyword::{is_misspelling, letter_changes};
use crate::lexicon::has_english;
use crate::text::{QueryWords, fold_name, truncate, words_of};

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

/// The minimum number of letters and digits of a server's id that a query names without a dot or slash after it. A
/// shorter one is often a word of a sentence: `a file`.
const MIN_ID_LETTERS: usize = 2;

/// The maximum number of words of a name that are compared with a query of one word.
const MAX_NAME_WORDS: usize = 16;

/// The maximum number of letters that may differ in a name with typing errors.
const MAX_CHANGES: usize = 2;

/// The nearness of the tools of a server, if the query is only the server's id, and if the name or the description of
/// the tool has the id, too. It is higher than the nearness of tools of other servers with this word in their names.
const OF_SERVER: f32 = 0.99;

/// The nearness of the other tools of such a server. Tools of other servers come before them if this word is more than
/// about a third of their names, because the ids of many servers are also ordinary words, e.g. `test` or `memory`.
const ONLY_OF_SERVER: f32 = 0.35;

/// The maximum number of bytes of a description in which the id of the server is looked up.
const MAX_DESCRIPTION_BYTES: usize = 512;

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
/// `resize_page`. A query of one word may also be a misspelled word of a longer name, if it is not English and has the
/// same beginning: neither does `bash` mean `search_base`, nor `wget` `get_file`. The id of a server means all of its
/// tools.
pub(super) fn find(
    search: &Search<'_>,
    text: &str,
    words: &QueryWords,
) -> Result<Vec<(Slot, f32)>, IndexError> {
    if words.whole.is_empty() || words.whole.len() > MAX_NAME_LETTERS {
        return Ok(Vec::new());
    }
    let written = written(search, text.trim());
    if !written.is_empty() {
        return Ok(written);
    }
    let name = fold_name(text);
    let servers = servers_before(search.view, &name);
    let behind_id = behind_id(search, &servers);
    if !behind_id.is_empty() {
        return Ok(behind_id);
    }
    let mut near = similar(search, words)?;
    let of_server = tools_of(search, &servers);
    if !of_server.is_empty() {
        near.retain(|(slot, _)| !of_server.contains(slot));
        near.extend(weighed(search, &name, &of_server)?);
    }
    Ok(near)
}

/// Returns the tools with this name, which may be written in another case, with other separators, or behind the exact
/// id of its server.
fn written(search: &Search<'_>, text: &str) -> Vec<(Slot, f32)> {
    let view = search.view;
    let visible = |slot: &Slot| search.can_find(*slot);
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
    found
}

/// Returns the visible tools of these servers whose names are the rest of the query behind the id of their server.
fn behind_id(search: &Search<'_>, servers: &[(&ServerRecord, &str)]) -> Vec<(Slot, f32)> {
    let catalog = search.view.catalog;
    let mut found = Vec::new();
    for (server, rest) in servers.iter().filter(|(_, rest)| !rest.is_empty()) {
        let number = Some(server.server.number);
        let is_of_server = |slot: &Slot| catalog.server_of(*slot) == number;
        let slots = catalog.by_folded(rest).filter(|slot| search.can_find(*slot));
        let slots = slots.filter(is_of_server).take(MAX_TOOLS);
        found.extend(slots.map(|slot| (slot, SAME_LETTERS)));
    }
    found
}

/// Returns the visible tools of the server whose id is the text, in any case and with any separators.
pub(super) fn tools_of_server(search: &Search<'_>, text: &str) -> Vec<Slot> {
    tools_of(search, &servers_before(search.view, &fold_name(text)))
}

/// Returns the visible tools of those of these servers whose ids are the whole query.
fn tools_of(search: &Search<'_>, servers: &[(&ServerRecord, &str)]) -> Vec<Slot> {
    let servers = servers.iter().filter(|(_, rest)| rest.is_empty());
    let slots = servers.flat_map(|(server, _)| server.slots.iter().copied());
    slots.filter(|slot| search.can_find(*slot)).take(MAX_TOOLS).collect()
}

/// Returns these tools, each with its nearness to a query that is only the id of their server. The id has the form that
/// [`fold_name`] returns.
fn weighed(search: &Search<'_>, id: &str, tools: &[Slot]) -> Result<Vec<(Slot, f32)>, IndexError> {
    let view = search.view;
    let in_name = with_all_words(search, &view.analyzer.query(id))?;
    let is_described = |slot: Slot| {
        let description = view.catalog.entry(slot).and_then(Entry::description);
        let description = truncate(description.unwrap_or_default(), MAX_DESCRIPTION_BYTES);
        let mut words = description.split(|c: char| !c.is_alphanumeric());
        words.any(|word| word.eq_ignore_ascii_case(id))
    };
    let nearness = |slot: Slot| {
        let is_named = in_name.as_ref().is_some_and(|tools| tools.contains(slot));
        if is_named || is_described(slot) { OF_SERVER } else { ONLY_OF_SERVER }
    };
    Ok(tools.iter().map(|slot| (*slot, nearness(*slot))).collect())
}

/// Returns the servers with whose id a name begins, each with the rest of the name. The name, the id and the rest have
/// the form that [`fold_name`] returns.
fn servers_before<'a>(view: &View<'a>, name: &'a str) -> Vec<(&'a ServerRecord, &'a str)> {
    let first = name.chars().next();
    let servers = view.catalog.servers().filter_map(|(_, server)| {
        let id = &*server.server.id;
        // Compare the first letter before the whole id, because most ids begin with another letter.
        let letter = id.chars().find(char::is_ascii_alphanumeric);
        if letter.map(|letter| letter.to_ascii_lowercase()) != first && id.is_ascii() {
            return None;
        }
        let id = fold_name(id);
        let rest = name.strip_prefix(&*id)?;
        (id.len() >= MIN_ID_LETTERS).then_some((server, rest))
    });
    servers.collect()
}

/// Returns the tools whose names resemble the words of a query, each with the nearness of its name.
fn similar(search: &Search<'_>, words: &QueryWords) -> Result<Vec<(Slot, f32)>, IndexError> {
    let (view, within) = (search.view, search.within);
    let many = words.raw.len();
    let is_odd = || words.terms.iter().any(|term| !view.keywords.has_word(&term.text, within));
    if many > MAX_WORDS || many > MAX_KNOWN_WORDS && !is_odd() {
        return Ok(Vec::new());
    }
    let whole = QueryWords { whole: words.whole.clone(), ..QueryWords::default() };
    let mut near = view.keywords.find_similar(&whole, MAX_TOOLS, within)?;
    let is_known = |word: &String| search.has_word(word);
    let max_changes = if many > 1 && words.raw.iter().all(is_known) { 1 } else { MAX_CHANGES };
    let texts = [words.whole.clone(), words.raw.concat()];
    let is_near = |name: &str| {
        let name = fold_name(name);
        texts.iter().any(|text| letter_changes(&name, text) <= max_changes)
    };
    let exact = if near.is_empty() { None } else { with_all_words(search, words)? };
    // A query of one word is also a word of a longer name in another form (`issues`), or a misspelling of it.
    let may_be_form = many == 1 && exact.is_some();
    let may_be_misspelled = many == 1 && !has_english(&words.whole);
    let has_part = |name: &str| {
        let parts = words_of(name, MAX_NAME_WORDS);
        parts.iter().any(|part| is_misspelling(&words.whole, part))
    };
    near.retain(|(slot, nearness)| {
        let Some(entry) = view.catalog.entry(*slot) else { return false };
        let is_meant = many == 0
            || *nearness >= SAME_LETTERS
            || may_be_form
            || is_near(entry.name())
            || may_be_misspelled && has_part(entry.name());
        is_meant && exact.as_ref().is_none_or(|exact| exact.contains(*slot))
    });
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
pub(super) fn with_all_words(
    search: &Search<'_>,
    words: &QueryWords,
) -> Result<Option<Bitmap>, IndexError> {
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
