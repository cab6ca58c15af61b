//! Valid possibilities by simulation, where the law of the relative likelihood `R` is not known:
//!
//! `π̂(θ) = (1 + #{k : R_θ(X_k) ≤ R_θ(x)}) / (N + 1)`
//!
//! over `N` data sets `X_k` that are simulated under `θ`; its standard error is `(π̂(1-π̂)/N)^½`.
//! With the data `x` themselves there are `N + 1` sets of the same law, so that
//! `P_θ(π̂(θ) ≤ α) ≤ α` for every `N`, as for [`valid`](crate::valid) possibilities.
//!
//! Where `θ` is one number among others, `R` is the relative profile likelihood, and the others
//! stand at their most possible values given `θ`: an approximation, since `π` is the supremum over
//! all their values.
//!
//! The same uniform numbers make the data of every `θ`, so that `π̂` changes with `θ` nearly as `π`
//! does. An end of the α-cut is where `R_θ(x)` meets the α-quantile of `R_θ(X_k)`, which hardly
//! depends on `θ`: it is searched for in `(-2 log R)^½`, nearly a straight line, inside a bracket
//! that only shrinks. The outer end of the bracket is reported, and as its standard error how far
//! it moves with the quantile if `α` moves by `(α(1-α)/N)^½`.
//!
//! Few data make few different `R`, and `π̂` may rise again beyond an end. So values up to twice as
//! far from the mode are looked at, 15 % apart, and what is possible enough there belongs to the
//! cut: it is an interval around all values seen to be. The same holds for the supremum over an
//! event.

mod shares;

use crate::error::{Error, Result, check_alpha};
use crate::set::{Interval, RealSet};

pub use shares::SimulatedShares;

/// How many data sets are simulated, and from which numbers.
#[derive(Clone, Copy)]
pub struct Simulation<'a> {
    /// `N`, at least 1.
    pub draws: usize,
    /// Number `index` of data set `draw`, uniform on `[0, 1)`; the same whenever it is asked for.
    pub uniform: &'a (dyn Fn(usize, usize) -> f64 + Sync),
}

/// An estimated number and its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Its standard error over the simulation; 0 where nothing had to be simulated.
    pub error: f64,
}

impl Estimate {
    /// What needs no simulation.
    pub fn certain(value: f64) -> Self {
        Self { value, error: 0.0 }
    }
}

/// Possibility and necessity of an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EstimatedCredence {
    /// `Π(A)`.
    pub possibility: Estimate,
    /// `N(A)`.
    pub necessity: Estimate,
}

/// The data seen and the simulated ones, each compared with one value of the parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    value: f64,
    observed: f64,
    simulated: Vec<f64>,
    unresolved: usize,
}

/// Logs of relative likelihoods this close are ties: they are found by iteration.
const TIE: f64 = 1e-8;

impl Comparison {
    /// The relative likelihoods of `value`, as logs: of the data seen and of each simulated set,
    /// `None` where that cannot be found. Such a set counts as one that agrees no better, which
    /// makes the possibility larger.
    pub fn new(value: f64, observed: f64, simulated: &[Option<f64>]) -> Self {
        let unresolved = simulated.iter().filter(|log| log.is_none()).count();
        let resolved = simulated.iter().map(|log| log.unwrap_or(f64::NEG_INFINITY));
        let mut simulated: Vec<f64> = resolved.collect();
        simulated.sort_by(f64::total_cmp);
        Self {
            value,
            observed,
            simulated,
            unresolved,
        }
    }

    /// `π̂` of the value.
    pub fn possibility(&self) -> Estimate {
        let draws = self.simulated.len() as f64;
        let least = self.observed + TIE * (1.0 + self.observed.abs());
        let worse = self.simulated.partition_point(|&log| log <= least);
        let value = (1.0 + worse as f64) / (draws + 1.0);
        Estimate {
            value,
            error: (value * (1.0 - value) / draws).sqrt(),
        }
    }

    /// `(-2 log R)^½` of the simulated set of this rank, the first being that of the smallest `R`.
    fn root(&self, rank: f64) -> f64 {
        let last = self.simulated.len() - 1;
        let index = (rank - 1.0).clamp(0.0, last as f64) as usize;
        (-2.0 * self.simulated[index]).max(0.0).sqrt()
    }

