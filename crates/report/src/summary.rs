//! Records gathered into tables: runs of one experiment make a group, evaluations of one row over
//! the seeds make a cell.
//!
//! A cell holds the mean and the sample deviation `√(Σ(x-x̄)²/(n-1))` over the seeds. In every
//! column the best mean is marked, and with it every mean that lies no further away than the
//! deviation of the best row: the paper's rule for bold figures. A row that guesses competes in no
//! column: what it gets by chance, a calibration error of 0 say, is no merit.

use evaluation::record::{
    Checkpoint, Evaluation, OodNormalization, OutOfDomainEvaluation, RunRecord,
};
use evaluation::results::{ByClass, Classification};
use evaluation::{Better, InDomain, Metric, OutOfDomain, Score, Scores};

use crate::names;
use crate::paper::{self, Published};

/// Runs of one experiment, dataset and network; a network and its form with dropout are the same
/// network.
#[derive(Debug, Clone)]
pub struct Group<'a> {
    /// Experiment of the records.
    pub experiment: &'a str,
    /// Dataset trained on.
    pub dataset: &'a str,
    /// Network.
    pub network: &'a str,
    /// The runs, by name.
    pub runs: Vec<&'a RunRecord>,
    /// Names of the rows: those of the paper in its order, ablations by value, others as they came.
    pub rows: Vec<&'a str>,
    /// Checkpoints that were evaluated.
    pub checkpoints: Vec<Checkpoint>,
    /// Out-of-domain sets that were evaluated.
    pub sets: Vec<OutOfDomainSet<'a>>,
}

/// An out-of-domain set and how it was scored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfDomainSet<'a> {
    /// Dataset.
    pub dataset: &'a str,
    /// Whose constants normalized the images.
    pub normalization: &'a str,
    /// The score.
    pub score: &'a str,
    /// Name for people, unique within the group.
    pub label: String,
}

impl OutOfDomainSet<'_> {
    pub(crate) fn is_set_of(&self, evaluation: &OutOfDomainEvaluation) -> bool {
        self.dataset == evaluation.dataset
            && self.normalization == evaluation.normalization
            && self.score == evaluation.metrics.score
    }

    /// Whether images and scores were treated as in the paper, so that numbers may be compared.
    pub fn is_as_in_the_paper(&self) -> bool {
        OodNormalization::by_name(self.normalization) == Some(OodNormalization::Own)
            && Score::by_name(self.score) == Some(Score::MaximumProbability)
    }
}

/// A table: one row per method, one column per metric.
#[derive(Debug, Clone)]
pub struct Table<'a> {
    /// Columns in which at least one row has a value.
    pub metrics: Vec<&'static Metric>,
    /// Rows with at least one value.
    pub rows: Vec<Row<'a>>,
}

/// A row of a [`Table`].
#[derive(Debug, Clone)]
pub struct Row<'a> {
    /// Name of the method.
    pub name: &'a str,
    /// Place of the row in [`Group::rows`].
    pub index: usize,
    /// One per metric of the table.
    pub cells: Vec<Option<Cell>>,
    /// What is known about this row of the paper, or that it guesses.
    pub note: Option<&'static str>,
    /// Its accuracy is that of guessing; it competes in no column.
    pub is_chance: bool,
}

/// What is said of a row that guesses.
pub(crate) const CHANCE: &str =
    "Its accuracy is that of guessing, so that it competes in no column.";
/// Images from which on a share within three deviations of chance counts as chance.
const ENOUGH: f64 = 100.0;

/// A number of a [`Table`].
#[derive(Debug, Clone)]
pub struct Cell {
    /// (seed, value), by seed.
    pub values: Vec<(u64, f64)>,
    /// Mean over the seeds; infinite if one of them is.
    pub mean: f64,
    /// Sample deviation over the seeds; absent for one seed or an infinite mean.
    pub deviation: Option<f64>,
    /// The best of its column, or within one deviation of it. Never where the column has one row
    /// only.
    pub is_best: bool,
    /// The paper's number.
    pub paper: Option<Published>,
    /// The number of the independent reproduction.
    pub reproduction: Option<Published>,
}

