//! Finds the servers that an English query excludes: `create an issue, but not on GitHub` (MGP §16.5).

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::view::{Search, View};
use super::weight::EXCLUDED_SERVER_FACTOR;
use super::word::{Word, has_punctuation, is_one_of, leading_phrase, words};
use crate::catalog::{ServerNumber, Slot};
use crate::text::{fold_name, words_of};

/// Words after which a query names the servers that it excludes.
const NEGATIONS: &[&[&str]] = &[
    &["not"],
    &["without"],
    &["except"],
    &["excluding"],
    &["other", "than"],
    &["rather", "than"],
    &["instead", "of"],
];

/// Words that cancel the effect of a negation directly after them, so that it excludes nothing: `whether or not`,
/// `projects that are not on GitHub`.
const BEFORE_STATEMENTS: &[&str] =
    &["are", "did", "does", "had", "has", "have", "if", "is", "or", "was", "were", "why"];

/// Negative words before a negation; after them, the negation does not exclude a server: `nothing other than GitHub`,
/// `not without GitHub`.
const NEGATIVE_WORDS: &[&str] =
    &["cannot", "never", "no", "none", "not", "nothing", "nowhere", "t"];

/// Words that can occur between a negation and the name of a server.
const BEFORE_NAMES: &[&str] =
    &["by", "for", "from", "in", "on", "the", "through", "to", "use", "using", "via", "with"];

/// Words that can join the names of excluded servers.
const BETWEEN_NAMES: &[&str] = &["and", "nor", "or"];

/// Words that can join a negation with the text before it.
const BEFORE_NEGATIONS: &[&str] = &["and", "but"];

/// Words of server ids that people leave out when they name a server.
const GENERIC_WORDS: &[&str] = &["api", "mcp", "server"];

/// The maximum number of words of a query that are compared with the name of a server.
const MAX_NAME_WORDS: usize = 3;

/// The minimum length of a compared name, in bytes; only letters and digits count.
const MIN_NAME_BYTES: usize = 3;

/// The maximum number of words that are read from the id or the display name of a server.
const MAX_ID_WORDS: usize = 16;

/// The numbers of the servers, by their names reduced to letters and digits in lower case.
type ServerNames = FxHashMap<String, Vec<ServerNumber>>;

/// The servers that a query excludes.
#[derive(Debug)]
pub(super) struct Exclusion {
    servers: Vec<ServerNumber>,
}

impl Exclusion {
    /// Finds the servers that a query excludes, and removes the words that exclude them from the query. Considers only
    /// servers of tools that the search can find.
    ///
    /// Returns `None` if the query excludes no server, if it has no other words, or if its other words also name an
    /// excluded server: `GitHub issues, not GitHub actions`.
    pub(super) fn cut(search: &Search<'_>, text: &mut Cow<'_, str>) -> Option<Self> {
        let (rest, exclusion) = Self::of(search, text)?;
        *text = Cow::Owned(rest);
        Some(exclusion)
    }

    /// Returns the query without the words that exclude servers, and these servers.
    fn of(search: &Search<'_>, text: &str) -> Option<(String, Self)> {
        let all: Vec<Word<'_>> = words(text).collect();
        if (0..all.len()).all(|at| leading_phrase(&all[at..], NEGATIONS) == 0) {
            return None;
        }
        let names = server_names(search);
        let (mut rest, mut servers) = (String::new(), Vec::new());
        let (mut at, mut copied, mut is_negated) = (0, 0, false);
        while at < all.len() {
            let excludes = !is_negated && can_exclude(text, &all, at);
            let count = if excludes { read(text, &all[at..], &names, &mut servers) } else { 0 };
            if count == 0 {
                is_negated |= is_one_of(&all, at, NEGATIVE_WORDS);
                at += 1;
                continue;
            }
            let joint = at.checked_sub(1).filter(|before| {
                all[*before].start >= copied && is_one_of(&all, *before, BEFORE_NEGATIONS)
            });
            rest.push_str(&text[copied..all[joint.unwrap_or(at)].start]);
            at += count;
            (copied, is_negated) = (all[at - 1].end(), false);
        }
        rest.push_str(&text[copied..]);
        let others: Vec<Word<'_>> = words(&rest).collect();
        let is_excluded = |at: usize| {
            let named = named(&others[at..], &names);
            named.is_some_and(|(_, found)| found.iter().any(|server| servers.contains(server)))
        };
        if servers.is_empty() || others.is_empty() || (0..others.len()).any(is_excluded) {
            return None;
        }
        Some((rest, Self { servers }))
    }

