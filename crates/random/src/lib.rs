//! Counter-based randomness: Philox, SplitMix and named streams.
