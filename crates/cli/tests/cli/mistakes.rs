//! Every mistake ends with exit code 2, a message that names file, place and rule, and nothing
//! written.

use crate::common::Place;

/// Runs `infer` with a picture on the data of each line, `DATA | COMMAND => WORDS & WORDS`; see
/// `Place::refuse_each`. `\n` is the end of a row.
#[track_caller]
fn refuse_each(lines: &str) {
    for line in lines.trim().lines() {
        let (data, line) = line.split_once(" | ").expect(line);
        let place = Place::new().with("data.csv", data.replace("\\n", "\n"));
        place.refuse_each(PICTURE, line);
    }
}

const PICTURE: &str = "infer * --plot out.svg";

#[test]
fn malformed_quotes_name_their_line() {
    refuse_each(
        r#"
x\n1\n"0\n | bernoulli data.csv => data.csv: line 3: a quote is opened and never closed
x\n1\n"1"0\n | poisson data.csv => data.csv: line 3: text follows the closing quote of a field
"#,
    );
}

#[test]
fn a_picture_that_cannot_be_written_is_a_mistake() {
    let place = Place::new().with("data.csv", "x\n1\n0\n");
    std::fs::create_dir(place.path("taken.svg")).unwrap();
    let outcome = place.refuse("infer bernoulli data.csv --plot taken.svg");
    assert_eq!(outcome.stdout, "");
    outcome.stderr_has("taken.svg: cannot be written");
    assert_eq!(place.files().len(), 2, "no temporary file is left");
}

#[test]
fn a_column_asked_for_twice_is_named() {
    let place = Place::new()
        .with("data.csv", "a,b\n1,2\n")
        .with("cov.csv", "a,b\n1,0\n0,1\n");
    place.refuse_each(
        PICTURE,
        "multivariate-normal data.csv --columns a,a --covariance cov.csv \
         => column \"a\" is asked for twice",
    );
}

#[test]
fn missing_and_malformed_values_name_line_and_column() {
    for word in ["", "NA", "NaN", "null", "?"] {
        refuse_each(&format!(
            r#"# head\nx,y\n1,1\n2,{word}\n | normal data.csv --column y --variance 1 => data.csv: line 4, column "y": missing value"#
        ));
    }
    refuse_each(
        r#"
x\n1\n\n2,5\n | poisson data.csv => data.csv: line 4: the row has 2 fields, but the header has 1
x\n1\none\n | poisson data.csv => data.csv: line 3, column "x": "one" is not a number
x\n1\ninf\n | normal data.csv --variance 1 => data.csv: line 3, column "x": inf is not a finite number
"#,
    );
    let place = Place::new().with("data.csv", b"x\n1\n\xff\n");
    let rule = r#"poisson data.csv => data.csv: line 3, column "x": the text is not UTF-8"#;
    place.refuse_each(PICTURE, rule);
}

#[test]
fn malformed_files_are_refused() {
    let empty = Place::new().with("data.csv", "");
    empty.refuse_each(PICTURE, "poisson data.csv => data.csv: the file is empty");
    refuse_each(
        r#"
# nothing\n | poisson data.csv => data.csv: the file is empty
x\n | poisson data.csv => data.csv: there is a header but no row
x,x\n1,2\n | poisson data.csv --column x => line 1: the header names the column "x" twice
count,size\n1,2\n | poisson data.csv --column cuont => unknown column "cuont" & did you mean "count"? & "size"
a,b\n1,2\n | poisson data.csv => choose a column with --column & "a", "b"
x\n1\n | poisson nowhere.csv => nowhere.csv: there is no such file
x\n1\n | poisson . => .: is a folder, not a file
"#,
    );
}

#[test]
fn data_of_another_family_are_refused() {
    refuse_each(
        r#"
x\n1\n2\n | bernoulli data.csv => data.csv: line 3, column "x":  & 2 is not in {0, 1}
x\n1\nmaybe\n | bernoulli data.csv => data.csv: line 3, column "x":  & maybe is not in {0, 1}
x\n1\n-1\n | poisson data.csv => data.csv: line 3, column "x":  & poisson: -1 is not in {0, 1, 2, ...}
x\n1\n1.5\n | poisson data.csv => data.csv: line 3, column "x":  & poisson: 1.5 is not in {0, 1, 2, ...}
x\n1\n-0.1\n | exponential data.csv => data.csv: line 3, column "x":  & exponential: -0.1 is not in [0, inf)
x\n1\n-0.1\n | gamma data.csv --shape 2 => data.csv: line 3, column "x":  & gamma: -0.1 is not in 
x\n0\n0\n | exponential data.csv => data.csv, column "x": 
x\na\nc\n | categorical data.csv --classes a,b => data.csv: line 3, column "x":  & unknown class "c" & "a", "b"
x\na\na\n | categorical data.csv => the only class is "a" & --classes
"#,
    );
}

