//! The machine: instruction sets, their dispatch, workers, large pages.
