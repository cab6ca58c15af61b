//! Evaluates metrics of raw data again and again and reports how long each round took.
//!
//! `bench-metrics ood IN OUT` reads two files of little-endian `f64` scores;
//! `bench-metrics in-domain PROBABILITIES LABELS CLASSES` reads a file of `f64` probabilities, row
//! after row, and one of `i64` labels; `bench-metrics bootstrap IN OUT REPLICATES` draws intervals.
//! Then each line on standard input runs one evaluation and answers with one line of JSON.
//! `compare.py` drives it in turn with scikit-learn.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Instant;

use evaluation::{BootstrapConfig, CalibrationConfig, Ranking};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["ood", ins, outs] => {
            let (ins, outs) = (
                read(ins, f64::from_le_bytes)?,
                read(outs, f64::from_le_bytes)?,
            );
            serve(|| {
                let metrics = evaluation::out_of_domain("score", &ins, &outs)?;
                Ok(serde_json::to_value(metrics)?)
            })
        }
        ["in-domain", probabilities, labels, classes] => {
            let probabilities = read(probabilities, f64::from_le_bytes)?;
            let labels = read(labels, i64::from_le_bytes)?;
            let (classes, calibration) = (classes.parse()?, CalibrationConfig::default());
            serve(|| {
                let (metrics, _) =
                    evaluation::in_domain(&probabilities, classes, &labels, &calibration)?;
                Ok(serde_json::to_value(metrics)?)
            })
        }
        ["bootstrap", ins, outs, replicates] => {
            let (ins, outs) = (
                read(ins, f64::from_le_bytes)?,
                read(outs, f64::from_le_bytes)?,
            );
            let config = BootstrapConfig {
                replicates: replicates.parse()?,
                ..BootstrapConfig::default()
            };
            serve(|| {
                let intervals = Ranking::new(&ins, &outs)?.bootstrap(&config)?;
                Ok(serde_json::to_value(intervals)?)
            })
        }
        _ => Err("usage: bench-metrics ood|in-domain|bootstrap FILE FILE [NUMBER]".into()),
    }
}

/// One evaluation for each line on standard input.
fn serve(evaluate: impl Fn() -> Result<Value>) -> Result<()> {
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        line?;
        let start = Instant::now();
        let result = evaluate()?;
        let seconds = start.elapsed().as_secs_f64();
        println!("{}", json!({"seconds": seconds, "result": result}));
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Numbers of eight bytes.
fn read<T>(path: &str, number: impl Fn([u8; 8]) -> T) -> Result<Vec<T>> {
    let bytes = std::fs::read(path)?;
    let (numbers, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(format!("{path}: the last number is cut off").into());
    }
    Ok(numbers.iter().map(|&bytes| number(bytes)).collect())
}
