//! Readers of file formats: bytes in, arrays out. They know nothing of datasets.
//!
//! A reader never trusts a number in a file: a declared size is compared with what is there before
//! memory is taken for it, and whatever does not fit is a [`Malformed`] with the field and its
//! place.

mod bmp;
pub mod cifar;
mod decoders;
pub mod guard;
pub mod idx;
pub mod mat;
pub mod npy;
pub mod picture;
pub mod tar;
pub mod zip;

#[cfg(test)]
mod mutation;

use std::io::{self, Read};

use crate::error::Malformed;

/// Bytes that are read at once before any of them was seen; a multiple of all sizes of numbers.
const PIECE: u64 = 1 << 16;

/// A reader that knows how far it has come and turns the end of the data into a [`Malformed`].
pub(crate) struct Source<R> {
    inner: R,
    offset: u64,
}

impl<R: Read> Source<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, offset: 0 }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn array<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[u8; N], Malformed> {
        let mut bytes = [0; N];
        let got = self.fill(field, &mut bytes)?;
        if got < N {
            return Err(self.short(field, N as u64, got as u64));
        }
        self.offset += N as u64;
        Ok(bytes)
    }

    /// What the header announces is not more than is expected.
    pub(crate) fn expect_at_most(
        &self,
        field: &'static str,
        announced: u64,
        most: u64,
    ) -> Result<(), Malformed> {
        if announced <= most {
            return Ok(());
        }
        let problem = format!("{announced} bytes are announced, expected at most {most}");
        Err(Malformed::new(field, self.offset, problem))
    }

    /// Exactly `length` bytes. Memory grows with what arrives, not with what was promised.
    pub(crate) fn bytes(&mut self, field: &'static str, length: u64) -> Result<Vec<u8>, Malformed> {
        let mut bytes = Vec::with_capacity(length.min(PIECE) as usize);
        while (bytes.len() as u64) < length {
            let have = bytes.len();
            let more = (length - have as u64).min(PIECE.max(have as u64)) as usize;
            bytes.resize(have + more, 0);
            let got = self.fill(field, &mut bytes[have..])?;
            if got < more {
                return Err(self.short(field, length, (have + got) as u64));
            }
        }
        self.offset += length;
        Ok(bytes)
    }

    /// Exactly `length` bytes, handed to `take` piece by piece; every piece but the last has
    /// [`PIECE`] bytes. Of the memory only one piece is held.
    pub(crate) fn pieces(
        &mut self,
        field: &'static str,
        length: u64,
        mut take: impl FnMut(&mut [u8]) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let mut piece = vec![0; length.min(PIECE) as usize];
        let mut have = 0;
        while have < length {
            let piece = &mut piece[..(length - have).min(PIECE) as usize];
            let got = self.fill(field, piece)?;
            if got < piece.len() {
                return Err(self.short(field, length, have + got as u64));
            }
            have += got as u64;
            take(piece)?;
        }
        self.offset += length;
        Ok(())
    }

    /// Fills `target`, or says that there was nothing left to begin with.
    pub(crate) fn whole(
        &mut self,
        field: &'static str,
        target: &mut [u8],
    ) -> Result<bool, Malformed> {
        let wanted = target.len();
        match self.fill(field, target)? {
            0 => Ok(false),
            got if got < wanted => Err(self.short(field, wanted as u64, got as u64)),
            _ => {
                self.offset += wanted as u64;
                Ok(true)
            }
        }
    }

    /// A reader of the next `length` bytes; what it leaves is to be skipped.
    pub(crate) fn part(&mut self, length: u64) -> io::Take<&mut R> {
        self.offset += length;
        (&mut self.inner).take(length)
    }

    /// Passes over `length` bytes.
    pub(crate) fn skip(&mut self, field: &'static str, length: u64) -> Result<(), Malformed> {
        let mut part = (&mut self.inner).take(length);
        let skipped = io::copy(&mut part, &mut io::sink())
            .map_err(|error| Malformed::new(field, self.offset, error.to_string()))?;
        if skipped < length {
            return Err(self.short(field, length, skipped));
        }
        self.offset += length;
        Ok(())
    }

    /// Nothing may follow.
    pub(crate) fn end(&mut self) -> Result<(), Malformed> {
        let mut byte = [0];
        match self.fill("end", &mut byte)? {
            0 => Ok(()),
            _ => Err(Malformed::new(
                "end",
                self.offset,
                "more data follow than the header announces",
            )),
        }
    }

    fn fill(&mut self, field: &'static str, mut target: &mut [u8]) -> Result<usize, Malformed> {
        let wanted = target.len();
        while !target.is_empty() {
            match self.inner.read(target) {
                Ok(0) => break,
                Ok(n) => target = &mut target[n..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Malformed::new(field, self.offset, error.to_string())),
            }
        }
        Ok(wanted - target.len())
    }

    fn short(&self, field: &'static str, wanted: u64, got: u64) -> Malformed {
        Malformed::new(
            field,
            self.offset,
            format!("{wanted} bytes announced, the data end after {got}"),
        )
    }
}
