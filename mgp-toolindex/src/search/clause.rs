//! Splits a query that asks for several things into clauses (MGP §16.5).
//!
//! A clause ends at the end of a sentence, before words that introduce another request (`then`, `also`, `, and`), and
//! before a question or a command (`show me`, `and book a hotel`). A comma alone does not end a clause, because it more
//! often separates words for the same thing.

use super::action::is_verb;
use super::word::{Word, leading_phrase, words};

/// The maximum number of clauses of a query. If the text has more clauses, the last clause contains all remaining text.
pub(super) const MAX_CLAUSES: usize = 8;

/// The minimum number of content words in a sentence that forms a separate clause.
const MIN_SENTENCE_WORDS: usize = 2;

/// The minimum number of content words in a clause that is only a part of a sentence.
const MIN_PART_WORDS: usize = 3;

/// The minimum number of content words in a clause that begins with the words of a request.
const MIN_REQUEST_WORDS: usize = 2;

/// Words that separate two clauses and belong to neither of them.
const SEPARATORS: &[&[&str]] = &[
    &["and", "also"],
    &["also"],
    &["additionally"],
    &["furthermore"],
    &["moreover"],
    &["as", "well", "as"],
    &["plus"],
];

/// Words that separate two steps in time, each of which is a separate request.
const STEP_SEPARATORS: &[&[&str]] = &[
    &["and", "then"],
    &["then"],
    &["after", "that"],
    &["afterwards"],
    &["finally"],
    &["lastly"],
    &["and", "while", "you", "are", "at", "it"],
    &["before", "you"],
    &["after", "you"],
];

/// Words that begin a request, at any position in a sentence.
const OPENINGS: &[&[&str]] = &[
    &["can", "you"],
    &["could", "you"],
    &["give", "me"],
    &["how", "are"],
    &["how", "can"],
    &["how", "did"],
    &["how", "do"],
    &["how", "does"],
    &["how", "far"],
    &["how", "is"],
    &["how", "long"],
    &["how", "many"],
    &["how", "much"],
    &["how", "should"],
    &["how", "was"],
    &["how", "will"],
    &["how", "would"],
    &["i", "need"],
    &["i", "want"],
    &["is", "it"],
    &["is", "there"],
    &["please"],
    &["remind", "me"],
    &["show", "me"],
    &["tell", "me"],
    &["what", "are"],
    &["what", "can"],
    &["what", "did"],
    &["what", "do"],
    &["what", "does"],
    &["what", "is"],
    &["what", "kind"],
    &["what", "s"],
    &["what", "shall"],
    &["what", "should"],
    &["what", "time"],
    &["what", "was"],
    &["what", "were"],
    &["what", "will"],
    &["what", "would"],
    &["when", "is"],
    &["where", "are"],
    &["where", "can"],
    &["where", "is"],
    &["which", "is"],
    &["who", "is"],
    &["will", "it"],
];

/// Words that introduce a question at the beginning of a clause.
const QUESTION_WORDS: &[&str] =
    &["how", "what", "when", "where", "which", "who", "whom", "whose", "why"];

/// Words that can precede a request without changing its meaning.
const FILLERS: &[&str] =
    &["first", "firstly", "just", "kindly", "next", "now", "please", "second", "so"];

/// Words that can follow a verb at the beginning of a command. After the first word of a command, they show that it is
/// a verb and not a noun, e.g. in `book a hotel` and `search for papers`.
const AFTER_VERBS: &[&str] =
    &["a", "all", "an", "any", "every", "for", "me", "my", "some", "the", "their", "up", "your"];

/// A clause, i.e. a part of the query that is scored separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clause<'a> {
    pub(super) text: &'a str,
    /// The index of the request to which the clause belongs. A clause that begins no new request belongs to the
    /// preceding request, or to the first request.
    pub(super) request: usize,
}

