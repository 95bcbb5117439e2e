//! Finds the changes and deletions that a query excludes: `archive it, do not delete it` (MGP §16.5).
//!
//! The search ignores a negated verb, and lowers the scores of tools whose names contain it; no tool is omitted. Only
//! negated commands count: `the page does not delete my files` describes a problem, and the user wants the deletion.

use std::borrow::Cow;
use std::ops::Range;

use super::action::{Actions, is_verb};
use super::view::View;
use super::weight::NEGATED_VERB_FACTOR;
use super::word::{Word, has_punctuation, is_one_of, words};
use crate::catalog::Slot;
use crate::lexicon::Translation;
use crate::text::{Analyzer, words_of};

/// Words that negate the command after them.
const NEGATIONS: &[&[&str]] = &[&["do", "not"], &["don", "t"], &["dont"], &["never"], &["not"]];

/// Words of an intention that can follow a negation, as in `I don't want to delete it`.
const INTENTIONS: &[&[&str]] =
    &[&["have", "to"], &["need", "to"], &["want", "to"], &["wish", "to"]];

/// Words after which a negation begins a command; after other words, it belongs to a statement.
const BEFORE_NEGATIONS: &[&str] = &["and", "but", "just", "please", "so", "then"];

/// Words after which `I don't want to …` is a wish of the user. In contrast, `so I don't have to …` only states a
/// purpose.
const BEFORE_WISHES: &[&str] = &["and", "because", "but"];

/// Words that negate a verb with the ending `-ing` after them.
const ALTERNATIVES: &[&[&str]] = &[&["instead", "of"], &["rather", "than"], &["without"]];

/// Words that can occur between a negation and its verb. `just` is not in the list, because `do not just delete it`
/// asks for more than a deletion.
const ADVERBS: &[&str] = &["actually", "ever", "even"];

/// Words that join two negated verbs.
const JOINTS: &[&str] = &["nor", "or"];

/// Pronouns after a negated verb, which are removed with the verb because they mean nothing without it.
const OBJECTS: &[&str] = &["any", "anything", "it", "them"];

/// Verbs whose negation requests something, as in `don't forget the milk`.
const POSITIVE_VERBS: &[&str] = &["forget", "forgetting", "leave", "leaving"];

/// The maximum number of words of a tool's name that are compared with the negated verbs.
const MAX_NAME_WORDS: usize = 4;

/// The maximum number of negations that are read from a text, and also from the original text of a translation.
const MAX_NEGATIONS: usize = 8;

/// The maximum number of words that are compared with the negated verbs after the negations were removed from the
/// query.
const MAX_WORDS: usize = 64;

/// The verbs that a query negates.
#[derive(Debug)]
pub(super) struct Negation {
    /// The stems of the negated verbs.
    stems: Vec<String>,
}

impl Negation {
    /// Finds the verbs that an English query negates, and removes them from the query. In a translated query, also
    /// finds the verbs that were negated in the original language, and removes all of them from the translation only.
    ///
    /// Returns `None` if no verb is negated, or if the query has no other words.
    pub(super) fn cut(
        text: &mut Cow<'_, str>,
        translation: Option<&mut Translation>,
        analyzer: &Analyzer,
    ) -> Option<Self> {
        let Some(translation) = translation else {
            let (rest, negation) = Self::of(text, &[], analyzer)?;
            *text = Cow::Owned(rest);
            return Some(negation);
        };
        let (rest, negation) = Self::of(&translation.text, &translation.negated, analyzer)?;
        translation.text = rest;
        Some(negation)
    }

    /// Finds the verbs that an English text negates, and the changes and deletions in the ranges `foreign`, which were
    /// negated before the text was translated. Returns them with the rest of the text.
    fn of(text: &str, foreign: &[Range<usize>], analyzer: &Analyzer) -> Option<(String, Self)> {
        let mut ranges = negated(text, analyzer);
        ranges.extend(foreign.iter().take(MAX_NEGATIONS).cloned());
        if ranges.is_empty() {
            return None;
        }
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        let (mut rest, mut copied, mut stems) = (String::new(), 0, Vec::new());
        for range in ranges {
            let (mut verbs, before) = (words_of(&text[range.clone()], MAX_WORDS), stems.len());
            verbs.retain(|verb| is_change(verb, analyzer));
            stems.extend(verbs.iter().map(|verb| analyzer.stem(verb)));
            if stems.len() > before && range.start >= copied {
                rest.push_str(&text[copied..range.start]);
                copied = range.end;
            }
        }
        rest.push_str(&text[copied..]);
        let others = words_of(&rest, MAX_WORDS);
        if stems.is_empty() || words(&rest).all(|word| word.is_stop_word()) {
            return None;
        }
        let others: Vec<String> = others.iter().map(|word| analyzer.stem(word)).collect();
        stems.retain(|stem| !others.contains(stem));
        stems.sort_unstable();
        stems.dedup();
        Some((rest, Self { stems }))
    }

    /// Returns the factor for the score of a tool; below 1 if its name has a negated verb.
    pub(super) fn factor(&self, view: &View<'_>, slot: Slot) -> f32 {
        let name = view.catalog.entry(slot).map(|entry| words_of(entry.name(), MAX_NAME_WORDS));
        let is_negated = |word: &String| self.stems.contains(&view.analyzer.stem(word));
        if name.is_some_and(|name| name.iter().any(is_negated)) { NEGATED_VERB_FACTOR } else { 1.0 }
    }
}

