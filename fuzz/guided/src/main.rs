//! One reader under libFuzzer: `cargo xtask fuzz` builds this with a count of every branch that is
//! taken, and names the reader in the environment.
#![no_main]

use std::sync::LazyLock;

use fuzz::Target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    // what is caught is no finding; libFuzzer's own hook would end the process
    std::panic::set_hook(Box::new(|_| {}));
    let name = std::env::var("TARGET").expect("TARGET names a reader");
    Target::by_name(&name).expect("a reader")
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Err(problem) = fuzz::execute(*TARGET, input) {
        eprintln!("{problem}");
        std::process::abort();
    }
});
