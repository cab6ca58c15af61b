//! Writes networks of every kind as ONNX, with images and the logits that the engine gives them:
//! `cargo run -p maxitive-experiment --example onnx_cases [FOLDER]`, by default the folder `onnx`.
//! `golden/generate/gen_onnx.py` runs it and compares with onnxruntime.

#[path = "../tests/all/onnx_cases.rs"]
mod onnx_cases;

use std::path::PathBuf;
use std::{env, fs, io};

use experiment::weights::to_bytes;

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args().nth(1).unwrap_or_else(|| "onnx".into()));
    fs::create_dir_all(&folder)?;
    for case in onnx_cases::cases() {
        let file = |kind: &str| folder.join(format!("{}.{kind}", case.name));
        fs::write(file("onnx"), case.onnx())?;
        fs::write(file("pixels"), to_bytes(&case.pixels))?;
        fs::write(file("logits"), to_bytes(&case.logits()))?;
    }
    Ok(())
}
