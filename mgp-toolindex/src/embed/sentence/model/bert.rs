//! Turns the weights of a BERT encoder into an ONNX model with weights in single bytes (MGP §16.4).
//!
//! Each column of a matrix has a scale of its own.
//! What goes into a matrix is quantised while the model runs, by the range it has then, once for the matrices that
//! share it.
//!
//! Applies to: both.

use super::{
    graph::{Graph, Kind, Name, Setting, Size},
    weights::{Weights, WeightsError},
};
use serde::Deserialize;

/// The figures of a network, from its `config.json`.
#[derive(Debug, Deserialize)]
pub(super) struct Config {
    pub(super) hidden_size: usize,
    intermediate_size: usize,
    num_attention_heads: usize,
    num_hidden_layers: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    layer_norm_eps: f32,
    model_type: String,
    hidden_act: String,
    #[serde(default = "absolute")]
    position_embedding_type: String,
}

fn absolute() -> String {
    "absolute".into()
}

impl Config {
    /// Reads the file, and refuses other networks.
    pub(super) fn read(file: &[u8]) -> Result<Self, WeightsError> {
        let config: Self = serde_json::from_slice(file)
            .map_err(|reason| WeightsError::Network(reason.to_string().into()))?;
        for (what, is, wanted) in [
            ("model_type", &config.model_type, "bert"),
            ("hidden_act", &config.hidden_act, "gelu"),
            ("position_embedding_type", &config.position_embedding_type, "absolute"),
        ] {
            if is != wanted {
                return Err(WeightsError::Network(format!("{what} {is:?}").into()));
            }
        }
        let (width, heads) = (config.hidden_size, config.num_attention_heads);
        let sizes = [width, heads, config.intermediate_size];
        if sizes.contains(&0) || !width.is_multiple_of(heads) {
            return Err(WeightsError::Figures(format!(
                "{width} numbers, {heads} heads and {} inner numbers",
                config.intermediate_size
            )));
        }
        Ok(config)
    }
}

/// Converts the weights of a network.
pub(super) fn convert(config: &Config, weights: &Weights<'_>) -> Result<Vec<u8>, WeightsError> {
    let text = [Size::Any("batch"), Size::Any("sequence")];
    let mut graph = Graph::default();
    let [tokens, mask, segments] = ["input_ids", "attention_mask", "token_type_ids"]
        .map(|name| graph.input(name, Kind::Long, &text));
    let mut writer = Writer { graph, config, weights };
    let mut state = writer.embeddings(&tokens, &segments)?;
    let shared = writer.shared(&mask);
    for layer in 0..config.num_hidden_layers {
        state = writer.layer(&format!("encoder.layer.{layer}"), &state, &shared)?;
    }
    let [batch, sequence] = text;
    let sizes = [batch, sequence, Size::Of(config.hidden_size)];
    Ok(writer.graph.finish(&state, "last_hidden_state", &sizes))
}

/// What all layers use.
#[derive(Debug)]
struct Shared {
    /// Added to each score: nothing, or so little that the token does not count.
    mask: Name,
    /// Sizes with the heads apart, and back in one row.
    apart: Name,
    together: Name,
    /// What GELU is made from.
    root: Name,
    one: Name,
    half: Name,
}

/// Writes the parts of a network.
struct Writer<'a> {
    graph: Graph,
    config: &'a Config,
    weights: &'a Weights<'a>,
}

