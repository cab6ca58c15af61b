//! The exact profile of a linear form `aᵀw` (a coefficient, a difference of two, a prediction): its
//! supremum-marginal `exp(-F(t))` with
//!
//! `F(t) = min {ℓ̂(w) - ℓ̂(m) : aᵀw = t}`,
//!
//! a convex problem for each `t`, and `F` is convex. Paper: Section 2 (marginals as suprema) and
//! Section 4 (posterior).
//!
//! Newton's method stays on the hyperplane. With `H` the Hessian and `g` the gradient of `ℓ̂`, the
//! multiplier `λ = aᵀH⁻¹g / aᵀH⁻¹a` is the slope `F'(t)`, `p = H⁻¹(g - λa)` the step along the
//! hyperplane, `D² = (g - λa)ᵀp` the squared decrement, and `dw/dt = H⁻¹a / aᵀH⁻¹a` leads to the
//! next hyperplane. An end of an α-cut solves `F(t) = -log α`; it is found together with `w`, by
//! Newton's method for `√(2F)`, which is a straight line for a normal posterior, inside a bracket
//! that only shrinks.
//!
//! **Certificate.** Each answer bounds its own error in the log possibility
//! ([`ProfilePoint::gap`]): by the decrement and the greatest leverage (see `certificate.rs`),
//! which needs no prior; where that says nothing, by the curvature of the prior. The rounding of
//! the sums is added. Where neither bound holds the gap is `None`: not certified.
//!
//! **Many questions at once.** The searches run in lock step and share each pass over the data.
//! Near the mode, where the curvature has changed by less than [`DRIFT`], a search keeps the
//! Hessian of the mode and asks for gradients alone.
//!
//! A normal response has closed forms, in twice the precision (`exact.rs`): with `v = aᵀH⁻¹a`,
//! `F(t) = (t-aᵀm)²/2v` for a known dispersion, and `F(t) = (n/2) log(1 + (t-aᵀm)²/nv)` for an
//! unknown one, where `H` is that of the most possible dispersion.

use faer::{Mat, MatRef};

use super::design::Design;
use super::exact::ExactForm;
use super::kernel::{Demand, greatest_leverage};
use super::posterior::{RegressionPosterior, Shifted};
use super::{Dispersion, Regression, Regularized, certificate};
use crate::double::{Double, exact_dot};
use crate::error::{Error, Result, check_alpha, check_finite, check_real, check_size};
use crate::function::Credence;
use crate::linear::{cholesky, difference, dot, multiply_upper, solve};
use crate::set::{Interval, RealSet};

/// What is asked of the profile of a linear form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// The possibility of this value.
    Value(f64),
    /// The lower end of the α-cut.
    LowerEnd(f64),
    /// The upper end of the α-cut.
    UpperEnd(f64),
}

/// A point of a profile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProfilePoint {
    /// The value `t` of the linear form.
    pub value: f64,
    /// `-F(t)`.
    pub log_possibility: f64,
    /// `-F'(t)`.
    pub slope: f64,
    /// The log possibility is off by at most this; `None` if no bound is known.
    pub gap: Option<f64>,
}

/// Everything that is asked of one linear form.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FormQuestions {
    /// `a`, one entry for each column.
    pub form: Vec<f64>,
    /// Levels of α-cuts.
    pub alphas: Vec<f64>,
    /// Sets whose possibility and necessity are wanted.
    pub events: Vec<RealSet>,
}

/// The answers, in the order of the questions.
#[derive(Debug, Clone, PartialEq)]
pub struct FormAnswers {
    /// The value of possibility 1, `aᵀm`.
    pub mode: f64,
    /// The α-cuts: both ends with their slopes.
    pub cuts: Vec<[ProfilePoint; 2]>,
    /// Possibility and necessity of each event.
    pub credences: Vec<Credence>,
    /// The largest gap among all answers; `None` if one of them is not certified.
    pub gap: Option<f64>,
}

impl FormAnswers {
    /// The α-cuts as intervals.
    ///
    /// # Errors
    /// None for the answers of a profile.
    pub fn intervals(&self) -> Result<Vec<Interval>> {
        let interval =
            |[lower, upper]: &[ProfilePoint; 2]| Interval::closed(lower.value, upper.value);
        self.cuts.iter().map(interval).collect()
    }
}

