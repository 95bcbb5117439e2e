//! Fits the weights of a softmax to examples, with a Gaussian prior.

/// An example to which weights are fitted: some alternatives, and the share of each alternative in the choices that
/// were made.
#[derive(Clone, Debug)]
pub(crate) struct Choice<const N: usize> {
    /// The features of each alternative.
    pub(crate) rows: Vec<[f32; N]>,
    /// The share of each alternative in the choices; the shares add up to one.
    pub(crate) chosen: Vec<f32>,
}

/// A Gaussian prior of the weights: their means, and the strength of the prior compared with one example.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prior<const N: usize> {
    pub(super) weights: [f64; N],
    pub(super) strength: f64,
}

/// Returns the share that the softmax gives to each alternative, given its row of features.
pub(super) fn shares<const N: usize>(weights: &[f64; N], rows: &[[f32; N]]) -> Vec<f64> {
    let mut shares: Vec<f64> = rows.iter().map(|row| dot(weights, row)).collect();
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

pub(super) fn dot<const N: usize>(weights: &[f64; N], row: &[f32; N]) -> f64 {
    weights.iter().zip(row).map(|(weight, number)| weight * f64::from(*number)).sum()
}

impl<const N: usize> Prior<N> {
    /// Fits the weights by Newton's method, which is suitable because there are few weights.
    pub(super) fn fit(&self, choices: &[Choice<N>]) -> [f64; N] {
        let mut weights = self.weights;
        let mut loss = self.loss(&weights, choices);
        for _ in 0..20 {
            let Some(step) = self.step(&weights, choices) else { break };
            // Halve the step until the loss becomes smaller, because a full Newton step can overshoot where the softmax
            // is flat.
            let shorter = (0..8).map(|halved| 0.5_f64.powi(halved)).find_map(|length| {
                let mut next = weights;
                next.iter_mut().zip(&step).for_each(|(weight, step)| *weight -= length * step);
                let reached = self.loss(&next, choices);
                (reached < loss).then_some((next, reached))
            });
            let Some((next, reached)) = shorter else { break };
            let gained = loss - reached;
            (weights, loss) = (next, reached);
            if gained < 1e-4 {
                break;
            }
        }
        weights
    }

    /// Returns the loss of weights: the negative log likelihood of the choices, plus the penalty of the prior.
    pub(super) fn loss(&self, weights: &[f64; N], choices: &[Choice<N>]) -> f64 {
        let held = weights.iter().zip(self.weights);
        let held = held.map(|(weight, start)| (weight - start).powi(2));
        let missed = choices.iter().map(|choice| {
            let shares = shares(weights, &choice.rows);
            let missed = shares.iter().zip(&choice.chosen);
            missed.map(|(share, chosen)| -f64::from(*chosen) * share.max(1e-300).ln()).sum::<f64>()
        });
        self.strength * held.sum::<f64>() + missed.sum::<f64>()
    }

    /// Returns a Newton step; `None` if the linear system cannot be solved.
    fn step(&self, weights: &[f64; N], choices: &[Choice<N>]) -> Option<[f64; N]> {
        let mut slope = [0.0; N];
        let mut bend = [[0.0; N]; N];
        for at in 0..N {
            slope[at] = 2.0 * self.strength * (weights[at] - self.weights[at]);
            bend[at][at] = 2.0 * self.strength;
        }
        for choice in choices {
            let shares = shares(weights, &choice.rows);
            let mut mean = [0.0; N];
            for ((row, share), chosen) in choice.rows.iter().zip(&shares).zip(&choice.chosen) {
                let row = row.map(f64::from);
                for at in 0..N {
                    slope[at] += (share - f64::from(*chosen)) * row[at];
                    mean[at] += share * row[at];
                    for other in 0..=at {
                        bend[at][other] += share * row[at] * row[other];
                    }
                }
            }
            for at in 0..N {
                for other in 0..=at {
                    bend[at][other] -= mean[at] * mean[other];
                }
            }
        }
        solve(bend, slope)
    }
}

/// Solves `bend * step = slope` by Cholesky's method; reads only the lower half of `bend`.
fn solve<const N: usize>(mut bend: [[f64; N]; N], mut slope: [f64; N]) -> Option<[f64; N]> {
    for at in 0..N {
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
    for at in 0..N {
        let known: f64 = (0..at).map(|k| bend[at][k] * slope[k]).sum();
        slope[at] = (slope[at] - known) / bend[at][at];
    }
    for at in (0..N).rev() {
        let known: f64 = (at + 1..N).map(|k| bend[k][at] * slope[k]).sum();
        slope[at] = (slope[at] - known) / bend[at][at];
    }
    Some(slope)
}
