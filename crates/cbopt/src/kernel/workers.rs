//! A few threads that wait for one job at a time; a job is a closure called once per thread.
//!
//! Nothing is allocated between the start and the end of the threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A borrowed closure without its lifetime; see [`Workers::run`] for why that is sound.
#[derive(Clone, Copy)]
struct Job {
    call: unsafe fn(*const (), usize),
    data: *const (),
}

// SAFETY: `data` points to an `F: Sync` (see `Workers::run`), which may be used from other threads.
unsafe impl Send for Job {}

#[derive(Default)]
struct Board {
    job: Option<Job>,
    /// Counts the jobs, so that a thread does each once.
    number: u64,
    /// Threads that have not finished the job.
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
            match thread.spawn(move || work(&shared, index + 1)) {
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

    /// Calls `job(0)` here and `job(1)`, `job(2)`, … in the threads, and returns when all have returned.
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
            board.running = self.handles.len();
            self.shared.posted.notify_all();
        }
        // The pointer to `job` stays valid for the threads: this function returns, or unwinds, only after
        // `running` is back at zero, and a thread touches the job only before it counts itself out.
        let own = catch_unwind(AssertUnwindSafe(|| job(0)));
        let mut board = self.shared.board();
        while board.running > 0 {
            board = self
                .shared
                .finished
                .wait(board)
                .unwrap_or_else(PoisonError::into_inner);
        }
        board.job = None;
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

fn work(shared: &Shared, index: usize) {
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
            unsafe { (job.call)(job.data, index) }
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
    fn every_index_is_called_once_per_job() {
        let workers = Workers::start(3);
        let calls: [AtomicUsize; 4] = Default::default();
        for round in 1..=100 {
            workers.run(&|index: usize| {
                calls[index].fetch_add(1, Ordering::Relaxed);
            });
            assert!(calls.iter().all(|c| c.load(Ordering::Relaxed) == round));
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let workers = Workers::start(2);
        for bad in 0..3 {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                workers.run(&|index: usize| assert_ne!(index, bad, "stop"));
            }));
            assert!(outcome.is_err());
        }
        let calls = AtomicUsize::new(0);
        workers.run(&|_| {
            calls.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }
}
