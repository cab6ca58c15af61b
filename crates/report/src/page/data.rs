//! What the page's script draws, as JSON.

use std::collections::HashMap;

use evaluation::record::Checkpoint;
use evaluation::results::{DetectionCurves, Risk};
use evaluation::{Better, Scheme};
use serde_json::{Map, Value, json};

use super::View;
use super::numbers::precise;
use crate::curves::{
    average, epochs, kept_epochs, number, pool_bins, pool_histograms, rates, recall_grid, roc_grid,
    short,
};
use crate::paper::Published;
use crate::summary::{
    Cell, Family, Group, OutOfDomainSet, Table, checkpoint_id, mean_and_deviation,
};

/// Lists of seeds, each written once: most rows have the same.
#[derive(Default)]
pub(super) struct SeedLists {
    lists: Vec<Vec<u64>>,
    places: HashMap<Vec<u64>, usize>,
}

impl SeedLists {
    fn place(&mut self, seeds: Vec<u64>) -> usize {
        *self.places.entry(seeds).or_insert_with_key(|seeds| {
            self.lists.push(seeds.clone());
            self.lists.len() - 1
        })
    }

    pub(super) fn json(self) -> Value {
        json!(self.lists)
    }
}

/// One group.
pub(super) fn group(shown: &View<'_, '_>, seeds: &mut SeedLists) -> Value {
    let group = shown.group;
    let rows: Vec<Value> = group
        .rows
        .iter()
        .zip(&shown.styles)
        .map(|(name, style)| json!({"name": name, "color": style.color, "dash": style.dash}))
        .collect();
    let sets: Vec<&str> = group.sets.iter().map(|set| set.label.as_str()).collect();
    let checkpoints: Vec<&str> = group
        .checkpoints
        .iter()
        .map(|&c| checkpoint_id(c))
        .collect();
    let (mut views, mut out) = (Map::new(), Map::new());
    for &checkpoint in &group.checkpoints {
        let id = checkpoint_id(checkpoint);
        views.insert(id.to_owned(), folded(&view(group, checkpoint, seeds)));
        let sets = group.sets.iter();
        let of = |set| folded(&detection(group, set, checkpoint, seeds));
        out.insert(id.to_owned(), sets.map(of).collect());
    }
    json!({
        "rows": rows,
        "sets": sets,
        "checkpoints": checkpoints,
        "views": views,
        "out": out,
        "training": folded(&training(&shown.families)),
        "sweep": super::sweep::data(shown),
    })
}

/// JSON as a string of JSON: the script reads it when it is looked at.
fn folded(value: &Value) -> Value {
    Value::String(value.to_string())
}

/// What a group shows of the test set at one checkpoint.
fn view(group: &Group<'_>, checkpoint: Checkpoint, seeds: &mut SeedLists) -> Value {
    let rows = group.rows.iter();
    let reliability: Vec<Value> = rows
        .map(|row| reliability(group, row, checkpoint))
        .collect();
    let rows = group.rows.iter();
    let risk: Vec<Value> = rows.map(|row| risk(group, row, checkpoint)).collect();
    json!({
        "metrics": glance(&group.in_domain(checkpoint), group.rows.len(), seeds),
        "reliability": reliability,
        "risk": risk,
    })
}

/// The reliability diagram of a row, all seeds together.
fn reliability(group: &Group<'_>, row: &str, checkpoint: Checkpoint) -> Value {
    let parts: Vec<_> = group
        .evaluations(row, checkpoint)
        .map(|(_, evaluation)| &evaluation.reliability)
        .collect();
    let bins = pool_bins(&parts);
    let total: usize = bins.iter().map(|bin| bin.count).sum();
    if total == 0 {
        return Value::Null;
    }
    let scheme = parts
        .iter()
        .find(|part| !part.bins.is_empty())
        .map(|part| part.scheme.as_str());
    let bins: Vec<Value> = bins
        .iter()
        .map(|bin| {
            let confidence = bin.confidence.map_or(Value::Null, number);
            json!([bin.count, bin.right, confidence])
        })
        .collect();
    json!({"bins": bins, "equal": scheme == Some(Scheme::EqualWidth.name())})
}

/// Risk over coverage of a row and the area under it, means over the seeds.
fn risk(group: &Group<'_>, row: &str, checkpoint: Checkpoint) -> Value {
    let found: Vec<&Risk> = group
        .evaluations(row, checkpoint)
        .filter_map(|(_, evaluation)| evaluation.risk.as_ref())
        .collect();
    let curves: Vec<&[(f64, f64)]> = found.iter().map(|risk| &risk.curve[..]).collect();
    let mean = average(&curves, &recall_grid());
    if mean.is_empty() {
        return Value::Null;
    }
    let areas: Vec<f64> = found.iter().map(|risk| risk.aurc).collect();
    json!({"ys": rates(&mean), "area": number(mean_and_deviation(&areas).0)})
}