/// The profiles of a fitted regression.
///
/// ```
/// use possibility::regression::{Design, RegressionConfig, PriorPrecision, Profiles, Response};
/// let mut design = Design::with_intercept(Response::Bernoulli, 1);
/// for (x, y) in [(1.0, 0.0), (2.0, 0.0), (3.0, 1.0), (4.0, 1.0)] {
///     design.push(&[x], y)?;
/// }
/// let config = RegressionConfig {
///     // nothing is known of the intercept, next to nothing of the slope
///     prior_precision: PriorPrecision::Diagonal(vec![0.0, 1e-6]),
///     ..RegressionConfig::default()
/// };
/// let model = config.build(2)?;
/// let posterior = model.fit(&design)?;
/// let profiles = Profiles::new(&model, &design, &posterior)?;
/// // is the slope positive? Certain to 0.937, where the Laplace approximation says 0.01
/// let positive = profiles.credence_of(&[0.0, 1.0], 0.0..)?;
/// assert!((positive.necessity - 0.937).abs() < 5e-4);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug)]
pub struct Profiles<'a> {
    model: &'a Regression,
    design: &'a Design,
    posterior: &'a RegressionPosterior,
    /// Where the columns of the design are moved ones.
    shifted: Option<&'a Shifted>,
    /// Cholesky factor of the Hessian at the mode.
    factor: MatRef<'a, f64>,
    /// `ρ` at the mode.
    leverage: f64,
    /// How far the loss at the mode may lie above its minimum.
    mode_gap: Option<f64>,
}

/// Curvature that changed by a factor of at most `e^DRIFT` is still good for Newton's steps.
const DRIFT: f64 = 0.25;

/// Beyond this drift the curvature may have vanished in some direction.
const FAR: f64 = 15.0;

/// Share of the mode's curvature that keeps steps finite there.
const TRACE: f64 = 1e-8;

/// Searches that share a pass: the sums of each take memory for every group of blocks.
const TOGETHER: usize = 8;

/// A squared decrement below this share of the level, or of 1, is near enough to the minimum.
const CLOSE: f64 = 0.1;

/// Half the squared decrement at which a search ends, for a log possibility of size 1.
const SETTLED: f64 = 1e-13;

/// A level is met to this share of itself before the last, quadratically exact, correction.
const LEVEL: f64 = 1e-7;

/// Passes after which a search gives up.
const MOST_PASSES: usize = 600;

/// A step must gain this part of what the linear model promises.
const SUFFICIENT_DECREASE: f64 = 1e-4;

/// A drawn possibility may be off by this much between exact points.
const DRAWN: f64 = 1e-3;

/// Times that a curve which is not exact enough is refined.
const CURVE_ROUNDS: usize = 12;

/// Relative rounding of a sum over the rows: a few roundings of each term, added in blocks.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

impl<'a> Profiles<'a> {
    /// Prepares the profiles of a posterior, at the cost of about one pass over the data.
    ///
    /// # Errors
    /// The parts do not belong together.
    pub fn new(
        model: &'a Regression,
        design: &'a Design,
        posterior: &'a RegressionPosterior,
    ) -> Result<Self> {
        check_size("design", design.columns(), model.columns())?;
        check_size("posterior", posterior.columns(), model.columns())?;
        let shifted = posterior.shifted();
        let (design, posterior) = match shifted {
            Some(shifted) => (&shifted.design, &shifted.posterior),
            None => (design, posterior),
        };
        let factor = posterior.laplace().precision_factor();
        let leverage = greatest_leverage(design, factor, model.threads());
        Ok(Self {
            mode_gap: certificate::gap(posterior.squared_decrement(), leverage),
            model,
            design,
            posterior,
            shifted,
            factor,
            leverage,
        })
    }

    /// A form of the coefficients that are searched for.
    fn own_form(&self, form: &[f64]) -> Vec<f64> {
        self.shifted
            .map_or_else(|| form.to_vec(), |shifted| shifted.form(form))
    }

    /// The value of possibility 1 of a linear form.
    fn form_mode(&self, form: &[f64]) -> f64 {
        self.posterior.form_mode(&self.own_form(form))
    }

    /// The data that were fitted.
    pub(super) fn design(&self) -> &Design {
        self.design
    }

    /// `ρ = maxᵢ (xᵢᵀH⁻¹xᵢ)^½` at the mode.
    pub fn leverage(&self) -> f64 {
        self.leverage
    }

