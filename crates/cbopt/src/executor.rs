//! Where and how a step runs: instruction set, threads, and what to do with an unusable gradient.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result, check};
use crate::kernel::{self, Isa, Kernel, Span, Tally, Workers};

/// Fewest parameters for which sleeping threads are woken by default: waking one costs some 20 µs.
pub const PARALLEL_FROM: usize = 1 << 19;

/// Fewest parameters that are shared with threads that are awake anyway, a moment after their last
/// work.
pub const PARALLEL_FROM_AWAKE: usize = 1 << 14;

/// Most steps between two attempts at waking the threads for steps that are worth sharing only with
/// threads that are awake.
const LONGEST_REST: u32 = 1024;

/// Threads a step can be shared between.
pub const MAX_THREADS: usize = 64;

/// Parts of the parameters, one per thread as long as there are so many.
const MAX_PARTS: usize = 16;
/// Threads take pieces of the parameters in turn; a piece has at least this many parameters,
/// because one that changes its thread travels from cache to cache.
const SMALLEST_PIECE: usize = 1 << 16;
/// And at most this many.
const LARGEST_PIECE: usize = 1 << 18;
/// Cuts fall on multiples of one cache line.
const LINE: usize = 16;

/// What happens when a gradient is NaN, infinite, or (for rules that square it) too large to be
/// squared in `f32`.
///
/// `Refuse` and `SkipStep` must read all gradients before anything is changed: 4 bytes per
/// parameter on top of the 28 (`ucbopt`) or 36 (adaptive rules) of the update itself. Measured,
/// that is about a tenth of the time of a step in the cache and a seventh to a fifth beyond it.
/// `SkipCoordinates` tests inside the update, which reads the gradient anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NonFinite {
    /// The step is refused with [`Error::NonFiniteGradient`]; parameters and state are as before.
    #[default]
    Refuse,
    /// The whole step is left out and counted; parameters and the rest of the state are as before.
    SkipStep,
    /// The coordinates concerned keep their parameter and state and are counted; all others are
    /// updated.
    SkipCoordinates,
}

/// What a step met. All counts are over the coordinates of this step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepReport {
    /// Steps made, this one included.
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
    /// Of a step that was skipped as a whole, when `step` had been made.
    pub(crate) fn skipped(step: u64) -> Self {
        Self {
            step,
            skipped: true,
            ..Self::default()
        }
    }

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
}

/// Runs steps. Threads are started once and wait between steps; a step allocates nothing.
///
/// The result does not depend on the executor: every instruction set and every number of threads
/// gives the same bits.
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
    workers: Option<Arc<Workers>>,
    non_finite: NonFinite,
    parallel_from: usize,
    rest: Rest,
}

/// When to wake threads for steps between [`PARALLEL_FROM_AWAKE`] and [`PARALLEL_FROM`].
///
/// Such a step is over before a thread is awake, but if the next one follows at once, the thread
/// will still be there. If it is not, because the steps are far apart, the next attempt is made
/// after twice as many steps.
#[derive(Debug, Default)]
struct Rest {
    /// Steps until the next attempt.
    left: AtomicU32,
    /// Steps to let pass after it.
    after: AtomicU32,
}

impl Rest {
    /// The threads were found awake.
    fn reset(&self) {
        self.after.store(0, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
    }

    /// The threads were found asleep: whether to wake them. Two callers at a time may count a step
    /// once: no harm.
    fn is_over(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
            return false;
        }
        let after = self.after.load(Ordering::Relaxed);
        self.left.store(after, Ordering::Relaxed);
        self.after
            .store((2 * after + 1).min(LONGEST_REST), Ordering::Relaxed);
        true
    }
}

impl Executor {
    /// One thread, the widest instruction set.
    pub fn single() -> Self {
        Self {
            isa: Isa::detect(),
            workers: None,
            non_finite: NonFinite::Refuse,
            parallel_from: PARALLEL_FROM,
            rest: Rest::default(),
        }
    }

    /// `threads` threads, the calling one included.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless `threads` is in `1..=64`.
    pub fn with_threads(threads: usize) -> Result<Self> {
        check("threads", threads as f64, "1..=64", |_| {
            (1..=MAX_THREADS).contains(&threads)
        })?;
        if threads == 1 {
            return Ok(Self::single());
        }
        Ok(Self::sharing(Arc::new(Workers::start(threads))))
    }

