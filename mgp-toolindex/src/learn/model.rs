//! How much each hint is worth: a softmax over the tools and *none of them*, fitted to the history itself.
//!
//! Applies to: inbound.

use super::softmax::{self, Choice, Start};

/// How many hints there are of a tool.
pub(crate) const OF_TOOL: usize = 7;

/// How many numbers are learned: one for each hint of a tool, two for *none of them*.
const SIZE: usize = OF_TOOL + 2;

/// Where the weights start: fitted to public queries of six evaluation sets at once (see `docs/tool-learning.md`).
const BEFORE: Start<SIZE> =
    Start { weights: [1.7, 1.2, 1.6, 2.9, -1.9, 1.4, 0.6, 8.1, -3.5], hold: 0.25 };

/// How much of *none* stands against a share.
const AGAINST: f32 = 0.2;

/// How much a share lifts a tool: little where past calls seldom tell, up to the most where they always do.
const LIFT: f32 = 0.1;
const SELDOM: f32 = 1.05;
const MOST_LIFT: f32 = 0.8;

/// How many more queries than there are would have to be told, before they count as always told.
const DOUBT: f32 = 8.0;

/// The least that is taken for *none*, so that a lift stays finite.
const LEAST: f32 = 1e-3;

/// What speaks for the tools that may be called after a query.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints {
    /// The hints of each tool.
    pub(super) tools: Vec<[f32; OF_TOOL]>,
    /// How near the nearest past query is.
    pub(super) nearest: f32,
}

/// Hints, and what was called.
#[derive(Clone, Debug)]
pub(super) struct Example {
    pub(super) hints: Hints,
    /// The share of each tool in what was called; the rest is *none of them*.
    pub(super) called: Vec<f32>,
}

/// The worth of each hint.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Model {
    weights: [f64; SIZE],
    /// The share of past queries whose tools the others told, 0 to 1.
    reach: f32,
}

// === impl Model ===

impl Default for Model {
    fn default() -> Self {
        Self { weights: BEFORE.weights, reach: 0.0 }
    }
}

impl Model {
    /// The share of each tool, and what is left for *none of them*.
    #[expect(clippy::cast_possible_truncation, reason = "shares lie between 0 and 1")]
    pub(super) fn shares(&self, hints: &Hints) -> (Vec<f32>, f32) {
        let mut shares = softmax::shares(&self.weights, &rows(hints));
        let none = shares.pop().unwrap_or(1.0);
        (shares.into_iter().map(|share| share as f32).collect(), none as f32)
    }

    /// Fits the weights to examples.
    pub(super) fn fit(examples: &[Example]) -> Self {
        let choices: Vec<_> = examples.iter().map(choice).collect();
        let mut model = Self { weights: BEFORE.fit(&choices), reach: 0.0 };
        let told: f32 = examples.iter().map(|example| 1.0 - model.shares(&example.hints).1).sum();
        #[expect(clippy::cast_precision_loss, reason = "there are some hundred")]
        let all = examples.len() as f32;
        model.reach = told / (all + DOUBT);
        model
    }

    /// How far a share moves a tool in a ranking whose best score is one.
    pub(super) fn lift(&self, share: f32, none: f32) -> f32 {
        let worth = (LIFT / (SELDOM - self.reach)).min(MOST_LIFT);
        worth * (share / (AGAINST * none.max(LEAST))).ln_1p()
    }
}

/// One row for each tool, then the one of *none of them*.
fn rows(hints: &Hints) -> Vec<[f32; SIZE]> {
    let tools = hints.tools.iter().map(|of_tool| {
        let mut row = [0.0; SIZE];
        row[..OF_TOOL].copy_from_slice(of_tool);
        row
    });
    let mut none = [0.0; SIZE];
    (none[OF_TOOL], none[OF_TOOL + 1]) = (1.0, hints.nearest);
    tools.chain(std::iter::once(none)).collect()
}

fn choice(example: &Example) -> Choice<SIZE> {
    let none = 1.0 - example.called.iter().sum::<f32>();
    let chosen = example.called.iter().copied().chain(std::iter::once(none)).collect();
    Choice { rows: rows(&example.hints), chosen }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tools; only the hint at a place tells which of them is called, if one is.
    fn example(at: usize, called: &[f32]) -> Example {
        let mut tools = vec![[0.0; OF_TOOL]; 2];
        tools[0][at] = 1.0;
        Example { hints: Hints { tools, nearest: 0.5 }, called: called.to_vec() }
    }

    #[test]
    fn a_hint_that_was_right_is_worth_more_and_one_that_was_wrong_less() {
        let right: Vec<_> = (0..50).map(|_| example(0, &[1.0, 0.0])).collect();
        let wrong: Vec<_> = (0..50).map(|_| example(0, &[0.0, 1.0])).collect();
        let hints = &right[0].hints;
        let (before, _) = Model::default().shares(hints);
        let (after, none) = Model::fit(&right).shares(hints);
        assert!(
            after[0] > 0.7 && after[0] > before[0] && after[0] > 2.0 * none,
            "{before:?} {after:?}"
        );
        let (after, _) = Model::fit(&wrong).shares(hints);
        assert!(after[0] < 0.1 * after[1], "{before:?} {after:?}");
    }

    #[test]
    fn where_none_was_called_none_has_the_share() {
        let none: Vec<_> = (0..50).map(|_| example(3, &[0.0, 0.0])).collect();
        let model = Model::fit(&none);
        let (shares, left) = model.shares(&none[0].hints);
        assert!(left > 0.95, "{shares:?}");
        assert!(shares.iter().all(|share| model.lift(*share, left) < 0.02));
    }

    #[test]
    fn nothing_to_learn_from_changes_nothing() {
        assert_eq!(Model::fit(&[]), Model::default());
        let (shares, none) = Model::default().shares(&Hints::default());
        assert!(shares.is_empty() && (none - 1.0).abs() < 1e-6);
        let lift = |share, none| Model::default().lift(share, none);
        assert!(lift(0.0, 1.0).abs() < f32::EPSILON && lift(1.0, 0.0).is_finite());
    }

    #[test]
    fn a_history_that_mostly_tells_lifts_more() {
        let right: Vec<_> = (0..50).map(|_| example(0, &[1.0, 0.0])).collect();
        let few = Model::fit(&right[..3]);
        let many = Model::fit(&right);
        assert!(few.lift(0.5, 0.2) < 0.5 * many.lift(0.5, 0.2), "{few:?} {many:?}");
    }

    #[test]
    fn the_fit_is_where_the_slope_is_flat() {
        let examples: Vec<_> = (0..90)
            .map(|n| example(n % OF_TOOL, if n % 3 == 0 { &[0.7, 0.3] } else { &[0.1, 0.2] }))
            .collect();
        let model = Model::fit(&examples);
        let choices: Vec<_> = examples.iter().map(choice).collect();
        let best = BEFORE.loss(&model.weights, &choices);
        for at in 0..SIZE {
            for by in [-0.3, 0.3] {
                let mut other = model.weights;
                other[at] += by;
                assert!(BEFORE.loss(&other, &choices) > best, "weight {at}");
            }
        }
    }
}
