//! Every mistake ends with exit code 2, a message that names file, place and rule, and nothing
//! written.

use crate::common::{Place, split};

/// Runs `infer` with a plot on a file and expects a refusal with these words.
#[track_caller]
fn refuse(data: impl AsRef<[u8]>, arguments: &[&str], words: &[&str]) {
    let place = Place::new().with("data.csv", data);
    refuse_in(&place, arguments, words);
}

#[track_caller]
fn refuse_in(place: &Place, arguments: &[&str], words: &[&str]) {
    let before = place.files();
    let mut all = vec!["infer"];
    all.extend(arguments);
    all.extend(["--plot", "out.svg"]);
    let outcome = place.run(&all);
    assert_eq!(outcome.code, Some(2), "{arguments:?}: {}", outcome.stderr);
    assert_eq!(outcome.stdout, "", "{arguments:?}");
    assert!(outcome.stderr.starts_with("error: "), "{}", outcome.stderr);
    for word in words {
        assert!(
            outcome.stderr.contains(word),
            "{word:?} in {}",
            outcome.stderr
        );
    }
    assert_eq!(place.files(), before, "nothing is written");
}

#[test]
fn malformed_quotes_name_their_line() {
    refuse(
        "x\n1\n\"0\n",
        &["bernoulli", "data.csv"],
        &["data.csv: line 3: a quote is opened and never closed"],
    );
    refuse(
        "x\n1\n\"1\"0\n",
        &["poisson", "data.csv"],
        &["data.csv: line 3: text follows the closing quote of a field"],
    );
}

