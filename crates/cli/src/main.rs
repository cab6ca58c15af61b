//! The `maxitive` command; see the library of the same name.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    maxitive::main()
}
