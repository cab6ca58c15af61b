//! What a possibilistic prediction depends on, from a run that was trained: on the size of the
//! precisions, on which weights may move, and on logits being taken as linear in the weights.
//!
//! `cargo run --release -p maxitive-experiment --example doubt -- RUN DATA IMAGES ASCENTS`, RUN
//! the folder of a finished run, DATA that of its datasets, IMAGES how many of each set, ASCENTS
//! how many test images are ascended in the weights (without arguments a short training on pictures
//! that are built in); with 0 only the factors of all weights are
//! tried, and between them those that the criterion `right-wrong` asks for. One JSON line for each
//! thing that was tried:
//!
//! - `"moves"` names the weights that may move, all others being held; `"factor"` is what the
//!   rule's precisions were multiplied by; `"right_wrong"` and `"out_of_domain"` have the area
//!   under the ROC curve of the lower probability of the answer, `"maximum"` at its side that of
//!   the maximum probability. Validation images are there so that a factor can be chosen on them.
//! - `"ascent"`: upper probability of the second most probable class, by linear logits and by
//!   gradient ascent in the weights of the network itself, in 64-bit numbers. An ascent only ever
//!   finds a lower bound of the supremum.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;

use cbopt::Precision;
use datasets::Library;
use engine::{Device, DropoutMode, GramConfig, Network, Precisions, gram_matrices, twin};
use evaluation::Ranking;
use evaluation::record::Checkpoint;
use experiment::predictive::Criterion;
use experiment::run::RunOptions;
use experiment::{Judged, Model, Run, RunConfig, RunData, Silent, Stop};
use possibility::prediction::Logits;
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.is_empty() {
        args = [&small_run()?, "", "12", "1"].map(String::from).into();
    }
    let [run, data, images, ascents] = args.as_slice() else {
        return Err("four arguments: RUN DATA IMAGES ASCENTS".into());
    };
    let model = Model::open(Path::new(run))?;
    let library = Library::new(Some(data.into()));
    let sets = RunData::load(model.config(), &library)?.judged_by(model.config(), images.parse()?);
    let weights = model.weights(Checkpoint::Final)?;
    let precisions = match model.precision(Checkpoint::Final)? {
        Precision::Common(value) => vec![value as f32; weights.len()],
        Precision::Each(values) => values,
    };
    let network = model.network();
    let ascents: usize = ascents.parse()?;
    for (moves, held) in which_move(network, &precisions) {
        let seen = Seen::of(network, &weights, &held, &sets)?;
        let mut tried = Vec::new();
        let mut attempt = |factor: f64, place: Option<usize>| -> Result<Vec<(f64, f64)>> {
            let found = seen.scored(factor)?;
            println!(
                "{}",
                json!({ "run": run, "moves": moves, "factor": factor, "found": found })
            );
            let area = |score: &str| found["validation"][score].as_f64().unwrap_or(f64::NAN);
            let lost = area("maximum") - area("lower");
            tried.insert(place.unwrap_or(tried.len()), (factor, lost));
            Ok(tried.clone())
        };
        let mut known = Vec::new();
        for factor in (-8..=12).map(|k| 10f64.powf(f64::from(k) / 2.0)) {
            known = attempt(factor, None)?;
        }
        if ascents == 0 {
            for _ in 0..4 {
                if let Some((place, factor)) = Criterion::RightWrong.between(&known) {
                    known = attempt(factor, Some(place))?;
                }
            }
            return Ok(());
        }
    }
    let [_, test, ..] = sets.as_slice() else {
        return Err("no test images".into());
    };
    for factor in [1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4] {
        let found = ascend(network, &weights, &precisions, factor, test, ascents)?;
        println!(
            "{}",
            json!({ "run": run, "factor": factor, "ascent": found })
        );
    }
    Ok(())
}

/// A short training on the pictures that are built in.
fn small_run() -> Result<String> {
    let folder = std::env::temp_dir().join("maxitive-doubt");
    let config = r#"
        name = "doubt"
        data = { dataset = "fashion-mnist-mini", out_of_domain = ["letters"], limit = 1000 }
        network = { name = "lenet" }
        train = { epochs = 3, batch = 32 }
        optimizer = { rule = "ucbopt", lr = 0.01 }
        rows = [{ row = "uCBOpt", predictive = "point" }]
    "#;
    let config = RunConfig::parse(config, "the example", &[])?;
    let run = Run::open_or_create(&folder, config)?;
    run.execute(&RunOptions {
        library: &Library::new(None),
        device: Device::cpu(),
        observer: &Silent,
        stop: &Stop::default(),
        checkpoint_seconds: 1.0,
    })?;
    Ok(folder.display().to_string())
}

