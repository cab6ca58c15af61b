//! The page in a real browser: it renders, nothing complains, what it shows is what the records
//! hold, and hands and keys find what they need.
//!
//! Without Chromium these tests are skipped and say so; with `MAXITIVE_BROWSER=required`, as in CI,
//! they fail instead. `MAXITIVE_PICTURES=FOLDER` keeps pictures of the layouts. With
//! `MAXITIVE_AXE=axe.min.js`, of the package `axe-core` (`npm pack axe-core`), the pages are
//! checked for accessibility, too.

#![allow(clippy::unwrap_used, reason = "a failed test may say so by a panic")]

mod devtools;
#[path = "../synthetic/mod.rs"]
mod synthetic;

use std::time::{Duration, Instant};

use evaluation::record::{Checkpoint, RunRecord};
use report::Options;
use serde_json::{Value, json};

use devtools::{Browser, browser};

fn page(records: &[RunRecord]) -> String {
    report::html(records, &Options::default())
}

#[track_caller]
fn assert_content(browser: &Browser) {
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// Plots under a host of this name that have a path, a dot or a bar.
fn plots(browser: &Browser, chart: &str) -> f64 {
    browser.number(&format!(
        "[...document.querySelectorAll('.group:not([hidden]) [data-chart=\"{chart}\"] svg.plot')]\
         .filter(s => s.querySelector('path.line, circle, rect, path.in') && s.getBoundingClientRect().height > 60).length"
    ))
}

#[test]
fn the_page_renders_and_loads_nothing() {
    let Some(browser) = browser() else { return };
    let html = page(&synthetic::fashion_mnist(3, 100));
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
    browser.open(&html);
    let shown = browser.text("document.title");
    assert_eq!(shown, "Fashion-MNIST with LeNet · Maxitive");
    let shown = browser.text("document.querySelector('h1').textContent");
    assert_eq!(shown, "Fashion-MNIST with LeNet");
    let expected = [
        ("glance-in", 6.0),
        ("glance-out", 6.0),
        ("reliability", 11.0),
        ("risk", 1.0),
        ("detection", 3.0),
        ("scores", 11.0),
        ("training", 5.0),
    ];
    for (chart, count) in expected {
        assert_eq!(plots(&browser, chart), count, "{chart}");
    }
    let shown = browser.number("document.querySelectorAll('[data-chart=\"detection\"] svg.plot')[0].querySelectorAll('path.line').length");
    assert_eq!(shown, 11.0);
    // no number went wrong on its way into a drawing
    let shown = browser.number("[...document.querySelectorAll('svg *')].filter(e => [...e.attributes].some(a => /NaN|undefined|Infinity/.test(a.value))).length");
    assert_eq!(shown, 0.0);
    let shown = browser.evaluate("/NaN|undefined/.test(document.body.innerText)");
    assert_eq!(shown, json!(false));
    assert_content(&browser);
}

#[test]
fn a_row_that_guesses_is_marked_and_never_best() {
    let Some(browser) = browser() else { return };
    let mut records: Vec<RunRecord> = (0..2)
        .map(|i| synthetic::record("mine", &synthetic::METHODS[i], 0, 2, &[]))
        .collect();
    for evaluation in &mut records[1].evaluations {
        // ten classes, ten thousand images: guessing, but perfectly calibrated
        evaluation.in_domain.values.accuracy = Some(0.104);
        evaluation.in_domain.values.ece = Some(0.0);
    }
    browser.open(&page(&records));
    let marked = "[...document.querySelectorAll('.results-table:not([hidden]) tr')].filter(r => r.querySelector('th .tag')).map(r => [r.querySelector('.name').innerText, r.querySelectorAll('.best').length])";
    assert_eq!(
        browser.evaluate(marked),
        json!([["SGD", 0], ["Laplace", 0]])
    );
    // hollow in the plots, and outside of the zone of the best even where they have the best value
    let dots = "[...document.querySelectorAll('[data-chart=\"glance-in\"] svg')].map(s => { const zone = s.querySelector('.zone').getBBox(); return [...s.querySelectorAll('circle')].filter(c => c.getAttribute('fill') === 'var(--card)').map(c => +c.getAttribute('cx') > zone.x + zone.width || +c.getAttribute('cx') < zone.x); })";
    assert_eq!(browser.evaluate(dots), json!(vec![[true, true]; 6]));
    assert_content(&browser);
}

/// Rows of one's own may be called as methods are.
#[test]
fn the_paper_has_a_chapter_beside_its_experiments_only() {
    let Some(browser) = browser() else { return };
    let sgd = |experiment: &str| synthetic::record(experiment, &synthetic::METHODS[1], 0, 2, &[]);
    for (experiment, expected) in [("mine", json!([0, 0])), ("fmnist", json!([1, 1]))] {
        browser.open(&page(&[sgd(experiment)]));
        let chapter = "['#disagreements', 'nav a[href=\"#disagreements\"]'].map(s => document.querySelectorAll(s).length)";
        assert_eq!(browser.evaluate(chapter), expected, "{experiment}");
    }
}

/// All that axe-core has to say of the pages, at two widths and in both themes.
#[test]
fn no_rule_of_accessibility_is_broken() {
    let Some(script) = std::env::var_os("MAXITIVE_AXE") else {
        return;
    };
    let script = std::fs::read_to_string(script).unwrap();
    let Some(browser) = browser() else { return };
    let swept = swept();
    let names = [0, 1, 2, 3].map(|i| swept[i].name.as_str());
    let options = Options {
        searches: vec![search("rates", names)],
        ..Options::default()
    };
    let table = page(&synthetic::fashion_mnist(2, 20));
    let minimal = page(&[synthetic::minimal()]);
    for html in [table, report::html(&swept, &options), minimal] {
        browser.open(&html);
        browser.evaluate(&format!("{script}; true"));
        for (width, is_phone) in [(1440, false), (390, true)] {
            browser.resize(width, 900, is_phone);
            for scheme in ["light", "dark"] {
                browser.medium("", scheme);
                let found = "axe.run().then(r => r.violations.map(v => `${v.id}: ${v.nodes.map(n => n.target).join(', ')}`))";
                assert_eq!(browser.evaluate(found), json!([]), "{width} {scheme}");
            }
        }
    }
}

#[test]
fn classes_show_accuracy_confusions_and_mistakes() {
    let Some(browser) = browser() else { return };
    let record = synthetic::record("mine", &synthetic::METHODS[0], 0, 2, &[]);
    let found = record.evaluations[0].by_class.clone().unwrap();
    browser.open(&page(&[record]));
    let shown = browser
        .evaluate("[...document.querySelectorAll('.classes > .scroll td')].map(c => c.innerText)");
    let expected: Vec<String> = (found.right.iter())
        .map(|&right| format!("{:.3}", right as f64 / 1000.0))
        .collect();
    assert_eq!(shown, json!(expected));
    // the line of the third class: right on the diagonal, mistakes beside it
    let line = "document.querySelectorAll('.matrix tbody tr')[2].querySelectorAll('td')";
    assert_eq!(
        browser.evaluate(&format!("[...{line}].map(c => +c.innerText)")),
        json!([
            0,
            0,
            found.right[2],
            1000 - found.right[2],
            0,
            0,
            0,
            0,
            0,
            0
        ])
    );
    let shown = browser.text("document.querySelector('.mistakes figcaption').textContent");
    assert_eq!(shown, "class 2, taken for class 3 0.996");
    // the picture inside the page is let through by its policy
    let shown = browser.number("document.querySelector('.mistakes img').naturalWidth");
    assert_eq!(shown, 1.0);
    assert_content(&browser);
}

/// What a visible results table shows: (row, metric, mean, deviation, full value).
fn shown(browser: &Browser) -> Vec<(String, String, String, String, f64)> {
    let cells = browser.evaluate(
        "[...document.querySelectorAll('.results-table')].filter(t => t.offsetParent).flatMap(t => { \
         const heads = [...t.querySelectorAll('thead th')]; \
         return [...t.querySelectorAll('tbody tr')].flatMap(r => [...r.cells].slice(1).filter(c => c.dataset.v).map(c => [ \
           r.querySelector('.name').textContent, (t.dataset.set ?? '-') + ' ' + heads[c.cellIndex].dataset.metric, \
           c.querySelector('.mean').textContent, c.querySelector('.deviation')?.textContent ?? '', +c.dataset.v])); })",
    );
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    cells
        .as_array()
        .unwrap()
        .iter()
        .map(|c| {
            (
                text(&c[0]),
                text(&c[1]),
                text(&c[2]),
                text(&c[3]),
                c[4].as_f64().unwrap(),
            )
        })
        .collect()
}

/// The same straight from the records.
fn recorded(
    records: &[RunRecord],
    checkpoint: Checkpoint,
    set: Option<&str>,
    row: &str,
    metric: &str,
) -> Vec<f64> {
    records
        .iter()
        .flat_map(|record| &record.evaluations)
        .filter(|evaluation| evaluation.row == row && evaluation.checkpoint == checkpoint)
        .map(|evaluation| {
            let json = match set {
                None => serde_json::to_value(&evaluation.in_domain).unwrap(),
                Some(name) => {
                    let out = evaluation
                        .out_of_domain
                        .iter()
                        .find(|out| out.dataset == name);
                    serde_json::to_value(&out.unwrap().metrics).unwrap()
                }
            };
            json[metric].as_f64().unwrap()
        })
        .collect()
}

#[test]
fn the_numbers_shown_are_those_of_the_records() {
    let Some(browser) = browser() else { return };
    let records = synthetic::fashion_mnist(3, 4);
    browser.open(&page(&records));
    let sets = ["notmnist", "kmnist", "mnist"];
    for (checkpoint, value) in [(Checkpoint::Best, "best"), (Checkpoint::Final, "final")] {
        browser.click(&format!(
            "input[data-switch=\"checkpoint\"][value=\"{value}\"]"
        ));
        for (i, set) in sets.iter().enumerate() {
            browser.click(&format!(
                ".results input[data-switch=\"set\"][value=\"{i}\"]"
            ));
            let cells = shown(&browser);
            assert_eq!(cells.len(), 11 * (6 + 6), "{value} {set}");
            for (row, place, mean, deviation, full) in cells {
                let (number, metric) = place.split_once(' ').unwrap();
                let set = (number != "-").then_some(*set);
                let values = recorded(&records, checkpoint, set, &row, metric);
                assert_eq!(values.len(), 3);
                let expected = values.iter().sum::<f64>() / 3.0;
                let squares: f64 = values.iter().map(|v| (v - expected).powi(2)).sum();
                let name = format!("{value} {row} {place}");
                assert_eq!(full, expected, "{name}");
                assert_eq!(mean, format!("{expected:.3}"), "{name}");
                assert_eq!(
                    deviation,
                    format!("± {:.3}", (squares / 2.0).sqrt()),
                    "{name}"
                );
            }
        }
    }
    // the paper's figure beside ours, as printed
    let theirs = browser.text(
        "[...document.querySelectorAll('.results-table')].find(t => t.offsetParent).querySelector('tr[data-row=\"1\"] td:nth-child(4) .theirs.only-paper').innerText",
    );
    assert!(theirs.contains("0.441 ± 0.025"), "{theirs}");
    // bold: the best and what lies within its deviation
    let best = browser.evaluate(
        "[...document.querySelectorAll('.results-table')].find(t => t.offsetParent).querySelectorAll('td.best').length > 0 && \
         [...document.querySelectorAll('td.best .mean')].every(m => +getComputedStyle(m).fontWeight >= 700)",
    );
    assert_eq!(best, json!(true));
    assert_content(&browser);
}

#[test]
fn methods_are_toggled_by_hand_and_by_key() {
    let Some(browser) = browser() else { return };
    browser.open(&page(&synthetic::fashion_mnist(2, 5)));
    let lines = |browser: &Browser| {
        browser.evaluate("[...document.querySelectorAll('[data-chart=\"detection\"] svg.plot')].map(s => s.querySelectorAll('path.line').length)")
    };
    assert_eq!(lines(&browser), json!([11, 11, 11]));
    // AdamW is the first row and has runs of its own
    browser.click("input[data-method=\"0\"]");
    assert_eq!(lines(&browser), json!([10, 10, 10]));
    assert_eq!(plots(&browser, "reliability"), 10.0);
    assert_eq!(plots(&browser, "scores"), 10.0);
    let names = "[...document.querySelectorAll('[data-chart=\"training\"] path.line')].map(p => p.dataset.name)";
    assert_eq!(
        browser.evaluate(&format!("{names}.includes('AdamW')")),
        json!(false)
    );
    assert_eq!(
        browser.evaluate(&format!("{names}.includes('SGD, Laplace')")),
        json!(true)
    );
    let shown =
        browser.evaluate("document.querySelector('tr[data-row=\"0\"]').classList.contains('off')");
    assert_eq!(shown, json!(true));
    // SGD alone off leaves the runs it shares with Laplace
    browser.click("input[data-method=\"1\"]");
    assert_eq!(
        browser.evaluate(&format!("{names}.includes('SGD, Laplace')")),
        json!(true)
    );
    browser.click("button[data-all=\"off\"]");
    for chart in [
        "glance-in",
        "reliability",
        "detection",
        "scores",
        "training",
    ] {
        assert_eq!(plots(&browser, chart), 0.0, "{chart}");
    }
    browser.click("button[data-all=\"on\"]");
    assert_eq!(lines(&browser), json!([11, 11, 11]));
    browser.evaluate("document.querySelector('input[data-method=\"2\"]').focus()");
    browser.call("Input.dispatchKeyEvent", json!({"type": "keyDown", "key": " ", "code": "Space", "text": " ", "windowsVirtualKeyCode": 32}));
    browser.call(
        "Input.dispatchKeyEvent",
        json!({"type": "keyUp", "key": " ", "code": "Space", "windowsVirtualKeyCode": 32}),
    );
    assert_eq!(lines(&browser), json!([10, 10, 10]));
    browser.click("input[data-log]");
    assert_eq!(plots(&browser, "training"), 5.0);
    assert_content(&browser);
}

#[test]
fn tables_are_sorted_by_their_heads() {
    let Some(browser) = browser() else { return };
    let mut records = synthetic::fashion_mnist(2, 3);
    // a row without the number comes last, an infinite one after the finite
    for record in &mut records {
        for evaluation in &mut record.evaluations {
            if evaluation.row == "SGD" {
                evaluation.in_domain.values.auroc = None;
            }
            if evaluation.row == "AdamW" {
                evaluation.in_domain.values.nll = Some(f64::INFINITY);
            }
        }
    }
    browser.open(&page(&records));
    let column = |metric: &str| {
        let cells = browser.evaluate(&format!(
            "(() => {{ const t = [...document.querySelectorAll('.results-table table')].find(t => t.offsetParent); \
             const i = t.querySelector('th[data-metric=\"{metric}\"]').cellIndex; \
             return [...t.tBodies[0].rows].map(r => [r.querySelector('.name').textContent, r.cells[i].dataset.v ?? null]); }})()"
        ));
        cells
            .as_array()
            .unwrap()
            .iter()
            .map(|c| {
                let value = c[1]
                    .as_str()
                    .map(|v| v.replace("Infinity", "inf").parse::<f64>().unwrap());
                (c[0].as_str().unwrap().to_owned(), value)
            })
            .collect::<Vec<_>>()
    };
    let head =
        |metric: &str| format!(".results-table:not([hidden]) th[data-metric=\"{metric}\"] button");
    let aria = |metric: &str| {
        browser.text(&format!(
            "document.querySelector('.results-table:not([hidden]) th[data-metric=\"{metric}\"]').ariaSort"
        ))
    };
    let before = column("auroc");
    browser.click(&head("auroc"));
    let sorted = column("auroc");
    assert_eq!(aria("auroc"), "descending");
    assert_eq!(sorted.last().unwrap(), &("SGD".to_owned(), None));
    let values: Vec<f64> = sorted.iter().filter_map(|c| c.1).collect();
    assert_eq!(values.len(), 10);
    assert!(values.is_sorted_by(|a, b| a >= b), "{values:?}");
    browser.click(&head("auroc"));
    assert_eq!(aria("auroc"), "ascending");
    let sorted = column("auroc");
    assert_eq!(sorted.last().unwrap().1, None);
    assert!(sorted[..10].is_sorted_by(|a, b| a.1 <= b.1), "{sorted:?}");
    browser.click(&head("auroc"));
    assert_eq!(aria("auroc"), "none");
    assert_eq!(column("auroc"), before);
    // lower is better: the smallest first; by key
    browser.evaluate(&format!(
        "document.querySelector({}).focus()",
        json!(head("nll"))
    ));
    browser.press("Enter");
    assert_eq!(aria("nll"), "ascending");
    let sorted = column("nll");
    assert_eq!(
        sorted.last().unwrap(),
        &("AdamW".to_owned(), Some(f64::INFINITY))
    );
    assert!(sorted.is_sorted_by(|a, b| a.1 <= b.1), "{sorted:?}");
    assert!(browser.text("[...document.querySelectorAll('.results-table td')].find(c => c.dataset.v === 'Infinity').innerText").contains('∞'));
    assert_content(&browser);
}

#[test]
fn switches_choose_what_is_shown() {
    let Some(browser) = browser() else { return };
    let mut records = synthetic::fashion_mnist(2, 5);
    let vartheta = synthetic::Method {
        rule: "ucbopt",
        network: "lenet",
        rows: &[("ϑ = 8e-6", "point", 1)],
    };
    let sets = [("emnist-letters", 20_800)];
    records.extend(
        (0..2).map(|seed| synthetic::record("ablation-vartheta", &vartheta, seed, 5, &sets)),
    );
    browser.open(&page(&records));
    let caption = || {
        browser.text("[...document.querySelectorAll('.results-table')].filter(t => t.offsetParent).map(t => t.querySelector('caption').firstChild.textContent).join('; ')")
    };
    assert_eq!(
        caption(),
        "Test set, best validation; notMNIST, best validation"
    );
    browser.click("input[data-switch=\"checkpoint\"][value=\"final\"]");
    assert_eq!(caption(), "Test set, final epoch; notMNIST, final epoch");
    // one of several switches of the same purpose moves all
    browser.click(".detection input[data-switch=\"set\"][value=\"2\"]");
    assert_eq!(caption(), "Test set, final epoch; MNIST, final epoch");
    let shown = browser.evaluate("[...document.querySelectorAll('.group:not([hidden]) input[data-switch=\"set\"]')].filter(i => i.checked).map(i => i.value)");
    assert_eq!(shown, json!(["2", "2", "2"]));
    let beside = |kind: &str| {
        browser.number(&format!("[...document.querySelectorAll('.theirs.only-{kind}')].filter(e => e.offsetParent).length"))
    };
    assert_eq!((beside("paper"), beside("reproduction")), (66.0, 0.0));
    browser.click("input[data-switch=\"beside\"][value=\"reproduction\"]");
    assert_eq!((beside("paper"), beside("reproduction")), (0.0, 44.0));
    browser.click("input[data-switch=\"beside\"][value=\"nothing\"]");
    assert_eq!((beside("paper"), beside("reproduction")), (0.0, 0.0));
    browser.click("input[data-switch=\"beside\"][value=\"paper\"]");
    // another experiment: its own rows and sets, the weights that were chosen
    browser.click("input[data-switch=\"group\"][value=\"1\"]");
    assert_eq!(
        caption(),
        "Test set, final epoch; EMNIST letters, final epoch"
    );
    browser.click("input[data-switch=\"checkpoint\"][value=\"best\"]");
    // accuracy, NLL and ECE; averaged FPR, AUROC and AUPR-Out
    assert_eq!(beside("paper"), 6.0);
    browser.picture("ablation");
    assert_eq!(plots(&browser, "reliability"), 1.0);
    assert_content(&browser);
}

#[test]
fn values_are_read_by_pointing_and_by_keys() {
    let Some(browser) = browser() else { return };
    browser.open(&page(&synthetic::fashion_mnist(2, 6)));
    let tip = || {
        browser.text(
            "document.querySelector('#tip').hidden ? '' : document.querySelector('#tip').innerText",
        )
    };
    assert_eq!(tip(), "");
    let (x, y) = browser.middle("[data-chart=\"detection\"] svg.plot");
    browser.point(x, y);
    let text = tip();
    assert!(text.starts_with("false positive rate"), "{text}");
    assert!(
        text.contains("lCBOpt-adapt") && text.contains("0."),
        "{text}"
    );
    browser.press("Escape");
    assert_eq!(tip(), "");
    for (chart, word) in [
        ("reliability", "mean confidence"),
        ("scores", "test set"),
        ("glance-in", "seed 0"),
        ("training", "epoch"),
    ] {
        let selector = format!("[data-chart=\"{chart}\"] svg.plot");
        let (x, y) = browser.middle(&selector);
        browser.point(x + 20.0, y);
        let text = tip();
        assert!(text.contains(word), "{chart}: {text}");
        // away, and again by keys
        browser.point(2.0, 2.0);
        assert_eq!(tip(), "", "{chart}");
        browser.evaluate(&format!(
            "document.querySelector({}).focus()",
            json!(selector)
        ));
        browser.press("ArrowRight");
        let first = tip();
        browser.press("ArrowRight");
        let second = tip();
        assert!(
            !first.is_empty() && !second.is_empty() && first != second,
            "{chart}: {first}"
        );
        browser.press("ArrowLeft");
        assert_eq!(tip(), first, "{chart}");
    }
    browser.press("Escape");
    // heads explain themselves, cells show their seeds
    let (x, y) = browser.middle("th[data-metric=\"ece\"] button");
    browser.point(x, y);
    assert!(tip().contains("calibration"), "{}", tip());
    let (x, y) = browser.middle("td[data-v]");
    browser.point(x, y);
    assert!(tip().contains("seed 1:"), "{}", tip());
    // the script makes the tip from the data of the page: row, metric, seeds, mean, paper
    let records = synthetic::fashion_mnist(2, 6);
    let row = browser.text(
        "document.querySelector('td[data-v]').closest('tr').querySelector('.name').innerText",
    );
    let value = |seed: usize| {
        let of_row = |record: &&RunRecord| record.seed == seed as u64;
        let evaluations = records
            .iter()
            .filter(of_row)
            .flat_map(|record| &record.evaluations);
        let mut best = evaluations.filter(|e| e.checkpoint == Checkpoint::Best);
        let own = best.find(|e| e.row == row).unwrap();
        own.in_domain.values.accuracy.unwrap()
    };
    let (first, second) = (value(0), value(1));
    let said = tip();
    let expected = format!("seed 0: {first:.6}\nseed 1: {second:.6}\nmean ");
    assert!(said.contains(&expected), "{said} instead of {expected}");
    assert!(said.starts_with(&format!("{row}, Acc.")), "{said}");
    assert!(
        said.contains(&format!("mean {:.6}", (first + second) / 2.0)),
        "{said}"
    );
    assert!(said.contains("\npaper "), "{said}");
    assert_content(&browser);
}

/// Plots of many rows wait until they are looked at or printed.
#[test]
fn plots_of_many_rows_are_drawn_when_they_come_near() {
    let Some(browser) = browser() else { return };
    let mut records = Vec::new();
    for number in 0..50 {
        let mut record = synthetic::record("mine", &synthetic::METHODS[0], 0, 2, &[("mnist", 100)]);
        record.name = format!("adamw-{number}");
        for evaluation in &mut record.evaluations {
            evaluation.row = format!("AdamW {number}");
        }
        records.push(record);
    }
    browser.open(&page(&records));
    assert_eq!(plots(&browser, "scores"), 0.0);
    assert_eq!(plots(&browser, "training"), 0.0);
    // tables of a view become elements when it is chosen
    let rows = "document.querySelectorAll('.results-table tbody tr').length";
    assert_eq!(browser.number(rows), 100.0);
    browser.click("input[data-switch=\"checkpoint\"][value=\"final\"]");
    assert_eq!(browser.number(rows), 200.0);
    let shown = "[...document.querySelectorAll('.results-table')].filter(t => t.checkVisibility()).map(t => [t.dataset.checkpoint, t.querySelectorAll('tbody tr').length])";
    assert_eq!(
        browser.evaluate(shown),
        json!([["final", 50], ["final", 50]])
    );
    // sections far from the window are not laid out, but on paper all are
    let laid_out = "[...new Set([...document.querySelectorAll('main section')].map(s => getComputedStyle(s).contentVisibility))]";
    assert_eq!(browser.evaluate(laid_out), json!(["auto"]));
    browser.medium("print", "light");
    assert_eq!(browser.evaluate(laid_out), json!(["visible"]));
    browser.medium("", "light");
    // plots that are drawn on the way move the ones below
    let begin = Instant::now();
    while plots(&browser, "scores") == 0.0 && begin.elapsed() < Duration::from_secs(30) {
        browser.evaluate(
            "document.querySelector('[data-chart=\"scores\"]').scrollIntoView({ behavior: 'instant' })",
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(plots(&browser, "scores"), 50.0);
    browser.evaluate("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(plots(&browser, "reliability"), 50.0);
    assert!(plots(&browser, "training") > 3.0);
    assert_content(&browser);
}

/// Text whose contrast with what lies behind it is too small (WCAG AA: 4.5, large text 3).
const FAINT: &str = r"(() => {
    const parse = c => { const n = c.match(/[\d.]+/g).map(Number); return c.startsWith('color(srgb') ? [n[0] * 255, n[1] * 255, n[2] * 255, n[3] ?? 1] : [n[0], n[1], n[2], n[3] ?? 1]; };
    const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
    const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
    const behind = e => { const layers = []; for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); layers.push(c); if (c[3] === 1) break; } return layers.reverse().reduce((b, c) => over(c, b), [255, 255, 255, 1]); };
    const faint = [];
    for (const e of document.querySelectorAll('body *')) {
        if (!e.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
        if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
        if (e.closest('.unseen, script, style, noscript, .off, label:has(input:not(:checked))')) continue;
        const s = getComputedStyle(e), back = behind(e), front = over(parse(e instanceof SVGElement ? s.fill : s.color), back);
        const [a, b] = [light(front), light(back)], ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
        const size = parseFloat(s.fontSize), large = size >= 24 || (size >= 18.66 && +s.fontWeight >= 700);
        if (ratio < (large ? 3 : 4.5)) faint.push(`${e.tagName}.${e.getAttribute('class')} ${ratio.toFixed(2)} ${e.textContent.trim().slice(0, 30)}`);
    }
    return faint;
})()";

/// Elements that reach beyond the window, unless something around them scrolls.
const OVERFLOWING: &str = r"[...document.querySelectorAll('body *')].filter(e => {
    const b = e.getBoundingClientRect();
    if (!b.width || b.right <= innerWidth + 1 || e.closest('.scroll, pre, .hero svg, .unseen, .skip, caption')) return false;
    return true;
}).map(e => `${e.tagName}.${e.getAttribute('class')} to ${e.getBoundingClientRect().right}`)";

