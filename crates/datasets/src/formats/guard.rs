//! Decoders of others, which may panic at a damaged file.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// What is said of a file at which a decoder panicked.
pub const PROBLEM: &str = "is damaged in a way that its decoder cannot cope with";

/// From now on nothing is printed of a decoder that panics: it makes an error that names the file.
pub fn keep_quiet() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !DECODING.get() {
            report(info);
        }
    }));
}

/// What a decoder gives; none if it panicked: it has met a damaged file and a mistake of its own,
/// and nothing of it is to be used again.
pub fn guarded<T>(decode: impl FnOnce() -> T) -> Option<T> {
    let before = DECODING.replace(true);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(before);
    decoded.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_that_panics_gives_nothing() {
        assert_eq!(guarded(|| DECODING.get().then_some(3)), Some(Some(3)));
        assert_eq!(guarded(|| -> u8 { panic!("index out of bounds") }), None);
        assert!(!DECODING.get());
    }
}
