//! Makes the built-in part of Fashion-MNIST from the full set: 600 training and 200 test images of
//! every class.
//!
//! `cargo run --release -p maxitive-datasets --example fashion_mnist_mini
//! [DATA_FOLDER]` writes the files beside this one. The images of class `c` are drawn without
//! replacement by the seeded split with seed `c`; their order is the original's.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;

use datasets::formats::idx::{self, Idx};
use datasets::{Library, Part, SplitOrder, split};
use flate2::{Compression, GzBuilder};

fn main() -> Result<(), Box<dyn Error>> {
    let library = Library::new(std::env::args_os().nth(1).map(Into::into));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/fashion-mnist-mini");
    for (part, stem, per_class) in [(Part::Train, "train", 600), (Part::Test, "t10k", 200)] {
        let set = library.load("fashion-mnist", part)?;
        let mut chosen = Vec::new();
        for class in 0..10 {
            let of_class = (0..set.len()).filter(|&index| set.labels()[index] == class);
            let of_class: Vec<usize> = of_class.collect();
            let share = f64::from(per_class) / of_class.len() as f64;
            let order = SplitOrder::Shuffled { seed: class.into() };
            let (_, picked) = split(&vec![0; of_class.len()], share, order)?;
            chosen.extend(picked.iter().map(|&place| of_class[place as usize]));
        }
        chosen.sort_unstable();
        let images = Idx {
            dimensions: vec![chosen.len(), 28, 28],
            data: chosen
                .iter()
                .flat_map(|&index| set.image(index))
                .copied()
                .collect(),
        };
        let labels = Idx {
            dimensions: vec![chosen.len()],
            data: chosen
                .iter()
                .map(|&index| set.labels()[index] as u8)
                .collect(),
        };
        for (name, array) in [("images-idx3", images), ("labels-idx1", labels)] {
            let mut file = GzBuilder::new()
                .mtime(0)
                .write(Vec::new(), Compression::best());
            file.write_all(&idx::write(&array))?;
            fs::write(
                folder.join(format!("{stem}-{name}-ubyte.gz")),
                file.finish()?,
            )?;
        }
    }
    Ok(())
}
