//! Computes the reason why a tool was found (MGP §16.5).

use super::Reason;
use super::evidence::Evidence;
use super::parsed_query::ParsedQuery;
use crate::text::Analyzer;

/// Returns the reason why a candidate was found. `at` is the index of the candidate, and `unit` the index of the unit
/// that the candidate fits best.
pub(super) fn reason(
    parsed: &ParsedQuery<'_>,
    evidence: &Evidence,
    at: usize,
    unit: usize,
    history: Option<f32>,
    analyzer: &Analyzer,
) -> Reason {
    let count = evidence.slots.len();
    let occurs_at =
        |term: usize| evidence.word_scores.get(term * count + at).is_some_and(|score| *score > 0.0);
    let occurs = |stem: &str| {
        let mut terms = parsed.words.terms.iter().enumerate();
        terms.any(|(at, term)| term.text == stem && occurs_at(at))
    };
    let mut words: Vec<String> =
        parsed.words.raw.iter().filter(|word| occurs(&analyzer.stem(word))).cloned().collect();
    if parsed.words.raw.is_empty() {
        // A text in a script without spaces has no whole words, so its characters and pairs of characters are listed.
        let terms = parsed.words.terms.iter().enumerate();
        words.extend(terms.filter(|(at, _)| occurs_at(*at)).map(|(_, term)| term.text.clone()));
    }
    Reason {
        words,
        meaning: evidence.meaning[at],
        clause: (unit > 0).then(|| parsed.units[unit].text.to_owned()),
        server: Some(evidence.server[at]).filter(|server| *server != 0.0),
        history,
        action: None,
        is_deprecated: false,
        is_named: false,
    }
}
