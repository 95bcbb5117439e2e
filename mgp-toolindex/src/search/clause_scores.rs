//! Combines the evidence for the whole query and for each clause into one score per tool (MGP §16.5).
//!
//! A *unit* is the whole query or one of its clauses. The *evidence* for a tool is a number without upper limit that
//! measures how well the tool fits a unit (field `strength`); `evidence.rs` computes it.
//!
//! A query with several requests needs a tool for each of them. Therefore each tool gets a *share* ([`shares`]): mainly
//! its evidence for its best clause, relative to the evidence of the best tool for that clause. If the query has
//! several requests, [`alternate`] then lowers the share of each tool that follows a better tool for the same request.
//!
//! The score of a tool is its share divided by the best share, times a confidence, times [`MAX_UNNAMED_SCORE`]. That
//! factor is below 1, because only tools that the query names have higher scores. The confidence depends on the
//! evidence for the best tool, so that scores of different queries are comparable.

use super::evidence::Evidence;
use super::weight::{
    BEST_CLAUSE_WEIGHT, MAX_UNNAMED_SCORE, NEXT_TOOL_FACTOR, QUERY_WEIGHT_IN_CLAUSE,
    STRONGEST_CLAUSE_WEIGHT, confidence,
};

/// The index of the whole query among the units; the clauses follow it.
const WHOLE_QUERY: usize = 0;

/// The scores of all candidates, which combine the evidence for the query and its clauses.
#[derive(Debug, Default)]
pub(super) struct ClauseScores {
    /// The score of each candidate, from 0 to [`MAX_UNNAMED_SCORE`].
    pub(super) scores: Vec<f32>,
    /// For each candidate, the unit that it fits best: a clause, or the whole query if there are no clauses.
    pub(super) units: Vec<usize>,
}

impl ClauseScores {
    /// Combines the evidence for the whole query and its clauses.
    ///
    /// `request_of_unit` contains, for each unit, the index of its request.
    pub(super) fn of(evidence: &Evidence, request_of_unit: &[usize]) -> Self {
        let best_evidence = maximum(evidence.of_unit(WHOLE_QUERY));
        let (mut shares, units) = shares(evidence, best_evidence, request_of_unit.len());
        if request_of_unit.iter().any(|request| *request > 0) {
            alternate(&mut shares, |at| request_of_unit[units[at]]);
        }
        let best_score = MAX_UNNAMED_SCORE * confidence(best_evidence);
        let best_share = maximum(&shares);
        let score = |share: &f32| best_score * (share / best_share).clamp(0.0, 1.0);
        Self { scores: shares.iter().map(score).collect(), units }
    }
}

/// Returns the share of each candidate and the unit that it fits best.
///
/// ```text
/// query(c)     = e(0, c) / max e(0)
/// e'(u, c)     = e(u, c) + q · e(0, c)
/// clause(u, c) = e'(u, c) / ((1 - s) · max e'(u) + s · max e')
/// share(c)     = (1 - b) · query(c) + b · max clause(c)
/// ```
///
/// - `e(u, c)` is the evidence of unit `u` for candidate `c`; unit 0 is the whole query, all other units are clauses.
/// - `max e(u)` is the maximum of a unit over all candidates, `max e'` the maximum over all clauses and candidates, and
///   `max clause(c)` the maximum of a candidate over all clauses.
/// - `q` is [`QUERY_WEIGHT_IN_CLAUSE`], `s` is [`STRONGEST_CLAUSE_WEIGHT`], and `b` is [`BEST_CLAUSE_WEIGHT`].
///
/// Without clauses, the share of a candidate is `query(c)`.
fn shares(evidence: &Evidence, best_evidence: f32, unit_count: usize) -> (Vec<f32>, Vec<usize>) {
    let whole = evidence.of_unit(WHOLE_QUERY);
    let mut shares: Vec<f32> = whole.iter().map(|strength| strength / best_evidence).collect();
    let mut units = vec![WHOLE_QUERY; shares.len()];
    let clauses: Vec<usize> = (WHOLE_QUERY + 1..unit_count).collect();
    if clauses.is_empty() {
        return (shares, units);
    }
    let strength = |clause: usize, at: usize| {
        evidence.of_unit(clause)[at] + QUERY_WEIGHT_IN_CLAUSE * whole[at]
    };
    let best_of = |clause: &usize| {
        (0..whole.len()).map(|at| strength(*clause, at)).fold(f32::MIN_POSITIVE, f32::max)
    };
    let best: Vec<f32> = clauses.iter().map(best_of).collect();
    let best_of_any = maximum(&best);
    for at in 0..shares.len() {
        let mut best_share = f32::NEG_INFINITY;
        for (clause, best) in clauses.iter().zip(&best) {
            let reference =
                (1.0 - STRONGEST_CLAUSE_WEIGHT) * best + STRONGEST_CLAUSE_WEIGHT * best_of_any;
            let share = strength(*clause, at) / reference;
            if share > best_share {
                (best_share, units[at]) = (share, *clause);
            }
        }
        shares[at] = (1.0 - BEST_CLAUSE_WEIGHT) * shares[at] + BEST_CLAUSE_WEIGHT * best_share;
    }
    (shares, units)
}