impl Cell {
    fn new(mut values: Vec<(u64, f64)>) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        values.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let numbers: Vec<f64> = values.iter().map(|&(_, value)| value).collect();
        let (mean, deviation) = mean_and_deviation(&numbers);
        Some(Self {
            values,
            mean,
            deviation,
            is_best: false,
            paper: None,
            reproduction: None,
        })
    }

    /// `0.906 ± 0.002`, as the paper prints it.
    pub fn text(&self) -> String {
        with_deviation(self.mean, self.deviation)
    }
}

/// Mean and sample deviation; no deviation for one value or an infinite mean.
pub(crate) fn mean_and_deviation(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 || !mean.is_finite() {
        return (mean, None);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, Some((squares / (count - 1.0)).sqrt()))
}

/// Three digits after the point, `∞` for an infinite number.
pub(crate) fn three(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "∞" } else { "-∞" }.to_owned();
    }
    format!("{value:.3}")
}

/// `0.906 ± 0.002`, or the value alone.
pub(crate) fn with_deviation(value: f64, deviation: Option<f64>) -> String {
    match deviation {
        Some(deviation) => format!("{} ± {}", three(value), three(deviation)),
        None => three(value),
    }
}

/// Gathers records into groups: experiments of the paper first, in its order, then others by name.
///
/// ```
/// assert!(report::summary::groups(&[]).is_empty());
/// ```
pub fn groups(records: &[RunRecord]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for record in records {
        let network = record
            .network
            .strip_suffix("-dropout")
            .unwrap_or(&record.network);
        let key = (record.experiment.as_str(), record.dataset.as_str(), network);
        match groups
            .iter_mut()
            .find(|group| (group.experiment, group.dataset, group.network) == key)
        {
            Some(group) => group.runs.push(record),
            None => groups.push(Group {
                experiment: key.0,
                dataset: key.1,
                network: key.2,
                runs: vec![record],
                rows: Vec::new(),
                checkpoints: Vec::new(),
                sets: Vec::new(),
            }),
        }
    }
    let rank = |group: &Group<'_>| {
        paper::EXPERIMENTS
            .iter()
            .position(|(name, _)| *name == group.experiment)
            .unwrap_or(usize::MAX)
    };
    groups.sort_by(|a, b| {
        let names = |group: &Group<'_>| {
            [
                group.experiment.to_owned(),
                group.dataset.to_owned(),
                group.network.to_owned(),
            ]
        };
        rank(a).cmp(&rank(b)).then_with(|| names(a).cmp(&names(b)))
    });
    groups.iter_mut().for_each(Group::take_stock);
    groups
}

impl<'a> Group<'a> {
    fn take_stock(&mut self) {
        let mut sets: Vec<OutOfDomainSet<'a>> = Vec::new();
        for &run in &self.runs {
            for evaluation in &run.evaluations {
                if !self.rows.contains(&evaluation.row.as_str()) {
                    self.rows.push(&evaluation.row);
                }
                if !self.checkpoints.contains(&evaluation.checkpoint) {
                    self.checkpoints.push(evaluation.checkpoint);
                }
                for out in &evaluation.out_of_domain {
                    if !sets.iter().any(|set| set.is_set_of(out)) {
                        sets.push(OutOfDomainSet {
                            dataset: &out.dataset,
                            normalization: &out.normalization,
                            score: &out.metrics.score,
                            label: String::new(),
                        });
                    }
                }
            }
        }
        self.runs
            .sort_by(|a, b| a.rule.cmp(&b.rule).then_with(|| natural(&a.name, &b.name)));
        self.checkpoints.sort();
        // stable: rows of equal rank stay as they came
        self.rows.sort_by(|a, b| by_rank(a, b));
        let ambiguous: Vec<[bool; 2]> = sets
            .iter()
            .map(|set| {
                let twins: Vec<_> = sets
                    .iter()
                    .filter(|other| other.dataset == set.dataset)
                    .collect();
                [
                    twins
                        .iter()
                        .any(|other| other.normalization != set.normalization),
                    twins.iter().any(|other| other.score != set.score),
                ]
            })
            .collect();
        for (set, [normalization, score]) in sets.iter_mut().zip(ambiguous) {
            set.label = names::dataset(set.dataset).to_owned();
            if normalization {
                set.label += &format!(", {} constants", set.normalization);
            }
            if score {
                set.label += &format!(", {}", set.score);
            }
        }
        self.sets = sets;
    }

