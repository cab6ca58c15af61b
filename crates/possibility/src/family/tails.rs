//! Tails of the gamma and beta distributions, to nearly full relative precision.

use super::special::{deviance, stirling_remainder};

/// Smallest number that a continued fraction may divide by.
const TINY: f64 = 1e-300;

/// More terms than this are never needed: their number grows with the root of the shape.
const MOST_TERMS: usize = 10_000_000;

/// `xᵃe⁻ˣ/Γ(a+1)`.
fn gamma_weight(a: f64, x: f64) -> f64 {
    (-deviance(a, x) - stirling_remainder(a)).exp()
}

/// `P(X ≤ x)` for a gamma variable of shape `a > 0` and scale 1.
pub(crate) fn gamma_below(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        0.0
    } else if x < a + 1.0 {
        gamma_series(a, x)
    } else {
        1.0 - gamma_fraction(a, x)
    }
}

/// `P(X ≥ x)`.
pub(crate) fn gamma_above(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        1.0
    } else if x < a + 1.0 {
        1.0 - gamma_series(a, x)
    } else {
        gamma_fraction(a, x)
    }
}

/// `xᵃe⁻ˣ/Γ(a+1) · (1 + x/(a+1) + x²/((a+1)(a+2)) + …)`.
fn gamma_series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (1.0, 1.0, a);
    for _ in 0..MOST_TERMS {
        k += 1.0;
        term *= x / k;
        sum += term;
        if term <= 0.5 * f64::EPSILON * sum {
            break;
        }
    }
    (gamma_weight(a, x) * sum).min(1.0)
}

/// Legendre's continued fraction of the upper tail, evaluated by Lentz's method.
fn gamma_fraction(a: f64, x: f64) -> f64 {
    if x.is_infinite() {
        return 0.0;
    }
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / TINY, 1.0 / b);
    let mut h = d;
    for i in 1..MOST_TERMS {
        let i = i as f64;
        let an = -i * (i - a);
        b += 2.0;
        d = guarded(an * d + b).recip();
        c = guarded(b + an / c);
        h *= d * c;
        if (d * c - 1.0).abs() <= f64::EPSILON {
            break;
        }
    }
    (a * gamma_weight(a, x) * h).min(1.0)
}

fn guarded(x: f64) -> f64 {
    if x.abs() < TINY { TINY } else { x }
}

/// `P(X ≤ x)` for a beta variable of shapes `a, b > 0`; `y = 1 - x` is given for its own digits.
pub(crate) fn beta_below(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if x <= 0.0 {
        0.0
    } else if y <= 0.0 {
        1.0
    } else if x < (a + 1.0) / (a + b + 2.0) {
        beta_fraction(a, b, x, y)
    } else {
        1.0 - beta_fraction(b, a, y, x)
    }
}

/// The continued fraction of the lower tail, evaluated by Lentz's method.
fn beta_fraction(a: f64, b: f64, x: f64, y: f64) -> f64 {
    let n = a + b;
    let log_weight = stirling_remainder(n)
        - stirling_remainder(a)
        - stirling_remainder(b)
        - deviance(a, n * x)
        - deviance(b, n * y);
    let (mut c, mut d) = (1.0, guarded(1.0 - n * x / (a + 1.0)).recip());
    let mut h = d;
    for m in 1..MOST_TERMS {
        let m = m as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = guarded(1.0 + even * d).recip();
        c = guarded(1.0 + even / c);
        h *= d * c;
        let odd = -(a + m) * (n + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = guarded(1.0 + odd * d).recip();
        c = guarded(1.0 + odd / c);
        h *= d * c;
        if (d * c - 1.0).abs() <= f64::EPSILON {
            break;
        }
    }
    (b / n * log_weight.exp() * h).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sum of positive terms, and a factor from its own logarithm.
    const TOLERANCE: f64 = 1e-13;

    fn close(found: f64, expected: f64) {
        let off = (found - expected).abs();
        assert!(
            off <= TOLERANCE * expected.max(1e-300),
            "{found:e} {expected:e}"
        );
    }

    #[test]
    fn whole_shapes_are_sums() {
        // a gamma variable of whole shape waits for the k-th event of a Poisson process
        for (k, x) in [(1, 0.3), (4, 2.0), (4, 9.0), (30, 25.0), (30, 60.0)] {
            let (mut term, mut sum) = (f64::exp(-x), 0.0);
            for i in 0..k {
                sum += term;
                term *= x / f64::from(i + 1);
            }
            close(gamma_above(f64::from(k), x), sum);
            let below = gamma_below(f64::from(k), x);
            assert!((below + sum - 1.0).abs() < 1e-14);
        }
    }

    #[test]
    fn whole_shapes_of_beta_are_binomial() {
        for (n, k, p) in [(7, 3, 0.2_f64), (7, 3, 0.8), (40, 35, 0.5), (40, 1, 0.01)] {
            let mut term = (1.0 - p).powi(n);
            let mut sum = 0.0;
            for i in 0..=n {
                if i >= k {
                    sum += term;
                }
                term *= f64::from(n - i) / f64::from(i + 1) * p / (1.0 - p);
            }
            close(
                beta_below(f64::from(k), f64::from(n - k + 1), p, 1.0 - p),
                sum,
            );
        }
    }

    #[test]
    fn ends() {
        assert_eq!((gamma_below(2.0, 0.0), gamma_above(2.0, 0.0)), (0.0, 1.0));
        assert_eq!(
            (
                gamma_below(2.0, f64::INFINITY),
                gamma_above(2.0, f64::INFINITY)
            ),
            (1.0, 0.0)
        );
        assert_eq!(beta_below(2.0, 3.0, 0.0, 1.0), 0.0);
        assert_eq!(beta_below(2.0, 3.0, 1.0, 0.0), 1.0);
        // large shapes: half of the mass lies near the mean
        assert!((gamma_below(1e8, 1e8) - 0.5).abs() < 1e-4);
    }
}
