//! Risk and coverage: how many mistakes are left if only the surest predictions are given.

use super::Outcomes;
use crate::results::Risk;

/// Points of a curve for drawing.
const POINTS: usize = 101;

/// Error rate among the most confident share of the images.
#[derive(Debug, Clone, PartialEq)]
pub struct RiskCoverage {
    /// Risk of every number of images from 1 on, the surest first; among equally sure ones the
    /// mistakes are spread evenly.
    risks: Vec<f64>,
}

impl Outcomes {
    /// The curve of risk over coverage, by maximum probability. O(n log n).
    ///
    /// ```
    /// use evaluation::Outcomes;
    ///
    /// // sure and right, less sure and wrong
    /// let outcomes = Outcomes::new(&[0.9, 0.1, 0.4, 0.6], 2, &[0, 0])?;
    /// let curve = outcomes.risk_coverage();
    /// assert_eq!((curve.at(0.5), curve.at(1.0), curve.area()), (0.0, 0.5, 0.25));
    /// # Ok::<(), evaluation::Error>(())
    /// ```
    pub fn risk_coverage(&self) -> RiskCoverage {
        let mut order: Vec<usize> = (0..self.samples()).collect();
        let confidence = self.confidence();
        order.sort_by(|&a, &b| confidence[b].total_cmp(&confidence[a]));
        let mut risks = Vec::with_capacity(order.len());
        let mut wrong = 0.0;
        for group in order.chunk_by(|&a, &b| confidence[a] == confidence[b]) {
            let mistakes = group.iter().filter(|&&image| !self.is_right(image)).count();
            let share = mistakes as f64 / group.len() as f64;
            for _ in group {
                wrong += share;
                risks.push(wrong / (risks.len() + 1) as f64);
            }
        }
        RiskCoverage { risks }
    }
}

impl RiskCoverage {
    /// Area under the curve (AURC): the mean risk over all numbers of images. Lower is better.
    pub fn area(&self) -> f64 {
        self.risks.iter().sum::<f64>() / self.risks.len() as f64
    }

    /// Area that the best possible order would have less: 0 if every mistake is less sure than
    /// every right prediction.
    pub fn excess_area(&self) -> f64 {
        let images = self.risks.len();
        let mistakes = (self.risks.last().unwrap_or(&0.0) * images as f64).round() as usize;
        let least = |count: usize| (count + mistakes).saturating_sub(images) as f64 / count as f64;
        self.area() - (1..=images).map(least).sum::<f64>() / images as f64
    }

    /// The areas, and the curve thinned to at most 101 points.
    pub fn summary(&self) -> Risk {
        let images = self.risks.len();
        let points = POINTS.min(images);
        let counts = (1..=points).map(|point| (point * images).div_ceil(points));
        let curve = counts.map(|count| (count as f64 / images as f64, self.risks[count - 1]));
        Risk {
            aurc: self.area(),
            excess_aurc: self.excess_area(),
            curve: curve.collect(),
        }
    }

    /// Risk where this share of the images is answered, at least one image.
    pub fn at(&self, coverage: f64) -> f64 {
        let count = (coverage * self.risks.len() as f64).round() as usize;
        self.risks[count.clamp(1, self.risks.len()) - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_is_the_mean_risk() {
        // confidences 0.9 right, 0.8 wrong, 0.7 right, 0.6 wrong
        let rows = [0.9, 0.1, 0.2, 0.8, 0.7, 0.3, 0.4, 0.6];
        let curve = Outcomes::new(&rows, 2, &[0, 0, 0, 0])
            .unwrap()
            .risk_coverage();
        let expected = (0.0 + 1.0 / 2.0 + 1.0 / 3.0 + 2.0 / 4.0) / 4.0;
        assert!((curve.area() - expected).abs() < 1e-15);
        let best = (0.0 + 0.0 + 1.0 / 3.0 + 2.0 / 4.0) / 4.0;
        assert!((curve.excess_area() - (expected - best)).abs() < 1e-15);
        assert_eq!([0.0, 0.5, 1.0].map(|c| curve.at(c)), [0.0, 0.5, 0.5]);
        let summary = curve.summary();
        assert_eq!(summary.aurc, curve.area());
        assert_eq!(summary.excess_aurc, curve.excess_area());
        let points = [(0.25, 0.0), (0.5, 0.5), (0.75, 1.0 / 3.0), (1.0, 0.5)];
        assert_eq!(summary.curve, points);
    }

    #[test]
    fn a_long_curve_is_thinned_to_its_end() {
        let images = 1000;
        let rows = (0..images).flat_map(|i| {
            let p = 0.5 + 0.4 * f64::from(i) / 1000.0;
            [p, 1.0 - p]
        });
        let rows: Vec<f64> = rows.collect();
        let labels: Vec<u8> = (0..images).map(|i| u8::from(i % 3 == 0)).collect();
        let curve = Outcomes::new(&rows, 2, &labels).unwrap().risk_coverage();
        let points = curve.summary().curve;
        assert_eq!(points.len(), POINTS);
        assert_eq!(points[POINTS - 1], (1.0, curve.at(1.0)));
        for (coverage, risk) in points {
            assert_eq!(risk, curve.at(coverage));
        }
    }

    #[test]
    fn ties_do_not_depend_on_the_order_of_the_images() {
        let rows = [0.75, 0.25, 0.75, 0.25, 0.75, 0.25];
        let curve = |labels: [u8; 3]| Outcomes::new(&rows, 2, &labels).unwrap().risk_coverage();
        assert_eq!(curve([1, 0, 0]), curve([0, 0, 1]));
        assert!((curve([1, 0, 0]).area() - 1.0 / 3.0).abs() < 1e-15);
    }
}
