//! Makes one score of what speaks for a tool by the whole query and by its clauses (MGP §16.5).
//!
//! A query of several wishes needs a tool for each, so a tool counts as much as it counts for its best clause, measured
//! by the best tool of that clause. The score is that share, times how sure the evidence for the best tool makes one,
//! so that scores of different queries can be compared.
//!
//! Applies to: inbound.

use super::evidence::Evidence;
use super::weight::{CLAUSE, CONTEXT, MOST, STRONGEST, confidence};

/// The score of each candidate, and the clause it fits best.
#[derive(Debug, Default)]
pub(super) struct Fused {
    /// From 0 to [`MOST`].
    pub(super) scores: Vec<f32>,
    /// The number of the unit; the whole query if there are no clauses.
    pub(super) clauses: Vec<usize>,
    /// What each has of what the best has, 0 to 1.
    pub(super) shares: Vec<f32>,
    /// How sure the evidence alone makes one, 0 to 1.
    pub(super) sure: f32,
}

impl Fused {
    /// Fuses the evidence of so many units; `lift` is what past calls add to the share of a candidate.
    pub(super) fn of(evidence: &Evidence, units: usize, lift: &[f32]) -> Self {
        let whole = evidence.of_unit(0);
        let best = strongest(whole);
        let mut shares: Vec<f32> = whole.iter().map(|strength| strength / best).collect();
        let mut clauses = vec![0; shares.len()];
        if units > 1 {
            let tops: Vec<f32> = (1..units)
                .map(|unit| {
                    let own = evidence.of_unit(unit).iter().zip(whole);
                    own.map(|(own, whole)| own + CONTEXT * whole).fold(f32::MIN_POSITIVE, f32::max)
                })
                .collect();
            let top = strongest(&tops);
            for at in 0..shares.len() {
                let (mut most, mut clause) = (f32::NEG_INFINITY, 1);
                for (number, own) in tops.iter().enumerate() {
                    let strength = evidence.of_unit(number + 1)[at] + CONTEXT * whole[at];
                    let share = strength / ((1.0 - STRONGEST) * own + STRONGEST * top);
                    if share > most {
                        (most, clause) = (share, number + 1);
                    }
                }
                shares[at] = (1.0 - CLAUSE) * shares[at] + CLAUSE * most;
                clauses[at] = clause;
            }
        }
        shares.iter_mut().zip(lift).for_each(|(share, lift)| *share += lift);
        // The best tool has all of what one can be sure of.
        let most = strongest(&shares);
        // Past calls can be all there is: then they say how sure one can be.
        let told = lift.iter().copied().fold(0.0, f32::max);
        let sure = confidence(best);
        let all = MOST * sure.max(told / (told + TOLD));
        for share in &mut shares {
            *share = (*share / most).clamp(0.0, 1.0);
        }
        let scores = shares.iter().map(|share| all * share).collect();
        Self { scores, clauses, shares, sure }
    }
}

/// The lift by which past calls alone make half sure.
const TOLD: f32 = 0.5;

/// The greatest of all, above zero so that it can be divided by.
fn strongest(all: &[f32]) -> f32 {
    all.iter().copied().fold(f32::MIN_POSITIVE, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evidence of some units for as many candidates as the first has.
    fn evidence(units: &[&[f32]]) -> Evidence {
        Evidence {
            slots: (0u32..).take(units[0].len()).collect(),
            strength: units.concat(),
            ..Evidence::default()
        }
    }

    fn fused(units: &[&[f32]], lift: &[f32]) -> Fused {
        Fused::of(&evidence(units), units.len(), lift)
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
    fn a_clause_that_fits_nothing_counts_little() {
        let fused = fused(&[&[40.0, 9.0], &[40.0, 1.0], &[0.0, 1.0]], &[0.0; 2]);
        assert!(fused.scores[1] < 0.5 * fused.scores[0], "{:?}", fused.scores);
    }

    #[test]
    fn more_evidence_makes_surer() {
        let weak = fused(&[&[4.0, 2.0]], &[0.0; 2]);
        let strong = fused(&[&[40.0, 20.0]], &[0.0; 2]);
        assert!(weak.scores[0] < 0.3 && strong.scores[0] > 0.7, "{weak:?} {strong:?}");
        assert!(strong.scores[0] <= MOST);
        assert_eq!(fused(&[&[0.0, -3.0]], &[0.0; 2]).scores, [0.0, 0.0]);
    }

    #[test]
    fn past_calls_lift() {
        let fused = fused(&[&[30.0, 29.0]], &[0.0, 0.4]);
        assert!(fused.scores[1] > fused.scores[0]);
        assert!(fused.scores.iter().all(|score| (0.0..=MOST).contains(score)));
    }
}
