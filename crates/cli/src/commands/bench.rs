//! `maxitive bench`: milliseconds per training step, or seconds per prediction, on this machine.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cbopt::{Rule, RuleConfig, Update};
use clap::Args;
use engine::{
    Device, Input, Isa, Member, Network, Precision, PredictorConfig, Sample, Step, Stretch,
    TrainerConfig, peak_gflops,
};
use images::{Images, Normalization, Visit};
use serde_json::json;

use crate::commands::net;
use crate::text::count;
use crate::training;
use crate::user_error::{UserError, unknown};

/// Measure the time of a training step: forward pass, backward pass and update.
///
/// Prints the best and the median time, images per second, GFLOP/s and their share of the
/// multiply-add peak that is measured beside them. FLOPs are those of the textbook convolution;
/// Winograd's form needs fewer, so that the share can exceed 1. The data are made up; the values do
/// not matter for the time. On a GPU a step is one of many that are handed over together, of all
/// runs, from byte images. With --predict it is the time of a prediction by many sets of weights.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive bench
  maxitive bench --net resnet20 --threads 2 --rule adamw
  maxitive bench --net lenet --batch 256 --json
  maxitive bench --net resnet20 --device cuda --runs 30 --precision tf32
  maxitive bench --net resnet20 --device cuda --predict 64 --precision tf32")]
pub struct BenchArgs {
    /// Network: lenet, resnet20, densenet121, densenet101, or one of them with -dropout
    #[arg(long, value_name = "NAME", default_value = "lenet")]
    net: String,
    /// Images per step, 1 to 4096
    #[arg(long, value_name = "B", default_value_t = 128)]
    batch: usize,
    /// Threads, 1 to 64; by default those of the machine, at most 8
    #[arg(long, value_name = "T")]
    threads: Option<usize>,
    /// Update rule: ucbopt, ucbopt-adapt, lcbopt-adapt, sgd, adamw or ivon
    #[arg(long, value_name = "R", default_value = "ucbopt")]
    rule: String,
    /// Instruction set: portable, avx2, avx512 or neon; by default the widest of the machine
    #[arg(long, value_name = "SET")]
    isa: Option<String>,
    /// Where to compute, as for train
    #[arg(long, value_name = "DEVICE", default_value = "cpu", value_parser = training::device)]
    device: Device,
    /// Precision of products: f32, or tf32 on a GPU
    #[arg(long, value_name = "P", default_value = "f32", value_parser = precision)]
    precision: Precision,
    /// Runs that are trained together, on a GPU; at most 1024, and as many as its memory holds
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    runs: u16,
    /// Predict instead: the mean over so many sets of weights on 10,000 images
    #[arg(long, value_name = "N", conflicts_with_all = ["runs", "batch", "rule"],
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    predict: Option<u16>,
    /// Seconds to measure, at least three steps
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    seconds: f64,
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// An argument is out of range, or standard output is closed.
pub fn execute(args: BenchArgs) -> anyhow::Result<ExitCode> {
    let mistake = |error: engine::Error| UserError::new(error.to_string());
    training::tell_fallback(&args.device);
    let network = net::find(&args.net, None)?;
    let rule = rule(&args.rule)?;
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        let message = format!("--seconds {} is not in (0, 3600]", args.seconds);
        return Err(UserError::new(message).into());
    }
    let isa = match &args.isa {
        None => Isa::detect(),
        Some(name) => Isa::by_name(name).ok_or_else(|| {
            let names: Vec<_> = Isa::available().iter().map(|isa| isa.name()).collect();
            UserError::new(unknown("instruction set of this machine", name, names))
        })?,
    };
    if let Some(samples) = args.predict {
        let device = args.device.with_precision(args.precision);
        let device = device.map_err(mistake)?.isa(isa);
        let threads = args.threads.unwrap_or(device.thread_count());
        return predictions(&args, &network, device.threads(threads), samples.into());
    }
    if !args.device.is_cpu() {
        return on_gpu(&args, &network, rule);
    }
    if args.runs != 1 {
        let message = "--runs is for GPUs: the processor trains one run at a time";
        return Err(UserError::new(message).into());
    }
    let device = args
        .device
        .with_precision(args.precision)
        .map_err(mistake)?;
    let device = device.isa(isa);
    let threads = args.threads.unwrap_or(device.thread_count());
    let config = TrainerConfig {
        batch: args.batch,
        device: device.threads(threads),
        ..TrainerConfig::default()
    };
    let parameters = network.initial_parameters(0);
    let mut trainer = config
        .build(&network, [Member::new(rule, parameters)])
        .map_err(mistake)?;
    let size = network.input_shape().len();
    let images: Vec<f32> = (0..args.batch * size)
        .map(|i| (i * 7919 % 1009) as f32 / 504.5 - 1.0)
        .collect();
    let labels: Vec<u32> = (0..args.batch)
        .map(|i| (i % network.classes()) as u32)
        .collect();

