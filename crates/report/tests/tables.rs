//! The tables as text, on records small enough to check by hand.

#![allow(clippy::unwrap_used, reason = "a failed test may say so by a panic")]

mod synthetic;

use evaluation::Scores;
use evaluation::record::{Checkpoint, RunRecord};
use evaluation::results::{Bounds, ClassSets, Scored, SetLevel, Shown, ShownClass};
use report::{Options, csv, html, latex, markdown, text};

/// Two seeds of two rows at the last epoch, with numbers that floating point holds exactly.
fn records() -> Vec<RunRecord> {
    let mut records = Vec::new();
    for (row, values) in [
        ("SGD", [(0.875, 0.5, 0.0625), (0.8125, 0.25, 0.0625)]),
        ("IVON", [(0.9375, 0.25, 0.125), (0.875, 0.25, 0.25)]),
        ("a|b_c, \"d\"", [(0.5, f64::INFINITY, 0.5), (0.5, 1.0, 0.5)]),
    ] {
        for (seed, (accuracy, nll, ece)) in (0..).zip(values) {
            let mut record = synthetic::minimal();
            record.experiment = "fmnist".to_owned();
            record.dataset = "fashion-mnist".to_owned();
            record.network = "lenet".to_owned();
            record.name = format!("{row}-{seed}");
            record.rule = row.to_owned();
            record.seed = seed;
            let evaluation = &mut record.evaluations[0];
            evaluation.row = row.to_owned();
            let result = &mut evaluation.in_domain.values;
            (result.accuracy, result.nll, result.ece) = (Some(accuracy), Some(nll), Some(ece));
            result.auroc = (row == "SGD").then_some(0.75);
            if row == "IVON" && seed == 0 {
                let mut out = synthetic::out_of_domain("kmnist", 0.75, 100, 200);
                out.metrics.values.aupr_in = None;
                out.metrics.values.aupr_out = None;
                out.metrics.values.fpr_at_95_tpr = Some(0.5);
                out.metrics.values.mean_fpr_below_95_tpr = Some(0.125);
                out.metrics.values.detection_error = Some(0.25);
                evaluation.out_of_domain.push(out);
            }
            records.push(record);
        }
    }
    records
}

#[test]
fn csv_has_a_line_per_number() {
    let expected = "\
experiment,dataset,network,checkpoint,row,out_of_domain,normalization,score,metric,runs,mean,deviation,best,paper,paper_deviation,paper_meant,paper_note,reproduction
fmnist,fashion-mnist,lenet,final,SGD,,,,accuracy,2,0.84375,0.04419417382415922,false,0.899,0.003,,,0.899
fmnist,fashion-mnist,lenet,final,SGD,,,,nll,2,0.375,0.1767766952966369,false,0.441,0.025,,,0.447
fmnist,fashion-mnist,lenet,final,SGD,,,,ece,2,0.0625,0,true,0.061,0.004,,,0.062
fmnist,fashion-mnist,lenet,final,SGD,,,,brier,2,0.375,0,true,0.163,0.005,,,0.164
fmnist,fashion-mnist,lenet,final,SGD,,,,auroc,2,0.75,0,false,0.893,0.003,,,
fmnist,fashion-mnist,lenet,final,IVON,,,,accuracy,2,0.90625,0.04419417382415922,true,0.913,0.001,,,0.91
fmnist,fashion-mnist,lenet,final,IVON,,,,nll,2,0.25,0,true,0.255,0.005,,,0.258
fmnist,fashion-mnist,lenet,final,IVON,,,,ece,2,0.1875,0.08838834764831845,false,0.13,0.002,0.018,the paper prints ECE 0.130 and Brier 0.018 for this row: the two columns are swapped,0.02
fmnist,fashion-mnist,lenet,final,IVON,,,,brier,2,0.375,0,true,0.018,0.002,0.13,the paper prints ECE 0.130 and Brier 0.018 for this row: the two columns are swapped,0.132
fmnist,fashion-mnist,lenet,final,\"a|b_c, \"\"d\"\"\",,,,accuracy,2,0.5,0,false,,,,,
fmnist,fashion-mnist,lenet,final,\"a|b_c, \"\"d\"\"\",,,,nll,2,inf,,false,,,,,
fmnist,fashion-mnist,lenet,final,\"a|b_c, \"\"d\"\"\",,,,ece,2,0.5,0,false,,,,,
fmnist,fashion-mnist,lenet,final,\"a|b_c, \"\"d\"\"\",,,,brier,2,0.375,0,true,,,,,
fmnist,fashion-mnist,lenet,final,IVON,kmnist,own,maximum probability,auroc,1,0.75,,false,,,,,
fmnist,fashion-mnist,lenet,final,IVON,kmnist,own,maximum probability,fpr_at_95_tpr,1,0.5,,false,,,,,
fmnist,fashion-mnist,lenet,final,IVON,kmnist,own,maximum probability,mean_fpr_below_95_tpr,1,0.125,,false,,,,,
fmnist,fashion-mnist,lenet,final,IVON,kmnist,own,maximum probability,detection_error,1,0.25,,false,,,,,
";
    assert_eq!(csv(&records()), expected);
}

