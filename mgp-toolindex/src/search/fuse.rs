//! Combines the evidence for the whole query and for its clauses into one score (MGP §16.5).
//!
//! A query with several requests needs a tool for each of them. So each tool gets a share: its evidence for its
//! best clause, relative to the best tool for that clause. The score is this share times the confidence that the
//! evidence for the best tool gives, so that scores of different queries are comparable.

use super::evidence::Evidence;
use super::weight::{
    BEST_CLAUSE_WEIGHT, MAX_FUSED_SCORE, NEXT_TOOL_WEIGHT, QUERY_WEIGHT_IN_CLAUSE,
    STRONGEST_CLAUSE_WEIGHT, confidence,
};

/// The score of each candidate, and its best clause.
#[derive(Debug, Default)]
pub(super) struct FusedScores {
    /// The scores, each from 0 to [`MAX_FUSED_SCORE`].
    pub(super) scores: Vec<f32>,
    /// The number of the unit; the whole query if there are no clauses.
    pub(super) clauses: Vec<usize>,
}

impl FusedScores {
    /// Combines the evidence of the whole query and its clauses; `lift` has the amount that past calls add to the share
    /// of each candidate.
    ///
    /// `requests` has for each unit the number of the request that it is part of.
    pub(super) fn of(evidence: &Evidence, requests: &[usize], lift: &[f32]) -> Self {
        let units = requests.len();
        let whole = evidence.of_unit(0);
        let best = maximum(whole);
        let mut shares: Vec<f32> = whole.iter().map(|strength| strength / best).collect();
        let mut clauses = vec![0; shares.len()];
        if units > 1 {
            let tops: Vec<f32> = (1..units)
                .map(|unit| {
                    let own = evidence.of_unit(unit).iter().zip(whole);
                    own.map(|(own, whole)| own + QUERY_WEIGHT_IN_CLAUSE * whole)
                        .fold(f32::MIN_POSITIVE, f32::max)
                })
                .collect();
            let top = maximum(&tops);
            for at in 0..shares.len() {
                let (mut most, mut clause) = (f32::NEG_INFINITY, 1);
                for (number, own) in tops.iter().enumerate() {
                    let strength =
                        evidence.of_unit(number + 1)[at] + QUERY_WEIGHT_IN_CLAUSE * whole[at];
                    let share = strength
                        / ((1.0 - STRONGEST_CLAUSE_WEIGHT) * own + STRONGEST_CLAUSE_WEIGHT * top);
                    if share > most {
                        (most, clause) = (share, number + 1);
                    }
                }
                shares[at] = (1.0 - BEST_CLAUSE_WEIGHT) * shares[at] + BEST_CLAUSE_WEIGHT * most;
                clauses[at] = clause;
            }
        }
        if requests.iter().any(|request| *request > 0) {
            alternate(&mut shares, |at| requests[clauses[at]]);
        }
        raise(&mut shares, lift);
        // The best tool has all of the confidence.
        let most = maximum(&shares);
        // Without other evidence, past calls alone determine the confidence.
        let max_lift = lift.iter().copied().fold(0.0, f32::max);
        let all =
            MAX_FUSED_SCORE * confidence(best).max(max_lift / (max_lift + HALF_CONFIDENCE_LIFT));
        let scores = shares.iter().map(|share| all * (share / most).clamp(0.0, 1.0)).collect();
        Self { scores, clauses }
    }
}

/// Lowers the share of each further tool for the same request, so that the best tools of all requests come first.
fn alternate(shares: &mut [f32], request_of: impl Fn(usize) -> usize) {
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_unstable_by(|a, b| shares[*b].total_cmp(&shares[*a]).then(a.cmp(b)));
    let mut factors = Vec::new();
    for at in order {
        let request = request_of(at);
        if factors.len() <= request {
            factors.resize(request + 1, 1.0);
        }
        shares[at] *= factors[request];
        factors[request] *= NEXT_TOOL_WEIGHT;
    }
}