#[test]
fn a_picture_that_cannot_be_written_is_a_mistake() {
    let place = Place::new().with("data.csv", "x\n1\n0\n");
    std::fs::create_dir(place.path("taken.svg")).unwrap();
    let outcome = place.run(&["infer", "bernoulli", "data.csv", "--plot", "taken.svg"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "");
    assert!(
        outcome.stderr.contains("taken.svg: cannot be written"),
        "{}",
        outcome.stderr
    );
    assert_eq!(place.files().len(), 2, "no temporary file is left");
}

#[test]
fn a_column_asked_for_twice_is_named() {
    let place = Place::new()
        .with("data.csv", "a,b\n1,2\n")
        .with("cov.csv", "a,b\n1,0\n0,1\n");
    let arguments = ["multivariate-normal", "data.csv", "--columns", "a,a"];
    let mut all = arguments.to_vec();
    all.extend(["--covariance", "cov.csv"]);
    refuse_in(&place, &all, &["column \"a\" is asked for twice"]);
}

#[test]
fn missing_and_malformed_values_name_line_and_column() {
    for word in ["", "NA", "NaN", "null", "?"] {
        refuse(
            format!("# head\nx,y\n1,1\n2,{word}\n"),
            &["normal", "data.csv", "--column", "y", "--variance", "1"],
            &["data.csv: line 4, column \"y\": missing value"],
        );
    }
    refuse(
        "x\n1\n\n2,5\n",
        &["poisson", "data.csv"],
        &["data.csv: line 4: the row has 2 fields, but the header has 1"],
    );
    refuse(
        "x\n1\none\n",
        &["poisson", "data.csv"],
        &["data.csv: line 3, column \"x\": \"one\" is not a number"],
    );
    refuse(
        "x\n1\ninf\n",
        &["normal", "data.csv", "--variance", "1"],
        &["data.csv: line 3, column \"x\": inf is not a finite number"],
    );
    refuse(
        b"x\n1\n\xff\n",
        &["poisson", "data.csv"],
        &["data.csv: line 3, column \"x\": the text is not UTF-8"],
    );
}

#[test]
fn malformed_files_are_refused() {
    refuse(
        "",
        &["poisson", "data.csv"],
        &["data.csv: the file is empty"],
    );
    refuse(
        "# nothing\n",
        &["poisson", "data.csv"],
        &["data.csv: the file is empty"],
    );
    refuse(
        "x\n",
        &["poisson", "data.csv"],
        &["data.csv: there is a header but no row"],
    );
    refuse(
        "x,x\n1,2\n",
        &["poisson", "data.csv", "--column", "x"],
        &["line 1: the header names the column \"x\" twice"],
    );
    refuse(
        "count,size\n1,2\n",
        &["poisson", "data.csv", "--column", "cuont"],
        &[
            "unknown column \"cuont\"",
            "did you mean \"count\"?",
            "\"size\"",
        ],
    );
    refuse(
        "a,b\n1,2\n",
        &["poisson", "data.csv"],
        &["choose a column with --column", "\"a\", \"b\""],
    );
    refuse(
        "x\n1\n",
        &["poisson", "nowhere.csv"],
        &["nowhere.csv: there is no such file"],
    );
    refuse("x\n1\n", &["poisson", "."], &[".: is a folder, not a file"]);
}

#[test]
fn data_of_another_family_are_refused() {
    let column = "data.csv: line 3, column \"x\": ";
    refuse(
        "x\n1\n2\n",
        &["bernoulli", "data.csv"],
        &[column, "2 is not in {0, 1}"],
    );
    refuse(
        "x\n1\nmaybe\n",
        &["bernoulli", "data.csv"],
        &[column, "maybe is not in {0, 1}"],
    );
    refuse(
        "x\n1\n-1\n",
        &["poisson", "data.csv"],
        &[column, "poisson: -1 is not in {0, 1, 2, ...}"],
    );
    refuse(
        "x\n1\n1.5\n",
        &["poisson", "data.csv"],
        &[column, "poisson: 1.5 is not in {0, 1, 2, ...}"],
    );
    refuse(
        "x\n1\n-0.1\n",
        &["exponential", "data.csv"],
        &[column, "exponential: -0.1 is not in [0, inf)"],
    );
    refuse(
        "x\n1\n-0.1\n",
        &["gamma", "data.csv", "--shape", "2"],
        &[column, "gamma: -0.1 is not in "],
    );
    refuse(
        "x\n0\n0\n",
        &["exponential", "data.csv"],
        &["data.csv, column \"x\": "],
    );
    refuse(
        "x\na\nc\n",
        &["categorical", "data.csv", "--classes", "a,b"],
        &[column, "unknown class \"c\"", "\"a\", \"b\""],
    );
    refuse(
        "x\na\na\n",
        &["categorical", "data.csv"],
        &["the only class is \"a\"", "--classes"],
    );
}

#[test]
fn logistic_data_are_checked() {
    let fit = |rest: &[&'static str]| {
        let mut arguments = vec!["logistic", "data.csv", "--target", "y"];
        arguments.extend(rest);
        arguments
    };
    refuse(
        "a,y\n1,1\n2,2\n",
        &fit(&[]),
        &["data.csv: line 3, column \"y\": 2 is not in {0, 1}"],
    );
    refuse(
        "a,y\n1,1\nNaN,0\n",
        &fit(&[]),
        &["data.csv: line 3, column \"a\": missing value"],
    );
    refuse("a,z\n1,1\n", &fit(&[]), &["unknown column \"y\""]);
    refuse(
        "a,y\n1,1\n",
        &fit(&["--covariates", "a,a"]),
        &["column \"a\" is asked for twice"],
    );
    refuse(
        "a,y\n1,1\n",
        &fit(&["--covariates", "y"]),
        &["\"y\" is the target"],
    );
    refuse("y\n1\n", &fit(&["--no-intercept"]), &["--no-intercept"]);
    // nothing known of the intercept, and one label
    let no_mode = ["data.csv: there is no finite mode", "--intercept-precision"];
    refuse("a,y\n1,1\n", &fit(&[]), &no_mode);
    // separated data without a prior, and columns that depend on each other
    let no_mode = [
        "data.csv: there is no finite mode",
        "separated",
        "--prior-precision",
    ];
    refuse(
        "a,y\n1,0\n2,0\n3,1\n4,1\n",
        &fit(&["--prior-precision", "0"]),
        &no_mode,
    );
    refuse(
        "a,b,y\n1,2,0\n2,4,1\n3,6,0\n4,8,1\n",
        &fit(&["--prior-precision", "0"]),
        &[
            "data.csv: ",
            "not positive definite",
            "columns depend on each other",
        ],
    );
    refuse(
        "a,y\n1,0\n1,1\n",
        &fit(&["--standardize"]),
        &["--standardize: column \"a\" is constant"],
    );
    refuse(
        "a,y\n1,0\n2,1\n",
        &fit(&["--intercept-precision", "-1"]),
        &["--intercept-precision", "-1", "not in [0, inf)"],
    );
    refuse(
        "a,y\n1,0\n2,1\n",
        &fit(&["--intercept-precision", "1", "--no-intercept"]),
        &["--intercept-precision", "--no-intercept"],
    );
    refuse(
        "a,b,y\n1,0,0\n2,1,1\n",
        &fit(&["--event", "a > 0 and b > 0"]),
        &["one linear form"],
    );
    refuse(
        "a,y\n1,0\n2,1\n",
        &fit(&["--event", "variance > 0"]),
        &["unknown", "variance"],
    );
    refuse(
        "a,y\n1,1\n",
        &fit(&["--prior-precision", "-1"]),
        &["--prior-precision", "-1"],
    );
    refuse(
        "a,y\n1,1\n",
        &fit(&["--event", "a + coefficient > 0"]),
        &["cannot be part of a linear form"],
    );
}

#[test]
fn coverages_are_checked() {
    for coverage in ["0", "1", "95", "-0.5", "x", "inf"] {
        refuse(
            "x\n1\n",
            &["poisson", "data.csv", "--coverage", coverage],
            &["--coverage"],
        );
    }
}

#[test]
fn regression_data_are_checked() {
    refuse(
        "a,y\n1,1\n2,1.5\n",
        &["poisson-regression", "data.csv", "--target", "y"],
        &["data.csv: line 3, column \"y\": poisson-regression: response 1.5 is not in {0, 1, 2"],
    );
    refuse(
        "a,y\n1,0\n2,0\n",
        &["poisson-regression", "data.csv", "--target", "y"],
        &["data.csv: there is no finite mode"],
    );
    refuse(
        "a,y\n1,1\n2,3\n3,5\n",
        &["linear", "data.csv", "--target", "y"],
        &["data.csv: there is no finite mode", "fitted exactly"],
    );
    refuse(
        "a,y\n1,1\n2,x\n",
        &["linear", "data.csv", "--target", "y"],
        &["data.csv: line 3, column \"y\": \"x\" is not a number"],
    );
    for variance in ["0", "-1", "inf", "x"] {
        refuse(
            "a,y\n1,1\n",
            &[
                "linear",
                "data.csv",
                "--target",
                "y",
                "--variance",
                variance,
            ],
            &["--variance"],
        );
    }
    refuse(
        "y\n1\n",
        &["normal", "data.csv"],
        &["there is no finite mode"],
    );
    refuse(
        "y\n1\n2\n",
        &["normal", "data.csv", "--parameter", "natural"],
        &["--parameter natural", "--variance"],
    );
    refuse(
        "y\n1\n2\n",
        &split("normal data.csv --prior-mean 1,2 --prior-weight 1"),
        &["--prior-mean"],
    );
}

#[test]
fn covariances_are_checked() {
    let check = |covariance: &str, words: &[&str]| {
        let place = Place::new()
            .with("data.csv", "a,b\n1,2\n3,4\n")
            .with("cov.csv", covariance);
        let arguments = split("multivariate-normal data.csv --columns a,b --covariance cov.csv");
        refuse_in(&place, &arguments, words);
    };
    check("a,b\n1,2\n2,4\n", &["cov.csv: ", "positive definite"]);
    check("a,b\n1,0.5\n0.2,1\n", &["cov.csv: ", "not symmetric"]);
    check(
        "a,b\n1,0\n",
        &["cov.csv: a covariance has as many rows as columns, found 1 and 2"],
    );
    check(
        "1,0\n0,x\n",
        &["cov.csv: line 2, column \"2\": \"x\" is not a number"],
    );
    check(
        "1,0,0\n0,1,0\n0,0,1\n",
        &["cov.csv: the covariance has 3 columns, but 2 are asked for"],
    );
    check("a,c\n1,0\n0,1\n", &["cov.csv: unknown column \"b\""]);
    check(
        "a,b\n1,x\n0,1\n",
        &["cov.csv: line 2, column \"b\": \"x\" is not a number"],
    );
}

#[test]
fn options_out_of_range_are_refused() {
    let data = "x\n1\n0\n";
    let bernoulli = |rest: &[&'static str]| {
        let mut arguments = vec!["bernoulli", "data.csv"];
        arguments.extend(rest);
        arguments
    };
    for alpha in ["0", "1.5", "-0.1", "nan", "x"] {
        let place = Place::new().with("data.csv", data);
        refuse_in(
            &place,
            &["bernoulli", "data.csv", "--alpha", alpha],
            &["--alpha"],
        );
    }
    refuse(
        data,
        &bernoulli(&["--prior-mean", "0.5"]),
        &["--prior-weight"],
    );
    refuse(
        data,
        &bernoulli(&["--prior-weight", "1"]),
        &["--prior-mean"],
    );
    refuse(
        data,
        &bernoulli(&["--prior-mean", "1.5", "--prior-weight", "1"]),
        &["--prior-mean", "1.5"],
    );
    refuse(
        data,
        &bernoulli(&["--prior-mean", "0.5", "--prior-weight", "-1"]),
        &["--prior-weight", "-1"],
    );
    refuse(
        data,
        &bernoulli(&["--prior-mean", "0.5,0.5", "--prior-weight", "1"]),
        &["--prior-mean", "one number"],
    );
    refuse(
        data,
        &["gamma", "data.csv", "--shape", "0"],
        &["--shape", "0"],
    );
    refuse(
        data,
        &["normal", "data.csv", "--variance", "-2"],
        &["--variance", "-2"],
    );
    refuse(
        "x\na\nb\n",
        &split("categorical data.csv --prior-mean 0.5,0.6 --prior-weight 1"),
        &["--prior-mean", "sum of the shares 1.1"],
    );
    refuse(
        "x\na\nb\n",
        &split("categorical data.csv --prior-mean 1 --prior-weight 1"),
        &["--prior-mean", "2 numbers are expected"],
    );
    refuse(
        "x\na\nb\n",
        &["categorical", "data.csv", "--classes", "a,b,a"],
        &["\"a\" is named twice"],
    );
}

#[test]
fn mistakes_in_events_show_the_place() {
    refuse(
        "x\n1\n",
        &["poisson", "data.csv", "--event", "rate >"],
        &[
            "event \"rate >\": expected a number or a variable",
            "\n  rate >\n        ^",
        ],
    );
    refuse(
        "x\n1\n",
        &["poisson", "data.csv", "--event", "p > 1"],
        &["unknown variable \"p\"", "\"rate\""],
    );
    refuse(
        "x\na\nb\nc\n",
        &["categorical", "data.csv", "--event", "a > 0.1 and b > 0.1"],
        &["about several classes", "one linear form"],
    );
    refuse(
        "x\na\nb\n",
        &["categorical", "data.csv", "--event", "p[d] > 0.1"],
        &["unknown label \"d\""],
    );
}

#[test]
fn a_plot_needs_a_known_format_and_a_folder() {
    let place = Place::new().with("data.csv", "x\n1\n");
    let outcome = place.run(&["infer", "poisson", "data.csv", "--plot", "out.gif"]);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains(".svg, .pdf or .png"),
        "{}",
        outcome.stderr
    );
    let outcome = place.run(&["infer", "poisson", "data.csv", "--plot", "none/out.svg"]);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("there is no folder none"),
        "{}",
        outcome.stderr
    );
    assert_eq!(outcome.stdout, "");
    assert_eq!(place.files(), ["data.csv"]);
}

