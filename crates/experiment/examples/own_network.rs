//! A network of one's own, trained on images that are built in, with all that a run has:
//! checkpoints, a record, a report.
//!
//! `cargo run --release -p maxitive-experiment --example own_network
//! [FOLDER]`. Started again, it goes on where it was stopped, or shows what it found.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::PathBuf;

use datasets::Library;
use engine::{Conv2d, Device, Network, NetworkBuilder, Shape};
use experiment::run::{CONFIG, RunOptions};
use experiment::{Outcome, Run, RunConfig, Silent, Stop};

/// One convolution and two dense layers.
fn network() -> engine::Result<Network> {
    let mut net = NetworkBuilder::new("small", Shape::new(1, 28, 28));
    let mut x = net.input();
    x = net.conv2d("conv", x, Conv2d::new(8, 5).stride(2));
    x = net.frn_tlu("norm", x);
    x = net.flatten("flatten", x);
    x = net.linear("hidden", x, 32);
    x = net.relu("relu", x);
    x = net.linear("out", x, 10);
    net.build(x)
}

/// Everything but the network; its section is filled in by `Run::create_with`.
const CONFIG_TEXT: &str = r#"
    name = "small"
    data = { dataset = "fashion-mnist-mini", out_of_domain = ["letters"], limit = 2000 }
    network = { name = "lenet" }
    train = { epochs = 3, batch = 64 }
    optimizer = { rule = "ucbopt", lr = 0.01 }
    rows = [{ row = "uCBOpt", predictive = "point" }, { row = "Laplace", predictive = "laplace" }]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| std::env::temp_dir().join("maxitive-own-network"));
    let run = if folder.join(CONFIG).exists() {
        Run::open_with(&folder, network()?)?
    } else {
        let config = RunConfig::parse(CONFIG_TEXT, "the example", &[])?;
        Run::create_with(&folder, config, network()?)?
    };
    let outcome = run.execute(&RunOptions {
        library: &Library::new(None),
        device: Device::by_name("auto")?,
        observer: &Silent,
        stop: &Stop::default(),
        checkpoint_seconds: 1.0,
    })?;
    if let Outcome::Finished(record) = outcome {
        let records = [*record];
        print!("{}", report::text(&records, false));
        let page = folder.join("report.html");
        std::fs::write(&page, report::html(&records, &report::Options::default()))?;
        println!("{}", page.display());
    }
    Ok(())
}
