//! Counter-based randomness: Philox, SplitMix and named streams.
#![forbid(unsafe_code)]
