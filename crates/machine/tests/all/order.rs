//! What the worker pool takes for granted of the machine.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Of two threads that store and then look at the other's place, one sees the other.
///
/// Every machine keeps this order for sequentially consistent operations, but not every emulator:
/// qemu 7.2 for aarch64 lets the load go first on x86-64 with several cores. Then a thread of the
/// pool goes to sleep just as it gets a job, and nobody wakes it: tests do not end.
#[test]
fn a_store_is_seen_before_a_later_load() {
    let rounds = if cfg!(miri) { 20 } else { 5000 };
    let [here, there, begun, ended] = [const { AtomicUsize::new(0) }; 4];
    let wait = |place: &AtomicUsize, round: usize| {
        let mut polls = 0;
        while place.load(SeqCst) < round {
            polls += 1;
            match polls {
                0..1000 => std::hint::spin_loop(),
                _ => std::thread::yield_now(),
            }
        }
    };
    let (seen, seen_there) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let round = |round| {
                wait(&begun, round);
                there.store(round, SeqCst);
                let seen = here.load(SeqCst);
                ended.store(round, SeqCst);
                seen
            };
            (1..=rounds).map(round).collect::<Vec<_>>()
        });
        let round = |round| {
            begun.store(round, SeqCst);
            here.store(round, SeqCst);
            let seen = there.load(SeqCst);
            wait(&ended, round);
            seen
        };
        let seen = (1..=rounds).map(round).collect::<Vec<_>>();
        (seen, other.join().expect("it does not panic"))
    });
    let both = seen.iter().zip(&seen_there).zip(1..);
    let missed = both.filter(|&((&a, &b), round)| a < round && b < round);
    assert_eq!(missed.count(), 0, "the machine lets loads pass stores");
}