/// Precisions with which all weights may move, those of the last layer, and those of each layer.
fn which_move(network: &Network, precisions: &[f32]) -> Vec<(String, Vec<f32>)> {
    let layer = |name: &str| {
        name.rsplit_once('.')
            .map_or(name, |(layer, _)| layer)
            .to_owned()
    };
    let mut layers: Vec<String> = Vec::new();
    for parameter in network.parameters() {
        if layers.last() != Some(&layer(&parameter.name)) {
            layers.push(layer(&parameter.name));
        }
    }
    // of a deep network its stages
    let group = |layer: &str| match layers.len() {
        0..12 => layer.to_owned(),
        _ => layer.split('.').next().unwrap_or(layer).to_owned(),
    };
    let mut groups: Vec<String> = layers.iter().map(|layer| group(layer)).collect();
    groups.dedup();
    let mut found = vec![("all".to_owned(), precisions.to_vec())];
    for name in groups {
        let mut held = vec![f32::INFINITY; precisions.len()];
        for parameter in network.parameters() {
            if group(&layer(&parameter.name)) == name {
                held[parameter.range()].copy_from_slice(&precisions[parameter.range()]);
            }
        }
        found.push((name, held));
    }
    found
}

/// An image as far as it was looked at.
struct Look {
    /// Logits of the most probable classes.
    logits: Vec<f64>,
    covariance: Vec<f64>,
    is_right: bool,
}

/// Logits and covariances of all sets.
struct Seen<'a> {
    sets: Vec<(&'a Judged, Vec<Look>)>,
}

impl<'a> Seen<'a> {
    fn of(net: &Network, weights: &[f32], held: &[f32], sets: &'a [Judged]) -> Result<Self> {
        let config = GramConfig {
            device: Device::cpu().threads(std::thread::available_parallelism()?.get()),
            ..GramConfig::default()
        };
        let (all, m) = (net.classes(), config.classes.min(net.classes()));
        let mut seen = Vec::new();
        for set in sets {
            let precisions = Precisions::Each(held);
            let found = gram_matrices(net, weights, precisions, 0, &set.pixels, &config)?;
            let look = |(i, &label): (usize, &u32)| {
                let logits = &found.logits[i * all..(i + 1) * all];
                let classes = &found.classes[i * m..(i + 1) * m];
                let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let of = |class: &u32| f64::from(logits[*class as usize]);
                Look {
                    logits: classes.iter().map(of).collect(),
                    covariance: found.matrices[i * m * m..(i + 1) * m * m].to_vec(),
                    is_right: logits.get(label as usize) == Some(&largest),
                }
            };
            seen.push((set, set.labels.iter().enumerate().map(look).collect()));
        }
        Ok(Self { sets: seen })
    }

    /// Areas under ROC curves by lower and by maximum probability.
    fn scored(&self, factor: f64) -> Result<serde_json::Value> {
        let one = |look: &Look| -> Result<[f64; 2]> {
            let covariance: Vec<f64> = look.covariance.iter().map(|c| c / factor).collect();
            let logits = Logits::new(&look.logits, &covariance)?;
            let answer = logits.answer();
            Ok([logits.lower(answer).value, logits.probabilities()[answer]])
        };
        let auroc = |ins: &[[f64; 2]], outs: &[[f64; 2]]| -> Result<serde_json::Value> {
            let side = |of: &[[f64; 2]], at: usize| of.iter().map(|s| s[at]).collect::<Vec<f64>>();
            let area = |at| Ranking::new(&side(ins, at), &side(outs, at)).map(|r| r.auroc());
            Ok(json!({ "lower": area(0)?, "maximum": area(1)? }))
        };
        let mut found = serde_json::Map::new();
        let mut test = Vec::new();
        for (place, (set, looks)) in self.sets.iter().enumerate() {
            let scores = looks.iter().map(one).collect::<Result<Vec<_>>>()?;
            let part = |right: bool| -> Vec<[f64; 2]> {
                let chosen = scores
                    .iter()
                    .zip(looks)
                    .filter(|(_, l)| l.is_right == right);
                chosen.map(|(score, _)| *score).collect()
            };
            let value = match place {
                // right against wrong answers
                0 | 1 => auroc(&part(true), &part(false))?,
                _ => auroc(&test, &scores)?,
            };
            found.insert(set.name.clone(), value);
            if place == 1 {
                test = scores;
            }
        }
        Ok(found.into())
    }
}