impl Writer<'_> {
    /// The sum of what is known of each token: the word, its place, its segment.
    fn embeddings(&mut self, tokens: &Name, segments: &Name) -> Result<Name, WeightsError> {
        let Config { hidden_size: width, vocab_size, .. } = *self.config;
        let words =
            self.weights.tensor("embeddings.word_embeddings.weight", &[vocab_size, width])?;
        let (bytes, scales) = quantised(&words, width);
        let bytes = self.graph.bytes(&[vocab_size, width], &bytes);
        let scales = self.graph.floats(&[vocab_size, 1], &scales);
        let bytes = self.graph.node("Gather", &[&bytes, tokens], &[]);
        let numbers = self.float(&bytes);
        let scales = self.graph.node("Gather", &[&scales, tokens], &[]);
        let words = self.graph.node("Mul", &[&numbers, &scales], &[]);

        let most = self.config.max_position_embeddings;
        let places = self.plain("embeddings.position_embeddings.weight", &[most, width])?;
        let [first, second] = [0, 1].map(|at| self.graph.longs(&[at]));
        let sizes = self.graph.node("Shape", &[tokens], &[]);
        let length = self.graph.node("Gather", &[&sizes, &second], &[]);
        let places = self.graph.node("Slice", &[&places, &first, &length, &first], &[]);

        let kinds = self.config.type_vocab_size;
        let kinds = self.plain("embeddings.token_type_embeddings.weight", &[kinds, width])?;
        let kinds = self.graph.node("Gather", &[&kinds, segments], &[]);

        let sum = self.graph.node("Add", &[&words, &kinds], &[]);
        let sum = self.graph.node("Add", &[&sum, &places], &[]);
        self.normal("embeddings.LayerNorm", &sum)
    }

    fn shared(&mut self, mask: &Name) -> Shared {
        let (heads, width) = (self.config.num_attention_heads, self.config.hidden_size);
        let whole = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        let graph = &mut self.graph;
        let one = graph.floats(&[1], &[1.0]);
        let little = graph.floats(&[1], &[-10_000.0]);
        let axes = graph.longs(&[1, 2]);
        let mask = graph.node("Cast", &[mask], &[("to", Setting::Int(Kind::Float as i64))]);
        let mask = graph.node("Unsqueeze", &[&mask, &axes], &[]);
        let absent = graph.node("Sub", &[&one, &mask], &[]);
        Shared {
            mask: graph.node("Mul", &[&absent, &little], &[]),
            apart: graph.longs(&[0, 0, whole(heads), whole(width / heads)]),
            together: graph.longs(&[0, 0, whole(width)]),
            root: graph.floats(&[1], &[std::f32::consts::SQRT_2]),
            half: graph.floats(&[1], &[0.5]),
            one,
        }
    }

    /// Attention, then two matrices, each added to what came in.
    fn layer(&mut self, at: &str, state: &Name, shared: &Shared) -> Result<Name, WeightsError> {
        let Config { hidden_size: width, intermediate_size: wide, .. } = *self.config;
        let heard = self.attention(&format!("{at}.attention.self"), state, shared)?;
        let heard = self.quantise(&heard);
        let heard = self.matrix(&format!("{at}.attention.output.dense"), &heard, width, width)?;
        let sum = self.graph.node("Add", &[&heard, state], &[]);
        let state = self.normal(&format!("{at}.attention.output.LayerNorm"), &sum)?;

        let input = self.quantise(&state);
        let inner = self.matrix(&format!("{at}.intermediate.dense"), &input, width, wide)?;
        let inner = self.gelu(&inner, shared);
        let inner = self.quantise(&inner);
        let outer = self.matrix(&format!("{at}.output.dense"), &inner, wide, width)?;
        let sum = self.graph.node("Add", &[&outer, &state], &[]);
        self.normal(&format!("{at}.output.LayerNorm"), &sum)
    }

    fn attention(&mut self, at: &str, state: &Name, shared: &Shared) -> Result<Name, WeightsError> {
        let Config { hidden_size: width, num_attention_heads: heads, .. } = *self.config;
        let input = self.quantise(state);
        let by_head = [("perm", Setting::Ints(&[0, 2, 1, 3]))];
        let turned = [("perm", Setting::Ints(&[0, 2, 3, 1]))];
        let mut head = |name: &str, order: &[_]| {
            let all = self.matrix(&format!("{at}.{name}"), &input, width, width)?;
            let apart = self.graph.node("Reshape", &[&all, &shared.apart], &[]);
            Ok(self.graph.node("Transpose", &[&apart], order))
        };
        let query = head("query", &by_head)?;
        let key = head("key", &turned)?;
        let value = head("value", &by_head)?;

        let graph = &mut self.graph;
        let size = f32::from(u16::try_from(width / heads).unwrap_or(u16::MAX));
        let size = graph.floats(&[1], &[size.sqrt()]);
        let scores = graph.node("MatMul", &[&query, &key], &[]);
        let scores = graph.node("Div", &[&scores, &size], &[]);
        let scores = graph.node("Add", &[&scores, &shared.mask], &[]);
        let shares = graph.node("Softmax", &[&scores], &[("axis", Setting::Int(-1))]);
        let heard = graph.node("MatMul", &[&shares, &value], &[]);
        let heard = graph.node("Transpose", &[&heard], &by_head);
        Ok(graph.node("Reshape", &[&heard, &shared.together], &[]))
    }

    /// Bytes, their scale and their zero, by the range the numbers have while the model runs.
    fn quantise(&mut self, numbers: &Name) -> [Name; 3] {
        self.graph.nodes("DynamicQuantizeLinear", &[numbers], &[])
    }

    /// Multiplies with a matrix of bytes and adds the bias.
    fn matrix(
        &mut self,
        at: &str,
        [bytes, scale, zero]: &[Name; 3],
        rows: usize,
        columns: usize,
    ) -> Result<Name, WeightsError> {
        // The file has a row for each output; the operator wants a column.
        let weights = self.weights.tensor(&format!("{at}.weight"), &[columns, rows])?;
        let (quantised, scales) = quantised(&weights, rows);
        let mut turned = vec![0; quantised.len()];
        for (column, row) in quantised.chunks_exact(rows).enumerate() {
            for (at, byte) in row.iter().enumerate() {
                turned[at * columns + column] = *byte;
            }
        }
        let matrix = self.graph.bytes(&[rows, columns], &turned);
        let none = self.graph.bytes(&[columns], &vec![0; columns]);
        let scales = self.graph.floats(&[columns], &scales);
        let bias = self.plain(&format!("{at}.bias"), &[columns])?;
        let product = self.graph.node("MatMulInteger", &[bytes, &matrix, zero, &none], &[]);
        let product = self.float(&product);
        let scale = self.graph.node("Mul", &[scale, &scales], &[]);
        let product = self.graph.node("Mul", &[&product, &scale], &[]);
        Ok(self.graph.node("Add", &[&product, &bias], &[]))
    }

    fn gelu(&mut self, x: &Name, Shared { root, one, half, .. }: &Shared) -> Name {
        let graph = &mut self.graph;
        let share = graph.node("Div", &[x, root], &[]);
        let share = graph.node("Erf", &[&share], &[]);
        let share = graph.node("Add", &[&share, one], &[]);
        let share = graph.node("Mul", &[x, &share], &[]);
        graph.node("Mul", &[&share, half], &[])
    }

    fn normal(&mut self, at: &str, numbers: &Name) -> Result<Name, WeightsError> {
        let width = self.config.hidden_size;
        let weight = self.plain(&format!("{at}.weight"), &[width])?;
        let bias = self.plain(&format!("{at}.bias"), &[width])?;
        let least = Setting::Float(self.config.layer_norm_eps);
        let settings = [("axis", Setting::Int(-1)), ("epsilon", least)];
        Ok(self.graph.node("LayerNormalization", &[numbers, &weight, &bias], &settings))
    }

    fn float(&mut self, whole: &Name) -> Name {
        self.graph.node("Cast", &[whole], &[("to", Setting::Int(Kind::Float as i64))])
    }

    /// A tensor as it is.
    fn plain(&mut self, name: &str, sizes: &[usize]) -> Result<Name, WeightsError> {
        let numbers = self.weights.tensor(name, sizes)?;
        Ok(self.graph.floats(sizes, &numbers))
    }
}