#[test]
fn markdown_marks_the_best_and_says_what_is_known() {
    let expected = "\
## Fashion-MNIST with LeNet (fmnist)

Mean ± sample deviation (n − 1) over the seeds. Bold: the best mean of the column and every mean no further from it than the deviation of the best row.

### Test set, final epoch

| Method | Acc. ↑ | NLL ↓ | ECE ↓ | Brier ↓ | AUROC ↑ |
|:--|--:|--:|--:|--:|--:|
| SGD | 0.844 ± 0.044 (paper 0.899 ± 0.003) | 0.375 ± 0.177 (paper 0.441 ± 0.025) | **0.062 ± 0.000** (paper 0.061 ± 0.004) | **0.375 ± 0.000** (paper 0.163 ± 0.005) | 0.750 ± 0.000 (paper 0.893 ± 0.003) |
| IVON | **0.906 ± 0.044** (paper 0.913 ± 0.001) | **0.250 ± 0.000** (paper 0.255 ± 0.005) | 0.188 ± 0.088 (paper 0.018 ± 0.002) | **0.375 ± 0.000** (paper 0.130 ± 0.002) | – |
| a\\|b\\_c, \"d\" | 0.500 ± 0.000 | ∞ | 0.500 ± 0.000 | **0.375 ± 0.000** | – |

On the paper's figures:

- IVON ECE, IVON Brier: the paper prints ECE 0.130 and Brier 0.018 for this row: the two columns are swapped.

### KMNIST, final epoch

| Method | AUROC ↑ | FPR@95 ↓ | Mean FPR ≤ 95 ↓ | Det. err. ↓ |
|:--|--:|--:|--:|--:|
| IVON | 0.750 | 0.500 | 0.125 | 0.250 |
";
    assert_eq!(markdown(&records()), expected);
}

#[test]
fn latex_is_set_by_booktabs() {
    let expected = "\
% needs \\usepackage{booktabs}

\\begin{table}
\\centering
\\caption{Fashion-MNIST with LeNet: Test set, final epoch. Mean and sample deviation over the seeds; the best result and all results within one deviation of it are bold.}
\\begin{tabular}{lccccc}
\\toprule
Method & Acc. $\\uparrow$ & NLL $\\downarrow$ & ECE $\\downarrow$ & Brier $\\downarrow$ & AUROC $\\uparrow$ \\\\
\\midrule
SGD & $0.844_{\\pm 0.044}$ & $0.375_{\\pm 0.177}$ & $\\mathbf{0.062}_{\\pm 0.000}$ & $\\mathbf{0.375}_{\\pm 0.000}$ & $0.750_{\\pm 0.000}$ \\\\
IVON & $\\mathbf{0.906}_{\\pm 0.044}$ & $\\mathbf{0.250}_{\\pm 0.000}$ & $0.188_{\\pm 0.088}$ & $\\mathbf{0.375}_{\\pm 0.000}$ & -- \\\\
a|b\\_c, \"d\" & $0.500_{\\pm 0.000}$ & $\\infty$ & $0.500_{\\pm 0.000}$ & $\\mathbf{0.375}_{\\pm 0.000}$ & -- \\\\
\\bottomrule
\\end{tabular}
\\end{table}

\\begin{table}
\\centering
\\caption{Fashion-MNIST with LeNet: KMNIST, final epoch. Mean and sample deviation over the seeds; the best result and all results within one deviation of it are bold.}
\\begin{tabular}{lcccc}
\\toprule
Method & AUROC $\\uparrow$ & FPR@95 $\\downarrow$ & Mean FPR $\\leq$ 95 $\\downarrow$ & Det. err. $\\downarrow$ \\\\
\\midrule
IVON & $0.750$ & $0.500$ & $0.125$ & $0.250$ \\\\
\\bottomrule
\\end{tabular}
\\end{table}
";
    assert_eq!(latex(&records()), expected);
}

