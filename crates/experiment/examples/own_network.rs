//! A network of one's own, trained on images that are built in, with all that runs have:
//! checkpoints, a sweep, records, a report, predictions.
//!
//! `cargo run --release -p maxitive-experiment --example own_network
//! [FOLDER]`. Started again, it goes on where it was stopped, or shows what it found.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::PathBuf;

use datasets::{Library, Part};
use engine::{Conv2d, Device, Network, NetworkBuilder, Shape};
use evaluation::record::Checkpoint;
use experiment::run::RunOptions;
use experiment::sweep::SweepOptions;
use experiment::{Model, Silent, Stop, Sweep};

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

/// Everything but the network.
const CONFIG: &str = r#"
    name = "small"
    data = { dataset = "fashion-mnist-mini", out_of_domain = ["letters"], limit = 2000 }
    train = { epochs = 3, batch = 64 }
    optimizer = { rule = "ucbopt", lr = 0.01 }
    rows = [{ row = "uCBOpt", predictive = "point" }, { row = "Laplace", predictive = "laplace" }]
"#;

const SWEEP: &str = r#"
    name = "own-network"
    configs = ["small"]
    grid.optimizer.lr = [0.005, 0.02]
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| std::env::temp_dir().join("maxitive-own-network"));
    let (network, library) = (network()?, Library::new(None));
    let device = Device::by_name("auto")?;
    let load = |name: &str| Ok((name.to_owned(), CONFIG.to_owned()));
    let sweep = Sweep::parse_with(SWEEP, "the example", &[], Some(&network), load)?;
    let stop = Stop::default();
    let options = SweepOptions::new(RunOptions {
        library: &library,
        device,
        observer: &Silent,
        stop: &stop,
        checkpoint_seconds: 1.0,
    });
    let outcome = sweep.execute(&folder, &options)?;
    if let Some((_, error)) = outcome.failed.into_iter().next() {
        return Err(error.into());
    }
    print!("{}", report::text(&outcome.finished, false));
    let page = folder.join("report.html");
    let html = report::html(&outcome.finished, &report::Options::default());
    std::fs::write(&page, html)?;
    println!("{}", page.display());

    // the best run says what is on pictures, from its folder alone
    for best in sweep.best(&outcome.finished) {
        let model = Model::open_with(&folder.join(&best.run), &network)?;
        let test = library.load("fashion-mnist-mini", Part::Test)?;
        let row = model.row_by("laplace")?;
        let images = test.images();
        let (probabilities, _) =
            model.predict(&row, Checkpoint::Best, images, (device, &library))?;
        println!(
            "{}: the first test image, {} by Laplace: {:.3}",
            best.run,
            model.class_name(test.labels()[0] as usize),
            probabilities[test.labels()[0] as usize]
        );
    }
    Ok(())
}
