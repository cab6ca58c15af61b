//! Valid possibilities of a linear form `aᵀw` of a regression by [simulation](crate::simulated): the
//! rows `xᵢ` are kept, the responses are drawn at the most possible `w` with `aᵀw = t`, and the
//! relative profile likelihood of `t` is found in each set of responses.
//!
//! With `H = LLᵀ` the Hessian at the mode and `Q` a reflection that turns `L⁻¹a` into the last
//! axis, the coordinates `v = QLᵀw` have the unit matrix as Hessian, and `aᵀw` is a multiple of the
//! last of them. Both suprema behind a relative profile likelihood are found in these coordinates
//! by the same Newton's method, over all but the last and over all. Responses that can be separated
//! have no most possible `w`, but their suprema are finite and are approached as closely as any
//! other.

use std::num::NonZero;

use super::kernel::Demand;
use super::{
    Design, PriorPrecision, Regression, RegressionConfig, RegressionPosterior, Regularized,
    Response,
};
use crate::error::{Error, Result, check_finite, check_size};
use crate::family::special::log_factorial;
use crate::family::tails::gamma_above;
use crate::linear::{block, cholesky, dot, multiply_upper, solve, solve_lower};
use crate::set::Interval;
use crate::simulated::{Comparison, Simulation, Source};

/// Half the squared decrement at which Newton's method stops.
const SETTLED: f64 = 1e-11;

/// Newton steps after which a set of responses is given up.
const MOST_STEPS: usize = 200;

/// Share of the mode's curvature, here the unit matrix, that is added where there is none left.
const TRACE: f64 = 1e-9;

/// A linear form of a regression without prior.
#[derive(Clone)]
pub struct SimulatedForm<'a> {
    simulation: Simulation<'a>,
    /// The rows in the coordinates `v`, with the responses that were seen.
    design: Design,
    model: Regression,
    mode: f64,
    /// The last coordinate at `aᵀw = 1`.
    scale: f64,
    /// The mode in these coordinates, and its loss.
    center: Vec<f64>,
    loss: f64,
    threads: usize,
}

