//! What lies on the card: the vectors of runs, their scratch memory, and image sets, which are
//! uploaded once and shared by all that use the same images.

use std::sync::{Arc, Mutex, PoisonError};

use images::{Images as Set, Table};

use super::driver::{Buffer, Card, Stream};
use super::program::Program;
use super::table::{Images, Plain, Run};
use crate::error::Result;

/// Numbers between the vectors of a run are a multiple of this.
const ALIGNED: usize = 64;

/// The vectors of a run, as long as its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vector {
    /// Where gradients are taken, if not at the weights.
    Point,
    Gradient,
    Theta,
    Momentum,
    Curvature,
    Envelope,
    GradientMean,
    SecondMean,
}

/// Vectors that a prediction needs.
const PREDICTING: usize = 1;
/// Vectors that a training needs.
const TRAINING: usize = 8;

impl Vector {
    /// The vector of a buffer of a rule's state.
    pub fn of_state(name: &str) -> Option<Self> {
        match name {
            "momentum" => Some(Self::Momentum),
            "curvature" => Some(Self::Curvature),
            "envelope" => Some(Self::Envelope),
            "gradient_mean" => Some(Self::GradientMean),
            "second_mean" => Some(Self::SecondMean),
            _ => None,
        }
    }
}

/// Memory of runs that are at work together.
pub(super) struct Lot {
    pub runs: usize,
    parameters: usize,
    vectors_per_run: usize,
    vectors: Buffer,
    values: Buffer,
    partial: Buffer,
    prepared: Buffer,
    sizes: [usize; 3],
}

/// Numbers of a vector on the card.
fn padded(parameters: usize) -> usize {
    parameters.next_multiple_of(ALIGNED)
}

/// Bytes of one run of a training.
pub(super) fn bytes_per_run(program: &Program, parameters: usize) -> usize {
    4 * (program.numbers() + TRAINING * padded(parameters))
}

impl Lot {
    pub fn new(
        card: &Arc<Card>,
        program: &Program,
        parameters: usize,
        runs: usize,
        training: bool,
    ) -> Result<Self> {
        let vectors_per_run = if training { TRAINING } else { PREDICTING };
        let sizes = [program.values, program.partial, program.prepared]
            .map(|size| size.next_multiple_of(ALIGNED));
        let room = |numbers: usize| Buffer::new(card, 4 * runs * numbers);
        Ok(Self {
            runs,
            parameters,
            vectors_per_run,
            vectors: room(vectors_per_run * padded(parameters))?,
            values: room(sizes[0])?,
            partial: room(sizes[1])?,
            prepared: room(sizes[2])?,
            sizes,
        })
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> usize {
        let all = [&self.vectors, &self.values, &self.partial, &self.prepared];
        all.iter().map(|buffer| buffer.bytes()).sum()
    }

    fn offset(&self, run: usize, vector: Vector) -> usize {
        assert!(run < self.runs && (vector as usize) < self.vectors_per_run);
        4 * padded(self.parameters) * (run * self.vectors_per_run + vector as usize)
    }

    pub fn upload(&self, stream: &Stream, run: usize, vector: Vector, from: &[f32]) -> Result<()> {
        stream.upload(&self.vectors, self.offset(run, vector), from)
    }

    pub fn download(
        &self,
        stream: &Stream,
        run: usize,
        vector: Vector,
        to: &mut [f32],
    ) -> Result<()> {
        stream.download(&self.vectors, self.offset(run, vector), to)
    }

    /// A run whose gradients are taken at its point; visits, steps and outcomes are missing yet.
    pub fn run(&self, run: usize) -> Run {
        let vector = |vector: Vector| {
            if (vector as usize) < self.vectors_per_run {
                self.vectors.pointer() + self.offset(run, vector) as u64
            } else {
                0
            }
        };
        let scratch = |buffer: &Buffer, size: usize| buffer.pointer() + (4 * run * size) as u64;
        Run {
            theta: vector(Vector::Theta),
            point: vector(Vector::Point),
            gradient: vector(Vector::Gradient),
            momentum: vector(Vector::Momentum),
            curvature: vector(Vector::Curvature),
            envelope: vector(Vector::Envelope),
            values: scratch(&self.values, self.sizes[0]),
            partial: scratch(&self.partial, self.sizes[1]),
            prepared: scratch(&self.prepared, self.sizes[2]),
            gradient_mean: vector(Vector::GradientMean),
            second_mean: vector(Vector::SecondMean),
            parameters: self.parameters as u32,
            ..Run::default()
        }
    }
}

/// Memory that grows with what is put there.
#[derive(Default)]
pub(super) struct Heap(Option<Buffer>);

impl Heap {
    /// Room for so many bytes; what was there is lost if it has to grow. The stream must be done
    /// with it.
    pub fn room(&mut self, card: &Arc<Card>, bytes: usize) -> Result<&Buffer> {
        if self.0.as_ref().is_none_or(|buffer| buffer.bytes() < bytes) {
            self.0 = None;
            return Ok(self.0.insert(Buffer::new(card, bytes.next_power_of_two())?));
        }
        Ok(self.0.as_ref().expect("it has room"))
    }

