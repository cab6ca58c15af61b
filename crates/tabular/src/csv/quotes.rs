//! Strict quotes: the CSV reader takes any text, here a quote that is never closed, or text behind
//! a closing quote, is found while the bytes pass by.
//!
//! A field is quoted if a quote is its first byte; a doubled quote inside stands for one. A quote
//! behind blanks would be a part of the field's text, which nobody means, and is refused. Chunks
//! without any quote, nearly all of them, are only searched for line breaks.

use std::fmt;
use std::io::{self, Read};

/// A broken rule about quotes and the physical line, from 1, of the quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadQuote {
    line: u64,
    rule: &'static str,
}

impl fmt::Display for BadQuote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.rule)
    }
}

impl std::error::Error for BadQuote {}

/// Where the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Record,
    Field,
    /// Blanks before a field.
    Blank,
    Plain,
    Comment,
    Quoted,
    /// Behind a quote inside a quoted field: the end of the field, or the first of two.
    Closing,
    /// Blanks behind the closing quote.
    Closed,
}

/// Passes bytes on and refuses malformed quotes.
pub struct StrictQuotes<R> {
    source: R,
    delimiter: u8,
    state: State,
    line: u64,
    opened: u64,
    started: bool,
}

impl<R> StrictQuotes<R> {
    /// Watches the bytes of `source` from its beginning; `delimiter` stands between its fields.
    pub fn new(source: R, delimiter: u8) -> Self {
        Self {
            source,
            delimiter,
            state: State::Record,
            line: 1,
            opened: 1,
            started: false,
        }
    }

    /// The bytes themselves, no longer watched.
    pub fn source_mut(&mut self) -> &mut R {
        &mut self.source
    }

    fn watch(&mut self, mut bytes: &[u8]) -> Result<(), BadQuote> {
        if !self.started {
            self.started = true;
            bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        }
        let quoted = matches!(self.state, State::Quoted | State::Closing | State::Closed);
        if !quoted
            && !bytes.contains(&b'"')
            && let Some(end) = bytes.iter().rposition(|&byte| byte == b'\n')
        {
            let breaks = bytes.iter().filter(|&&byte| byte == b'\n').count();
            self.line += breaks as u64;
            self.state = State::Record;
            bytes = &bytes[end + 1..];
        }
        for &byte in bytes {
            self.step(byte)?;
            self.line += u64::from(byte == b'\n');
        }
        Ok(())
    }

    fn step(&mut self, byte: u8) -> Result<(), BadQuote> {
        self.state = match (self.state, byte) {
            (State::Quoted, b'"') => State::Closing,
            (State::Quoted, _) | (State::Closing, b'"') => State::Quoted,
            (_, b'\n') => State::Record,
            (State::Comment, _) | (State::Record, b'#') => State::Comment,
            (_, b'\r') => State::Record,
            (_, byte) if byte == self.delimiter => State::Field,
            (State::Record | State::Field, b'"') => {
                self.opened = self.line;
                State::Quoted
            }
            (State::Record | State::Field | State::Blank, b' ' | b'\t') => State::Blank,
            (State::Blank, b'"') => {
                return Err(BadQuote {
                    line: self.line,
                    rule: "a blank stands before the opening quote of a field; leave it out",
                });
            }
            (State::Closing | State::Closed, b' ' | b'\t') => State::Closed,
            (State::Closing | State::Closed, _) => {
                return Err(BadQuote {
                    line: self.line,
                    rule: "text follows the closing quote of a field",
                });
            }
            _ => State::Plain,
        };
        Ok(())
    }

    fn finish(&self) -> Result<(), BadQuote> {
        if self.state == State::Quoted {
            return Err(BadQuote {
                line: self.opened,
                rule: "a quote is opened and never closed",
            });
        }
        Ok(())
    }
}

impl<R: Read> Read for StrictQuotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        let result = if count == 0 && !buffer.is_empty() {
            self.finish()
        } else {
            self.watch(&buffer[..count])
        };
        match result {
            Ok(()) => Ok(count),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads in chunks of the given size.
    fn read(text: &[u8], chunk: usize) -> Result<Vec<u8>, String> {
        let mut reader = StrictQuotes::new(text, b',');
        let (mut all, mut buffer) = (Vec::new(), vec![0; chunk]);
        loop {
            match reader
                .read(&mut buffer)
                .map_err(|error| error.to_string())?
            {
                0 => return Ok(all),
                count => all.extend(&buffer[..count]),
            }
        }
    }

    #[test]
    fn well_formed_quotes_pass_unchanged() {
        let texts: [&[u8]; 7] = [
            b"x,y\n\"1\",\"a,b\"\r\n\"2\" ,\"line\nbreak\"\n",
            b"\xef\xbb\xbf\"x\"\n\"say \"\"so\"\"\"\n",
            b"# don't \"mind\nx\n# an \" alone\n1\n",
            b"x\n5\" pipe\n it is \"kept\"\n",
            b"\"\"\n\"\"\"\"",
            b"x\r\"1\"\r\"2\"\r",
            b"",
        ];
        for text in texts {
            for chunk in [1, 2, 3, 5, 100] {
                assert_eq!(read(text, chunk).as_deref(), Ok(text));
            }
        }
    }

    #[test]
    fn malformed_quotes_are_refused_with_their_line() {
        let open = "a quote is opened and never closed";
        let text = "text follows the closing quote of a field";
        let blank = "a blank stands before the opening quote of a field; leave it out";
        let cases = [
            ("x\n\"1\n", 2, open),
            ("x,y\n1,2\n3,\"4\n5,6\n7,8\n", 3, open),
            ("\"", 1, open),
            ("# c\n\nx\n\"a\nb\"\n\"1\"0\n", 6, text),
            ("x\n1\n\"1\" 0\n", 3, text),
            ("x\n\"1\"\"\n", 2, open),
            ("x,y\n1, \"north\"\n", 2, blank),
            (" \t\"x\"\n1\n", 1, blank),
        ];
        for (data, line, rule) in cases {
            for chunk in [1, 2, 3, 100] {
                assert_eq!(
                    read(data.as_bytes(), chunk),
                    Err(format!("line {line}: {rule}")),
                    "{data:?}"
                );
            }
        }
    }
}
