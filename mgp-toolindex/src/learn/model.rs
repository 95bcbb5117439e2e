//! The weights of the features of tools. A softmax over the tools and the alternative *none of them* uses the weights,
//! which are fitted to the history.

use super::softmax::{self, Choice, Prior};

pub(crate) const TOOL_FEATURES: usize = 7;

/// The number of weights: one for each feature of a tool, two for *none of them*.
const WEIGHTS: usize = TOOL_FEATURES + 2;

/// The initial weights, which were fitted to the public queries of six evaluation sets together (see
/// `docs/tool-learning.md`).
const PRIOR: Prior<WEIGHTS> =
    Prior { weights: [1.7, 1.2, 1.6, 2.9, -1.9, 1.4, 0.6, 8.1, -3.5], strength: 0.25 };

/// The weight of the share of *none of them* in [`Model::lift`]: the smaller this weight is, the more a tool is raised.
const NONE_WEIGHT: f32 = 0.2;

/// The numbers that determine the scale of a lift, i.e. of the amount that is added to a tool's score:
/// `LIFT_SCALE / (LIFT_LIMIT - reach)`, but at most `MOST_LIFT`. So a model with a greater reach raises tools more.
const LIFT_SCALE: f32 = 0.1;
const LIFT_LIMIT: f32 = 1.05;
const MOST_LIFT: f32 = 0.8;

/// The exponent of the logarithm in [`Model::lift`]. It is below 1, so it reduces large lifts and raises small ones.
const LIFT_EXPONENT: f32 = 0.8;

/// The number of pseudo-examples that the average in `reach` includes in addition to the stored examples. Each
/// pseudo-example gives the tools a share of 0, so the reach stays low while there are few examples.
const REACH_DOUBT: f32 = 8.0;

/// The minimum share of *none of them* as a divisor, so that a lift is finite.
const MIN_SHARE: f32 = 1e-3;

/// The features of the tools that might be called after a query.
#[derive(Clone, Debug, Default)]
pub(super) struct Features {
    pub(super) tools: Vec<[f32; TOOL_FEATURES]>,
    /// The similarity of the most similar past query.
    pub(super) nearest: f32,
}

/// A stored query to which a model is fitted: its features, and the tools that were called after it.
#[derive(Clone, Debug)]
pub(super) struct Example {
    pub(super) features: Features,
    /// The share of each tool in the calls after the query; the remaining share is *none of them*.
    pub(super) called: Vec<f32>,
}

/// A model that predicts which tools are called after a query; its weights were fitted to stored queries.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Model {
    weights: [f64; WEIGHTS],
    /// The average share, 0 to 1, that the model gives to the tools together, and not to *none of them*, for stored
    /// queries.
    reach: f32,
}

impl Default for Model {
    fn default() -> Self {
        Self { weights: PRIOR.weights, reach: 0.0 }
    }
}

impl Model {
    /// Returns the predicted share of each tool in the calls after the query, and the share of *none of them*; the sum
    /// of all shares is 1.
    #[expect(clippy::cast_possible_truncation, reason = "shares lie between 0 and 1")]
    pub(super) fn shares(&self, features: &Features) -> (Vec<f32>, f32) {
        let mut shares = softmax::shares(&self.weights, &rows(features));
        let none = shares.pop().unwrap_or(1.0);
        (shares.into_iter().map(|share| share as f32).collect(), none as f32)
    }

    pub(super) fn fit(examples: &[Example]) -> Self {
        let choices: Vec<_> = examples.iter().map(choice).collect();
        let mut model = Self { weights: PRIOR.fit(&choices), reach: 0.0 };
        let lifts: f32 =
            examples.iter().map(|example| 1.0 - model.shares(&example.features).1).sum();
        #[expect(clippy::cast_precision_loss, reason = "there are some hundred")]
        let all = examples.len() as f32;
        model.reach = lifts / (all + REACH_DOUBT);
        model
    }

    /// Returns the lift of a tool, i.e. the amount to add to its score if the best score of the ranking is 1. `share`
    /// is the probability that the tool is called, and `none` the probability that none of the tools is called.
    pub(super) fn lift(&self, share: f32, none: f32) -> f32 {
        let worth = (LIFT_SCALE / (LIFT_LIMIT - self.reach)).min(MOST_LIFT);
        worth * (share / (NONE_WEIGHT * none.max(MIN_SHARE))).ln_1p().powf(LIFT_EXPONENT)
    }
}