    /// Answers every question about every form; the searches share their passes over the data.
    ///
    /// # Errors
    /// A form of the wrong size, not finite or zero; a level outside `(0, 1]`; a search that does
    /// not converge.
    pub fn answer(&self, questions: &[FormQuestions]) -> Result<Vec<FormAnswers>> {
        let mut targets: Vec<(&[f64], Target)> = Vec::new();
        for FormQuestions {
            form,
            alphas,
            events,
        } in questions
        {
            check_size("linear form", form.len(), self.model.columns())?;
            let mode = check_real("value of the linear form", self.form_mode(form))?;
            let ends = |&alpha: &f64| [Target::LowerEnd(alpha), Target::UpperEnd(alpha)];
            targets.extend(
                alphas
                    .iter()
                    .flat_map(ends)
                    .map(|target| (&form[..], target)),
            );
            for set in events
                .iter()
                .flat_map(|set| [set.clone(), set.complement()])
            {
                let nearest = set.nearest(mode).into_iter().flatten();
                targets.extend(nearest.map(|t| (&form[..], Target::Value(t))));
            }
        }
        let points = self.solve(&targets)?;
        let mut points = points.into_iter();
        let mut answers = Vec::with_capacity(questions.len());
        for FormQuestions {
            form,
            alphas,
            events,
        } in questions
        {
            answers.push(self.collect(form, alphas.len(), events, &mut points));
        }
        Ok(answers)
    }

    /// Puts the points of one form back in order.
    fn collect(
        &self,
        form: &[f64],
        cuts: usize,
        events: &[RealSet],
        points: &mut impl Iterator<Item = ProfilePoint>,
    ) -> FormAnswers {
        let mode = self.form_mode(form);
        let mut gap = self.mode_gap;
        let mut next = || {
            let point = points.next().expect("one point for each target");
            gap = gap.zip(point.gap).map(|(a, b)| a.max(b));
            point
        };
        let cuts = (0..cuts).map(|_| [next(), next()]).collect();
        let mut log_supremum = |set: &RealSet| {
            let nearest = set.nearest(mode).into_iter().flatten();
            // the supremum over a set without points is 0
            nearest.fold(f64::NEG_INFINITY, |most, _| {
                most.max(next().log_possibility)
            })
        };
        let credences = events
            .iter()
            .map(|set| Credence::from_logs(log_supremum(set), log_supremum(&set.complement())))
            .collect();
        FormAnswers {
            mode,
            cuts,
            credences,
            gap,
        }
    }

    /// Possibility and necessity of `aᵀw ∈ event`.
    ///
    /// # Errors
    /// As [`Self::answer`], or what is given is no event.
    pub fn credence_of(
        &self,
        form: &[f64],
        event: impl crate::function::AsEvent<RealSet>,
    ) -> Result<Credence> {
        let questions = FormQuestions {
            form: form.to_vec(),
            events: vec![event.as_event()?.into_owned()],
            ..FormQuestions::default()
        };
        Ok(self.answer(&[questions])?[0].credences[0])
    }

