//! Events: sets of numbers, and regions of `ℝᵈ`.

use possibility::{Credence, Interval, RealSet};
use pyo3::prelude::*;
use questions::event::Variables;

use crate::mistake;
use crate::normal::Normal;

/// Possibility and necessity, as Python gets them.
pub fn pair(found: Credence) -> (f64, f64) {
    (found.possibility, found.necessity)
}

/// A set of numbers: finitely many intervals, each with or without its ends.
#[pyclass(frozen, eq, hash, module = "maxitive.possibility")]
#[derive(Clone, PartialEq)]
pub struct Event(RealSet);

impl std::hash::Hash for Event {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_string().hash(state);
    }
}

impl Event {
    /// The set.
    pub fn set(&self) -> &RealSet {
        &self.0
    }
}

#[pymethods]
impl Event {
    /// From intervals: lower end, upper end, and whether each end belongs to it.
    #[new]
    fn new(intervals: Vec<(f64, f64, bool, bool)>) -> PyResult<Self> {
        let interval = |(lower, upper, has_lower, has_upper)| {
            Interval::new(lower, upper, has_lower, has_upper).map_err(mistake)
        };
        let parts = intervals.into_iter().map(interval);
        Ok(Self(parts.collect::<PyResult<_>>()?))
    }

    /// From text about one number that has any of these names, as `0.2 <= x <= 0.4`.
    #[staticmethod]
    fn parse(text: &str, names: Vec<String>) -> PyResult<Self> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let event = questions::event::Event::parse(text, &Variables::scalar(&names));
        // an event about one number has no other coordinates
        Ok(Self(event.map_err(mistake)?.as_set().unwrap_or_default()))
    }

    /// The intervals, by increasing ends: lower end, upper end, and whether each belongs to it.
    #[getter]
    fn intervals(&self) -> Vec<(f64, f64, bool, bool)> {
        let interval = |part: &Interval| {
            let (has_lower, has_upper) = (part.contains_lower(), part.contains_upper());
            (part.lower(), part.upper(), has_lower, has_upper)
        };
        self.0.parts().iter().map(interval).collect()
    }

    #[allow(clippy::type_complexity)]
    fn __getnewargs__(&self) -> (Vec<(f64, f64, bool, bool)>,) {
        (self.intervals(),)
    }

    fn __contains__(&self, value: f64) -> bool {
        self.0.contains(value)
    }

    fn __or__(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0))
    }

    fn __and__(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0))
    }

    fn __sub__(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0))
    }

    fn __invert__(&self) -> Self {
        Self(self.0.complement())
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}

/// A subset of `ℝᵈ`.
#[pyclass(frozen, module = "maxitive.possibility")]
#[derive(Clone)]
pub struct Region(possibility::Region);

impl Region {
    /// The region.
    pub fn inner(&self) -> &possibility::Region {
        &self.0
    }
}

#[pymethods]
impl Region {
    /// The product of one interval per coordinate, ends included.
    #[staticmethod]
    fn r#box(sides: Vec<(f64, f64)>) -> PyResult<Self> {
        let sides = sides
            .into_iter()
            .map(|(lower, upper)| Interval::closed(lower, upper).map_err(mistake))
            .collect::<PyResult<Vec<_>>>()?;
        Ok(Self(possibility::Region::Box(sides)))
    }

    /// `{x : normal · x >= offset}`.
    #[staticmethod]
    fn half_space(normal: Vec<f64>, offset: f64) -> Self {
        Self(possibility::Region::HalfSpace { normal, offset })
    }

    /// Finitely many points.
    #[staticmethod]
    fn points(points: Vec<Vec<f64>>) -> Self {
        Self(possibility::Region::Finite(points))
    }

    /// The points whose possibility under the normal is at least `alpha`, an ellipsoid.
    #[staticmethod]
    fn cut(normal: &Normal, alpha: f64) -> PyResult<Self> {
        let ellipsoid = normal.inner().alpha_cut(alpha).map_err(mistake)?;
        Ok(Self(ellipsoid.into()))
    }

    fn __contains__(&self, point: Vec<f64>) -> PyResult<bool> {
        self.0.contains(&point).map_err(mistake)
    }

    fn __invert__(&self) -> Self {
        Self(self.0.clone().complement())
    }

    fn __repr__(&self) -> String {
        describe(&self.0)
    }
}

fn describe(region: &possibility::Region) -> String {
    match region {
        possibility::Region::Box(sides) => {
            let sides: Vec<String> = sides.iter().map(Interval::to_string).collect();
            format!("<box {}>", sides.join(" x "))
        }
        possibility::Region::HalfSpace { normal, offset } => {
            format!("<half-space {normal:?} x >= {offset}>")
        }
        possibility::Region::Finite(points) => format!("<points {points:?}>"),
        possibility::Region::Ellipsoid(ellipsoid) => format!(
            "<{}-cut around {:?}>",
            plot::text::significant(ellipsoid.log_level().exp()),
            ellipsoid.center()
        ),
        possibility::Region::Complement(inner) => format!("<all but {}>", describe(inner)),
        _ => "<region>".to_owned(),
    }
}
