//! Reads tensors of a safetensors file (MGP §16.4).
//!
//! Applies to: both.

use serde::Deserialize;
use std::{borrow::Cow, collections::BTreeMap};

/// Why a tensor cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WeightsError {
    /// It does not begin as safetensors do.
    #[error("they are no safetensors file")]
    NotSafetensors,
    /// There is no such tensor.
    #[error("there is no tensor `{0}`")]
    NoTensor(String),
    /// A tensor has another type, shape or length.
    #[error("the tensor `{0}` is not of {1:?} single-precision numbers")]
    Misfit(String, Vec<usize>),
    /// The configuration is of a network that is not converted here.
    #[error("config.json says {0}; what is converted is BERT with absolute positions and GELU")]
    Network(Cow<'static, str>),
    /// A figure of the configuration cannot be.
    #[error("config.json says {0}, which cannot be")]
    Figures(String),
}

/// The tensors of a file.
#[derive(Debug)]
pub(super) struct Weights<'a> {
    tensors: BTreeMap<String, Tensor>,
    bytes: &'a [u8],
}

#[derive(Debug, Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

impl<'a> Weights<'a> {
    /// Reads the list of tensors.
    pub(super) fn new(file: &'a [u8]) -> Result<Self, WeightsError> {
        let (length, rest) = file.split_first_chunk().ok_or(WeightsError::NotSafetensors)?;
        let length = usize::try_from(u64::from_le_bytes(*length));
        let (list, bytes) = length
            .ok()
            .and_then(|length| rest.split_at_checked(length))
            .ok_or(WeightsError::NotSafetensors)?;
        let mut list: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(list).map_err(|_| WeightsError::NotSafetensors)?;
        list.remove("__metadata__");
        let read = |(name, tensor)| Some((name, serde_json::from_value(tensor).ok()?));
        let tensors: Option<_> = list.into_iter().map(read).collect();
        Ok(Self { tensors: tensors.ok_or(WeightsError::NotSafetensors)?, bytes })
    }

    /// The numbers of a tensor that has this shape.
    pub(super) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, WeightsError> {
        let tensor = self.tensors.get(name);
        let tensor = tensor.ok_or_else(|| WeightsError::NoTensor(name.to_owned()))?;
        let misfit = || WeightsError::Misfit(name.to_owned(), shape.to_vec());
        let [start, end] = tensor.data_offsets;
        let bytes = self.bytes.get(start..end).ok_or_else(misfit)?;
        let count = shape.iter().try_fold(4, |all: usize, one| all.checked_mul(*one));
        if tensor.dtype != "F32" || tensor.shape != shape || Some(bytes.len()) != count {
            return Err(misfit());
        }
        let (numbers, _) = bytes.as_chunks();
        Ok(numbers.iter().map(|four| f32::from_le_bytes(*four)).collect())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// A file with these tensors.
    pub(crate) fn safetensors(tensors: &[(&str, &[usize], &[f32])]) -> Vec<u8> {
        let (mut list, mut bytes) = (serde_json::Map::new(), Vec::new());
        for (name, shape, numbers) in tensors {
            let start = bytes.len();
            bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            let offsets = [start, bytes.len()];
            let tensor = json!({"dtype": "F32", "shape": shape, "data_offsets": offsets});
            list.insert((*name).to_owned(), tensor);
        }
        list.insert("__metadata__".into(), json!({"format": "pt"}));
        let list = serde_json::to_vec(&list).unwrap();
        [&(list.len() as u64).to_le_bytes()[..], &list, &bytes].concat()
    }

    #[test]
    fn a_tensor_is_read_by_name_and_shape() {
        let file = safetensors(&[("a", &[2], &[1.0, 2.0]), ("b", &[2, 1], &[3.0, -4.5])]);
        let weights = Weights::new(&file).unwrap();
        assert_eq!(weights.tensor("b", &[2, 1]).unwrap(), [3.0, -4.5]);
        assert_eq!(weights.tensor("c", &[2]), Err(WeightsError::NoTensor("c".into())));
        assert_eq!(weights.tensor("a", &[3]), Err(WeightsError::Misfit("a".into(), vec![3])));
    }

    #[test]
    fn offsets_that_lead_nowhere_are_refused() {
        for offsets in [[0, 9], [8, 0], [usize::MAX - 1, usize::MAX]] {
            let list = json!({"a": {"dtype": "F32", "shape": [2], "data_offsets": offsets}});
            let list = serde_json::to_vec(&list).unwrap();
            let file = [&(list.len() as u64).to_le_bytes()[..], &list, &[0; 8]].concat();
            assert!(Weights::new(&file).unwrap().tensor("a", &[2]).is_err(), "{offsets:?}");
        }
        let endless = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
        assert_eq!(Weights::new(&endless).unwrap_err(), WeightsError::NotSafetensors);
    }

    proptest! {
        #[test]
        fn any_bytes_are_tensors_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let sized = [&(bytes.len() as u64 / 2).to_le_bytes()[..], &bytes].concat();
            for file in [&bytes, &sized] {
                if let Ok(weights) = Weights::new(file) {
                    drop(weights.tensor("a", &[2]));
                }
            }
        }
    }
}
