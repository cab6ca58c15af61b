//! A coin: what five tosses say of its probability of heads, if it was believed to be about fair
//! before.
//!
//! ```text
//! cargo run -p possibility --example coin
//! ```
#![allow(clippy::print_stdout, reason = "a program")]

use possibility::prelude::*;

fn main() -> possibility::Result<()> {
    let tosses = [true, true, false, true, true];
    // the belief is worth two tosses
    let p = Bernoulli.prior(0.5, 2.0)?.observe(&tosses)?;

    println!("mode {:?}", p.mode());
    println!("0.05-cut {}", p.cut(0.05)?);
    println!("possibility of p >= 0.5: {}", p.possibility_of(0.5..)?);
    println!("necessity of p >= 0.5: {}", p.necessity_of(0.5..)?);
    println!("possibility of p <= 0.3: {}", p.possibility_of(..=0.3)?);
    Ok(())
}
