//! Threads that wait for one job at a time: they spin for a moment, then yield, then sleep.
//!
//! A job is a closure that takes pieces of work until none is left. The caller begins at once; a
//! thread that wakes up in time helps, and one that wakes up late finds the job closed and is not
//! waited for. Nothing is allocated between start and end.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;

/// How often a thread polls for a job before it begins to yield: some ten microseconds.
const SPINS: usize = if cfg!(miri) { 2 } else { 2000 };
/// How often it polls then, with a yield after each, before it sleeps.
const YIELDS: usize = if cfg!(miri) { 2 } else { 100 };

/// A borrowed closure without its lifetime; see [`Workers::run`] for why that is sound.
#[derive(Clone, Copy)]
struct Job {
    call: unsafe fn(*const (), usize),
    data: *const (),
}

struct Shared {
    /// Number of the job that can be joined, 0 if none.
    open: AtomicUsize,
    /// Threads that have joined, or are checking whether they can.
    active: AtomicUsize,
    /// Written only while no job is open and no thread inside one.
    job: UnsafeCell<Option<Job>>,
    /// Threads that sleep; raised under `sleep_lock`.
    sleeping: AtomicUsize,
    sleep_lock: Mutex<()>,
    wake_up: Condvar,
    panicked: AtomicBool,
    stop: AtomicBool,
}

// SAFETY: `job` is read only by threads counted in `active` while a job is open, and written only
// when there are none.
unsafe impl Sync for Shared {}
// SAFETY: the pointer inside `job` leads to a closure that is `Sync`.
unsafe impl Send for Shared {}

/// A pool of waiting threads that share work with the thread that has it; they are stopped and
/// joined when dropped.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let workers = machine::Workers::start(2);
/// let (next, sum) = (AtomicUsize::new(1), AtomicUsize::new(0));
/// workers.run(&|_thread| {
///     loop {
///         let piece = next.fetch_add(1, Ordering::Relaxed);
///         if piece > 100 {
///             break;
///         }
///         sum.fetch_add(piece, Ordering::Relaxed);
///     }
/// });
/// assert_eq!(sum.into_inner(), 5050);
/// ```
pub struct Workers {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
    /// Number of the last job; held while a job is out.
    turn: Mutex<usize>,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers")
            .field("threads", &self.count())
            .finish_non_exhaustive()
    }
}

impl Workers {
    /// Starts threads so that there are `threads` with the calling one; fewer if the system
    /// refuses.
    pub fn start(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            open: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            job: UnsafeCell::new(None),
            sleeping: AtomicUsize::new(0),
            sleep_lock: Mutex::new(()),
            wake_up: Condvar::new(),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let mut handles = Vec::new();
        for index in 1..threads {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            match thread.spawn(move || work(&shared, index)) {
                Ok(handle) => handles.push(handle),
                Err(_) => break,
            }
        }
        Self {
            shared,
            handles,
            turn: Mutex::new(0),
        }
    }

    /// Threads, the calling one included.
    pub fn count(&self) -> usize {
        self.handles.len() + 1
    }

    /// Whether a thread is polling for work right now, so that a small job is worth sharing.
    pub fn is_awake(&self) -> bool {
        self.shared.sleeping.load(SeqCst) < self.handles.len()
    }

    /// Wakes sleeping threads, which then poll for work for a moment. Costs a system call if there
    /// are any.
    pub fn wake(&self) {
        if self.shared.sleeping.load(SeqCst) > 0 {
            self.shared.notify();
        }
    }

    /// Calls `job(0)` here and at most once `job(index)`, `index` in `1..count`, in each thread;
    /// returns when all calls have returned. If the threads have a job already, given by another
    /// thread or by this one, the caller works alone.
    ///
    /// # Panics
    /// If a call panics, after all of them have ended.
    pub fn run<F: Fn(usize) + Sync>(&self, job: &F) {
        /// # Safety
        /// `data` must point to a live `F`.
        unsafe fn call<F: Fn(usize)>(data: *const (), index: usize) {
            // SAFETY: the caller promises that `data` points to a live `F`.
            unsafe { (*data.cast::<F>())(index) }
        }
        if self.handles.is_empty() {
            return job(0);
        }
        let mut number = match self.turn.try_lock() {
            Ok(number) => number,
            // A job that panicked was waited for all the same.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return job(0),
        };
        let shared = &*self.shared;
        *number += 1;
        // SAFETY: no job is open and no thread is inside one: whoever had the turn before waited
        // for that. A thread that is just checking (active, but not joined) does not read the cell.
        unsafe {
            *shared.job.get() = Some(Job {
                call: call::<F>,
                data: std::ptr::from_ref(job).cast(),
            });
        }
        shared.open.store(*number, SeqCst);
        self.wake();
        let own = catch_unwind(AssertUnwindSafe(|| job(0)));
        shared.open.store(0, SeqCst);
        let mut polls = 0;
        while shared.active.load(SeqCst) > 0 {
            pause(&mut polls);
        }
        let panicked = shared.panicked.swap(false, SeqCst);
        if let Err(payload) = own {
            std::panic::resume_unwind(payload);
        }
        assert!(!panicked, "a worker thread panicked");
    }
}

