//! What a run ran on, as far as the system tells.

use std::fs;

use evaluation::record::{Code, Hardware};

/// The machine, with what the run uses of it.
pub fn hardware(threads: usize, isa: engine::Isa) -> Hardware {
    Hardware {
        device: processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        threads,
        isa: isa.name().to_owned(),
    }
}

/// Name of the processor on Linux.
fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Largest resident memory of this process so far in bytes, on Linux.
pub fn peak_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// This program.
pub fn code() -> Code {
    Code {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("MAXITIVE_COMMIT").map(str::to_owned),
    }
}