#[test]
fn it_fits_on_a_phone_in_the_dark_and_on_paper() {
    let Some(browser) = browser() else { return };
    browser.open(&page(&synthetic::fashion_mnist(3, 60)));
    let background = || browser.text("getComputedStyle(document.body).backgroundColor");
    let assert_layout = |name: &str| {
        assert_eq!(browser.evaluate(OVERFLOWING), json!([]), "{name}");
        let shown = browser.evaluate("document.documentElement.scrollWidth <= innerWidth");
        assert_eq!(shown, json!(true), "{name}");
        assert_eq!(browser.evaluate(FAINT), json!([]), "{name}");
        browser.picture(name);
    };
    for (width, height, is_phone) in [(1400, 900, false), (800, 1100, false), (360, 740, true)] {
        browser.resize(width, height, is_phone);
        for scheme in ["light", "dark"] {
            browser.medium("", scheme);
            let is_dark = background() == "rgb(18, 21, 27)";
            assert_eq!(is_dark, scheme == "dark", "{}", background());
            assert_layout(&format!("{width}-{scheme}"));
        }
    }
    // on the phone tables scroll inside, and the panel opens and closes
    let shown = browser.evaluate("(() => { const s = document.querySelector('.results-table .scroll'); return s.scrollWidth > s.clientWidth && s.clientWidth < 360; })()");
    assert_eq!(shown, json!(true));
    let panel = || browser.evaluate("document.querySelector('#panel').checkVisibility()");
    assert_eq!(panel(), json!(false));
    browser.click(".side-toggle");
    assert_eq!(panel(), json!(true));
    let shown = browser.text("document.querySelector('.side-toggle').ariaExpanded");
    assert_eq!(shown, "true");
    assert_layout("360-panel");
    // the switch wins over the system, and the choice is kept
    browser.click("input[data-switch=\"theme\"][value=\"light\"]");
    assert_eq!(background(), "rgb(247, 245, 240)");
    browser.click("input[data-switch=\"theme\"][value=\"dark\"]");
    browser.medium("", "light");
    assert_eq!(background(), "rgb(18, 21, 27)");
    browser.click(".side-toggle");
    assert_eq!(panel(), json!(false));
    // paper is white whatever the theme; of a switch only the choice is left, and lines are named
    browser.resize(718, 1000, false);
    browser.medium("print", "dark");
    assert_eq!(background(), "rgb(255, 255, 255)");
    let shown = browser.evaluate("[...document.querySelectorAll('.side, .hero .switch, .check, .switch label:not(:has(:checked))')].some(e => e.checkVisibility())");
    assert_eq!(shown, json!(false));
    let shown = browser.number("[...document.querySelectorAll('.group:not([hidden]) .print-legend')].filter(e => e.checkVisibility() && e.children.length === 11).length");
    assert_eq!(shown, 3.0);
    let shown = browser.evaluate("[...document.querySelectorAll('.results-table, .plot')].filter(e => e.checkVisibility()).every(e => e.getBoundingClientRect().right <= innerWidth + 1)");
    assert_eq!(shown, json!(true));
    assert_eq!(browser.evaluate(OVERFLOWING), json!([]));
    let shown = browser.evaluate("[...document.querySelectorAll('.scroll table')].filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.caption.textContent)");
    assert_eq!(shown, json!([]));
    let pdf = browser.print("print");
    assert!(pdf.starts_with(b"%PDF"));
    assert_content(&browser);
}

