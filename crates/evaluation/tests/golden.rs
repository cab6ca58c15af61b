//! The metrics against scikit-learn and plain numpy.

#![allow(clippy::unwrap_used)]

use evaluation::{CalibrationConfig, Outcomes, Ranking, Scheme};
use golden::{Value, cases, numbers, optional, quotients, size};

/// Sums of at most some thousand terms; rank metrics are exact given exact scores.
const TOLERANCE: f64 = 1e-12;

#[track_caller]
fn check(case: &Value, key: &str, found: Option<f64>) {
    let (name, expected) = (&case["name"], &case["expected"]);
    let wanted = optional(
        expected
            .get(key)
            .unwrap_or_else(|| panic!("{name} has no {key}")),
    );
    let same = match (found, wanted) {
        (Some(found), Some(wanted)) => found == wanted || (found - wanted).abs() <= TOLERANCE,
        (found, wanted) => found == wanted,
    };
    assert!(same, "{name} {key}: {found:?} instead of {wanted:?}");
}

fn calibration(bins: usize) -> CalibrationConfig {
    CalibrationConfig {
        bins,
        scheme: Scheme::EqualWidth,
    }
}

#[test]
fn golden_in_domain() {
    for case in cases("metrics/indomain.json") {
        let probabilities = match case.get("probs") {
            Some(probabilities) => numbers(probabilities),
            None => quotients(&case["prob_counts"], &case["denominator"]),
        };
        let labels: Vec<i64> = numbers(&case["labels"]).iter().map(|&y| y as i64).collect();
        let classes = size(&case["classes"]);
        assert_eq!(labels.len() as u64, case["n"].as_u64().unwrap());
        let (found, reliability) =
            evaluation::in_domain(&probabilities, classes, &labels, &calibration(20)).unwrap();
        let metrics = &found.values;
        check(&case, "accuracy", metrics.accuracy);
        check(&case, "top5", metrics.top5);
        check(&case, "nll", metrics.nll);
        check(&case, "brier", metrics.brier);
        check(&case, "ece20", metrics.ece);
        check(&case, "auroc_correct_vs_confidence", metrics.auroc);
        let outcomes = Outcomes::new(&probabilities, classes, &labels).unwrap();
        check(
            &case,
            "nll_clamped_f64_tiny",
            Some(outcomes.nll_with_floor(f64::MIN_POSITIVE)),
        );
        let tiny = f64::from(f32::MIN_POSITIVE);
        check(
            &case,
            "nll_clamped_f32_tiny",
            Some(outcomes.nll_with_floor(tiny)),
        );
        for bins in [10, 15] {
            let (found, _) = outcomes.in_domain(&calibration(bins)).unwrap();
            check(&case, &format!("ece{bins}"), found.values.ece);
        }
        let bins = &case["expected"]["bins20"];
        let (count, right) = (numbers(&bins["count"]), numbers(&bins["correct"]));
        let confidence = numbers(&bins["sum_confidence"]);
        assert_eq!(reliability.bins.len(), count.len());
        let mut sum = 0.0;
        for (i, bin) in reliability.bins.iter().enumerate() {
            let name = &case["name"];
            assert_eq!(bin.count as f64, count[i], "{name}");
            assert_eq!(bin.right as f64, right[i], "{name}");
            let found = bin.confidence.unwrap_or(0.0) * bin.count as f64;
            assert!((found - confidence[i]).abs() <= TOLERANCE, "{name} bin {i}");
            sum += found;
        }
        check(&case, "mean_confidence", Some(sum / labels.len() as f64));
        // counts over a power of two are exact in f32, where all metrics are the same
        let single: Vec<f32> = probabilities.iter().map(|&p| p as f32).collect();
        if case.get("probs").is_none() {
            let again = evaluation::in_domain(&single, classes, &labels, &calibration(20)).unwrap();
            assert_eq!(again, (found, reliability), "{}", case["name"]);
        }
    }
}

#[test]
fn golden_out_of_domain() {
    for case in cases("metrics/ood.json") {
        let (ins, outs) = (
            quotients(&case["in_counts"], &case["denominator"]),
            quotients(&case["out_counts"], &case["denominator"]),
        );
        let found = evaluation::out_of_domain("maximum probability", &ins, &outs).unwrap();
        let metrics = &found.values;
        check(&case, "auroc", metrics.auroc);
        check(&case, "aupr_in", metrics.aupr_in);
        check(&case, "aupr_out", metrics.aupr_out);
        check(&case, "fpr95_standard", metrics.fpr_at_95_tpr);
        check(&case, "fpr95_averaged", metrics.mean_fpr_below_95_tpr);
        check(&case, "detection_error", metrics.detection_error);
        assert_eq!(
            (found.in_samples, found.out_samples),
            (ins.len(), outs.len())
        );
        let ranking = Ranking::new(&ins, &outs).unwrap();
        let reduced = ranking.roc(true);
        check(
            &case,
            "roc_vertices_full",
            Some(ranking.roc(false).len() as f64),
        );
        check(&case, "roc_vertices_reduced", Some(reduced.len() as f64));
        let expected = &case["expected"];
        if expected.get("fpr").is_some() {
            let vertices: Vec<(f64, f64)> = numbers(&expected["fpr"])
                .into_iter()
                .zip(numbers(&expected["tpr"]))
                .collect();
            assert_eq!(reduced, vertices, "{}", case["name"]);
        }
    }
}
