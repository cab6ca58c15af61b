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

/// `a·b + c`, in one rounding where the processor can.
#[inline(always)]
pub(crate) fn multiply_add<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// `(e⁻ᵃ, 1 - e⁻ᵃ)` for `a ≥ 0`, each to a few ulp; `(0, 1)` beyond 708.
///
/// `-a = k log 2 + r` with an integer `k` and `abs(r) ≤ log(2)/2`, then `eʳ - 1` by its Taylor
/// polynomial.
#[inline(always)]
pub(crate) fn exp_negative<const FUSED: bool>(a: f64) -> (f64, f64) {
    /// Adding it rounds to an integer, and leaves that integer in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// `log 2` in two parts; the first has so few bits that its product with `k` is exact.
    const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const LARGEST: f64 = 708.0;
    const TAYLOR: [f64; 12] = [
        1.0 / 6_227_020_800.0,
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
    ];
    let x = -(if a < LARGEST { a } else { LARGEST });
    let rounded = multiply_add::<FUSED>(x, std::f64::consts::LOG2_E, ROUND);
    let k = rounded - ROUND;
    let r = multiply_add::<FUSED>(k, -LN_2_LOW, multiply_add::<FUSED>(k, -LN_2_HIGH, x));
    let mut p = TAYLOR[0];
    for &c in &TAYLOR[1..] {
        p = multiply_add::<FUSED>(p, r, c);
    }
    let exp_m1 = multiply_add::<FUSED>(r * r, p, r);
    // 2^k: the exponent field moved down by -k
    let scale = f64::from_bits((rounded.to_bits() << 52).wrapping_add(1f64.to_bits()));
    let u = multiply_add::<FUSED>(scale, exp_m1, scale);
    let one_minus_u = multiply_add::<FUSED>(-scale, exp_m1, 1.0 - scale);
    (if a < LARGEST { u } else { 0.0 }, one_minus_u)
}

/// `log(1 + u)` for `u` in `[0, 1]`, to a few ulp, as `2 artanh(u/(u+2))`, or as
/// `log 2 + 2 artanh((u-1)/(u+3))` for the upper part of the range.
#[inline(always)]
pub(crate) fn log_1p_unit<const FUSED: bool>(u: f64) -> f64 {
    /// 2/(2i + 3), from the last term to the first.
    const SERIES: [f64; 9] = [
        2.0 / 19.0,
        2.0 / 17.0,
        2.0 / 15.0,
        2.0 / 13.0,
        2.0 / 11.0,
        2.0 / 9.0,
        2.0 / 7.0,
        2.0 / 5.0,
        2.0 / 3.0,
    ];
    let upper = u > std::f64::consts::SQRT_2 - 1.0;
    let (shift, add, offset) = if upper {
        (1.0, 3.0, std::f64::consts::LN_2)
    } else {
        (0.0, 2.0, 0.0)
    };
    let t = (u - shift) / (u + add);
    let square = t * t;
    let mut p = SERIES[0];
    for &c in &SERIES[1..] {
        p = multiply_add::<FUSED>(p, square, c);
    }
    offset + multiply_add::<FUSED>(t * square, p, 2.0 * t)
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

    #[test]
    fn exp_and_log_agree_with_the_library() {
        let mut a = 0.0f64;
        while a < 745.0 {
            let (fused, fused_rest) = exp_negative::<true>(a);
            let (plain, plain_rest) = exp_negative::<false>(a);
            let (exact, rest) = ((-a).exp(), -(-a).exp_m1());
            // beyond 708 the result is 0 for a number below 1e-307
            for u in [fused, plain] {
                assert!(
                    (u - exact).abs() <= 4e-16 * exact || a >= 708.0,
                    "exp(-{a}) as {u}"
                );
                assert!((u - exact).abs() < 1e-307 || a < 708.0);
                let got = log_1p_unit::<true>(u);
                assert!(
                    (got - u.ln_1p()).abs() <= 5e-16 * u.ln_1p(),
                    "log(1 + {u}) as {got}"
                );
                let got = log_1p_unit::<false>(u);
                assert!(
                    (got - u.ln_1p()).abs() <= 5e-16 * u.ln_1p(),
                    "log(1 + {u}) as {got}"
                );
            }
            for r in [fused_rest, plain_rest] {
                assert!(
                    (r - rest).abs() <= 5e-16 * rest,
                    "1 - exp(-{a}) as {r} for {rest}"
                );
            }
            a = if a < 2.0 {
                a + 1.1e-3
            } else {
                a * 1.001 + 0.01
            };
        }
        assert_eq!(exp_negative::<true>(f64::INFINITY), (0.0, 1.0));
        assert_eq!(exp_negative::<false>(1e9), (0.0, 1.0));
        assert_eq!(exp_negative::<true>(0.0), (1.0, 0.0));
    }
}