    /// Puts numbers there and gives their address.
    pub fn put<T: Plain>(&mut self, card: &Arc<Card>, stream: &Stream, from: &[T]) -> Result<u64> {
        let buffer = self.room(card, size_of_val(from))?;
        stream.upload(buffer, 0, from)?;
        Ok(buffer.pointer())
    }
}

/// Sets that stay on the card, at most so many.
const KEPT_SETS: usize = 8;

/// An image set on the card.
pub(super) struct Kept {
    id: u64,
    pixels: Buffer,
    labels: Buffer,
}

/// The sets of one card, the latest last.
#[derive(Default)]
pub(crate) struct Sets(Mutex<Vec<Arc<Kept>>>);

impl Sets {
    /// The set, uploaded unless it is there.
    pub fn get(&self, card: &Arc<Card>, stream: &Stream, set: &Set) -> Result<Arc<Kept>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = all.iter().position(|kept| kept.id == set.id()) {
            let kept = all.remove(at);
            all.push(Arc::clone(&kept));
            return Ok(kept);
        }
        if all.len() >= KEPT_SETS {
            all.remove(0);
        }
        let kept = Kept {
            id: set.id(),
            pixels: Buffer::new(card, set.pixels().len())?,
            labels: Buffer::new(card, 4 * set.labels().len())?,
        };
        stream.upload(&kept.pixels, 0, set.pixels())?;
        stream.upload(&kept.labels, 0, set.labels())?;
        // another stream may read it next
        stream.wait()?;
        let kept = Arc::new(kept);
        all.push(Arc::clone(&kept));
        Ok(kept)
    }
}

/// Images as kernels see them, and what keeps them there.
pub(super) struct Pictures {
    pub images: Images,
    tables: Heap,
    floats: [Heap; 2],
    kept: Option<Arc<Kept>>,
    /// What is there now: the set and its tables.
    holding: Option<(u64, Vec<Table>)>,
}

impl Pictures {
    pub fn new(shape: images::Shape) -> Self {
        Self {
            images: Images {
                channels: shape.channels as i32,
                height: shape.height as i32,
                width: shape.width as i32,
                ..Images::default()
            },
            tables: Heap::default(),
            floats: Default::default(),
            kept: None,
            holding: None,
        }
    }

    /// Byte images and their tables; whether anything has changed.
    pub fn hold(
        &mut self,
        card: &Arc<Card>,
        stream: &Stream,
        set: &Set,
        tables: &[Table],
    ) -> Result<bool> {
        let there = self.holding.as_ref();
        if there.is_some_and(|(id, held)| *id == set.id() && held == tables) {
            return Ok(false);
        }
        self.holding = None;
        let kept = card.sets.get(card, stream, set)?;
        let flat: Vec<f32> = tables.iter().flatten().copied().collect();
        self.images.tables = self.tables.put(card, stream, &flat)?;
        self.images.ready = 0;
        self.images.pixels = kept.pixels.pointer();
        self.images.labels = kept.labels.pointer();
        self.kept = Some(kept);
        self.holding = Some((set.id(), tables.to_vec()));
        Ok(true)
    }

    /// Images of the host in `f32`, with labels or without.
    pub fn take(
        &mut self,
        card: &Arc<Card>,
        stream: &Stream,
        values: &[f32],
        labels: &[u32],
    ) -> Result<()> {
        self.holding = None;
        self.images.ready = self.floats[0].put(card, stream, values)?;
        self.images.labels = self.floats[1].put(card, stream, labels)?;
        Ok(())
    }
}
