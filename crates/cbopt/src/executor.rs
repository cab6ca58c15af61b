//! Where and how a step runs: instruction set, threads, and what to do with an unusable gradient.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::kernel::{self, Isa, Kernel, Span, Tally, Workers};

/// Fewest parameters for which other threads are woken by default.
///
/// Measured with two threads: waking the second one costs some 20 µs, so that up to 2·10⁵ parameters two threads are
/// slower than one, at 4·10⁵ they are about even (0.16 against 0.17 ms), and at 10⁶ they take 0.27 instead of 0.44 ms.
pub const PARALLEL_FROM: usize = 1 << 19;

/// Threads a step can be shared between.
pub const MAX_THREADS: usize = 64;

/// Threads take pieces of the parameters in turn; a piece has at least this many parameters.
const SMALLEST_PIECE: usize = 1 << 13;
/// And at most this many.
const LARGEST_PIECE: usize = 1 << 18;
/// Cuts fall on multiples of one cache line.
const LINE: usize = 16;

/// What happens when a gradient is NaN, infinite, or (for rules that square it) too large to be squared in `f32`.
///
/// `Refuse` and `SkipStep` must read all gradients before anything is changed: 4 bytes per parameter on top of the 28
/// (`ucbopt`) or 36 (adaptive rules) of the update itself. Measured, that is about a tenth of the time of a step in the cache and
/// a seventh to a fifth beyond it. `SkipCoordinates` tests inside the update, which reads the gradient anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NonFinite {
    /// The step is refused with [`Error::NonFiniteGradient`]; parameters and state are as before.
    #[default]
    Refuse,
    /// The whole step is left out and counted; parameters and the rest of the state are as before.
    SkipStep,
    /// The coordinates concerned keep their parameter and state and are counted; all others are updated.
    SkipCoordinates,
}

/// What a step met. All counts are over the coordinates of this step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepReport {
    /// Steps made, this one included; frozen groups do not count.
    pub step: u64,
    /// Coordinates that were visited.
    pub coordinates: u64,
    /// Denominators raised to their floor ε.
    pub floored: u64,
    /// Coordinates whose curvature gap `H_s` was not positive, before any stabilizer.
    pub gap_not_positive: u64,
    /// Coordinates whose step was cut at the clip radius.
    pub clipped: u64,
    /// Coordinates left alone because of an unusable gradient.
    pub skipped_coordinates: u64,
    /// Coordinates whose parameter or curvature is no longer finite.
    pub overflowed: u64,
    /// Whether the whole step was left out.
    pub skipped: bool,
}

impl StepReport {
    pub(crate) fn new(step: u64, coordinates: usize, tally: Tally) -> Self {
        Self {
            step,
            coordinates: coordinates as u64,
            floored: tally.floored,
            gap_not_positive: tally.gap_not_positive,
            clipped: tally.clipped,
            skipped_coordinates: tally.skipped,
            overflowed: tally.overflowed,
            skipped: false,
        }
    }

    /// Adds the counts of another group; the step is the larger one.
    pub(crate) fn add(&mut self, other: Self) {
        self.step = self.step.max(other.step);
        self.coordinates += other.coordinates;
        self.floored += other.floored;
        self.gap_not_positive += other.gap_not_positive;
        self.clipped += other.clipped;
        self.skipped_coordinates += other.skipped_coordinates;
        self.overflowed += other.overflowed;
        self.skipped |= other.skipped;
    }
}

/// Runs steps. Threads are started once and wait between steps; a step allocates nothing.
///
/// The result does not depend on the executor: every instruction set and every number of threads gives the same bits.
///
/// ```
/// use cbopt::{Executor, NonFinite, UpperCboConfig, Update};
/// let executor = Executor::with_threads(2)?.non_finite(NonFinite::SkipCoordinates);
/// let rule = UpperCboConfig::default().build()?;
/// let (mut params, grads) = (vec![1.0; 3], vec![0.5, f32::NAN, 0.5]);
/// let mut state = rule.state(3);
/// let report = rule.step_on(&executor, 0.01, &mut params, &grads, &mut state)?;
/// assert_eq!((params[1], report.skipped_coordinates), (1.0, 1));
/// # Ok::<(), cbopt::Error>(())
/// ```
#[derive(Debug)]
pub struct Executor {
    isa: Isa,
    workers: Option<Workers>,
    non_finite: NonFinite,
    parallel_from: usize,
}

impl Executor {
    /// One thread, the widest instruction set.
    pub fn single() -> Self {
        Self {
            isa: Isa::detect(),
            workers: None,
            non_finite: NonFinite::Refuse,
            parallel_from: PARALLEL_FROM,
        }
    }

