//! Writes networks of every kind as ONNX, with images and the logits that the engine gives them:
//! `cargo run -p maxitive-experiment --example onnx_cases FOLDER`. `golden/generate/gen_onnx.py`
//! runs it and compares with onnxruntime.

#[path = "../tests/all/onnx_cases.rs"]
mod onnx_cases;

use std::path::PathBuf;
use std::{env, fs, io};

use experiment::weights::to_bytes;

fn main() -> io::Result<()> {
    let folder = env::args().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::other("say where to: onnx_cases FOLDER"))?;
    fs::create_dir_all(&folder)?;
    for case in onnx_cases::cases() {
        let file = |kind: &str| folder.join(format!("{}.{kind}", case.name));
        fs::write(file("onnx"), case.onnx())?;
        fs::write(file("pixels"), to_bytes(&case.pixels))?;
        fs::write(file("logits"), to_bytes(&case.logits()))?;
    }
    Ok(())
}
