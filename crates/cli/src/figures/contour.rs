//! Level lines of a function on a rectangle, by marching squares.

/// A function sampled on a grid.
#[derive(Debug, Clone)]
pub struct Contour {
    x: Vec<f64>,
    y: Vec<f64>,
    /// Values row by row: `values[j][i]` at `(x[i], y[j])`.
    values: Vec<Vec<f64>>,
}

impl Contour {
    /// Intervals of the grid in each direction.
    const CELLS: u32 = 96;

    /// Samples `function` on a regular grid over the rectangle.
    ///
    /// # Errors
    /// The first error of `function`.
    pub fn sample<E>(
        x: (f64, f64),
        y: (f64, f64),
        function: impl Fn(f64, f64) -> Result<f64, E>,
    ) -> Result<Self, E> {
        let axis = |(lower, upper): (f64, f64)| -> Vec<f64> {
            (0..=Self::CELLS)
                .map(|i| lower + (upper - lower) * f64::from(i) / f64::from(Self::CELLS))
                .collect()
        };
        let (x, y) = (axis(x), axis(y));
        let values = y
            .iter()
            .map(|&v| {
                x.iter()
                    .map(|&u| function(u, v))
                    .collect::<Result<Vec<_>, E>>()
            })
            .collect::<Result<Vec<_>, E>>()?;
        Ok(Self { x, y, values })
    }

    /// The set where the function equals `level`, as line segments separated by points that are not
    /// finite.
    pub fn lines(&self, level: f64) -> Vec<(f64, f64)> {
        let mut points = Vec::new();
        for j in 0..self.y.len() - 1 {
            for i in 0..self.x.len() - 1 {
                let mut crossings = self.crossings(i, j, level);
                // a saddle has four crossings: neighbors along the border belong together
                while crossings.len() >= 2 {
                    points.extend(crossings.drain(..2));
                    points.push((f64::NAN, f64::NAN));
                }
            }
        }
        points
    }

    /// Where the level is crossed along the border of a cell, in order around it.
    fn crossings(&self, i: usize, j: usize, level: f64) -> Vec<(f64, f64)> {
        let corner = |di: usize, dj: usize| {
            (
                self.x[i + di],
                self.y[j + dj],
                self.values[j + dj][i + di] - level,
            )
        };
        let border = [corner(0, 0), corner(1, 0), corner(1, 1), corner(0, 1)];
        let mut found = Vec::new();
        for k in 0..4 {
            let (a, b) = (border[k], border[(k + 1) % 4]);
            if a.2.is_finite() && b.2.is_finite() && (a.2 < 0.0) != (b.2 < 0.0) {
                let share = a.2 / (a.2 - b.2);
                found.push((a.0 + share * (b.0 - a.0), a.1 + share * (b.1 - a.1)));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_lines_of_a_cone_lie_on_a_circle() {
        let cone = |x: f64, y: f64| Ok::<_, std::convert::Infallible>(x.hypot(y));
        let field = Contour::sample((-2.0, 2.0), (-2.0, 2.0), cone).unwrap();
        let points: Vec<_> = field
            .lines(1.3)
            .into_iter()
            .filter(|(x, _)| x.is_finite())
            .collect();
        assert!(points.len() > 100);
        for (x, y) in points {
            assert!(
                (x.hypot(y) - 1.3).abs() < 1e-3,
                "({x}, {y}) is off the circle"
            );
        }
        assert!(field.lines(9.0).is_empty());
    }
}