impl Shared {
    /// Wakes every sleeping thread. A thread about to sleep holds the lock until it sleeps, so that
    /// taking the lock once makes sure that it is notified, too.
    fn notify(&self) {
        drop(
            self.sleep_lock
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        self.wake_up.notify_all();
    }
}

/// Waits a little, longer after many polls.
fn pause(polls: &mut usize) {
    *polls += 1;
    if *polls < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        self.shared.notify();
        for handle in self.handles.drain(..) {
            // A thread catches the panics of its jobs, so joining cannot fail.
            let _ = handle.join();
        }
    }
}

/// What a thread of the pool does until it is told to stop.
fn work(shared: &Shared, index: usize) {
    let mut done = 0;
    let mut polls = 0;
    loop {
        if shared.stop.load(SeqCst) {
            return;
        }
        let open = shared.open.load(SeqCst);
        if open == 0 || open == done {
            if polls < SPINS + YIELDS {
                pause(&mut polls);
                continue;
            }
            let guard = shared
                .sleep_lock
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            shared.sleeping.fetch_add(1, SeqCst);
            let open = shared.open.load(SeqCst);
            if (open == 0 || open == done) && !shared.stop.load(SeqCst) {
                drop(
                    shared
                        .wake_up
                        .wait(guard)
                        .unwrap_or_else(PoisonError::into_inner),
                );
            }
            shared.sleeping.fetch_sub(1, SeqCst);
            polls = 0;
            continue;
        }
        polls = 0;
        shared.active.fetch_add(1, SeqCst);
        // The job may have been closed, or even replaced, since the poll.
        let open = shared.open.load(SeqCst);
        if open != 0 && open != done {
            done = open;
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: this thread is active and the job is open, so that `Workers::run` does
                // not return, and nobody writes the cell, before `active` is counted down below.
                unsafe {
                    if let Some(job) = *shared.job.get() {
                        (job.call)(job.data, index);
                    }
                }
            }));
            if outcome.is_err() {
                shared.panicked.store(true, SeqCst);
            }
        }
        shared.active.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs given; few where every access to memory is checked.
    const ROUNDS: usize = if cfg!(miri) { 6 } else { 300 };

    #[test]
    fn all_work_is_done_once_and_helpers_help() {
        let workers = Workers::start(4);
        let mut helped = 0;
        for round in 0..ROUNDS {
            if round % 50 == 0 {
                // long enough for the threads to fall asleep
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let next = AtomicUsize::new(0);
            let done: [AtomicUsize; 40] = [const { AtomicUsize::new(0) }; 40];
            let inside: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];
            workers.run(&|index| {
                assert_eq!(inside[index].fetch_add(1, SeqCst), 0);
                while let Some(slot) = done.get(next.fetch_add(1, SeqCst)) {
                    slot.fetch_add(1, SeqCst);
                    std::thread::yield_now();
                }
            });
            assert!(done.iter().all(|d| d.load(SeqCst) == 1));
            helped += inside[1..].iter().map(|n| n.load(SeqCst)).sum::<usize>();
        }
        assert!(helped > 0, "no thread ever woke up");
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let workers = Workers::start(2);
        // Once in the calling thread, once in another one; each waits until two calls have begun.
        for own in [true, false] {
            let begun = AtomicUsize::new(0);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                workers.run(&|index| {
                    begun.fetch_add(1, SeqCst);
                    while begun.load(SeqCst) < 2 {
                        std::thread::yield_now();
                    }
                    assert_ne!(index == 0, own, "stop");
                });
            }));
            assert!(outcome.is_err());
        }
        let calls = AtomicUsize::new(0);
        workers.run(&|_| {
            calls.fetch_add(1, SeqCst);
        });
        assert!(calls.load(SeqCst) >= 1);
    }

    #[test]
    fn a_job_inside_a_job_and_two_callers_do_not_wait_for_each_other() {
        let workers = Workers::start(3);
        let inner = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS / 3 {
                        workers.run(&|_| {
                            workers.run(&|_| {
                                inner.fetch_add(1, SeqCst);
                            });
                        });
                    }
                });
            }
        });
        assert!(inner.load(SeqCst) >= 2 * (ROUNDS / 3));
    }

    #[test]
    fn threads_fall_asleep_and_wake_up() {
        let workers = Workers::start(2);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while workers.is_awake() {
            assert!(std::time::Instant::now() < deadline, "spins for ever");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let calls = AtomicUsize::new(0);
        workers.run(&|_| {
            calls.fetch_add(1, SeqCst);
            while calls.load(SeqCst) < 2 {
                std::thread::yield_now();
            }
        });
        assert_eq!(calls.load(SeqCst), 2);
        assert!(!Workers::start(1).is_awake());
    }
}