/// Returns the ranges of the negations in an English text, each with its verbs.
fn negated(text: &str, analyzer: &Analyzer) -> Vec<Range<usize>> {
    let all: Vec<Word<'_>> = words(text).collect();
    let (mut ranges, mut at) = (Vec::new(), 0);
    while at < all.len() && ranges.len() < MAX_NEGATIONS {
        let count = read(text, &all, at, analyzer).unwrap_or(0);
        if count > 0 {
            ranges.push(all[at].start..all[at + count - 1].end());
        }
        at += count.max(1);
    }
    ranges
}

/// Returns the number of words of a negation with its verbs that begins at a position; `None` if no negation begins
/// there.
fn read(text: &str, all: &[Word<'_>], at: usize, analyzer: &Analyzer) -> Option<usize> {
    let command = phrase_len_at(all, at, NEGATIONS);
    let mut verb = at + command.max(phrase_len_at(all, at, ALTERNATIVES));
    if verb == at {
        return None;
    }
    if command > 0 {
        let intention = phrase_len_at(all, verb, INTENTIONS);
        verb += intention;
        if !begins_command(text, all, at, intention) {
            return None;
        }
    }
    while is_one_of(all, verb, ADVERBS) {
        verb += 1;
    }
    let word = all.get(verb).map(|word| word.text.to_lowercase())?;
    // After `not`, the word must be a verb in its plain form: `not sending mails` and `not deleted files` are not
    // commands. After e.g. `without`, the word must be a verb with `-ing`, and not part of a noun as in
    // `without scheduling conflicts`. A word for a deletion always counts as a verb here, because
    // `without deleting files` is far more usual than such a noun.
    let is_negated = if command > 0 {
        is_verb(&word)
    } else {
        word.ends_with("ing")
            && (Actions::of_form(&word, analyzer).deletes()
                || all.get(verb + 1).is_none_or(Word::is_stop_word)
                || has_punctuation(text, all, verb))
    };
    if !is_negated || !is_change(&word, analyzer) || has_punctuation(text, all, verb - 1) {
        return None;
    }
    let mut end = verb + 1;
    while is_one_of(all, end, JOINTS)
        && all.get(end + 1).is_some_and(|word| is_change(&word.text.to_lowercase(), analyzer))
    {
        end += 2;
    }
    if is_one_of(all, end, OBJECTS) && !has_punctuation(text, all, end - 1) {
        end += 1;
    }
    Some(end - at)
}

/// Returns whether a command or a wish of the user begins with the negation at a position. `intention` is the number of
/// words of the intention (e.g. `want to`) after the negation.
fn begins_command(text: &str, all: &[Word<'_>], at: usize, intention: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return true };
    if has_punctuation(text, all, before) || is_one_of(all, before, BEFORE_NEGATIONS) {
        return true;
    }
    let is_wish = intention > 0 && is_one_of(all, before, &["i", "we"]);
    is_wish
        && before.checked_sub(1).is_none_or(|before| {
            has_punctuation(text, all, before) || is_one_of(all, before, BEFORE_WISHES)
        })
}

/// Returns the number of words of the phrase that begins at a position: the first of `phrases` that fits, or 0 if none
/// does.
fn phrase_len_at(all: &[Word<'_>], at: usize, phrases: &[&[&str]]) -> usize {
    let is_there = |phrase: &&&[&str]| {
        (0..phrase.len()).all(|word| is_one_of(all, at + word, &phrase[word..=word]))
    };
    phrases.iter().find(is_there).map_or(0, |phrase| phrase.len())
}

/// Returns whether a word in lower case is a form of a verb that changes or deletes something.
fn is_change(word: &str, analyzer: &Analyzer) -> bool {
    !POSITIVE_VERBS.contains(&word) && Actions::of_form(word, analyzer).changes_or_deletes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, rest: Option<&str>) {
        let negation = Negation::of(text, &[], &Analyzer::new());
        let found = negation.map(|(rest, negation)| {
            assert!(negation.stems.iter().all(|stem| !rest.contains(&**stem)), "{text}");
            rest.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        assert_eq!(found.as_deref(), rest, "{text}");
    }

    #[test]
    fn negated_verbs_are_not_searched_for() {
        check("do not delete, only archive", Some(", only archive"));
        check("archive the mail without deleting it", Some("archive the mail"));
        check("Archive the mail, but don't delete or move it", Some("Archive the mail, but"));
        check("I don\u{2019}t want to delete the note, hide it", Some("I the note, hide it"));
        check("move the file instead of copying the text", Some("move the file the text"));
        check("read the page. Never send mails", Some("read the page. mails"));
        check("rename the file, not remove it", Some("rename the file,"));
        check("archive it because I don't want to delete it", Some("archive it because I"));
    }

    #[test]
    fn statements_and_wishes_keep_their_verbs() {
        for text in [
            "the page does not delete my files",
            "I cannot remove the note",
            "files that I do not delete",
            "don't forget to send the mail",
            "a calendar without scheduling conflicts",
            "read a file without opening it",
            "whether or not to delete the note",
            "not sending mails, find the reason",
            "list the drafts, not deleted ones",
            "do not just delete the note, move it too",
            "sync the notes so I don't have to update them",
            "why does it not create the issue",
            "create an issue without labels",
            "add the do-not-merge label to the pull request",
            "set do_not_delete on the note",
            "do not delete",
            "do not, delete the note",
            "",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_verb_that_is_also_wanted_is_not_lowered() {
        let text = "delete the draft, do not delete the note";
        let (rest, negation) = Negation::of(text, &[], &Analyzer::new()).unwrap();
        assert_eq!((&*rest, negation.stems.len()), ("delete the draft,  the note", 0));
    }

    #[test]
    fn the_number_of_negations_is_bounded() {
        let text = "hide the note. ".to_owned() + &"Do not delete it. ".repeat(200);
        assert_eq!(negated(&text, &Analyzer::new()).len(), MAX_NEGATIONS);
    }
}