/// Pipes and devices in the place of files would be read without end.
#[test]
#[cfg(unix)]
fn hostile_folders_and_configs_neither_hang_nor_reach_the_terminal() {
    let place = Place::new();
    let make = |name: &str| {
        std::fs::create_dir(place.path(name)).unwrap();
        place.path(name)
    };
    let refused = |arguments: &[&str], words: &str| {
        let outcome = place.run(arguments);
        let said = outcome.stderr;
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        let is_plain = |c: char| c == '\n' || !c.is_control();
        assert!(said.chars().all(is_plain), "{said:?}");
    };
    for file in ["config.toml", "record.json"] {
        let folder = make(&format!("pipe-{file}"));
        let pipe = folder.join(file);
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
    }
    refused(&["resume", "pipe-config.toml"], "is no plain file");
    refused(&["watch", "pipe-config.toml"], "holds no run");
    let report = ["report", "pipe-record.json", "-o", "page.html"];
    refused(&report, "is no plain file");
    let zero = make("zero");
    std::os::unix::fs::symlink("/dev/zero", zero.join("config.toml")).unwrap();
    refused(&["resume", "zero"], "is no plain file");
    std::fs::write(place.path("net.toml"), "network = { file = \"/dev/zero\" }").unwrap();
    refused(&["net", "net.toml"], "is no plain file");
    // what is wrong with a config is shown, but not acted upon
    std::fs::write(place.path("red.toml"), "name = \"\u{1b}[31mred\"").unwrap();
    refused(&["train", "red.toml", "--out", "r"], "red.toml");
}

