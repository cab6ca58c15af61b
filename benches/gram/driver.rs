//! Time per image of the ways to predict, and of the two parts of a possibilistic prediction, on
//! the same images, interleaved in one run; one JSON line with milliseconds and with ratios to 64
//! samples of Monte Carlo dropout.
//!
//! `cargo run --release -p maxitive-benches --bin bench-gram -- NET IMAGES THREADS ROUNDS`, NET
//! with ten classes (`lenet`, `resnet20`). Times are processor time of all threads where the system
//! tells it (Linux), so that other programs on the machine count for little, else those of a clock;
//! the best of the rounds. Weights and pixels are drawn, not trained: `bounds` has covariances of
//! the size that the precision makes them, `PRECISION` for all weights.
//!
//! Not counted: drawing the weights of SWAG's samples, and what Laplace does with the features.
#![allow(clippy::print_stdout)]

use std::num::NonZero;
use std::time::Instant;

use engine::{Device, GramConfig, Grams, Precisions, PredictorConfig, gram_matrices, zoo};
use possibility::prediction::Logits;
use serde_json::{Map, Value, json};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Samples of Monte Carlo dropout in the paper.
const SAMPLES: usize = 64;
/// Seconds that a measurement takes at least.
const LEAST: f64 = 0.5;
/// Near the median that the criterion `right-wrong` chooses for LeNet on Fashion-MNIST.
const PRECISION: f64 = 350.0;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [net, images, threads, rounds] = args.as_slice() else {
        return Err("four arguments: NET IMAGES THREADS ROUNDS".into());
    };
    let (plain, dropout) = (
        zoo::by_name(net, None)?,
        zoo::by_name(&format!("{net}-dropout"), None)?,
    );
    let (images, threads): (usize, NonZero<usize>) = (images.parse()?, threads.parse()?);
    let size = plain.input_shape().len();
    let image = |i: usize| ((i * 7919 + i / 13) % 1009) as f32 / 504.5 - 1.0;
    let pixels: Vec<f32> = (0..images * size).map(image).collect();
    let weights = plain.initial_parameters(1);
    let device = Device::cpu().threads(threads.get());
    let config = PredictorConfig {
        device,
        ..Default::default()
    };
    let (mut at_weights, mut masked) = (config.build(&plain)?, config.build(&dropout)?);
    let samples: Vec<Vec<f32>> = (0..SAMPLES as u64)
        .map(|seed| plain.initial_parameters(seed))
        .collect();
    let samples: Vec<&[f32]> = samples.iter().map(Vec::as_slice).collect();
    let masks = vec![weights.as_slice(); SAMPLES];
    let each = vec![PRECISION as f32; weights.len()];
    let gram = |precisions: Precisions<'_>, last_layer: bool| {
        let config = GramConfig {
            device,
            last_layer,
            ..Default::default()
        };
        gram_matrices(&plain, &weights, precisions, 0, &pixels, &config)
    };
    let common = Precisions::Common(PRECISION);
    let mut best: Map<String, Value> = Map::new();
    let mut timed = |name: &str, work: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        // the system's clock of processor time ticks slowly: what is quick is done several times
        let (start, mut times) = (Clock::now(), 0u32);
        while times == 0 || start.wall.elapsed().as_secs_f64() < LEAST {
            work()?;
            times += 1;
        }
        let time = 1e3 * start.seconds() / f64::from(times) / images as f64;
        let known = best.get(name).and_then(Value::as_f64);
        best.insert(name.into(), json!(known.map_or(time, |t| t.min(time))));
        Ok(())
    };
    let mut found = gram(common, false)?;
    for _ in 0..rounds.parse()? {
        timed("point", &mut || {
            at_weights.mean_probabilities(&[&weights], 0, &pixels)?;
            Ok(())
        })?;
        timed("mc_dropout", &mut || {
            masked.mean_probabilities(&masks, 0, &pixels)?;
            Ok(())
        })?;
        timed("swag", &mut || {
            at_weights.mean_probabilities(&samples, 0, &pixels)?;
            Ok(())
        })?;
        timed("laplace_features", &mut || {
            at_weights.features(&weights, 0, &pixels)?;
            Ok(())
        })?;
        timed("gram", &mut || {
            found = gram(common, false)?;
            Ok(())
        })?;
        timed("bounds", &mut || bounds(&found))?;
        timed("gram_each", &mut || {
            gram(Precisions::Each(&each), false)?;
            Ok(())
        })?;
        timed("gram_last_layer", &mut || {
            gram(common, true)?;
            Ok(())
        })?;
    }
    let time = |name: &str| best.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let ratios: Map<String, Value> = best
        .keys()
        .map(|name| (name.clone(), json!(time(name) / time("mc_dropout"))))
        .collect();
    println!(
        "{}",
        json!({"net": net, "images": images, "threads": threads, "ms": best, "ratio": ratios})
    );
    Ok(())
}

/// What a row of predictions takes of every image: both probabilities of the answer, and the
/// possibilities of all classes.
fn bounds(found: &Grams) -> Result<()> {
    let classes = found.matrices.len() / found.classes.len();
    let images = found.logits.chunks_exact(classes);
    for (logits, covariance) in images.zip(found.matrices.chunks_exact(classes * classes)) {
        let logits: Vec<f64> = logits.iter().map(|&z| z.into()).collect();
        let logits = Logits::new(&logits, covariance)?;
        let answer = logits.answer();
        std::hint::black_box((logits.upper(answer)?, logits.lower(answer)));
        std::hint::black_box(logits.log_possibilities()?);
    }
    Ok(())
}

/// Processor time of this process, or the time of day.
struct Clock {
    processor: Option<f64>,
    wall: Instant,
}

impl Clock {
    fn now() -> Self {
        Self {
            processor: processor_seconds(),
            wall: Instant::now(),
        }
    }

    fn seconds(&self) -> f64 {
        let spent = self.processor.zip(processor_seconds());
        spent.map_or_else(|| self.wall.elapsed().as_secs_f64(), |(a, b)| b - a)
    }
}

/// Time that the threads of this process were on a core; `None` where the system does not tell.
fn processor_seconds() -> Option<f64> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let one = |task: std::io::Result<std::fs::DirEntry>| -> Option<f64> {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        let nanoseconds: f64 = text.split_whitespace().next()?.parse().ok()?;
        Some(1e-9 * nanoseconds)
    };
    tasks.map(one).sum()
}
