//! How long a batch of 128 takes to assemble, and how long a training step waits for it.
//!
//! `cargo run --release -p maxitive-datasets --example batches [DATA_FOLDER]`: images of Fashion-MNIST's shape as they are, and of CIFAR's
//! shape with flips and crops. With a folder, the real sets are used, otherwise the built-in one and noise. The waiting time means
//! something only where a core is free for the loader's thread.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datasets::{
    Augmentation, Batches, BatchesConfig, ImageSet, Library, Normalization, Part, Shape,
};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let library = Library::new(folder.clone());
    let (gray, color) = if folder.is_some() {
        (
            library.load("fashion-mnist", Part::Train)?,
            library.load("cifar-10", Part::Train)?,
        )
    } else {
        (
            library.load("fashion-mnist-mini", Part::Train)?,
            Arc::new(noise()?),
        )
    };
    for (set, augmentation, step) in [
        (gray, Augmentation::none(), Duration::from_micros(1_000)),
        (color, Augmentation::cifar(), Duration::from_micros(10_000)),
    ] {
        let mut batches = BatchesConfig {
            indices: (0..set.len() as u32).collect(),
            normalization: Normalization::measured(set.images()),
            batch: 128,
            shuffle: true,
            seed: 0,
            augmentation,
            set: Arc::clone(&set),
        }
        .build()?;
        // one epoch to warm up
        epoch(&mut batches, 0, Duration::ZERO);
        let start = Instant::now();
        let steps = epoch(&mut batches, 1, Duration::ZERO).0;
        let each = start.elapsed().as_secs_f64() / steps as f64;
        let (steps, waited) = epoch(&mut batches, 2, step);
        println!(
            "{} {}: {:.0} µs a batch; a step of {:.0} µs waits {:.1} µs for it",
            set.name(),
            set.shape(),
            each * 1e6,
            step.as_secs_f64() * 1e6,
            waited.as_secs_f64() / steps as f64 * 1e6,
        );
    }
    Ok(())
}

/// Runs an epoch whose steps compute for so long; returns their number and the time spent waiting for batches.
fn epoch(batches: &mut Batches, epoch: u64, step: Duration) -> (usize, Duration) {
    let mut waited = Duration::ZERO;
    let mut steps = 0;
    batches.start(epoch, 0);
    loop {
        let start = Instant::now();
        let Some(batch) = batches.next() else {
            return (steps, waited);
        };
        black_box(batch.images);
        waited += start.elapsed();
        let start = Instant::now();
        while start.elapsed() < step {
            std::hint::spin_loop();
        }
        steps += 1;
        if steps == 400 {
            return (steps, waited);
        }
    }
}

/// Noise in the shape of CIFAR-10.
fn noise() -> datasets::Result<ImageSet> {
    let shape = Shape::new(3, 32, 32);
    let pixels = (0..20_000 * shape.len()).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8);
    ImageSet::new("noise", shape, 1, None, pixels.collect(), vec![0; 20_000])
}
