//! Building an intuition: the active region of the max-relative entropy, the minimizers of the
//! upper and the maximizers of the lower consistency bound, and a posterior between its bounds.
//! Paper: appendix "Intuition Through Visualization" and "Example: Bayesian Logistic Regression".
//!
//! Every curve is computed by the library; the bounds and the region are certified, nothing is
//! sampled.

use possibility::arithmetic::Scalar;
use possibility::bound::ConsistencyBounds;
use possibility::curve::{Curve, Formula, LogSigmoid, Parabola, Smooth};
use possibility::line::Line;
use possibility::posterior::LinePosterior;
use possibility::set::{Interval, RealSet};
use possibility::tight::TightGaussians;
use possibility::{Possibility, Result};

use super::{Contour, grid};
use plot::{Figure, Panel, Stroke, palette};

/// Gaps between bound and log consistency at which contours are drawn.
const LEVELS: [f64; 5] = [0.01, 0.05, 0.2, 0.5, 1.0];
/// Range of candidate modes and standard deviations in the two middle panels.
const MODES: (f64, f64) = (-2.0, 1.2);

/// `amplitude (sin(frequency θ + phase) - 1)`, the log of a sinusoidal possibility function on [0,
/// 2π].
#[derive(Debug, Clone, Copy)]
struct Wave {
    amplitude: f64,
    frequency: f64,
    phase: f64,
}

impl Formula for Wave {
    fn evaluate<S: Scalar>(&self, x: S) -> S {
        x.scale(self.frequency)
            .shift(self.phase)
            .sin()
            .shift(-1.0)
            .scale(self.amplitude)
    }

    fn holds_on(&self) -> Interval {
        Interval::closed(0.0, std::f64::consts::TAU).expect("0 is below 2π")
    }
}

/// The paper's problem: one observation `y = -1` of a Bernoulli variable with log-odds `f`, prior
/// N̄(0, 1).
type Posterior = LinePosterior<LogSigmoid, Parabola>;

/// The four panels.
///
/// # Errors
/// None: every search is within its budget.
pub fn draw() -> anyhow::Result<Figure> {
    let posterior = Posterior::new(LogSigmoid::new(-1.0)?, Parabola::new(0.0, 1.0)?)?;
    let tight = TightGaussians::around(posterior.function())?;
    let panels = vec![
        active_region()?,
        upper_bound(&posterior, &tight)?,
        lower_bound(&posterior, &tight)?,
        between_bounds(&posterior, &tight),
    ];
    Ok(Figure::grid(2, panels)
        .title("Maxitive variational inference")
        .panel_size(560, 400))
}

fn active_region() -> Result<Panel> {
    let g = Line::normalize(Smooth(Wave {
        amplitude: 0.9,
        frequency: 2.0,
        phase: 0.4,
    }))?;
    let f = Line::normalize(Smooth(Wave {
        amplitude: 0.5,
        frequency: 1.0,
        phase: -0.6,
    }))?;
    let active = g.active_region(&f)?;
    let inactive = active.complement();
    let divergence = g.max_relative_entropy(&f)?;
    let title = format!("Active region of Dₘₐₓ(g ∥ f) = {divergence:.3}");
    let mut panel =
        Panel::new(title, 0.0..std::f64::consts::TAU, 0.0..1.05).labels("θ", "possibility");
    for (a, b) in pieces(&active) {
        let shade = grid(a, b).map(|x| (x, f.possibility(&x), g.possibility(&x)));
        panel.band(shade.collect(), palette::BLUE, 0.15);
    }
    for (line, name, color) in [(&g, "g", palette::BLUE), (&f, "f", palette::VERMILION)] {
        panel.line(curve_over(line, &active), Stroke::solid(color).width(2.6));
        panel.labeled(format!("{name}, where g ≥ f"));
        panel.line(
            curve_over(line, &inactive),
            Stroke::dashed(color).width(1.6),
        );
        panel.labeled(format!("{name}, inactive"));
    }
    Ok(panel)
}

/// The finite pieces of a subset of [0, 2π].
fn pieces(set: &RealSet) -> impl Iterator<Item = (f64, f64)> {
    set.parts().iter().map(|part| {
        (
            part.lower().max(0.0),
            part.upper().min(std::f64::consts::TAU),
        )
    })
}

fn curve_over<C: Curve>(line: &Line<C>, set: &RealSet) -> Vec<(f64, f64)> {
    pieces(set)
        .filter(|(a, b)| a < b)
        .flat_map(|(a, b)| {
            grid(a, b)
                .map(|x| (x, line.possibility(&x)))
                .chain([(f64::NAN, f64::NAN)])
        })
        .collect()
}

/// An empty panel of candidates with these deviations.
fn candidates(title: &str, sigmas: (f64, f64)) -> Panel {
    Panel::new(title, MODES.0..MODES.1, sigmas.0..sigmas.1)
        .labels("candidate mode μ", "candidate σ")
}

