//! Rewords English requests for a new thing if their verb does not show that the thing is new, e.g.
//! `open a pull request` or `file a bug` (MGP §16.5).

use super::word::{Word, is_one_of, words};
use crate::lexicon::Translation;

/// Verbs that people use to ask for one of [`THINGS`]; without such verbs, no query is reworded.
const VERBS: &[&str] = &["file", "lodge", "log", "open", "raise", "start"];

/// Verbs of [`VERBS`] that are also used with many other things, so that the thing must follow directly.
const VAGUE_VERBS: &[&str] = &["log", "start"];

/// The verb with which tools describe the creation of a thing.
const USUAL_VERB: &str = "create";

/// Words that can follow the verb if the thing does not exist yet, as in `open a ticket`, but not in `open the ticket`.
const BEFORE_NEW_THINGS: &[&str] = &["a", "an", "another", "new"];

/// Things that are created by opening, filing or raising them. Other things, such as a page, exist before they are
/// opened.
const THINGS: &[&str] = &[
    "bug",
    "complaint",
    "defect",
    "discussion",
    "incident",
    "issue",
    "mr",
    "pr",
    "request",
    "ticket",
];

/// The maximum number of words before the name of the thing, as in `high priority ticket`.
const MAX_WORDS_BEFORE: usize = 2;

/// The maximum number of words that are read from a text.
const MAX_WORDS: usize = 64;

/// Returns a query as a translation in which `create` replaces verbs such as `open` that ask for a new thing; `None` if
/// the query has no such verb.
pub(super) fn in_usual_words(text: &str) -> Option<Translation> {
    let all: Vec<Word<'_>> = words(text).take(MAX_WORDS).collect();
    let (mut reworded, mut copied) = (String::new(), 0);
    for (at, verb) in all.iter().enumerate() {
        if asks_to_create(&all, at) {
            reworded.push_str(&text[copied..verb.start]);
            reworded.push_str(USUAL_VERB);
            copied = verb.end();
        }
    }
    if copied == 0 {
        return None;
    }
    reworded.push_str(&text[copied..]);
    Some(Translation { text: reworded, ..Translation::default() })
}

/// Returns whether the word at a position is a verb that asks for a new thing.
fn asks_to_create(all: &[Word<'_>], verb: usize) -> bool {
    if !is_one_of(all, verb, VERBS) || !is_one_of(all, verb + 1, BEFORE_NEW_THINGS) {
        return false;
    }
    let mut at = verb + 1;
    while is_one_of(all, at, BEFORE_NEW_THINGS) {
        at += 1;
    }
    let most = if is_one_of(all, verb, VAGUE_VERBS) { 0 } else { MAX_WORDS_BEFORE };
    let is_content = |word: &&Word<'_>| !word.is_stop_word();
    let before = all.iter().skip(at).take(most).take_while(is_content).count();
    (at..=at + before).any(|at| is_one_of(all, at, THINGS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let reworded = in_usual_words(text).map(|translation| translation.text);
        assert_eq!(reworded.as_deref(), expected, "{text}");
    }

    #[test]
    fn a_verb_with_a_new_thing_becomes_the_usual_one() {
        check("open a pull request", Some("create a pull request"));
        check("Open an issue: typing error", Some("create an issue: typing error"));
        check("please raise a high priority ticket", Some("please create a high priority ticket"));
        check("file another bug", Some("create another bug"));
        check(
            "read it, then open a new merge request",
            Some("read it, then create a new merge request"),
        );
        check("open new issue", Some("create new issue"));
    }

    #[test]
    fn other_things_keep_their_verbs() {
        for text in [
            "open the pull request",
            "list open pull requests",
            "open a file with an issue",
            "open a page about the issue",
            "open an account",
            "start a server request log",
            "open",
            "",
        ] {
            check(text, None);
        }
    }
}
