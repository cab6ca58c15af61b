//! The data of the paper's figures: training curves of all methods, and reliability diagrams of the
//! CBOpt family.

use evaluation::record::{Checkpoint, EpochPoint, RunRecord};
use evaluation::results::ReliabilityBin;

use crate::curves::{epoch_means, kept_epochs, pool_bins};
use crate::names;
use crate::paper;
use crate::style::{LIGHT, PATTERNS, assign};
use crate::summary::{Group, groups};

/// Experiments of the main table: the paper draws the curves of the first, and reliability diagrams
/// of all three.
const EXPERIMENTS: [&str; 3] = ["fmnist", "cifar10", "cifar100"];

/// One quantity over the epochs, all methods of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingCurves {
    /// Name of its file: `fmnist-training-loss`.
    pub name: String,
    /// Where it belongs: `Fashion-MNIST / LeNet`.
    pub setting: String,
    /// What is drawn: `Training loss`.
    pub quantity: &'static str,
    /// One curve per method.
    pub curves: Vec<Curve>,
}

/// The mean of one method over its seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Rows of the tables that the runs give.
    pub label: String,
    /// Runs behind it.
    pub runs: usize,
    /// Red, green, blue.
    pub color: (u8, u8, u8),
    /// Lengths drawn and left out by turns; empty for a solid line.
    pub dashes: &'static [f64],
    /// Epoch from 1, mean over the seeds, and deviation where there are several.
    pub points: Vec<(usize, f64, Option<f64>)>,
}

/// A reliability diagram: accuracy of the predictions of each confidence, all seeds together.
#[derive(Debug, Clone, PartialEq)]
pub struct Reliability {
    /// Name of its file: `fmnist-reliability-ucbopt-adapt`.
    pub name: String,
    /// Where it belongs: `Fashion-MNIST / LeNet`.
    pub setting: String,
    /// Row of the tables.
    pub row: String,
    /// Runs behind it.
    pub runs: usize,
    /// Mean ECE over the seeds, as in the tables.
    pub ece: Option<f64>,
    /// Bins of equal width over [0, 1].
    pub bins: Vec<ReliabilityBin>,
}

/// The groups of the main table's experiments that train what the paper trains.
fn main_groups(records: &[RunRecord]) -> Vec<Group<'_>> {
    let mut groups = groups(records);
    groups.retain(|group| {
        EXPERIMENTS.contains(&group.experiment)
            && paper::setting(group.experiment) == Some((group.dataset, group.network))
    });
    groups
}

fn setting(group: &Group<'_>) -> String {
    let dataset = names::dataset(group.dataset);
    format!("{dataset} / {}", names::network(group.network))
}

/// What is drawn over the epochs: file, name, where the value is.
type Quantity = (&'static str, &'static str, fn(&EpochPoint) -> Option<f64>);

const QUANTITIES: [Quantity; 4] = [
    ("training-loss", "Training loss", |point| {
        Some(point.train_loss)
    }),
    ("validation-loss", "Validation loss", |point| {
        point.validation_loss
    }),
    ("training-accuracy", "Training accuracy", |point| {
        Some(point.train_accuracy)
    }),
    ("validation-accuracy", "Validation accuracy", |point| {
        point.validation_accuracy
    }),
];

/// Loss and accuracy over the epochs, of training and validation, for every experiment of the main
/// table that the records hold; the paper prints those of Fashion-MNIST.
///
/// ```
/// assert!(report::layout::training_curves(&[]).is_empty());
/// ```
pub fn training_curves(records: &[RunRecord]) -> Vec<TrainingCurves> {
    let mut all = Vec::new();
    for group in main_groups(records) {
        let styles = assign(&group.rows);
        for (file, quantity, read) in QUANTITIES {
            let mut curves = Vec::new();
            for family in group.families() {
                let kept = kept_epochs(&family.runs);
                let means = epoch_means(&family.runs, &kept, read);
                let points = kept.iter().zip(means);
                let points = points.filter_map(|(epoch, point)| {
                    let (mean, deviation) = point?;
                    Some((epoch + 1, mean, deviation))
                });
                let points: Vec<_> = points.collect();
                let style = family.rows.first().map(|&row| styles[row]);
                if let (Some(style), false) = (style, points.is_empty()) {
                    curves.push(Curve {
                        label: family.label,
                        runs: family.runs.len(),
                        color: LIGHT[style.color],
                        dashes: PATTERNS[style.dash],
                        points,
                    });
                }
            }
            if !curves.is_empty() {
                all.push(TrainingCurves {
                    name: format!("{}-{file}", group.experiment),
                    setting: setting(&group),
                    quantity,
                    curves,
                });
            }
        }
    }
    all
}

/// Rows of the paper's figure, and their names in files.
const FAMILY: [(&str, &str); 4] = [
    ("uCBOpt (ϑ→0)", "ucbopt-zero"),
    ("uCBOpt", "ucbopt"),
    ("uCBOpt-adapt", "ucbopt-adapt"),
    ("lCBOpt-adapt", "lcbopt-adapt"),
];

/// Reliability diagrams of the CBOpt family at best validation, for every experiment of the main
/// table that the records hold.
///
/// ```
/// assert!(report::layout::reliability(&[]).is_empty());
/// ```
pub fn reliability(records: &[RunRecord]) -> Vec<Reliability> {
    let mut all = Vec::new();
    for group in main_groups(records) {
        let table = group.in_domain(Checkpoint::Best);
        let ece = table.metrics.iter().position(|metric| metric.id == "ece");
        for (row, file) in FAMILY {
            let found = group.evaluations(row, Checkpoint::Best);
            let parts = found.map(|(_, found)| &found.reliability);
            let parts: Vec<_> = parts.filter(|part| part.scheme == "equal-width").collect();
            let bins = pool_bins(&parts);
            if bins.iter().all(|bin| bin.count == 0) {
                continue;
            }
            let in_table = table.rows.iter().find(|known| known.name == row);
            let cell = in_table.zip(ece).and_then(|(row, i)| row.cells[i].as_ref());
            all.push(Reliability {
                name: format!("{}-reliability-{file}", group.experiment),
                setting: setting(&group),
                row: row.to_owned(),
                runs: parts.len(),
                ece: cell.map(|cell| cell.mean),
                bins,
            });
        }
    }
    all
}
