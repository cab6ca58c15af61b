//! Members of the four example families: Bernoulli style, Poisson style, normal with known
//! variance, and the family on [0, 1] with an indicator statistic. Paper: appendix "Possibilistic
//! Exponential Family".

use possibility::Possibility;
use possibility::family::exponential::{BernoulliStyle, NormalStyle, PointMassStyle, PoissonStyle};

use super::grid;
use plot::{Figure, Panel, RGBColor, Stroke, palette};

const COLORS: [RGBColor; 3] = [palette::BLUE, palette::VERMILION, palette::GREEN];

/// Members of the four example families.
///
/// # Errors
/// None: every member is in its range.
pub fn draw() -> anyhow::Result<Figure> {
    let panels = vec![bernoulli()?, poisson()?, normal()?, point_mass()?];
    Ok(Figure::grid(2, panels).title("Possibilistic exponential families"))
}

const TOP: f64 = 1.05;

fn bernoulli() -> anyhow::Result<Panel> {
    let mut panel = Panel::new("Bernoulli style on {0, 1}", -0.5..1.5, 0.0..TOP)
        .labels("θ", "possibility")
        .x_ticks(vec![(0.0, "0".to_owned()), (1.0, "1".to_owned())]);
    const WIDTH: f64 = 0.2;
    for (i, ((zero, one), color)) in [(1.0, 0.3), (0.6, 1.0), (1.0, 1.0)]
        .into_iter()
        .zip(COLORS)
        .enumerate()
    {
        let member = BernoulliStyle::from_possibilities(zero, one)?;
        let shift = (i as f64 - 1.0) * 1.15 * WIDTH;
        let bars = [false, true].map(|theta| {
            (
                f64::from(u8::from(theta)) + shift,
                member.possibility(&theta),
            )
        });
        panel
            .bars(bars.to_vec(), WIDTH, color, 0.85)
            .labeled(format!("α₀ = {zero}, α₁ = {one}"));
    }
    Ok(panel)
}

fn poisson() -> anyhow::Result<Panel> {
    let ticks = (0..=12).step_by(2).map(|k| (f64::from(k), k.to_string()));
    let mut panel = Panel::new("Poisson style on ℕ₀", -0.6..12.6, 0.0..TOP)
        .labels("θ", "possibility")
        .x_ticks(ticks.collect());
    for (i, (rate, color)) in [0.5, 3.7, 4.0].into_iter().zip(COLORS).enumerate() {
        let member = PoissonStyle::new(rate)?;
        let shift = (i as f64 - 1.0) * 0.2;
        let stems = (0..=12_u32)
            .map(|theta| {
                (
                    f64::from(theta) + shift,
                    member.possibility(&u64::from(theta)),
                )
            })
            .collect();
        panel.stems(stems, color).labeled(format!("α = {rate:.1}"));
    }
    Ok(panel)
}

fn normal() -> anyhow::Result<Panel> {
    let mut panel =
        Panel::new("Normal, known variance", -5.0..5.0, 0.0..TOP).labels("θ", "possibility");
    let strokes = [Stroke::solid, Stroke::dashed, Stroke::dotted];
    for (((mode, variance), color), stroke) in [(0.0, 1.0), (1.0, 0.25), (-1.0, 3.0)]
        .into_iter()
        .zip(COLORS)
        .zip(strokes)
    {
        let member = NormalStyle::new(mode, variance)?;
        let points = grid(-5.0, 5.0)
            .map(|x| (x, member.possibility(&x)))
            .collect();
        panel
            .line(points, stroke(color))
            .labeled(format!("μ = {mode}, σ² = {variance}").replace('-', "−"));
    }
    Ok(panel)
}

fn point_mass() -> anyhow::Result<Panel> {
    let mut panel = Panel::new("Indicator statistic on [0, 1]", -0.05..1.05, 0.0..TOP)
        .labels("θ", "possibility");
    let strokes = [Stroke::solid, Stroke::dashed, Stroke::dotted];
    for ((natural, color), stroke) in [[-1.0, 0.8], [1.5, 0.6], [0.4, -2.0]]
        .into_iter()
        .zip(COLORS)
        .zip(strokes)
    {
        let member = PointMassStyle::new(natural)?;
        let points: Vec<_> = grid(0.0, 1.0)
            // the smallest positive number stands for the limit at 0
            .map(|x| (x, member.possibility(&x.max(f64::MIN_POSITIVE))))
            .collect();
        let limit = points[0];
        panel
            .line(points, stroke(color))
            .labeled(format!("λ = ({}, {})", natural[0], natural[1]).replace('-', "−"));
        panel.circles(vec![limit], color);
        panel.dots(vec![(0.0, member.possibility(&0.0))], color);
    }
    Ok(panel)
}