/// Lowers the share of each tool if a better tool exists for the same request, so that the best tools of all requests
/// come first.
fn alternate(shares: &mut [f32], request_of: impl Fn(usize) -> usize) {
    let mut factors = Vec::new();
    for at in best_first(shares) {
        let request = request_of(at);
        if factors.len() <= request {
            factors.resize(request + 1, 1.0);
        }
        shares[at] *= factors[request];
        factors[request] *= NEXT_TOOL_FACTOR;
    }
}

/// Returns the indices of the scores, beginning with the greatest score.
pub(super) fn best_first(scores: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_unstable_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    order
}

/// Returns the maximum of the values. If it is not positive, returns the smallest positive number, so that the result
/// can be a divisor.
pub(super) fn maximum(all: &[f32]) -> f32 {
    all.iter().copied().fold(f32::MIN_POSITIVE, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns evidence of some units, with as many candidates as the first unit has.
    fn evidence(units: &[&[f32]]) -> Evidence {
        Evidence {
            slots: (0u32..).take(units[0].len()).collect(),
            strength: units.concat(),
            ..Evidence::default()
        }
    }

    /// Combines evidence in which each clause is a separate request.
    fn scores_of(units: &[&[f32]]) -> ClauseScores {
        let request_of_unit: Vec<usize> =
            (0..units.len()).map(|unit| unit.saturating_sub(1)).collect();
        ClauseScores::of(&evidence(units), &request_of_unit)
    }

    #[test]
    fn the_best_of_each_clause_is_near_the_top() {
        // The second tool is the best tool for the weaker clause; the third tool is the second best for the stronger
        // clause.
        let combined = scores_of(&[&[50.0, 20.0, 30.0], &[40.0, 2.0, 22.0], &[1.0, 25.0, 1.0]]);
        assert_eq!(combined.units, [1, 2, 1]);
        let [first, second, third] = combined.scores[..] else { panic!() };
        assert!(first > second && second > third, "{:?}", combined.scores);
    }

    #[test]
    fn the_tools_of_two_requests_alternate() {
        let units: &[&[f32]] =
            &[&[50.0, 49.0, 48.0, 40.0], &[50.0, 49.0, 48.0, 1.0], &[1.0, 1.0, 1.0, 40.0]];
        let with = |request_of_unit: &[usize]| {
            let scores = ClauseScores::of(&evidence(units), request_of_unit).scores;
            scores.iter().filter(|score| **score > scores[3]).count()
        };
        assert_eq!(with(&[0, 0, 0]), 3, "one request");
        assert_eq!(with(&[0, 0, 1]), 1, "two requests");
    }

    #[test]
    fn a_clause_that_fits_nothing_counts_little() {
        let scores = scores_of(&[&[40.0, 9.0], &[40.0, 1.0], &[0.0, 1.0]]).scores;
        assert!(scores[1] < 0.5 * scores[0], "{scores:?}");
    }

    #[test]
    fn more_evidence_gives_more_confidence() {
        let weak = scores_of(&[&[4.0, 2.0]]);
        let strong = scores_of(&[&[40.0, 20.0]]);
        assert!(weak.scores[0] < 0.3 && strong.scores[0] > 0.7, "{weak:?} {strong:?}");
        assert!(strong.scores[0] <= MAX_UNNAMED_SCORE);
        assert_eq!(scores_of(&[&[0.0, -3.0]]).scores, [0.0, 0.0]);
    }
}