#[test]
fn logistic_data_are_checked() {
    refuse_each(
        r#"
a,y\n1,1\n2,2\n | logistic data.csv --target y => data.csv: line 3, column "y": 2 is not in {0, 1}
a,y\n1,1\nNaN,0\n | logistic data.csv --target y => data.csv: line 3, column "a": missing value
a,z\n1,1\n | logistic data.csv --target y => unknown column "y"
a,y\n1,1\n | logistic data.csv --target y --covariates a,a => column "a" is asked for twice
a,y\n1,1\n | logistic data.csv --target y --covariates y => "y" is the target
y\n1\n | logistic data.csv --target y --no-intercept => --no-intercept
a,y\n1,1\n | logistic data.csv --target y => data.csv: there is no finite mode & --intercept-precision
a,y\n1,0\n2,0\n3,1\n4,1\n | logistic data.csv --target y --prior-precision 0 => data.csv: there is no finite mode & separated & --prior-precision
a,b,y\n1,2,0\n2,4,1\n3,6,0\n4,8,1\n | logistic data.csv --target y --prior-precision 0 => data.csv:  & not positive definite & columns depend on each other
a,y\n1,0\n1,1\n | logistic data.csv --target y --standardize => --standardize: column "a" is constant
a,y\n1,0\n2,1\n | logistic data.csv --target y --intercept-precision -1 => --intercept-precision & -1 & not in [0, inf)
a,y\n1,0\n2,1\n | logistic data.csv --target y --intercept-precision 1 --no-intercept => --intercept-precision & --no-intercept
a,b,y\n1,0,0\n2,1,1\n | logistic data.csv --target y --event 'a > 0 and b > 0' => one linear form
a,y\n1,0\n2,1\n | logistic data.csv --target y --event 'variance > 0' => unknown & variance
a,y\n1,1\n | logistic data.csv --target y --prior-precision -1 => --prior-precision & -1
a,y\n1,1\n | logistic data.csv --target y --event 'a + coefficient > 0' => cannot be part of a linear form
"#,
    );
}

#[test]
fn coverages_are_checked() {
    for coverage in ["0", "1", "95", "-0.5", "x", "inf"] {
        refuse_each(&format!(
            r"x\n1\n | poisson data.csv --coverage {coverage} => --coverage"
        ));
    }
}

