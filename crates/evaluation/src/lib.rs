//! Metrics of predictions, in-domain and out-of-domain, and the record of a run.
//!
//! - [`results`]: what an evaluation gives, with the conventions it was made by.
//! - [`record`]: the run record, one versioned JSON file that everything downstream reads.

pub mod number;
pub mod record;
pub mod results;
