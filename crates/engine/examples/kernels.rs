//! Compiles the CUDA kernels with NVRTC, which needs no GPU:
//!
//! ```text
//! cargo run -p maxitive-engine --example kernels -- FOLDER [sm_80 sm_90 sm_100]
//! ```
//!
//! The files go to FOLDER under the names that the library looks for, so that a program with
//! `MAXITIVE_KERNELS=FOLDER`, or with them in a folder `kernels` beside it, needs no compiler.
//! Without arguments it lists the names. NVRTC is looked for in the folder that `MAXITIVE_NVRTC`
//! names, then where the system looks.
#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::time::Instant;

use engine::kernels::{Source, compile};

/// Architectures that cubins are made for if none is named.
const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().map(PathBuf::from);
    let mut architectures: Vec<String> = words.collect();
    if architectures.is_empty() {
        architectures = ARCHITECTURES.map(str::to_owned).to_vec();
    }
    for architecture in &architectures {
        for source in Source::ALL.into_iter().filter(|s| s.serves(architecture)) {
            let name = source.cubin_name(architecture);
            let Some(folder) = &folder else {
                println!("{name}");
                continue;
            };
            let start = Instant::now();
            let compiled = compile(source, architecture, &["--ptxas-options=-v"])?;
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join(&name), &compiled.cubin)?;
            let (bytes, seconds) = (compiled.cubin.len(), start.elapsed().as_secs_f64());
            println!("{name}: {bytes} bytes, {seconds:.1} s");
            for (kernel, registers, spilled) in resources(&compiled.log) {
                println!("    {kernel:32} {registers:>4} registers {spilled:>5} bytes spilled");
            }
        }
    }
    Ok(())
}

/// Registers and bytes spilled of every kernel, from the compiler's log.
fn resources(log: &str) -> Vec<(String, String, u64)> {
    let mut rows = Vec::new();
    let (mut name, mut spilled) = (String::new(), 0);
    let number = |text: &str| text.trim().split(' ').next()?.parse::<u64>().ok();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            name = rest.split('\'').next().unwrap_or_default().to_owned();
        } else if line.contains("bytes spill stores") {
            spilled = line.split(',').skip(1).filter_map(number).sum();
        } else if let Some((_, rest)) = line.split_once("Used ") {
            let registers = rest.split(' ').next().unwrap_or_default().to_owned();
            rows.push((name.clone(), registers, spilled));
        }
    }
    rows
}
