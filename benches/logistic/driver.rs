//! Fits a possibilistic logistic regression to raw data and reports how long each round took.
//!
//! `bench-logistic DATA ROWS COVARIATES PRIOR_PRECISION THREADS` reads from the file `DATA` the
//! little-endian `f64` matrix `[ROWS, COVARIATES]`, row after row, followed by `ROWS` label bytes,
//! and fills the design once. Then each line on standard input runs one fit and answers with one
//! line of JSON; the line `profiles` asks for the exact 0.05-cut and the sign of every coefficient
//! too. `compare.py` drives it in turn with scikit-learn.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::num::NonZero;
use std::time::Instant;

use possibility::regression::{
    Design, FormQuestions, PriorPrecision, Profiles, RegressionConfig, Response,
};
use possibility::{Interval, RealSet};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data, rows, covariates, precision, threads] = arguments.as_slice() else {
        return Err("usage: bench-logistic DATA ROWS COVARIATES PRIOR_PRECISION THREADS".into());
    };
    let (rows, covariates): (usize, usize) = (rows.parse()?, covariates.parse()?);
    let design = read(data, rows, covariates)?;
    let model = RegressionConfig {
        prior_precision: PriorPrecision::Scalar(precision.parse()?),
        threads: Some(NonZero::new(threads.parse()?).ok_or("THREADS must be at least 1")?),
        ..RegressionConfig::default()
    }
    .build(design.columns())?;
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let profiled = line?.trim() == "profiles";
        let start = Instant::now();
        let posterior = model.fit(&design)?;
        let seconds = start.elapsed().as_secs_f64();
        let mut answer = format!(
            "\"seconds\": {seconds}, \"steps\": {}, \"log_consistency\": {}, \"gradient_norm\": {}, \
             \"mode\": {:?}",
            posterior.steps(),
            posterior.log_consistency(),
            posterior.gradient_norm(),
            posterior.mode()
        );
        if profiled {
            let start = Instant::now();
            let questions = questions(posterior.columns());
            let answers = Profiles::new(&model, &design, &posterior)?.answer(&questions)?;
            let seconds = start.elapsed().as_secs_f64();
            let gap = answers
                .iter()
                .map(|one| one.gap.unwrap_or(f64::INFINITY))
                .fold(0.0, f64::max);
            answer += &format!(", \"profile_seconds\": {seconds}, \"gap\": {gap}");
        }
        println!("{{{answer}}}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Of every coefficient the 0.05-cut and the possibility of each sign.
fn questions(columns: usize) -> Vec<FormQuestions> {
    let positive = RealSet::from_iter(Interval::above(0.0));
    let form = |j: usize| (0..columns).map(|k| f64::from(u8::from(k == j))).collect();
    let one = |j: usize| FormQuestions {
        form: form(j),
        alphas: vec![0.05],
        events: vec![positive.clone()],
    };
    (0..columns).map(one).collect()
}

/// The design from the raw file.
fn read(path: &str, rows: usize, covariates: usize) -> Result<Design, Box<dyn Error>> {
    let mut labels = BufReader::new(File::open(path)?);
    labels.seek_relative(i64::try_from(rows * covariates * size_of::<f64>())?)?;
    let mut matrix = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut design = Design::new(Response::Bernoulli, covariates)?;
    let mut bytes = vec![0; covariates * size_of::<f64>()];
    let mut row = vec![0.0; covariates];
    let mut label = [0];
    for _ in 0..rows {
        matrix.read_exact(&mut bytes)?;
        labels.read_exact(&mut label)?;
        for (value, bytes) in row.iter_mut().zip(bytes.chunks_exact(size_of::<f64>())) {
            *value = f64::from_le_bytes(bytes.try_into()?);
        }
        design.push(&row, f64::from(label[0]))?;
    }
    Ok(design)
}
