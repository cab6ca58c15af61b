//! Pages of Parquet files, looked at before they are decoded: the decoder makes room for as many
//! values as a page announces, and texts in the encodings DELTA_LENGTH_BYTE_ARRAY and
//! DELTA_BYTE_ARRAY announce any number of them in a few bytes.
//!
//! Such a page begins with one or two runs of lengths in DELTA_BINARY_PACKED: the values of a
//! block, its small blocks, the number of lengths, the first length, and blocks of a smallest
//! difference, widths in bits and differences.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

use super::sizes::Sizes;

/// Lengths that a byte can stand for. Writers put 128 into a block of at least five bytes.
const LENGTHS_PER_BYTE: usize = 64;

/// Values of a dictionary that a byte can stand for: bits.
const VALUES_PER_BYTE: usize = 8;

/// The pages of a column without repetitions; those are refused that announce more values than they
/// can hold.
pub struct Pages {
    pub pages: Box<dyn PageReader>,
    /// What the same pages announce of their sizes.
    pub sizes: Sizes,
    /// The definition level of a value; 0 where there are no nulls.
    pub level: i16,
}

impl Pages {
    fn check(&self, page: &Page) -> Result<()> {
        let bytes = page.buffer().len();
        let (announced, most) = match page {
            Page::DictionaryPage { num_values, .. } => {
                (*num_values as usize, bytes.saturating_mul(VALUES_PER_BYTE))
            }
            Page::DataPage { .. } | Page::DataPageV2 { .. } => {
                let lengths = self.values(page).and_then(|bytes| match page.encoding() {
                    Encoding::DELTA_LENGTH_BYTE_ARRAY => Some(Lengths::read(bytes)?.count),
                    Encoding::DELTA_BYTE_ARRAY => {
                        let lengths = Lengths::read(bytes)?;
                        let rest = lengths.rest(bytes);
                        let second = rest.and_then(Lengths::read).map_or(0, |next| next.count);
                        Some(lengths.count.max(second))
                    }
                    _ => None,
                });
                (lengths.unwrap_or(0), limit(bytes))
            }
        };
        if announced > most {
            return Err(ParquetError::General(format!(
                "a page of {bytes} bytes announces {announced} values"
            )));
        }
        Ok(())
    }

    /// The values of a page, behind its levels; nothing where the decoder will refuse it.
    fn values<'a>(&self, page: &'a Page) -> Option<&'a [u8]> {
        let bytes: &[u8] = page.buffer();
        let start = match page {
            Page::DataPage { .. } if self.level == 0 => 0,
            Page::DataPage {
                def_level_encoding: Encoding::RLE,
                ..
            } => 4 + u32::from_le_bytes(*bytes.first_chunk()?) as usize,
            // one bit each
            Page::DataPage { num_values, .. } => (*num_values as usize).div_ceil(8),
            Page::DataPageV2 {
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => *def_levels_byte_len as usize + *rep_levels_byte_len as usize,
            Page::DictionaryPage { .. } => 0,
        };
        bytes.get(start..)
    }

    fn checked(&self, page: Option<Page>) -> Result<Option<Page>> {
        page.as_ref().map_or(Ok(()), |page| self.check(page))?;
        Ok(page)
    }
}

/// Lengths that a page of so many bytes can have.
fn limit(bytes: usize) -> usize {
    bytes.saturating_mul(LENGTHS_PER_BYTE)
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.sizes.advance()?;
        let page = self.pages.get_next_page()?;
        self.checked(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        // a dictionary that is skipped may be decoded later
        self.sizes.advance()?;
        self.pages.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>> {
        let page = self.pages.take_deferred_dictionary()?;
        self.checked(page)
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

/// What a run of lengths announces.
struct Lengths {
    count: usize,
    /// Lengths in a small block, and small blocks in a block.
    small: usize,
    blocks: usize,
    /// Bytes of all this.
    header: usize,
}

impl Lengths {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut left = bytes;
        let values = number(&mut left)?;
        let blocks = number(&mut left)?;
        let count = number(&mut left)?;
        number(&mut left)?;
        Some(Self {
            count,
            small: values.checked_div(blocks)?,
            blocks,
            header: bytes.len() - left.len(),
        })
    }

    /// What follows the run; nothing where it does not end, or has more lengths than it may.
    fn rest<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let mut left = bytes.get(self.header..)?;
        let mut lengths = self.count.saturating_sub(1);
        if self.count > limit(bytes.len()) || self.small == 0 {
            return None;
        }
        while lengths > 0 {
            number(&mut left)?;
            let (widths, differences) = left.split_at_checked(self.blocks)?;
            let mut end = 0usize;
            for &width in widths {
                if lengths > 0 {
                    let bits = self.small.checked_mul(usize::from(width))?;
                    end = end.checked_add(bits / 8)?;
                }
                lengths = lengths.saturating_sub(self.small);
            }
            left = differences.get(end..)?;
        }
        Some(left)
    }
}

/// A number in groups of seven bits, the lowest first.
pub fn number(bytes: &mut &[u8]) -> Option<usize> {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0)?;
    let (groups, rest) = bytes.split_at_checked(end + 1)?;
    *bytes = rest;
    if groups.len() > 10 {
        return None;
    }
    let all = groups.iter().rev();
    let number = all.fold(0u64, |sum, byte| (sum << 7) | u64::from(byte & 0x7f));
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits of a number in groups of seven.
    fn groups(mut number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number > 0x7f {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    }

    #[test]
    fn numbers_are_groups_of_seven_bits() {
        for value in [0, 1, 127, 128, 300, 1 << 40, u64::from(u32::MAX)] {
            let bytes = groups(value);
            let mut left = &bytes[..];
            assert_eq!(number(&mut left), usize::try_from(value).ok());
            assert!(left.is_empty());
        }
        assert_eq!(number(&mut &[0x80, 0x80][..]), None, "it does not end");
        assert_eq!(number(&mut &[0xff; 20][..]), None);
    }

    #[test]
    fn what_follows_the_lengths_is_found() {
        // 128 in a block of four small ones; 40 lengths, the first 0, then 32 differences of two
        // bits and 7 of one; what the other two announce counts for nothing
        let mut run = [groups(128), groups(4), groups(40), groups(0)].concat();
        run.extend([0, 2, 1, 9, 9]);
        run.extend([0; 8 + 4]);
        run.extend(b"behind");
        let lengths = Lengths::read(&run).expect("a run");
        assert_eq!((lengths.count, lengths.small), (40, 32));
        assert_eq!(lengths.rest(&run), Some(&b"behind"[..]));
        assert_eq!(lengths.rest(&run[..12]), None, "it is cut");
    }
}
