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

/// The minimum sum of weights at which operators see the findings about a text with the tool. From [`NOTED`] to this
/// sum, the findings are only noted as details.
const SHOWN: u32 = 60;
const NOTED: u32 = 30;

/// The rules whose phrases are harmless if the text forbids the described action, e.g. `never send passwords`.
const TURNS: [Rule; 5] =
    [Rule::Secrets, Rule::Conversation, Rule::Exfiltrate, Rule::Override, Rule::Decode];

/// The maximum number of words between a ban such as `do not` and a phrase that belongs to it, e.g. `without asking`.
const BAN_REACH: usize = 8;

/// The maximum number of words after an option's description in a sentence about its default, e.g. `Defaults to false.`
const DEFAULT_MAX: usize = 4;

/// The verbs that a ban can forbid. Other verbs, e.g. in `do not delay, send it without their consent`, would reverse
/// the meaning.
const BANNED: &str = "merge read close delete remove send forward share post publish deploy run \
    execute call called use used invoke modify change edit update create add write overwrite \
    commit push apply make place submit pay transfer buy purchase order book cancel accept sign \
    install start restart disable enable drop move rename archive grant revoke upload download \
    proceed perform access open schedule invite reply fill enter release reset done";

/// The maximum number of words that are searched for a mention of the model's own instructions, in a sentence that
/// orders a model to ignore instructions in data. A longer sentence counts as one about the model's own instructions.
const SENTENCE_MAX: usize = 100;

/// The names of the members of a tool's schemas, in lower case. These do not count as names of other tools.
pub(super) type Members = HashSet<String>;

/// The maximum length of a text that is analysed, in bytes. A longer text must be reviewed by an operator just because
/// of its length.
pub(super) const READ_MAX: usize = 20_000;

/// A sign that a text addresses the model: its rule, its weight, and the matching text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sign {
    pub(super) rule: Rule,
    /// The group of the sign. Several signs with the same rule and group count only once.
    pub(super) group: usize,
    pub(super) weight: u32,
    pub(super) evidence: String,
    /// The byte range of the sign in the normalized text, if it is known.
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
    let sum = signs.iter().map(|sign| sign.weight).sum::<u32>();
    let severity = match sum {
        ENOUGH.. => Severity::Held,
        SHOWN.. => Severity::Flagged,
        NOTED.. => Severity::Noted,
        _ => return Vec::new(),
    };
    let is_same = text.is_ascii() && plain.len() == text.len();
    let finding = |sign: Sign| {
        let range = sign.range.filter(|_| is_same || sign.rule == Rule::Encoded);
        // If the other signs are enough, a weak sign such as `IMPORTANT` is shown only as a detail.
        let is_detail = sign.weight <= NOTED && sum - sign.weight >= ENOUGH;
        let severity = if is_detail { Severity::Noted } else { severity };
        Finding { severity, range, ..Finding::new(sign.rule, at, &sign.evidence) }
    };
    signs.into_iter().map(finding).collect()
}

