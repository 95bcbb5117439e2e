//! A parsed query: its words, its clauses, and the vectors of both (MGP §16.5).

use super::clause::{Clause, clauses};
use super::weight::{NEXT_RELATED_WEIGHT, ORIGINAL_WORD_WEIGHT, RELATED_WEIGHT, Weights};
use super::{FallbackReason, View};
use crate::lexicon::{Translation, calculator, related};
use crate::text::{Analyzer, Field, QueryWords, Term};

/// The maximum number of bytes that are read from a query; a longer text is probably a pasted document.
pub(crate) const MAX_QUERY_BYTES: usize = 4 * 1024;

#[derive(Debug)]
pub(super) struct ParsedQuery<'a> {
    /// All words, for the look-up in the texts of tools.
    pub(super) words: QueryWords,
    /// The same words, for the look-up in the names of tools.
    pub(super) names: QueryWords,
    /// The whole query, then its clauses.
    pub(super) units: Vec<Unit<'a>>,
}

/// A part of the query that is scored separately: the whole query or a clause.
#[derive(Debug)]
pub(super) struct Unit<'a> {
    pub(super) text: &'a str,
    /// The number of the request to which the unit belongs; 0 for the whole query.
    pub(super) request: usize,
    /// The indices of the unit's words in `ParsedQuery::words`.
    pub(super) terms: Vec<usize>,
    /// The vector; `None` if no vector is needed, or if the embedder knows no word of the text.
    pub(super) vector: Option<Vec<f32>>,
}

impl<'a> ParsedQuery<'a> {
    /// Parses the words and the clauses of a query.
    ///
    /// If the text was translated, the original words are looked up too, with a low weight.
    pub(super) fn new(
        text: &'a str,
        translation: Option<&'a Translation>,
        analyzer: &Analyzer,
        weights: Weights,
    ) -> Self {
        let (original, text) = (text, translation.map_or(text, |translation| &*translation.text));
        let mut words = analyzer.query(text);
        for (word, weight) in translation.map_or(&[][..], |translation| &translation.lesser) {
            let stem = analyzer.stem(word);
            if let Some(term) = words.terms.iter_mut().find(|term| term.text == stem) {
                term.weight = *weight;
            }
        }
        add_related(text, &mut words, analyzer);
        if translation.is_some() {
            for term in analyzer.query(original).terms {
                words.add(&term.text, ORIGINAL_WORD_WEIGHT * term.weight);
            }
        }
        let terms = (0..words.terms.len()).collect();
        let mut units = vec![Unit { text, request: 0, terms, vector: None }];
        for Clause { text, request } in clauses(text) {
            let mut clause_words = analyzer.query(text);
            add_related(text, &mut clause_words, analyzer);
            let place = |term: &Term| words.terms.iter().position(|word| word.text == term.text);
            let terms = clause_words.terms.iter().filter_map(place).collect();
            units.push(Unit { text, request, terms, vector: None });
        }
        if weights.words == 0.0 {
            words.terms.clear();
            for unit in &mut units {
                unit.terms.clear();
            }
        }
        let of_name = |term: &Term| Term {
            weight: term.weight * weights.name,
            place: Field::Name,
            ..term.clone()
        };
        let names = QueryWords {
            terms: words.terms.iter().map(of_name).collect(),
            ..QueryWords::default()
        };
        Self { words, names, units }
    }

    /// Embeds the query and its clauses.
    pub(super) fn embed(&mut self, view: &View<'_>) -> Result<(), FallbackReason> {
        let (Some(embedder), Some(table)) = (view.embedder, view.vectors) else {
            return Err(FallbackReason::NoEmbedder);
        };
        // If most tools have no vector yet, the few tools with a vector would be ranked before all others.
        if 2 * table.len() < view.catalog.len() {
            return Err(FallbackReason::Embedding);
        }
        for unit in &mut self.units {
            let vector = embedder.embed(unit.text);
            let vector =
                vector.map_err(|error| FallbackReason::EmbedderFailed(error.to_string()))?;
            unit.vector = unit_length(vector);
        }
        match self.units[0].vector {
            Some(_) => Ok(()),
            None => Err(FallbackReason::NoMeaning),
        }
    }

    /// Returns the texts of the requests; empty if the query is a single request.
    pub(super) fn requests(&self) -> Vec<String> {
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
    pub(super) fn vectors(&self) -> Vec<(usize, &[f32])> {
        let units = self.units.iter().enumerate();
        units.filter_map(|(at, unit)| Some((at, unit.vector.as_deref()?))).collect()
    }
}

/// Adds related words that tools use for the same thing; they have lower weights than the words of the text.
///
/// The added words are not embedded, because vectors already express related meanings.
fn add_related(text: &str, words: &mut QueryWords, analyzer: &Analyzer) {
    for word in calculator(text) {
        words.add(&analyzer.stem(word), 1.0);
    }
    for own in words.raw.clone() {
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

/// Scales a vector to length one; returns `None` if that is not possible, e.g. for zeros.
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