    /// The α-cut of `aᵀw`.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn cut(&self, form: &[f64], alpha: f64) -> Result<Interval> {
        let questions = FormQuestions {
            form: form.to_vec(),
            alphas: vec![alpha],
            ..FormQuestions::default()
        };
        Ok(self.answer(&[questions])?[0].intervals()?[0])
    }

    /// The profiles of several forms to be drawn, down to the possibility `smallest`: through the
    /// ends of α-cuts, with points between them until the drawn curve is exact to a thousandth.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn curves(&self, forms: &[Vec<f64>], smallest: f64) -> Result<Vec<ProfileCurve>> {
        let questions: Vec<FormQuestions> = forms
            .iter()
            .map(|form| FormQuestions {
                form: form.clone(),
                alphas: curve_levels(smallest),
                ..FormQuestions::default()
            })
            .collect();
        let mut curves = self
            .answer(&questions)?
            .into_iter()
            .map(|answers| ProfileCurve::new(answers.cuts.into_iter().flatten().collect()))
            .collect::<Result<Vec<_>>>()?;
        // the middles that are still to be looked at
        let mut open: Vec<(usize, f64)> = Vec::new();
        for (index, curve) in curves.iter().enumerate() {
            open.extend(curve.middles().map(|middle| (index, middle)));
        }
        for _ in 0..CURVE_ROUNDS {
            let targets: Vec<(&[f64], Target)> = open
                .iter()
                .map(|&(index, middle)| (&forms[index][..], Target::Value(middle)))
                .collect();
            let points = self.solve(&targets)?;
            let mut next = Vec::new();
            for ((index, middle), point) in open.into_iter().zip(points) {
                let off = curves[index].possibility(middle) - point.log_possibility.exp();
                let halves = curves[index].insert(point);
                if off.abs() > DRAWN {
                    next.extend(halves.map(|half| (index, half)));
                }
            }
            open = next;
            if open.is_empty() {
                break;
            }
        }
        Ok(curves)
    }

    /// Solves for one point of a profile after another, in lock step.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn solve(&self, targets: &[(&[f64], Target)]) -> Result<Vec<ProfilePoint>> {
        let scaled: Vec<(f64, Vec<f64>, Target)> = targets
            .iter()
            .map(|&(form, target)| {
                check_size("linear form", form.len(), self.model.columns())?;
                let scale = scale_of(form);
                let form: Vec<f64> = form.iter().map(|a| a / scale).collect();
                Ok((scale, self.own_form(&form), target.over(scale)))
            })
            .collect::<Result<_>>()?;
        let mut searches = scaled
            .iter()
            .map(|(_, form, target)| Search::start(self, form, *target))
            .collect::<Result<Vec<_>>>()?;
        loop {
            let mut open: Vec<&mut Search<'_>> = searches
                .iter_mut()
                .filter(|search| search.found.is_none())
                .collect();
            if open.is_empty() {
                break;
            }
            for together in open.chunks_mut(TOGETHER) {
                let requests: Vec<(&[f64], Demand)> = together
                    .iter()
                    .map(|search| (&search.trial[..], search.demand))
                    .collect();
                let evaluations = self.model.regularize_each(self.design, &requests);
                for (search, at) in together.iter_mut().zip(evaluations) {
                    search.absorb(self, &at)?;
                }
            }
        }
        let found = searches.into_iter().zip(&scaled).zip(targets);
        found
            .map(|((search, (scale, ..)), (_, target))| {
                let point = search.found.expect("no search is open");
                let value = match *target {
                    Target::Value(t) => t,
                    _ => check_real("value of the linear form", point.value * scale)?,
                };
                Ok(ProfilePoint {
                    value,
                    slope: point.slope / scale,
                    ..point
                })
            })
            .collect()
    }

    /// Factor of a Hessian with a trace of the mode's, for steps where every row may have settled
    /// on a straight line.
    fn blend(&self, hessian: &Mat<f64>) -> Result<Mat<f64>> {
        let mode = self.posterior.laplace().precision();
        let d = hessian.nrows();
        let blended = Mat::from_fn(d, d, |i, j| hessian[(i, j)] + TRACE * mode[(i, j)]);
        cholesky("Hessian of the regularized loss", blended.as_ref())
    }

    /// `‖w - m‖_H ρ`: the log of the factor by which the curvature may have changed.
    fn drift(&self, point: &[f64]) -> f64 {
        let step = difference(point, self.posterior.mode());
        let scaled = multiply_upper(self.factor, &step);
        self.leverage * dot(&scaled, &scaled).sqrt()
    }

    /// The closed form of a normal response.
    fn closed_form(&self, exact: &ExactForm, goal: Goal) -> ProfilePoint {
        let ExactForm { mode, variance, .. } = *exact;
        let weight = self.posterior.weight();
        let is_known = matches!(self.model.dispersion(), Dispersion::Known(_));
        // in terms of q = (t-μ)²/v, with v the variance under the Laplace approximation
        let value = match goal {
            Goal::Value(t) => t,
            Goal::Level { level, side } => {
                let q = if is_known {
                    2.0 * level
                } else {
                    weight * (2.0 * level / weight).exp_m1()
                };
                (mode + (side * (q * variance).sqrt()).into()).round()
            }
        };
        let gap = (Double::from(value) - mode).round();
        let q = gap * gap / variance;
        let (height, slope) = if is_known {
            (0.5 * q, gap / variance)
        } else {
            let part = q / weight;
            (0.5 * weight * part.ln_1p(), gap / variance / (1.0 + part))
        };
        // F rises at most half as fast as q
        let away = exact.mode_error;
        let height_error = 0.5 * (away * (2.0 * q.sqrt() + away) + exact.variance_error * q);
        // the end of a cut is the nearest number
        let rounded = match goal {
            Goal::Value(_) => 0.0,
            Goal::Level { .. } => 0.5 * f64::EPSILON * value.abs(),
        };
        ProfilePoint {
            value,
            log_possibility: 0.0 - height,
            slope: 0.0 - slope,
            gap: Some(height_error + ROUNDING * height + slope.abs() * rounded),
        }
    }
}