/// Returns the signs in the words of a normalized text.
pub(super) fn read(plain: &str, place: Place, members: &Members) -> Vec<Sign> {
    let spaced = if plain.is_ascii() { None } else { Some(with_blanks(plain)) };
    let plain = spaced.as_deref().unwrap_or(plain);
    let mut tokens = tokens(plain, place);
    for at in 0..tokens.len() {
        // A name before `environment variable` can look like that of a tool. Treat it like a member of the schemas, so
        // that it does not count as a tool.
        let next = tokens.get(at + 1..at + 3).unwrap_or_default();
        let is_variable = matches!(next, [kind, name]
            if (kind.is("environment") || kind.is("env")) && name.is("var*"));
        tokens[at].is_member = is_variable || members.contains(&tokens[at].word);
    }
    let harmless = harmless(&tokens);
    let mut signs = phrases(&tokens, &harmless);
    let (words, quotes) = (clause::words(&tokens), clause::quotes(plain));
    signs.retain(|(_, at)| !clause::is_topic_of(&words, at, &quotes));
    for found in clause::matches(&words) {
        if clause::is_topic(&words, &found.words, &quotes) {
            continue;
        }
        let range = words[found.words.start].range.start..words[found.words.end - 1].range.end;
        let is_harmless = harmless.iter().any(|part| part.excuses(found.rule, &range));
        if is_harmless && found.rule != Rule::Override {
            continue;
        }
        signs.push((
            Sign {
                rule: found.rule,
                group: found.group + 1_000,
                weight: found.weight,
                evidence: plain[range.clone()].replace('\n', " "),
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

/// Adds a space after each `。`, after each `,`, `;`, `!` and `?` that a letter outside ASCII follows, and around
/// quotations. Languages written without spaces have none there, but the searches for sentences, clauses and quotations
/// need them.
fn with_blanks(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if matches!(c, '“' | '「') {
            out.push(' ');
        }
        out.push(c);
        let is_end =
            matches!(c, ',' | ';' | '!' | '?') && chars.peek().is_some_and(|next| !next.is_ascii());
        if matches!(c, '。' | '”' | '」') || is_end {
            out.push(' ');
        }
    }
    out
}

/// A part of a text that matches a phrase of weight 0. Such a phrase shows that other words are harmless.
struct Harmless {
    rule: Rule,
    /// The byte range of the part in the normalized text.
    range: Range<usize>,
}

impl Harmless {
    /// Returns whether this part shows that other words of the text, which match a rule, are harmless.
    fn excuses(&self, rule: Rule, words: &Range<usize>) -> bool {
        let is_inside = match rule {
            // An order to ignore instructions in data protects the model, so an override cannot begin within it.
            Rule::Override => self.range.contains(&words.start),
            _ => self.range.start < words.end && words.end <= self.range.end,
        };
        self.rule == rule && is_inside
    }
}

/// Returns the parts of a text that match phrases of weight 0.
fn harmless(words: &[Token]) -> Vec<Harmless> {
    let mut found = Vec::new();
    for (start, word) in words.iter().enumerate() {
        for phrase in PHRASES.from(word).filter(|phrase| phrase.weight == 0) {
            let Some(end) = phrase.ends(words, start) else { continue };
            if phrase.rule != Rule::Override || is_about_data(words, start, end) {
                let range = words[start].range.start..words[end - 1].range.end;
                found.push(Harmless { rule: phrase.rule, range });
            }
        }
    }
    found
}

/// Returns a sign for each phrase in the words of a text, with the byte range of the phrase.
fn phrases(words: &[Token], harmless: &[Harmless]) -> Vec<(Sign, Range<usize>)> {
    let mut signs = Vec::new();
    for (start, word) in words.iter().enumerate() {
        for phrase in PHRASES.from(word).filter(|phrase| phrase.weight > 0) {
            let Some(end) = phrase.ends(words, start) else { continue };
            let range = words[start].range.start..words[end - 1].range.end;
            if harmless.iter().any(|part| part.excuses(phrase.rule, &range))
                || phrase.is_negated(words, start)
                || phrase.is_banned(words, start)
                || phrase.is_apart(words, start, end)
                || phrase.demands_consent(&words[start..end])
                || phrase.advises_user(words, start)
            {
                continue;
            }
            let evidence: Vec<_> =
                words[start..end].iter().map(|token| token.word.as_str()).collect();
            let is_option = phrase.describes_option(words, start..end);
            let sign = Sign {
                rule: phrase.rule,
                group: phrase.group,
                weight: if is_option { phrase.weight.min(SHOWN) } else { phrase.weight },
                evidence: evidence.join(" "),
                range: Some(range.clone()),
            };
            signs.push((sign, range));
        }
    }
    signs
}

/// Words for the model's own instructions, in contrast to instructions in data.
const OWN: &[&str] = &[
    "your",
    "you",
    "previous",
    "prior",
    "earlier",
    "above",
    "system*",
    "developer",
    "user",
    "users",
    "original",
    "other",
    "safety",
    "all",
    "but",
    "except",
    "unless",
    "auch",
    "außer",
    "nur",
    "sondern",
    "benutzer*",
    "nutzer*",
    "erhalten*",
    "alle*",
    "sämtlich*",
    "gesamt*",
    "bestehend*",
    "vorherig*",
    "bisherig*",
    "vorig*",
    "ursprünglich*",
    "deine*",
    "ihre*",
    "davor",
    "entwickler*",
    "précédent*",
    "antérieur*",
    "système",
    "utilisateur*",
    "reçu*",
    "sauf",
    "mais",
    "vous",
    "développeur*",
    "toutes",
    "tous",
    "vos",
    "tes",
    "anterior*",
    "previa*",
    "previo*",
    "inicial*",
    "sistema",
    "usuario*",
    "recib*",
    "salvo",
    "excepto",
    "sino",
    "pero",
    "tus",
];

/// Returns whether a sentence is only about instructions in data, and not about the instructions that the model has.
fn is_about_data(words: &[Token], start: usize, end: usize) -> bool {
    let rest = words[end..].iter().take(SENTENCE_MAX + 1).take_while(|word| !word.begins).count();
    let mut sentence = words[start..end + rest].iter();
    rest <= SENTENCE_MAX && sentence.all(|word| !OWN.iter().any(|own| word.is(own)))
}

/// Returns whether the words from `at` on begin an exception for what the user asks for, e.g. `unless asked`.
fn excepts(words: &[Token], at: usize) -> bool {
    let asks = |word: &Token| ["ask*", "request*", "want*", "need*"].iter().any(|ask| word.is(ask));
    words[at].is("unless") && words[at + 1..].iter().take(4).any(asks)
}

/// Returns whether a negation belongs to a condition or a statement, e.g. `if you are not logged in`.
fn is_condition(words: &[Token], at: usize) -> bool {
    const CONDITIONS: [&str; 8] = ["if", "when", "is", "are", "was", "were", "youre", "its"];
    words[at].is("not") && at > 0 && CONDITIONS.iter().any(|condition| words[at - 1].is(condition))
}

/// Returns whether a word begins a phrase such as `without asking the user`; a phrase such as `without exception` does
/// not count.
fn demands_after(words: &[Token], at: usize) -> bool {
    const ASKS: [&str; 20] = [
        "ask*",
        "request*",
        "seek*",
        "get*",
        "obtain*",
        "receiv*",
        "confirm*",
        "consult*",
        "inform*",
        "user*",
        "human*",
        "their",
        "consent",
        "permission*",
        "approv*",
        "explicit*",
        "express",
        "prior",
        "written",
        "first",
    ];
    let mut next = words[at + 1..].iter().take(2).take_while(|word| !word.clause);
    words[at].is("without") && next.any(|word| ASKS.iter().any(|ask| word.is(ask)))
}

/// Returns whether a ban such as `do not merge` begins at a word and includes all words up to a later one.
fn bans(words: &[Token], at: usize, end: usize) -> bool {
    const BANS: [&str; 6] = ["dont", "never", "cannot", "cant", "mustnt", "shouldnt"];
    const VERBS: [&str; 8] = ["do", "does", "must", "should", "shall", "may", "can", "will"];
    const FILLERS: [&str; 6] = ["be", "ever", "to", "try", "attempt", "automatically"];
    // Words after which the ban does not apply, e.g. `do not reply but send it without their consent`.
    const ENDS: [&str; 10] =
        ["and", "but", "then", "just", "without", "only", "so", "while", "which", "that"];
    let is_not = words[at].is("not") && at > 0 && VERBS.contains(&words[at - 1].word.as_str());
    let mut rest = words[at + 1..end].iter().map(|word| word.word.as_str());
    let is_whole = !rest.clone().any(|word| ENDS.contains(&word));
    let verb = rest.find(|word| !FILLERS.contains(word));
    (is_not || BANS.contains(&words[at].word.as_str()))
        && is_whole
        && verb.is_some_and(|verb| BANNED.split_ascii_whitespace().any(|known| known == verb))
}

impl Phrase {
    /// Returns whether a negation reverses the meaning of the phrase, e.g. `never send passwords`.
    fn is_negated(&self, words: &[Token], start: usize) -> bool {
        let before = words[start.saturating_sub(2)..start].iter().rev();
        let mut before = before.take_while(|_| !words[start].starts);
        TURNS.contains(&self.rule)
            && before.any(|word| ["not", "dont", "never", "avoid"].contains(&word.word.as_str()))
    }

    /// Returns whether the words are part of a ban, e.g. `without the user's consent` after `do not merge it`.
    fn is_banned(&self, words: &[Token], start: usize) -> bool {
        if !matches!(self.rule, Rule::Conceal | Rule::Consent)
            || !words[start].is("without")
            || words[start].clause
        {
            return false;
        }
        // An exception that follows (`unless …`) lifts the ban.
        let mut rest = words[start..].iter().take(BAN_REACH).take_while(|word| !word.begins);
        if rest.any(|word| word.is("unless")) {
            return false;
        }
        let reach = start.saturating_sub(BAN_REACH);
        let clause = words[reach..start].iter().rposition(|word| word.clause).unwrap_or(0);
        (reach + clause..start).any(|at| bans(words, at, start))
    }

    /// Returns whether the negation belongs to a condition before the phrase's other words, e.g. `if it is not found,
    /// tell the user`.
    fn is_apart(&self, words: &[Token], start: usize, end: usize) -> bool {
        self.rule == Rule::Conceal
            && is_condition(words, start)
            && words[start + 1..end].iter().any(|word| word.clause)
    }

    /// Returns whether the words describe an option of the tool. For this they must be the whole text of a parameter,
    /// e.g. `Don't ask for confirmation.`, except for a short sentence about its default. In the description of a tool,
    /// the same words are an order.
    fn describes_option(&self, words: &[Token], part: Range<usize>) -> bool {
        let is_user = |word: &Token| ["user", "users", "human"].iter().any(|known| word.is(known));
        self.rule == Rule::Consent
            && part.start == 0
            && !words[0].first
            && words.get(part.end).is_none_or(|next| next.starts && next.is("default*"))
            && words.len() - part.end <= DEFAULT_MAX
            && !words[part].iter().any(is_user)
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
                .take_while(|index| {
                    let word = &words[*index];
                    let negates =
                        word.is("not") || (word.is("never") && TURNS.contains(&self.rule));
                    slot.fits(word) || !negates
                })
                // Nothing is kept from the user in `do not mention X unless the user asks`. In `if you are not logged
                // in please inform the user`, the negation is about something else.
                .take_while(|index| {
                    self.rule != Rule::Conceal
                        || !(excepts(words, *index)
                            || (words[*index].is("please") && is_condition(words, start)))
                })
                // Stop at such words: in `never send it without asking the user`, the two negations together demand the
                // user's consent.
                .take_while(|index| {
                    self.rule != Rule::Consent
                        || slot.fits(&words[*index])
                        || !demands_after(words, *index)
                })
                .find(|index| slot.fits(&words[*index]))?;
            at = found + 1;
        }
        Some(at)
    }
}
