//! The analysis of sentences: words of any language are mapped to concepts, and a rule matches a sentence that contains
//! certain concepts.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use super::rule::Rule;
use super::token::Token;

/// The maximum length, in characters, of a known word in a language that is written without blanks.
const DENSE_MAX: usize = 8;

/// The maximum length, in characters, of a stem in the lexicon. Only this part of a longer word is searched for stems,
/// because the time for the search grows with the square of the length.
const STEM_MAX: usize = 24;

/// The number of words before a clause within which a negation reverses its meaning.
const NEGATION_REACH: usize = 3;

/// A set of concepts, one bit each.
pub(super) type Concepts = u128;

/// A word of a text, with the concepts that it expresses.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties of a word")]
pub(super) struct Word {
    pub(super) concepts: Concepts,
    pub(super) range: Range<usize>,
    orders: bool,
    clause: bool,
    first: bool,
    begins: bool,
    starts: bool,
    negates: bool,
    /// The position of the word if its language is written without blanks.
    dense: Option<Dense>,
}

/// The position of a word in text that is written without blanks.
#[derive(Clone, Copy, Debug)]
struct Dense {
    /// The sequence number of the part of the text, e.g. between two commas.
    part: usize,
    /// `true` if the word is in hiragana. Such a negation is always behind its verb.
    is_kana: bool,
}

/// A part of a text that matches a clause of a rule.
pub(super) struct Match {
    pub(super) rule: Rule,
    /// The sequence number of the heading in `clauses.txt` below which the clause is listed.
    pub(super) group: usize,
    pub(super) weight: u32,
    pub(super) words: Range<usize>,
}

/// A required part of a clause: the text must contain one of several concepts.
struct Item {
    any: Concepts,
    orders: bool,
    /// `true` if an imperative in the first sentence of a description does not count.
    later: bool,
}

struct Clause {
    rule: Rule,
    group: usize,
    weight: u32,
    within: usize,
    /// `true` if the words must be in the order of the items. Words of languages without blanks can be in any order.
    ordered: bool,
    items: Vec<Item>,
    without: Concepts,
}

/// The mapping of words to concepts, and the clauses that rules search for.
struct Grammar {
    concepts: HashMap<&'static str, Concepts>,
    words: HashMap<&'static str, Concepts>,
    stems: HashMap<&'static str, Concepts>,
    clauses: Vec<Clause>,
}

static GRAMMAR: LazyLock<Grammar> =
    LazyLock::new(|| Grammar::read(include_str!("lexicon.txt"), include_str!("clauses.txt")));

