//! Detection of text that addresses the model: finds signs of such text and adds up their weights.

use std::collections::HashSet;
use std::ops::Range;

use super::clause;
use super::finding::{Finding, Severity};
use super::payload;
use super::phrases::{PHRASES, Phrase};
use super::plain::plain_text;
use super::rule::Rule;
use super::token::{Place, Token, tokens};

/// The sum of weights at which an operator must review a text before the tool can be used.
pub(super) const ENOUGH: u32 = 100;

/// If the weights of a text add up to at least this, operators see its findings with the tool. If they only add up to
/// at least [`NOTED`], the findings are noted as details.
const SHOWN: u32 = 60;
const NOTED: u32 = 30;

/// The names of the members of a tool's schemas, in lower case. These do not count as names of other tools.
pub(super) type Members = HashSet<String>;

/// The maximum length of a text that is analysed, in bytes. A longer text must be reviewed by an operator just because
/// of its length.
const READ_MAX: usize = 20_000;

/// A sign that a text addresses the model: its rule, its weight, and the matching text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sign {
    pub(super) rule: Rule,
    /// The group of the sign. Several signs with the same rule and group count only once.
    pub(super) group: usize,
    pub(super) weight: u32,
    pub(super) evidence: String,
    /// The place of the sign in the normalized text, if it is known.
    pub(super) range: Option<Range<usize>>,
}

/// Returns the findings about a text; `at` is the location of the text in the definition.
pub(super) fn findings(text: &str, at: &str, place: Place, members: &Members) -> Vec<Finding> {
    if text.len() > READ_MAX {
        return vec![Finding::new(Rule::Size, at, &format!("{} bytes", text.len()))];
    }
    let plain = plain_text(text);
    let mut signs = read(&plain, place, members);
    signs.extend(payload::signs(text, &plain));
    let severity = match signs.iter().map(|sign| sign.weight).sum::<u32>() {
        ENOUGH.. => Severity::Held,
        SHOWN.. => Severity::Flagged,
        NOTED.. => Severity::Noted,
        _ => return Vec::new(),
    };
    let is_same = text.is_ascii() && plain.len() == text.len();
    let finding = |sign: Sign| {
        let range = sign.range.filter(|_| is_same || sign.rule == Rule::Encoded);
        Finding { severity, range, ..Finding::new(sign.rule, at, &sign.evidence) }
    };
    signs.into_iter().map(finding).collect()
}

/// Returns the signs in the words of a normalized text.
pub(super) fn read(plain: &str, place: Place, members: &Members) -> Vec<Sign> {
    let spaced = if plain.is_ascii() { None } else { Some(with_blanks(plain)) };
    let plain = spaced.as_deref().unwrap_or(plain);
    let mut tokens = tokens(plain, place);
    for token in &mut tokens {
        token.is_member = members.contains(&token.word);
    }
    let mut signs = phrases(&tokens);
    let (words, quotes) = (clause::words(&tokens), clause::quotes(plain));
    signs.retain(|(_, at)| !clause::is_topic_of(&words, at, &quotes));
    for found in clause::matches(&words) {
        if clause::is_topic(&words, &found.words, &quotes) {
            continue;
        }
        let range = words[found.words.start].range.start..words[found.words.end - 1].range.end;
        signs.push((
            Sign {
                rule: found.rule,
                group: found.group + 1_000,
                weight: found.weight,
                evidence: plain[range.clone()].to_owned(),
                range: Some(range.clone()),
            },
            range,
        ));
    }
    let mut signs: Vec<_> = signs.into_iter().map(|(sign, _)| sign).collect();
    // Several phrases with the same meaning count as one sign, with the highest weight.
    signs.sort_by_key(|sign| (sign.rule, sign.group, std::cmp::Reverse(sign.weight)));
    signs.dedup_by_key(|sign| (sign.rule, sign.group));
    signs
}

/// Adds a space after each `。`, and after each `;`, `!` and `?` that a letter outside ASCII follows. Languages
/// written without spaces have none there, but the search for sentences needs one.
fn with_blanks(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        out.push(c);
        let is_end =
            matches!(c, ';' | '!' | '?') && chars.peek().is_some_and(|next| !next.is_ascii());
        if c == '。' || is_end {
            out.push(' ');
        }
    }
    out
}