/// Predictions of another program are of no checkpoint and stand beside each.
#[test]
fn what_is_given_stands_at_both_checkpoints() {
    let ours = synthetic::record("mine", &synthetic::METHODS[0], 0, 2, &[]);
    let mut theirs = ours.clone();
    theirs
        .evaluations
        .retain(|e| e.checkpoint == Checkpoint::Final);
    for evaluation in &mut theirs.evaluations {
        evaluation.row = "theirs".to_owned();
        evaluation.predictive = evaluation::record::GIVEN.to_owned();
    }
    let rows = |records: &[RunRecord]| text(records, false).matches("theirs").count();
    assert_eq!(rows(&[ours.clone(), theirs.clone()]), 2);
    theirs.evaluations[0].predictive = "point".to_owned();
    assert_eq!(rows(&[ours, theirs]), 1);
}

#[test]
fn text_is_aligned() {
    let expected = "\
Fashion-MNIST with LeNet: Test set, final epoch
method             Acc. ↑           NLL ↓           ECE ↓         Brier ↓         AUROC ↑
SGD         0.844 ± 0.044   0.375 ± 0.177   0.062 ± 0.000*  0.375 ± 0.000*  0.750 ± 0.000
IVON        0.906 ± 0.044*  0.250 ± 0.000*  0.188 ± 0.088   0.375 ± 0.000*               –
a|b_c, \"d\"  0.500 ± 0.000               ∞   0.500 ± 0.000   0.375 ± 0.000*               –

Fashion-MNIST with LeNet: KMNIST, final epoch
method  AUROC ↑   FPR@95 ↓   Mean FPR ≤ 95 ↓   Det. err. ↓
IVON      0.750      0.500             0.125         0.250
";
    assert_eq!(text(&records(), false), expected);
    let bold = text(&records(), true);
    assert!(bold.contains("\u{1b}[1m0.062 ± 0.000\u{1b}[0m") && !bold.contains('*'));
}

/// Two rows, one of which bounds its predictions, told from one other set.
fn bounded() -> Vec<RunRecord> {
    let mut records = records();
    records.retain(|record| record.seed == 0);
    for record in &mut records {
        let evaluation = &mut record.evaluations[0];
        if evaluation.row != "IVON" {
            continue;
        }
        let scored = |first: f64| Scored {
            auroc: Scores::from_fn(|place| (place != 2).then_some(first - place as f64 / 16.0)),
            in_samples: 30,
            out_samples: 10,
            vacuous: 1,
        };
        let level = SetLevel {
            alpha: 0.125,
            covered: 14,
            classes: 24,
            by_class: vec![(16, 14, 24), (0, 0, 0)],
        };
        evaluation.bounds = Some(Bounds {
            scored: scored(0.9375),
            sets: vec![ClassSets {
                contour: "possibility".to_owned(),
                calibration: 17,
                images: 16,
                levels: vec![level],
            }],
            shown: vec![Shown {
                image: 7,
                class: Some(2),
                classes: vec![ShownClass {
                    class: 1,
                    lower: 0.25,
                    probability: 0.5,
                    upper: 0.75,
                }],
                picture: "data:image/png;base64,AAAA".to_owned(),
            }],
        });
        evaluation.out_of_domain[0].bounds = Some(Bounds {
            scored: scored(0.875),
            sets: Vec::new(),
            shown: Vec::new(),
        });
    }
    records
}

