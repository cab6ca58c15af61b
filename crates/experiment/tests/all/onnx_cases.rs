//! Networks with weights and images that are exported as ONNX: what `golden/generate/gen_onnx.py`
//! gives to onnxruntime and the tests hold against its answers.

#![allow(clippy::unwrap_used, reason = "a failed test may say so by a panic")]

use engine::network::Init;
use engine::{Device, Network, PredictorConfig, Shape, zoo};
use experiment::config::NetworkConfig;
use images::Normalization;
use random::Stream;

/// A network and what it is given.
pub struct Case {
    pub name: &'static str,
    pub network: Network,
    pub weights: Vec<f32>,
    pub normalization: Normalization,
    /// `[IMAGES, channels, height, width]`, from 0 to 1.
    pub pixels: Vec<f32>,
}

/// Images of every case.
pub const IMAGES: usize = 3;

/// Every kind of layer, one of them with windows that leave a rest, and names that the graph has
/// for something else.
const LAYERS: &str = r#"layers = [
    { layer = "conv", channels = 6, kernel = 5, stride = 2, padding = "same", name = "pixels" },
    { layer = "frn", name = "logits" },
    { layer = "max-pool", size = 3, stride = 2 },
    { layer = "dense-block", layers = 2, growth = 3 },
    { layer = "transition", name = "normalization" },
    { layer = "residual", channels = 8 },
    { layer = "dropout", rate = 0.3 },
    { layer = "avg-pool", size = 2, stride = 1 },
    { layer = "relu", name = "normalization/div" },
    { layer = "conv", channels = 7, kernel = 1, name = "frn.epsilon" },
    { layer = "flatten" },
    { layer = "dense", outputs = 9 },
    { layer = "dropout", rate = 0.2 },
    { layer = "dense" },
]"#;

/// Flat values normalized, which leaves little but their signs.
const FLAT: &str = r#"layers = [
    { layer = "flatten" },
    { layer = "dense", outputs = 9 },
    { layer = "frn" },
    { layer = "dense" },
]"#;

/// The blocks with stride, a convolution without bias, and the mean over all pixels.
const BLOCKS: &str = r#"layers = [
    { layer = "conv", channels = 4, kernel = 3, padding = 1, bias = false },
    { layer = "relu" },
    { layer = "residual", channels = 4 },
    { layer = "residual", channels = 6, stride = 2 },
    { layer = "global-avg-pool" },
    { layer = "dense", outputs = 5 },
    { layer = "dropout", rate = 0.1 },
]"#;

pub fn cases() -> Vec<Case> {
    let layers = |text: &str, shape: Shape| {
        let config: NetworkConfig = toml::from_str(text).unwrap();
        config.build(shape, 5).unwrap()
    };
    [
        ("layers", layers(LAYERS, Shape::new(3, 27, 22))),
        ("blocks", layers(BLOCKS, Shape::new(1, 9, 12))),
        ("flat", layers(FLAT, Shape::new(2, 3, 4))),
        ("lenet", zoo::lenet(10).unwrap()),
        ("resnet20", zoo::resnet20(10).unwrap()),
        ("densenet121", zoo::densenet121(10, None).unwrap()),
    ]
    .map(|(name, network)| Case::new(name, network))
    .into()
}

impl Case {
    fn new(name: &'static str, network: Network) -> Self {
        let stream = Stream::named(5, name);
        let mut weights = network.initial_parameters(3);
        // scales, shifts and thresholds that show
        for parameter in network.parameters() {
            if let Init::Constant(_) = parameter.init {
                for place in parameter.range() {
                    weights[place] += 0.4 * (stream.uniform(place as u64) as f32 - 0.5);
                }
            }
        }
        let shape = network.input_shape();
        let draw = Stream::named(6, name);
        let pixels = (0..IMAGES * shape.len()).map(|i| draw.uniform(i as u64) as f32);
        let channels = shape.channels;
        let constants = |from: f32| (0..channels).map(|c| from + 0.1 * c as f32).collect();
        Self {
            name,
            pixels: pixels.collect(),
            normalization: Normalization::new(constants(0.4), constants(0.2)).unwrap(),
            network,
            weights,
        }
    }

    pub fn onnx(&self) -> Vec<u8> {
        let classes = ("classes", "[]".to_owned());
        experiment::onnx::encode(
            &self.network,
            &self.weights,
            &self.normalization,
            &[classes],
        )
        .unwrap()
    }

    /// What the engine makes of the images.
    pub fn logits(&self) -> Vec<f32> {
        let plane = self.network.input_shape().plane();
        let (mean, std) = (self.normalization.mean(), self.normalization.std());
        let normalize = |(i, pixel): (usize, &f32)| {
            let channel = i / plane % mean.len();
            (pixel - mean[channel]) / std[channel]
        };
        let images: Vec<f32> = self.pixels.iter().enumerate().map(normalize).collect();
        let config = PredictorConfig {
            device: Device::cpu().threads(1),
            ..Default::default()
        };
        let mut predictor = config.build(&self.network).unwrap();
        predictor.logits(&self.weights, 0, &images).unwrap()
    }
}