impl<'a> SimulatedForm<'a> {
    /// The form with these factors.
    ///
    /// ```
    /// use possibility::regression::{
    ///     Design, PriorPrecision, Profiles, RegressionConfig, Response, SimulatedForm,
    /// };
    /// use possibility::simulated::{Simulated, Simulation};
    /// let mut design = Design::with_intercept(Response::Bernoulli, 1);
    /// for (x, y) in [(-2.0, 0.0), (-1.0, 0.0), (-0.5, 1.0), (0.5, 0.0), (1.0, 1.0), (3.0, 1.0)] {
    ///     design.push(&[x], y)?;
    /// }
    /// let config = RegressionConfig {
    ///     prior_precision: PriorPrecision::Scalar(0.0),
    ///     ..RegressionConfig::default()
    /// };
    /// let model = config.build(design.columns())?;
    /// let posterior = model.fit(&design)?;
    /// // any uniform numbers will do; a generator by position is best
    /// let uniform = |draw: usize, row: usize| ((draw * 7 + row * 13) as f64 * 0.618034).fract();
    /// let simulation = Simulation { draws: 99, uniform: &uniform };
    /// let form = SimulatedForm::new(&model, &design, &posterior, &[0.0, 1.0], simulation)?;
    /// let mut slope = Simulated::new(form);
    /// assert!(slope.possibility(0.0)?.value > 0.01);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    ///
    /// # Errors
    /// A form of the wrong size, not finite or zero; a model with a prior, rows with weights, or a
    /// normal response, whose law is known ([`valid`](crate::valid)); no data sets.
    pub fn new(
        model: &Regression,
        design: &Design,
        posterior: &RegressionPosterior,
        form: &[f64],
        simulation: Simulation<'a>,
    ) -> Result<Self> {
        let columns = model.columns();
        check_size("design", design.columns(), columns)?;
        check_size("posterior", posterior.columns(), columns)?;
        check_size("linear form", form.len(), columns)?;
        check_finite("linear form", form)?;
        let is_weighted = (0..design.rows()).any(|i| design.weight(i) != 1.0);
        let has_prior = model
            .prior_precision
            .col_iter()
            .any(|c| c.iter().any(|&p| p != 0.0));
        if is_weighted || has_prior || design.response() == Response::Normal {
            return Err(Error::Unsupported {
                what: "simulation with a prior, with weights or of a normal response",
            });
        }
        if simulation.draws == 0 {
            return Err(Error::Empty { name: "simulation" });
        }
        let factor = posterior.laplace().precision_factor();
        let mut along = form.to_vec();
        solve_lower(factor, &mut along);
        let reflection = Reflection::new(along).ok_or(Error::Empty {
            name: "linear form",
        })?;
        let mut turned = Design::new(design.response(), columns)?;
        for i in 0..design.rows() {
            let mut row = design.row(i);
            solve_lower(factor, &mut row);
            reflection.apply(&mut row);
            turned.push(&row, design.observed(i))?;
        }
        let mut center = multiply_upper(factor, posterior.mode());
        reflection.apply(&mut center);
        let config = RegressionConfig {
            prior_precision: PriorPrecision::Scalar(0.0),
            threads: NonZero::new(1),
            ..RegressionConfig::default()
        };
        let mut source = Self {
            simulation,
            design: turned,
            model: config.build(columns)?,
            mode: dot(form, posterior.mode()),
            scale: reflection.length.recip(),
            center: Vec::new(),
            loss: 0.0,
            threads: model.threads().min(simulation.draws),
        };
        let start = source.start(&source.design, center);
        let Minimum { point, at } = source.minimum(&source.design, start, columns)?;
        (source.center, source.loss) = (point, at.loss);
        Ok(source)
    }

    /// The least loss over the first `free` coordinates, and where it is.
    fn minimum(&self, design: &Design, start: Minimum, free: usize) -> Result<Minimum> {
        let Minimum { mut point, mut at } = start;
        if free == 0 {
            return Ok(Minimum { point, at });
        }
        let leading: Vec<usize> = (0..free).collect();
        let mut decrement = f64::INFINITY;
        for _ in 0..MOST_STEPS {
            at.check_overflow(design)?;
            let direction = step(&at, &leading)?;
            decrement = dot(&at.gradient, &direction);
            if 0.5 * decrement <= SETTLED {
                return Ok(Minimum { point, at });
            }
            (point, at) = self
                .model
                .descend(design, &point, &at, &direction, decrement)?;
        }
        Err(Error::NotConverged {
            what: "Newton's method for simulated responses",
            steps: MOST_STEPS,
            residual: 0.5 * decrement,
        })
    }

    fn start(&self, design: &Design, point: Vec<f64>) -> Minimum {
        let at = self.model.regularize(design, &point, Demand::Curvature);
        Minimum { point, at }
    }

    /// The log of the relative profile likelihood of the last coordinate of `point` in the data of
    /// a design.
    fn log_relative(&self, design: &Design, point: &[f64]) -> Result<f64> {
        let columns = point.len();
        let held = self.minimum(design, self.start(design, point.to_vec()), columns - 1)?;
        let held_loss = held.at.loss;
        let least = self.minimum(design, held, columns)?;
        Ok((least.at.loss - held_loss).min(0.0))
    }
}

/// A point on the way to a minimum.
struct Minimum {
    point: Vec<f64>,
    at: Regularized,
}

/// Newton's step over the leading coordinates, 0 in the others.
fn step(at: &Regularized, leading: &[usize]) -> Result<Vec<f64>> {
    let mut hessian = block(at.hessian.as_ref(), leading, leading);
    let factor = cholesky("Hessian", hessian.as_ref()).or_else(|_| {
        for &i in leading {
            hessian[(i, i)] += TRACE;
        }
        cholesky("Hessian", hessian.as_ref())
    })?;
    let mut direction = solve(factor.as_ref(), &at.gradient[..leading.len()]);
    direction.resize(at.gradient.len(), 0.0);
    Ok(direction)
}

