//! Special functions of the families, free of cancellation: `log Γ`, `log k!`,
//! `x log(x/y) - x + y`, `e^x - 1 - x` and its inverse, and a guarded Newton root.

use std::f64::consts::{LN_2, PI};

use crate::double::Double;

/// `(ζ(k) - 1)/k` for `k = 2, 3, …`: the Taylor coefficients of `log Γ(2 + z)` up to sign.
const ZETA_TERMS: [f64; 28] = [
    0.3224670334241132,
    0.0673523010531981,
    0.020580808427784546,
    0.007385551028673986,
    0.0028905103307415234,
    0.001192753911703261,
    0.0005096695247430425,
    0.00022315475845357939,
    9.945751278180853e-05,
    4.492623673813314e-05,
    2.050721277567069e-05,
    9.439488275268397e-06,
    4.374866789907488e-06,
    2.039215753801366e-06,
    9.55141213040742e-07,
    4.492469198764566e-07,
    2.1207184805554665e-07,
    1.0043224823968099e-07,
    4.7698101693639804e-08,
    2.2711094608943164e-08,
    1.0838659214896955e-08,
    5.183475041970047e-09,
    2.4836745438024785e-09,
    1.1921401405860912e-09,
    5.731367241678862e-10,
    2.7595228851242334e-10,
    1.330476437424449e-10,
    6.4229645638381e-11,
];

/// `1 - γ`, the slope of `log Γ` at 2.
const SLOPE_AT_TWO: f64 = 0.422_784_335_098_467_13;

/// `B_{2j} / (2j (2j - 1))`, the coefficients of Stirling's series.
const STIRLING_TERMS: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360_360.0,
    1.0 / 156.0,
    -3617.0 / 122_400.0,
];

/// From here on eight terms of Stirling's series are exact to the last digit.
const STIRLING_START: f64 = 12.0;

