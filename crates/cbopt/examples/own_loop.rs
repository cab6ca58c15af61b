//! A training loop of one's own with a rule chosen by name: logistic regression on made-up data.
//!
//! `cargo run -p cbopt --example own_loop [RULE]` with one of `ucbopt`, `ucbopt-adapt`,
//! `lcbopt-adapt`, `sgd`, `adamw` and `ivon`; without a name all of them are tried.
#![allow(clippy::print_stdout)]

use std::error::Error;

use cbopt::{Executor, Optimizer, RuleConfig};

const EXAMPLES: usize = 400;

/// Points in the plane; those with `2x - y > 0` have the label 1.
fn data() -> Vec<([f32; 2], f32)> {
    let coordinate = |i: usize, factor| (i * factor % 1009) as f32 / 504.5 - 1.0;
    (0..EXAMPLES)
        .map(|i| [coordinate(i, 619), coordinate(i, 353)])
        .map(|[x, y]| ([x, y], f32::from(2.0 * x - y > 0.0)))
        .collect()
}

/// The probability of the label 1.
fn probability(weights: &[f32], x: &[f32; 2]) -> f32 {
    1.0 / (1.0 + (-(weights[0] * x[0] + weights[1] * x[1])).exp())
}

fn train(id: &str) -> Result<(), Box<dyn Error>> {
    let mut config = RuleConfig::by_id(id).ok_or_else(|| {
        format!(
            "unknown rule {id}; there are {}",
            RuleConfig::IDS.join(", ")
        )
    })?;
    config.fill_examples(EXAMPLES); // for ivon, whose prior must know how much data there is
    let data = data();
    let mut weights = vec![0.0_f32; 2];
    let mut optimizer = Optimizer::new(config.build()?, weights.len(), Executor::single());
    for step in 0..2000 {
        let batch = &data[step % 20 * 20..][..20];
        // the weights at which the rule wants the gradient, and where it is to be written
        let (at, gradient) = optimizer.point(&weights)?;
        gradient.fill(0.0);
        for (x, label) in batch {
            let error = probability(at, x) - label;
            gradient[0] += error * x[0] / batch.len() as f32;
            gradient[1] += error * x[1] / batch.len() as f32;
        }
        optimizer.gather(batch.len())?;
        optimizer.step(0.02, &mut weights)?;
    }
    let correct = data
        .iter()
        .filter(|(x, label)| (probability(&weights, x) > 0.5) == (*label > 0.5))
        .count();
    println!("{id:12} {correct} of {EXAMPLES} correct, weights {weights:.2?}");
    if correct * 10 < EXAMPLES * 9 {
        return Err(format!("{id} has not learned").into());
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(id) => train(&id),
        None => RuleConfig::IDS.into_iter().try_for_each(train),
    }
}
