//! Reads golden files; for tests only.