    /// The evaluations of a row at a checkpoint, with the seeds of their runs. Predictions that
    /// were given are of no checkpoint and stand beside each.
    pub(crate) fn evaluations(
        &self,
        row: &str,
        checkpoint: Checkpoint,
    ) -> impl Iterator<Item = (u64, &'a Evaluation)> {
        self.runs.iter().flat_map(move |run| {
            run.evaluations
                .iter()
                .filter(move |evaluation| {
                    let is_given = evaluation.predictive == evaluation::record::GIVEN;
                    evaluation.row == row && (evaluation.checkpoint == checkpoint || is_given)
                })
                .map(|evaluation| (run.seed, evaluation))
        })
    }

    /// The table of the test set or of another set: of metrics, or with a column for each score.
    pub(crate) fn table_of(
        &self,
        checkpoint: Checkpoint,
        set: Option<&OutOfDomainSet<'_>>,
        of_scores: bool,
    ) -> Table<'a> {
        match (of_scores, set) {
            (true, set) => self.scores(checkpoint, set),
            (false, None) => self.in_domain(checkpoint),
            (false, Some(set)) => self.out_of_domain(checkpoint, set),
        }
    }

    /// The table of the test set at a checkpoint. Cost: linear in the evaluations.
    pub fn in_domain(&self, checkpoint: Checkpoint) -> Table<'a> {
        self.table(
            checkpoint,
            InDomain::METRICS,
            |evaluation| {
                let found = &evaluation.in_domain;
                // without images nothing was measured
                let values = found.values.each();
                (found.samples > 0).then(|| values.map(defined))
            },
            |metric| Some(metric.id.to_owned()),
        )
    }

    /// The table of an out-of-domain set at a checkpoint. Cost: linear in the evaluations.
    pub fn out_of_domain(&self, checkpoint: Checkpoint, set: &OutOfDomainSet<'_>) -> Table<'a> {
        self.table(
            checkpoint,
            OutOfDomain::METRICS,
            |evaluation| {
                let mut sets = evaluation.out_of_domain.iter();
                let found = sets.find(|out| set.is_set_of(out))?;
                Some(found.metrics.values.each().map(defined))
            },
            |metric| {
                let comparable = set.is_as_in_the_paper();
                comparable.then(|| format!("{}/{}", set.dataset, metric.id))
            },
        )
    }

    /// The table of the scores at a checkpoint, as areas under the ROC curve: right against wrong
    /// answers, or test images against those of a set. Cost: linear in the evaluations.
    pub fn scores(&self, checkpoint: Checkpoint, set: Option<&OutOfDomainSet<'_>>) -> Table<'a> {
        self.table(
            checkpoint,
            Scores::METRICS,
            |evaluation| {
                let bounds = match set {
                    None => evaluation.bounds.as_ref()?,
                    Some(set) => {
                        let mut sets = evaluation.out_of_domain.iter();
                        sets.find(|out| set.is_set_of(out))?.bounds.as_ref()?
                    }
                };
                Some(bounds.scored.auroc.each().map(defined))
            },
            |_| None,
        )
    }

    fn table<const N: usize>(
        &self,
        checkpoint: Checkpoint,
        metrics: &'static [Metric; N],
        read: impl Fn(&Evaluation) -> Option<[Option<f64>; N]>,
        published: impl Fn(&Metric) -> Option<String>,
    ) -> Table<'a> {
        let mut rows: Vec<Row<'a>> = Vec::new();
        for (index, &name) in self.rows.iter().enumerate() {
            let mut values: [Vec<(u64, f64)>; N] = std::array::from_fn(|_| Vec::new());
            for (seed, evaluation) in self.evaluations(name, checkpoint) {
                let Some(numbers) = read(evaluation) else {
                    continue;
                };
                for (column, number) in values.iter_mut().zip(numbers) {
                    column.extend(number.map(|number| (seed, number)));
                }
            }
            if values.iter().all(Vec::is_empty) {
                continue;
            }
            let mut cells: Vec<Option<Cell>> = values.into_iter().map(Cell::new).collect();
            for (metric, cell) in metrics.iter().zip(&mut cells) {
                if let (Some(cell), Some(id)) = (cell, published(metric)) {
                    cell.paper = paper::lookup(self.experiment, name, checkpoint, &id);
                    cell.reproduction = paper::reproduction(self.experiment, name, checkpoint, &id);
                }
            }
            let is_chance = self.is_at_chance(name, checkpoint);
            let has_paper = cells.iter().flatten().any(|cell| cell.paper.is_some());
            let note = has_paper
                .then(|| paper::row_note(self.experiment, name, checkpoint))
                .flatten();
            let note = if is_chance { Some(CHANCE) } else { note };
            rows.push(Row {
                name,
                index,
                cells,
                note,
                is_chance,
            });
        }
        let used: Vec<usize> = (0..N)
            .filter(|&i| rows.iter().any(|row| row.cells[i].is_some()))
            .collect();
        for row in &mut rows {
            row.cells = used.iter().map(|&i| row.cells[i].take()).collect();
        }
        let mut table = Table {
            metrics: used.iter().map(|&i| &metrics[i]).collect(),
            rows,
        };
        table.mark_best();
        table
    }

    /// Whether the mean accuracy of a row on the test set is no better than guessing: at most
    /// 1/classes, or within three deviations of it where there are enough images. A row that gives
    /// one answer to all images guesses, too, however frequent that class is.
    fn is_at_chance(&self, row: &str, checkpoint: Checkpoint) -> bool {
        let mut sorted = self.evaluations(row, checkpoint).peekable();
        let is_one = |(_, found): (u64, &Evaluation)| {
            let by_class = found.by_class.as_ref();
            by_class.is_some_and(gives_one_answer)
        };
        if sorted.peek().is_some() && sorted.all(is_one) {
            return true;
        }
        let found = self
            .evaluations(row, checkpoint)
            .filter_map(|(_, evaluation)| {
                let Classification {
                    values,
                    samples,
                    classes,
                } = &evaluation.in_domain;
                let accuracy = defined(&values.accuracy)?;
                (*samples > 0 && *classes > 1).then_some((accuracy, *samples, *classes))
            });
        let found: Vec<(f64, usize, usize)> = found.collect();
        let Some(&(_, samples, classes)) = found.first() else {
            return false;
        };
        let accuracies: Vec<f64> = found.iter().map(|known| known.0).collect();
        let (chance, samples) = (1.0 / classes as f64, samples as f64);
        let reach = match samples >= ENOUGH {
            true => 3.0 * (chance * (1.0 - chance) / samples).sqrt(),
            false => 0.0,
        };
        mean_and_deviation(&accuracies).0 <= chance + reach
    }
}