/// Returns the clauses of a query; empty if the query is a single clause.
pub(super) fn clauses(text: &str) -> Vec<Clause<'_>> {
    let mut all: Vec<ClauseRange> = Vec::new();
    for (start, end) in sentences(text) {
        let mut parts: Vec<ClauseRange> = Vec::new();
        for part in parts_of(text, start, end) {
            let least = |range: &ClauseRange| {
                if range.is_request { MIN_REQUEST_WORDS } else { MIN_PART_WORDS }
            };
            join(&mut parts, ClauseRange::of(text, part), least);
        }
        for part in parts {
            join(&mut all, part, |_| MIN_SENTENCE_WORDS);
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
    let mut request = 0;
    let mut found = false;
    all.iter()
        .map(|clause| {
            request += usize::from(clause.is_request && found);
            found |= clause.is_request;
            Clause { text: text[clause.start..clause.end].trim(), request }
        })
        .collect()
}

/// A clause as a range of the text, with its number of content words.
#[derive(Clone, Copy, Debug)]
struct ClauseRange {
    start: usize,
    end: usize,
    words: usize,
    /// `true` if the clause begins with the words of a request, e.g. `show me`.
    is_request: bool,
}

impl ClauseRange {
    fn of(text: &str, Part { start, end, is_request }: Part) -> Self {
        let words = words(&text[start..end]).filter(|word| !word.is_stop_word());
        // In a script without spaces, two characters count as one word, so count half words.
        let halves: usize =
            words.map(|word| 2.max(word.text.chars().filter(|c| *c >= '\u{2e80}').count())).sum();
        Self { start, end, words: halves / 2, is_request }
    }
}

/// Adds a clause to the list. Joins it with the preceding clause if one of these two clauses has fewer words than
/// `least` returns for it.
fn join(all: &mut Vec<ClauseRange>, next: ClauseRange, least: impl Fn(&ClauseRange) -> usize) {
    match all.last_mut() {
        Some(last) if next.words < least(&next) || last.words < least(last) => {
            last.end = next.end;
            last.words += next.words;
            last.is_request |= next.is_request;
        }
        _ => all.push(next),
    }
}

/// Returns the start and the end of each sentence in a text.
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

/// A part of a sentence that can become a clause.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: usize,
    end: usize,
    /// `true` if the part begins with the words of a request, e.g. `show me`.
    is_request: bool,
}

/// Returns the parts of a sentence, without the separating words.
fn parts_of(text: &str, start: usize, end: usize) -> Vec<Part> {
    let sentence = &text[start..end];
    let words: Vec<Word<'_>> = words(sentence).collect();
    let mut all = Vec::new();
    let (mut from, mut at, mut is_request) = (0, 0, begins_request(&words));
    if sentence.trim_start().starts_with(['-', '*', '•']) {
        is_request |= begins_step(&words);
    }
    // `first` is the index of the first word of the current part of the sentence, and `content` is the number of its
    // content words so far.
    let (mut first, mut content) = (0, 0);
    while at < words.len() {
        let before = sentence[..words[at].start].trim_end();
        let after_comma = before.ends_with([',', ';']);
        let Separator { words: separated, is_step } =
            separator(sentence, &words[at..], after_comma);
        let is_joined = after_comma
            || before.ends_with([':', '-', '–', '&'])
            || at > 0 && is_conjunction(words[at - 1]);
        if separated > 0 {
            // Add no clause if the sentence begins with the separator.
            if at > 0 {
                is_request |= is_step && begins_step(&words[first..]);
                all.push(Part { start: start + from, end: start + words[at].start, is_request });
            }
            from = words[at + separated - 1].end();
            at += separated;
            first = at;
            is_request = begins_request(&words[at..]) || is_step && begins_step(&words[at..]);
            content = 0;
        } else {
            let is_content = !words[at].is_stop_word();
            // No request begins at a verb that belongs to the words before it: after `to` (`to book a room`), in
            // `can you show me`, or in `tell me what is`. Also, no request begins at the second part of a word with a
            // hyphen (`a T-test for two groups`).
            let is_inner = before.len() == words[at].start && before.ends_with(['-', '–']);
            let may_open = !is_inner
                && (is_joined || content >= MIN_REQUEST_WORDS && !words[at - 1].is_stop_word());
            if content > 0 && may_open && opens(&words[at..], is_joined) {
                let joint = words[at - 1];
                let end = if is_conjunction(joint) { joint.start } else { words[at].start };
                if end > from {
                    all.push(Part { start: start + from, end: start + end, is_request });
                }
                from = words[at].start;
                first = at;
                is_request = true;
                content = 0;
            }
            content += usize::from(is_content);
            at += 1;
        }
    }
    all.push(Part { start: start + from, end, is_request });
    all.retain(|part| part.start < part.end);
    all
}

fn is_conjunction(word: Word<'_>) -> bool {
    word.is("and") || word.is("or")
}

/// Returns whether a clause begins with the words of a request, possibly after words such as `please`.
fn begins_request(words: &[Word<'_>]) -> bool {
    let words = without_fillers(words);
    opens(words, true) || words.first().is_some_and(|word| is_verb(&word.text.to_lowercase()))
}

/// Returns whether a numbered or listed step can begin with these words, i.e. with an article, `my` or a content word,
/// but not with words such as `to` or `for`.
fn begins_step(words: &[Word<'_>]) -> bool {
    let may_begin = |word: &Word<'_>| {
        ["a", "an", "the", "my"].iter().any(|article| word.is(article)) || !word.is_stop_word()
    };
    without_fillers(words).first().is_some_and(may_begin)
}

/// Returns the words without the fillers at their beginning, such as `please`.
fn without_fillers<'a, 'b>(words: &'a [Word<'b>]) -> &'a [Word<'b>] {
    let is_filler = |word: &&Word<'_>| FILLERS.contains(&&*word.text.to_lowercase());
    let count = words.iter().take_while(is_filler).count();
    &words[count..]
}

