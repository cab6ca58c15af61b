//! The pictures of the paper's experiments: training curves and reliability diagrams.

use plot::{Figure, Panel, RGBColor, Stroke, palette};
use report::layout::{Reliability, TrainingCurves};

/// One quantity over the epochs, mean over the seeds with one deviation as a band.
pub fn curves(data: &TrainingCurves) -> Figure {
    let points = || data.curves.iter().flat_map(|curve| &curve.points);
    let last = points().map(|point| point.0).max().unwrap_or(1);
    let values = || points().map(|point| point.1);
    let (low, high) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(f64::NEG_INFINITY, f64::max),
    );
    let margin = 0.04 * (high - low).max(1e-9);
    let title = format!("{}: {}", data.setting, data.quantity.to_lowercase());
    let (x, y) = (
        1.0..(last as f64).max(2.0),
        (low - margin).max(0.0)..high + margin,
    );
    let mut panel = Panel::new(title, x, y).labels("epoch", data.quantity.to_lowercase());
    for curve in &data.curves {
        let (red, green, blue) = curve.color;
        let color = RGBColor(red, green, blue);
        let band = curve.points.iter().filter_map(|&(epoch, mean, deviation)| {
            let deviation = deviation?;
            Some((epoch as f64, mean - deviation, mean + deviation))
        });
        panel.band(band.collect(), color, 0.12);
        let line = curve.points.iter().map(|point| (point.0 as f64, point.1));
        let stroke = Stroke::solid(color).width(1.6).dashes(curve.dashes);
        panel.line(line.collect(), stroke).labeled(&curve.label);
    }
    Figure::single(panel).panel_size(720, 520)
}

/// Accuracy of the predictions of each confidence, with the diagonal on which both agree.
pub fn reliability(data: &Reliability) -> Figure {
    let width = 1.0 / data.bins.len().max(1) as f64;
    let ece = data.ece.map(|ece| format!(", ECE {ece:.3}"));
    let title = format!("{}: {}{}", data.setting, data.row, ece.unwrap_or_default());
    let mut panel = Panel::new(title, 0.0..1.0, 0.0..1.0).labels("confidence", "accuracy");
    let (mut bars, mut dots) = (Vec::new(), Vec::new());
    for (i, bin) in data
        .bins
        .iter()
        .enumerate()
        .filter(|(_, bin)| bin.count > 0)
    {
        let accuracy = bin.right as f64 / bin.count as f64;
        bars.push(((i as f64 + 0.5) * width, accuracy));
        dots.extend(bin.confidence.map(|confidence| (confidence, accuracy)));
    }
    panel
        .bars(bars, 0.92 * width, palette::SKY, 0.55)
        .labeled("accuracy of the bin");
    panel
        .line(
            vec![(0.0, 0.0), (1.0, 1.0)],
            Stroke::dashed(palette::INK).width(1.4),
        )
        .labeled("confidence");
    panel
        .dots(dots, palette::BLUE)
        .labeled("at its mean confidence");
    Figure::single(panel).panel_size(460, 460)
}
