//! The largest number of multiply-adds per second that this machine was seen to do.

use std::time::Instant;

use super::vector::{Vector, kernel};
use machine::{Isa, Workers};

/// Independent sums, enough to hide the latency of a multiply-add.
const SUMS: usize = 12;
const ROUNDS: usize = 20_000;

#[inline(always)]
unsafe fn multiply_add<V: Vector>(seed: f32, out: *mut f32) {
    // SAFETY: `out` has room for one vector.
    unsafe {
        let (a, b) = (V::splat(0.999 + seed), V::splat(1e-3));
        let mut sums = [V::splat(1.0); SUMS];
        for _ in 0..ROUNDS {
            for s in &mut sums {
                *s = b.fma(*s, a);
            }
        }
        let mut total = sums[0];
        for s in &sums[1..] {
            total = total.add(*s);
        }
        total.store(out);
        *out = total.sum();
    }
}
kernel!(run_multiply_add = multiply_add(seed: f32, out: *mut f32));

/// GFLOP/s of register-only multiply-adds on `threads` threads, the best of several rounds.
pub fn peak_gflops(isa: Isa, threads: usize) -> f64 {
    let width = match isa.name() {
        "avx512" => 16,
        "avx2" => 8,
        _ => 4,
    };
    let flops = (2 * SUMS * ROUNDS * width) as f64;
    let workers = Workers::start(threads);
    let mut best = 0.0f64;
    for _ in 0..40 {
        // Each call times itself, so that a thread that comes late does not count as slow.
        let rates = std::sync::Mutex::new(Vec::new());
        let begun = std::sync::atomic::AtomicUsize::new(0);
        let count = workers.count();
        workers.run(&|_| {
            use std::sync::atomic::Ordering::SeqCst;
            begun.fetch_add(1, SeqCst);
            let wait = Instant::now();
            while begun.load(SeqCst) < count && wait.elapsed().as_millis() < 5 {
                std::hint::spin_loop();
            }
            let mut out = [0.0f32; 16];
            let start = Instant::now();
            for i in 0..4 {
                // SAFETY: room for the widest vector.
                unsafe { run_multiply_add(isa, i as f32 * 1e-6, out.as_mut_ptr()) };
            }
            let rate = 4.0 * flops / start.elapsed().as_secs_f64() / 1e9;
            std::hint::black_box(out);
            rates
                .lock()
                .expect("nobody panics with the lock")
                .push(rate);
        });
        let rates = rates.into_inner().expect("nobody panics with the lock");
        best = best.max(rates.iter().sum());
    }
    best
}
