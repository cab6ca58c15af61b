//! How often do the cuts of a logistic slope cover the truth in 20 rows? Plain cuts of asymptotic
//! coverage 95 %, and valid 0.05-cuts by simulation.
//!
//! ```sh
//! cargo run -p possibility --example valid_slopes -- 500 999
//! ```
//!
//! 500 data sets, and 999 simulated ones for each of them. Data that can be separated have no
//! finite mode: the command refuses them, and they are counted apart.
#![allow(clippy::print_stdout, reason = "a program")]

use possibility::Error;
use possibility::regression::{
    Design, PriorPrecision, Profiles, RegressionConfig, Response, SimulatedForm, Target,
};
use possibility::simulated::{Simulated, Simulation};
use possibility::valid::Pivot;

const ROWS: usize = 20;
const INTERCEPT: f64 = -0.5;
const SLOPE: f64 = 1.0;
const ALPHA: f64 = 0.05;

/// Uniform numbers by position: SplitMix64.
fn uniform(stream: usize, index: usize) -> f64 {
    let mix = |x: u64| {
        let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    };
    (mix(mix(stream as u64) ^ mix(index as u64 + 1)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Covariates from -2 to 2, responses at the true coefficients.
fn design(set: usize) -> possibility::Result<Design> {
    let mut design = Design::with_intercept(Response::Bernoulli, 1);
    for row in 0..ROWS {
        let x = 4.0 * row as f64 / (ROWS - 1) as f64 - 2.0;
        let mean = Response::Bernoulli.mean(INTERCEPT + SLOPE * x);
        let y = f64::from(u8::from(uniform(set, row) < mean));
        design.push(&[x], y)?;
    }
    Ok(design)
}

/// The possibilities of the true slope: plain, by the law of large samples, and simulated.
fn possibilities(set: usize, draws: usize) -> possibility::Result<[f64; 2]> {
    let design = design(set)?;
    let config = RegressionConfig {
        prior_precision: PriorPrecision::Scalar(0.0),
        ..RegressionConfig::default()
    };
    let model = config.build(2)?;
    let posterior = model.fit(&design)?;
    let form = [0.0, 1.0];
    let profiles = Profiles::new(&model, &design, &posterior)?;
    let plain = profiles.solve(&[(&form, Target::Value(SLOPE))])?[0].log_possibility;
    // other numbers for every data set
    let numbers = |draw: usize, row: usize| uniform((set + 1) << 32 | draw, row);
    let simulation = Simulation {
        draws,
        uniform: &numbers,
    };
    let form = SimulatedForm::new(&model, &design, &posterior, &form, simulation)?;
    let valid = Simulated::new(form).possibility(SLOPE)?;
    Ok([Pivot::Normal.possibility(plain), valid.value])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Result<Vec<usize>, _> = std::env::args().skip(1).map(|a| a.parse()).collect();
    let (sets, draws) = match arguments?[..] {
        [] => (40, 99),
        [sets, draws] => (sets, draws),
        _ => return Err("two numbers are expected: data sets, and simulations for each".into()),
    };
    let (mut covered, mut separated) = ([0; 2], 0);
    for set in 0..sets {
        match possibilities(set, draws) {
            Ok(found) => {
                for (count, possibility) in covered.iter_mut().zip(found) {
                    *count += usize::from(possibility >= ALPHA);
                }
            }
            Err(Error::NoMode { .. }) => separated += 1,
            Err(error) => return Err(error.into()),
        }
    }
    let answered = sets - separated;
    println!("{answered} data sets of {ROWS} rows; {separated} more were separated");
    for (name, count) in ["plain, --coverage 0.95", "valid, --valid --alpha 0.05"]
        .iter()
        .zip(covered)
    {
        let share = count as f64 / answered as f64;
        let error = (share * (1.0 - share) / answered as f64).sqrt();
        println!("{name}: {:.1} % ± {:.1} %", 100.0 * share, 100.0 * error);
    }
    Ok(())
}