/// All modes with deviations from `lower` to `upper`.
fn across(lower: f64, upper: f64) -> Vec<(f64, f64, f64)> {
    vec![(MODES.0, lower, upper), (MODES.1, lower, upper)]
}

/// Where the bound is attained, and the Laplace approximation.
fn attained(panel: &mut Panel, tight: &TightGaussians, from: f64, to: f64) {
    let ray = vec![(tight.mode(), from), (tight.mode(), to)];
    panel
        .line(ray, Stroke::solid(palette::GREEN).width(3.2))
        .labeled("bound attained");
    laplace(panel, tight);
}

fn upper_bound(posterior: &Posterior, tight: &TightGaussians) -> Result<Panel> {
    let sigmas = (0.7, 2.2);
    let edge = tight.upper_precision().sqrt().recip();
    let mut panel = candidates("Minimizers of the upper CBO", sigmas);
    panel.band(across(sigmas.0, edge), palette::INK, 0.10);
    panel.labeled("bound is +∞");
    let gap = |mu: f64, sigma: f64| {
        let candidate = Line::new(Parabola::new(mu, sigma.powi(-2))?)?;
        Ok(posterior.upper_cbo(&candidate)? - posterior.log_consistency())
    };
    // toward the edge the bound grows beyond what rounding can tell: stop just short of it
    contours(&mut panel, (edge + 1e-3, sigmas.1), gap)?;
    attained(&mut panel, tight, edge, sigmas.1);
    Ok(panel)
}

fn lower_bound(posterior: &Posterior, tight: &TightGaussians) -> Result<Panel> {
    let sigmas = (0.25, 1.2);
    let edge = tight.upper_precision().sqrt().recip();
    let mut panel = candidates("Maximizers of the lower CBO", sigmas);
    panel.band(across(edge, sigmas.1), palette::INK, 0.10);
    panel.labeled("bound is −∞");
    let gap = |mu: f64, sigma: f64| {
        let candidate = Line::new(Parabola::new(mu, sigma.powi(-2))?)?;
        Ok(posterior.log_consistency() - posterior.lower_cbo(&candidate)?)
    };
    // at the edge itself the bound is infinite: stop just short of it
    contours(&mut panel, (sigmas.0, edge - 1e-3), gap)?;
    let widest = tight.lower_precision().sqrt().recip();
    attained(&mut panel, tight, sigmas.0, widest);
    Ok(panel)
}

fn contours(
    panel: &mut Panel,
    sigmas: (f64, f64),
    gap: impl Fn(f64, f64) -> Result<f64>,
) -> Result<()> {
    let field = Contour::sample(MODES, sigmas, gap)?;
    for (i, level) in LEVELS.into_iter().enumerate() {
        let width = 2.2 - 0.35 * i as f64;
        panel.line(
            field.lines(level),
            Stroke::solid(palette::BLUE).width(width),
        );
        panel.labeled(format!("gap {level}"));
    }
    Ok(())
}

fn laplace(panel: &mut Panel, tight: &TightGaussians) {
    let sigma = tight.laplace_precision().sqrt().recip();
    panel
        .dots(vec![(tight.mode(), sigma)], palette::VERMILION)
        .labeled("Laplace");
}

fn between_bounds(posterior: &Posterior, tight: &TightGaussians) -> Panel {
    let range = (-4.0, 3.2);
    let mut panel = Panel::new(
        "The posterior between its bounds",
        range.0..range.1,
        0.0..1.05,
    )
    .labels("log-odds f", "possibility");
    let gaussian = |precision: f64, x: f64| (-0.5 * precision * (x - tight.mode()).powi(2)).exp();
    let between = grid(range.0, range.1).map(|x| {
        (
            x,
            gaussian(tight.lower_precision(), x),
            gaussian(tight.upper_precision(), x),
        )
    });
    panel
        .band(between.collect(), palette::SKY, 0.45)
        .labeled("certified band");
    for (precisions, color, name) in [
        (
            [tight.upper_precision(), 0.45, 0.2],
            palette::VERMILION,
            "upper-CBO minimizers",
        ),
        (
            [tight.lower_precision(), 3.0, 9.0],
            palette::BLUE,
            "lower-CBO maximizers",
        ),
    ] {
        for (i, precision) in precisions.into_iter().enumerate() {
            let points = grid(range.0, range.1)
                .map(|x| (x, gaussian(precision, x)))
                .collect();
            let stroke = if i == 0 {
                Stroke::solid(color)
            } else {
                Stroke::dashed(color)
            };
            panel.line(points, stroke.width(if i == 0 { 2.0 } else { 1.3 }));
            if i == 0 {
                panel.labeled(name);
            }
        }
    }
    let star = grid(range.0, range.1).map(|x| (x, posterior.function().possibility(&x)));
    panel
        .line(star.collect(), Stroke::solid(palette::INK).width(2.6))
        .labeled("posterior g*");
    panel
}
