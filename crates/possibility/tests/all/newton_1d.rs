//! The Newton-like update of the consistency bounds against 40-digit trajectories.

use crate::{CLOSED_FORM, cases};
use faer::Mat;
use golden::{assert_close, number, numbers};
use possibility::smooth::SmoothLoss;
use possibility::variational::{NormalGenerator, Side, Variational};

/// `-log σ(yθ) + δ/2 (θ - m)²`.
struct Logistic {
    y: f64,
    delta: f64,
    mean: f64,
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl SmoothLoss for Logistic {
    fn dimension(&self) -> usize {
        1
    }
    fn value(&self, theta: &[f64]) -> f64 {
        let t = theta[0];
        let z = self.y * t;
        (-z).max(0.0) + (-z.abs()).exp().ln_1p() + 0.5 * self.delta * (t - self.mean).powi(2)
    }
    fn gradient(&self, theta: &[f64]) -> Vec<f64> {
        let t = theta[0];
        vec![-self.y * sigmoid(-self.y * t) + self.delta * (t - self.mean)]
    }
    fn hessian(&self, theta: &[f64]) -> Mat<f64> {
        // 1 - σ(θ) would cancel
        let slope = sigmoid(theta[0]) * sigmoid(-theta[0]);
        Mat::from_fn(1, 1, |_, _| slope + self.delta)
    }
}

#[test]
fn golden_newton_1d() {
    for case in cases("cbo_newton_1d") {
        let name = case["name"].as_str().unwrap_or("unnamed");
        let loss = Logistic {
            y: number(&case["y"]),
            delta: number(&case["prior_precision"]),
            mean: number(&case["prior_mean"]),
        };
        let side = if number(&case["s"]) > 0.0 {
            Side::Upper
        } else {
            Side::Lower
        };
        let candidate = NormalGenerator::isotropic(1, number(&case["vartheta"])).unwrap();
        let problem = Variational::new(loss, candidate, side).unwrap();
        let trace = problem.run(&[number(&case["eta0"])], &numbers(&case["rho"]));
        assert_eq!(trace.outcome, Ok(()), "{name}");
        let got: Vec<f64> = trace.steps[1..].iter().map(|step| step.eta[0]).collect();
        assert_close(name, &got, &numbers(&case["eta"]), CLOSED_FORM);
    }
}