/// A concept that is recognized by the form of a word, and the test for that form.
type Form = (&'static str, fn(&Token) -> bool);

/// The concepts that are recognized by the form of a word instead of the lexicon.
const FORMS: [Form; 7] = [
    ("secretfile", Token::is_secret_file),
    ("toolname", Token::is_tool),
    ("address", Token::is_address),
    ("path", Token::is_path),
    ("secretvar", Token::is_secret_variable),
    ("sender", Token::is_sender),
    ("private", Token::is_private),
];

impl Grammar {
    fn read(lexicon: &'static str, clauses: &'static str) -> Self {
        let (mut concepts, mut words, mut stems) =
            (HashMap::new(), HashMap::<_, Concepts>::new(), HashMap::<_, Concepts>::new());
        for (index, (name, _)) in FORMS.iter().enumerate() {
            concepts.insert(*name, 1 << index);
        }
        for line in lexicon.lines().skip_while(|line| !line.is_empty()).skip(1) {
            let mut parts = line.split_ascii_whitespace();
            let Some(name) = parts.next() else { continue };
            let bit = 1 << concepts.len();
            let bit = *concepts.entry(name).or_insert(bit);
            for word in parts {
                match word.strip_suffix('*') {
                    Some(stem) => *stems.entry(stem).or_default() |= bit,
                    None => *words.entry(word).or_default() |= bit,
                }
            }
        }
        let mut grammar = Self { concepts, words, stems, clauses: Vec::new() };
        let (mut rule, mut group) = (None, 0);
        for line in clauses.lines() {
            if let Some(heading) = line.strip_prefix("# ") {
                rule = Rule::ALL.iter().copied().find(|rule| rule.id() == heading);
                group += 1;
            } else if let Some(clause) = rule.and_then(|rule| grammar.clause(line, rule, group)) {
                grammar.clauses.push(clause);
            }
        }
        grammar
    }

    /// Parses a line of `clauses.txt`; returns `None` if the line is not a clause.
    fn clause(&self, line: &str, rule: Rule, group: usize) -> Option<Clause> {
        let mut parts = line.split_ascii_whitespace();
        let weight = parts.next()?;
        let ordered = weight.ends_with('>');
        let weight = weight.trim_end_matches('>').parse().ok()?;
        let within = parts.next()?.parse().ok()?;
        let (mut items, mut without) = (Vec::new(), 0);
        for part in parts {
            if let Some(concept) = part.strip_prefix('-') {
                without |= self.concepts.get(concept)?;
                continue;
            }
            let mut item = Item { any: 0, orders: false, later: false };
            for one in part.split('|') {
                item.orders |= one.starts_with(['^', '~']);
                item.later |= one.starts_with('~');
                item.any |= self.concepts.get(one.trim_start_matches(['^', '~']))?;
            }
            items.push(item);
        }
        Some(Clause { rule, group, weight, within, ordered, items, without })
    }

    fn concepts_of(&self, word: &str) -> Concepts {
        let stems =
            word.char_indices().take(STEM_MAX + 1).skip(2).map(|(at, _)| &word[..at]).chain([word]);
        let begun = stems.filter_map(|stem| self.stems.get(stem)).fold(0, |all, bit| all | bit);
        self.words.get(word).copied().unwrap_or_default() | begun
    }

    /// Returns the bit of a concept. Panics if `lexicon.txt` does not have the concept; every review would then panic,
    /// so the mistake cannot stay hidden.
    fn bit(&self, concept: &str) -> Concepts {
        self.concepts[concept]
    }
}

pub(super) fn words(tokens: &[Token]) -> Vec<Word> {
    let mut words = Vec::with_capacity(tokens.len());
    let mut part = 0;
    for (at, token) in tokens.iter().enumerate() {
        let is_continued = token.clause && at > 0 && is_open(&tokens[at - 1].word);
        part += usize::from(token.clause && !is_continued);
        let next = tokens.get(at + 1).filter(|next| !next.begins);
        if token.word.chars().any(is_dense) {
            dense(token, part, &mut words);
            continue;
        }
        words.push(spaced(token, next));
    }
    words
}

/// Analyses a word of a language that separates words with blanks. Also looks up the word together with the next one,
/// because a pair of words can have its own meaning.
fn spaced(token: &Token, next: Option<&Token>) -> Word {
    let mut concepts = 0;
    for spelling in token.spellings() {
        concepts |= GRAMMAR.concepts_of(spelling);
        if let Some(next) = next {
            concepts |= GRAMMAR.concepts_of(&format!("{spelling}+{}", next.word));
        }
    }
    for (index, (_, fits)) in FORMS.iter().enumerate() {
        concepts |= Concepts::from(fits(token)) << index;
    }
    let negates =
        ["not", "dont", "never", "without", "cannot", "no", "nor"].contains(&token.word.as_str());
    let Token { orders, clause, first, begins, starts, .. } = *token;
    Word {
        concepts,
        range: token.range.clone(),
        orders,
        clause,
        first,
        begins,
        starts,
        negates,
        dense: None,
    }
}

/// Returns whether a character belongs to a script that is written without blanks.
fn is_dense(c: char) -> bool {
    matches!(c, '\u{E01}'..='\u{E7F}' | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}')
}

/// Returns whether a part of a Chinese text still needs its verb, which then follows the comma: the part ends with a
/// negation, or has a word that puts the object or the manner before the verb.
fn is_open(part: &str) -> bool {
    const NEGATIONS: [&str; 7] = ["不要", "不能", "不得", "不可", "切勿", "禁止", "别"];
    const OPENINGS: [&str; 5] = ["把", "将", "將", "不要在任何", "不要以"];
    OPENINGS.iter().any(|word| part.contains(word))
        || NEGATIONS.iter().any(|end| part.ends_with(end))
}

/// Splits text that is written without blanks into words; each is the longest known word at its position.
fn dense(token: &Token, part: usize, words: &mut Vec<Word>) {
    let chars: Vec<(usize, char)> = token.word.char_indices().collect();
    let (mut at, mut begins, mut starts) = (0, token.begins, token.starts);
    while at < chars.len() {
        let latin = chars[at..].iter().take_while(|(_, c)| c.is_ascii()).count();
        if latin > 0 {
            let end = chars.get(at + latin).map_or(token.word.len(), |(end, _)| *end);
            let word = token.word[chars[at].0..end].to_owned();
            let latin_part = Token { word, begins, starts, orders: true, ..token.clone() };
            words.push(spaced(&latin_part, None));
            (at, begins, starts) = (at + latin, false, false);
            continue;
        }
        let ends = (1..=DENSE_MAX.min(chars.len() - at)).rev();
        let known = ends
            .map(|length| {
                let end = chars.get(at + length).map_or(token.word.len(), |(end, _)| *end);
                (length, GRAMMAR.words.get(&token.word[chars[at].0..end]).copied())
            })
            .find_map(|(length, concepts)| Some((length, concepts?)));
        let (length, concepts) = known.unwrap_or((1, 0));
        let is_kana = matches!(chars[at].1, '\u{3040}'..='\u{309F}');
        at += length;
        if concepts != 0 || begins || starts {
            let range = token.range.clone();
            let first = token.first;
            words.push(Word {
                concepts,
                range,
                orders: true,
                clause: true,
                first,
                begins,
                starts,
                negates: false,
                dense: Some(Dense { part, is_kana }),
            });
            (begins, starts) = (false, false);
        }
    }
}

pub(super) fn matches(words: &[Word]) -> Vec<Match> {
    let mut found = Vec::new();
    let mut start = 0;
    while start < words.len() {
        let length = words[start + 1..].iter().position(|word| word.begins);
        let end = length.map_or(words.len(), |length| start + 1 + length);
        let sentence = &words[start..end];
        let all = sentence.iter().fold(0, |all, word| all | word.concepts);
        let lines = concepts_of_lines(sentence);
        for clause in &GRAMMAR.clauses {
            if clause.items.iter().any(|item| all & item.any == 0) {
                continue;
            }
            if let Some(at) = clause.find(sentence, &lines) {
                let words = start + at.start..start + at.end;
                let (rule, group, weight) = (clause.rule, clause.group, clause.weight);
                found.push(Match { rule, group, weight, words });
            }
        }
        start = end;
    }
    found
}

impl Clause {
    /// Returns the words of a sentence that match this clause, or `None` if a concept is missing. `lines` has the
    /// concepts of the line of each word.
    fn find(&self, sentence: &[Word], lines: &[Concepts]) -> Option<Range<usize>> {
        // A negation in an earlier line may belong to something else, so it does not count.
        let negated = |at: usize| {
            let before = (at.saturating_sub(NEGATION_REACH)..at).rev();
            let mut line = before.take_while(|before| !sentence[before + 1].starts);
            line.any(|before| sentence[before].negates)
        };
        let any = self.items.iter().fold(0, |any, item| any | item.any);
        (0..sentence.len()).find_map(|start| {
            let word = &sentence[start];
            if word.concepts & any == 0 || !self.items.iter().any(|item| item.fits(word)) {
                return None;
            }
            let window = &sentence[start..sentence.len().min(start + self.within + 1)];
            // Check first whether the window has all concepts. Most windows of a long sentence lack one, and then the
            // search for words below is not needed.
            let all = window.iter().fold(0, |all, word| all | word.concepts);
            if self.items.iter().any(|item| all & item.any == 0) || negated(start) {
                return None;
            }
            let in_order = self.ordered && window.iter().all(|word| word.dense.is_none());
            let mut used: Vec<usize> = Vec::with_capacity(self.items.len());
            for item in &self.items {
                let from = used.last().filter(|_| in_order).map_or(0, |last| last + 1);
                let at = (from..window.len())
                    .find(|at| !used.contains(at) && item.fits(&window[*at]))?;
                used.push(at);
            }
            if !self.negates_verb(window, &used) {
                return None;
            }
            let found = start..start + used.iter().copied().max()? + 1;
            let is_excluded = lines[found.clone()].iter().any(|line| line & self.without != 0);
            (!is_excluded).then_some(found)
        })
    }

    /// Returns whether a negation belongs to the verb, which is the next item of the clause. In text without blanks, it
    /// must be in the same part, unlike in `do not guess, tell the user`, and in hiragana, it must be behind the verb.
    fn negates_verb(&self, window: &[Word], used: &[usize]) -> bool {
        let neg = GRAMMAR.bit("neg");
        self.items.iter().zip(used.windows(2)).filter(|(item, _)| item.any & neg != 0).all(
            |(_, pair)| match (window[pair[0]].dense, window[pair[1]].dense) {
                (Some(negation), Some(verb)) => {
                    negation.part == verb.part && (!negation.is_kana || pair[0] > pair[1])
                }
                _ => true,
            },
        )
    }
}

/// Returns, for each word of a sentence, the concepts of all words in its line.
fn concepts_of_lines(sentence: &[Word]) -> Vec<Concepts> {
    let lines = sentence.chunk_by(|_, next| !next.starts);
    let concepts = lines.flat_map(|line| {
        let all = line.iter().fold(0, |all, word| all | word.concepts);
        std::iter::repeat_n(all, line.len())
    });
    concepts.collect()
}

impl Item {
    fn fits(&self, word: &Word) -> bool {
        word.concepts & self.any != 0
            && (!self.orders || word.orders)
            && !(self.later && word.first)
    }
}

/// Returns whether a text only mentions the matching words, e.g. to describe what a scanner detects, instead of
/// addressing the reader with them.
///
/// Quoted words are only mentioned in two cases: if a word such as `detects` precedes them in their sentence, or if a
/// word such as `example` precedes them and the text has a word for detecting elsewhere. Words without quotes are only
/// mentioned if three conditions hold: a word for detecting precedes them; they name no file, tool or address; and they
/// are described as an attempt or do not begin a part of the sentence.
pub(super) fn is_topic(words: &[Word], at: &Range<usize>, quotes: &[Range<usize>]) -> bool {
    let [detect, attempt, example] = ["detect", "attempt", "example"].map(|name| GRAMMAR.bit(name));
    let begin = (0..=at.start).rev().find(|at| words[*at].starts).unwrap_or(0);
    let before = words[begin..at.start].iter().fold(0, |all, word| all | word.concepts);
    let quoted = |word: &Word| {
        let start = word.range.start;
        quotes.iter().any(|quote| quote.start <= start + 1 && start < quote.end)
    };
    if words[at.clone()].iter().all(quoted) {
        let anywhere = || words.iter().any(|word| word.concepts & detect != 0 && !quoted(word));
        return before & detect != 0 || (before & example != 0 && anywhere());
    }
    let targets = ["secretfile", "address", "toolname"].map(|name| GRAMMAR.bit(name));
    let has_target = words[at.clone()]
        .iter()
        .any(|word| targets.iter().any(|target| word.concepts & target != 0));
    before & detect != 0 && !has_target && (before & attempt != 0 || !words[at.start].clause)
}

/// Does the same as [`is_topic`] for a part of the text that is given as a range of bytes.
pub(super) fn is_topic_of(words: &[Word], part: &Range<usize>, quotes: &[Range<usize>]) -> bool {
    let start = words.partition_point(|word| word.range.start < part.start);
    let end = words.partition_point(|word| word.range.start < part.end);
    start < end && is_topic(words, &(start..end), quotes)
}

pub(super) fn quotes(text: &str) -> Vec<Range<usize>> {
    const PAIRS: [(char, char); 6] =
        [('"', '"'), ('“', '”'), ('«', '»'), ('「', '」'), ('`', '`'), ('\'', '\'')];
    const QUOTE_MAX: usize = 200;
    let mut found = Vec::new();
    let mut open: Option<(usize, char)> = None;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match open {
            Some((start, close)) if c == close => {
                found.push(start..at + 1);
                open = None;
            }
            Some((start, _)) if c == '\n' || at - start > QUOTE_MAX => open = None,
            None if !before.is_alphanumeric() => {
                let pair = PAIRS.iter().find(|(opens, _)| *opens == c);
                open = pair.map(|(_, close)| (at, *close));
            }
            _ => {}
        }
        before = c;
    }
    found
}

