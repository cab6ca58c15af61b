//! A few threads that wait for one job at a time. A job is a closure that takes pieces of work until none is left: the
//! caller begins at once, a thread that wakes up in time helps, and one that wakes up late finds nothing and is not waited
//! for.
//!
//! Nothing is allocated between the start and the end of the threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A borrowed closure without its lifetime; see [`Workers::run`] for why that is sound.
#[derive(Clone, Copy)]
struct Job {
    call: unsafe fn(*const ()),
    data: *const (),
}

// SAFETY: `data` points to an `F: Sync` (see `Workers::run`), which may be used from other threads.
unsafe impl Send for Job {}

#[derive(Default)]
struct Board {
    job: Option<Job>,
    /// Counts the jobs, so that a thread does each once.
    number: u64,
    /// Threads that are inside the job.
    running: usize,
    panicked: bool,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    board: Mutex<Board>,
    posted: Condvar,
    finished: Condvar,
    /// Held while a job is out: one at a time.
    turn: Mutex<()>,
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        // The lock is never held while foreign code runs, so a poisoned board is still consistent.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waiting threads, stopped and joined when dropped.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers")
            .field("threads", &self.handles.len())
            .finish()
    }
}

impl Workers {
    /// Starts `count` threads; fewer if the system refuses.
    pub fn start(count: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let mut handles = Vec::with_capacity(count);
        for index in 0..count {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(format!("cbopt-{}", index + 1));
            match thread.spawn(move || work(&shared)) {
                Ok(handle) => handles.push(handle),
                Err(_) => break,
            }
        }
        Self { shared, handles }
    }

    /// Threads of this pool, the calling thread not counted.
    pub fn count(&self) -> usize {
        self.handles.len()
    }

    /// Calls `job` here and at most once in each thread, and returns when all calls have returned.
    ///
    /// # Panics
    /// If a call panics, after all of them have ended.
    pub fn run<F: Fn() + Sync>(&self, job: &F) {
        /// # Safety
        /// `data` must point to a live `F`.
        unsafe fn call<F: Fn()>(data: *const ()) {
            // SAFETY: the caller promises that `data` points to a live `F`.
            unsafe { (*data.cast::<F>())() }
        }
        let _turn = self
            .shared
            .turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        {
            let mut board = self.shared.board();
            board.job = Some(Job {
                call: call::<F>,
                data: std::ptr::from_ref(job).cast(),
            });
            board.number += 1;
        }
        self.shared.posted.notify_all();
        // The pointer to `job` stays valid for the threads: a thread takes it from the board only while counting itself
        // in, under the lock; below, the job leaves the board first, and this function returns, or unwinds, only
        // after every thread that was counted in has counted itself out.
        let own = catch_unwind(AssertUnwindSafe(job));
        let mut board = self.shared.board();
        board.job = None;
        while board.running > 0 {
            board = self
                .shared
                .finished
                .wait(board)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let panicked = std::mem::take(&mut board.panicked);
        drop(board);
        if let Err(payload) = own {
            std::panic::resume_unwind(payload);
        }
        assert!(!panicked, "a worker thread panicked");
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.board().stop = true;
        self.shared.posted.notify_all();
        for handle in self.handles.drain(..) {
            // A thread catches the panics of its jobs, so joining cannot fail.
            let _ = handle.join();
        }
    }
}

fn work(shared: &Shared) {
    let mut done = 0;
    loop {
        let job = {
            let mut board = shared.board();
            loop {
                if board.stop {
                    return;
                }
                if board.number != done
                    && let Some(job) = board.job
                {
                    done = board.number;
                    board.running += 1;
                    break job;
                }
                board = shared
                    .posted
                    .wait(board)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: `Workers::run` keeps the closure behind `data` alive until this thread, which is
            // counted in `running`, has counted itself out below.
            unsafe { (job.call)(job.data) }
        }));
        let mut board = shared.board();
        board.panicked |= outcome.is_err();
        board.running -= 1;
        if board.running == 0 {
            shared.finished.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn all_work_is_done_once_and_helpers_help() {
        let workers = Workers::start(3);
        let mut helped = 0;
        for _ in 0..200 {
            let next = AtomicUsize::new(0);
            let done: [AtomicUsize; 100] = [const { AtomicUsize::new(0) }; 100];
            let calls = AtomicUsize::new(0);
            workers.run(&|| {
                calls.fetch_add(1, Ordering::Relaxed);
                loop {
                    let piece = next.fetch_add(1, Ordering::Relaxed);
                    let Some(slot) = done.get(piece) else { break };
                    slot.fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                }
            });
            assert!(done.iter().all(|d| d.load(Ordering::Relaxed) == 1));
            assert!((1..=4).contains(&calls.load(Ordering::Relaxed)));
            helped += calls.load(Ordering::Relaxed) - 1;
        }
        assert!(helped > 0, "no thread ever woke up");
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let workers = Workers::start(2);
        let caller = std::thread::current().id();
        // Once in the calling thread, once in another one; each waits until two calls have begun.
        for own in [true, false] {
            let begun = AtomicUsize::new(0);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                workers.run(&|| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    while begun.load(Ordering::SeqCst) < 2 {
                        std::thread::yield_now();
                    }
                    assert_ne!(std::thread::current().id() == caller, own, "stop");
                });
            }));
            assert!(outcome.is_err());
        }
        let calls = AtomicUsize::new(0);
        workers.run(&|| {
            calls.fetch_add(1, Ordering::Relaxed);
        });
        assert!(calls.load(Ordering::Relaxed) >= 1);
    }
}