    /// With threads that do other work in between.
    pub fn sharing(workers: Arc<Workers>) -> Self {
        Self {
            workers: Some(workers),
            ..Self::single()
        }
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

    /// Wakes threads from this many parameters on, instead of [`PARALLEL_FROM`]. Threads that are
    /// awake are used from [`PARALLEL_FROM_AWAKE`] on, or from this many, if that is less.
    #[must_use]
    pub fn parallel_from(self, parameters: usize) -> Self {
        Self {
            parallel_from: parameters,
            ..self
        }
    }

    /// Threads of this executor, the calling one included.
    pub fn threads(&self) -> usize {
        self.workers.as_ref().map_or(1, |workers| workers.count())
    }

    /// The waiting threads, if `len` parameters are worth sharing with them.
    fn helpers(&self, len: usize) -> Option<&Workers> {
        let workers = self.workers.as_deref()?;
        if len >= self.parallel_from {
            return Some(workers);
        }
        if len < PARALLEL_FROM_AWAKE {
            return None;
        }
        if workers.is_awake() {
            self.rest.reset();
            return Some(workers);
        }
        if self.rest.is_over() {
            workers.wake();
        }
        None
    }

    /// Runs `work(thread)` here and, if that is worth while, in the other threads.
    fn share(&self, len: usize, work: &(impl Fn(usize) + Sync)) {
        match self.helpers(len) {
            Some(workers) => workers.run(work),
            None => work(0),
        }
    }

    /// How `len` parameters are divided. A thread begins with a part of its own, the same in every
    /// step, so that it finds in its cache what it left there; whoever is done helps with the other
    /// parts, piece by piece.
    fn parts(&self, len: usize) -> Parts {
        let count = self.threads().min(MAX_PARTS);
        let smallest = SMALLEST_PIECE.min(self.parallel_from);
        let even = len / (16 * count);
        Parts {
            len,
            count,
            size: len.div_ceil(count).next_multiple_of(LINE),
            piece: even
                .clamp(smallest, LARGEST_PIECE)
                .max(1)
                .next_multiple_of(LINE),
        }
    }

    /// Runs `kernel` over `span`, the last piece of each part first: if the gradients were just
    /// tested, its end is still in the cache.
    pub(crate) fn sweep<K: Kernel>(&self, kernel: &K, span: Span<'_>) -> Tally {
        let parts = self.parts(span.theta.len());
        let tested = self.non_finite != NonFinite::SkipCoordinates;
        let rest: [Mutex<Option<Span<'_>>>; MAX_PARTS] = [const { Mutex::new(None) }; MAX_PARTS];
        let mut uncut = span;
        for part in &rest[..parts.count] {
            let (own, after) = uncut.split_at(parts.size);
            *part.lock().expect("nobody else is here yet") = Some(own);
            uncut = after;
        }
        let total = Mutex::new(Tally::default());
        let cut = |part: usize| {
            let mut rest = rest[part].lock().expect("cutting does not panic");
            let span = rest.take().filter(|span| !span.theta.is_empty())?;
            let start = (span.theta.len() - 1) / parts.piece * parts.piece;
            let (before, own) = span.split_at(start);
            *rest = Some(before);
            Some(own)
        };
        self.share(parts.len, &|thread| {
            let mut tally = Tally::default();
            for part in parts.from(thread) {
                while let Some(own) = cut(part) {
                    tally.add(kernel::sweep(self.isa, kernel, own, tested));
                }
            }
            total.lock().expect("adding does not panic").add(tally);
        });
        total.into_inner().expect("adding does not panic")
    }

    /// Position of the first unusable gradient.
    pub(crate) fn first_unusable(&self, gradient: &[f32], limit: f32) -> Option<usize> {
        let parts = self.parts(gradient.len());
        let next: [AtomicUsize; MAX_PARTS] = [const { AtomicUsize::new(0) }; MAX_PARTS];
        let first = AtomicUsize::new(usize::MAX);
        self.share(parts.len, &|thread| {
            for part in parts.from(thread) {
                let (begin, end) = parts.range(part);
                loop {
                    let start = begin + next[part].fetch_add(parts.piece, Ordering::Relaxed);
                    // Pieces are taken in order, so what comes after a find is of no interest.
                    if start >= end.min(first.load(Ordering::Relaxed)) {
                        break;
                    }
                    let own = &gradient[start..(start + parts.piece).min(end)];
                    if let Some(found) = kernel::first_unusable(self.isa, own, limit) {
                        first.fetch_min(start + found, Ordering::Relaxed);
                    }
                }
            }
        });
        Some(first.into_inner()).filter(|&index| index != usize::MAX)
    }

    /// Whether the gradients can be used as the policy demands: `Ok(true)` to go on, `Ok(false)` to
    /// skip.
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

/// Parameters divided into parts, and parts into pieces.
#[derive(Debug, Clone, Copy)]
struct Parts {
    len: usize,
    count: usize,
    /// Parameters of a part; the last ones may have fewer, or none.
    size: usize,
    piece: usize,
}

impl Parts {
    /// All parts, a thread's own first.
    fn from(self, thread: usize) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |i| (thread + i) % self.count)
    }

    /// Where a part begins and ends.
    fn range(self, part: usize) -> (usize, usize) {
        let begin = (part * self.size).min(self.len);
        (begin, (begin + self.size).min(self.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_at_waking_become_rare() {
        let rest = Rest::default();
        let attempts: Vec<usize> = (0..5000).filter(|_| rest.is_over()).collect();
        assert_eq!(attempts[..6], [0, 1, 3, 7, 15, 31]);
        assert!(attempts.len() < 16, "{attempts:?}");
        rest.reset();
        assert!(rest.is_over());
    }

    #[test]
    fn parts_cover_everything_once() {
        for threads in [1, 2, 3, 16, 64] {
            let executor = Executor::with_threads(threads).unwrap().parallel_from(1);
            for len in [0, 1, 15, 16, 17, 100, 1000, 123_457] {
                let parts = executor.parts(len);
                let mut end = 0;
                for part in 0..parts.count {
                    let range = parts.range(part);
                    assert_eq!(range.0, end);
                    end = range.1;
                }
                assert_eq!(end, len);
                let mut order: Vec<usize> = parts.from(threads - 1).collect();
                order.sort_unstable();
                assert!(order.into_iter().eq(0..parts.count));
            }
        }
    }
}
