//! Made-up records that look like real ones: nothing in them was measured. Figures scatter around
//! given means, curves follow simple formulas, and every count is consistent with the number it
//! belongs to.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each user of these helpers needs a part of them, and a failed test may say so by a panic"
)]

use evaluation::record::{
    Checkpoint, Code, EpochPoint, Evaluation, Hardware, OutOfDomainEvaluation, RunRecord, SCHEMA,
    Timings,
};
use evaluation::results::{
    ByClass, Classification, Detection, DetectionCurves, Mistake, Reliability, ReliabilityBin,
    Risk, ScoreHistogram,
};
use evaluation::{InDomain, OutOfDomain};
use serde_json::json;

/// A small generator of pseudo-random numbers (splitmix64).
pub struct Stream(u64);

impl Stream {
    pub fn new(words: &[&str], seed: u64) -> Self {
        let mut state = seed;
        for byte in words.iter().flat_map(|word| word.bytes()) {
            state = state.wrapping_mul(1_099_511_628_211) ^ u64::from(byte);
        }
        Self(state)
    }

    /// Uniform on [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Roughly normal with mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// What a run trains and which rows it gives.
pub struct Method {
    pub rule: &'static str,
    pub network: &'static str,
    pub rows: &'static [(&'static str, &'static str, usize)],
}

impl Method {
    pub const fn new(
        rule: &'static str,
        network: &'static str,
        rows: &'static [(&'static str, &'static str, usize)],
    ) -> Self {
        Self {
            rule,
            network,
            rows,
        }
    }
}

/// The runs behind the main table.
pub const METHODS: [Method; 9] = [
    Method::new("adamw", "lenet", &[("AdamW", "point", 1)]),
    Method::new(
        "sgd",
        "lenet",
        &[("SGD", "point", 1), ("Laplace", "laplace", 1)],
    ),
    Method::new(
        "ivon",
        "lenet",
        &[("IVON@mean", "point", 1), ("IVON", "ivon", 64)],
    ),
    Method::new("sgd", "lenet-dropout", &[("MC-D", "mc-dropout", 64)]),
    Method::new("sgd", "lenet", &[("SWAG", "swag", 64)]),
    Method::new("ucbopt", "lenet", &[("uCBOpt (ϑ→0)", "point", 1)]),
    Method::new("ucbopt", "lenet", &[("uCBOpt", "point", 1)]),
    Method::new("ucbopt-adapt", "lenet", &[("uCBOpt-adapt", "point", 1)]),
    Method::new("lcbopt-adapt", "lenet", &[("lCBOpt-adapt", "point", 1)]),
];

/// Records like those of a reproduction of the Fashion-MNIST table: nine runs a seed, eleven rows,
/// three out-of-domain sets.
pub fn fashion_mnist(seeds: u64, epochs: usize) -> Vec<RunRecord> {
    let sets = [("notmnist", 18_724), ("kmnist", 10_000), ("mnist", 10_000)];
    let mut records = Vec::new();
    for method in &METHODS {
        for seed in 0..seeds {
            records.push(record("fmnist", method, seed, epochs, &sets));
        }
    }
    records
}

/// One record.
pub fn record(
    experiment: &str,
    method: &Method,
    seed: u64,
    epochs: usize,
    sets: &[(&str, usize)],
) -> RunRecord {
    let first = method.rows[0].0;
    let mut stream = Stream::new(&[experiment, first], seed);
    let curves = curves(&mut stream, method.rule, epochs);
    let best = (0..epochs)
        .min_by(|&a, &b| {
            let loss = |i: usize| curves[i].validation_loss.unwrap();
            loss(a).total_cmp(&loss(b))
        })
        .unwrap_or(0);
    let mut evaluations = Vec::new();
    for &(row, predictive, samples) in method.rows {
        for checkpoint in [Checkpoint::Best, Checkpoint::Final] {
            let mut stream = Stream::new(&[experiment, row, predictive], seed);
            let epoch = if checkpoint == Checkpoint::Best {
                best
            } else {
                epochs.saturating_sub(1)
            };
            evaluations.push(evaluation(
                &mut stream,
                row,
                predictive,
                samples,
                checkpoint,
                epoch,
                sets,
            ));
        }
    }
    let train_s: f64 = curves.iter().map(|point| point.seconds).sum();
    let stem: String = first
        .to_lowercase()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect();
    RunRecord {
        schema: SCHEMA.to_owned(),
        name: format!("{stem}-seed{seed}"),
        experiment: experiment.to_owned(),
        dataset: "fashion-mnist".to_owned(),
        network: method.network.to_owned(),
        parameters: 44_426,
        rule: method.rule.to_owned(),
        seed,
        config: json!({
            "dataset": "fashion-mnist", "network": method.network, "epochs": epochs, "batch": 128, "seed": seed,
            "schedule": { "warm_up": 5, "kind": "cosine", "final": 0.0 },
            "rule": { "id": method.rule, "lr": if method.rule == "sgd" { 5e-3 } else { 1e-2 }, "momentum": 0.9,
                      "weight_decay": 2e-3 },
        }),
        code: Code {
            version: "0.1.0".to_owned(),
            commit: Some("0123abcd4567".to_owned()),
        },
        device: "cpu".to_owned(),
        precision: "f32".to_owned(),
        hardware: Hardware {
            device: "Synthetic processor 9000 @ 3.00GHz".to_owned(),
            cores: 2,
            threads: 2,
            isa: "avx512".to_owned(),
        },
        timings: Timings {
            started_unix: 1_790_000_000 + seed * 60 + train_s as u64,
            train_s: train_s * 0.93,
            validation_s: train_s * 0.07,
            evaluation_s: 0.4 * method.rows.len() as f64,
            steps: 422 * epochs as u64,
            resumed: u32::from(seed == 1 && method.rule == "ivon"),
            peak_memory_bytes: Some(310_000_000 + seed * 1_000_000),
            peak_device_bytes: None,
        },
        notes: vec!["kmnist: checked by size alone".to_owned()],
        curves,
        evaluations,
    }
}

fn curves(stream: &mut Stream, rule: &str, epochs: usize) -> Vec<EpochPoint> {
    let (floor, speed, overfit) = match rule {
        "adamw" => (0.02, 0.055, 0.75),
        "sgd" => (0.08, 0.05, 0.18),
        "ivon" => (0.17, 0.07, 0.01),
        "ucbopt" => (0.15, 0.07, 0.03),
        "ucbopt-adapt" => (0.18, 0.06, 0.01),
        _ => (0.16, 0.065, 0.01),
    };
    (0..epochs)
        .map(|epoch| {
            let t = epoch as f64;
            let progress = (t + 1.0) / epochs as f64;
            let train = floor + (0.75 - floor) * (-speed * t).exp() + 0.006 * stream.normal();
            let rest = (-speed * 1.4 * t).exp();
            let validation =
                0.26 + 0.42 * rest + overfit * progress.powi(2) + 0.007 * stream.normal();
            EpochPoint {
                epoch,
                lr: 1e-2
                    * if epoch < 5 {
                        (t + 1.0) / 6.0
                    } else {
                        0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
                    },
                train_loss: train.max(0.004),
                train_accuracy: (1.0 - 0.36 * train.max(0.0)).min(0.9999),
                validation_loss: Some(validation),
                validation_accuracy: Some(0.912 - 0.19 * rest + 0.002 * stream.normal()),
                seconds: 0.55 + 0.02 * stream.uniform(),
                updates: None,
            }
        })
        .collect()
}

fn evaluation(
    stream: &mut Stream,
    row: &str,
    predictive: &str,
    samples: usize,
    checkpoint: Checkpoint,
    epoch: usize,
    sets: &[(&str, usize)],
) -> Evaluation {
    // scattered around plausible places, so that most rows agree with what is published and some do
    // not
    let around = |metric: &str, default: f64, stream: &mut Stream| {
        let known = report::paper::lookup("fmnist", row, checkpoint, metric);
        let center = known.map_or(default, |number| number.mean());
        center
            + known
                .and_then(|number| number.spread())
                .unwrap_or(0.004)
                .max(0.001)
                * stream.normal()
    };
    let accuracy = around("accuracy", 0.905, stream);
    let target = around("ece", 0.02, stream).max(0.004);
    let (reliability, ece) = reliability(accuracy, target, 10_000);
    let nll = around("nll", 0.27, stream);
    let out_of_domain = sets
        .iter()
        .map(|&(dataset, count)| {
            let auroc = (around("emnist-letters/auroc", 0.79, stream)
                + if dataset == "mnist" { 0.02 } else { 0.0 })
            .clamp(0.55, 0.98);
            out_of_domain(dataset, auroc, 10_000, count)
        })
        .collect();
    Evaluation {
        row: row.to_owned(),
        predictive: predictive.to_owned(),
        samples,
        checkpoint,
        epoch,
        seconds: 0.05 * samples as f64 + 0.1,
        in_domain: Classification {
            values: InDomain {
                accuracy: Some(accuracy),
                top5: Some(around("top5", 0.998, stream).min(1.0)),
                nll: Some(nll),
                ece: Some(ece),
                brier: Some(around("brier", 0.14, stream)),
                auroc: Some(around("auroc", 0.905, stream)),
            },
            samples: 10_000,
            classes: 10,
        },
        reliability,
        risk: Some(risk(accuracy)),
        by_class: Some(by_class(accuracy, checkpoint)),
        bounds: None,
        out_of_domain,
        details: serde_json::Map::new(),
        predictions: None,
    }
}

/// Mistakes that grow with the square of the coverage.
fn risk(accuracy: f64) -> Risk {
    let share = |point: usize| point as f64 / 100.0;
    let curve = (1..=100).map(|point| (share(point), (1.0 - accuracy) * share(point).powi(2)));
    Risk {
        aurc: (1.0 - accuracy) / 3.0,
        excess_aurc: (1.0 - accuracy) / 4.0,
        curve: curve.collect(),
    }
}

/// Ten classes of a thousand images; a mistake goes to the next class. The first weights have a
/// picture of theirs.
fn by_class(accuracy: f64, checkpoint: Checkpoint) -> ByClass {
    let right: Vec<usize> = (0..10)
        .map(|class| ((accuracy + 0.01 * (class as f64 - 4.5)).min(1.0) * 1000.0) as usize)
        .collect();
    let confused = (0..10).map(|class| (class, (class + 1) % 10, 1000 - right[class]));
    let dot = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGM4AQAAygDJmcpdfgAAAABJRU5ErkJggg==";
    ByClass {
        names: (0..10).map(|class| format!("class {class}")).collect(),
        images: vec![1000; 10],
        confused: confused.collect(),
        mistakes: vec![Mistake {
            image: 17,
            class: 2,
            predicted: 3,
            probability: 0.996,
            picture: (checkpoint == Checkpoint::Best).then(|| dot.to_owned()),
        }],
        right,
    }
}

/// Twenty bins whose calibration error is close to the target, and that error.
fn reliability(accuracy: f64, target: f64, images: usize) -> (Reliability, f64) {
    let weights: Vec<f64> = (0..20)
        .map(|i| {
            let x = (i as f64 + 0.5) / 20.0;
            if x < 0.2 {
                0.0
            } else {
                0.01 + x.powf(14.0 * accuracy)
            }
        })
        .collect();
    let total: f64 = weights.iter().sum();
    let mut counts: Vec<usize> = weights
        .iter()
        .map(|weight| (weight / total * images as f64) as usize)
        .collect();
    counts[19] += images - counts.iter().sum::<usize>();
    let shape = |confidence: f64| 4.0 * confidence * (1.02 - confidence);
    let confidence = |i: usize| ((i as f64 + 0.55) / 20.0).min(0.995);
    let mass: f64 = counts
        .iter()
        .enumerate()
        .map(|(i, &n)| n as f64 * shape(confidence(i)))
        .sum::<f64>()
        / images as f64;
    let bins: Vec<ReliabilityBin> = counts
        .iter()
        .enumerate()
        .map(|(i, &count)| {
            let share = (confidence(i) - target / mass * shape(confidence(i))).clamp(0.0, 1.0);
            ReliabilityBin {
                count,
                right: (share * count as f64).round() as usize,
                confidence: (count > 0).then(|| confidence(i)),
            }
        })
        .collect();
    let gap = |bin: &ReliabilityBin| {
        (bin.right as f64 - bin.confidence.unwrap_or(0.0) * bin.count as f64).abs()
    };
    let ece = bins.iter().map(gap).sum::<f64>() / images as f64;
    let scheme = "equal-width".to_owned();
    (Reliability { scheme, bins }, ece)
}

/// A set whose ROC curve is `tpr = fpr^k` with the given area.
pub fn out_of_domain(
    dataset: &str,
    auroc: f64,
    in_samples: usize,
    out_samples: usize,
) -> OutOfDomainEvaluation {
    let k = (1.0 - auroc) / auroc;
    let roc: Vec<(f64, f64)> = (0..=200)
        .map(|i| {
            let fpr = (f64::from(i) / 200.0).powi(2);
            (fpr, fpr.powf(k))
        })
        .collect();
    let (positives, negatives) = (in_samples as f64, out_samples as f64);
    let precision_in: Vec<(f64, f64)> = roc[1..]
        .iter()
        .map(|&(fpr, tpr)| (tpr, tpr * positives / (tpr * positives + fpr * negatives)))
        .collect();
    let precision_out: Vec<(f64, f64)> = roc[..200]
        .iter()
        .rev()
        .map(|&(fpr, tpr)| {
            let (hit, miss) = ((1.0 - fpr) * negatives, (1.0 - tpr) * positives);
            (1.0 - fpr, hit / (hit + miss))
        })
        .collect();
    let area = |curve: &[(f64, f64)]| -> f64 {
        let steps = curve.windows(2).map(|w| (w[1].0 - w[0].0) * w[1].1);
        curve[0].0 * curve[0].1 + steps.sum::<f64>()
    };
    let below: Vec<f64> = (0..=950)
        .map(|i| (f64::from(i) / 1000.0).powf(1.0 / k))
        .collect();
    let error = roc
        .iter()
        .map(|(fpr, tpr)| (fpr - tpr + 1.0) / 2.0)
        .fold(f64::INFINITY, f64::min);
    let bins = 40;
    let spread = |power: f64, images: usize| -> Vec<usize> {
        let weights: Vec<f64> = (0..bins)
            .map(|i| {
                let x = (f64::from(i) + 0.5) / f64::from(bins);
                if x < 0.15 { 0.0 } else { 0.004 + x.powf(power) }
            })
            .collect();
        let total: f64 = weights.iter().sum();
        weights
            .iter()
            .map(|weight| (weight / total * images as f64) as usize)
            .collect()
    };
    OutOfDomainEvaluation {
        dataset: dataset.to_owned(),
        normalization: "own".to_owned(),
        metrics: Detection {
            values: OutOfDomain {
                auroc: Some(auroc),
                aupr_in: Some(area(&precision_in)),
                aupr_out: Some(area(&precision_out)),
                fpr_at_95_tpr: Some(0.95f64.powf(1.0 / k)),
                mean_fpr_below_95_tpr: Some(below.iter().sum::<f64>() / below.len() as f64),
                detection_error: Some(error),
            },
            score: "maximum probability".to_owned(),
            in_samples,
            out_samples,
        },
        curves: DetectionCurves {
            roc,
            precision_recall_in: precision_in,
            precision_recall_out: precision_out,
            histogram: ScoreHistogram {
                from: 0.0,
                to: 1.0,
                in_counts: spread(16.0, in_samples),
                out_counts: spread(16.0 * (1.0 - auroc), out_samples),
            },
        },
        bounds: None,
    }
}

/// What `maxitive evaluate --report` has: one evaluation, no training, no curves, no config.
pub fn minimal() -> RunRecord {
    RunRecord {
        schema: SCHEMA.to_owned(),
        name: "evaluate".to_owned(),
        experiment: "evaluate".to_owned(),
        dataset: "p.npy".to_owned(),
        network: String::new(),
        parameters: 0,
        rule: String::new(),
        seed: 0,
        config: serde_json::Value::Null,
        code: Code {
            version: "0.1.0".to_owned(),
            commit: None,
        },
        device: String::new(),
        precision: String::new(),
        hardware: Hardware {
            device: String::new(),
            cores: 0,
            threads: 0,
            isa: String::new(),
        },
        timings: Timings {
            started_unix: 0,
            train_s: 0.0,
            validation_s: 0.0,
            evaluation_s: 0.0,
            steps: 0,
            resumed: 0,
            peak_memory_bytes: None,
            peak_device_bytes: None,
        },
        notes: Vec::new(),
        curves: Vec::new(),
        evaluations: vec![Evaluation {
            row: "predictions".to_owned(),
            predictive: "point".to_owned(),
            samples: 1,
            checkpoint: Checkpoint::Final,
            epoch: 0,
            seconds: 0.0,
            in_domain: Classification {
                values: InDomain {
                    accuracy: Some(0.75),
                    top5: None,
                    nll: Some(f64::INFINITY),
                    ece: Some(0.125),
                    brier: Some(0.375),
                    auroc: None,
                },
                samples: 4,
                classes: 3,
            },
            reliability: Reliability {
                scheme: "equal-width".to_owned(),
                bins: Vec::new(),
            },
            risk: None,
            by_class: None,
            bounds: None,
            out_of_domain: Vec::new(),
            details: serde_json::Map::new(),
            predictions: None,
        }],
    }
}
