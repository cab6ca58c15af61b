//! What there is in a folder, and whether it is what was published.

use std::path::{Path, PathBuf};

use crate::check::{self, Verified};
use crate::error::Result;
use crate::library::{Part, folders};
use crate::manifest::ENTRIES;
use crate::official;

/// One file of a dataset in a folder.
#[derive(Debug)]
#[non_exhaustive]
pub struct Check {
    /// Name of the dataset.
    pub name: &'static str,
    /// The part the file belongs to.
    pub part: Part,
    /// The file.
    pub path: PathBuf,
    /// What became of it: how it was checked, or why it is refused.
    pub outcome: Result<Verified>,
}

/// Checks every dataset of the manifest that lies below `folder`, or is `folder` itself. A part of
/// which no file is there is passed over; of one that is incomplete, the missing files are refused.
/// Where a sum is not known, the part is decoded.
///
/// Cost: everything is read once, and where a sum is not known twice.
///
/// ```
/// let folder = std::env::temp_dir().join("maxitive-doctest-nothing-here");
/// assert!(datasets::verify(&folder).is_empty());
/// ```
pub fn verify(folder: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    for entry in ENTRIES.iter() {
        for place in folders(folder, entry) {
            for part in [Part::Train, Part::Test] {
                let Some(files) = entry.part(part) else {
                    continue;
                };
                let missing = |file: &&_| check::locate(&place, file).is_none();
                let absent = files.files.iter().filter(missing).count();
                if absent == files.files.len() {
                    continue;
                }
                let mut found: Vec<Check> = official::verify(files, &place)
                    .into_iter()
                    .map(|(path, outcome)| Check {
                        name: entry.name,
                        part,
                        path,
                        outcome,
                    })
                    .collect();
                let is_unknown = |check: &Check| matches!(check.outcome, Ok(Verified::Structure));
                let refused = found.iter().any(|check| check.outcome.is_err());
                if !refused && let Some(check) = found.iter_mut().find(|check| is_unknown(check)) {
                    // only decoding can tell
                    if let Err(error) = official::read(entry, files, &place, true) {
                        check.outcome = Err(error);
                    }
                }
                checks.extend(found);
            }
        }
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::formats::idx::{self, Idx};
    use std::fs;

    fn write(folder: &Path, name: &str, dimensions: &[usize], byte: u8) {
        fs::create_dir_all(folder).unwrap();
        let array = Idx {
            dimensions: dimensions.into(),
            data: vec![byte; dimensions.iter().product()],
        };
        fs::write(folder.join(name), idx::write(&array)).unwrap();
    }

    #[test]
    fn refused_incomplete_and_unknown_files_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let emnist = root.path().join("emnist");
        // 20,800 images whose sum nobody knows
        let images = "emnist-letters-test-images-idx3-ubyte";
        let labels = "emnist-letters-test-labels-idx1-ubyte";
        write(&emnist, images, &[20_800, 28, 28], 0);
        write(&emnist, labels, &[20_800], 26);
        // a wrong file and a missing one
        let mnist = root.path().join("mnist");
        write(&mnist, "t10k-labels-idx1-ubyte", &[10_000], 3);
        let checks = verify(root.path());
        let of = |name: &str| -> Vec<&Check> { checks.iter().filter(|c| c.name == name).collect() };
        assert_eq!(checks.len(), 4);
        for check in of("emnist-letters") {
            assert!(matches!(check.outcome, Ok(Verified::Structure)));
        }
        let [missing, wrong] = of("mnist")[..] else {
            panic!("{checks:?}")
        };
        assert!(matches!(missing.outcome, Err(Error::Io { .. })));
        assert!(matches!(wrong.outcome, Err(Error::Checksum { .. })));
        // a label that cannot be is seen although the sum is not known
        write(&emnist, labels, &[20_800], 27);
        let checks = verify(&emnist);
        let is_label = |check: &Check| matches!(check.outcome, Err(Error::Label { .. }));
        assert!(checks.iter().any(is_label), "{checks:?}");
    }
}