/// Returns whether these words begin a request.
///
/// If `is_joined` is `true`, the words follow a comma or `and`. Then a verb alone begins a request.
fn opens(words: &[Word<'_>], is_joined: bool) -> bool {
    if leading_phrase(words, OPENINGS) > 0 {
        return true;
    }
    let [first, next, ..] = words else { return false };
    let (first, next) = (first.text.to_lowercase(), next.text.to_lowercase());
    if is_joined && QUESTION_WORDS.contains(&&*first) {
        return true;
    }
    // In `and save it` or `and save this`, the pronoun refers to earlier words, so the verb begins no separate request.
    let is_pronoun = match &*next {
        "it" | "them" => true,
        "this" | "that" | "these" | "those" => words.len() == 2,
        _ => false,
    };
    is_verb(&first) && !is_pronoun && (is_joined || AFTER_VERBS.contains(&&*next))
}

/// The words that separate two clauses.
#[derive(Clone, Copy, Debug, Default)]
struct Separator {
    /// The number of words of the separator; 0 if the words begin with no separator.
    words: usize,
    /// `true` if the separator introduces a later step (`then`, `2)`), which can be a separate request.
    is_step: bool,
}

/// Returns the separator with which the words begin; a separator of no words if they begin with none.
fn separator(sentence: &str, words: &[Word<'_>], after_comma: bool) -> Separator {
    for (separators, is_step) in [(STEP_SEPARATORS, true), (SEPARATORS, false)] {
        let count = leading_phrase(words, separators);
        if count > 0 {
            return Separator { words: count, is_step };
        }
    }
    let [first, _, ..] = words else { return Separator::default() };
    if after_comma && first.is("and") {
        return Separator { words: 1, is_step: false };
    }
    // The number of a list item, as in `1) read it 2) send it`.
    let is_number = first.text.len() < 3
        && first.text.bytes().all(|byte| byte.is_ascii_digit())
        && sentence[first.end()..].starts_with(')');
    Separator { words: usize::from(is_number), is_step: is_number }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        clauses(text).iter().map(|clause| clause.text).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(texts(text), expected, "{text}");
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
    fn only_requests_are_counted() {
        let requests = |text: &str| -> Vec<usize> {
            clauses(text).iter().map(|clause| clause.request).collect()
        };
        assert_eq!(
            requests("open the report, read this page for me and who owns the domain"),
            [0, 1, 2]
        );
        assert_eq!(
            requests("I have two numbers: 36 and 48. Compute their greatest divisor."),
            [0, 0]
        );
        assert_eq!(
            requests("Compute the divisor of 36 and 48. The numbers are from a game."),
            [0, 0]
        );
        assert_eq!(requests("restaurants near the station, then tickets for the museum"), [0, 1]);
        assert_eq!(requests("1) museum tickets today 2) a flat in Lisbon"), [0, 1]);
        assert_eq!(requests("- museum tickets today\n- flats in Lisbon"), [0, 1]);
        assert_eq!(
            requests("measure from Paris to Rome, then to the old theatre in Athens"),
            [0, 0]
        );
    }

    #[test]
    fn a_short_part_is_not_a_clause() {
        check("download a file from a URL, save it, wget, curl", &[]);
        check("Hello! Show me the weather in Paris", &[]);
        check("list issues, and close", &[]);
        check("Then read the log file", &[]);
        check("version 1.2 of the e.g. file", &[]);
        check("run a two-sample T-test for the groups", &[]);
        check("rename the second Trello-list for Anna", &[]);
    }

    #[test]
    fn clauses_are_bounded() {
        let text = "count the red apples now. ".repeat(20);
        let all = clauses(&text);
        assert_eq!(all.len(), MAX_CLAUSES);
        assert!(all[MAX_CLAUSES - 1].text.len() > 200);
    }

    proptest! {
        #[test]
        fn any_text_has_valid_clauses(text in "\\PC{0,200}", joints in prop::collection::vec(0usize..5, 0..10)) {
            let separator = [". ", ", and ", " then ", "; ", "\n"];
            let pieces = joints.iter().flat_map(|at| [&*text, separator[*at]]);
            let text = pieces.collect::<String>();
            let all = clauses(&text);
            prop_assert!(all.len() <= MAX_CLAUSES && all.len() != 1);
            prop_assert!(all.iter().all(|clause| text.contains(clause.text)));
        }
    }
}