/// Returns the words of all sentences that instruct the reader to use or avoid certain tools.
pub(super) fn steered(tokens: &[Token]) -> impl Iterator<Item = &Token> {
    const STEERS: [&str; 8] =
        ["instead", "before", "always", "must", "replaces", "broken", "intercept", "through"];
    let steers = STEERS.iter().fold(0, |all, name| all | GRAMMAR.bit(name));
    let call = GRAMMAR.bit("call") | GRAMMAR.bit("whenever");
    tokens
        .chunk_by(|_, next| !next.starts)
        .filter(move |sentence| {
            words(sentence).iter().any(|word| {
                word.concepts & steers != 0 || (word.concepts & call != 0 && word.orders)
            })
        })
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_grammar_is_read() {
        let lines = include_str!("clauses.txt").lines();
        let clauses = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        // The grammar leaves out a clause with an unknown concept, or below an unknown heading, so check that it has
        // every clause.
        for line in clauses.clone() {
            assert!(GRAMMAR.clause(line, Rule::Override, 0).is_some(), "{line}");
        }
        assert_eq!(GRAMMAR.clauses.len(), clauses.count());
        let bits = GRAMMAR.concepts.values().fold(0, |all: Concepts, bit| all | bit);
        assert_eq!(GRAMMAR.concepts.len(), bits.count_ones() as usize, "a concept is a bit");
        assert!(GRAMMAR.stems.keys().all(|stem| stem.chars().count() <= STEM_MAX));
    }
}
