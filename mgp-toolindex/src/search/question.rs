//! A query taken apart: its words, its clauses, what both mean (MGP §16.5).
//!
//! Applies to: inbound.

use super::clause::clauses;
use super::weight::Weights;
use super::{FallbackReason, View};
use crate::text::{Analyzer, Place, Term, Words};

/// How much of a query is read, in bytes; a longer one is a document that was pasted.
pub(crate) const LONGEST: usize = 4 * 1024;

/// A query taken apart.
#[derive(Debug)]
pub(super) struct Question<'a> {
    /// All words that are looked for.
    pub(super) words: Words,
    /// The same, looked for in names.
    pub(super) names: Words,
    /// The whole query, then its clauses.
    pub(super) units: Vec<Unit<'a>>,
}

/// The query, or a clause of it.
#[derive(Debug)]
pub(super) struct Unit<'a> {
    pub(super) text: &'a str,
    /// Which of the words are its.
    pub(super) terms: Vec<usize>,
    /// What it means; none where nobody asked, or where nothing of it is known.
    pub(super) vector: Option<Vec<f32>>,
}

impl<'a> Question<'a> {
    /// Takes a query apart by its words.
    pub(super) fn new(text: &'a str, analyzer: &Analyzer, weights: Weights) -> Self {
        let mut words = analyzer.query(text);
        let terms = (0..words.terms.len()).collect();
        let mut units = vec![Unit { text, terms, vector: None }];
        for clause in clauses(text) {
            let said = analyzer.query(clause);
            let place = |term: &Term| words.terms.iter().position(|word| word.text == term.text);
            let terms = said.terms.iter().filter_map(place).collect();
            units.push(Unit { text: clause, terms, vector: None });
        }
        if weights.words == 0.0 {
            words.terms.clear();
            for unit in &mut units {
                unit.terms.clear();
            }
        }
        let of_name = |term: &Term| Term {
            weight: term.weight * weights.name,
            place: Place::Name,
            ..term.clone()
        };
        let names = Words { terms: words.terms.iter().map(of_name).collect(), ..Words::default() };
        Self { words, names, units }
    }

    /// Finds out what the query and its clauses mean, or why that cannot be.
    pub(super) fn embed(&mut self, view: &View<'_>) -> Result<(), FallbackReason> {
        let (Some(embedder), Some(table)) = (view.embedder, view.vectors) else {
            return Err(FallbackReason::NoEmbedder);
        };
        // While most vectors are still being made, their tools would stand behind all others.
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

    /// What the query and its clauses mean, each with the number of its unit.
    pub(super) fn vectors(&self) -> Vec<(usize, &[f32])> {
        let units = self.units.iter().enumerate();
        units.filter_map(|(at, unit)| Some((at, unit.vector.as_deref()?))).collect()
    }
}

/// The vector of length one; none of one without a direction.
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
