//! A network with its weights as an ONNX model, which other runtimes compute.
//!
//! Its input `pixels` is `[n, channels, height, width]` with pixels from 0 to 1 (a byte divided by
//! 255); the normalization is part of the graph. Its output `logits` is `[n, classes]`. Dropout is
//! left out, so that a network whose dropout stays on is its mean network. Operators are those of
//! opset 17. The metadata of the file name the classes.
//!
//! The file is a protobuf; `message` declares the part of `onnx.proto` that is needed.

use std::collections::HashSet;

use engine::network::{Conv, Layer, LayerKind, Network, Pool};
use images::Normalization;
use prost::Message;

use crate::error::{Error, Result};
use crate::weights;

use message::{
    Attribute, Dimension, Graph, Model, Node, OperatorSet, Property, Shape, Tensor, TensorType,
    Type, ValueInfo,
};

/// Name of the input.
pub const INPUT: &str = "pixels";
/// Name of the output.
pub const OUTPUT: &str = "logits";
/// Version of the format, and of the operators: what runtimes of 2022 and later read.
const FORMAT: i64 = 8;
const OPERATORS: i64 = 17;
/// `FLOAT` and `INT64` of `TensorProto.DataType`.
const FLOAT: i32 = 1;
const INT64: i32 = 7;
/// ε of [`LayerKind::FrnTlu`].
const FRN_EPSILON: f32 = 1e-6;
/// Constants that layers share; names of parameters end in something else.
const EPSILON: &str = "frn.epsilon";
const SIDES: &str = "spatial.axes";
/// Most bytes of a protobuf.
const MOST_BYTES: usize = i32::MAX as usize;

/// The bytes of a model file; `metadata` are words with what they say.
///
/// ```
/// use images::Normalization;
/// let network = engine::zoo::lenet(10)?;
/// let weights = network.initial_parameters(0);
/// let normalization = Normalization::identity(1);
/// let bytes = experiment::onnx::encode(&network, &weights, &normalization, &[])?;
/// assert!(bytes.len() > 4 * 44_426);
/// # Ok::<(), experiment::Error>(())
/// ```
///
/// # Errors
/// The weights or the normalization are not those of the network, or are too large for the format.
pub fn encode(
    network: &Network,
    flat: &[f32],
    normalization: &Normalization,
    metadata: &[(&str, String)],
) -> Result<Vec<u8>> {
    let channels = network.input_shape().channels;
    if normalization.channels() != channels {
        let problem = format!(
            "has constants for {} channels, the network takes {channels}",
            normalization.channels()
        );
        return Err(Error::setting("normalization", problem));
    }
    let mut writer = Writer::new(network);
    writer.normalize(normalization);
    let shapes: Vec<&[usize]> = network.parameters().iter().map(|p| &p.shape[..]).collect();
    for (index, (name, _, values)) in network.export(flat)?.enumerate() {
        let dims = match is_per_channel(network, index) {
            true => vec![values.len(), 1, 1],
            false => shapes[index].to_vec(),
        };
        writer.constant(name, &dims, values);
    }
    for layer in network.layers() {
        writer.layer(network, layer)?;
    }
    let logits = writer.flat(network.layers().len());
    writer.taken.remove(OUTPUT);
    writer.add("Identity", &[&logits], OUTPUT);
    let model = Model {
        ir_version: FORMAT,
        producer_name: "maxitive".into(),
        graph: Some(writer.graph),
        opset_import: vec![OperatorSet { version: OPERATORS }],
        metadata_props: metadata
            .iter()
            .map(|(key, value)| Property {
                key: (*key).into(),
                value: value.clone(),
            })
            .collect(),
    };
    let bytes = model.encoded_len();
    if bytes > MOST_BYTES {
        let problem = format!("takes {bytes} bytes as ONNX, which holds {MOST_BYTES} at most");
        return Err(Error::setting("network", problem));
    }
    Ok(model.encode_to_vec())
}

/// Whether a parameter is one of FRN's, a number per channel.
fn is_per_channel(network: &Network, parameter: usize) -> bool {
    network.layers().iter().any(|layer| {
        matches!(layer.kind, LayerKind::FrnTlu { .. })
            && layer.kind.parameters().contains(&parameter)
    })
}

