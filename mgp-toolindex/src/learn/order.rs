//! How the ranking itself and past calls are weighed against each other: fitted to remembered queries that are asked
//! again.
//!
//! Applies to: inbound.

use std::sync::Arc;

use super::model::OF_TOOL;
use super::softmax::{Choice, Start, dot};

/// How many numbers speak for a candidate.
pub(crate) const OF_CANDIDATE: usize = OF_TOOL + 9;

/// Where the weights start, fitted to public queries of the evaluation sets at once (see `docs/tool-learning.md`): the
/// hints, what the ranking says in four forms, both together twice, and three of its server.
const BEFORE: Start<OF_CANDIDATE> = Start {
    weights: [2.0, 1.9, 1.0, 0.6, -0.5, 0.2, 0.1, 2.1, 0.1, 0.9, 3.7, -1.6, -1.5, 0.7, 0.1, 0.4],
    hold: 3.0,
};

/// With fewer queries that could be asked again the weights would say more of them than of the next one.
pub(super) const FEWEST: usize = 48;

/// Keeps the logarithm of a share of nothing finite.
const NOTHING: f32 = 0.05;

/// A remembered query, to be asked again.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) text: Box<str>,
    /// What other queries say of the tools.
    pub(crate) told: Vec<(Arc<str>, [f32; OF_TOOL])>,
    /// What was called, and how much each counts.
    pub(crate) called: Vec<(Arc<str>, f32)>,
}

/// Whoever can ask a query again.
pub(crate) trait Again: Send + Sync {
    /// What there was to choose from, were the query asked now; none where nothing of what was called is there.
    fn ask(&self, remembered: &Remembered) -> Option<Choice<OF_CANDIDATE>>;
}

/// What the ranking says of a candidate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Its share of the best score.
    pub(crate) share: f32,
    /// How many are before it.
    pub(crate) place: usize,
    /// How sure the best score is, 0 to 1.
    pub(crate) sure: f32,
    /// What speaks for its server: the votes for its tools, how near a past query of one is, and how much of the best
    /// is of it.
    pub(crate) server: [f32; 3],
}

/// How much each number is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Order([f64; OF_CANDIDATE]);

// === impl Standing ===

impl Standing {
    /// What speaks for a candidate by its standing and by past calls.
    #[expect(clippy::cast_precision_loss, reason = "there are some hundred candidates")]
    pub(crate) fn row(self, hints: &[f32; OF_TOOL]) -> [f32; OF_CANDIDATE] {
        let Self { share, place, sure, server } = self;
        let mut row = [0.0; OF_CANDIDATE];
        row[..OF_TOOL].copy_from_slice(hints);
        row[OF_TOOL..].copy_from_slice(&[
            share,
            (share + NOTHING).ln(),
            1.0 / (1.0 + place as f32),
            share * sure,
            hints[0] * share,
            hints[3] * share,
            server[0],
            server[1],
            server[2],
        ]);
        row
    }
}

// === impl Order ===

impl Order {
    /// Fits the weights; none where there is too little to fit them to.
    pub(super) fn fit(choices: &[Choice<OF_CANDIDATE>]) -> Option<Self> {
        (choices.len() >= FEWEST).then(|| Self(BEFORE.fit(choices)))
    }

    /// What orders the candidates: the more, the earlier.
    #[expect(clippy::cast_possible_truncation, reason = "it is small")]
    pub(crate) fn of(&self, row: &[f32; OF_CANDIDATE]) -> f32 {
        dot(&self.0, row) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three candidates: the ranking's first, its second, and one that past calls speak for.
    fn choice(chosen: [f32; 3]) -> Choice<OF_CANDIDATE> {
        let told = [0.9, 0.8, 1.0, 0.8, 0.7, 1.0, 1.5];
        let row =
            |place, share, hints| Standing { share, place, sure: 0.8, server: [0.0; 3] }.row(hints);
        let rows = vec![row(0, 1.0, &[0.0; 7]), row(1, 0.7, &[0.0; 7]), row(2, 0.4, &told)];
        Choice { rows, chosen: chosen.to_vec() }
    }

    fn order(chosen: [f32; 3]) -> Vec<f32> {
        let order = Order::fit(&vec![choice(chosen); 60]).unwrap();
        choice(chosen).rows.iter().map(|row| order.of(row)).collect()
    }

    #[test]
    fn what_was_right_comes_first() {
        let told = order([0.0, 0.0, 1.0]);
        assert!(told[2] > told[0] + 2.0 && told[0] > told[1], "{told:?}");
        let ranked = order([1.0, 0.0, 0.0]);
        assert!(ranked[0] > ranked[1] + 1.0 && ranked[0] > ranked[2] + 2.0, "{ranked:?}");
    }

    #[test]
    fn a_few_queries_say_nothing() {
        assert!(Order::fit(&vec![choice([0.0, 0.0, 1.0]); FEWEST - 1]).is_none());
    }
}
