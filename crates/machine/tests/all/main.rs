//! Integration tests.

mod order;
