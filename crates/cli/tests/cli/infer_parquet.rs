//! `maxitive infer` on Parquet files (`tests/parquet/make.py` writes them and the same rows as
//! CSV).

use crate::common::{Place, ROUNDED, same, split};

fn fixture(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/parquet");
    std::fs::read(format!("{folder}/{name}")).unwrap()
}

/// A place with these fixtures.
fn place(names: &[&str]) -> Place {
    let empty = Place::new();
    names
        .iter()
        .fold(empty, |place, name| place.with(name, fixture(name)))
}

const QUESTIONS: [&str; 11] = [
    "poisson FILE --column k --event rate>4",
    "normal FILE --column x --variance 2 --missing drop",
    "normal FILE --column x --missing drop --by g --event mean[north]>mean[west]",
    "normal FILE --column u --variance 1e18 --weight f",
    "bernoulli FILE --column ok --weight w",
    "categorical FILE --column g --weight w --event north>west",
    "categorical FILE --column u",
    "poisson FILE --column k --by ok",
    "linear FILE --target y --covariates f,k --categorical g,ok",
    "logistic FILE --target ok --covariates y,x --missing drop --standardize",
    "predict poisson-regression FILE --target k --covariates y --categorical g --new FILE",
];

#[test]
fn every_codec_and_encoding_gives_the_answer_of_a_csv_file() {
    let files = ["none", "snappy", "gzip", "lz4", "zstd", "encoded"];
    let files = files.map(|kind| format!("rows-{kind}.parquet"));
    let mut names: Vec<&str> = files.iter().map(String::as_str).collect();
    names.push("rows.csv");
    let place = place(&names);
    let ask = |question: &str, file: &str| {
        let question = format!("infer {question}").replace("FILE", file);
        place.json(&question)
    };
    for (i, question) in QUESTIONS.iter().enumerate() {
        let expected = ask(question, "rows.csv");
        // all questions of two files, and one of each other
        for (j, file) in files.iter().enumerate() {
            if j == 1 || j == 5 || i % files.len() == j {
                assert_eq!(ask(question, file), expected, "{question} {file}");
            }
        }
    }
    // the same numbers for spreadsheets, and no picture is lost
    let text = "infer poisson rows-zstd.parquet --column k --plot p.svg --export e.csv";
    let outcome = place.succeed(&split(text));
    outcome.stdout_has("from rows-zstd.parquet, column \"k\"");
}

#[test]
fn the_first_bytes_tell_a_parquet_file() {
    let place = Place::new()
        .with("rows.data", fixture("rows-snappy.parquet"))
        .with("rows.csv", fixture("rows.csv"));
    let ask = |file: &str| place.json(&["infer", "poisson", file, "--column", "k"]);
    assert_eq!(ask("rows.data"), ask("rows.csv"));
}

#[test]
fn a_partitioned_table_is_merged_in_any_order() {
    let parts = [0, 1, 2, 3].map(|part| format!("part-{part}"));
    let files = parts.clone().map(|part| format!("{part}.parquet"));
    let mut names: Vec<&str> = files.iter().map(String::as_str).collect();
    names.push("rows.csv");
    let place = place(&names);
    for (family, options) in [
        ("poisson", "--column k --event rate>4"),
        (
            "normal",
            "--column x --variance 2 --missing drop --event mean>0",
        ),
        ("bernoulli", "--column ok --weight w --event p>0.4"),
        (
            "categorical",
            "--column ok --classes false,true --event true>0.4",
        ),
    ] {
        // options of the columns go to the parts, those of the answer to the merged posterior
        let (data, event) = options.split_at(options.find("--event").unwrap());
        for part in &parts {
            let text = format!("infer {family} {part}.parquet {data} --save {part}.json");
            place.succeed(&text);
        }
        let whole = format!("infer {family} rows.csv {options}");
        let mut whole = place.json(&whole);
        // merged parts do not say how many rows were left out, nor that they were weighted
        for key in ["dropped", "total_weight"] {
            whole.as_object_mut().unwrap().remove(key);
        }
        for order in ["0123", "3120", "2301"] {
            let merged: String = order.chars().map(|i| format!("part-{i}.json ")).collect();
            let merged = format!("infer merge {merged} {event}");
            let mut merged = place.json(&merged);
            for key in ["dropped", "total_weight"] {
                merged.as_object_mut().unwrap().remove(key);
            }
            same(&merged, &whole, ROUNDED, family);
        }
    }
}

