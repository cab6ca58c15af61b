//! Records of runs in, one self-contained HTML file out.

pub mod paper;