/// `log Γ(x)` for `x > 0`, to a few units in the last digit, also next to its zeros 1 and 2.
pub(crate) fn log_gamma(x: f64) -> f64 {
    if x >= STIRLING_START {
        return (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + stirling_series(x);
    }
    if x < 0.5 {
        return log_gamma_near_two(x) - x.ln_1p() - x.ln();
    }
    if x < 1.5 {
        return log_gamma_near_two(x - 1.0) - (x - 1.0).ln_1p();
    }
    let (mut y, mut product) = (x, 1.0);
    while y > 2.5 {
        y -= 1.0;
        product *= y;
    }
    log_gamma_near_two(y - 2.0) + f64::ln(product)
}

/// `log Γ(2 + z)` for `|z| ≤ 1/2`.
fn log_gamma_near_two(z: f64) -> f64 {
    let series = ZETA_TERMS
        .iter()
        .rev()
        .fold(0.0, |sum: f64, &term| term - z * sum);
    z * (SLOPE_AT_TWO + z * series)
}

/// `1/(12x) - 1/(360x³) + …`, what Stirling's formula leaves out of `log Γ(x)`.
fn stirling_series(x: f64) -> f64 {
    let square = 1.0 / (x * x);
    STIRLING_TERMS
        .iter()
        .rev()
        .fold(0.0, |sum, &term| term + square * sum)
        / x
}

/// `log k!`.
pub(crate) fn log_factorial(k: f64) -> f64 {
    if k < 2.0 {
        0.0
    } else if k < 22.0 {
        // the product is exact
        let (mut product, mut j) = (1.0, 2.0);
        while j <= k {
            product *= j;
            j += 1.0;
        }
        f64::ln(product)
    } else {
        log_gamma(k + 1.0)
    }
}

/// `log Γ(x + 1) - x log x + x = log(√(2πx)) + 1/(12x) - …` for `x ≥ 0`, continued by 0 at 0: minus
/// the log of the greatest probability a Poisson variable can give to the count `x`.
pub(crate) fn stirling_remainder(x: f64) -> f64 {
    if x == 0.0 {
        0.0
    } else if x < STIRLING_START {
        log_gamma(x + 1.0) - x * x.ln() + x
    } else {
        0.5 * (2.0 * PI * x).ln() + stirling_series(x)
    }
}

/// `stirling_remainder(x) - stirling_remainder(y)`.
pub(crate) fn stirling_remainder_difference(x: f64, y: f64) -> f64 {
    if x >= STIRLING_START && y >= STIRLING_START {
        0.5 * ((x - y) / y).ln_1p() + (stirling_series(x) - stirling_series(y))
    } else {
        stirling_remainder(x) - stirling_remainder(y)
    }
}

/// `x log(x/y) - x + y ≥ 0` for `x, y ≥ 0`; 0 only at `x = y`.
pub(crate) fn deviance(x: f64, y: f64) -> f64 {
    deviance_from_gap(x, y, x - y)
}

/// [`deviance`] for callers that know `gap = x - y` better than the subtraction does.
pub(crate) fn deviance_from_gap(x: f64, y: f64, gap: f64) -> f64 {
    if x == 0.0 {
        return y;
    }
    if y == 0.0 || y.is_infinite() {
        return f64::INFINITY;
    }
    let v = gap / (x + y);
    if v.abs() >= 0.3 {
        return x * (x / y).ln() - gap;
    }
    // x log(x/y) = 2x artanh(v), and gap = v (x + y)
    let square = v * v;
    let (mut power, mut series, mut odd) = (v * square, 0.0, 3.0);
    loop {
        let next = series + power / odd;
        if next == series {
            break;
        }
        series = next;
        power *= square;
        odd += 2.0;
    }
    (gap * v + 2.0 * x * series).max(0.0)
}

/// `e^x - 1 - x ≥ 0`.
pub(crate) fn exp_m1_minus(x: f64) -> f64 {
    if x.abs() >= 1.0 {
        return x.exp_m1() - x;
    }
    let (mut term, mut sum, mut k) = (0.5 * x * x, 0.0, 2.0);
    loop {
        let next = sum + term;
        if next == sum {
            return sum;
        }
        sum = next;
        k += 1.0;
        term *= x / k;
    }
}

/// Both roots `(x₋ ≤ 0, x₊ ≥ 0)` of `e^x - 1 - x = level`, for `level ≥ 0`.
pub(crate) fn exp_m1_minus_roots(level: f64) -> (f64, f64) {
    if level == 0.0 {
        return (0.0, 0.0);
    }
    if level.is_infinite() {
        return (f64::NEG_INFINITY, f64::INFINITY);
    }
    let parabola = (2.0 * level).sqrt();
    let positive = increasing_root(
        |x| (exp_m1_minus(x), x.exp_m1()),
        level,
        parabola.min((level + parabola).ln_1p()),
    );
    let negative = increasing_root(
        |x| (exp_m1_minus(-x), -(-x).exp_m1()),
        level,
        (parabola + level).min(level + 1.0),
    );
    (-negative, positive)
}

/// The `x > 0` with `f(x) = level` for an increasing `f` with `f(0) = 0` that grows beyond `level`;
/// `f` gives its value and slope. Newton's method inside a shrinking bracket, to the last digits.
pub(crate) fn increasing_root(f: impl Fn(f64) -> (f64, f64), level: f64, guess: f64) -> f64 {
    let (mut lower, mut upper) = (0.0, f64::INFINITY);
    let mut x = guess.max(f64::MIN_POSITIVE);
    // bisections alone would need about 2100 steps over all of f64, Newton needs about six
    for _ in 0..2200 {
        let (value, slope) = f(x);
        if value < level {
            lower = x;
        } else {
            upper = x;
        }
        let newton = x - (value - level) / slope;
        let step_is_small = (newton - x).abs() <= 2.0 * f64::EPSILON * x;
        if value == level || step_is_small && newton > 0.0 {
            return if value == level { x } else { newton };
        }
        let next = if newton > lower && newton < upper {
            newton
        } else if upper.is_infinite() {
            2.0 * x
        } else if lower == 0.0 {
            0.5 * upper
        } else {
            0.5 * (lower + upper)
        };
        if next == x {
            return x;
        }
        x = next;
        if x.is_infinite() {
            return x;
        }
    }
    x
}

/// `log(e^x - 1)` for `x > 0`, the inverse of softplus.
pub(crate) fn log_exp_m1(x: f64) -> f64 {
    if x > LN_2 {
        x + (-(-x).exp()).ln_1p()
    } else {
        x.exp_m1().ln()
    }
}

/// `log(x/(1 - x))`, accurate also around 1/2.
pub(crate) fn logit(x: f64) -> f64 {
    if (0.25..=0.75).contains(&x) {
        // 2x - 1 is exact
        ((2.0 * x - 1.0) / (1.0 - x)).ln_1p()
    } else {
        x.ln() - (-x).ln_1p()
    }
}

/// A running sum that carries its own rounding error (Neumaier).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompensatedSum {
    sum: f64,
    compensation: f64,
}