#[test]
fn rows_that_are_read_together_give_the_answer_of_a_csv_file() {
    let rows = (0u64..40_000).map(|i| {
        let (k, real) = (i % 5, (i * i % 97) as f64 / 8.0);
        let late = if i == 36_000 { -2 } else { k.cast_signed() };
        let gap = if i == 20_001 {
            String::new()
        } else {
            k.to_string()
        };
        format!("{k},{real},{late},{gap},{},{}\n", i % 3 == 0, i % 3 % 2)
    });
    let text = format!("good,real,late,gap,flag,bit\n{}", rows.collect::<String>());
    let place = place(&["many.parquet"]).with("many.csv", text);
    for question in [
        "poisson FILE --column good",
        "normal FILE --column real --variance 2",
        "normal FILE --column late --variance 2",
        "poisson FILE --column gap --missing drop",
        "bernoulli FILE --column flag",
        "bernoulli FILE --column bit",
    ] {
        let ask = |file: &str| {
            let question = format!("infer {question}").replace("FILE", file);
            place.json(&question)
        };
        assert_eq!(ask("many.parquet"), ask("many.csv"), "{question}");
    }
    place.refuse_each(
        "infer *",
        r#"
poisson many.parquet --column late => row 36001, column "late": poisson: -2 is not in
poisson many.parquet --column gap => row 20002, column "gap": missing value
bernoulli many.parquet --column good => row 3, column "good": 2 is not in {0, 1}
"#,
    );
}

/// What is refused, and the words that say why.
const MISTAKES: &str = r#"
poisson odd.parquet => odd.parquet: choose a column with --column
poisson odd.parquet --column j => odd.parquet: unknown column "j" & "k"
normal odd.parquet --column when --variance 1 => odd.parquet: column "when": the type is timestamp (INT64) & only integers
categorical odd.parquet --column day => column "day": the type is date (INT32)
normal odd.parquet --column price => column "price": the type is decimal
poisson odd.parquet --column tags => column "tags": nested
poisson odd.parquet --column pair => column "pair": nested
poisson odd.parquet --column k --by when => column "when": the type is timestamp
poisson odd.parquet --column k --weight pair => column "pair": nested
normal odd.parquet --column nan => odd.parquet: row 3, column "nan": missing value ("NaN")
normal odd.parquet --column word => odd.parquet: row 4, column "word": "seven" is not a number
normal odd.parquet --column all => odd.parquet: row 1, column "all": missing value ("null")
normal odd.parquet --column all --missing drop => every row lacks a value
linear odd.parquet --target k => column "when": the type is timestamp
linear odd.parquet --target k --covariates nan --categorical day => column "day": the type is date
predict linear rows.csv --target k --covariates y --new odd.parquet => odd.parquet: unknown column "y"
poisson empty.parquet --column k => empty.parquet: there & no row of data
poisson text.parquet => text.parquet: is no Parquet file
poisson nothing.parquet => nothing.parquet: is no Parquet file
poisson half.parquet --column k => half.parquet: is no Parquet file
poisson tail.parquet --column w => tail.parquet
poisson none.parquet => none.parquet: there is no such file
normal rows-none.parquet --column x --variance 1 => rows-none.parquet: row 6, column "x": missing value
bernoulli rows-none.parquet --column k => row 2, column "k": 10 is not in {0, 1}
"#;

#[test]
fn mistakes_in_parquet_files_are_named() {
    let whole = fixture("rows-snappy.parquet");
    let place = place(&split(
        "odd.parquet empty.parquet rows-none.parquet rows.csv",
    ))
    .with("text.parquet", "k\n1\n2\n")
    .with("nothing.parquet", "")
    .with("half.parquet", &whole[..whole.len() / 2])
    .with("tail.parquet", &whole[whole.len() / 2..]);
    place.refuse_each("infer *", MISTAKES);
}

#[test]
fn damaged_files_are_refused_and_never_crash() {
    for name in ["rows-zstd.parquet", "rows-encoded.parquet"] {
        let whole = fixture(name);
        for at in (4..whole.len()).step_by(whole.len() / 25) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x5a;
            let place = Place::new().with("d.parquet", bytes);
            let outcome = place.run("infer categorical d.parquet --column g");
            let code = outcome.code;
            assert!(
                code == Some(0) || code == Some(2),
                "{name} {at}: {}",
                outcome.stderr
            );
            assert!(
                code == Some(0) || outcome.stderr.contains("d.parquet"),
                "{name} {at}"
            );
        }
    }
}
