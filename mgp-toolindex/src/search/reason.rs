//! Why a tool was found (MGP §16.5).
//!
//! Applies to: outbound.

use super::Reason;
use super::evidence::Evidence;
use super::question::Question;
use crate::text::Analyzer;

/// Why the candidate at a place was found, by the unit it fits best.
pub(super) fn reason(
    question: &Question<'_>,
    evidence: &Evidence,
    at: usize,
    unit: usize,
    history: Option<f32>,
    analyzer: &Analyzer,
) -> Reason {
    let many = evidence.slots.len();
    let said = |term: usize| evidence.said.get(term * many + at).is_some_and(|said| *said > 0.0);
    let occurs = |stem: &str| {
        let mut terms = question.words.terms.iter().enumerate();
        terms.any(|(at, term)| term.text == stem && said(at))
    };
    let mut words: Vec<String> =
        question.words.raw.iter().filter(|word| occurs(&analyzer.stem(word))).cloned().collect();
    if question.words.raw.is_empty() {
        // Of scripts without spaces pairs of characters are all there is.
        let terms = question.words.terms.iter().enumerate();
        words.extend(terms.filter(|(at, _)| said(*at)).map(|(_, term)| term.text.clone()));
    }
    Reason {
        words,
        meaning: evidence.meaning[at],
        clause: (unit > 0).then(|| question.units[unit].text.to_owned()),
        server: Some(evidence.server[at]).filter(|server| *server != 0.0),
        history,
    }
}
