//! What the tests of several modules need.

use std::io::Write;
use std::path::Path;

use crate::error::Result;
use crate::library::{Library, Origin, Root};

/// The sets that lie in a folder.
pub fn library(folder: &Path) -> Library {
    let (path, origin) = (folder.into(), Origin::Given);
    Library::with_roots(vec![Root { path, origin }])
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

/// Fails unless the error says this.
#[track_caller]
pub fn assert_says<T>(result: Result<T>, part: &str) {
    let error = result.err().expect("is refused").to_string();
    assert!(error.contains(part), "{error}");
}

/// Fails unless what the error says ends so.
#[track_caller]
pub fn assert_ends<T>(result: Result<T>, end: &str) {
    let error = result.err().expect("is refused").to_string();
    assert!(error.ends_with(end), "{error}");
}