/// Returns one row of features for each tool, followed by the row of *none of them*.
fn rows(features: &Features) -> Vec<[f32; WEIGHTS]> {
    let tools = features.tools.iter().map(|of_tool| {
        let mut row = [0.0; WEIGHTS];
        row[..TOOL_FEATURES].copy_from_slice(of_tool);
        row
    });
    let mut none = [0.0; WEIGHTS];
    (none[TOOL_FEATURES], none[TOOL_FEATURES + 1]) = (1.0, features.nearest);
    tools.chain(std::iter::once(none)).collect()
}

fn choice(example: &Example) -> Choice<WEIGHTS> {
    let none = 1.0 - example.called.iter().sum::<f32>();
    let chosen = example.called.iter().copied().chain(std::iter::once(none)).collect();
    Choice { rows: rows(&example.features), chosen }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an example with two tools, of which only the first has the feature `at`; `called` has their shares in
    /// the calls.
    fn example(at: usize, called: &[f32]) -> Example {
        let mut tools = vec![[0.0; TOOL_FEATURES]; 2];
        tools[0][at] = 1.0;
        Example { features: Features { tools, nearest: 0.5 }, called: called.to_vec() }
    }

    #[test]
    fn a_hint_that_was_right_is_worth_more_and_one_that_was_wrong_less() {
        let right: Vec<_> = (0..50).map(|_| example(0, &[1.0, 0.0])).collect();
        let wrong: Vec<_> = (0..50).map(|_| example(0, &[0.0, 1.0])).collect();
        let features = &right[0].features;
        let (before, _) = Model::default().shares(features);
        let (after, none) = Model::fit(&right).shares(features);
        assert!(
            after[0] > 0.7 && after[0] > before[0] && after[0] > 2.0 * none,
            "{before:?} {after:?}"
        );
        let (after, _) = Model::fit(&wrong).shares(features);
        assert!(after[0] < 0.1 * after[1], "{before:?} {after:?}");
    }

    #[test]
    fn where_none_was_called_none_has_the_share() {
        let none: Vec<_> = (0..50).map(|_| example(3, &[0.0, 0.0])).collect();
        let model = Model::fit(&none);
        let (shares, left) = model.shares(&none[0].features);
        assert!(left > 0.95, "{shares:?}");
        assert!(shares.iter().all(|share| model.lift(*share, left) < 0.02));
    }

    #[test]
    fn nothing_to_learn_from_changes_nothing() {
        assert_eq!(Model::fit(&[]), Model::default());
        let (shares, none) = Model::default().shares(&Features::default());
        assert!(shares.is_empty() && (none - 1.0).abs() < 1e-6);
        let lift = |share, none| Model::default().lift(share, none);
        assert!(lift(0.0, 1.0).abs() < f32::EPSILON && lift(1.0, 0.0).is_finite());
    }

    #[test]
    fn a_predictive_history_lifts_more() {
        let right: Vec<_> = (0..50).map(|_| example(0, &[1.0, 0.0])).collect();
        let few = Model::fit(&right[..3]);
        let many = Model::fit(&right);
        assert!(few.lift(0.5, 0.2) < 0.5 * many.lift(0.5, 0.2), "{few:?} {many:?}");
    }

    #[test]
    fn the_fit_is_where_the_slope_is_flat() {
        let examples: Vec<_> = (0..90)
            .map(|n| example(n % TOOL_FEATURES, if n % 3 == 0 { &[0.7, 0.3] } else { &[0.1, 0.2] }))
            .collect();
        let model = Model::fit(&examples);
        let choices: Vec<_> = examples.iter().map(choice).collect();
        let best = PRIOR.loss(&model.weights, &choices);
        for at in 0..WEIGHTS {
            for by in [-0.3, 0.3] {
                let mut other = model.weights;
                other[at] += by;
                assert!(PRIOR.loss(&other, &choices) > best, "weight {at}");
            }
        }
    }
}
