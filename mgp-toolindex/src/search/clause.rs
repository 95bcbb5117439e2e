//! Splits a query that asks for several things into clauses (MGP §16.5).
//!
//! A clause ends at the end of a sentence, before words that lead to another request (`then`, `also`, `, and`), and
//! before the beginning of another request: a question or a command (`show me`, `and book a hotel`). A comma alone ends
//! no clause: more often it separates words for the same thing.

use super::action::is_verb;
use crate::text::is_stop_word;

/// The maximum number of clauses of a query; the last one contains the rest of the text.
pub(super) const MAX_CLAUSES: usize = 8;

/// The minimum number of content words in a sentence that is a clause of its own.
const MIN_SENTENCE_WORDS: usize = 2;

/// The minimum number of content words in a clause within a sentence.
const MIN_PART_WORDS: usize = 3;

/// The minimum number of content words in a clause that begins like a request.
const MIN_REQUEST_WORDS: usize = 2;

/// Words that begin another request.
const SEPARATORS: &[&[&str]] = &[
    &["and", "then"],
    &["and", "also"],
    &["then"],
    &["also"],
    &["additionally"],
    &["furthermore"],
    &["moreover"],
    &["after", "that"],
    &["afterwards"],
    &["finally"],
    &["lastly"],
    &["as", "well", "as"],
    &["plus"],
    &["and", "while", "you", "are", "at", "it"],
    &["before", "you"],
    &["after", "you"],
];

/// Words that begin a request wherever they are.
const OPENINGS: &[&[&str]] = &[
    &["can", "you"],
    &["could", "you"],
    &["give", "me"],
    &["how", "can"],
    &["how", "do"],
    &["how", "far"],
    &["how", "is"],
    &["how", "long"],
    &["how", "many"],
    &["how", "much"],
    &["i", "need"],
    &["i", "want"],
    &["is", "it"],
    &["is", "there"],
    &["please"],
    &["remind", "me"],
    &["show", "me"],
    &["tell", "me"],
    &["what", "are"],
    &["what", "is"],
    &["what", "s"],
    &["what", "was"],
    &["what", "time"],
    &["when", "is"],
    &["where", "are"],
    &["where", "can"],
    &["where", "is"],
    &["which", "is"],
    &["who", "is"],
    &["will", "it"],
];

/// Words after a verb that show that it begins a command, and is not a noun: `book a hotel`, `search for papers`.
const AFTER_VERBS: &[&str] =
    &["a", "all", "an", "any", "every", "for", "me", "my", "some", "the", "their", "up", "your"];

/// Returns the clauses of a query; empty if the query is a single clause.
pub(super) fn clauses(text: &str) -> Vec<&str> {
    let mut all: Vec<ClauseRange> = Vec::new();
    for (start, end) in sentences(text) {
        let mut parts: Vec<ClauseRange> = Vec::new();
        for part in parts_of(text, start, end) {
            let least = if part.is_request { MIN_REQUEST_WORDS } else { MIN_PART_WORDS };
            join(&mut parts, ClauseRange::of(text, part.start, part.end), least);
        }
        for part in parts {
            join(&mut all, part, MIN_SENTENCE_WORDS);
        }
    }
    if all.len() > MAX_CLAUSES {
        let end = all[all.len() - 1].end;
        all.truncate(MAX_CLAUSES);
        all[MAX_CLAUSES - 1].end = end;
    }
    if all.len() < 2 {
        return Vec::new();
    }
    all.iter().map(|clause| text[clause.start..clause.end].trim()).collect()
}

/// A range of the text, and its number of content words.
#[derive(Clone, Copy, Debug)]
struct ClauseRange {
    start: usize,
    end: usize,
    words: usize,
}

impl ClauseRange {
    fn of(text: &str, start: usize, end: usize) -> Self {
        let words =
            words(&text[start..end]).filter(|(_, word)| !is_stop_word(&word.to_lowercase()));
        // A character of a script without spaces counts half a word.
        let halves: usize =
            words.map(|(_, word)| 2.max(word.chars().filter(|c| *c >= '\u{2e80}').count())).sum();
        Self { start, end, words: halves / 2 }
    }
}

/// Adds a clause; joins it with the last one if either is too short.
fn join(all: &mut Vec<ClauseRange>, next: ClauseRange, least: usize) {
    match all.last_mut() {
        Some(last) if next.words < least || last.words < least => {
            last.end = next.end;
            last.words += next.words;
        }
        _ => all.push(next),
    }
}

/// Returns the ranges of the sentences.
fn sentences(text: &str) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let ends = match c {
            '.' | '?' | '!' | ';' => chars.peek().is_none_or(|(_, next)| next.is_whitespace()),
            '\n' | '。' | '？' | '！' | '；' => true,
            _ => false,
        };
        if ends {
            let end = at + c.len_utf8();
            all.push((start, end));
            start = end;
        }
    }
    all.push((start, text.len()));
    all.retain(|(start, end)| !text[*start..*end].trim().is_empty());
    all
}

/// A part of a sentence.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: usize,
    end: usize,
    /// If set, the part begins like a request.
    is_request: bool,
}