#[test]
fn parts_that_are_missing_are_left_out() {
    let Some(browser) = browser() else { return };
    let sections = |browser: &Browser| {
        browser.evaluate("[...document.querySelectorAll('main section')].map(s => s.id)")
    };
    // what `evaluate` passes: one row, no curves
    browser.open(&page(&[synthetic::minimal()]));
    assert_eq!(sections(&browser), json!(["g0-short", "g0-results"]));
    browser.picture("minimal");
    let shown = browser.text(
        "[...document.querySelectorAll('.results-table td')].map(c => c.innerText).join(' ')",
    );
    assert_eq!(shown, "0.750 ∞ 0.125 0.375");
    assert_content(&browser);
    // nothing at all
    browser.open(&page(&[]));
    assert_eq!(sections(&browser), json!([]));
    assert!(
        browser
            .text("document.body.innerText")
            .contains("No runs were given")
    );
    assert_content(&browser);
    // only scores: no test-set numbers, one out-of-domain set with a metric missing and no
    // histogram
    let mut record = synthetic::minimal();
    let evaluation = &mut record.evaluations[0];
    evaluation.in_domain.samples = 0;
    evaluation.in_domain.values.accuracy = Some(f64::NAN);
    let mut out = synthetic::out_of_domain("kmnist", 0.8, 50, 70);
    out.metrics.values.aupr_in = None;
    out.curves.histogram = Default::default();
    out.curves.precision_recall_in.clear();
    evaluation.out_of_domain.push(out);
    browser.open(&page(&[record]));
    assert_eq!(
        sections(&browser),
        json!(["g0-short", "g0-results", "g0-detection"])
    );
    assert_eq!(plots(&browser, "detection"), 2.0);
    assert_eq!(plots(&browser, "scores"), 0.0);
    assert_eq!(
        browser.evaluate("[...document.querySelectorAll('.results-table th[data-metric]')].map(h => h.dataset.metric)"),
        json!(["auroc", "aupr_out", "fpr_at_95_tpr", "mean_fpr_below_95_tpr", "detection_error"])
    );
    assert_content(&browser);
    // bins that are not of equal width stand at their confidence
    let mut record = synthetic::record("mine", &synthetic::METHODS[0], 0, 2, &[]);
    for evaluation in &mut record.evaluations {
        evaluation.reliability.scheme = "equal-mass".to_owned();
    }
    browser.open(&page(&[record]));
    assert_eq!(plots(&browser, "reliability"), 1.0);
    let (x, y) = browser.middle("[data-chart=\"reliability\"] svg.plot");
    browser.point(x, y);
    let tip = browser.text("document.querySelector('#tip').innerText");
    assert!(tip.starts_with("bin ") && tip.contains("of 20"), "{tip}");
    assert_content(&browser);
    // one seed, no validation set
    let mut record = synthetic::record("mine", &synthetic::METHODS[1], 7, 3, &[]);
    for point in &mut record.curves {
        point.validation_loss = None;
        point.validation_accuracy = None;
    }
    record
        .evaluations
        .retain(|evaluation| evaluation.checkpoint == Checkpoint::Final);
    browser.open(&page(&[record]));
    assert_eq!(plots(&browser, "training"), 3.0);
    let shown = browser.number("document.querySelectorAll('.results .deviation').length");
    assert_eq!(shown, 0.0);
    let shown =
        browser.number("document.querySelectorAll('input[data-switch=\"checkpoint\"]').length");
    assert_eq!(shown, 0.0);
    assert_content(&browser);
}

