//! What the card is asked to do for one gradient or one forward pass: calls of kernels, with holes
//! for what is known later, and the memory that they take.

use super::driver::Launch;
use super::kernels::Source;
use super::table::Plain;

/// Threads of a block that works on single numbers.
pub(super) const BLOCK: usize = 256;

/// An argument of a kernel.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Argument {
    /// The table of runs.
    Runs,
    /// The images.
    Images,
    /// The program's own table, from this byte on.
    Table(usize),
    /// These words.
    Words(Vec<u64>),
}

impl<T: Plain> From<T> for Argument {
    fn from(value: T) -> Self {
        Self::Words(value.words())
    }
}

/// A kernel with its arguments; the third dimension of the grid is the run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub source: Source,
    pub kernel: &'static str,
    pub grid: [usize; 2],
    pub threads: usize,
    pub shared: usize,
    pub arguments: Vec<Argument>,
}

impl Source {
    /// A call of a kernel of this file.
    pub(super) fn call(
        self,
        kernel: &'static str,
        grid: [usize; 2],
        threads: usize,
        shared: usize,
        arguments: impl Into<Vec<Argument>>,
    ) -> Call {
        Call {
            source: self,
            kernel,
            grid,
            threads,
            shared,
            arguments: arguments.into(),
        }
    }
}

/// What the holes of calls are filled with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filling {
    pub runs: u64,
    pub count: usize,
    pub images: super::table::Images,
    pub table: u64,
}

impl Call {
    /// Whether it does nothing but rearrange weights.
    pub fn prepares(&self) -> bool {
        self.kernel.starts_with("prepare_") || self.kernel.starts_with("dense_prepare_")
    }

    pub fn fill(&self, filling: &Filling) -> Launch {
        let words = |argument: &Argument| match argument {
            Argument::Runs => vec![filling.runs],
            Argument::Images => filling.images.words(),
            Argument::Table(at) => vec![filling.table + *at as u64],
            Argument::Words(words) => words.clone(),
        };
        let [x, y] = self.grid.map(|size| size as u32);
        Launch {
            source: self.source,
            kernel: self.kernel,
            grid: [x, y, filling.count as u32],
            threads: self.threads as u32,
            shared: self.shared as u32,
            arguments: self.arguments.iter().map(words).collect(),
        }
    }
}

/// Rows of numbers, one per image: where the first begins and how far the next one is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Place {
    pub at: i64,
    pub stride: usize,
    pub width: usize,
}

/// A network on the card.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Program {
    pub calls: Vec<Call>,
    /// Numbers of a run: values and their gradients, partial sums, rearranged weights.
    pub values: usize,
    pub partial: usize,
    pub prepared: usize,
    /// The table that calls ask for.
    pub table: Vec<u64>,
    /// Where loss and hits of every image are.
    pub loss: i64,
    pub correct: i64,
    /// Where logits and features are after a forward pass.
    pub logits: Place,
    pub features: Place,
}

impl Program {
    /// Numbers that a run takes, beside weights and state.
    pub fn numbers(&self) -> usize {
        self.values + self.partial + self.prepared
    }
}
