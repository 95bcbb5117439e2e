//! A parsed query: the words to look up, and the vectors of the whole query and of its clauses (MGP §16.5).

use super::clause::{Clause, clauses};
use super::weight::{
    CERTAIN_HINT_WEIGHT, NEXT_RELATED_WEIGHT, ORIGINAL_WORD_WEIGHT, PAIR_HINT_WEIGHT,
    RELATED_WEIGHT, WORD_HINT_WEIGHT, Weights,
};
use super::wording::Wording;
use super::{FallbackReason, View};
use crate::lexicon::{calculator, related, relations};
use crate::text::{Analyzer, Field, QueryWords, Term, words_and_abbreviations_of};

/// The maximum number of words of a unit (the query or a clause) that are passed to [`relations`]. That function
/// accepts one word fewer, so it returns nothing for a longer unit.
const MAX_HINT_WORDS: usize = 25;

/// The maximum length, in words, of a unit that gets related words; only pasted documents are longer.
const MAX_RELATED_WORDS: usize = 256;

#[derive(Debug)]
pub(super) struct ParsedQuery<'a> {
    /// All words of the query, for the look-up in the texts of tools.
    pub(super) words: QueryWords,
    /// The same words, for the look-up in the names of tools only.
    pub(super) names: QueryWords,
    /// The words that tools use for the everyday words of the query. The list has them twice: first for the look-up in
    /// texts, then for the look-up in names.
    pub(super) hints: QueryWords,
    /// The whole query, then its clauses.
    pub(super) units: Vec<Unit<'a>>,
}

/// A part of the query that is scored separately: the whole query or a clause.
#[derive(Debug)]
pub(super) struct Unit<'a> {
    pub(super) text: &'a str,
    /// The request that contains the clause, e.g. 1 for the second request in `find the file, then mail it`; always 0
    /// if the unit is the whole query.
    pub(super) request: usize,
    /// The indices of the unit's words in `ParsedQuery::words`.
    pub(super) terms: Vec<usize>,
    /// The vector of the text; `None` if the search needs no vector, or if the embedder knows no word of the text.
    pub(super) vector: Option<Vec<f32>>,
    /// The words that tools use for the everyday words of the unit.
    pub(super) hint: Hint,
}

/// The words that tools use for the everyday words of a unit, e.g. `weather` for `umbrella`.
#[derive(Debug, Default)]
pub(super) struct Hint {
    /// The indices of words in `ParsedQuery::hints`, each with its weight.
    pub(super) terms: Vec<(usize, f32)>,
    /// The words that tools use for those everyday words of the unit that rarely mean anything else.
    text: String,
    /// The vector of `text`.
    pub(super) vector: Option<Vec<f32>>,
}

impl<'a> ParsedQuery<'a> {
    /// Parses the words and the clauses of a query.
    pub(super) fn new(wording: &'a Wording<'_>, analyzer: &Analyzer, weights: Weights) -> Self {
        let text = wording.searched();
        let mut words = query_words(wording, analyzer);
        let terms = (0..words.terms.len()).collect();
        let mut hints = QueryWords::default();
        let hint = hint_of(text, &words, &mut hints, analyzer);
        let mut units = vec![Unit { text, request: 0, terms, vector: None, hint }];
        for Clause { text, request } in clauses(text) {
            let mut own = analyzer.query(text);
            add_related(text, &mut own, analyzer);
            let index = |term: &Term| words.terms.iter().position(|word| word.text == term.text);
            let terms = own.terms.iter().filter_map(index).collect();
            let hint = hint_of(text, &own, &mut hints, analyzer);
            units.push(Unit { text, request, terms, vector: None, hint });
        }
        if weights.words == 0.0 {
            words.terms.clear();
            hints.terms.clear();
            for unit in &mut units {
                unit.terms.clear();
                unit.hint = Hint::default();
            }
        }
        let in_name = |term: &Term| Term {
            weight: term.weight * weights.name,
            place: Field::Name,
            ..term.clone()
        };
        let names = QueryWords {
            terms: words.terms.iter().map(in_name).collect(),
            ..QueryWords::default()
        };
        hints.terms.extend(hints.terms.iter().map(in_name).collect::<Vec<_>>());
        Self { words, names, hints, units }
    }

    /// Computes the vectors of the units and of their hints. If the whole query gets no vector, returns the reason as
    /// an error, so that the search can use words only.
    pub(super) fn embed(&mut self, view: &View<'_>) -> Result<(), FallbackReason> {
        let (Some(embedder), Some(table)) = (view.embedder, view.vectors) else {
            return Err(FallbackReason::NoEmbedder);
        };
        // Use no vectors while most tools have none, because the few tools with a vector would be ranked before all
        // others.
        if !view.has_enough_vectors(table) {
            return Err(FallbackReason::Embedding);
        }
        for unit in &mut self.units {
            let vector = embedder.embed(unit.text);
            let vector =
                vector.map_err(|error| FallbackReason::EmbedderFailed(error.to_string()))?;
            unit.vector = unit_length(vector);
            if !unit.hint.text.is_empty() {
                unit.hint.vector = embedder.embed(&unit.hint.text).ok().and_then(unit_length);
            }
        }
        match self.units[0].vector {
            Some(_) => Ok(()),
            None => Err(FallbackReason::NoMeaning),
        }
    }

