//! Trains LeNet with SGD on images in IDX files, from given parameters and in a given order: what
//! `compare.py` reads.
//!
//! `cargo run --release -p maxitive-benches --bin bench-fashion-mnist -- FOLDER THREADS RATE
//! MOMENTUM BATCH`, where the folder has `images` and `labels` (IDX, not compressed), `parameters`
//! (`f32`, flat, in the order of the state dict), `order` (`u32`, one position of an image per
//! entry: all epochs one after another, `EPOCH` entries each) and `held-out` (`u32`, positions of
//! the validation images). Prints one JSON line: mean training loss of each epoch, then loss and
//! accuracy of the held-out images.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use engine::{Device, Member, PredictorConfig, TrainerConfig, zoo};

/// Mean and standard deviation of the training pixels.
const PIXELS: (f32, f32) = (0.2860, 0.3530);
/// Images of an epoch.
const EPOCH: usize = 54_000;

/// The bytes of an IDX file with this many dimensions after the first, whose product is `size`.
fn idx(path: &Path, size: usize) -> Result<Vec<u8>, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let dimensions = usize::from(*bytes.get(3).ok_or("an IDX file begins with four bytes")?);
    let start = 4 + 4 * dimensions;
    let data = bytes.get(start..).ok_or("the IDX header is cut off")?;
    if bytes[..3] != [0, 0, 8] || data.is_empty() || data.len() % size != 0 {
        return Err(format!("{}: not bytes in items of {size}", path.display()).into());
    }
    Ok(data.to_vec())
}

/// Little-endian numbers of four bytes.
fn words<T>(path: &Path, from: fn([u8; 4]) -> T) -> Result<Vec<T>, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    Ok(bytes.as_chunks().0.iter().map(|&word| from(word)).collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, threads, rate, momentum, batch] = args.as_slice() else {
        return Err("five arguments: FOLDER THREADS RATE MOMENTUM BATCH".into());
    };
    let (folder, threads) = (Path::new(folder), threads.parse()?);
    let (rate, batch): (f64, usize) = (rate.parse()?, batch.parse()?);
    let network = zoo::lenet(10)?;
    let size = network.input_shape().len();
    let pixels = idx(&folder.join("images"), size)?;
    let all_labels = idx(&folder.join("labels"), 1)?;
    let parameters = words(&folder.join("parameters"), f32::from_le_bytes)?;
    let order = words(&folder.join("order"), u32::from_le_bytes)?;
    let held_out = words(&folder.join("held-out"), u32::from_le_bytes)?;
    if order.len() % EPOCH != 0 {
        return Err(format!("the order has {} entries, not whole epochs", order.len()).into());
    }
    let gather = |positions: &[u32]| -> Result<(Vec<f32>, Vec<u32>), Box<dyn Error>> {
        let (mut images, mut labels) = (Vec::new(), Vec::new());
        for &position in positions {
            let at = position as usize * size;
            let image = pixels.get(at..at + size).ok_or("no image there")?;
            let label = all_labels.get(position as usize).ok_or("no label there")?;
            let normal = |&p: &u8| (f32::from(p) / 255.0 - PIXELS.0) / PIXELS.1;
            images.extend(image.iter().map(normal));
            labels.push(u32::from(*label));
        }
        Ok((images, labels))
    };
    let rule = cbopt::SgdConfig {
        momentum: momentum.parse()?,
        weight_decay: 0.0,
        nesterov: false,
    };
    let config = TrainerConfig {
        batch,
        device: Device::cpu().threads(threads),
        ..Default::default()
    };
    let mut trainer = config.build(&network, [Member::new(rule.build()?, parameters)])?;
    let start = Instant::now();
    let mut losses = Vec::new();
    for epoch in order.chunks(EPOCH) {
        let mut sum = 0.0;
        for positions in epoch.chunks(batch) {
            let (images, labels) = gather(positions)?;
            let step = trainer.step(0, rate, &images, &labels)?;
            sum += step.batch.loss * positions.len() as f64;
        }
        losses.push(sum / EPOCH as f64);
    }
    let seconds = start.elapsed().as_secs_f64();
    let (images, labels) = gather(&held_out)?;
    let config = PredictorConfig {
        device: Device::cpu().threads(threads),
        ..Default::default()
    };
    let logits = config
        .build(&network)?
        .logits(trainer.parameters(0), 0, &images)?;
    let (mut loss, mut right) = (0.0, 0);
    for (row, &label) in logits.chunks(10).zip(&labels) {
        let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|z| f64::from(z - top).exp()).sum();
        loss += sum.ln() - f64::from(row[label as usize] - top);
        right += usize::from(row[label as usize] == top);
    }
    let count = labels.len() as f64;
    println!(
        "{{\"train_loss\": {losses:?}, \"loss\": {}, \"accuracy\": {}, \"seconds\": {seconds:.3}}}",
        loss / count,
        right as f64 / count
    );
    Ok(())
}