/// [`Target`] in terms of `F`.
#[derive(Debug, Clone, Copy)]
enum Goal {
    Value(f64),
    /// `F(t) = level` on this side of the mode.
    Level {
        level: f64,
        side: f64,
    },
}

/// A power of two by which a form of numbers that could not be squared is divided; else 1.
fn scale_of(form: &[f64]) -> f64 {
    const MODERATE: std::ops::RangeInclusive<f64> = 1e-60..=1e60;
    let largest = form.iter().fold(0.0, |most: f64, a| most.max(a.abs()));
    if largest == 0.0 || !largest.is_finite() || MODERATE.contains(&largest) {
        1.0
    } else {
        // one division by it leaves every form of f64 moderate enough
        2f64.powi((largest.log2() as i32).clamp(-1000, 1000))
    }
}

impl Target {
    /// The same for a form that was divided.
    fn over(self, scale: f64) -> Self {
        match self {
            Self::Value(t) => Self::Value(t / scale),
            end => end,
        }
    }

    fn goal(self) -> Result<Goal> {
        let level = |alpha: f64, side: f64| {
            check_alpha(alpha)?;
            Ok(Goal::Level {
                level: 0.0 - alpha.ln(),
                side,
            })
        };
        match self {
            Self::Value(t) => Ok(Goal::Value(check_real("value", t)?)),
            Self::LowerEnd(alpha) => level(alpha, -1.0),
            Self::UpperEnd(alpha) => level(alpha, 1.0),
        }
    }
}

/// A point on a hyperplane and all that Newton's method needs there.
#[derive(Debug)]
struct State {
    point: Vec<f64>,
    /// `t = aᵀw`.
    value: f64,
    /// `ℓ̂(w) - ℓ̂(m)`.
    excess: f64,
    /// Rounding of `excess`, at most.
    rounding: f64,
    /// `λ`.
    multiplier: f64,
    /// `p`, along the hyperplane.
    descent: Vec<f64>,
    /// `D²`.
    squared_decrement: f64,
    /// `aᵀH⁻¹a`.
    variance: f64,
    /// `dw/dt`.
    along: Vec<f64>,
    /// Gradient along the hyperplane.
    residual: Vec<f64>,
    /// Factor of the Hessian here, where it was asked for and has one.
    factor: Option<Mat<f64>>,
    /// Whether the steps are those of that Hessian; else the mode's took part in them.
    is_own: bool,
}

impl State {
    fn new(
        profiles: &Profiles<'_>,
        form: &[f64],
        point: Vec<f64>,
        at: &Regularized,
    ) -> Result<Self> {
        let is_asked = at.hessian.nrows() > 0;
        let factor = if is_asked {
            cholesky("Hessian of the regularized loss", at.hessian.as_ref()).ok()
        } else {
            None
        };
        let is_own = factor.is_some() && profiles.drift(&point) <= FAR;
        let blended;
        let used = match &factor {
            Some(factor) if is_own => factor.as_ref(),
            _ if is_asked => {
                blended = profiles.blend(&at.hessian)?;
                blended.as_ref()
            }
            _ => profiles.factor,
        };
        let toward = solve(used, form);
        let variance = dot(form, &toward);
        let multiplier = dot(&toward, &at.gradient) / variance;
        let residual: Vec<f64> = at
            .gradient
            .iter()
            .zip(form)
            .map(|(g, a)| g - multiplier * a)
            .collect();
        let descent = solve(used, &residual);
        Ok(Self {
            value: exact_dot(form, &point),
            excess: at.loss - profiles.posterior.loss(),
            rounding: ROUNDING * (at.magnitude + profiles.posterior.loss().abs()),
            multiplier,
            squared_decrement: dot(&residual, &descent).max(0.0),
            along: toward.iter().map(|x| x / variance).collect(),
            variance,
            descent,
            residual,
            point,
            factor,
            is_own,
        })
    }