/// Tables and posteriors from `/dev/zero` were read until memory ended, and a pipe that was named
/// as the file to write became a file.
#[test]
#[cfg(unix)]
fn devices_are_neither_read_nor_replaced() {
    use std::os::unix::fs::FileTypeExt;

    let place = Place::new().with("data.csv", "x\n1\n");
    let refused = |arguments: &[&str], words: &str| {
        let outcome = place.run(arguments);
        let said = outcome.stderr;
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    };
    refused(&["infer", "poisson", "/dev/zero"], "is a device");
    let evaluate = ["evaluate", "--probs", "/dev/zero", "--labels", "data.csv"];
    refused(&evaluate, "is a device");
    let prior = ["infer", "poisson", "data.csv", "--prior-from", "/dev/zero"];
    refused(&prior, "is longer than 67108864 bytes");
    for name in ["post.json", "picture.svg"] {
        let made = std::process::Command::new("mkfifo")
            .arg(place.path(name))
            .status();
        assert!(made.unwrap().success());
    }
    let save = ["infer", "poisson", "data.csv", "--save", "post.json"];
    refused(&save, "post.json: is no plain file");
    let plot = ["infer", "poisson", "data.csv", "--plot", "picture.svg"];
    refused(&plot, "picture.svg: is no plain file");
    for name in ["post.json", "picture.svg"] {
        let kind = std::fs::metadata(place.path(name)).unwrap().file_type();
        assert!(kind.is_fifo(), "{name}");
    }
}