#[test]
fn names_cannot_become_markup_or_script() {
    let Some(browser) = browser() else { return };
    let evil = "--></script><script>window.hacked = 1</script><img src=x onerror=\"window.hacked = 2\">&amp;'\"";
    let mut records = synthetic::fashion_mnist(2, 3);
    for record in &mut records {
        record.experiment = evil.to_owned();
        record.dataset = evil.to_owned();
        record.network = evil.to_owned();
        record.name = evil.to_owned();
        record.rule = evil.to_owned();
        record.code.version = evil.to_owned();
        record.hardware.device = evil.to_owned();
        record.config = json!({ evil: { "key": evil } });
        for evaluation in &mut record.evaluations {
            evaluation.row = format!("{evil}{}", evaluation.row);
            evaluation.predictive = evil.to_owned();
            evaluation.reliability.scheme = evil.to_owned();
            evaluation.details.insert(evil.to_owned(), json!(evil));
            for out in &mut evaluation.out_of_domain {
                out.dataset = evil.to_owned();
                out.normalization = evil.to_owned();
                out.metrics.score = evil.to_owned();
            }
        }
    }
    let options = Options {
        title: Some(evil.to_owned()),
        note: Some(evil.to_owned()),
        searches: vec![],
        ..Options::default()
    };
    browser.open(&report::html(&records, &options));
    let shown = browser.text("document.querySelector('h1').textContent");
    assert_eq!(shown, evil);
    let shown = browser.text("document.querySelector('.results-table .name').textContent");
    assert_eq!(shown, format!("{evil}AdamW"));
    let (x, y) = browser.middle("[data-chart=\"detection\"] svg.plot");
    browser.point(x, y);
    let (x, y) = browser.middle("td[data-v]");
    browser.point(x, y);
    let harm = "[typeof window.hacked, [...document.images].filter(i => !i.src.startsWith('data:')).length, document.scripts.length]";
    assert_eq!(browser.evaluate(harm), json!(["undefined", 0, 2]));
    // a table that stood in a comment until it was chosen
    let hidden = "[...document.querySelectorAll('.results-table[hidden]')]";
    let texts = format!("{hidden}.map(t => t.innerText.trim())");
    assert_eq!(browser.evaluate(&texts), json!(["", ""]));
    browser.click("input[data-switch=\"checkpoint\"][value=\"final\"]");
    assert_eq!(
        browser.evaluate("[...document.querySelectorAll('.results-table:not([hidden])')].map(t => t.querySelector('.name').textContent)"),
        json!([format!("{evil}AdamW"), format!("{evil}AdamW")])
    );
    let shown = browser.text("document.querySelector('.results-table[data-set]:not([hidden]) caption').firstChild.textContent");
    assert_eq!(shown, format!("{evil}, final epoch"));
    assert_eq!(browser.evaluate(harm), json!(["undefined", 0, 2]));
    assert_content(&browser);
}

