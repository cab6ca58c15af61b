//! Mistakes in configs: the message speaks of TOML keys and of what they take, never of the types
//! of the program.

use crate::common::Place;

const CONFIG: &str = r#"name = "mine"

[data]
dataset = "fashion-mnist-mini"

[network]
name = "lenet"

[train]
epochs = 9

[optimizer]
rule = "adamw"
lr = 0.01

[[rows]]
row = "a"
predictive = "point"

[[rows]]
row = "b"
predictive = "laplace"
"#;

/// Words of the program's insides.
const INSIDES: [&str; 11] = [
    "f64",
    "u64",
    "usize",
    "struct",
    "enum",
    "variant",
    "sequence",
    "field",
    "Config",
    "identifier",
    "invalid type",
];

/// The config is refused with this message and nothing else.
#[track_caller]
fn refuse(place: &Place, arguments: &[&str], expected: &str) {
    let outcome = place.refuse(&[&["train", "mine.toml", "--show"], arguments].concat());
    assert_eq!(outcome.stdout, "", "{arguments:?}");
    let expected = format!("error: mine.toml: {expected}\n");
    assert_eq!(outcome.stderr, expected, "{arguments:?}");
    for word in INSIDES {
        assert!(!outcome.stderr.contains(word), "{word}: {}", outcome.stderr);
    }
}

const COUNT: &str = "expected a whole number from 0 on, found";
const NUMBER: &str = "expected a number, found";
const TEXT: &str = "expected a text in quotes, found";
const LIST: &str = "expected a list in square brackets, found";
const SECTION: &str = "expected a section with keys, found";
const TRUTH: &str = "expected true or false, found";
const RULES: &str =
    r#"expected one of "ucbopt", "ucbopt-adapt", "lcbopt-adapt", "sgd", "adamw", "ivon", found"#;
const SHAPES: &str = r#"expected one of "constant", "warmup-cosine", "swag", "step", found"#;

const SPLITS: &str = r#"expected one of "index", "shuffled", "stratified", found"#;
const NETWORKS: &str =
    "known are lenet, resnet20, densenet121, densenet101, or give network.layers";

/// What the words above stand for in the table below.
const WORDS: [(&str, &str); 10] = [
    ("COUNT", COUNT),
    ("NUMBER", NUMBER),
    ("TEXT", TEXT),
    ("LIST", LIST),
    ("SECTION", SECTION),
    ("TRUTH", TRUTH),
    ("RULES", RULES),
    ("SHAPES", SHAPES),
    ("SPLITS", SPLITS),
    ("NETWORKS", NETWORKS),
];

/// A setting, and its message: the key, what it takes, what was found.
const SETTINGS: &str = r#"
// counts
seed=-1 => seed: COUNT -1
seed=1.5 => seed: COUNT 1.5
seed=nan => seed: COUNT nan
seed=a => seed: COUNT "a"
train.epochs=true => train.epochs: COUNT true
train.epochs=[3] => train.epochs: COUNT a list
train.epochs={} => train.epochs: COUNT a section
train.epochs= => train.epochs: COUNT ""
data.pad=99999999999999999999 => data.pad: COUNT "99999999999999999999"
data.channels=1.0 => data.channels: COUNT 1.0
swag.start=-1 => swag.start: COUNT -1
data.resize=-3 => data.resize: expected a side like 32, or [height, width]
data.resize=[1, 2, 3] => data.resize: expected a side like 32, or [height, width]
// numbers
optimizer.lr=fast => optimizer.lr: NUMBER "fast"
optimizer.lr=[1] => optimizer.lr: NUMBER a list
optimizer.lr=inf => optimizer.lr: inf is not in (0, inf)
optimizer.beta1=a => optimizer.beta1: NUMBER "a"
data.validation_share=true => data.validation_share: NUMBER true
rows.1.prior_precision=a => rows.1.prior_precision: NUMBER "a"
optimizer={rule='sgd', lr=0.1, momentum='sgd'} => optimizer.momentum: NUMBER "sgd"
// texts and words
name=3 => name: TEXT 3
data.dataset=[] => data.dataset: TEXT a list
data.flip=1 => data.flip: TRUTH 1
data.flip=yes => data.flip: TRUTH "yes"
data.split=half => data.split: SPLITS "half"
data.split=3 => data.split: SPLITS 3
optimizer.rule=sdg => optimizer.rule: RULES "sdg"
optimizer.rule=3 => optimizer.rule: RULES 3
schedule.shape=round => schedule.shape: SHAPES "round"
schedule.shape=3 => schedule.shape: SHAPES 3
evaluation.score=best => evaluation.score: expected one of "max-probability", "entropy", found "best"
train.precision=f16 => train.precision: no precision "f16"; there are f32, tf32
network.name=lennet => network.name: no network "lennet"; NETWORKS
network.name=lenet-dropout => network.name: no network "lenet-dropout"; NETWORKS
// lists and sections
data.out_of_domain=mnist => data.out_of_domain: LIST "mnist"
data.out_of_domain={} => data.out_of_domain: LIST a section
data.out_of_domain=['mnist', 1] => data.out_of_domain.1: TEXT 1
data.out_of_domain=['mnist', 'mnist'] => data.out_of_domain: "mnist" is listed twice
rows={row='a'} => rows: LIST a section
rows=[{row='a', predictive='point'}, 1] => rows.1: SECTION 1
data=3 => data: SECTION 3
data=[] => data: SECTION a list
train=[9] => train: SECTION a list
network=lenet => network: SECTION "lenet"
optimizer=sgd => optimizer: SECTION "sgd"
schedule=constant => schedule: SECTION "constant"
schedule={warmup='a'} => schedule.warmup: COUNT "a"
schedule={warm=1} => schedule.warm: no such key; others are warmup, lr_final, per_step
// keys
train={} => train.epochs: is missing
optimizer={lr=0.1} => optimizer.rule: is missing
optimizer={rule='sgd'} => optimizer.lr: is missing
schedule={shape='step', every=3} => schedule.factor: is missing
rows=[{row='a', predictive='point'}, {row='b'}] => rows.1.predictive: is missing
train.epoch=3 => train.epoch: no such key; others are epochs, batch, precision
optimizer.momentum=0.9 => optimizer.momentum: no such key; others are beta1, beta2, eps, weight_decay
train.epochs.more=1 => setting "train.epochs.more": no such key
train.epochs => setting "train.epochs" is not of the form key=value
=3 => setting "" has an empty key
// layers
network.layers=[{layer='relu'}, {layer='conv', channels=1.5, kernel=3}] => network.layers: layer 2 (conv1): channels: COUNT 1.5
network.layers=[{layer='relu'}, {layer='conv', channels=3}] => network.layers: layer 2 (conv1): kernel: is missing
network.layers=[{}] => network.layers: layer 1: layer: is missing
network.layers=[{layer='conv', channels=3, kernel=3, padding=-1}] => network.layers: layer 1 (conv1): padding: expected a whole number from 0 on, or "same"
network.layers=[{layer='relu', name='a'}, {layer='relu', name='b', slope=1}] => network.layers: layer 2 (b): slope: no such key
network.layers=[{layer='relu'}, {layer='batch-norm'}] => network.layers: layer 2 (batch-norm1): layer: expected one of "conv", "frn", "tlu", "relu", "max-pool", "avg-pool", "global-avg-pool", "dropout", "flatten", "dense", "residual", "dense-block", "transition", found "batch-norm"
"#;