    const RATE: f64 = 1e-6; // small: the values shall stay as they are
    for _ in 0..2 {
        trainer.step(0, RATE, &images, &labels)?;
    }
    let times = measure(args.seconds, || {
        trainer.step(0, RATE, &images, &labels).map(drop)
    })?;
    let [best, median] = times.map(|seconds| seconds * 1e3);
    let images_per_second = args.batch as f64 / best * 1e3;
    let gflops = network.training_flops() as f64 * images_per_second / 1e9;
    let share = gflops / peak_gflops(isa, threads);
    let mut out = io::stdout();
    if args.json {
        let record = json!({
            "net": args.net,
            "batch": args.batch,
            "threads": threads,
            "rule": trainer.rule(0).id(),
            "isa": isa.name(),
            "ms_best": best,
            "ms_median": median,
            "images_per_s": images_per_second,
            "gflops": gflops,
            "peak_share": share,
        });
        writeln!(out, "{}", serde_json::to_string(&record)?)?;
    } else {
        writeln!(
            out,
            "{} batch {} with {} on {} threads ({}): best {best:.3} ms, median {median:.3} ms, \
             {images_per_second:.0} images/s, {} GFLOP/s, {:.0} % of the multiply-add peak",
            args.net,
            args.batch,
            trainer.rule(0).id(),
            threads,
            isa.name(),
            rounded(gflops),
            100.0 * share
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The best and the median of the seconds that some work takes, which is done for so long and at
/// least three times.
fn measure<E>(seconds: f64, mut work: impl FnMut() -> Result<(), E>) -> Result<[f64; 2], E> {
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < 3 || begin.elapsed() < Duration::from_secs_f64(seconds) {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok([times[0], times[times.len() / 2]])
}

/// Images of a prediction: those of a test set.
const TEST: u32 = 10_000;

/// The time of a prediction by many sets of weights.
fn predictions(
    args: &BenchArgs,
    network: &Network,
    device: Device,
    samples: usize,
) -> anyhow::Result<ExitCode> {
    let config = PredictorConfig {
        device,
        ..PredictorConfig::default()
    };
    let mistake = |error: engine::Error| UserError::new(error.to_string());
    let mut predictor = config.build(network).map_err(mistake)?;
    let (images, normalization) = pictures(network, TEST)?;
    let weights: Vec<Vec<f32>> = (0..samples as u64)
        .map(|seed| network.initial_parameters(seed))
        .collect();
    let chosen: Vec<Sample<'_>> = weights
        .iter()
        .map(|parameters| Sample {
            parameters,
            seed: 0,
        })
        .collect();
    let indices: Vec<u32> = (0..TEST).collect();
    let input = Input::Bytes {
        images: &images,
        normalization: &normalization,
        indices: &indices,
    };
    let mut sums = Vec::new();
    // what is made once is not measured
    predictor.add_probabilities(&chosen[..1], input, &mut sums)?;
    let together = predictor.samples_together();
    let [best, median] = measure(args.seconds, || {
        let mut parts = chosen.chunks(together);
        parts.try_for_each(|chosen| predictor.add_probabilities(chosen, input, &mut sums))
    })?;
    let images_per_second = f64::from(TEST) * samples as f64 / best;
    let (device, precision) = (device.name(), device.precision().name());
    let mut out = io::stdout();
    if args.json {
        let record = json!({
            "net": args.net,
            "samples": samples,
            "images": TEST,
            "device": device,
            "precision": precision,
            "s_best": best,
            "s_median": median,
            "images_per_s": images_per_second,
        });
        writeln!(out, "{record}")?;
    } else {
        writeln!(
            out,
            "{}, {samples} sets of weights on {TEST} images, {device} ({precision}): best \
             {best:.3} s, median {median:.3} s, {images_per_second:.0} images/s",
            args.net,
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Made-up byte images of a network's shape.
fn pictures(network: &Network, count: u32) -> anyhow::Result<(Images, Normalization)> {
    let (shape, classes) = (network.input_shape(), network.classes());
    let pixels = (0..count as usize * shape.len()).map(|i| (i * 7919 % 251) as u8);
    let labels = (0..count).map(|i| i % classes as u32).collect();
    let images = Images::new(shape, classes, pixels.collect(), labels)?;
    let normal = vec![0.5; shape.channels];
    Ok((images, Normalization::new(normal.clone(), normal)?))
}

/// Steps that are handed over together.
const STRETCH: usize = 64;
/// Byte images that the steps visit.
const PICTURES: u32 = 2048;

/// The time of a step of all runs on a GPU.
fn on_gpu(args: &BenchArgs, network: &Network, rule: Rule) -> anyhow::Result<ExitCode> {
    let mistake = |error: engine::Error| UserError::new(error.to_string());
    let device = args
        .device
        .with_precision(args.precision)
        .map_err(mistake)?;
    let config = TrainerConfig {
        batch: args.batch,
        device,
        ..TrainerConfig::default()
    };
    // whether the batch is in its range, the trainer says
    let batch = args.batch.clamp(1, 4096);
    let (runs, room) = (usize::from(args.runs), device.room(network, batch));
    if runs > room {
        let message = format!(
            "--runs {runs}: the memory of {} holds {room} of {} with batches of {batch}",
            device.name(),
            args.net,
        );
        return Err(UserError::new(message).into());
    }
    let member = |run| Member::new(rule, network.initial_parameters(run));
    let members = (0..args.runs.into()).map(member);
    let mut trainer = config.build(network, members).map_err(mistake)?;
    let (images, normalization) = pictures(network, PICTURES)?;
    trainer.hold(Arc::new(images), &normalization)?;
    let visit = |i: usize| Visit::new((i * 31 % PICTURES as usize) as u32, 0, 0, false);
    let visits: Vec<Visit> = (0..STRETCH * args.batch).map(visit).collect();
    let step = Step {
        images: args.batch as u32,
        lr: 1e-6,
    };
    let steps = [step; STRETCH];
    let stretch = Stretch {
        visits: &visits,
        steps: &steps,
    };
    let stretches = vec![stretch; runs];
    trainer.advance_there(&stretches)?;
    let times = measure(args.seconds, || trainer.advance_there(&stretches).map(drop))?;
    let [best, median] = times.map(|seconds| seconds * 1e3 / STRETCH as f64);
    let images_per_second = (args.batch * runs) as f64 / best * 1e3;
    let gflops = network.training_flops() as f64 * images_per_second / 1e9;
    let (device, precision) = (args.device.name(), args.precision.name());
    let megabytes = trainer.working_bytes() as f64 / 1e6;
    let mut out = io::stdout();
    if args.json {
        let record = json!({
            "net": args.net,
            "batch": args.batch,
            "runs": args.runs,
            "device": device,
            "precision": precision,
            "rule": trainer.rule(0).id(),
            "ms_best": best,
            "ms_median": median,
            "images_per_s": images_per_second,
            "gflops": gflops,
            "device_mb": megabytes,
        });
        writeln!(out, "{record}")?;
    } else {
        writeln!(
            out,
            "{} batch {} with {}, {} on {device} ({precision}): best {best:.3} ms, median \
             {median:.3} ms, {} images/s, {} GFLOP/s, {megabytes:.0} MB",
            args.net,
            args.batch,
            trainer.rule(0).id(),
            count(runs, "run"),
            rounded(images_per_second),
            rounded(gflops),
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A speed to three digits, and no digit less before the point.
fn rounded(speed: f64) -> String {
    let decimals = (2.0 - speed.log10().floor()).clamp(0.0, 9.0);
    format!("{speed:.0$}", decimals as usize)
}

/// The precision of this name.
fn precision(name: &str) -> Result<Precision, String> {
    Precision::by_name(name).map_err(|error| error.to_string())
}

/// The rule of this name with its defaults.
fn rule(name: &str) -> anyhow::Result<Rule> {
    let config = RuleConfig::by_id(name);
    let mut config =
        config.ok_or_else(|| UserError::new(unknown("rule", name, RuleConfig::IDS)))?;
    // Fashion-MNIST's training images
    config.fill_examples(54_000);
    Ok(config.build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_never_0() {
        let speeds = [0.000_412_3, 0.98, 7.126, 21.04, 512.6, 48_211.7].map(rounded);
        assert_eq!(
            speeds,
            ["0.000412", "0.980", "7.13", "21.0", "513", "48212"]
        );
    }
}