    fn observed_root(&self) -> f64 {
        (-2.0 * self.observed).max(0.0).sqrt()
    }
}

/// A parameter whose values can be compared with simulated data.
pub trait Source {
    /// The value of possibility 1.
    fn mode(&self) -> f64;
    /// The values it can have.
    fn range(&self) -> Interval;
    /// Number of simulated data sets.
    fn draws(&self) -> usize;
    /// Simulates under `value`.
    ///
    /// # Errors
    /// The most possible values of all other parameters cannot be found.
    fn compare(&self, value: f64) -> Result<Comparison>;
}

/// The estimated possibility function of a parameter, which remembers where it has looked.
#[derive(Debug, Clone)]
pub struct Simulated<S> {
    source: S,
    seen: Vec<Comparison>,
}

/// An end of a cut lies between two values this share of their distance to the mode apart: far less
/// than its standard error.
const WIDTH: f64 = 2e-3;

/// Distances beyond an end or a boundary, in its own, that are looked at.
const BEYOND: [f64; 5] = [1.15, 1.15 * 1.15, 1.52, 1.75, 2.01];

/// Another value whose distance differs by no more than this share is as good.
const NEAR: f64 = 0.07;

/// Comparisons after which the search for an end stops; without a value outside the cut it is
/// infinite.
const MOST_ROUNDS: u32 = 60;

impl<S: Source> Simulated<S> {
    /// Nothing is simulated yet.
    pub fn new(source: S) -> Self {
        Self {
            source,
            seen: Vec::new(),
        }
    }

    /// `π̂` of a value.
    ///
    /// # Errors
    /// As [`Source::compare`].
    pub fn possibility(&mut self, value: f64) -> Result<Estimate> {
        if value == self.source.mode() {
            return Ok(Estimate::certain(1.0));
        }
        if !self.source.range().contains(value) {
            return Ok(Estimate::certain(0.0));
        }
        if let Some(known) = self.seen.iter().find(|known| known.value == value) {
            return Ok(known.possibility());
        }
        let comparison = self.source.compare(value)?;
        let estimate = comparison.possibility();
        self.seen.push(comparison);
        Ok(estimate)
    }

    /// Possibility and necessity of an event: the most possible values of a set are those nearest
    /// to the mode or not far beyond.
    ///
    /// # Errors
    /// As [`Source::compare`].
    pub fn credence_of(&mut self, event: &RealSet) -> Result<EstimatedCredence> {
        let outside = self.supremum(&event.complement())?;
        Ok(EstimatedCredence {
            possibility: self.supremum(event)?,
            necessity: Estimate {
                value: 1.0 - outside.value,
                error: outside.error,
            },
        })
    }

    fn supremum(&mut self, set: &RealSet) -> Result<Estimate> {
        let inside = set.intersection(&self.source.range().into());
        let mode = self.source.mode();
        let mut best = Estimate::certain(0.0);
        for value in inside.nearest(mode).into_iter().flatten() {
            let nearest = self.possibility(value)?;
            self.look_beyond(value, |value| inside.contains(value));
            let side = (value - mode).signum();
            let seen = self.seen.iter();
            let beyond =
                seen.filter(|one| side * (one.value - value) > 0.0 && inside.contains(one.value));
            for estimate in beyond.map(Comparison::possibility).chain([nearest]) {
                if estimate.value > best.value {
                    best = estimate;
                }
            }
        }
        Ok(best)
    }

    /// Looks at values of a set farther from the mode than this one.
    fn look_beyond(&mut self, value: f64, is_wanted: impl Fn(f64) -> bool) {
        let mode = self.source.mode();
        for factor in BEYOND {
            let farther = mode + factor * (value - mode);
            let is_near = |one: &Comparison| {
                ((one.value - mode) / (farther - mode) - 1.0).abs() <= NEAR && is_wanted(one.value)
            };
            if value == mode || !is_wanted(farther) || self.seen.iter().any(is_near) {
                continue;
            }
            // so far out that the loss leaves the range of numbers, nothing agrees
            if self.possibility(farther).is_err() {
                break;
            }
        }
    }

