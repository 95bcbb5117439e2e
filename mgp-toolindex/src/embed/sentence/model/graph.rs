//! Writes an ONNX model: nodes, tensors, inputs and outputs, as protocol buffers (MGP §16.4).
//!
//! Applies to: both.

/// The set of operators that the nodes are from.
const OPERATORS: u64 = 17;
/// The version of the format that came with it.
const FORMAT: u64 = 8;

/// What the elements of a tensor are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Single precision.
    Float = 1,
    /// One byte with a sign.
    Byte = 3,
    /// Eight bytes with a sign.
    Long = 7,
}

/// A setting of a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Setting<'a> {
    /// A number.
    Float(f32),
    /// A whole number.
    Int(i64),
    /// A list of whole numbers.
    Ints(&'a [i64]),
}

/// A tensor in the graph: an input, a weight, or what a node makes.
pub(super) type Name = String;

/// The size of a dimension.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    /// Whatever comes; what is called the same is the same.
    Any(&'static str),
    /// Always this.
    Of(usize),
}

/// A graph that is being written.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Message,
    tensors: Message,
    inputs: Message,
    count: usize,
}

impl Graph {
    /// An input of the whole graph.
    pub(super) fn input(&mut self, name: &str, kind: Kind, sizes: &[Size]) -> Name {
        self.inputs.message(11, &value(name, kind, sizes));
        name.to_owned()
    }

    /// A tensor of single-precision numbers.
    pub(super) fn floats(&mut self, sizes: &[usize], numbers: &[f32]) -> Name {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.tensor(Kind::Float, sizes, &bytes)
    }

    /// A tensor of single bytes.
    pub(super) fn bytes(&mut self, sizes: &[usize], bytes: &[i8]) -> Name {
        let bytes: Vec<u8> = bytes.iter().map(|byte| byte.cast_unsigned()).collect();
        self.tensor(Kind::Byte, sizes, &bytes)
    }

    /// A list of whole numbers.
    pub(super) fn longs(&mut self, numbers: &[i64]) -> Name {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.tensor(Kind::Long, &[numbers.len()], &bytes)
    }

    fn tensor(&mut self, kind: Kind, sizes: &[usize], bytes: &[u8]) -> Name {
        let name = self.name("w");
        let mut tensor = Message::default();
        for size in sizes {
            tensor.number(1, *size as u64);
        }
        tensor.number(2, kind as u64).text(8, &name).bytes(9, bytes);
        self.tensors.message(5, &tensor);
        name
    }

    /// A node with one output.
    pub(super) fn node(
        &mut self,
        operator: &str,
        inputs: &[&Name],
        settings: &[(&str, Setting<'_>)],
    ) -> Name {
        let [output] = self.nodes(operator, inputs, settings);
        output
    }

    /// A node with several outputs.
    pub(super) fn nodes<const N: usize>(
        &mut self,
        operator: &str,
        inputs: &[&Name],
        settings: &[(&str, Setting<'_>)],
    ) -> [Name; N] {
        let outputs = std::array::from_fn(|_| self.name("n"));
        self.write(operator, inputs, &outputs, settings);
        outputs
    }

    fn write(
        &mut self,
        operator: &str,
        inputs: &[&Name],
        outputs: &[Name],
        settings: &[(&str, Setting<'_>)],
    ) {
        let mut node = Message::default();
        for input in inputs {
            node.text(1, input);
        }
        for output in outputs {
            node.text(2, output);
        }
        node.text(3, &self.name(operator)).text(4, operator);
        for (name, value) in settings {
            let mut setting = Message::default();
            setting.text(1, name);
            match value {
                Setting::Float(number) => setting.float(2, *number).number(20, 1),
                Setting::Int(number) => setting.number(3, number.cast_unsigned()).number(20, 2),
                Setting::Ints(numbers) => {
                    for number in *numbers {
                        setting.number(8, number.cast_unsigned());
                    }
                    setting.number(20, 7)
                }
            };
            node.message(5, &setting);
        }
        self.nodes.message(1, &node);
    }

    fn name(&mut self, kind: &str) -> Name {
        self.count += 1;
        format!("{kind}{}", self.count)
    }

    /// The whole model, whose one output is this.
    pub(super) fn finish(mut self, output: &Name, called: &str, sizes: &[Size]) -> Vec<u8> {
        self.write("Identity", &[output], &[called.to_owned()], &[]);
        let mut graph = self.nodes;
        graph.text(2, "encoder");
        graph.append(self.tensors);
        graph.append(self.inputs);
        graph.message(12, &value(called, Kind::Float, sizes));
        let mut operators = Message::default();
        operators.text(1, "").number(2, OPERATORS);
        let mut model = Message::default();
        model.number(1, FORMAT).text(2, "mgp").text(3, env!("CARGO_PKG_VERSION"));
        model.message(7, &graph).message(8, &operators);
        model.0
    }
}

/// What goes in or comes out.
fn value(name: &str, kind: Kind, sizes: &[Size]) -> Message {
    let mut shape = Message::default();
    for size in sizes {
        let mut dimension = Message::default();
        match size {
            Size::Any(name) => dimension.text(2, name),
            Size::Of(size) => dimension.number(1, *size as u64),
        };
        shape.message(1, &dimension);
    }
    let (mut tensor, mut kinds, mut value) = <(Message, Message, Message)>::default();
    tensor.number(1, kind as u64).message(2, &shape);
    kinds.message(1, &tensor);
    value.text(1, name).message(2, &kinds);
    value
}

/// A message of protocol buffers.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn variable(&mut self, mut number: u64) -> &mut Self {
        while number > 0x7f {
            self.0.push(0x80 | number.to_le_bytes()[0]);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
        self
    }

    fn number(&mut self, field: u64, number: u64) -> &mut Self {
        self.variable(field << 3).variable(number)
    }

    fn float(&mut self, field: u64, number: f32) -> &mut Self {
        self.variable(field << 3 | 5).0.extend(number.to_le_bytes());
        self
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.variable(field << 3 | 2).variable(bytes.len() as u64).0.extend(bytes);
        self
    }

    fn text(&mut self, field: u64, text: &str) -> &mut Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(&mut self, field: u64, message: &Self) -> &mut Self {
        self.bytes(field, &message.0)
    }

    fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_as_few_bytes_as_they_need() {
        for (number, expected) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0x80, 1]),
            (300, &[0xac, 2]),
            (u64::MAX, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            assert_eq!(Message::default().variable(number).0, expected, "{number}");
        }
    }

    #[test]
    fn fields_carry_their_number_and_kind() {
        let mut message = Message::default();
        message.number(2, 7).text(8, "ab").float(2, 1.0);
        assert_eq!(message.0, [0x10, 7, 0x42, 2, b'a', b'b', 0x15, 0, 0, 0x80, 0x3f]);
    }

    #[test]
    fn no_two_tensors_have_one_name() {
        let mut graph = Graph::default();
        let a = graph.floats(&[1], &[1.0]);
        let b = graph.longs(&[1]);
        let [c, d] = graph.nodes("Split", &[&a, &b], &[]);
        let mut names = vec![a, b, c, d];
        names.dedup();
        assert_eq!(names.len(), 4);
    }
}
