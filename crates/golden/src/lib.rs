//! Reads golden files; for tests only.
#![forbid(unsafe_code)]
