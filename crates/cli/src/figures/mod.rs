//! The pictures of the theory, one file each.

pub mod families;
