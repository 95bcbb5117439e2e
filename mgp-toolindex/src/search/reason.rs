//! Computes the reason why a tool was found (MGP §16.5).

use super::evidence::Evidence;
use super::parsed_query::ParsedQuery;
use super::{Reason, View};

/// A word of the query, with the weight of its stem.
pub(super) struct WeighedWord<'a> {
    word: &'a str,
    stem: String,
    weight: f32,
}

/// Returns the words of the query; a rare word has a higher weight.
pub(super) fn weighed_words<'a>(
    parsed: &'a ParsedQuery<'_>,
    view: &View<'_>,
) -> Vec<WeighedWord<'a>> {
    // A text in a script without spaces has no whole words, so use its indexed characters and pairs of characters
    // instead.
    let all: Vec<&str> = match &parsed.words.raw[..] {
        [] => parsed.words.terms.iter().map(|term| &*term.text).collect(),
        raw => raw.iter().map(String::as_str).collect(),
    };
    let weighed = all.into_iter().map(|word| {
        let stem = view.analyzer.stem(word);
        WeighedWord { word, weight: view.keywords.idf(&stem), stem }
    });
    weighed.collect()
}

/// Returns the part of a candidate's reason that follows from the evidence. `at` is the index of the candidate, and
/// `unit` the index of the unit that the candidate fits best.
pub(super) fn of_evidence(
    parsed: &ParsedQuery<'_>,
    evidence: &Evidence,
    at: usize,
    unit: usize,
    all: &[WeighedWord<'_>],
) -> Reason {
    let count = evidence.slots.len();
    let occurs = |stem: &str| {
        let mut terms = parsed.words.terms.iter().enumerate();
        let score = |term: usize| evidence.word_scores.get(term * count + at);
        terms.any(|(term, own)| own.text == stem && score(term).is_some_and(|score| *score > 0.0))
    };
    let (mut words, mut covered, mut sum) = (Vec::new(), 0.0, f32::MIN_POSITIVE);
    for WeighedWord { word, stem, weight } in all {
        sum += *weight;
        if occurs(stem) {
            covered += *weight;
            words.push((*word).to_owned());
        }
    }
    Reason {
        words,
        coverage: covered / sum,
        meaning: evidence.meaning[at],
        clause: (unit > 0).then(|| parsed.units[unit].text.to_owned()),
        server: Some(evidence.server[at]).filter(|server| *server != 0.0),
        ..Reason::default()
    }
}