impl CompensatedSum {
    pub(crate) fn add(&mut self, term: f64) {
        let next = self.sum + term;
        self.compensation += if self.sum.abs() >= term.abs() {
            (self.sum - next) + term
        } else {
            (term - next) + self.sum
        };
        self.sum = next;
    }

    /// The sum with its own rounding error.
    pub(crate) fn parts(&self) -> Double {
        Double::sum(self.sum, self.compensation)
    }

    pub(crate) fn total(&self) -> f64 {
        if self.sum.is_finite() {
            self.sum + self.compensation
        } else {
            self.sum
        }
    }
}

/// Terms go to four sums in turn, which need not wait for each other.
impl FromIterator<f64> for CompensatedSum {
    fn from_iter<I: IntoIterator<Item = f64>>(terms: I) -> Self {
        let mut sums = [Self::default(); 4];
        let mut terms = terms.into_iter();
        'all: loop {
            for sum in &mut sums {
                match terms.next() {
                    Some(term) => sum.add(term),
                    None => break 'all,
                }
            }
        }
        let [mut whole, others @ ..] = sums;
        for other in others {
            whole.add(other.sum);
            if other.sum.is_finite() {
                whole.compensation += other.compensation;
            }
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A few units in the last place: both sides are correct to the last digits.
    const CLOSE: f64 = 4e-15;

    fn assert_close(got: f64, want: f64, what: f64) {
        assert!(
            (got - want).abs() <= CLOSE * want.abs(),
            "at {what}: {got:e} is not {want:e}"
        );
    }

    // reference values of this module: 40-digit arithmetic, rounded once

    #[test]
    fn log_gamma_is_right_to_the_last_digits() {
        for (x, want) in [
            (1e-12, 27.63102111592797),
            (0.01, 4.599479878042022),
            (0.3, 1.0957979948180756),
            (0.5, 0.5723649429247001),
            (0.75, 0.20328095143129538),
            (0.999999, 5.772164873855652e-07),
            (1.000001, -5.772148423874147e-07),
            (1.25, -0.09827183642181316),
            (1.5, -0.12078223763524522),
            (1.9999999, -4.2278430309861296e-08),
            (2.0000001, 4.227843666532498e-08),
            (2.5, 0.2846828704729192),
            (3.7, 1.428072326665388),
            (7.25, 7.0521854507385395),
            (11.99, 17.477885575426185),
            (12.0, 17.502307845873887),
            (15.5, 26.536914491115613),
            (100.0, 359.1342053695754),
            (170.6, 704.5180371279987),
            (12345.678, 103959.91990554606),
            (1e10, 220258509288.81058),
            (1e15, 3.3538776394910668e16),
        ] {
            assert_close(log_gamma(x), want, x);
        }
        assert_eq!(log_gamma(1.0), 0.0);
        assert_eq!(log_gamma(2.0), 0.0);
    }

    #[test]
    fn stirling_remainder_meets_its_values() {
        for (x, want) in [
            (0.5, 0.7257913526447274),
            (1.0, 1.0),
            (3.0, 1.4959226032237258),
            (11.0, 2.12545984509181),
            (12.0, 2.168334698205882),
            (100.0, 3.2223569567543535),
            (1e6, 7.826693895520143),
        ] {
            assert_close(stirling_remainder(x), want, x);
        }
        assert_eq!(stirling_remainder(0.0), 0.0);
    }

    #[test]
    fn deviance_of_near_and_far_pairs() {
        for (x, y, want) in [
            (1.0, 1.0000001, 4.999999672505363e-15),
            (3.0, 2.0, 0.21639532432449315),
            (0.3, 0.30001, 1.6666296305588645e-10),
            (1e-09, 2e-09, 3.068528194400547e-10),
            (5.0, 50.0, 33.48707453502977),
            (1000000.0, 1000001.0, 4.999996666669166e-07),
            (1.0, 1.85, 0.2348143609097666),
            (1.0, 1.9, 0.25814611382760516),
        ] {
            assert_close(deviance(x, y), want, y);
        }
        assert_eq!(deviance(0.0, 2.5), 2.5);
        assert_eq!(deviance(2.5, 0.0), f64::INFINITY);
        assert_eq!(deviance(2.5, 2.5), 0.0);
    }

    #[test]
    fn exp_m1_minus_and_logit_keep_their_digits() {
        for (x, want) in [
            (1e-09, 5.000000001666667e-19),
            (-1e-05, 4.999983333375001e-11),
            (0.3, 0.0498588075760031),
            (-0.9999, 0.367816230955018),
            (1.0, 0.7182818284590452),
            (-5.0, 4.006737946999086),
            (30.0, 10686474581493.463),
            (-40.0, 39.0),
        ] {
            assert_close(exp_m1_minus(x), want, x);
        }
        for (x, want) in [
            (1e-20, -46.051701859880914),
            (0.2, -1.3862943611198906),
            (0.26, -1.0459685551826876),
            (0.4999999999, -4.000000330961484e-10),
            (0.5000000001, 4.000000330961484e-10),
            (0.74, 1.0459685551826876),
            (0.999999, 13.815509557935018),
        ] {
            assert_close(logit(x), want, x);
        }
    }

    #[test]
    fn compensated_sum_survives_cancellation() {
        let sum: CompensatedSum = [1.0, 1e100, 1.0, -1e100].into_iter().collect();
        assert_eq!(sum.total(), 2.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn roots_invert_exp_m1_minus(log_level in -60.0f64..60.0) {
            let level = log_level.exp();
            let (negative, positive) = exp_m1_minus_roots(level);
            prop_assert!(negative < 0.0 && positive > 0.0);
            for root in [negative, positive] {
                // a root that is right to one part in 1e15 moves the level by (slope * root) of
                // that
                let slack = 4e-15 * (1.0 + (root * root.exp_m1() / level).abs());
                prop_assert!((exp_m1_minus(root) / level - 1.0).abs() <= slack, "{root}");
            }
        }

        #[test]
        fn log_gamma_follows_its_recurrence(x in 0.01f64..40.0) {
            let (left, right) = (log_gamma(x + 1.0), log_gamma(x) + x.ln());
            prop_assert!((left - right).abs() <= 1e-14 * (1.0 + left.abs() + x.ln().abs()));
        }

        #[test]
        fn log_exp_m1_inverts_softplus(x in -30.0f64..30.0) {
            let back = log_exp_m1(crate::numeric::softplus(x));
            prop_assert!((back - x).abs() <= 1e-14 * (1.0 + x.abs()));
        }
    }
}