impl Source for SimulatedForm<'_> {
    fn mode(&self) -> f64 {
        self.mode
    }

    fn range(&self) -> Interval {
        Interval::REAL_LINE
    }

    fn draws(&self) -> usize {
        self.simulation.draws
    }

    fn compare(&self, value: f64) -> Result<Comparison> {
        let columns = self.center.len();
        let mut point = self.center.clone();
        point[columns - 1] = self.scale * value;
        let start = self.start(&self.design, point);
        let Minimum { point, at } = self.minimum(&self.design, start, columns - 1)?;
        let response = self.design.response();
        let laws: Vec<Law> = (0..self.design.rows())
            .map(|i| Law::new(response, response.mean(dot(&self.design.row(i), &point))))
            .collect();
        let simulate = |draw: usize, design: &mut Design| {
            let uniform =
                |(row, law): (usize, &Law)| law.quantile((self.simulation.uniform)(draw, row));
            design.set_responses(laws.iter().enumerate().map(uniform).collect());
            self.log_relative(design, &point).ok()
        };
        let mut logs = vec![None; self.simulation.draws];
        // each thread takes a run of draws; no number depends on which
        let run = logs.len().div_ceil(self.threads);
        std::thread::scope(|scope| {
            for (part, logs) in logs.chunks_mut(run).enumerate() {
                let simulate = &simulate;
                scope.spawn(move || {
                    let mut design = self.design.clone();
                    for (k, log) in logs.iter_mut().enumerate() {
                        *log = simulate(part * run + k, &mut design);
                    }
                });
            }
        });
        Ok(Comparison::new(
            value,
            (self.loss - at.loss).min(0.0),
            &logs,
        ))
    }
}

/// The reflection that turns a vector into the last axis: `z - 2u(uᵀz)`.
struct Reflection {
    /// `u`.
    axis: Vec<f64>,
    /// The last coordinate of the reflected vector, with its sign.
    length: f64,
}

impl Reflection {
    /// `None` for the vector 0.
    fn new(mut vector: Vec<f64>) -> Option<Self> {
        let size = dot(&vector, &vector).sqrt();
        let last = vector.last_mut()?;
        // away from the vector, so that nothing cancels
        let length = if *last > 0.0 { -size } else { size };
        *last -= length;
        let norm = dot(&vector, &vector).sqrt();
        (size > 0.0 && norm.is_finite()).then(|| Self {
            axis: vector.iter().map(|x| x / norm).collect(),
            length,
        })
    }

    fn apply(&self, z: &mut [f64]) {
        let twice = 2.0 * dot(&self.axis, z);
        for (z, u) in z.iter_mut().zip(&self.axis) {
            *z -= twice * u;
        }
    }
}

/// The law of one response.
enum Law {
    Bernoulli { mean: f64 },
    Poisson { mean: f64, middle: f64, below: f64 },
}

impl Law {
    fn new(response: Response, mean: f64) -> Self {
        match response {
            Response::Poisson => {
                let middle = mean.floor();
                Self::Poisson {
                    mean,
                    middle,
                    below: gamma_above(middle + 1.0, mean),
                }
            }
            _ => Self::Bernoulli { mean },
        }
    }