    /// The ends of the α-cut; `guess` is where to look first, such as the cut of `R` at
    /// [`Pivot::Normal.plain_level(alpha)`](crate::valid::Pivot::plain_level).
    ///
    /// # Errors
    /// As [`Source::compare`], a level outside `(0, 1]`, or one that so few data sets cannot
    /// resolve.
    pub fn cut(&mut self, alpha: f64, guess: &Interval) -> Result<[Estimate; 2]> {
        check_alpha(alpha)?;
        let draws = self.source.draws() as f64;
        // π̂ ≥ α if this many simulated sets agree no better
        let rank = (alpha * (draws + 1.0) - 1.0 - 1e-9).ceil();
        if rank < 1.0 {
            return Err(Error::OutOfRange {
                field: "number of simulations",
                value: draws,
                range: "(1/alpha - 1, inf)",
            });
        }
        let mode = self.source.mode();
        if alpha == 1.0 {
            return Ok([Estimate::certain(mode); 2]);
        }
        Ok([
            self.end(rank, -1.0, mode - guess.lower())?,
            self.end(rank, 1.0, guess.upper() - mode)?,
        ])
    }

    /// The end on one side of the mode, first looked for at a distance from it.
    fn end(&mut self, rank: f64, side: f64, guess: f64) -> Result<Estimate> {
        let mode = self.source.mode();
        let mut trial = guess;
        for round in 1..=MOST_ROUNDS {
            self.possibility(mode + side * trial)?;
            let (inner, outer) = self.bracket(rank, side);
            let Some(outer) = outer else {
                // farther, at least to where the quantile is met if it stays as it is
                let met = inner.distance * (1.0 - inner.excess / inner.root).clamp(1.0, 2.0);
                trial = met * (1.0 + WIDTH * f64::from(round * round));
                continue;
            };
            let value = mode + side * outer.distance;
            if outer.distance - inner.distance > WIDTH * outer.distance && round < MOST_ROUNDS {
                trial = between(&inner, &outer, round);
                continue;
            }
            self.look_beyond(value, |_| true);
            let (farthest, beyond) = self.bracket(rank, side);
            match beyond {
                Some(beyond) if farthest.distance > inner.distance && round < MOST_ROUNDS => {
                    trial = between(&farthest, &beyond, round);
                }
                None => trial = farthest.distance * (1.0 + NEAR),
                Some(outer) => {
                    return Ok(Estimate {
                        value: mode + side * outer.distance,
                        error: outer.error,
                    });
                }
            }
        }
        Ok(Estimate {
            value: side * f64::INFINITY,
            error: 0.0,
        })
    }

    /// The farthest value seen inside the cut and the nearest beyond it outside.
    fn bracket(&self, rank: f64, side: f64) -> (Place, Option<Place>) {
        let mode = self.source.mode();
        let mut places: Vec<Place> = self
            .seen
            .iter()
            .filter(|one| side * (one.value - mode) > 0.0)
            .map(|one| Place::new(one, side * (one.value - mode), rank))
            .collect();
        places.sort_by(|a, b| a.distance.total_cmp(&b.distance));
        let inside = places.iter().rposition(|place| place.is_inside);
        let beyond = inside.map_or(0, |index| index + 1);
        let outer = places.get(beyond).copied();
        let inner = inside.map(|index| places[index]).unwrap_or(Place {
            distance: 0.0,
            excess: -outer.map_or(1.0, |outer| outer.root),
            root: 1.0,
            error: 0.0,
            is_inside: true,
        });
        (inner, outer)
    }
}

