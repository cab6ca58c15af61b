//! Writes synthetic records and their report:
//! `cargo run -p maxitive-report --example sample -- FOLDER`.
//!
//! Nothing in them was measured; they show what a report looks like.

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::error::Error;
use std::fs;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from("sample"), PathBuf::from);
    let records = synthetic::fashion_mnist(3, 100);
    for record in &records {
        let place = folder.join("runs").join(&record.name);
        fs::create_dir_all(&place)?;
        fs::write(place.join("record.json"), serde_json::to_string(record)?)?;
    }
    let options = report::Options {
        title: None,
        note: Some("Synthetic records: nothing on this page was measured.".to_owned()),
        ..report::Options::default()
    };
    fs::write(folder.join("report.html"), report::html(&records, &options))?;
    fs::write(folder.join("tables.csv"), report::csv(&records))?;
    fs::write(folder.join("tables.md"), report::markdown(&records))?;
    fs::write(folder.join("tables.tex"), report::latex(&records))?;
    fs::write(folder.join("tables.txt"), report::text(&records, false))?;
    Ok(())
}
