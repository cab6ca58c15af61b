//! `maxitive devices`: where networks can be trained on this machine.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use engine::{CardInfo, Device};
use serde_json::{Value, json};

/// List the devices of this machine: the processor and the GPUs, or why there is none.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The names are those that --device takes. A GPU needs NVIDIA's driver, and the compiled kernels of
this program or NVRTC, which compiles them; what is missing is said, with --json as gpu_problem.

Examples:
  maxitive devices
  maxitive devices --json")]
pub struct DevicesArgs {
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Standard output is closed.
pub fn execute(args: DevicesArgs) -> anyhow::Result<ExitCode> {
    let (cpu, gpus) = (Device::cpu(), Device::gpus());
    let mut out = io::stdout();
    if args.json {
        let mut devices = vec![json!({
            "name": cpu.name(),
            "threads": cpu.thread_count(),
            "instructions": cpu.instruction_set().name(),
        })];
        let mut problem = Value::Null;
        match &gpus {
            Ok(gpus) => {
                for (number, gpu) in gpus.iter().enumerate() {
                    let found = Device::gpu_problem(number);
                    if let (Some(found), Value::Null) = (&found, &problem) {
                        problem = found.as_str().into();
                    }
                    devices.push(described(number, gpu, found));
                }
            }
            Err(error) => problem = error.to_string().into(),
        }
        let all = json!({ "devices": devices, "gpu_problem": problem });
        writeln!(out, "{all}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let (threads, instructions) = (cpu.thread_count(), cpu.instruction_set().name());
    writeln!(out, "cpu     {threads} threads, {instructions}")?;
    match gpus {
        Ok(gpus) if gpus.is_empty() => writeln!(out, "no GPU: the CUDA driver finds none")?,
        Ok(gpus) => {
            for (number, gpu) in gpus.iter().enumerate() {
                let name = name(number);
                let gib = gpu.memory as f64 / f64::from(1 << 30);
                let ((major, minor), driver) = (gpu.capability, version(gpu.driver));
                writeln!(
                    out,
                    "{name:7} {}, {gib:.1} GiB, compute capability {major}.{minor}, driver for \
                     CUDA {driver}",
                    gpu.name
                )?;
                if let Some(problem) = Device::gpu_problem(number) {
                    writeln!(out, "        cannot be used: {problem}")?;
                }
            }
        }
        Err(error) => writeln!(out, "no GPU: {error}")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What `--device` calls the GPU of this number.
fn name(number: usize) -> String {
    match number {
        0 => "cuda".into(),
        number => format!("cuda:{number}"),
    }
}

/// 13000 as 13.0.
fn version(driver: i32) -> String {
    format!("{}.{}", driver / 1000, driver % 1000 / 10)
}

fn described(number: usize, gpu: &CardInfo, problem: Option<String>) -> Value {
    let (major, minor) = gpu.capability;
    json!({
        "name": name(number),
        "card": gpu.name,
        "memory_bytes": gpu.memory,
        "compute_capability": format!("{major}.{minor}"),
        "driver_cuda": version(gpu.driver),
        "problem": problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_cuda_writes_them() {
        assert_eq!(
            (version(13000), version(12080)),
            ("13.0".into(), "12.8".into())
        );
    }
}