impl<S> Simulated<S> {
    /// Every value that was looked at with its `π̂`, by increasing value.
    pub fn points(&self) -> Vec<(f64, Estimate)> {
        let points = self.seen.iter().map(|one| (one.value, one.possibility()));
        let mut points: Vec<_> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    /// The largest number of data sets behind one estimate whose relative likelihood could not be
    /// found.
    pub fn unresolved(&self) -> usize {
        let counts = self.seen.iter().map(|one| one.unresolved);
        counts.max().unwrap_or(0)
    }
}

/// A value on one side of the mode, as the search for the end of a cut sees it.
#[derive(Debug, Clone, Copy)]
struct Place {
    distance: f64,
    /// `(-2 log R)^½` of the data less that of the quantile: negative inside.
    excess: f64,
    /// That of the data.
    root: f64,
    /// Standard error of the end, if it is here.
    error: f64,
    is_inside: bool,
}

impl Place {
    fn new(comparison: &Comparison, distance: f64, rank: f64) -> Self {
        let draws = comparison.simulated.len() as f64;
        let share = rank / draws;
        let spread = (rank * (1.0 - share)).sqrt();
        let (low, quantile, high) = (
            comparison.root(rank + 2.0 * spread),
            comparison.root(rank),
            comparison.root(rank - 2.0 * spread),
        );
        let root = comparison.observed_root();
        let worse = comparison.possibility().value * (draws + 1.0) - 1.0;
        Self {
            distance,
            excess: root - quantile,
            root,
            // two standard errors of the rank to each side; the root of the data is nearly
            // proportional to the distance
            error: distance * 0.25 * (high - low) / root,
            is_inside: worse.round() >= rank,
        }
    }
}

/// Where to look next: false position, a little beyond it so that the bracket closes from both
/// sides, and now and then the middle.
fn between(inner: &Place, outer: &Place, round: u32) -> f64 {
    let width = outer.distance - inner.distance;
    let share = -inner.excess / (outer.excess - inner.excess);
    if round.is_multiple_of(3) || !(0.0..=1.0).contains(&share) {
        return inner.distance + 0.5 * width;
    }
    let beyond = 0.4 * WIDTH * outer.distance / width;
    let share = if share < 0.5 {
        (share + beyond).min(0.5)
    } else {
        (share - beyond).max(0.5)
    };
    inner.distance + share * width
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::family::tails::gamma_above;

    /// Uniform numbers for tests: SplitMix64.
    pub(crate) fn splitmix(draw: usize, index: usize) -> f64 {
        let mix = |x: u64| {
            let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            x ^ (x >> 31)
        };
        (mix(mix(draw as u64) ^ mix(index as u64 + 1)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A mean of known variance 1 at which 0 was seen: `log R = -t²/2`, whatever is simulated.
    struct Mean {
        draws: usize,
    }

    impl Source for Mean {
        fn mode(&self) -> f64 {
            0.0
        }

        fn range(&self) -> Interval {
            Interval::REAL_LINE
        }

        fn draws(&self) -> usize {
            self.draws
        }

        fn compare(&self, value: f64) -> Result<Comparison> {
            let square = |draw: usize| {
                let (u, v) = (splitmix(draw, 0), splitmix(draw, 1));
                let angle = (2.0 * std::f64::consts::PI * v).cos();
                Some(-(1.0 - u).ln().abs() * angle * angle)
            };
            let logs: Vec<_> = (0..self.draws).map(square).collect();
            Ok(Comparison::new(value, -0.5 * value * value, &logs))
        }
    }

    /// Against the law of a squared normal number, within the errors that are stated.
    #[test]
    fn estimates_and_cuts_agree_with_the_law() {
        let mut mean = Simulated::new(Mean { draws: 2000 });
        for t in [-3.0, -1.0, 0.3, 1.7] {
            let found = mean.possibility(t).unwrap();
            let expected = gamma_above(0.5, 0.5 * t * t);
            assert!(
                (found.value - expected).abs() < 4.0 * found.error,
                "{t}: {found:?}"
            );
        }
        // quantiles of the normal law; the guess may be far off
        for (alpha, end) in [(0.05, 1.959_964), (0.5, 0.674_490), (0.9, 0.125_661)] {
            for guess in [0.3 * end, end, 5.0 * end] {
                let guess = Interval::closed(-guess, guess).unwrap();
                let [lower, upper] = mean.cut(alpha, &guess).unwrap();
                assert!(
                    (upper.value - end).abs() < 4.0 * upper.error,
                    "{alpha}: {upper:?}"
                );
                assert!(upper.error < 0.1 * end, "{alpha}: {upper:?}");
                assert!(
                    (lower.value + end).abs() < 4.0 * lower.error,
                    "{alpha}: {lower:?}"
                );
                // the end that is reported is outside, and a little farther in is inside
                assert!(mean.possibility(upper.value).unwrap().value < alpha);
                let inside = (1.0 - 2.0 * WIDTH) * upper.value;
                assert!(mean.possibility(inside).unwrap().value >= alpha);
            }
        }
    }

    /// A possibility that falls below 0.05 and rises to 0.08 again, between the distances 1.1 and
    /// 1.5.
    struct Wave;

    impl Source for Wave {
        fn mode(&self) -> f64 {
            0.0
        }

        fn range(&self) -> Interval {
            Interval::REAL_LINE
        }

        fn draws(&self) -> usize {
            999
        }

        fn compare(&self, value: f64) -> Result<Comparison> {
            let share = match value.abs() {
                distance if distance < 0.96 => 1.0 - distance,
                distance if distance < 1.1 => 0.02,
                distance if distance < 1.5 => 0.08,
                _ => 0.01,
            };
            let worse = (1000.0 * share - 1.0).round();
            let log = |k: usize| Some(if (k as f64) < worse { -100.0 } else { 0.0 });
            let logs: Vec<_> = (0..999).map(log).collect();
            Ok(Comparison::new(value, -0.5 * value * value, &logs))
        }
    }

    #[test]
    fn what_rises_again_is_not_left_out() {
        let mut wave = Simulated::new(Wave);
        let guess = Interval::closed(-0.9, 0.9).unwrap();
        let [lower, upper] = wave.cut(0.05, &guess).unwrap();
        for end in [-lower.value, upper.value] {
            assert!((1.5..1.5 * (1.0 + 2.0 * WIDTH)).contains(&end), "{end}");
        }
        let mut wave = Simulated::new(Wave);
        let above: RealSet = Interval::above(1.0).unwrap().into();
        assert_eq!(wave.credence_of(&above).unwrap().possibility.value, 0.08);
        let mut wave = Simulated::new(Wave);
        let point: RealSet = Interval::point(1.0).unwrap().into();
        assert_eq!(wave.credence_of(&point).unwrap().possibility.value, 0.02);
        assert_eq!(wave.points().len(), 1);
    }

    #[test]
    fn possibilities_by_hand() {
        let logs = [Some(-1.0), Some(-3.0), None, Some(-2.0 + 1e-12)];
        let comparison = Comparison::new(1.0, -2.0, &logs);
        // one smaller, one tie, one that is not known, and the data themselves
        let found = comparison.possibility();
        assert_eq!(found.value, 0.8);
        assert!((found.error - 0.2).abs() < 1e-15);
        assert_eq!(comparison.unresolved, 1);
    }

    #[test]
    fn events_are_answered_at_their_nearest_values() {
        let mut mean = Simulated::new(Mean { draws: 500 });
        let above: RealSet = Interval::above(1.0).unwrap().into();
        let credence = mean.credence_of(&above).unwrap();
        assert_eq!(credence.possibility, mean.possibility(1.0).unwrap());
        assert_eq!(credence.necessity, Estimate::certain(0.0));
        let credence = mean.credence_of(&above.complement()).unwrap();
        assert_eq!(credence.possibility, Estimate::certain(1.0));
        assert_eq!(
            credence.necessity.value,
            1.0 - mean.possibility(1.0).unwrap().value
        );
        let nothing = mean.credence_of(&RealSet::empty()).unwrap();
        assert_eq!(
            (nothing.possibility.value, nothing.necessity.value),
            (0.0, 0.0)
        );
    }

    #[test]
    fn levels_that_cannot_be_resolved_are_refused() {
        let guess = Interval::closed(-1.0, 1.0).unwrap();
        let mut mean = Simulated::new(Mean { draws: 99 });
        assert!(mean.cut(0.01, &guess).is_err());
        assert!(mean.cut(0.0, &guess).is_err());
        assert!(mean.cut(1.5, &guess).is_err());
        assert!(mean.cut(0.02, &guess).is_ok());
        assert_eq!(mean.cut(1.0, &guess).unwrap(), [Estimate::certain(0.0); 2]);
    }
}
