//! Cuts a query that asks for several things into its clauses (MGP §16.5).
//!
//! A clause ends with its sentence, and before words that begin another wish (`then`, `also`, `, and`). A comma alone
//! ends nothing: what it separates is more often another word for the same thing.
//!
//! Applies to: inbound.

use crate::text::is_stop;

/// The most clauses of a query; what comes after belongs to the last one.
pub(super) const MOST: usize = 8;

/// Fewer words than this that say something are no sentence of their own.
const SENTENCE: usize = 2;

/// Fewer words than this are no part of a sentence of their own.
const PART: usize = 3;

/// Words that begin another wish.
const JOINTS: &[&[&str]] = &[
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
];

/// The clauses of a query; none if it has only one.
pub(super) fn clauses(text: &str) -> Vec<&str> {
    let mut all: Vec<Clause> = Vec::new();
    for (start, end) in sentences(text) {
        let mut parts: Vec<Clause> = Vec::new();
        for (start, end) in parts_of(text, start, end) {
            join(&mut parts, Clause::of(text, start, end), PART);
        }
        for part in parts {
            join(&mut all, part, SENTENCE);
        }
    }
    if all.len() > MOST {
        let end = all[all.len() - 1].end;
        all.truncate(MOST);
        all[MOST - 1].end = end;
    }
    if all.len() < 2 {
        return Vec::new();
    }
    all.iter().map(|clause| text[clause.start..clause.end].trim()).collect()
}

/// A piece of the text, and how many words of it say something.
#[derive(Clone, Copy, Debug)]
struct Clause {
    start: usize,
    end: usize,
    words: usize,
}

impl Clause {
    fn of(text: &str, start: usize, end: usize) -> Self {
        let words = words(&text[start..end]).filter(|(_, word)| !is_stop(&word.to_lowercase()));
        // A character of a script without spaces says half as much as a word.
        let halves: usize =
            words.map(|(_, word)| 2.max(word.chars().filter(|c| *c >= '\u{2e80}').count())).sum();
        Self { start, end, words: halves / 2 }
    }
}

/// Adds a piece, to the one before if one of both says too little.
fn join(all: &mut Vec<Clause>, next: Clause, least: usize) {
    match all.last_mut() {
        Some(last) if next.words < least || last.words < least => {
            last.end = next.end;
            last.words += next.words;
        }
        _ => all.push(next),
    }
}

/// Where the sentences begin and end.
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

/// Where the parts of a sentence begin and end; the words between two parts belong to none.
fn parts_of(text: &str, start: usize, end: usize) -> Vec<(usize, usize)> {
    let sentence = &text[start..end];
    let words: Vec<(usize, &str)> = words(sentence).collect();
    let mut all = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < words.len() {
        let after_comma = sentence[..words[at].0].trim_end().ends_with([',', ';']);
        match joint(&words[at..], after_comma) {
            0 => at += 1,
            length => {
                let (last, word) = words[at + length - 1];
                // Nothing stands before the first word.
                if at > 0 {
                    all.push((start + from, start + words[at].0));
                }
                from = last + word.len();
                at += length;
            }
        }
    }
    all.push((start + from, end));
    all.retain(|(start, end)| start < end);
    all
}

/// How many words at the beginning say that another wish follows.
fn joint(words: &[(usize, &str)], after_comma: bool) -> usize {
    let begins = |joint: &&&[&str]| {
        joint.len() < words.len()
            && joint.iter().zip(words).all(|(joint, (_, word))| word.eq_ignore_ascii_case(joint))
    };
    match JOINTS.iter().find(begins) {
        Some(joint) => joint.len(),
        None if after_comma && words.len() > 1 && words[0].1.eq_ignore_ascii_case("and") => 1,
        None => 0,
    }
}

/// The words of a text, with where they begin.
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
    fn several_wishes_are_told_apart() {
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
    fn what_says_too_little_is_no_clause() {
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
        assert_eq!(all.len(), MOST);
        assert!(all[MOST - 1].len() > 200);
    }

    proptest! {
        #[test]
        fn any_text_has_sound_clauses(text in "\\PC{0,200}", joints in prop::collection::vec(0usize..5, 0..10)) {
            let joint = [". ", ", and ", " then ", "; ", "\n"];
            let pieces = joints.iter().flat_map(|at| [&*text, joint[*at]]);
            let text = pieces.collect::<String>();
            let all = clauses(&text);
            prop_assert!(all.len() <= MOST && all.len() != 1);
            prop_assert!(all.iter().all(|clause| text.contains(clause)));
        }
    }
}
