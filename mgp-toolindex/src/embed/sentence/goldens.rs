//! Texts with known vectors, which detect an encoder that runs but computes wrong vectors (MGP §16.4).
//!
//! The rows of `goldens.json` are unit vectors, quantised to signed bytes. They come from an independent implementation
//! of the network, which computed them in double precision from the published weights. The cosine error caused by the
//! quantisation is at most 5e-5.

use super::{error::ModelError, sentences::Sentences};
use crate::embed::Embedder;
use serde::Deserialize;

/// The name of the model that has these known vectors.
pub(super) const MODEL: &str = "all-MiniLM-L6-v2";

/// The minimum cosine of a correct encoder; an encoder whose weights are quantised to bytes reaches 0.99.
const MIN_COSINE: f32 = 0.98;

const GOLDENS: &str = include_str!("goldens.json");

#[derive(Debug, Deserialize)]
struct Golden {
    text: String,
    /// The quantised vector, in hexadecimal.
    row: String,
}

/// Compares the vectors of an encoder with the known vectors; returns the lowest cosine.
pub(super) fn check(encoder: &Sentences) -> Result<f32, ModelError> {
    let mut worst = 1.0_f32;
    for Golden { text, row } in goldens() {
        let cosine = cosine(&encoder.vector(&text)?, &bytes(&row));
        if cosine.is_nan() || cosine < MIN_COSINE {
            let model = encoder.model().to_owned();
            return Err(ModelError::WrongVectors { model, text, cosine, min: MIN_COSINE });
        }
        worst = worst.min(cosine);
    }
    Ok(worst)
}

fn goldens() -> Vec<Golden> {
    serde_json::from_str(GOLDENS).expect("a test parses it")
}

fn bytes(row: &str) -> Vec<i8> {
    let pairs = row.as_bytes().chunks_exact(2).filter_map(|pair| std::str::from_utf8(pair).ok());
    pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).map(u8::cast_signed).collect()
}

/// Returns the cosine of two vectors. Returns zero if their lengths differ, because they are then from different
/// models.
fn cosine(vector: &[f32], golden: &[i8]) -> f32 {
    if vector.len() != golden.len() {
        return 0.0;
    }
    let pairs = || vector.iter().zip(golden).map(|(a, b)| (*a, f32::from(*b)));
    let product: f32 = pairs().map(|(a, b)| a * b).sum();
    let lengths: f32 =
        pairs().map(|(a, _)| a * a).sum::<f32>() * pairs().map(|(_, b)| b * b).sum::<f32>();
    product / lengths.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goldens_are_texts_with_rows_of_the_model() {
        let goldens = goldens();
        assert!(goldens.len() >= 10);
        for golden in goldens {
            assert_eq!(bytes(&golden.row).len(), 384, "{}", golden.text);
        }
    }

    #[test]
    fn another_direction_or_length_has_a_low_cosine() {
        let golden: Vec<i8> = vec![3, -4, 0];
        assert!((cosine(&[0.6, -0.8, 0.0], &golden) - 1.0).abs() < 1e-6);
        assert!(cosine(&[0.8, 0.6, 0.0], &golden).abs() < 1e-6);
        assert!(cosine(&[0.6, -0.8], &golden) < MIN_COSINE);
        assert!(cosine(&[0.0; 3], &golden).is_nan());
    }
}