/// Adds lifts to shares. Past calls move at most one tool before the [`KEPT`] tools that are best without them, so
/// tools that were never called keep their place among the first results.
fn raise(shares: &mut [f32], lift: &[f32]) {
    if lift.iter().all(|lift| *lift <= 0.0) {
        return;
    }
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_unstable_by(|a, b| shares[*b].total_cmp(&shares[*a]).then(a.cmp(b)));
    shares.iter_mut().zip(lift).for_each(|(share, lift)| *share += lift);
    let (kept, others) = order.split_at(order.len().min(KEPT));
    let least = kept.iter().map(|at| shares[*at]).fold(f32::INFINITY, f32::min);
    let most = others.iter().copied().max_by(|a, b| shares[*a].total_cmp(&shares[*b]));
    for at in others.iter().copied().filter(|at| Some(*at) != most) {
        if shares[at] > least {
            // Lower the tool so that the lowered tools stay in their order.
            shares[at] = least * (1.0 - LESS / (1.0 + shares[at] - least));
        }
    }
}

/// The number of best tools that past calls leave among the first results.
const KEPT: usize = 4;

/// The maximum amount, as a part of the lowest kept share, by which a tool is lowered below the kept ones.
const LESS: f32 = 1e-3;

/// The lift at which past calls alone give half the confidence.
const HALF_CONFIDENCE_LIFT: f32 = 0.5;

/// Returns the maximum, or the smallest positive number, so that it can be a divisor.
fn maximum(all: &[f32]) -> f32 {
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

    fn fused(units: &[&[f32]], lift: &[f32]) -> FusedScores {
        // Each clause is a request of its own.
        let requests: Vec<usize> = (0..units.len()).map(|unit| unit.saturating_sub(1)).collect();
        FusedScores::of(&evidence(units), &requests, lift)
    }

    #[test]
    fn the_best_of_each_clause_is_near_the_top() {
        // The second tool is best for the weaker clause; the third is second best for the stronger one.
        let fused = fused(&[&[50.0, 20.0, 30.0], &[40.0, 2.0, 22.0], &[1.0, 25.0, 1.0]], &[0.0; 3]);
        assert_eq!(fused.clauses, [1, 2, 1]);
        let [first, second, third] = fused.scores[..] else { panic!() };
        assert!(first > second && second > third, "{:?}", fused.scores);
    }

    #[test]
    fn the_tools_of_two_requests_alternate() {
        let units: &[&[f32]] =
            &[&[50.0, 49.0, 48.0, 40.0], &[50.0, 49.0, 48.0, 1.0], &[1.0, 1.0, 1.0, 40.0]];
        let with = |requests: &[usize]| {
            let scores = FusedScores::of(&evidence(units), requests, &[0.0; 4]).scores;
            scores.iter().filter(|score| **score > scores[3]).count()
        };
        assert_eq!(with(&[0, 0, 0]), 3, "one request");
        assert_eq!(with(&[0, 0, 1]), 1, "two requests");
    }

    #[test]
    fn a_clause_that_fits_nothing_counts_little() {
        let fused = fused(&[&[40.0, 9.0], &[40.0, 1.0], &[0.0, 1.0]], &[0.0; 2]);
        assert!(fused.scores[1] < 0.5 * fused.scores[0], "{:?}", fused.scores);
    }

    #[test]
    fn more_evidence_gives_more_confidence() {
        let weak = fused(&[&[4.0, 2.0]], &[0.0; 2]);
        let strong = fused(&[&[40.0, 20.0]], &[0.0; 2]);
        assert!(weak.scores[0] < 0.3 && strong.scores[0] > 0.7, "{weak:?} {strong:?}");
        assert!(strong.scores[0] <= MAX_FUSED_SCORE);
        assert_eq!(fused(&[&[0.0, -3.0]], &[0.0; 2]).scores, [0.0, 0.0]);
    }

    #[test]
    fn past_calls_lift() {
        let fused = fused(&[&[30.0, 29.0]], &[0.0, 0.4]);
        assert!(fused.scores[1] > fused.scores[0]);
        assert!(fused.scores.iter().all(|score| (0.0..=MAX_FUSED_SCORE).contains(score)));
    }
}