/// Six runs of a sweep over a rate and a batch size: the loss has a valley over the rate.
fn swept() -> Vec<RunRecord> {
    let mut records = Vec::new();
    for (batch, worse) in [(32, 0.0), (128, 0.05)] {
        for (lr, loss) in [(0.001, 0.8), (0.01, 0.3), (0.1, 0.6)] {
            let mut record = synthetic::record("rates", &synthetic::METHODS[0], 0, 2, &[]);
            record.name = format!("mine-lr={lr}-batch={batch}-seed0");
            record.config = json!({
                "name": record.name, "optimizer": { "rule": "adamw", "lr": lr }, "train": { "batch": batch },
            });
            record.curves[0].validation_loss = Some(loss + worse);
            record.curves[1].validation_loss = Some(loss + worse + 0.1);
            for evaluation in &mut record.evaluations {
                evaluation.row = format!("mine, lr = {lr}, batch = {batch}");
            }
            records.push(record);
        }
    }
    records
}

/// Of four runs two went on after the first epoch and one after the second; one failed.
fn search(name: &str, runs: [&str; 4]) -> report::search::Search {
    let ranked = |places: &[(usize, f64)], kept: usize| {
        let ranked = places.iter().enumerate().map(|(rank, &(run, value))| {
            json!({ "run": runs[run], "value": value, "kept": rank < kept, "reason": "" })
        });
        json!(ranked.collect::<Vec<_>>())
    };
    let mut search = json!({
        "schema": "maxitive-search/1", "name": name,
        "halving": { "eta": 2, "epochs": 1, "metric": "validation_loss" },
        "rounds": [
            { "epochs": 1, "kept": 2, "runs": ranked(&[(0, 0.5), (1, 0.625), (2, 0.75), (3, 0.875)], 2) },
            { "epochs": 2, "kept": 1, "runs": ranked(&[(1, 0.25), (0, 0.375)], 1) },
        ],
        "failed": [{ "run": "broken", "reason": "no memory" }],
    });
    // what is not finite is written as null
    search["rounds"][0]["runs"][3]["value"] = Value::Null;
    serde_json::from_value(search).unwrap()
}

