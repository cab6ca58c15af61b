//! The two calculi in one picture: how far ELBO and consistency bounds of normal candidates are
//! from what they bound, and Rényi's bounds between them. Paper: Theorems 1 and 2, Appendix E.1.

use possibility::bound::ConsistencyBounds;
use possibility::probability::{
    Distribution, EvidenceBound, FiniteEvidence, NormalDistribution, NormalEvidence,
};
use possibility::smooth::{QuadraticLoss, SmoothPosterior};
use possibility::{Normal, Result};

use super::grid;
use plot::{Figure, Panel, Stroke, palette};

/// Precision of the posterior `N(0, 1/4)`: prior and likelihood have half of it each.
const PRECISION: f64 = 4.0;
/// How far the candidates are off the mode.
const OFF: f64 = 0.25;

/// Two panels.
///
/// # Errors
/// None: every bound has a closed form or is certified.
pub fn draw() -> anyhow::Result<Figure> {
    let panels = vec![normal_candidates()?, orders()?];
    Ok(Figure::grid(2, panels).title("Evidence and consistency"))
}

/// Bounds minus what they bound, against the precision of a normal candidate off the mode.
fn normal_candidates() -> Result<Panel> {
    let half = Normal::univariate(0.0, 2.0 / PRECISION)?;
    let loss = QuadraticLoss::new(half.clone(), 0.0)?;
    let evidence = NormalEvidence::new(&loss, NormalDistribution::new(half)?)?;
    let star = Normal::univariate(0.0, 1.0 / PRECISION)?;
    let consistency = SmoothPosterior::new(QuadraticLoss::new(star, 0.0)?)?;
    let (mut elbo, mut lower, mut upper) = (Vec::new(), Vec::new(), Vec::new());
    for precision in grid(0.5, 12.0) {
        let candidate = Normal::univariate(OFF, 1.0 / precision)?;
        if precision > 1.02 * PRECISION {
            let bound = consistency.lower_cbo(&candidate)?;
            lower.push((precision, bound - consistency.log_consistency()));
        } else if precision < PRECISION / 1.02 {
            let bound = consistency.upper_cbo(&candidate)?;
            upper.push((precision, bound - consistency.log_consistency()));
        }
        let bound = evidence.elbo(&NormalDistribution::new(candidate)?)?;
        elbo.push((precision, bound - evidence.log_evidence()));
    }
    let title = "Normal candidates off the mode, posterior of precision 4";
    let mut panel = Panel::new(title, 0.5..12.0, -1.5..1.5)
        .labels("precision of the candidate", "bound − log Z");
    let curves = [
        (
            upper,
            Stroke::solid(palette::VERMILION),
            "upper CBO − log Zₘₐₓ",
        ),
        (elbo, Stroke::dashed(palette::GREEN), "ELBO − log Z"),
        (lower, Stroke::solid(palette::BLUE), "lower CBO − log Zₘₐₓ"),
    ];
    for (points, stroke, label) in curves {
        panel.line(points, stroke).labeled(label);
    }
    Ok(panel)
}

/// Rényi's bounds of every order, from one consistency bound to the other.
fn orders() -> Result<Panel> {
    let loss = [0.0, 0.4, 1.6, 3.0];
    let prior = Distribution::normalize(&[1.0, 2.0, 2.0, 1.0])?;
    let candidate = Distribution::normalize(&[1.0, 1.0, 1.0, 1.0])?;
    let posterior = FiniteEvidence::new(&loss, &prior)?;
    let bound = |order: f64| posterior.renyi_bound(&candidate, order);
    let (least, greatest) = (bound(f64::INFINITY)?, bound(f64::NEG_INFINITY)?);
    let range = least - 0.3..greatest + 0.3;
    let mut panel = Panel::new(
        "From one bound to the other, four elements",
        -20.0..20.0,
        range,
    )
    .labels("order of Rényi's bound", "bound");
    let points: Result<Vec<_>> = grid(-20.0, 20.0).map(|a| Ok((a, bound(a)?))).collect();
    panel
        .line(points?, Stroke::solid(palette::GREEN))
        .labeled("Rényi's bound");
    for (value, color, label) in [
        (greatest, palette::VERMILION, "limit −∞: upper CBO"),
        (least, palette::BLUE, "limit +∞: lower CBO"),
    ] {
        panel
            .line(vec![(-20.0, value), (20.0, value)], Stroke::dashed(color))
            .labeled(label);
    }
    let marks = vec![(0.0, posterior.log_evidence()), (1.0, bound(1.0)?)];
    panel
        .dots(marks, palette::GREEN)
        .labeled("log Z at 0, ELBO at 1");
    Ok(panel)
}
