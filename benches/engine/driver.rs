//! Times training steps, prediction and many-sample prediction, one JSON line each: what
//! `compare.py` reads.
//!
//! `cargo run --release -p maxitive-benches --bin bench-engine -- NET BATCH THREADS ISA MODE
//! ROUNDS` with mode `train`, `predict`, `samples` or `direct` (training without Winograd's form);
//! 10,000 images are predicted, 64 samples are drawn.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use engine::{Device, Isa, Member, PredictorConfig, TrainerConfig, zoo};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [net, batch, threads, isa, mode, rounds] = args.as_slice() else {
        return Err("six arguments: NET BATCH THREADS ISA MODE ROUNDS".into());
    };
    let network = zoo::by_name(net, None)?;
    let (batch, threads): (usize, usize) = (batch.parse()?, threads.parse()?);
    let isa = match isa.as_str() {
        "best" => Isa::detect(),
        name => Isa::by_name(name).ok_or("this machine does not have the instruction set")?,
    };
    let device = Device::cpu()
        .threads(threads)
        .isa(isa)
        .winograd(mode != "direct");
    let rounds: usize = rounds.parse()?;
    let size = network.input_shape().len();
    let image = |i: usize| ((i * 7919 + i / 13) % 1009) as f32 / 504.5 - 1.0;
    let parameters = network.initial_parameters(1);
    let mut times = Vec::with_capacity(rounds);
    let mut bytes = 0;
    match mode.as_str() {
        "train" | "direct" => {
            let config = TrainerConfig {
                batch,
                device,
                ..Default::default()
            };
            let rule = cbopt::AdamWConfig::default().build()?;
            let mut trainer = config.build(&network, [Member::new(rule, parameters)])?;
            let images: Vec<f32> = (0..batch * size).map(image).collect();
            let labels: Vec<u32> = (0..batch).map(|i| (i % network.classes()) as u32).collect();
            trainer.step(0, 1e-4, &images, &labels)?;
            for _ in 0..rounds {
                let start = Instant::now();
                trainer.step(0, 1e-4, &images, &labels)?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            bytes = trainer.working_bytes();
        }
        "predict" | "samples" => {
            let mut predictor = PredictorConfig {
                device,
                ..Default::default()
            }
            .build(&network)?;
            let images: Vec<f32> = (0..10_000 * size).map(image).collect();
            let count = if mode == "samples" { 64 } else { 1 };
            let samples: Vec<Vec<f32>> =
                (0..count).map(|s| network.initial_parameters(s)).collect();
            let samples: Vec<&[f32]> = samples.iter().map(Vec::as_slice).collect();
            predictor.mean_probabilities(&samples[..1], 0, &images[..size * 128])?;
            for _ in 0..rounds {
                let start = Instant::now();
                std::hint::black_box(predictor.mean_probabilities(&samples, 0, &images)?);
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
        _ => return Err("mode is train, direct, predict or samples".into()),
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{{\"net\": \"{net}\", \"batch\": {batch}, \"threads\": {threads}, \"isa\": \"{}\", \"mode\": \"{mode}\", \
         \"ms_best\": {:.4}, \"ms_median\": {:.4}, \"working_bytes\": {bytes}}}",
        isa.name(),
        times[0],
        times[times.len() / 2],
    );
    Ok(())
}
