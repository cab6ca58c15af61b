//! The paper's own tables, on records small enough to check by hand.

#![allow(clippy::unwrap_used, reason = "a failed test may say so by a panic")]

mod synthetic;

use evaluation::record::{Checkpoint, RunRecord};
use report::layout::{self, PaperTable};

/// One run with one row at best validation.
fn run(experiment: &str, row: &str, seed: u64, accuracy: f64) -> RunRecord {
    let mut record = synthetic::minimal();
    record.experiment = experiment.to_owned();
    (record.dataset, record.network) = match experiment {
        "cifar10" | "mc-dropout" => ("cifar-10".to_owned(), "resnet20".to_owned()),
        _ => ("fashion-mnist".to_owned(), "lenet".to_owned()),
    };
    record.name = format!("{row}-{seed}");
    record.rule = row.to_owned();
    record.seed = seed;
    let evaluation = &mut record.evaluations[0];
    evaluation.row = row.to_owned();
    evaluation.checkpoint = Checkpoint::Best;
    let values = &mut evaluation.in_domain.values;
    (values.accuracy, values.nll, values.ece) = (Some(accuracy), Some(0.25), Some(0.0625));
    record
}

fn named(records: &[RunRecord], name: &str) -> PaperTable {
    let tables = layout::tables(records);
    tables.into_iter().find(|table| table.name == name).unwrap()
}

/// Two seeds of one value, one of another, and nothing of the others.
fn ablation() -> Vec<RunRecord> {
    let experiment = "ablation-beta3-lower";
    let mut records = vec![
        run(experiment, "β₃ = 0.9", 0, 0.875),
        run(experiment, "β₃ = 0.9", 1, 0.9375),
        run(experiment, "β₃ = 0.999", 0, 0.75),
    ];
    for record in &mut records {
        record.notes.push("a_set: 50% & {more} ~ #1".to_owned());
    }
    records
}

#[test]
fn a_small_table_as_markdown() {
    let expected = "\
## Effect of the β₃ parameter in lCBOpt-adapt on performance

Ours over 1 to 2 runs, the paper's over 3, in brackets at each line: mean and sample deviation; no deviation for one run. A dash stands for a missing number. FPR@95 is, as in the paper's figures, the mean false positive rate over the corners of the ROC curve up to a true positive rate of 95 %.

| β₃ | | Acc. ↑ | NLL ↓ | ECE ↓ | FPR@95 ↓ | AUROC ↑ | AUPR-Out ↑ |
|:--|:--|--:|--:|--:|--:|--:|--:|
| 0.9 | ours (2) | 0.906 ± 0.044 | 0.250 ± 0.000 | 0.062 ± 0.000 | – | – | – |
|  | paper (3) | 0.913 ± 0.002 | 0.252 ± 0.004 | 0.020 ± 0.000 | 0.269 ± 0.015 | 0.784 ± 0.019 | 0.859 ± 0.011 |
| 0.99 | ours (0) | – | – | – | – | – | – |
|  | paper (3) | 0.913 ± 0.002 | 0.252 ± 0.004 | 0.020 ± 0.000 | 0.269 ± 0.015 | 0.784 ± 0.019 | 0.859 ± 0.011 |
| 0.999 | ours (1) | 0.750 | 0.250 | 0.062 | – | – | – |
|  | paper (3) | 0.913 ± 0.002 | 0.252 ± 0.004 | 0.020 ± 0.000 | 0.269 ± 0.015 | 0.784 ± 0.019 | 0.859 ± 0.011 |
| 0.9999 | ours (0) | – | – | – | – | – | – |
|  | paper (3) | 0.913 ± 0.002 | 0.252 ± 0.004 | 0.020 ± 0.000 | 0.269 ± 0.015 | 0.784 ± 0.019 | 0.859 ± 0.011 |
| 0.99999 | ours (0) | – | – | – | – | – | – |
|  | paper (3) | 0.913 ± 0.002 | 0.252 ± 0.004 | 0.020 ± 0.000 | 0.269 ± 0.015 | 0.784 ± 0.019 | 0.859 ± 0.011 |

- Fashion-MNIST with LeNet: no run of β₃ = 0.99, β₃ = 0.9999, β₃ = 0.99999.
- Fashion-MNIST with LeNet: 1 run of 3 of β₃ = 0.999.
- Fashion-MNIST with LeNet: 2 runs of 3 of β₃ = 0.9.
- Fashion-MNIST with LeNet: EMNIST letters was not evaluated.
- Fashion-MNIST with LeNet: a\\_set: 50% & {more} ~ #1.
";
    let table = named(&ablation(), "ablation-beta3-lower");
    assert_eq!(table.markdown, expected);
}

