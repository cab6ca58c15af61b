//! Help, version, figures, completions and manual pages.

use crate::common::{Place, split};

#[test]
fn every_command_has_help_with_an_example() {
    let place = Place::new();
    let commands: [&[&str]; 23] = [
        &[],
        &["data"],
        &["data", "list"],
        &["data", "fetch"],
        &["data", "verify"],
        &["infer"],
        &["infer", "bernoulli"],
        &["infer", "categorical"],
        &["infer", "poisson"],
        &["infer", "exponential"],
        &["infer", "gamma"],
        &["infer", "normal"],
        &["infer", "multivariate-normal"],
        &["infer", "logistic"],
        &["infer", "linear"],
        &["infer", "poisson-regression"],
        &["figures"],
        &["net"],
        &["bench"],
        &["report"],
        &["devices"],
        &["completions"],
        &["man"],
    ];
    for command in commands {
        let mut arguments = command.to_vec();
        arguments.push("--help");
        let outcome = place.succeed(&arguments);
        let example = format!("maxitive {}", command.join(" "));
        let (_, examples) = outcome.stdout.split_once("Examples:\n").expect("examples");
        assert!(examples.contains(example.trim()), "{command:?}: {examples}");
    }
    let outcome = place.run("--version");
    assert_eq!(
        outcome.stdout,
        format!("maxitive {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn an_unknown_command_is_a_mistake() {
    let outcome = Place::new().run("infre");
    assert_eq!(outcome.code, Some(2));
    outcome.stderr_has("infer");
}

#[test]
fn figures_are_written_into_a_new_folder() {
    let place = Place::new();
    let outcome = place.succeed("figures new/pictures");
    let written: Vec<&str> = outcome.stdout.lines().collect();
    assert!(written.len() >= 2);
    for line in &written {
        let bytes = std::fs::read(place.path(line)).unwrap();
        assert!(bytes.len() > 10_000, "{line} has {} bytes", bytes.len());
        if line.ends_with(".png") {
            assert!(bytes.starts_with(b"\x89PNG"));
        } else {
            let svg = String::from_utf8(bytes).unwrap();
            assert!(svg.starts_with("<svg") && svg.contains("<text") && !svg.contains("NaN"));
        }
    }
    let found = std::fs::read_dir(place.path("new/pictures"))
        .unwrap()
        .count();
    assert_eq!(found, written.len(), "no temporary file is left");
    assert!(written.contains(&"new/pictures/families.svg"));
}

#[test]
fn figures_do_not_replace_a_file_by_a_folder() {
    let place = Place::new().with("taken", "precious");
    let outcome = place.refuse("figures taken");
    outcome.stderr_has("taken: is a file, not a folder");
    assert_eq!(outcome.stdout, "");
    assert_eq!(place.text("taken"), "precious");
}

#[test]
fn completions_know_names_and_leave_files() {
    let place = Place::new();
    let script = |shell: &str| place.run(&["completions", shell]).stdout;
    std::fs::write(place.path("completions.bash"), script("bash")).unwrap();
    let complete = |words: &str| {
        let last = words.split(' ').count() - 1;
        let program = format!(
            "source completions.bash; COMP_WORDS=({words}); COMP_CWORD={last}; COMPREPLY=(); \
             _maxitive maxitive \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{}]}}\"; \
             echo \"${{COMPREPLY[@]}}\"",
            last - 1
        );
        let mut bash = std::process::Command::new("bash");
        let bash = bash.args(["-c", &program]).current_dir(place.folder());
        let output = bash.output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    for (words, expected) in [
        (
            "maxitive train fashion-mnist-lenet/ucbopt-a",
            "fashion-mnist-lenet/ucbopt-adapt",
        ),
        ("maxitive train mine", ""),
        ("maxitive reproduce fmn", "fmnist"),
        ("maxitive reproduce quick", ""),
        ("maxitive data fetch kmn", "kmnist"),
        ("maxitive net res", "resnet20 resnet20-dropout"),
        (
            "maxitive bench --net densenet12",
            "densenet121 densenet121-dropout",
        ),
    ] {
        assert_eq!(complete(words), expected, "{words}");
    }
    let zsh = script("zsh");
    for argument in ["config", "name"] {
        let function = format!("_maxitive_{argument}_or_file");
        assert_eq!(zsh.matches(&function).count(), 2, "{function}");
        let used = format!(":{function}'");
        let line = zsh.lines().find(|line| line.contains(&used)).unwrap();
        assert!(line.contains(&format!(":{argument} -- ")), "{line}");
    }
    let fish = script("fish");
    assert!(
        fish.contains("-n \"__fish_maxitive_using_subcommand net\" -a \"lenet "),
        "{fish}"
    );
    // names are for completions: a config of another name is still looked for
    let outcome = place.run("train mine.toml --out x");
    outcome.stderr_has("mine.toml: no such file");
}

#[test]
fn completions_exist_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let outcome = place.succeed(&["completions", shell]);
        assert!(outcome.stdout.contains("multivariate-normal"), "{shell}");
    }
    place.refuse("completions tcsh");
}

#[test]
fn manual_pages_cover_every_command() {
    let place = Place::new();
    let outcome = place.run("man");
    outcome.stdout_has(".TH maxitive");
    place.succeed("man pages");
    let pages = place.path("pages");
    for name in split("maxitive.1 maxitive-infer.1 maxitive-infer-logistic.1 maxitive-figures.1") {
        let page = std::fs::read_to_string(pages.join(name)).unwrap();
        assert!(
            page.contains(".SH NAME") && page.contains("Examples"),
            "{name}"
        );
    }
}

#[test]
fn standard_input_is_read_too() {
    use std::io::Write;
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_maxitive"))
        .args(["infer", "poisson", "-", "--json"])
        .current_dir(Place::new().folder().parent().unwrap())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"k\n1\n3\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    crate::common::assert_close(&report["mode"], 2.0);
}

#[test]
fn networks_are_printed_as_tables() {
    let place = Place::new();
    let outcome = place.succeed("net lenet");
    let last = outcome.stdout.lines().last().unwrap();
    assert!(
        last.starts_with("total") && last.contains("44,426"),
        "{last}"
    );
    outcome.stdout_has("6x24x24");

    let outcome = place.refuse("net lennet");
    outcome.stderr_has("did you mean \"lenet\"?");
    place.refuse("net lenet --classes 0");
}

#[test]
fn bench_prints_its_record() {
    let place = Place::new();
    let arguments = split("bench --batch 17 --threads 2 --seconds 0.05 --json");
    for rule in ["ucbopt", "sgd", "ivon"] {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--rule", rule]);
        let outcome = place.succeed(&arguments);
        let record: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        let keys: Vec<&str> = record
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let want =
            split("net batch threads rule isa ms_best ms_median images_per_s gflops peak_share");
        assert_eq!(keys, want);
        assert_eq!(
            (record["net"].as_str(), record["rule"].as_str()),
            (Some("lenet"), Some(rule))
        );
        let number = |key: &str| record[key].as_f64().unwrap();
        assert!(number("ms_best") > 0.0 && number("ms_best") <= number("ms_median"));
        assert!((number("images_per_s") * number("ms_best") / 17e3 - 1.0).abs() < 1e-9);
        assert!(number("peak_share") > 0.0);
    }
    for wrong in [
        ["--batch", "0"],
        ["--threads", "65"],
        ["--rule", "adam"],
        ["--net", "vgg"],
        ["--isa", "mmx"],
        ["--predict", "0"],
    ] {
        place.refuse(&["bench", wrong[0], wrong[1]]);
    }
}

#[test]
fn bench_measures_predictions() {
    let place = Place::new();
    let outcome = place.succeed("bench --predict 2 --seconds 0.01 --json");
    let record: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let number = |key: &str| record[key].as_f64().unwrap();
    assert_eq!((number("samples"), number("images")), (2.0, 10_000.0));
    assert_eq!(record["precision"], "f32");
    assert!((number("images_per_s") * number("s_best") / 2e4 - 1.0).abs() < 1e-9);
}

/// Without NVIDIA's driver the message says what was looked for; with it, what was found.
#[test]
fn devices_are_listed_and_a_missing_gpu_is_explained() {
    let place = Place::new();
    let outcome = place.succeed("devices");
    assert!(outcome.stdout.starts_with("cpu "), "{}", outcome.stdout);
    let json = place.run("devices --json").stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["devices"][0]["name"], "cpu");
    let Some(problem) = json["gpu_problem"].as_str() else {
        assert!(!outcome.stdout.contains("no GPU: the CUDA driver's library"));
        return;
    };
    outcome.stdout_has(problem);
    // a card is there, and something that it needs is not
    if json["devices"].as_array().unwrap().len() > 1 {
        outcome.stdout_has("cannot be used: ");
        return;
    }
    let arguments = split("train fashion-mnist-lenet/sgd --out run --device");
    for device in ["cuda", "cuda:1"] {
        let outcome = place.refuse(&[&arguments[..], &[device]].concat());
        for words in ["--device", problem] {
            outcome.stderr_has(words);
        }
    }
    let looked = problem.contains("looked for libcuda.so.1: ") || problem.contains("nvcuda.dll");
    assert!(
        looked || problem.contains("start the CUDA driver"),
        "{problem}"
    );
    assert!(place.files().is_empty(), "nothing is written");
}