/// The upper probability of the second most probable class by both ways, a pair an image.
fn ascend(
    network: &Network,
    weights: &[f32],
    precisions: &[f32],
    factor: f64,
    set: &Judged,
    count: usize,
) -> Result<Vec<[f64; 3]>> {
    let size = network.input_shape().len();
    let mode: Vec<f64> = weights.iter().map(|&w| w.into()).collect();
    let deviations = precisions
        .iter()
        .map(|&p| (f64::from(p) * factor).sqrt().recip());
    let deviations: Vec<f64> = deviations.collect();
    let step = set.labels.len() / count.clamp(1, set.labels.len());
    let mut found = Vec::new();
    for image in set.pixels.chunks_exact(size).step_by(step).take(count) {
        let config = GramConfig::default();
        let precisions: Vec<f32> = deviations.iter().map(|d| (d * d).recip() as f32).collect();
        let each = Precisions::Each(&precisions);
        let gram = gram_matrices(network, weights, each, 0, image, &config)?;
        let chosen = gram
            .classes
            .iter()
            .map(|&class| f64::from(gram.logits[class as usize]));
        let logits = Logits::new(&chosen.collect::<Vec<f64>>(), &gram.matrices)?;
        let probabilities = logits.probabilities();
        let answer = logits.answer();
        let second = (0..probabilities.len()).filter(|&k| k != answer);
        let second = second.max_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
        let second = second.ok_or("a network with one class")?;
        let image: Vec<f64> = image.iter().map(|&v| v.into()).collect();
        let climb = Climb {
            network,
            mode: &mode,
            deviations: &deviations,
            image: &image,
        };
        let reached = climb.top(gram.classes[second])?;
        found.push([probabilities[second], logits.upper(second)?, reached.exp()]);
    }
    Ok(found)
}

/// The ascent of `-½|u|² + log p(class | m + σu)`.
struct Climb<'a> {
    network: &'a Network,
    mode: &'a [f64],
    deviations: &'a [f64],
    image: &'a [f64],
}

impl Climb<'_> {
    /// The value at `u`, and the gradient of the log probability by `u`.
    fn at(&self, u: &[f64], class: u32) -> Result<(f64, Vec<f64>)> {
        let moved = self.mode.iter().zip(self.deviations).zip(u);
        let weights: Vec<f64> = moved.map(|((m, d), u)| m + d * u).collect();
        let off = DropoutMode::Predict(0);
        let run = twin::run(self.network, &weights, self.image, &[class], off)?;
        let square: f64 = u.iter().map(|u| u * u).sum();
        let gradient = run
            .gradient
            .iter()
            .zip(self.deviations)
            .map(|(g, d)| -g * d);
        Ok((-0.5 * square - run.loss, gradient.collect()))
    }

    fn top(&self, class: u32) -> Result<f64> {
        let mut u = vec![0.0; self.mode.len()];
        let (mut value, mut pull) = self.at(&u, class)?;
        let mut rate = 1.0;
        for _ in 0..60 {
            // at rate 1 the point where the pull of the probability and the push back are equal
            let next: Vec<f64> = u
                .iter()
                .zip(&pull)
                .map(|(u, p)| u + rate * (p - u))
                .collect();
            let (reached, new_pull) = self.at(&next, class)?;
            if reached <= value {
                rate *= 0.5;
                if rate < 1e-3 {
                    break;
                }
                continue;
            }
            let gain = reached - value;
            (u, value, pull) = (next, reached, new_pull);
            rate = (rate * 1.5_f64).min(1.0);
            if gain < 1e-6 {
                break;
            }
        }
        Ok(value)
    }
}