#[test]
fn a_small_table_as_latex() {
    let expected = "\
\\begin{table*}[h!]
\\caption{Effect of the $\\beta$$_3$ parameter in \\texttt{lCBOpt-adapt} on performance. Ours over 1 to 2 runs, the paper's over 3, in brackets at each line: mean and sample deviation; no deviation for one run. A dash stands for a missing number. FPR@95 is, as in the paper's figures, the mean false positive rate over the corners of the ROC curve up to a true positive rate of 95 \\%.}
\\label{tab:ablation_beta3_lcbo}
\\centering
\\setlength{\\tabcolsep}{3pt}
\\resizebox{\\linewidth}{!}{%
\\begin{tabular}{llcccccc}
\\toprule
& & \\multicolumn{3}{c}{In-domain} & \\multicolumn{3}{c}{Out-of-domain} \\\\
\\cmidrule(lr){3-5} \\cmidrule(lr){6-8}
$\\beta$$_3$ & & Acc. $\\uparrow$ & NLL $\\downarrow$ & ECE $\\downarrow$ & FPR@95 $\\downarrow$ & AUROC $\\uparrow$ & AUPR-Out $\\uparrow$ \\\\
\\midrule
$0.9$ & ours (2) & $0.906_{\\pm 0.044}$ & $0.250_{\\pm 0.000}$ & $0.062_{\\pm 0.000}$ & -- & -- & -- \\\\
 & paper (3) & $0.913_{\\pm 0.002}$ & $0.252_{\\pm 0.004}$ & $0.020_{\\pm 0.000}$ & $0.269_{\\pm 0.015}$ & $0.784_{\\pm 0.019}$ & $0.859_{\\pm 0.011}$ \\\\
$0.99$ & ours (0) & -- & -- & -- & -- & -- & -- \\\\
 & paper (3) & $0.913_{\\pm 0.002}$ & $0.252_{\\pm 0.004}$ & $0.020_{\\pm 0.000}$ & $0.269_{\\pm 0.015}$ & $0.784_{\\pm 0.019}$ & $0.859_{\\pm 0.011}$ \\\\
\\rowcolor{gray!10} $0.999$ & ours (1) & $0.750$ & $0.250$ & $0.062$ & -- & -- & -- \\\\
\\rowcolor{gray!10}  & paper (3) & $0.913_{\\pm 0.002}$ & $0.252_{\\pm 0.004}$ & $0.020_{\\pm 0.000}$ & $0.269_{\\pm 0.015}$ & $0.784_{\\pm 0.019}$ & $0.859_{\\pm 0.011}$ \\\\
$0.9999$ & ours (0) & -- & -- & -- & -- & -- & -- \\\\
 & paper (3) & $0.913_{\\pm 0.002}$ & $0.252_{\\pm 0.004}$ & $0.020_{\\pm 0.000}$ & $0.269_{\\pm 0.015}$ & $0.784_{\\pm 0.019}$ & $0.859_{\\pm 0.011}$ \\\\
$0.99999$ & ours (0) & -- & -- & -- & -- & -- & -- \\\\
 & paper (3) & $0.913_{\\pm 0.002}$ & $0.252_{\\pm 0.004}$ & $0.020_{\\pm 0.000}$ & $0.269_{\\pm 0.015}$ & $0.784_{\\pm 0.019}$ & $0.859_{\\pm 0.011}$ \\\\
\\bottomrule
\\end{tabular}}
\\end{table*}
{\\scriptsize\\noindent
Fashion-MNIST with LeNet: no run of $\\beta$$_3$ = 0.99, $\\beta$$_3$ = 0.9999, $\\beta$$_3$ = 0.99999.\\par\\noindent
Fashion-MNIST with LeNet: 1 run of 3 of $\\beta$$_3$ = 0.999.\\par\\noindent
Fashion-MNIST with LeNet: 2 runs of 3 of $\\beta$$_3$ = 0.9.\\par\\noindent
Fashion-MNIST with LeNet: EMNIST letters was not evaluated.\\par\\noindent
Fashion-MNIST with LeNet: a\\_set: 50\\% \\& \\{more\\} \\textasciitilde{} \\#1.\\par}
";
    let table = named(&ablation(), "ablation-beta3-lower");
    assert_eq!(table.latex, expected);
}

#[test]
fn only_tables_with_a_number_of_ours_are_made() {
    let names = |records: &[RunRecord]| -> Vec<&'static str> {
        layout::tables(records).iter().map(|t| t.name).collect()
    };
    assert_eq!(names(&ablation()), ["ablation-beta3-lower"]);
    let main = [run("fmnist", "SGD", 0, 0.875)];
    assert_eq!(names(&main), ["main", "in-domain-best"]);
    // another dataset or network is another experiment, whatever it is called
    let mut other = run("fmnist", "SGD", 0, 0.875);
    other.dataset = "fashion-mnist-mini".to_owned();
    assert!(names(&[other]).is_empty());
    assert!(names(&[run("mine", "SGD", 0, 0.875)]).is_empty());
}