    /// Returns the factor for the score of a tool; below 1 if the query excludes its server.
    pub(super) fn factor(&self, view: &View<'_>, slot: Slot) -> f32 {
        let server = view.catalog.server_of(slot);
        let is_excluded = server.is_some_and(|server| self.servers.contains(&server));
        if is_excluded { EXCLUDED_SERVER_FACTOR } else { 1.0 }
    }
}

/// Returns whether a negation at a position can exclude servers, which depends on the words before it.
fn can_exclude(text: &str, words: &[Word<'_>], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return true };
    // `files not in git` describes the files, whereas `search files, not in git` and `but not in git` exclude a server.
    let describes = is_one_of(words, at, &["not"])
        && is_one_of(words, at + 1, &["in"])
        && !is_one_of(words, before, BEFORE_NEGATIONS)
        && !has_punctuation(text, words, before);
    !describes && !is_one_of(words, before, BEFORE_STATEMENTS)
}

/// Returns whether the name of a server can end with the word at a position. It cannot end there if the next word
/// belongs to the name, e.g. `conflicts` in `without calendar conflicts`.
fn is_end_of_name(text: &str, words: &[Word<'_>], at: usize) -> bool {
    words.get(at + 1).is_none_or(Word::is_stop_word) || has_punctuation(text, words, at)
}

/// Reads a negation and names of servers at the beginning of the words: adds these servers to `servers`, and returns
/// the number of the words. Returns 0 if the words begin otherwise.
fn read(
    text: &str,
    words: &[Word<'_>],
    names: &ServerNames,
    servers: &mut Vec<ServerNumber>,
) -> usize {
    let (mut at, mut end) = (leading_phrase(words, NEGATIONS), 0);
    if at == 0 {
        return 0;
    }
    while is_one_of(words, at, BEFORE_NAMES) {
        at += 1;
    }
    while let Some((count, found)) = named(&words[at..], names)
        && is_end_of_name(text, words, at + count - 1)
    {
        servers.extend(found);
        at += count;
        end = at;
        if !is_one_of(words, at, BETWEEN_NAMES) {
            break;
        }
        at += 1;
    }
    end
}

/// Returns the servers with whose name the words begin, and the number of words of that name.
fn named<'a>(words: &[Word<'_>], names: &'a ServerNames) -> Option<(usize, &'a [ServerNumber])> {
    (1..=MAX_NAME_WORDS.min(words.len())).rev().find_map(|count| {
        let name: String = words[..count].iter().map(|word| fold_name(word.text)).collect();
        Some((count, names.get(&name)?.as_slice()))
    })
}

/// Returns the servers that have tools which the search can find, by their ids and display names. Each name is also
/// included without generic words, e.g. `xero` for `xero-mcp-server`.
fn server_names(search: &Search<'_>) -> ServerNames {
    let is_visible = |slots: &[Slot]| {
        search.within.is_none_or(|within| slots.iter().any(|slot| within.contains(*slot)))
    };
    let mut names = ServerNames::default();
    let servers = search.view.catalog.servers();
    for (number, record) in servers.filter(|(_, record)| is_visible(&record.slots)) {
        let server = &record.server;
        for name in [Some(&*server.id), server.name.as_deref()].into_iter().flatten() {
            let mut short = words_of(name, MAX_ID_WORDS);
            short.retain(|word| !GENERIC_WORDS.contains(&&**word));
            for name in [fold_name(name), short.concat()] {
                if name.len() >= MIN_NAME_BYTES {
                    names.entry(name).or_default().push(number);
                }
            }
        }
    }
    names
}