/// Numbers and curves of an out-of-domain set: a column of each kind, one entry per row of the
/// group.
fn detection(
    group: &Group<'_>,
    set: &OutOfDomainSet<'_>,
    checkpoint: Checkpoint,
    seeds: &mut SeedLists,
) -> Value {
    let mut columns: [Vec<Value>; 4] = Default::default();
    for row in &group.rows {
        let all: Vec<&DetectionCurves> = group
            .evaluations(row, checkpoint)
            .flat_map(|(_, evaluation)| &evaluation.out_of_domain)
            .filter(|out| set.is_set_of(out))
            .map(|out| &out.curves)
            .collect();
        for (column, value) in columns.iter_mut().zip(curves(&all)) {
            column.push(value);
        }
    }
    let [roc, precision_in, precision_out, histogram] = columns;
    json!({
        "metrics": glance(&group.out_of_domain(checkpoint, set), group.rows.len(), seeds),
        "roc": roc, "precision_in": precision_in, "precision_out": precision_out,
        "histogram": histogram,
    })
}

/// ROC and precision-recall curves averaged over the seeds, and the histogram of all of them.
fn curves(all: &[&DetectionCurves]) -> [Value; 4] {
    let (roc, recall) = (roc_grid(), recall_grid());
    let mean = |read: fn(&DetectionCurves) -> &[(f64, f64)], grid: &[f64]| {
        let points: Vec<&[(f64, f64)]> = all.iter().map(|curves| read(curves)).collect();
        let mean = average(&points, grid);
        if mean.is_empty() {
            Value::Null
        } else {
            rates(&mean)
        }
    };
    let histograms: Vec<_> = all.iter().map(|curves| &curves.histogram).collect();
    let histogram = pool_histograms(&histograms).map_or(Value::Null, |sum| {
        json!([
            number(sum.from),
            number(sum.to),
            sum.in_counts,
            sum.out_counts
        ])
    });
    [
        mean(|curves| &curves.roc, &roc),
        mean(|curves| &curves.precision_recall_in, &recall),
        mean(|curves| &curves.precision_recall_out, &recall),
        histogram,
    ]
}

/// The numbers of a table, for the overview and for the tips of the table: per metric, per row
/// `[mean, deviation, [list of seeds, value, ..], paper, reproduction]`.
fn glance(table: &Table<'_>, rows: usize, seeds: &mut SeedLists) -> Value {
    let guessing = table.rows.iter().filter(|row| row.is_chance);
    let chance: Vec<usize> = guessing.map(|row| row.index).collect();
    table
        .metrics
        .iter()
        .enumerate()
        .map(|(i, metric)| {
            let mut column = vec![Value::Null; rows];
            for row in &table.rows {
                if let Some(cell) = &row.cells[i] {
                    column[row.index] = cell_value(cell, seeds);
                }
            }
            json!({
                "id": metric.id, "name": metric.name, "higher": metric.better == Better::Higher,
                "rows": column, "chance": chance,
            })
        })
        .collect()
}

fn cell_value(cell: &Cell, seeds: &mut SeedLists) -> Value {
    let list = seeds.place(cell.values.iter().map(|&(seed, _)| seed).collect());
    let values = cell.values.iter().map(|&(_, value)| as_told(value));
    let values: Vec<Value> = std::iter::once(json!(list)).chain(values).collect();
    let published = |number_: &Option<Published>| {
        number_.as_ref().map_or(Value::Null, |p| {
            json!([number(p.mean()), p.spread().map_or(Value::Null, number)])
        })
    };
    json!([
        as_told(cell.mean),
        cell.deviation.map_or(Value::Null, as_told),
        values,
        published(&cell.paper),
        published(&cell.reproduction),
    ])
}

/// A number with the digits that a tip shows; `null` if it is not finite.
fn as_told(value: f64) -> Value {
    let told: Option<f64> = precise(value).parse().ok();
    told.filter(|told| told.is_finite())
        .map_or(Value::Null, short)
}

/// Training curves of the runs that have them.
fn training(families: &[Family<'_>]) -> Value {
    families
        .iter()
        .filter_map(|family| {
            let kept = kept_epochs(&family.runs);
            if kept.is_empty() {
                return None;
            }
            let part = |read: fn(&evaluation::record::EpochPoint) -> Option<f64>| {
                epochs(&family.runs, &kept, read)
            };
            Some(json!({
                "label": family.label,
                "rows": family.rows,
                "runs": family.runs.len(),
                "train_loss": part(|point| Some(point.train_loss)),
                "validation_loss": part(|point| point.validation_loss),
                "train_accuracy": part(|point| Some(point.train_accuracy)),
                "validation_accuracy": part(|point| point.validation_accuracy),
                "lr": part(|point| Some(point.lr)),
                "gap_not_positive": part(|point| {
                    let updates = point.updates.filter(|updates| updates.coordinates > 0)?;
                    Some(updates.gap_not_positive as f64 / updates.coordinates as f64)
                }),
                "epochs": kept,
            }))
        })
        .collect()
}