/// The line of ours in a row of a block of a Markdown table.
fn ours<'a>(markdown: &'a str, block: &str, row: &str) -> &'a str {
    let block = markdown.split(block).nth(1).unwrap();
    let start = format!("| {row} | ours");
    block.lines().find(|line| line.contains(&start)).unwrap()
}

#[test]
fn the_main_table_has_every_row_and_marks_the_best() {
    let records: Vec<RunRecord> = [("SGD", 0.75), ("IVON", 0.875), ("uCBOpt-adapt", 0.8125)]
        .into_iter()
        .flat_map(|(row, accuracy)| {
            [0, 1].map(|seed| run("fmnist", row, seed, accuracy + 0.125 * seed as f64))
        })
        .collect();
    let table = named(&records, "main").markdown;
    // 27 rows, ours and the paper's
    assert_eq!(table.matches("| ours (").count(), 27);
    assert_eq!(table.matches("| paper (3) |").count(), 27);
    assert_eq!(table.matches("| ours (2) |").count(), 3);
    assert_eq!(
        table
            .matches("| ours (0) | – | – | – | – | – | – |")
            .count(),
        24
    );
    let block = "in: Fashion-MNIST";
    assert!(ours(&table, block, "IVON").contains("| **0.938 ± 0.088** |"));
    // within one deviation of the best
    assert!(ours(&table, block, "uCBOpt-adapt").contains("| **0.875 ± 0.088** |"));
    assert!(
        ours(&table, block, "SGD").contains("| 0.812 ± 0.088 |"),
        "{table}"
    );
    // what the paper prints, its bold and a slip of its own
    assert!(table.contains("| paper (3) | **0.911 ± 0.003** |"));
    assert!(table.contains("0.627 ± 0.022 (a) |"));
    assert!(table.contains("- (a) the main table repeats AUPR-In 0.627 here"));
    assert!(table.contains("- CIFAR-10 with ResNet-20: no run is among the records."));
    assert!(table.contains("Fashion-MNIST with LeNet: EMNIST letters was not evaluated."));
    assert!(table.contains("Ours over 2 runs, the paper's over 3"));
}

#[test]
fn rows_are_set_beside_their_like() {
    // the main table's uCBOpt of CIFAR-10 is the paper's row of ϑ→0
    let records = [
        run("cifar10", "uCBOpt", 0, 0.75),
        run("cifar10", "uCBOpt (ϑ→0)", 0, 0.875),
    ];
    let main = named(&records, "main").markdown;
    let block = "in: CIFAR-10,";
    assert!(main.contains("ours is our row uCBOpt (ϑ→0) here, too"));
    let line = main.split(block).nth(1).unwrap();
    let line = line
        .lines()
        .find(|line| line.contains("| uCBOpt ("))
        .unwrap();
    assert!(line.contains("| 0.875 |"), "{line}");
    let full = named(&records, "in-domain-best").markdown;
    let block = full.split("| CIFAR-10 |").nth(1).unwrap();
    let start = "|  | uCBOpt (ϑ = 5e-5)";
    let line = block.lines().find(|line| line.starts_with(start)).unwrap();
    assert!(line.contains("| 0.750 |"), "{line}");
    // SWAG has no checkpoint: its last evaluation serves both
    let mut swag = run("fmnist", "SWAG", 0, 0.25);
    let mut last = swag.evaluations[0].clone();
    last.checkpoint = Checkpoint::Final;
    last.in_domain.values.accuracy = Some(0.625);
    swag.evaluations.push(last);
    let table = named(&[swag], "in-domain-best").markdown;
    let line = table.lines().find(|line| line.contains("| SWAG")).unwrap();
    assert!(line.contains("| 0.625 |"), "{line}");
    assert!(table.contains("SWAG is evaluated once, from all its snapshots"));
    // the combinations with dropout are trained from configs of CIFAR-10
    let table = named(&[run("cifar10", "MC-D", 0, 0.625)], "mc-dropout").markdown;
    assert!(table.contains("| MC-D | ours (1) | 0.625 |"), "{table}");
}