    /// `F(t)`, corrected by what Newton's next step would gain.
    fn height(&self) -> f64 {
        self.excess - 0.5 * self.squared_decrement
    }
}

/// The search for one point.
#[derive(Debug)]
struct Search<'a> {
    form: &'a [f64],
    goal: Goal,
    /// Value of the form at the mode.
    mode: f64,
    here: State,
    /// Where the next pass is to look, and for what.
    trial: Vec<f64>,
    demand: Demand,
    /// Share of the step that is tried, and its part across hyperplanes.
    scale: f64,
    shift: f64,
    /// Distances from the mode between which the level lies.
    bracket: (f64, f64),
    passes: usize,
    found: Option<ProfilePoint>,
}

impl<'a> Search<'a> {
    fn start(profiles: &Profiles<'_>, form: &'a [f64], target: Target) -> Result<Self> {
        check_size("linear form", form.len(), profiles.model.columns())?;
        check_finite("linear form", form)?;
        let exact = profiles.posterior.exact_form(form);
        let toward = solve(profiles.factor, form);
        let variance = exact.map_or_else(|| dot(form, &toward), |exact| exact.variance);
        if variance.is_nan() || variance <= 0.0 {
            return Err(Error::Empty {
                name: "linear form",
            });
        }
        let point = profiles.posterior.mode().to_vec();
        let mode = profiles.posterior.form_mode(form);
        let goal = target.goal()?;
        let columns = form.len();
        let here = State {
            value: mode,
            excess: 0.0,
            rounding: ROUNDING * profiles.posterior.loss().abs(),
            multiplier: 0.0,
            descent: vec![0.0; columns],
            squared_decrement: 0.0,
            along: toward.iter().map(|x| x / variance).collect(),
            variance,
            residual: vec![0.0; columns],
            point,
            factor: None,
            is_own: false,
        };
        let mut search = Self {
            form,
            goal,
            mode,
            here,
            trial: Vec::new(),
            demand: Demand::Gradient,
            scale: 1.0,
            shift: 0.0,
            bracket: (0.0, f64::INFINITY),
            passes: 0,
            found: None,
        };
        let at_mode = match goal {
            Goal::Value(t) => t == mode,
            Goal::Level { level, .. } => level == 0.0,
        };
        if at_mode {
            search.found = Some(ProfilePoint {
                value: mode,
                log_possibility: 0.0,
                slope: 0.0,
                gap: profiles.mode_gap,
            });
        } else if let Some(exact) = exact {
            search.found = Some(profiles.closed_form(&exact, goal));
        } else {
            search.shift = match goal {
                Goal::Value(t) => t - mode,
                Goal::Level { level, side } => side * (2.0 * level * variance).sqrt(),
            };
            search.set_trial(profiles);
        }
        Ok(search)
    }

    /// The point a share of the step away, and what to compute there.
    fn set_trial(&mut self, profiles: &Profiles<'_>) {
        let State {
            point,
            descent,
            along,
            ..
        } = &self.here;
        self.trial = point
            .iter()
            .zip(descent)
            .zip(along)
            .map(|((w, p), a)| w + self.scale * (self.shift * a - p))
            .collect();
        self.demand = if profiles.drift(&self.trial) <= DRIFT {
            Demand::Gradient
        } else {
            Demand::Curvature
        };
    }

    /// Takes the result of a pass at the trial point.
    fn absorb(&mut self, profiles: &Profiles<'_>, at: &Regularized) -> Result<()> {
        /// A step this much shorter than Newton's changes nothing.
        const SHORTEST: f64 = 1e-15;
        self.passes += 1;
        if self.passes > MOST_PASSES || self.scale < SHORTEST {
            return Err(self.not_converged());
        }
        let before = self.here.squared_decrement;
        let next = if at.is_finite() && self.is_welcome(at.loss - profiles.posterior.loss()) {
            State::new(profiles, self.form, self.trial.clone(), at).ok()
        } else {
            None
        };
        let Some(next) = next else {
            self.scale *= 0.5;
            self.set_trial(profiles);
            return Ok(());
        };
        self.here = next;
        let decrement = self.here.squared_decrement;
        let stalled = decrement >= 0.25 * before && decrement <= self.here.rounding;
        let settled = 0.5 * decrement <= SETTLED * self.here.height().max(1.0) || stalled;
        if settled && self.is_met() {
            self.found = Some(self.finish(profiles));
            return Ok(());
        }
        let correction = self.correction();
        // across hyperplanes only from near a minimum, where whole steps are good
        self.shift = if decrement > self.close() || self.scale < 1.0 {
            0.0
        } else {
            correction
        };
        self.scale = 1.0;
        self.set_trial(profiles);
        Ok(())
    }