    /// `threads` threads, the calling one included.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless `threads` is in `1..=64`.
    pub fn with_threads(threads: usize) -> Result<Self> {
        if !(1..=MAX_THREADS).contains(&threads) {
            let (field, range) = ("threads", "1..=64");
            return Err(Error::OutOfRange {
                field,
                value: threads as f64,
                range,
            });
        }
        let workers = (threads > 1).then(|| Workers::start(threads - 1));
        Ok(Self {
            workers,
            ..Self::single()
        })
    }

    /// With this instruction set.
    #[must_use]
    pub fn isa(self, isa: Isa) -> Self {
        Self { isa, ..self }
    }

    /// With this treatment of unusable gradients.
    #[must_use]
    pub fn non_finite(self, non_finite: NonFinite) -> Self {
        Self { non_finite, ..self }
    }

    /// Shares steps between threads from this many parameters on, instead of [`PARALLEL_FROM`].
    #[must_use]
    pub fn parallel_from(self, parameters: usize) -> Self {
        Self {
            parallel_from: parameters,
            ..self
        }
    }

    /// Threads of this executor, the calling one included.
    pub fn threads(&self) -> usize {
        1 + self.workers.as_ref().map_or(0, Workers::count)
    }

    pub(crate) fn policy(&self) -> NonFinite {
        self.non_finite
    }

    /// The waiting threads, if `len` parameters are worth waking them.
    fn helpers(&self, len: usize) -> Option<&Workers> {
        self.workers.as_ref().filter(|_| len >= self.parallel_from)
    }

    /// Parameters per piece: about sixteen pieces per thread, so that a thread that was held up leaves the rest to others.
    fn piece(&self, len: usize) -> usize {
        let smallest = SMALLEST_PIECE.min(self.parallel_from);
        let even = len / (16 * self.threads());
        even.clamp(smallest, LARGEST_PIECE)
            .max(1)
            .next_multiple_of(LINE)
    }

    /// Runs `kernel` over `span`, the last piece first: if the gradients were just tested, its end is still in the cache.
    pub(crate) fn sweep<K: Kernel>(&self, kernel: &K, span: Span<'_>) -> Tally {
        let len = span.theta.len();
        let piece = self.piece(len);
        let rest = Mutex::new(Some(span));
        let total = Mutex::new(Tally::default());
        let work = || {
            let mut tally = Tally::default();
            loop {
                let own = {
                    let mut rest = rest.lock().expect("cutting does not panic");
                    let Some(span) = rest.take().filter(|span| !span.theta.is_empty()) else {
                        break;
                    };
                    let start = (span.theta.len() - 1) / piece * piece;
                    let (before, own) = span.split_at(start);
                    *rest = Some(before);
                    own
                };
                tally.add(kernel::sweep(self.isa, kernel, own));
            }
            total.lock().expect("adding does not panic").add(tally);
        };
        match self.helpers(len) {
            Some(workers) => workers.run(&work),
            None => work(),
        }
        total.into_inner().expect("adding does not panic")
    }

    /// Position of the first unusable gradient.
    pub(crate) fn first_unusable(&self, gradient: &[f32], limit: f32) -> Option<usize> {
        let len = gradient.len();
        let Some(workers) = self.helpers(len) else {
            return kernel::first_unusable(self.isa, gradient, limit);
        };
        let piece = self.piece(len);
        let (next, first) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        workers.run(&|| {
            loop {
                let start = next.fetch_add(piece, Ordering::Relaxed);
                // Pieces are taken in order, so what comes after a find is of no interest.
                if start >= len.min(first.load(Ordering::Relaxed)) {
                    break;
                }
                let own = &gradient[start..(start + piece).min(len)];
                if let Some(found) = kernel::first_unusable(self.isa, own, limit) {
                    first.fetch_min(start + found, Ordering::Relaxed);
                }
            }
        });
        Some(first.into_inner()).filter(|&index| index != usize::MAX)
    }

    /// Whether the gradients can be used as the policy demands: `Ok(true)` to go on, `Ok(false)` to skip.
    pub(crate) fn admit(&self, gradient: &[f32], limit: f32) -> Result<bool> {
        if self.non_finite == NonFinite::SkipCoordinates {
            return Ok(true);
        }
        match self.first_unusable(gradient, limit) {
            None => Ok(true),
            Some(_) if self.non_finite == NonFinite::SkipStep => Ok(false),
            Some(index) => Err(Error::NonFiniteGradient {
                index,
                value: gradient[index],
                limit,
            }),
        }
    }
}
