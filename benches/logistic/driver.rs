//! Fits a possibilistic logistic regression to raw data and reports how long each round took.
//!
//! `bench-logistic DATA ROWS COVARIATES PRIOR_PRECISION THREADS` reads from the file `DATA` the
//! little-endian `f64` matrix `[ROWS, COVARIATES]`, row after row, followed by `ROWS` label bytes,
//! and fills the design once. Then each line on standard input runs one fit, with all of its
//! results, and answers with one line of JSON. `compare.py` drives it in turn with scikit-learn.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::num::NonZero;
use std::time::Instant;

use possibility::Univariate;
use possibility::logistic::{Design, LogisticConfig, PriorPrecision};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data, rows, covariates, precision, threads] = arguments.as_slice() else {
        return Err("usage: bench-logistic DATA ROWS COVARIATES PRIOR_PRECISION THREADS".into());
    };
    let (rows, covariates): (usize, usize) = (rows.parse()?, covariates.parse()?);
    let design = read(data, rows, covariates)?;
    let model = LogisticConfig {
        prior_precision: PriorPrecision::Scalar(precision.parse()?),
        threads: Some(NonZero::new(threads.parse()?).ok_or("THREADS must be at least 1")?),
        ..LogisticConfig::default()
    }
    .build(design.columns())?;
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        line?;
        let start = Instant::now();
        let posterior = model.fit(&design)?;
        let mut cuts = Vec::with_capacity(posterior.columns());
        for j in 0..posterior.columns() {
            let coefficient = posterior.coefficient(j)?;
            cuts.push((coefficient.laplace.cut(0.05)?, coefficient.cut(0.05)?));
        }
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{{\"seconds\": {seconds}, \"steps\": {}, \"log_consistency\": {}, \"gradient_norm\": {}, \
             \"mode\": {:?}}}",
            posterior.steps(),
            posterior.log_consistency(),
            posterior.gradient_norm(),
            posterior.mode()
        );
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// The design from the raw file.
fn read(path: &str, rows: usize, covariates: usize) -> Result<Design, Box<dyn Error>> {
    let mut labels = BufReader::new(File::open(path)?);
    labels.seek_relative(i64::try_from(rows * covariates * size_of::<f64>())?)?;
    let mut matrix = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut design = Design::new(covariates)?;
    let mut bytes = vec![0; covariates * size_of::<f64>()];
    let mut row = vec![0.0; covariates];
    let mut label = [0];
    for _ in 0..rows {
        matrix.read_exact(&mut bytes)?;
        labels.read_exact(&mut label)?;
        for (value, bytes) in row.iter_mut().zip(bytes.chunks_exact(size_of::<f64>())) {
            *value = f64::from_le_bytes(bytes.try_into()?);
        }
        design.push(&row, label[0] == 1)?;
    }
    Ok(design)
}