/// Whether all images of one class are right and none of any other.
fn gives_one_answer(found: &ByClass) -> bool {
    let classes = found.images.iter().zip(&found.right);
    let present = classes.filter(|(images, _)| **images > 0);
    let (right, wrong): (Vec<_>, Vec<_>) = present.partition(|(_, right)| **right > 0);
    right.len() == 1 && right[0].0 == right[0].1 && !wrong.is_empty()
}

impl Table<'_> {
    fn mark_best(&mut self) {
        for (i, metric) in self.metrics.iter().enumerate() {
            let cells = self.rows.iter_mut();
            let cells = cells.filter_map(|row| Some((row.is_chance, row.cells[i].as_mut()?)));
            mark_best(metric.better, cells.collect());
        }
    }
}

/// Marks the best cells of a column; those of rows that guess come with `true` and do not compete.
pub(crate) fn mark_best(better: Better, cells: Vec<(bool, &mut Cell)>) {
    let several = cells.len() > 1;
    let competing = cells.into_iter().filter(|(is_chance, _)| !is_chance);
    let mut cells: Vec<&mut Cell> = competing.map(|(_, cell)| cell).collect();
    let finite = cells.iter().filter(|cell| cell.mean.is_finite());
    let best = finite.map(|cell| cell.mean).reduce(|best, mean| {
        if better.prefers(mean, best) {
            mean
        } else {
            best
        }
    });
    let Some(best) = best.filter(|_| several) else {
        return;
    };
    let reach = cells
        .iter()
        .filter(|cell| cell.mean == best)
        .filter_map(|cell| cell.deviation)
        .fold(0.0, f64::max);
    for cell in &mut cells {
        cell.is_best = (cell.mean - best).abs() <= reach;
    }
}

