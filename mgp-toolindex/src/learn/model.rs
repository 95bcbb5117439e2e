//! How much each hint is worth: a softmax over the tools and *none of them*, fitted to the history itself.
//!
//! Applies to: inbound.

/// How many hints there are of a tool.
pub(super) const OF_TOOL: usize = 7;

/// How many numbers are learned: one for each hint of a tool, two for *none of them*.
const SIZE: usize = OF_TOOL + 2;

/// How strongly the weights hold on to where they started, measured in queries.
const HOLD: f64 = 0.25;

/// Where the weights start: fitted to public queries of six evaluation sets at once (see `docs/tool-learning.md`).
const START: [f64; SIZE] = [1.7, 1.2, 1.6, 2.9, -1.9, 1.4, 0.6, 8.1, -3.5];

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
        Self { weights: START, reach: 0.0 }
    }
}

impl Model {
    /// The share of each tool, and what is left for *none of them*.
    #[expect(clippy::cast_possible_truncation, reason = "shares lie between 0 and 1")]
    pub(super) fn shares(&self, hints: &Hints) -> (Vec<f32>, f32) {
        let mut shares = softmax(&self.weights, hints);
        let none = shares.pop().unwrap_or(1.0);
        (shares.into_iter().map(|share| share as f32).collect(), none as f32)
    }

    /// Fits the weights to examples; Newton's method, because there are few weights.
    pub(super) fn fit(examples: &[Example]) -> Self {
        let mut weights = START;
        let mut loss = loss(&weights, examples);
        for _ in 0..20 {
            let Some(step) = step(&weights, examples) else { break };
            // A full step may be too far where the softmax is flat.
            let shorter = (0..8).map(|halved| 0.5_f64.powi(halved)).find_map(|length| {
                let mut next = weights;
                next.iter_mut().zip(&step).for_each(|(weight, step)| *weight -= length * step);
                let reached = self::loss(&next, examples);
                (reached < loss).then_some((next, reached))
            });
            let Some((next, reached)) = shorter else { break };
            let gained = loss - reached;
            (weights, loss) = (next, reached);
            if gained < 1e-4 {
                break;
            }
        }
        let mut model = Self { weights, reach: 0.0 };
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

/// The shares of the tools, and of *none of them* at the end.
fn softmax(weights: &[f64; SIZE], hints: &Hints) -> Vec<f64> {
    let mut shares: Vec<f64> = rows(hints).map(|row| dot(weights, &row)).collect();
    let most = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for share in &mut shares {
        *share = (*share - most).exp();
    }
    let sum: f64 = shares.iter().sum();
    for share in &mut shares {
        *share /= sum;
    }
    shares
}

/// One row for each tool, then the one of *none of them*.
fn rows(hints: &Hints) -> impl Iterator<Item = [f64; SIZE]> {
    let tools = hints.tools.iter().map(|of_tool| {
        let mut row = [0.0; SIZE];
        row.iter_mut().zip(of_tool).for_each(|(to, from)| *to = f64::from(*from));
        row
    });
    let mut none = [0.0; SIZE];
    (none[OF_TOOL], none[OF_TOOL + 1]) = (1.0, f64::from(hints.nearest));
    tools.chain(std::iter::once(none))
}

fn called(example: &Example) -> impl Iterator<Item = f64> {
    let none = 1.0 - example.called.iter().sum::<f32>();
    example.called.iter().copied().chain(std::iter::once(none)).map(f64::from)
}

fn loss(weights: &[f64; SIZE], examples: &[Example]) -> f64 {
    let held = weights.iter().zip(START).map(|(weight, start)| (weight - start).powi(2));
    let missed = examples.iter().map(|example| {
        let shares = softmax(weights, &example.hints);
        let missed = shares.iter().zip(called(example));
        missed.map(|(share, called)| -called * share.max(1e-300).ln()).sum::<f64>()
    });
    HOLD * held.sum::<f64>() + missed.sum::<f64>()
}

/// The step of Newton's method; none when it cannot be found.
fn step(weights: &[f64; SIZE], examples: &[Example]) -> Option<[f64; SIZE]> {
    let mut slope = [0.0; SIZE];
    let mut bend = [[0.0; SIZE]; SIZE];
    for at in 0..SIZE {
        slope[at] = 2.0 * HOLD * (weights[at] - START[at]);
        bend[at][at] = 2.0 * HOLD;
    }
    for example in examples {
        let shares = softmax(weights, &example.hints);
        let mut mean = [0.0; SIZE];
        for ((row, share), called) in rows(&example.hints).zip(&shares).zip(called(example)) {
            for at in 0..SIZE {
                slope[at] += (share - called) * row[at];
                mean[at] += share * row[at];
                for other in 0..=at {
                    bend[at][other] += share * row[at] * row[other];
                }
            }
        }
        for at in 0..SIZE {
            for other in 0..=at {
                bend[at][other] -= mean[at] * mean[other];
            }
        }
    }
    solve(bend, slope)
}

/// Solves `bend * step = slope` by Cholesky's method; only the lower half of `bend` is read.
fn solve(mut bend: [[f64; SIZE]; SIZE], mut slope: [f64; SIZE]) -> Option<[f64; SIZE]> {
    for at in 0..SIZE {
        for other in 0..=at {
            let known: f64 = (0..other).map(|k| bend[at][k] * bend[other][k]).sum();
            let rest = bend[at][other] - known;
            if at == other {
                if rest <= 0.0 || !rest.is_finite() {
                    return None;
                }
                bend[at][at] = rest.sqrt();
            } else {
                bend[at][other] = rest / bend[other][other];
            }
        }
    }
    for at in 0..SIZE {
        let known: f64 = (0..at).map(|k| bend[at][k] * slope[k]).sum();
        slope[at] = (slope[at] - known) / bend[at][at];
    }
    for at in (0..SIZE).rev() {
        let known: f64 = (at + 1..SIZE).map(|k| bend[k][at] * slope[k]).sum();
        slope[at] = (slope[at] - known) / bend[at][at];
    }
    Some(slope)
}

fn dot(left: &[f64; SIZE], right: &[f64; SIZE]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
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
        let best = loss(&model.weights, &examples);
        for at in 0..SIZE {
            for by in [-0.3, 0.3] {
                let mut other = model.weights;
                other[at] += by;
                assert!(loss(&other, &examples) > best, "weight {at}");
            }
        }
    }
}