/// A value of the network in the graph.
#[derive(Clone)]
struct Known {
    name: String,
    /// Whether it is `[n, features]` instead of `[n, channels, height, width]`.
    is_flat: bool,
}

struct Writer {
    graph: Graph,
    /// What each value of the network is called: the input, then the outputs of the layers.
    values: Vec<Known>,
    /// Names that there are.
    taken: HashSet<String>,
}

impl Writer {
    fn new(network: &Network) -> Self {
        let shape = network.input_shape();
        let sides = [shape.channels, shape.height, shape.width];
        // the format refuses a graph without a name
        let name = Some(network.name()).filter(|name| !name.is_empty());
        let graph = Graph {
            name: name.unwrap_or("network").into(),
            input: vec![float_info(INPUT, &sides)],
            output: vec![float_info(OUTPUT, &[network.classes()])],
            ..Graph::default()
        };
        Self {
            graph,
            values: Vec::new(),
            taken: [INPUT, OUTPUT, EPSILON, SIDES].map(String::from).into(),
        }
    }

    fn has_constant(&self, name: &str) -> bool {
        self.graph
            .initializer
            .iter()
            .any(|tensor| tensor.name == name)
    }

    /// Adds a constant, whose name nothing else has.
    fn constant(&mut self, name: &str, dims: &[usize], values: &[f32]) {
        self.graph.initializer.push(Tensor {
            dims: dims.iter().map(|&side| side as i64).collect(),
            data_type: FLOAT,
            name: name.into(),
            raw_data: weights::to_bytes(values),
        });
        self.taken.insert(name.into());
    }

    /// Adds an operator; what its output is called, which is `wanted` unless that is taken.
    fn add(&mut self, operator: &str, inputs: &[&str], wanted: &str) -> String {
        self.add_with(operator, inputs, wanted, vec![])
    }

    fn add_with(
        &mut self,
        operator: &str,
        inputs: &[&str],
        wanted: &str,
        attribute: Vec<Attribute>,
    ) -> String {
        let mut output = wanted.to_owned();
        while !self.taken.insert(output.clone()) {
            output.push('\'');
        }
        self.graph.node.push(Node {
            input: inputs.iter().map(|&name| name.into()).collect(),
            output: vec![output.clone()],
            name: output.clone(),
            op_type: operator.into(),
            attribute,
        });
        output
    }

    /// Operators with two inputs, one after another: the output of each is the first input of the
    /// next.
    fn chain(&mut self, layer: &str, start: &str, operators: &[(&str, &str)]) -> String {
        let mut from = start.to_owned();
        for (operator, other) in operators {
            let wanted = format!("{layer}/{}", operator.to_lowercase());
            from = self.add(operator, &[&from, other], &wanted);
        }
        from
    }

    /// `(pixels - mean) / std`, the value that the first layer reads.
    fn normalize(&mut self, normalization: &Normalization) {
        let [mean, std] = ["normalization.mean", "normalization.std"];
        let dims = [normalization.channels(), 1, 1];
        self.constant(mean, &dims, normalization.mean());
        self.constant(std, &dims, normalization.std());
        let name = self.chain("normalization", INPUT, &[("Sub", mean), ("Div", std)]);
        let is_flat = false;
        self.values.push(Known { name, is_flat });
    }

    /// A value as `[n, features]`.
    fn flat(&mut self, value: usize) -> String {
        let Known { name, is_flat } = self.values[value].clone();
        match is_flat {
            true => name,
            false => self.add("Flatten", &[&name], &format!("{name}/flat")),
        }
    }

    /// A value as `[n, channels, height, width]`.
    fn spatial(&mut self, value: usize) -> String {
        let Known { name, is_flat } = self.values[value].clone();
        if !is_flat {
            return name;
        }
        if !self.has_constant(SIDES) {
            self.graph.initializer.push(Tensor {
                dims: vec![2],
                data_type: INT64,
                name: SIDES.into(),
                raw_data: [2i64, 3].map(i64::to_le_bytes).concat(),
            });
        }
        self.add("Unsqueeze", &[&name, SIDES], &format!("{name}/spatial"))
    }

