//! SHA-256 of what passes by.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// A reader that adds up everything read through it, if it is asked to.
pub(crate) struct Hashing<R> {
    inner: R,
    hasher: Option<Sha256>,
}

impl<R: Read> Hashing<R> {
    pub(crate) fn new(inner: R, wanted: bool) -> Self {
        Self {
            inner,
            hasher: wanted.then(Sha256::new),
        }
    }

    /// The sum of what was read and of what is left, in hexadecimal digits; `None` if it was not
    /// wanted.
    pub(crate) fn finish(mut self) -> io::Result<Option<String>> {
        if self.hasher.is_some() {
            io::copy(&mut self, &mut io::sink())?;
        }
        Ok(self.hasher.map(|hasher| hex(&hasher.finalize())))
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&buffer[..n]);
        }
        Ok(n)
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of a slice, in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_covers_what_was_not_read() {
        let mut reader = Hashing::new(&b"abc"[..], true);
        assert_eq!(reader.read(&mut [0; 2]).unwrap(), 2);
        // the example of FIPS 180-2
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(reader.finish().unwrap().as_deref(), Some(expected));
        assert_eq!(sha256(b"abc"), expected);
        assert_eq!(Hashing::new(&b"abc"[..], false).finish().unwrap(), None);
    }
}