#[test]
fn the_table_of_runtimes_shows_all_cells() {
    let rules = [
        "adamw",
        "sgd",
        "ivon",
        "ucbopt",
        "ucbopt-adapt",
        "lcbopt-adapt",
    ];
    let runs = rules.iter().zip(1..).map(|(rule, i)| {
        let mut record = run("runtime", rule, 0, 0.5);
        (record.dataset, record.network) = ("cifar-100".to_owned(), "densenet121".to_owned());
        record.rule = (*rule).to_owned();
        record.hardware.device = "a card_1".to_owned();
        record.curves = synthetic::fashion_mnist(1, 2)[0].curves.clone();
        record.timings.train_s = f64::from(10 * i);
        record.timings.validation_s = 2.0;
        record.config = serde_json::json!({"data": {"limit": 2048}});
        record.timings.peak_device_bytes = Some(u64::from(i as u32) << 29);
        record
    });
    let mut runs: Vec<RunRecord> = runs.collect();
    let table = named(&runs, "runtime");
    let line = "| CIFAR-100, DenseNet-121 | Runtime (seconds per epoch) | ours | 6.00 | 11.0 | 16.0 | 21.0 | 26.0 | 31.0 |";
    assert!(table.markdown.contains(line), "{}", table.markdown);
    assert!(
        table
            .markdown
            .contains("|  |  | paper | 84.5 | 83.2 | 83.5 | 86.9 | 86.9 | 86.9 |")
    );
    let line = "Memory allocated (GiB) | ours | 0.50 | 1.00 | 1.50 | 2.00 | 2.50 | 3.00 |";
    assert!(table.markdown.contains(line));
    assert!(
        table
            .markdown
            .contains("Memory reserved (GiB) | ours | – | – |")
    );
    assert!(
        table
            .markdown
            .contains("CIFAR-10 with ResNet-20: no run is among the records.")
    );
    assert!(
        table
            .latex
            .contains("Ours on a card\\_1, one run at a time")
    );
    let notice = "CIFAR-100 with DenseNet-121: Only a part of the training images was used (2048).";
    assert!(table.markdown.contains(notice), "{}", table.markdown);
    runs.remove(0);
    runs.iter_mut()
        .for_each(|run| run.device = "cuda".to_owned());
    let table = named(&runs, "runtime").markdown;
    assert!(table.contains("CIFAR-100 with DenseNet-121: no run of AdamW."));
    assert!(
        table.contains("Ours on a GPU (cuda) beside a card\\_1, one run"),
        "{table}"
    );
}

#[test]
fn figures_are_named_and_complete() {
    let records = synthetic::fashion_mnist(3, 4);
    let curves = layout::training_curves(&records);
    let names: Vec<&str> = curves.iter().map(|figure| figure.name.as_str()).collect();
    let expected = [
        "fmnist-training-loss",
        "fmnist-validation-loss",
        "fmnist-training-accuracy",
        "fmnist-validation-accuracy",
    ];
    assert_eq!(names, expected);
    for figure in &curves {
        assert_eq!(figure.setting, "Fashion-MNIST / LeNet");
        assert_eq!(figure.curves.len(), 9, "one per training");
        for curve in &figure.curves {
            let epochs: Vec<usize> = curve.points.iter().map(|point| point.0).collect();
            assert_eq!((curve.runs, epochs), (3, vec![1, 2, 3, 4]));
            assert!(curve.points.iter().all(|point| point.2.is_some()));
        }
    }
    // the mean by hand
    let of = |seed: usize| records[seed].curves[2].train_loss;
    let mean = (of(0) + of(1) + of(2)) / 3.0;
    assert!((curves[0].curves[0].points[2].1 - mean).abs() < 1e-12);
    let diagrams = layout::reliability(&records);
    let names: Vec<&str> = diagrams.iter().map(|figure| figure.name.as_str()).collect();
    let rows = ["ucbopt-zero", "ucbopt", "ucbopt-adapt", "lcbopt-adapt"];
    assert_eq!(names, rows.map(|row| format!("fmnist-reliability-{row}")));
    assert!(
        diagrams
            .iter()
            .all(|figure| figure.runs == 3 && figure.ece.is_some())
    );
    let tables = layout::tables(&records);
    let text = layout::latex_document(&tables, &curves, &diagrams);
    for name in expected {
        assert!(text.contains(&format!("{{{name}.pdf}}")), "{name}");
    }
    let text = layout::markdown_document(&tables, &curves, &diagrams);
    assert!(text.contains("(fmnist-reliability-ucbopt.svg)"));
}