#[test]
fn scores_are_columns_of_tables_of_their_own() {
    let lines = csv(&bounded());
    let scores: Vec<&str> = lines
        .lines()
        .filter(|line| line.contains(",IVON,") && line.contains(",auroc,"))
        .collect();
    assert_eq!(scores.len(), 1 + 6 + 6, "{scores:?}");
    let head = "fmnist,fashion-mnist,lenet,final,IVON";
    assert!(scores.contains(&&*format!("{head},,,energy,auroc,1,0.875,,false,,,,,")));
    assert!(scores.contains(&&*format!(
        "{head},kmnist,own,lower,auroc,1,0.5625,,false,,,,,"
    )));
    assert!(!lines.contains("max_logit"), "undefined");
    let text = markdown(&bounded());
    let title = "### Test set, final epoch: AUROC of right against wrong answers, by score";
    let (_, table) = text.split_once(title).unwrap();
    let want =
        "| Method | Max. prob. ↑ | Energy ↑ | Probit ↑ | Necessity ↑ | Lower prob. ↑ | -Width ↑ |";
    assert!(table.contains(want), "{table}");
    assert!(table.contains("| IVON | 0.938 | 0.875 | 0.750 | 0.688 | 0.625 | 0.562 |"));
    let page = html(&bounded(), &Options::default());
    for part in [
        "What is possible",
        "Right against wrong answers",
        "40 test images; 1 bounds were not certified",
        "30 test against 10 other images; 1 bounds",
        "data-metric=\"necessity\"",
        "17 of them, calibrates, and the other 16 measure",
        "<b>2</b><br>1 <span class=\"deviation\">0.250 ≤ 0.500 ≤ 0.750</span>",
        "x1=\"27.0\" y1=\"4\" x2=\"77.0\"",
        "<td>0.875 <span class=\"deviation\">1.50</span></td>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!html(&records(), &Options::default()).contains("What is possible"));
}

#[test]
fn groups_rows_and_sets_are_kept_apart() {
    let mut records = synthetic::fashion_mnist(2, 2);
    let mut other = synthetic::record("zebra", &synthetic::METHODS[0], 0, 2, &[]);
    other.dataset = "mine".to_owned();
    records.insert(0, other);
    // the same set with other constants or another score is another set
    let first = records
        .iter_mut()
        .find(|record| record.rule == "adamw" && record.experiment == "fmnist")
        .unwrap();
    let mut twin = first.evaluations[0].out_of_domain[0].clone();
    twin.normalization = "training".to_owned();
    first.evaluations[0].out_of_domain.push(twin);
    let groups = report::summary::groups(&records);
    let names: Vec<&str> = groups.iter().map(|group| group.experiment).collect();
    assert_eq!(names, ["fmnist", "zebra"]);
    // dropout is the same network, and rows come in the paper's order
    assert_eq!(groups[0].rows, report::paper::ROWS);
    let labels: Vec<&str> = groups[0]
        .sets
        .iter()
        .map(|set| set.label.as_str())
        .collect();
    assert_eq!(
        labels,
        [
            "notMNIST, own constants",
            "KMNIST",
            "MNIST",
            "notMNIST, training constants"
        ]
    );
    let twin = groups[0].out_of_domain(Checkpoint::Best, &groups[0].sets[3]);
    assert_eq!(twin.rows.len(), 1);
    assert_eq!(twin.rows[0].cells[0].as_ref().unwrap().values.len(), 1);
    let families = groups[0].families();
    let labels: Vec<&str> = families
        .iter()
        .map(|family| family.label.as_str())
        .collect();
    assert_eq!(
        labels,
        [
            "AdamW",
            "SGD, Laplace",
            "IVON@mean, IVON",
            "MC-D",
            "SWAG",
            "uCBOpt (ϑ→0)",
            "uCBOpt",
            "uCBOpt-adapt",
            "lCBOpt-adapt"
        ]
    );
    assert!(families.iter().all(|family| family.runs.len() == 2));
}

#[test]
fn published_figures_stand_beside_the_same_thing_only() {
    let at = Checkpoint::Best;
    let sets = [("emnist-letters", 20_800), ("kmnist", 10_000)];
    let mut records: Vec<RunRecord> = (0..2)
        .map(|seed| synthetic::record("fmnist", &synthetic::METHODS[6], seed, 2, &sets))
        .collect();
    let beside = |records: &[RunRecord], set: usize| {
        let groups = report::summary::groups(records);
        let table = groups[0].out_of_domain(at, &groups[0].sets[set]);
        let cells = table.rows[0].cells.iter().flatten();
        cells
            .map(|cell| (cell.paper.is_some(), cell.reproduction.is_some()))
            .collect::<Vec<_>>()
    };
    // AUROC, AUPR-In, AUPR-Out, standard FPR@95 (never printed), averaged FPR, detection error
    let (yes, no) = ((true, false), (false, false));
    assert_eq!(beside(&records, 0), [yes, yes, yes, no, yes, yes]);
    // another set has no figure of the paper; the reproduction has three of KMNIST
    let again = (false, true);
    assert_eq!(beside(&records, 1), [again, no, no, again, again, no]);
    // other constants or another score are another thing
    for record in &mut records {
        for out in record
            .evaluations
            .iter_mut()
            .flat_map(|e| &mut e.out_of_domain)
        {
            out.normalization = "training".to_owned();
        }
    }
    assert_eq!(beside(&records, 0), [no; 6]);
    assert_eq!(beside(&records, 1), [no; 6]);
    // and so is another experiment
    for record in &mut records {
        record.experiment = "quickstart".to_owned();
    }
    let page = html(&records, &Options::default());
    assert!(!page.contains("class=\"theirs") && !page.contains("data-switch=\"beside\" value"));
}

#[test]
fn the_page_says_what_to_keep_in_mind() {
    let mut records = synthetic::fashion_mnist(2, 7);
    let page = html(&records, &Options::default());
    assert!(page.contains("These runs trained for 7 epochs, those of the paper for 100"));
    assert!(!page.contains("same seed more than once") && !page.contains("mixes settings"));
    assert!(!page.contains("different versions"));
    records[1].seed = 0;
    records[1].config["batch"] = 64.into();
    records[1].config["data"] = serde_json::json!({"limit": 6000});
    records[1].code.version = "0.2.0".to_owned();
    records.pop();
    let page = html(&records, &Options::default());
    for words in [
        "AdamW (best validation) holds runs of the same seed more than once",
        "Runs of AdamW differ in more than their seed (batch, data.limit)",
        "Only a part of the training images was used (6000)",
        "made by different versions",
        "Rows with one run have no deviation",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // the same records give the same bytes
    assert_eq!(page, html(&records, &Options::default()));
}

#[test]
fn what_is_said_of_the_data_is_on_the_page() {
    let records = synthetic::fashion_mnist(2, 2);
    assert!(records.len() > 2);
    let html = report::html(&records, &report::Options::default());
    let note = "kmnist: checked by size alone";
    assert_eq!(html.matches(&format!(">{note}<")).count(), 1);
}

#[test]
fn the_page_names_device_and_precision() {
    let page = report::html(&synthetic::fashion_mnist(1, 2), &report::Options::default());
    assert!(page.contains("<td class=\"left\">cpu, f32</td>"));
}

#[test]
fn the_page_tells_what_the_updates_met() {
    let mut records = synthetic::fashion_mnist(2, 2);
    let options = Options::default();
    assert!(!html(&records, &options).contains("what the updates met"));
    let updates = evaluation::record::Updates {
        coordinates: 1_000,
        clipped: 250,
        gap_not_positive: 125,
        skipped: 0,
        skipped_steps: 1,
    };
    let ours = records
        .iter_mut()
        .filter(|record| record.rule == "ucbopt-adapt");
    for point in ours.flat_map(|record| &mut record.curves) {
        point.updates = Some(updates);
    }
    let page = html(&records, &options);
    assert!(page.contains("the consistency bound that the step minimizes does not hold"));
    // two seeds of two epochs
    let cells = "<td>4,000</td><td>12.5 %</td><td>25.0 %</td><td>0</td><td>4</td></tr>";
    assert_eq!(page.matches(cells).count(), 1);
    // the script reads it from a string of JSON
    assert!(page.contains(r#"\"gap_not_positive\":[[0.125,0.125],[0,0]]"#));
}