#[test]
fn regression_data_are_checked() {
    refuse_each(
        r#"
a,y\n1,1\n2,1.5\n | poisson-regression data.csv --target y => data.csv: line 3, column "y": poisson-regression: response 1.5 is not in {0, 1, 2
a,y\n1,0\n2,0\n | poisson-regression data.csv --target y => data.csv: there is no finite mode
a,y\n1,1\n2,3\n3,5\n | linear data.csv --target y => data.csv: there is no finite mode & fitted exactly
a,y\n1,1\n2,x\n | linear data.csv --target y => data.csv: line 3, column "y": "x" is not a number
y\n1\n | normal data.csv => there is no finite mode
y\n1\n2\n | normal data.csv --parameter natural => --parameter natural & --variance
y\n1\n2\n | normal data.csv --prior-mean 1,2 --prior-weight 1 => --prior-mean
"#,
    );
    for variance in ["0", "-1", "inf", "x"] {
        refuse_each(&format!(
            r"a,y\n1,1\n | linear data.csv --target y --variance {variance} => --variance"
        ));
    }
}

#[test]
fn covariances_are_checked() {
    for (covariance, words) in [
        ("a,b\n1,2\n2,4\n", "cov.csv:  & positive definite"),
        ("a,b\n1,0.5\n0.2,1\n", "cov.csv:  & not symmetric"),
        (
            "a,b\n1,0\n",
            "cov.csv: a covariance has as many rows as columns, found 1 and 2",
        ),
        (
            "1,0\n0,x\n",
            "cov.csv: line 2, column \"2\": \"x\" is not a number",
        ),
        (
            "1,0,0\n0,1,0\n0,0,1\n",
            "cov.csv: the covariance has 3 columns, but 2 are asked for",
        ),
        ("a,c\n1,0\n0,1\n", "cov.csv: unknown column \"b\""),
        (
            "a,b\n1,x\n0,1\n",
            "cov.csv: line 2, column \"b\": \"x\" is not a number",
        ),
    ] {
        let place = Place::new()
            .with("data.csv", "a,b\n1,2\n3,4\n")
            .with("cov.csv", covariance);
        let command = "multivariate-normal data.csv --columns a,b --covariance cov.csv";
        place.refuse_each(PICTURE, &format!("{command} => {words}"));
    }
}

#[test]
fn options_out_of_range_are_refused() {
    for alpha in ["0", "1.5", "-0.1", "nan", "x"] {
        refuse_each(&format!(
            r"x\n1\n0\n | bernoulli data.csv --alpha {alpha} => --alpha"
        ));
    }
    refuse_each(
        r#"
x\n1\n0\n | bernoulli data.csv --prior-mean 0.5 => --prior-weight
x\n1\n0\n | bernoulli data.csv --prior-weight 1 => --prior-mean
x\n1\n0\n | bernoulli data.csv --prior-mean 1.5 --prior-weight 1 => --prior-mean & 1.5
x\n1\n0\n | bernoulli data.csv --prior-mean 0.5 --prior-weight -1 => --prior-weight & -1
x\n1\n0\n | bernoulli data.csv --prior-mean 0.5,0.5 --prior-weight 1 => --prior-mean & one number
x\n1\n0\n | gamma data.csv --shape 0 => --shape & 0
x\n1\n0\n | normal data.csv --variance -2 => --variance & -2
x\na\nb\n | categorical data.csv --prior-mean 0.5,0.6 --prior-weight 1 => --prior-mean & sum of the shares 1.1
x\na\nb\n | categorical data.csv --prior-mean 1 --prior-weight 1 => --prior-mean & 2 numbers are expected
x\na\nb\n | categorical data.csv --classes a,b,a => "a" is named twice
"#,
    );
}

#[test]
fn mistakes_in_events_show_the_place() {
    refuse_each(
        r#"
x\n1\n | poisson data.csv --event 'rate >' => event "rate >": expected a number or a variable & \n  rate >\n        ^
x\n1\n | poisson data.csv --event 'p > 1' => unknown variable "p" & "rate"
x\na\nb\nc\n | categorical data.csv --event 'a > 0.1 and b > 0.1' => about several classes & one linear form
x\na\nb\n | categorical data.csv --event 'p[d] > 0.1' => unknown label "d"
"#,
    );
}

#[test]
fn a_plot_needs_a_known_format_and_a_folder() {
    let place = Place::new().with("data.csv", "x\n1\n");
    let outcome = place.refuse("infer poisson data.csv --plot out.gif");
    outcome.stderr_has(".svg, .pdf or .png");
    let outcome = place.refuse("infer poisson data.csv --plot none/out.svg");
    outcome.stderr_has("there is no folder none");
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
    let refused = |command: &str, words: &str| {
        let outcome = place.refuse(command);
        outcome.stderr_has(words);
        let is_plain = |c: char| c == '\n' || !c.is_control();
        assert!(outcome.stderr.chars().all(is_plain), "{:?}", outcome.stderr);
    };
    for file in ["config.toml", "record.json"] {
        let folder = make(&format!("pipe-{file}"));
        let pipe = folder.join(file);
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
    }
    refused("resume pipe-config.toml", "is no plain file");
    refused("watch pipe-config.toml", "holds no run");
    refused("report pipe-record.json -o page.html", "is no plain file");
    let zero = make("zero");
    std::os::unix::fs::symlink("/dev/zero", zero.join("config.toml")).unwrap();
    refused("resume zero", "is no plain file");
    std::fs::write(place.path("net.toml"), "network = { file = \"/dev/zero\" }").unwrap();
    refused("net net.toml", "is no plain file");
    // what is wrong with a config is shown, but not acted upon
    std::fs::write(place.path("red.toml"), "name = \"\u{1b}[31mred\"").unwrap();
    refused("train red.toml --out r", "red.toml");
}

/// Tables and posteriors from `/dev/zero` were read until memory ended, and a pipe that was named
/// as the file to write became a file.
#[test]
#[cfg(unix)]
fn devices_are_neither_read_nor_replaced() {
    use std::os::unix::fs::FileTypeExt;

    let place = Place::new().with("data.csv", "x\n1\n");
    let refused = |command: &str, words: &str| place.refuse(command).stderr_has(words);
    refused("infer poisson /dev/zero", "is a device");
    refused(
        "evaluate --probs /dev/zero --labels data.csv",
        "is a device",
    );
    refused(
        "infer poisson data.csv --prior-from /dev/zero",
        "is longer than 67108864 bytes",
    );
    for name in ["post.json", "picture.svg"] {
        let made = std::process::Command::new("mkfifo")
            .arg(place.path(name))
            .status();
        assert!(made.unwrap().success());
    }
    refused(
        "infer poisson data.csv --save post.json",
        "post.json: is no plain file",
    );
    refused(
        "infer poisson data.csv --plot picture.svg",
        "picture.svg: is no plain file",
    );
    for name in ["post.json", "picture.svg"] {
        let kind = std::fs::metadata(place.path(name)).unwrap().file_type();
        assert!(kind.is_fifo(), "{name}");
    }
}