    /// Whether a step may end at a point of this excess: along the hyperplane it must go down, and
    /// across it not climb far beyond what the parabola here foresees.
    fn is_welcome(&self, excess: f64) -> bool {
        let here = &self.here;
        if self.shift == 0.0 {
            let enough = SUFFICIENT_DECREASE * self.scale * here.squared_decrement;
            return excess <= here.excess - enough + here.rounding;
        }
        let shift = self.scale * self.shift;
        let foreseen = here.excess + here.multiplier * shift + 0.5 * shift * shift / here.variance;
        excess <= 4.0 * foreseen.max(0.0) + 1.0
    }

    /// How far Newton's method would move the value of the form.
    fn newton(&self) -> f64 {
        match self.goal {
            Goal::Value(t) => t - self.here.value,
            Goal::Level { level, .. } => {
                let root = (2.0 * self.here.height().max(0.0)).sqrt();
                ((2.0 * level).sqrt() - root) * root / self.here.multiplier
            }
        }
    }

    /// How far the value of the form is to move: Newton's step, kept inside the bracket.
    fn correction(&mut self) -> f64 {
        let newton = self.newton();
        let State {
            value,
            excess,
            squared_decrement,
            ..
        } = self.here;
        match self.goal {
            Goal::Value(_) => newton,
            Goal::Level { level, side } => {
                let distance = side * (value - self.mode);
                // F is at most the excess, for certain, and close to a minimum not far below it
                if excess < level {
                    self.bracket.0 = self.bracket.0.max(distance);
                } else if squared_decrement <= self.close() && excess - squared_decrement > level {
                    self.bracket.1 = self.bracket.1.min(distance);
                }
                let (low, mut high) = self.bracket;
                if high - low <= 1e-12 * high {
                    // not close enough after all
                    high = f64::INFINITY;
                    self.bracket.1 = high;
                }
                let aim = distance + side * newton;
                let next = if aim > low && aim < high {
                    aim.min(4.0 * distance.max(low))
                } else if high.is_finite() {
                    0.5 * (low + high)
                } else if excess < level {
                    2.0 * distance
                } else {
                    // the next step along the hyperplane tells on which side of the level this is
                    distance
                };
                side * (next - distance)
            }
        }
    }

    /// A squared decrement below this is near enough to the minimum for `F` to be judged.
    fn close(&self) -> f64 {
        match self.goal {
            Goal::Value(_) => CLOSE,
            Goal::Level { level, .. } => CLOSE * level.min(1.0),
        }
    }

    /// Whether the goal is met but for a correction that is exact to second order.
    fn is_met(&self) -> bool {
        match self.goal {
            Goal::Value(_) => self.beyond_tangent() <= ROUNDING * self.here.height().max(1.0),
            Goal::Level { level, .. } => {
                let off = (self.here.height() - level).abs();
                off <= LEVEL * level || off <= self.here.rounding
            }
        }
    }

    /// What the last correction, along a tangent, leaves out: about twice the curvature's part.
    fn beyond_tangent(&self) -> f64 {
        match self.goal {
            Goal::Value(_) => self.newton().powi(2) / self.here.variance,
            Goal::Level { level, .. } => (self.here.height() - level).powi(2) / level,
        }
    }

    fn finish(&self, profiles: &Profiles<'_>) -> ProfilePoint {
        let correction = self.newton();
        let State {
            value, multiplier, ..
        } = self.here;
        let gap = self
            .gap(profiles)
            .zip(profiles.mode_gap)
            .map(|(here, mode)| here + mode + self.here.rounding + self.beyond_tangent());
        match self.goal {
            Goal::Value(t) => ProfilePoint {
                value: t,
                // F is not negative, and its rounding must not say so
                log_possibility: 0.0 - (self.here.height() + multiplier * correction).max(0.0),
                slope: 0.0 - multiplier,
                gap,
            },
            Goal::Level { level, .. } => ProfilePoint {
                value: value + correction,
                log_possibility: 0.0 - level,
                slope: 0.0 - multiplier,
                gap,
            },
        }
    }