/// A value that is a number.
fn defined(value: &Option<f64>) -> Option<f64> {
    value.filter(|value| !value.is_nan())
}

/// The paper's rows in its order, then those of ablations by value, then others.
fn by_rank(a: &str, b: &str) -> std::cmp::Ordering {
    let rank = |row: &str| {
        let base = row.strip_suffix(" + MC-D").unwrap_or(row);
        let base = if base.starts_with("uCBOpt (ϑ = ") {
            "uCBOpt"
        } else {
            base
        };
        if let Some(place) = paper::ROWS.iter().position(|name| *name == base) {
            return (0, place as f64);
        }
        paper::ablation_value(row).map_or((2, 0.0), |(_, value)| (1, value))
    };
    let (one, other) = (rank(a), rank(b));
    one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
}

/// Order of names in which `seed10` comes after `seed9`.
fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    let split = |name: &str| {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (stem, number) = name.split_at(name.len() - digits);
        (stem.to_owned(), number.parse::<u64>().unwrap_or(0))
    };
    split(a).cmp(&split(b)).then_with(|| a.cmp(b))
}

/// Name of a checkpoint for people.
pub(crate) fn checkpoint_name(checkpoint: Checkpoint) -> &'static str {
    match checkpoint {
        Checkpoint::Best => "best validation",
        Checkpoint::Final => "final epoch",
    }
}

/// Name of a checkpoint for programs.
pub(crate) fn checkpoint_id(checkpoint: Checkpoint) -> &'static str {
    match checkpoint {
        Checkpoint::Best => "best",
        Checkpoint::Final => "final",
    }
}

/// Runs that differ by their seed only, told by rule and rows.
#[derive(Debug, Clone)]
pub struct Family<'a> {
    /// Rows of the runs, or their rule where they have none.
    pub label: String,
    /// Places of the rows in [`Group::rows`].
    pub rows: Vec<usize>,
    /// The runs.
    pub runs: Vec<&'a RunRecord>,
}

impl<'a> Group<'a> {
    /// The runs gathered by what they trained; those of the first row of the tables first.
    pub fn families(&self) -> Vec<Family<'a>> {
        let mut families: Vec<Family<'a>> = Vec::new();
        for &run in &self.runs {
            let mut rows: Vec<usize> = run
                .evaluations
                .iter()
                .filter_map(|evaluation| self.rows.iter().position(|row| *row == evaluation.row))
                .collect();
            rows.sort_unstable();
            rows.dedup();
            match families.iter_mut().find(|family| {
                let same = family
                    .runs
                    .first()
                    .is_some_and(|first| first.rule == run.rule);
                same && family.rows == rows
            }) {
                Some(family) => family.runs.push(run),
                None => {
                    let names: Vec<&str> = rows.iter().map(|&i| self.rows[i]).collect();
                    let label = if names.is_empty() {
                        run.rule.clone()
                    } else {
                        names.join(", ")
                    };
                    families.push(Family {
                        label,
                        rows,
                        runs: vec![run],
                    });
                }
            }
        }
        families.sort_by_key(|family| family.rows.first().copied().unwrap_or(usize::MAX));
        families
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviation_is_the_sample_deviation() {
        let (mean, deviation) = mean_and_deviation(&[1.0, 2.0, 6.0]);
        assert_eq!((mean, deviation), (3.0, Some(7.0f64.sqrt())));
        assert_eq!(mean_and_deviation(&[0.25]), (0.25, None));
        assert_eq!(
            mean_and_deviation(&[1.0, f64::INFINITY]),
            (f64::INFINITY, None)
        );
    }

