//! Whether a file is the one that was published.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;

use crate::digest::Hashing;
use crate::disk;
use crate::error::{Error, Result};
use crate::manifest::{File, SumOf};

/// How a file was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verified {
    /// Its sum is that of the official file.
    Official,
    /// Its sum is that of a known copy that differs from the official file in this way.
    Variant(&'static str),
    /// The official sum is not known here; size and structure are right.
    Structure,
    /// Sums were not asked for.
    Unchecked,
}

impl Verified {
    /// What a reader of the results should know; nothing for the official file.
    pub fn note(self) -> Option<&'static str> {
        match self {
            Self::Official => None,
            Self::Variant(note) => Some(note),
            Self::Structure => {
                Some("the official checksum is not known; size and structure are right")
            }
            Self::Unchecked => Some("unverified: the checksums were not compared"),
        }
    }
}

/// The file itself or its gzipped form; a folder is found too.
pub(crate) fn locate(folder: &Path, file: &File) -> Option<PathBuf> {
    [format!("{}.gz", file.path), file.path.to_owned()]
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.exists())
}

/// Bytes that a file, or everything in a folder, takes on the disk.
pub(crate) fn size(folder: &Path, file: &File) -> Option<u64> {
    let path = locate(folder, file)?;
    if !path.is_dir() {
        return Some(fs::metadata(path).ok()?.len());
    }
    let entries = fs::read_dir(path).ok()?.flatten();
    Some(
        entries
            .filter_map(|entry| Some(entry.metadata().ok()?.len()))
            .sum(),
    )
}

/// A file of the manifest, open for reading, uncompressed.
pub(crate) struct Opened {
    pub(crate) path: PathBuf,
    pub(crate) content: Hashing<Box<dyn Read>>,
    file: &'static File,
}

impl Opened {
    pub(crate) fn new(folder: &Path, file: &'static File, verify: bool) -> Result<Self> {
        let path = locate(folder, file).unwrap_or_else(|| folder.join(file.path));
        let content = uncompressed(&path).map_err(Error::io("read", &path))?;
        Ok(Self {
            path,
            content: Hashing::new(content, verify),
            file,
        })
    }

    /// Compares the sum of the content, read or not, with those of the manifest.
    pub(crate) fn finish(self) -> Result<Verified> {
        let found = self
            .content
            .finish()
            .map_err(Error::io("read", &self.path))?;
        match found {
            Some(found) => judge(&self.path, self.file, found),
            None => Ok(Verified::Unchecked),
        }
    }
}

/// The content of a file, inflated if it is gzipped.
fn uncompressed(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = BufReader::with_capacity(1 << 16, disk::open_plain(path)?);
    if file.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        Ok(Box::new(GzDecoder::new(file)))
    } else {
        Ok(Box::new(file))
    }
}

/// What the sum `found` of the content of `path` means.
pub(crate) fn judge(path: &Path, file: &File, found: String) -> Result<Verified> {
    let verdict = |note: &'static str| {
        if note.is_empty() {
            Verified::Official
        } else {
            Verified::Variant(note)
        }
    };
    let of_content = file.known.iter().filter(|known| known.of == SumOf::Content);
    if let Some(known) = of_content.clone().find(|known| known.sha256 == found) {
        return Ok(verdict(known.note));
    }
    let mut of_gzip = file
        .known
        .iter()
        .filter(|known| known.of == SumOf::Gzip)
        .peekable();
    let mut found = found;
    if of_gzip.peek().is_some() {
        let wrapper = disk::open_plain(path).map_err(Error::io("read", path))?;
        let sum = Hashing::new(BufReader::new(wrapper), true);
        found = sum
            .finish()
            .map_err(Error::io("read", path))?
            .unwrap_or_default();
        if let Some(known) = of_gzip.find(|known| known.sha256 == found) {
            return Ok(verdict(known.note));
        }
    }
    if !file.is_official_known() {
        return Ok(Verified::Structure);
    }
    let expected: Vec<&str> = file.known.iter().map(|known| known.sha256).collect();
    Err(Error::Checksum {
        path: path.into(),
        expected: expected.join(" or "),
        found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::sha256;
    use crate::library::Part;
    use crate::manifest;

    fn first_file(set: &str, part: Part) -> &'static File {
        let files = manifest::find(set).unwrap().part(part).unwrap();
        &files.files[0]
    }

    #[test]
    fn a_sum_is_official_or_a_known_variant_or_refused() {
        let svhn = first_file("svhn", Part::Test);
        let path = Path::new("test_32x32.mat");
        let verdict = |sum: &str| judge(path, svhn, sum.into());
        assert_eq!(verdict(svhn.known[0].sha256).unwrap(), Verified::Official);
        let changed = verdict(svhn.known[1].sha256).unwrap();
        assert!(changed.note().unwrap().contains("not the official pixels"));
        let error = verdict("00").unwrap_err().to_string();
        assert!(error.contains("sha256 is 00, expected cdce80df"), "{error}");
        assert!(error.contains(" or 2fb9f0ae"), "{error}");
    }

    #[test]
    fn where_the_official_sum_is_unknown_the_structure_decides() {
        let emnist = first_file("emnist-letters", Part::Test);
        let verdict = judge(Path::new("x"), emnist, "00".into()).unwrap();
        assert_eq!(verdict, Verified::Structure);
        assert!(verdict.note().unwrap().contains("not known"));
    }

    #[test]
    fn the_sum_of_a_wrapper_counts_where_it_was_published() {
        // the content of this wrapper has another sum than the one published
        let file = first_file("kmnist", Part::Train);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wrapper.gz");
        fs::write(&path, b"other bytes").unwrap();
        let Err(Error::Checksum { found, .. }) = judge(&path, file, "00".into()) else {
            panic!("accepted");
        };
        assert_eq!(found, sha256(b"other bytes"));
    }
}
