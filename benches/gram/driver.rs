//! Cost of the Gram matrices of a possibilistic prediction as a ratio to 64 samples of Monte Carlo
//! dropout on the same images, interleaved in one run; one JSON line.
//!
//! `cargo run --release -p maxitive-benches --bin bench-gram -- NET IMAGES THREADS ROUNDS`, NET
//! with ten classes (`lenet`, `resnet20`).
#![allow(clippy::print_stdout)]

use std::num::NonZero;
use std::time::Instant;

use engine::{Device, GramConfig, Precisions, PredictorConfig, gram_matrices, zoo};

/// Samples of Monte Carlo dropout in the paper.
const SAMPLES: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
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
    let mut predictor = PredictorConfig {
        device,
        ..Default::default()
    }
    .build(&dropout)?;
    let masks = vec![weights.as_slice(); SAMPLES];
    let each = vec![1.0f32; weights.len()];
    let config = |last_layer: bool| GramConfig {
        device,
        last_layer,
        ..Default::default()
    };
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..rounds.parse()? {
        let start = Instant::now();
        predictor.mean_probabilities(&masks, 0, &pixels)?;
        times[0].push(start.elapsed().as_secs_f64());
        for (at, precisions, last_layer) in [
            (1, Precisions::Common(1.0), false),
            (2, Precisions::Each(&each), false),
            (3, Precisions::Common(1.0), true),
        ] {
            let start = Instant::now();
            gram_matrices(
                &plain,
                &weights,
                precisions,
                0,
                &pixels,
                &config(last_layer),
            )?;
            times[at].push(start.elapsed().as_secs_f64());
        }
    }
    let best = times.map(|times| times.into_iter().fold(f64::INFINITY, f64::min));
    println!(
        "{{\"net\": \"{net}\", \"images\": {images}, \"threads\": {threads}, \"dropout_ms\": {:.4}, \
         \"common\": {:.3}, \"each\": {:.3}, \"last_layer\": {:.4}}}",
        1e3 * best[0] / images as f64,
        best[1] / best[0],
        best[2] / best[0],
        best[3] / best[0],
    );
    Ok(())
}