    fn layer(&mut self, network: &Network, layer: &Layer) -> Result<()> {
        let name = layer.name.as_str();
        let parameter = |index: usize| network.parameters()[index].name.as_str();
        let first = layer.inputs[0].index();
        let mut is_flat = false;
        let output = match &layer.kind {
            LayerKind::Conv2d { conv, weight, bias } => {
                let x = self.spatial(first);
                let inputs = [Some(&x[..]), Some(parameter(*weight)), bias.map(parameter)];
                let inputs: Vec<&str> = inputs.into_iter().flatten().collect();
                self.add_with("Conv", &inputs, name, of_conv(conv))
            }
            LayerKind::FrnTlu { gamma, beta, tau } => {
                let x = self.spatial(first);
                self.frn(name, &x, [gamma, beta, tau].map(|&index| parameter(index)))
            }
            LayerKind::Linear { weight, bias } => {
                is_flat = true;
                let x = self.flat(first);
                let inputs = [Some(&x[..]), Some(parameter(*weight)), bias.map(parameter)];
                let inputs: Vec<&str> = inputs.into_iter().flatten().collect();
                self.add_with("Gemm", &inputs, name, vec![Attribute::int("transB", 1)])
            }
            LayerKind::Relu => {
                let x = self.values[first].clone();
                is_flat = x.is_flat;
                self.add("Relu", &[&x.name], name)
            }
            LayerKind::MaxPool(pool) => {
                let x = self.spatial(first);
                self.add_with("MaxPool", &[&x], name, of_pool(pool))
            }
            LayerKind::AvgPool(pool) if *pool == Pool::global(pool.input) => {
                let x = self.spatial(first);
                self.add("GlobalAveragePool", &[&x], name)
            }
            LayerKind::AvgPool(pool) => {
                let x = self.spatial(first);
                self.add_with("AveragePool", &[&x], name, of_pool(pool))
            }
            // nothing when predicting
            LayerKind::Dropout { .. } => {
                is_flat = self.values[first].is_flat;
                self.values[first].name.clone()
            }
            LayerKind::Add | LayerKind::Concat => {
                let inputs = layer.inputs.iter().map(|value| value.index());
                let inputs: Vec<String> = inputs.map(|value| self.spatial(value)).collect();
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                match layer.kind {
                    LayerKind::Add => self.add("Add", &inputs, name),
                    _ => self.add_with("Concat", &inputs, name, vec![Attribute::int("axis", 1)]),
                }
            }
            LayerKind::Flatten => {
                is_flat = true;
                self.flat(first)
            }
            other => {
                let problem = format!("{name} ({}) has no ONNX form", other.label());
                return Err(Error::setting("network.layers", problem));
            }
        };
        self.values.push(Known {
            name: output,
            is_flat,
        });
        Ok(())
    }

    /// `max(γ x / √(mean x² + ε) + β, τ)`.
    fn frn(&mut self, name: &str, x: &str, [gamma, beta, tau]: [&str; 3]) -> String {
        if !self.has_constant(EPSILON) {
            self.constant(EPSILON, &[], &[FRN_EPSILON]);
        }
        let at = |part: &str| format!("{name}/{part}");
        let square = self.add("Mul", &[x, x], &at("square"));
        let axes = Attribute::ints("axes", &[2, 3]);
        let mean = self.add_with("ReduceMean", &[&square], &at("mean"), vec![axes]);
        let sum = self.add("Add", &[&mean, EPSILON], &at("sum"));
        let root = self.add("Sqrt", &[&sum], &at("root"));
        let steps = [
            ("Div", &root[..]),
            ("Mul", gamma),
            ("Add", beta),
            ("Max", tau),
        ];
        self.chain(name, x, &steps)
    }
}

/// `[n, …]` of floats.
fn float_info(name: &str, sides: &[usize]) -> ValueInfo {
    let batch = Dimension {
        dim_param: Some("n".into()),
        ..Dimension::default()
    };
    let sides = sides.iter().map(|&side| Dimension {
        dim_value: Some(side as i64),
        ..Dimension::default()
    });
    let shape = Shape {
        dim: std::iter::once(batch).chain(sides).collect(),
    };
    ValueInfo {
        name: name.into(),
        r#type: Some(Type {
            tensor_type: Some(TensorType {
                elem_type: FLOAT,
                shape: Some(shape),
            }),
        }),
    }
}