    #[test]
    fn rows_come_in_the_order_of_the_paper() {
        let mut rows = vec![
            "mine",
            "ϑ = 1e-5",
            "lCBOpt-adapt",
            "uCBOpt (ϑ = 5e-5) + MC-D",
            "ϑ = 0",
            "another",
            "uCBOpt (ϑ→0)",
            "AdamW",
            "MC-D",
            "ϑ = 2e-7",
        ];
        rows.sort_by(|a, b| by_rank(a, b));
        let expected = [
            "AdamW",
            "MC-D",
            "uCBOpt (ϑ→0)",
            "uCBOpt (ϑ = 5e-5) + MC-D",
            "lCBOpt-adapt",
            "ϑ = 0",
            "ϑ = 2e-7",
            "ϑ = 1e-5",
            "mine",
            "another",
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn names_with_numbers_are_ordered_by_number() {
        let mut names = ["b-seed10", "b-seed9", "a", "b-seed1"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "b-seed1", "b-seed9", "b-seed10"]);
    }

    /// A column of (mean, deviation); which are marked.
    fn marks(higher: bool, column: &[Option<(f64, Option<f64>)>]) -> Vec<bool> {
        let metric = &InDomain::METRICS[if higher { 0 } else { 2 }];
        let rows = column.iter().enumerate().map(|(index, cell)| Row {
            name: "row",
            index,
            note: None,
            is_chance: false,
            cells: vec![cell.map(|(mean, deviation)| Cell {
                values: vec![(0, mean)],
                mean,
                deviation,
                is_best: false,
                paper: None,
                reproduction: None,
            })],
        });
        let mut table = Table {
            metrics: vec![metric],
            rows: rows.collect(),
        };
        table.mark_best();
        let cells = table.rows.iter().map(|row| row.cells[0].as_ref());
        cells
            .map(|cell| cell.is_some_and(|cell| cell.is_best))
            .collect()
    }

    #[test]
    fn the_best_and_what_lies_within_its_deviation_is_marked() {
        // the reach is the best row's deviation, however large that of the others
        let column = [
            Some((0.875, Some(0.25))),
            Some((0.75, Some(0.125))),
            Some((0.5, Some(0.5))),
        ];
        assert_eq!(marks(true, &column), [true, true, false]);
        assert_eq!(marks(false, &column), [true, true, true]);
        let exact = [Some((0.75, Some(0.125))), Some((0.875, Some(0.0)))];
        assert_eq!(marks(true, &exact), [false, true]);
        // one seed: no reach; infinite or missing: never best; alone: nothing to be better than
        let single = [Some((0.5, None)), Some((0.25, None)), None];
        assert_eq!(marks(false, &single), [false, true, false]);
        let infinite = [Some((f64::INFINITY, None)), Some((3.0, Some(0.1)))];
        assert_eq!(marks(false, &infinite), [false, true]);
        assert_eq!(marks(true, &[Some((0.5, Some(0.1)))]), [false]);
        let all_infinite = [Some((f64::INFINITY, None)), Some((f64::INFINITY, None))];
        assert_eq!(marks(false, &all_infinite), [false, false]);
    }

    #[test]
    fn one_answer_to_all_images_is_a_guess() {
        let is_one = |images: &[usize], right: &[usize]| {
            gives_one_answer(&ByClass {
                images: images.to_vec(),
                right: right.to_vec(),
                ..ByClass::default()
            })
        };
        assert!(is_one(&[150, 75, 30], &[150, 0, 0]));
        assert!(!is_one(&[150, 75, 30], &[149, 0, 0]));
        assert!(!is_one(&[150, 75, 30], &[150, 1, 0]));
        assert!(!is_one(&[150, 75, 30], &[0, 0, 0]));
        // a test set of one class tells nothing
        assert!(!is_one(&[150, 0], &[150, 0]));
    }

    #[test]
    fn numbers_are_printed_as_in_the_paper() {
        assert_eq!(with_deviation(0.90649, Some(0.00251)), "0.906 ± 0.003");
        assert_eq!(with_deviation(f64::INFINITY, None), "∞");
        assert_eq!(with_deviation(12.3456, None), "12.346");
    }
}