#[test]
fn a_sweep_shows_its_settings_and_what_a_search_dropped() {
    let Some(browser) = browser() else { return };
    let records = swept();
    let names = [0, 1, 2, 3].map(|i| records[i].name.as_str());
    let options = Options {
        searches: vec![search("rates", names), search("another", names)],
        ..Options::default()
    };
    browser.open(&report::html(&records, &options));
    assert_eq!(plots(&browser, "sweep"), 2.0);
    assert_eq!(plots(&browser, "parallel"), 1.0);
    // what tells the rows apart is at the end of their names, and is never cut off
    let rows = "[...new Set([...document.querySelectorAll('[data-chart=\"glance-in\"] .rowname')].map(t => t.textContent))].sort()";
    let mut expected: Vec<&str> = records
        .iter()
        .map(|r| r.evaluations[0].row.as_str())
        .collect();
    expected.sort_unstable();
    assert_eq!(browser.evaluate(rows), json!(expected));
    let cut = "[...document.querySelectorAll('figcaption span, .results-table .name')].filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflow !== 'visible').length";
    assert_eq!(browser.evaluate(cut), json!(0));
    let outside = "[...document.querySelectorAll('[data-chart=\"glance-in\"] .rowname')].filter(t => { const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect(); return a.left < b.left - 1 || a.right > b.right + 1; }).length";
    assert_eq!(browser.evaluate(outside), json!(0));
    let dots = "[...document.querySelectorAll('[data-chart=\"sweep\"] svg')].map(s => [s.closest('figure').querySelector('figcaption').innerText, s.querySelectorAll('.trial').length, s.querySelectorAll('.trial.best').length])";
    assert_eq!(
        browser.evaluate(dots),
        json!([["optimizer.lr", 6, 1], ["train.batch", 6, 1]])
    );
    // the lowest loss of each run, the best one thick
    let best = "[...document.querySelectorAll('[data-chart=\"parallel\"] path.best')].map(p => p.dataset.name)";
    assert_eq!(browser.evaluate(best), json!([names[1]]));
    browser.evaluate("document.querySelector('[data-chart=\"parallel\"] svg').focus()");
    browser.press("ArrowRight");
    let tip = browser.text("document.querySelector('#tip').innerText");
    for words in [
        names[1],
        "0.300",
        "optimizer.lr",
        "0.01",
        "train.batch",
        "32",
    ] {
        assert!(tip.contains(words), "{tip}");
    }
    // of the squares of the ranks 4 0 2 5 1 3, 17.5, the rates leave 1.5: 1 - 1.5/17.5 · 5/3; the
    // batches explain 1.5, less than two groups do by chance
    let table = "[...document.querySelectorAll('.keys-table tbody tr')].map(r => [...r.cells].map(c => c.innerText))";
    assert_eq!(
        browser.evaluate(table),
        json!([
            ["optimizer.lr", "86 %", "0.001, 0.01, 0.1", "0.01"],
            ["train.batch", "0 %", "32, 128", "32"]
        ])
    );
    // one search is of this experiment
    let heads = "[...document.querySelectorAll('.sweep h3')].map(h => h.innerText)";
    assert_eq!(
        browser.evaluate(heads),
        json!(["Which setting matters", "Search rates"])
    );
    let lead = browser.text("document.querySelector('.sweep h3:last-of-type + p').innerText");
    let expected = format!(
        "{} won with 0.300: rank 2 of 4 after 1 epoch (0.625), rank 1 of 2 after 2 epochs (0.250).",
        names[1]
    );
    assert!(lead.ends_with(&expected), "{lead}");
    let rows = "[...document.querySelectorAll('.search-table tbody tr')].map(r => [...r.cells].map(c => c.innerText))";
    assert_eq!(
        browser.evaluate(rows),
        json!([
            [
                names[1],
                "0.625\n2 of 4",
                "0.250\n1 of 2",
                "went on to the end"
            ],
            [
                names[0],
                "0.500\n1 of 4",
                "0.375\n2 of 2",
                "dropped after 2 epochs: rank 2 of 2, 1 went on"
            ],
            [
                names[2],
                "0.750\n3 of 4",
                "–",
                "dropped after 1 epoch: rank 3 of 4, 2 went on"
            ],
            [
                names[3],
                "not finite\n4 of 4",
                "–",
                "dropped after 1 epoch: rank 4 of 4, 2 went on"
            ],
            ["broken", "–", "–", "failed: no memory"]
        ])
    );
    assert_content(&browser);
    for (width, scheme) in [(1400, "light"), (360, "dark")] {
        browser.resize(width, 900, width < 400);
        browser.medium("", scheme);
        assert_eq!(browser.evaluate(OVERFLOWING), json!([]), "{width}");
        assert_eq!(browser.evaluate(FAINT), json!([]), "{scheme}");
        browser.picture(&format!("sweep-{width}"));
    }
    // a row that is switched off leaves the plots
    browser.resize(1400, 900, false);
    browser.click("input[data-method=\"0\"]");
    let left = "document.querySelectorAll('[data-chart=\"parallel\"] path.line').length";
    assert_eq!(browser.number(left), 5.0);
}

#[test]
fn a_search_that_goes_on_says_so() {
    let Some(browser) = browser() else { return };
    let mut records = swept();
    let names = records.iter().map(|record| record.name.clone());
    let names: Vec<String> = names.collect();
    let [a, b, c, d] = [0, 1, 2, 3].map(|i| names[i].as_str());
    let options = Options {
        searches: vec![search("rates", [a, b, c, d])],
        ..Options::default()
    };
    // none of those that went on is finished, and no two runs are left to compare
    records.retain(|record| record.name == c);
    browser.open(&report::html(&records, &options));
    let lead = browser.text("document.querySelector('.sweep p').innerText");
    assert!(lead.ends_with("It is not over."), "{lead}");
    assert_eq!(plots(&browser, "sweep"), 0.0);
    assert_content(&browser);
}
