//! Elementary functions written so that nothing overflows and nothing cancels.

/// `log(1 + e^x)`.
pub(crate) fn softplus(x: f64) -> f64 {
    if x > 0.0 {
        x + (-x).exp().ln_1p()
    } else {
        x.exp().ln_1p()
    }
}

/// `1 / (1 + e^-x)`.
pub(crate) fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

/// `x log x`, continued by 0 at 0.
pub(crate) fn x_log_x(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x * x.ln() }
}

/// `log Σ e^x`: `-∞` for no term or terms `-∞` alone, `+∞` if a term is.
pub(crate) fn log_sum_exp(terms: impl IntoIterator<Item = f64>) -> f64 {
    let terms: Vec<f64> = terms.into_iter().collect();
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest.is_infinite() {
        return largest;
    }
    largest + terms.iter().map(|t| (t - largest).exp()).sum::<f64>().ln()
}

/// Where a monotone function changes sign, to the last digit; an end if it does not.
pub(crate) fn crossing(f: impl Fn(f64) -> f64, rises: bool, mut low: f64, mut high: f64) -> f64 {
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return middle;
        }
        if (f(middle) > 0.0) == rises {
            high = middle;
        } else {
            low = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softplus_and_sigmoid_survive_both_ends() {
        assert_eq!(softplus(800.0), 800.0);
        assert_eq!(softplus(-800.0), 0.0);
        assert!((softplus(0.0) - std::f64::consts::LN_2).abs() < 1e-16);
        assert_eq!(sigmoid(-800.0), 0.0);
        assert_eq!(sigmoid(800.0), 1.0);
        let h = 1e-6;
        for x in [-3.0, -0.2, 0.0, 0.7, 5.0] {
            let slope = (softplus(x + h) - softplus(x - h)) / (2.0 * h);
            assert!(
                (slope - sigmoid(x)).abs() < 1e-9,
                "sigmoid is the slope of softplus at {x}"
            );
        }
    }

    #[test]
    fn x_log_x_has_its_limits() {
        assert_eq!(x_log_x(0.0), 0.0);
        assert!((x_log_x(0.5) - 0.5 * 0.5f64.ln()).abs() < 1e-16);
    }
}
