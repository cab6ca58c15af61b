//! Compiles the CUDA kernels with NVRTC, which needs no GPU:
//!
//! ```text
//! cargo run -p maxitive-engine --example kernels -- FOLDER [sm_80 sm_90 sm_100]
//! ```
//!
//! The files go to FOLDER under the names that the library looks for, so that a program with
//! `MAXITIVE_KERNELS=FOLDER`, or with them in a folder `kernels` beside it, needs no compiler.
//! A file that is there is not made again, and those of other sources are removed. Without
//! arguments it lists the names. NVRTC is looked for in the folder that `MAXITIVE_NVRTC` names,
//! then where the system looks.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use engine::kernels::{Source, compile};

/// Architectures that cubins are made for if none is named.
const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

fn main() -> Result<(), Box<dyn Error>> {
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
            if folder.join(&name).exists() {
                println!("{name}: is there");
            } else {
                make(source, architecture, folder, &name)?;
            }
        }
    }
    Ok(())
}

/// Compiles one file, whole or not at all, in the place of what was made of it before.
fn make(
    source: Source,
    architecture: &str,
    folder: &Path,
    name: &str,
) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let compiled = compile(source, architecture, &["--ptxas-options=-v"])?;
    let (bytes, seconds) = (compiled.cubin.len(), start.elapsed().as_secs_f64());
    println!("{name}: {bytes} bytes, {seconds:.1} s");
    for (kernel, registers, spilled) in resources(&compiled.log) {
        println!("    {kernel:32} {registers:>4} registers {spilled:>5} bytes spilled");
        if spilled > 0 && matches!(source, Source::Layers | Source::Rules) {
            return Err(format!("{kernel} spills {spilled} bytes for {architecture}").into());
        }
    }
    std::fs::create_dir_all(folder)?;
    let kind = name.rsplit_once('-').map_or(name, |(kind, _)| kind);
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        let other = file.file_name().to_string_lossy().into_owned();
        if other
            .rsplit_once('-')
            .is_some_and(|(other, _)| other == kind)
        {
            std::fs::remove_file(file.path())?;
        }
    }
    let temporary = folder.join(format!("{name}.{}", std::process::id()));
    std::fs::write(&temporary, &compiled.cubin)?;
    std::fs::rename(temporary, folder.join(name))?;
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