fn of_conv(conv: &Conv) -> Vec<Attribute> {
    let padding = conv.padding;
    let pads = [padding.top, padding.left, padding.bottom, padding.right];
    vec![
        Attribute::ints("kernel_shape", &[conv.kernel; 2]),
        Attribute::ints("strides", &[conv.stride; 2]),
        Attribute::ints("pads", &pads),
    ]
}

fn of_pool(pool: &Pool) -> Vec<Attribute> {
    vec![
        Attribute::ints("kernel_shape", &[pool.height, pool.width]),
        Attribute::ints("strides", &[pool.stride; 2]),
    ]
}

/// The messages of `onnx.proto` that are written, with the numbers of their fields there.
mod message {
    use prost::Message;

    /// `INT` and `INTS` of `AttributeProto.AttributeType`.
    const INT: i32 = 2;
    const INTS: i32 = 7;

    #[derive(Clone, PartialEq, Message)]
    pub struct Model {
        #[prost(int64, tag = "1")]
        pub ir_version: i64,
        #[prost(string, tag = "2")]
        pub producer_name: String,
        #[prost(message, optional, tag = "7")]
        pub graph: Option<Graph>,
        #[prost(message, repeated, tag = "8")]
        pub opset_import: Vec<OperatorSet>,
        #[prost(message, repeated, tag = "14")]
        pub metadata_props: Vec<Property>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct OperatorSet {
        #[prost(int64, tag = "2")]
        pub version: i64,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Property {
        #[prost(string, tag = "1")]
        pub key: String,
        #[prost(string, tag = "2")]
        pub value: String,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Graph {
        #[prost(message, repeated, tag = "1")]
        pub node: Vec<Node>,
        #[prost(string, tag = "2")]
        pub name: String,
        #[prost(message, repeated, tag = "5")]
        pub initializer: Vec<Tensor>,
        #[prost(message, repeated, tag = "11")]
        pub input: Vec<ValueInfo>,
        #[prost(message, repeated, tag = "12")]
        pub output: Vec<ValueInfo>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Node {
        #[prost(string, repeated, tag = "1")]
        pub input: Vec<String>,
        #[prost(string, repeated, tag = "2")]
        pub output: Vec<String>,
        #[prost(string, tag = "3")]
        pub name: String,
        #[prost(string, tag = "4")]
        pub op_type: String,
        #[prost(message, repeated, tag = "5")]
        pub attribute: Vec<Attribute>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Attribute {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(int64, optional, tag = "3")]
        pub i: Option<i64>,
        #[prost(int64, repeated, packed = "false", tag = "8")]
        pub ints: Vec<i64>,
        #[prost(int32, tag = "20")]
        pub r#type: i32,
    }

    impl Attribute {
        pub fn int(name: &str, value: i64) -> Self {
            Self {
                name: name.into(),
                i: Some(value),
                ints: vec![],
                r#type: INT,
            }
        }

        pub fn ints(name: &str, values: &[usize]) -> Self {
            Self {
                name: name.into(),
                i: None,
                ints: values.iter().map(|&value| value as i64).collect(),
                r#type: INTS,
            }
        }
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Tensor {
        #[prost(int64, repeated, packed = "false", tag = "1")]
        pub dims: Vec<i64>,
        #[prost(int32, tag = "2")]
        pub data_type: i32,
        #[prost(string, tag = "8")]
        pub name: String,
        #[prost(bytes = "vec", tag = "9")]
        pub raw_data: Vec<u8>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct ValueInfo {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(message, optional, tag = "2")]
        pub r#type: Option<Type>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Type {
        #[prost(message, optional, tag = "1")]
        pub tensor_type: Option<TensorType>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct TensorType {
        #[prost(int32, tag = "1")]
        pub elem_type: i32,
        #[prost(message, optional, tag = "2")]
        pub shape: Option<Shape>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Shape {
        #[prost(message, repeated, tag = "1")]
        pub dim: Vec<Dimension>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Dimension {
        #[prost(int64, optional, tag = "1")]
        pub dim_value: Option<i64>,
        #[prost(string, optional, tag = "2")]
        pub dim_param: Option<String>,
    }
}