/// Returns the parts of a sentence, without the separating words.
fn parts_of(text: &str, start: usize, end: usize) -> Vec<Part> {
    let sentence = &text[start..end];
    let words: Vec<(usize, &str)> = words(sentence).collect();
    let mut all = Vec::new();
    let (mut from, mut at, mut is_request) = (0, 0, false);
    while at < words.len() {
        let before = sentence[..words[at].0].trim_end();
        let after_comma = before.ends_with([',', ';']);
        let separated = separator(&words[at..], after_comma).max(number(sentence, &words[at..]));
        let is_joined = after_comma
            || before.ends_with([':', '-', '–', '&'])
            || at > 0 && is_conjunction(words[at - 1].1);
        if separated > 0 {
            let (last, word) = words[at + separated - 1];
            // No clause precedes a separator at the first word.
            if at > 0 {
                all.push(Part { start: start + from, end: start + words[at].0, is_request });
            }
            from = last + word.len();
            at += separated;
            is_request = opens(&words[at..], true);
        } else {
            let is_first = sentence[from..words[at].0].trim().is_empty();
            // `to book a room`, `can you show me` and `tell me what is` begin no request.
            let may_open = is_joined || at > 0 && !is_stop_word(&words[at - 1].1.to_lowercase());
            if at > 0 && !is_first && may_open && opens(&words[at..], is_joined) {
                let joint = words[at - 1];
                let end = if is_conjunction(joint.1) { joint.0 } else { words[at].0 };
                if end > from {
                    all.push(Part { start: start + from, end: start + end, is_request });
                }
                from = words[at].0;
                is_request = true;
            }
            at += 1;
        }
    }
    all.push(Part { start: start + from, end, is_request });
    all.retain(|part| part.start < part.end);
    all
}

/// Returns 1 if the first word is the number of an item, as in `1) read it 2) send it`.
fn number(sentence: &str, words: &[(usize, &str)]) -> usize {
    let Some((at, word)) = words.first() else { return 0 };
    let is_number = word.len() < 3 && word.bytes().all(|byte| byte.is_ascii_digit());
    usize::from(is_number && sentence[at + word.len()..].starts_with(')'))
}

fn is_conjunction(word: &str) -> bool {
    word.eq_ignore_ascii_case("and") || word.eq_ignore_ascii_case("or")
}

/// Returns whether words are the beginning of a request.
///
/// `is_joined` is `true` after a comma or `and`, where a verb alone suffices.
fn opens(words: &[(usize, &str)], is_joined: bool) -> bool {
    let begins = |opening: &&[&str]| {
        opening.len() < words.len()
            && opening.iter().zip(words).all(|(word, (_, own))| own.eq_ignore_ascii_case(word))
    };
    if OPENINGS.iter().any(begins) {
        return true;
    }
    let [(_, verb), (_, next), ..] = words else { return false };
    let next = next.to_lowercase();
    // `and save it` is about what the words before are about.
    let is_pronoun = matches!(&*next, "it" | "them" | "this" | "that" | "these" | "those");
    is_verb(&verb.to_lowercase()) && !is_pronoun && (is_joined || AFTER_VERBS.contains(&&*next))
}

/// Returns how many of the first words separate two requests; 0 if none do.
fn separator(words: &[(usize, &str)], after_comma: bool) -> usize {
    let begins = |separator: &&&[&str]| {
        separator.len() < words.len()
            && separator
                .iter()
                .zip(words)
                .all(|(separator, (_, word))| word.eq_ignore_ascii_case(separator))
    };
    match SEPARATORS.iter().find(begins) {
        Some(separator) => separator.len(),
        None if after_comma && words.len() > 1 && words[0].1.eq_ignore_ascii_case("and") => 1,
        None => 0,
    }
}

/// Returns the words of a text with their positions.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = text;
    std::iter::from_fn(move || {
        let from = rest.find(is_part)?;
        let word = &rest[from..];
        let word = &word[..word.find(|c| !is_part(c)).unwrap_or(word.len())];
        let at = text.len() - rest.len() + from;
        rest = &rest[from + word.len()..];
        Some((at, word))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(clauses(text), expected, "{text}");
    }

    #[test]
    fn several_requests_are_split() {
        check("read the log file", &[]);
        check(
            "Find flights to Rome. Then book a hotel near the station!",
            &["Find flights to Rome.", "book a hotel near the station!"],
        );
        check(
            "resize the holiday photos, and send an email to the accountant",
            &["resize the holiday photos,", "send an email to the accountant"],
        );
        check(
            "convert the big video file and then upload the small result somewhere",
            &["convert the big video file", "upload the small result somewhere"],
        );
        check("查询北京明天的天气。发送邮件给老板", &["查询北京明天的天气。", "发送邮件给老板"]);
    }

    #[test]
    fn a_short_part_is_not_a_clause() {
        check("download a file from a URL, save it, wget, curl", &[]);
        check("Hello! Show me the weather in Paris", &[]);
        check("list issues, and close", &[]);
        check("Then read the log file", &[]);
        check("version 1.2 of the e.g. file", &[]);
    }

    #[test]
    fn clauses_are_bounded() {
        let text = "count the red apples now. ".repeat(20);
        let all = clauses(&text);
        assert_eq!(all.len(), MAX_CLAUSES);
        assert!(all[MAX_CLAUSES - 1].len() > 200);
    }

    proptest! {
        #[test]
        fn any_text_has_valid_clauses(text in "\\PC{0,200}", joints in prop::collection::vec(0usize..5, 0..10)) {
            let separator = [". ", ", and ", " then ", "; ", "\n"];
            let pieces = joints.iter().flat_map(|at| [&*text, separator[*at]]);
            let text = pieces.collect::<String>();
            let all = clauses(&text);
            prop_assert!(all.len() <= MAX_CLAUSES && all.len() != 1);
            prop_assert!(all.iter().all(|clause| text.contains(clause)));
        }
    }
}