    /// Returns the texts of the requests; empty if the query is a single request.
    pub(super) fn request_texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for unit in &self.units[1..] {
            let text = unit.text.trim_end_matches([',', ';', ' ']);
            match texts.get_mut(unit.request) {
                Some(request) => {
                    request.push(' ');
                    request.push_str(text);
                }
                None => texts.push(text.to_owned()),
            }
        }
        if texts.len() > 1 { texts } else { Vec::new() }
    }

    /// Returns the vectors of the units, each with the index of its unit.
    pub(super) fn vectors(&self) -> impl Iterator<Item = (usize, &[f32])> {
        let units = self.units.iter().enumerate();
        units.filter_map(|(index, unit)| Some((index, unit.vector.as_deref()?)))
    }
}

/// Returns the words of the whole query, with related words.
///
/// If the query has a translation, its original words are also looked up, with a low weight.
fn query_words(wording: &Wording<'_>, analyzer: &Analyzer) -> QueryWords {
    let text = wording.searched();
    let mut words = analyzer.query(text);
    let Some(translation) = &wording.translation else {
        add_related(text, &mut words, analyzer);
        return words;
    };
    for (word, weight) in &translation.lesser {
        let stem = analyzer.stem(word);
        if let Some(term) = words.terms.iter_mut().find(|term| term.text == stem) {
            term.weight = *weight;
        }
    }
    add_related(text, &mut words, analyzer);
    for term in analyzer.query(&wording.text).terms {
        words.add(&term.text, ORIGINAL_WORD_WEIGHT * term.weight);
    }
    words
}

/// Adds words with a meaning related to words of the query, with lower weights.
///
/// The added words do not affect vectors, because vectors already express related meanings.
fn add_related(text: &str, words: &mut QueryWords, analyzer: &Analyzer) {
    for word in calculator(text) {
        words.add(&analyzer.stem(word), 1.0);
    }
    for own in words_and_abbreviations_of(text, MAX_RELATED_WORDS) {
        let stem = analyzer.stem(&own);
        if words.terms.iter().all(|term| term.text != stem || term.weight < 1.0) {
            continue;
        }
        let mut weight = RELATED_WEIGHT;
        for word in related(&own) {
            let stem = analyzer.stem(word);
            if words.terms.iter().all(|term| term.text != stem) {
                words.add(&stem, weight);
            }
            weight *= NEXT_RELATED_WEIGHT;
        }
    }
}

/// Returns the words that tools use for the everyday words of a unit, and adds them to `hints`. `own` has the unit's
/// own words.
fn hint_of(text: &str, own: &QueryWords, hints: &mut QueryWords, analyzer: &Analyzer) -> Hint {
    let all = words_and_abbreviations_of(text, MAX_HINT_WORDS);
    let mut hint = Hint::default();
    for relation in relations(&all) {
        // Omit an ambiguous hint for a unit of one word, because such a unit usually asks for exactly the thing that
        // the word names.
        if own.raw.len() == 1 && !relation.is_certain() {
            continue;
        }
        if relation.word.is_some_and(|at| is_unlikely(&analyzer.stem(&all[at]), own)) {
            continue;
        }
        let mut weight = match (relation.is_certain(), relation.word) {
            (true, _) => CERTAIN_HINT_WEIGHT,
            (false, None) => PAIR_HINT_WEIGHT,
            (false, Some(_)) => WORD_HINT_WEIGHT,
        };
        for word in relation.words() {
            let stem = analyzer.stem(word);
            if own.terms.iter().all(|term| term.text != stem || term.weight < 1.0) {
                hint.add(hints.place(&stem), weight);
            }
            weight *= NEXT_RELATED_WEIGHT;
            if relation.is_certain() {
                hint.text.push_str(word);
                hint.text.push(' ');
            }
        }
    }
    hint
}

/// Returns whether a word is a less likely translation of a foreign word.
fn is_unlikely(stem: &str, own: &QueryWords) -> bool {
    own.terms.iter().any(|term| term.text == stem && term.weight < 1.0)
}

impl Hint {
    fn add(&mut self, at: usize, weight: f32) {
        match self.terms.iter_mut().find(|(known, _)| *known == at) {
            Some((_, known)) => *known = known.max(weight),
            None => self.terms.push((at, weight)),
        }
    }
}

/// Scales a vector to length one; returns `None` if it has no direction, e.g. if it is zero.
fn unit_length(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    if !length.is_normal() {
        return None;
    }
    for number in &mut vector {
        *number /= length;
    }
    Some(vector)
}