/// Each row as bytes, with the scale that its largest number gives it.
#[expect(clippy::cast_possible_truncation, reason = "the quotient is at most 127")]
fn quantised(numbers: &[f32], width: usize) -> (Vec<i8>, Vec<f32>) {
    let mut bytes = Vec::with_capacity(numbers.len());
    let mut scales = Vec::with_capacity(numbers.len() / width);
    for row in numbers.chunks_exact(width) {
        let largest = row.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        // A row of nothing keeps a scale by which one can divide.
        let scale = largest.max(f32::MIN_POSITIVE * 127.0) / 127.0;
        bytes.extend(row.iter().map(|number| (number / scale).round() as i8));
        scales.push(scale);
    }
    (bytes, scales)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::sentence::model::weights::tests::safetensors;

    const CONFIG: &str = r#"{"hidden_size": 4, "intermediate_size": 8, "num_attention_heads": 2,
        "num_hidden_layers": 0, "vocab_size": 3, "max_position_embeddings": 5,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "model_type": "bert", "hidden_act": "gelu"}"#;

    #[test]
    fn rows_become_bytes_with_a_scale() {
        let (bytes, scales) = quantised(&[1.0, -2.0, 0.0, 0.0, 0.5, 0.25], 2);
        assert_eq!(bytes, [64, -127, 0, 0, 127, 64]);
        assert!((scales[0] - 2.0 / 127.0).abs() < 1e-7);
        assert!(scales[1] > 0.0);
    }

    #[test]
    fn another_network_is_refused_with_what_it_is() {
        assert!(Config::read(CONFIG.as_bytes()).is_ok());
        for (from, to, said) in [
            ("\"bert\"", "\"t5\"", "model_type \"t5\""),
            ("\"gelu\"", "\"relu\"", "hidden_act \"relu\""),
            ("heads\": 2", "heads\": 3", "3 heads"),
            ("heads\": 2", "heads\": 0", "0 heads"),
            ("\"intermediate_size\": 8", "\"intermediate_size\": 0", "0 inner"),
            ("\"vocab_size\": 3,", "", "vocab_size"),
        ] {
            let config = CONFIG.replace(from, to);
            let refusal = Config::read(config.as_bytes()).unwrap_err().to_string();
            assert!(refusal.contains(said), "{refusal}");
        }
    }

    #[test]
    fn a_network_is_written_and_a_missing_tensor_named() {
        let config = Config::read(CONFIG.as_bytes()).unwrap();
        let tensors: [(&str, &[usize], &[f32]); 5] = [
            ("embeddings.word_embeddings.weight", &[3, 4], &[0.5; 12]),
            ("embeddings.position_embeddings.weight", &[5, 4], &[0.1; 20]),
            ("embeddings.token_type_embeddings.weight", &[2, 4], &[0.0; 8]),
            ("embeddings.LayerNorm.weight", &[4], &[1.0; 4]),
            ("embeddings.LayerNorm.bias", &[4], &[0.0; 4]),
        ];
        let file = safetensors(&tensors);
        let onnx = convert(&config, &Weights::new(&file).unwrap()).unwrap();
        for part in ["input_ids", "attention_mask", "LayerNormalization", "last_hidden_state"] {
            assert!(onnx.windows(part.len()).any(|bytes| bytes == part.as_bytes()), "{part}");
        }
        let file = safetensors(&tensors[..4]);
        let refusal = convert(&config, &Weights::new(&file).unwrap()).unwrap_err();
        assert_eq!(refusal, WeightsError::NoTensor("embeddings.LayerNorm.bias".into()));
    }
}
