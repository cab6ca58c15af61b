//! Exported networks against what onnxruntime computes from them.

use sha2::{Digest, Sha256};

use crate::onnx_cases::{IMAGES, cases};

/// Two programs that sum the same `f32` products in another order.
const TOLERANCE: f64 = 1e-5;

#[test]
fn golden_logits_of_onnxruntime_are_ours() {
    let golden = golden::cases("onnx/logits.json");
    let cases = cases();
    assert_eq!(golden.len(), cases.len());
    for (case, expected) in cases.iter().zip(&golden) {
        let name = case.name;
        assert_eq!(expected["name"], name);
        // the file that onnxruntime has read, to the byte
        let sum = Sha256::digest(case.onnx());
        let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            expected["sha256"],
            sum.as_str(),
            "{name}: the file changed; golden/generate/gen_onnx.py checks the new one"
        );
        let ours: Vec<f64> = case.logits().into_iter().map(f64::from).collect();
        assert_eq!(ours.len(), IMAGES * case.network.classes());
        let theirs = golden::numbers(&expected["logits"]);
        golden::assert_close(name, &ours, &theirs, TOLERANCE);
    }
}

#[test]
fn constants_have_to_be_those_of_the_network() {
    let case = cases().swap_remove(3);
    let encode = |weights: &[f32], channels: usize| {
        let normalization = images::Normalization::identity(channels);
        experiment::onnx::encode(&case.network, weights, &normalization, &[])
            .map_err(|error| error.to_string())
    };
    assert!(encode(&case.weights, 1).is_ok());
    let message = encode(&case.weights, 3).unwrap_err();
    assert!(
        message.contains("constants for 3 channels, the network takes 1"),
        "{message}"
    );
    assert!(encode(&case.weights[1..], 1).is_err());
}