    /// How far the loss may lie above its minimum over the hyperplane.
    fn gap(&self, profiles: &Profiles<'_>) -> Option<f64> {
        let State {
            point,
            squared_decrement,
            factor,
            is_own,
            residual,
            ..
        } = &self.here;
        let drift = profiles.drift(point);
        let reduced = |factor| dot(residual, &solve(factor, residual)).max(0.0);
        // H(w) ⪰ e^-drift H(m) bounds the leverage here, and the decrement by the mode's Hessian
        let decrement = match factor {
            Some(_) if *is_own => *squared_decrement,
            Some(factor) => reduced(factor.as_ref()),
            None => drift.exp() * reduced(profiles.factor),
        };
        let near = certificate::gap(decrement, (0.5 * drift).exp() * profiles.leverage);
        let here = || {
            let factor = factor.as_ref()?.as_ref();
            let leverage = greatest_leverage(profiles.design, factor, profiles.model.threads());
            certificate::gap(decrement, leverage)
        };
        near.or_else(here)
            .or_else(|| profiles.model.prior_gap(residual))
            .filter(|gap| gap.is_finite())
    }

    fn not_converged(&self) -> Error {
        Error::NotConverged {
            what: "the search for a profile",
            steps: self.passes,
            residual: 0.5 * self.here.squared_decrement,
        }
    }
}

/// Levels of the α-cuts whose ends draw a profile down to `smallest`: evenly spaced in `√F`, which
/// spaces the ends nearly evenly.
fn curve_levels(smallest: f64) -> Vec<f64> {
    const POINTS: u32 = 8;
    let lowest = smallest.ln();
    (0..=POINTS)
        .map(|k| (lowest * (f64::from(k) / f64::from(POINTS)).powi(2)).exp())
        .collect()
}

/// A profile drawn through exact points: between two of them `F` is the cubic with their heights
/// and slopes, beyond the outermost its tangent, which lies below `F`.
///
/// At the points themselves it is exact, elsewhere good enough to be looked at.
#[derive(Debug, Clone)]
pub struct ProfileCurve {
    points: Vec<ProfilePoint>,
}

impl ProfileCurve {
    /// Through these points, in any order.
    ///
    /// # Errors
    /// There are none.
    pub fn new(mut points: Vec<ProfilePoint>) -> Result<Self> {
        if points.is_empty() {
            return Err(Error::Empty {
                name: "list of points",
            });
        }
        points.sort_by(|a, b| a.value.total_cmp(&b.value));
        points.dedup_by(|a, b| a.value == b.value);
        Ok(Self { points })
    }

    /// Adds a point; returns the middles toward its neighbors.
    fn insert(&mut self, point: ProfilePoint) -> impl Iterator<Item = f64> + use<> {
        let at = self
            .points
            .partition_point(|known| known.value < point.value);
        self.points.insert(at, point);
        let middle = |other: &ProfilePoint| 0.5 * (other.value + point.value);
        let before = at
            .checked_sub(1)
            .and_then(|i| self.points.get(i))
            .map(middle);
        let after = self.points.get(at + 1).map(middle);
        before.into_iter().chain(after)
    }

    /// The middles between neighboring points.
    fn middles(&self) -> impl Iterator<Item = f64> + '_ {
        let pairs = self.points.windows(2);
        pairs.map(|pair| 0.5 * (pair[0].value + pair[1].value))
    }

    /// The points, by increasing value.
    pub fn points(&self) -> &[ProfilePoint] {
        &self.points
    }

    /// The drawn possibility of a value.
    pub fn possibility(&self, value: f64) -> f64 {
        let after = self.points.partition_point(|point| point.value <= value);
        let tangent = |p: &ProfilePoint| p.log_possibility + p.slope * (value - p.value);
        let log = if after == 0 {
            tangent(&self.points[0])
        } else if after == self.points.len() {
            tangent(&self.points[after - 1])
        } else {
            let (a, b) = (&self.points[after - 1], &self.points[after]);
            let width = b.value - a.value;
            let s = (value - a.value) / width;
            let r = 1.0 - s;
            a.log_possibility * r * r * (1.0 + 2.0 * s)
                + b.log_possibility * s * s * (1.0 + 2.0 * r)
                + width * s * r * (a.slope * r - b.slope * s)
        };
        log.min(0.0).exp()
    }
}