#[test]
fn settings_name_the_key_and_what_it_takes() {
    let place = Place::new().with("mine.toml", CONFIG);
    let lines = SETTINGS.trim().lines();
    for line in lines.filter(|line| !line.starts_with("//")) {
        let (setting, message) = line.split_once(" => ").unwrap();
        let message = WORDS
            .iter()
            .fold(message.to_owned(), |message, (word, text)| {
                message.replace(word, text)
            });
        refuse(&place, &["--set", setting], &message);
    }
}

#[test]
fn files_name_the_line_too() {
    let cases: &[(&str, &str, String)] = &[
        (
            "epochs = 9",
            "epochs = 9.5",
            format!("line 10: train.epochs: {COUNT} 9.5"),
        ),
        (
            "lr = 0.01",
            "lr = 0.01\nbeta1 = 'a'",
            format!("line 15: optimizer.beta1: {NUMBER} \"a\""),
        ),
        ("lr = 0.01", "", "line 12: optimizer.lr: is missing".into()),
        (
            "epochs = 9",
            "epoch = 9",
            "line 10: train.epoch: no such key; others are epochs, batch, precision".into(),
        ),
        ("[train]\nepochs = 9\n", "", "train: is missing".into()),
        (
            "[data]\ndataset = \"fashion-mnist-mini\"",
            "data = 3",
            format!("line 3: data: {SECTION} 3"),
        ),
        (
            "[train]\nepochs = 9",
            "[[train]]\nepochs = 9",
            "line 9: train: expected a section with keys, found a list".into(),
        ),
        ("predictive = \"laplace\"", "predictive = 3", {
            let all = r#""point", "ivon", "mc-dropout", "swag", "laplace", "possibilistic""#;
            format!("line 22: rows.1.predictive: expected one of {all}, found 3")
        }),
        (
            "row = \"b\"",
            "row = 2",
            format!("line 21: rows.1.row: {TEXT} 2"),
        ),
    ];
    for (old, new, expected) in cases {
        assert!(CONFIG.contains(old), "{old}");
        let place = Place::new().with("mine.toml", CONFIG.replacen(old, new, 1));
        refuse(&place, &[], expected);
    }
    // what is no TOML is shown
    let place = Place::new().with("mine.toml", format!("seed = 1\nseed = 2\n{CONFIG}"));
    let outcome = place.refuse("train mine.toml --show");
    for words in ["line 2", "seed = 2", "duplicate key"] {
        outcome.stderr_has(words);
    }
}

#[test]
fn sweeps_and_networks_are_read_alike() {
    let place = Place::new()
        .with("mine.toml", CONFIG)
        .with("sweep.toml", "name = 's'\nconfigs = 'mine.toml'\n")
        .with(
            "grid.toml",
            "name = 's'\nconfigs = ['mine.toml']\n[grid]\ntrain.epochs = [1, 1.5]\n",
        )
        .with(
            "net.toml",
            "[[layers]]\nlayer = 'flatten'\n[[layers]]\nlayer = 'dense'\noutputs = 'ten'\n",
        )
        .with("net2.toml", "[network]\nlayers = 3\n");
    for (arguments, expected) in [
        (
            &["sweep", "sweep.toml", "--out", "x"][..],
            format!("sweep.toml: line 2: configs: {LIST} \"mine.toml\""),
        ),
        (
            &["sweep", "grid.toml", "--out", "x"],
            format!("mine.toml (in grid.toml): train.epochs: {COUNT} 1.5"),
        ),
        (
            &["net", "net.toml"],
            format!("net.toml: line 5: layers: layer 2 (dense1): outputs: {COUNT} \"ten\""),
        ),
        (
            &["net", "net2.toml"],
            format!("net2.toml: line 2: network.layers: {LIST} 3"),
        ),
    ] {
        let outcome = place.refuse(arguments);
        assert_eq!(
            outcome.stderr,
            format!("error: {expected}\n"),
            "{arguments:?}"
        );
    }
    assert!(!place.path("x").exists());
}