/// Returns a sign for each phrase in the words of a text, with the place of the phrase.
fn phrases(words: &[Token]) -> Vec<(Sign, Range<usize>)> {
    let mut signs = Vec::new();
    // The end of the last phrase that instructs the model to ignore instructions in data. Such a phrase protects the
    // model, so words before its end do not count as an override.
    let mut protected = 0;
    for (start, word) in words.iter().enumerate() {
        for phrase in PHRASES.from(word).filter(|phrase| phrase.weight == 0) {
            let end = phrase.ends(words, start).filter(|end| is_about_data(words, start, *end));
            protected = protected.max(end.unwrap_or_default());
        }
        for phrase in PHRASES.from(word).filter(|phrase| phrase.weight > 0) {
            if start < protected && phrase.rule == Rule::Override {
                continue;
            }
            let Some(end) = phrase.ends(words, start) else { continue };
            if phrase.is_negated(words, start)
                || phrase.demands_consent(&words[start..end])
                || phrase.advises_user(words, start)
            {
                continue;
            }
            let evidence: Vec<_> =
                words[start..end].iter().map(|token| token.word.as_str()).collect();
            let range = words[start].range.start..words[end - 1].range.end;
            let sign = Sign {
                rule: phrase.rule,
                group: phrase.group,
                weight: phrase.weight,
                evidence: evidence.join(" "),
                range: Some(range.clone()),
            };
            signs.push((sign, range));
        }
    }
    signs
}

/// Returns whether a sentence is only about instructions in data, and not about the instructions that the model has.
fn is_about_data(words: &[Token], start: usize, end: usize) -> bool {
    const OWN: [&str; 14] = [
        "your",
        "you",
        "previous",
        "prior",
        "earlier",
        "above",
        "system",
        "developer",
        "user",
        "users",
        "original",
        "other",
        "safety",
        "all",
    ];
    let rest = words[end..].iter().take_while(|word| !word.begins);
    let mut sentence = words[start..end].iter().chain(rest);
    sentence.all(|word| !OWN.iter().any(|own| word.is(own)))
}

/// Returns whether a clause begins that makes an exception for what the user asks for, e.g. `unless asked`.
fn excepts(words: &[Token], at: usize) -> bool {
    let asks = |word: &Token| ["ask*", "request*", "want*", "need*"].iter().any(|ask| word.is(ask));
    words[at].is("unless") && words[at + 1..].iter().take(4).any(asks)
}

impl Phrase {
    /// Returns whether a negation reverses the meaning of the phrase, e.g. `never send passwords`.
    fn is_negated(&self, words: &[Token], start: usize) -> bool {
        const TURNS: [Rule; 5] =
            [Rule::Secrets, Rule::Conversation, Rule::Exfiltrate, Rule::Override, Rule::Decode];
        let before = words[start.saturating_sub(2)..start].iter().rev();
        let mut before = before.take_while(|_| !words[start].begins);
        TURNS.contains(&self.rule)
            && before.any(|word| ["not", "dont", "never", "avoid"].contains(&word.word.as_str()))
    }

    /// Returns whether the words negate one clause and require consent in the next one, e.g. `never apply it, ask the
    /// user for permission`.
    fn demands_consent(&self, words: &[Token]) -> bool {
        const DEMANDS: [&str; 6] = ["require", "ask", "request", "seek", "need", "wait"];
        let demands = |word: &Token| word.clause && DEMANDS.iter().any(|known| word.is(known));
        self.rule == Rule::Consent && words.iter().skip(2).any(demands)
    }

    /// Returns whether the words are advice for the user, e.g. `tell the user to keep it secret`.
    fn advises_user(&self, words: &[Token], start: usize) -> bool {
        let [.., user, to] = &words[..start] else { return false };
        let is_one_sentence = !words[start].begins && !to.begins;
        self.rule == Rule::Conceal
            && words[start].is("keep")
            && is_one_sentence
            && to.is("to")
            && (user.is("user") || user.is("users") || user.is("them"))
    }

    /// Returns the position after this phrase if the phrase begins at a given word.
    fn ends(&self, words: &[Token], start: usize) -> Option<usize> {
        let (first, rest) = self.slots.split_first()?;
        if !first.fits(&words[start]) {
            return None;
        }
        let mut at = start + 1;
        for slot in rest {
            let reach = words.len().min(at + slot.gap + 1);
            // A phrase must not extend into the next sentence.
            let found = (at..reach)
                .take_while(|index| !words[*index].begins)
                // A phrase with a negation inside does not match.
                .take_while(|index| slot.fits(&words[*index]) || !words[*index].is("not"))
                // In `do not mention X unless the user asks`, nothing is kept from the user.
                .take_while(|index| self.rule != Rule::Conceal || !excepts(words, *index))
                .find(|index| slot.fits(&words[*index]))?;
            at = found + 1;
        }
        Some(at)
    }
}