    /// The least `y` with `P(Y ≤ y) > u`; for a Bernoulli response 1 if `u` is below the mean.
    fn quantile(&self, u: f64) -> f64 {
        let (mean, middle, below) = match *self {
            Self::Bernoulli { mean } => return f64::from(u8::from(u < mean)),
            Self::Poisson {
                mean,
                middle,
                below,
            } => (mean, middle, below),
        };
        // from P(Y ≤ middle), by the quotient of neighboring probabilities
        let power = if middle > 0.0 {
            middle * mean.ln()
        } else {
            0.0
        };
        let mut probability = (power - mean - log_factorial(middle)).exp();
        let (mut y, mut below) = (middle, below);
        if u < below {
            while y > 0.0 && u < below - probability {
                below -= probability;
                probability *= y / mean;
                y -= 1.0;
            }
        } else {
            while u >= below && probability > 0.0 {
                y += 1.0;
                probability *= mean / y;
                below += probability;
            }
        }
        y
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::conjugate::{Poisson, ScalarFamily};
    use crate::function::Possibility;
    use crate::numeric::sigmoid;
    use crate::simulated::tests::splitmix;
    use crate::simulated::{Estimate, Simulated};
    use crate::valid::{Pivot, Valid};

    fn simulation(draws: usize) -> Simulation<'static> {
        Simulation {
            draws,
            uniform: &splitmix,
        }
    }

    fn plain(design: &Design, threads: usize) -> (Regression, RegressionPosterior) {
        let config = RegressionConfig {
            prior_precision: PriorPrecision::Scalar(0.0),
            threads: NonZero::new(threads),
            ..RegressionConfig::default()
        };
        let model = config.build(design.columns()).unwrap();
        let posterior = model.fit(design).unwrap();
        (model, posterior)
    }

