//! The methods that CBOpt is compared with.

pub mod adamw;
pub mod ivon;
pub mod sgd;