    fn simulated(design: &Design, form: &[f64], draws: usize) -> Simulated<SimulatedForm<'static>> {
        let (model, posterior) = plain(design, 2);
        let form = SimulatedForm::new(&model, design, &posterior, form, simulation(draws));
        Simulated::new(form.unwrap())
    }

    /// Two groups: `counts[x]` successes among `sizes[x]` rows.
    fn groups(sizes: [u32; 2], counts: [u32; 2]) -> Design {
        let mut design = Design::with_intercept(Response::Bernoulli, 1);
        for x in 0..2 {
            for k in 0..sizes[x] {
                let y = f64::from(u8::from(k < counts[x]));
                design.push(&[x as f64], y).unwrap();
            }
        }
        design
    }

    /// The obvious form: `-log p` of counts in two groups at intercept `b` and slope `t`.
    fn loss(sizes: [u32; 2], counts: [u32; 2], b: f64, t: f64) -> f64 {
        let group = |x: usize, z: f64| {
            let (n, s) = (f64::from(sizes[x]), f64::from(counts[x]));
            let cost = |k: f64, z: f64| {
                if k == 0.0 {
                    0.0
                } else {
                    k * (1.0 + (-z).exp()).ln()
                }
            };
            cost(s, z) + cost(n - s, -z)
        };
        group(0, b) + group(1, b + t)
    }

    /// The best intercept for a slope, by bisection of the score; far out where there is none.
    fn intercept(sizes: [u32; 2], counts: [u32; 2], t: f64) -> f64 {
        let total = f64::from(counts[0] + counts[1]);
        let [m, n] = sizes.map(f64::from);
        crate::numeric::crossing(
            |b| m * sigmoid(b) + n * sigmoid(b + t) - total,
            true,
            -60.0,
            60.0,
        )
    }

    fn log_relative(sizes: [u32; 2], counts: [u32; 2], t: f64) -> f64 {
        let entropy = |n: u32, k: u32| {
            let (n, k) = (f64::from(n), f64::from(k));
            let part = |k: f64| if k == 0.0 { 0.0 } else { -k * (k / n).ln() };
            part(k) + part(n - k)
        };
        let least = entropy(sizes[0], counts[0]) + entropy(sizes[1], counts[1]);
        least - loss(sizes, counts, intercept(sizes, counts, t), t)
    }

    /// `π` of a slope at the plugged-in intercept: all `2ⁿ` sets of responses, by their counts.
    fn by_enumeration(sizes: [u32; 2], counts: [u32; 2], t: f64) -> f64 {
        let b = intercept(sizes, counts, t);
        let observed = log_relative(sizes, counts, t);
        let mut known = std::collections::HashMap::new();
        let mut sum = 0.0;
        for responses in 0..1u32 << (sizes[0] + sizes[1]) {
            let first = responses & ((1 << sizes[0]) - 1);
            let drawn = [first.count_ones(), (responses >> sizes[0]).count_ones()];
            // sets with the same counts have the same relative likelihood
            let log = known
                .entry(drawn)
                .or_insert_with(|| log_relative(sizes, drawn, t));
            if *log <= observed + 1e-7 {
                sum += (-loss(sizes, drawn, b, t)).exp();
            }
        }
        sum
    }

    #[test]
    fn slopes_agree_with_enumeration() {
        for (sizes, counts) in [([5, 5], [1, 4]), ([4, 6], [2, 3]), ([3, 8], [1, 1])] {
            let design = groups(sizes, counts);
            let mut slope = simulated(&design, &[0.0, 1.0], 1500);
            for t in [-4.0, -0.5, 0.0, 1.0, 2.0, 6.0] {
                let found = slope.possibility(t).unwrap();
                let expected = by_enumeration(sizes, counts, t);
                let off = (found.value - expected).abs();
                // four standard errors, and the set that was seen
                assert!(
                    off < 4.0 * found.error + 1e-3,
                    "{sizes:?} {t}: {found:?} {expected}"
                );
            }
            assert_eq!(slope.unresolved(), 0);
        }
    }

    #[test]
    fn a_single_rate_agrees_with_the_exact_law() {
        let mut design = Design::with_intercept(Response::Poisson, 0);
        for y in [3.0, 0.0, 1.0, 2.0, 2.0] {
            design.push(&[], y).unwrap();
        }
        let exact = Valid::new(Poisson.prior(1.6, 5.0).unwrap()).unwrap();
        let mut rate = simulated(&design, &[1.0], 3000);
        for value in [0.3, 0.9, 1.5, 2.2, 4.0_f64] {
            let found = rate.possibility(value.ln()).unwrap();
            let expected = exact.possibility(&value);
            let off = (found.value - expected).abs();
            assert!(
                off < 4.0 * found.error + 1e-3,
                "{value}: {found:?} {expected}"
            );
        }
        let guess = Interval::closed((0.8_f64).ln(), (3.0_f64).ln()).unwrap();
        let [lower, upper] = rate.cut(0.1, &guess).unwrap();
        // the exact cut is that of all values at least 0.1: jumps, and so no error to hold it to
        let cut = crate::univariate::Univariate::cut(&exact, 0.1).unwrap();
        assert!(
            (lower.value.exp() - cut.lower()).abs() < 0.1,
            "{lower:?} {cut}"
        );
        assert!(
            (upper.value.exp() - cut.upper()).abs() < 0.2,
            "{upper:?} {cut}"
        );
    }

    fn spread() -> Design {
        let mut design = Design::with_intercept(Response::Bernoulli, 2);
        for i in 0..24 {
            let x = f64::from(i) / 6.0 - 2.0;
            let y = f64::from(u8::from(splitmix(77, i as usize) < sigmoid(0.8 * x)));
            design
                .push(&[1000.0 + x, splitmix(78, i as usize)], y)
                .unwrap();
        }
        design
    }

    /// Neither the number of threads nor a second look changes a bit; away from the mode, whose
    /// possibility is 1, it falls.
    #[test]
    fn curves_fall_and_repeat() {
        let design = spread();
        let form = [0.0, 1.0, -0.5];
        let looks: Vec<Vec<f64>> = [1, 2, 5]
            .into_iter()
            .map(|threads| {
                let (model, posterior) = plain(&design, threads);
                let source =
                    SimulatedForm::new(&model, &design, &posterior, &form, simulation(199))
                        .unwrap();
                let mode = source.mode();
                let mut simulated = Simulated::new(source);
                assert_eq!(simulated.possibility(mode).unwrap(), Estimate::certain(1.0));
                let look = |k: i32| {
                    let estimate = simulated.possibility(mode + 0.5 * f64::from(k));
                    estimate.unwrap().value
                };
                (-6..=6).map(look).collect()
            })
            .collect();
        assert!(looks.iter().all(|look| *look == looks[0]));
        let values = &looks[0];
        assert!(
            values[..7].windows(2).all(|pair| pair[0] <= pair[1] + 0.02),
            "{values:?}"
        );
        assert!(
            values[6..].windows(2).all(|pair| pair[0] + 0.02 >= pair[1]),
            "{values:?}"
        );
        assert!(values[0] < 0.5 && values[12] < 0.5, "{values:?}");
    }

    /// In large samples the law is that of a squared normal number.
    #[test]
    fn large_samples_have_the_normal_law() {
        let mut design = Design::with_intercept(Response::Poisson, 1);
        for i in 0..120 {
            let x = f64::from(i) / 60.0 - 1.0;
            let law = Law::new(Response::Poisson, (1.5 + 0.3 * x).exp());
            design
                .push(&[x], law.quantile(splitmix(5, i as usize)))
                .unwrap();
        }
        let (model, posterior) = plain(&design, 2);
        let profiles = super::super::Profiles::new(&model, &design, &posterior).unwrap();
        let form = [0.0, 1.0];
        let mut slope = simulated(&design, &form, 999);
        for t in [-0.2, 0.0, 0.1, 0.5] {
            let target = [(&form[..], super::super::Target::Value(t))];
            let log = profiles.solve(&target).unwrap()[0].log_possibility;
            let (found, law) = (
                slope.possibility(t).unwrap(),
                Pivot::Normal.possibility(log),
            );
            assert!(
                (found.value - law).abs() < 4.0 * found.error + 0.005,
                "{t}: {found:?} {law}"
            );
        }
    }

    #[test]
    fn poisson_numbers_are_quantiles() {
        for mean in [1e-9_f64, 0.7, 3.0, 40.5, 1e4] {
            let law = Law::new(Response::Poisson, mean);
            for u in [0.0, 1e-6, 0.2, 0.5, 0.77, 0.999] {
                let y = law.quantile(u);
                assert!(gamma_above(y + 1.0, mean) > u - 1e-12, "{mean} {u}: {y}");
                assert!(
                    y == 0.0 || gamma_above(y, mean) <= u + 1e-12,
                    "{mean} {u}: {y}"
                );
            }
        }
        assert_eq!(Law::new(Response::Poisson, 0.0).quantile(0.9), 0.0);
    }

    #[test]
    fn what_has_no_such_law_is_refused() {
        let design = spread();
        let (model, posterior) = plain(&design, 1);
        let new = |form: &[f64], draws| {
            SimulatedForm::new(&model, &design, &posterior, form, simulation(draws)).err()
        };
        assert!(new(&[0.0, 1.0, 0.0], 9).is_none());
        assert!(new(&[0.0, 1.0], 9).is_some());
        assert!(new(&[0.0, 0.0, 0.0], 9).is_some());
        assert!(new(&[0.0, f64::NAN, 0.0], 9).is_some());
        assert!(new(&[0.0, 1.0, 0.0], 0).is_some());
        let mut weighted = groups([3, 3], [1, 2]);
        weighted.push_weighted(&[1.0], 1.0, 2.0).unwrap();
        let (model, posterior) = plain(&weighted, 1);
        let form = [0.0, 1.0];
        let refused = SimulatedForm::new(&model, &weighted, &posterior, &form, simulation(9));
        assert!(matches!(refused.err(), Some(Error::Unsupported { .. })));
        let prior = RegressionConfig::default().build(2).unwrap();
        let design = groups([3, 3], [1, 2]);
        let posterior = prior.fit(&design).unwrap();
        let refused = SimulatedForm::new(&prior, &design, &posterior, &form, simulation(9));
        assert!(matches!(refused.err(), Some(Error::Unsupported { .. })));
    }
}
