//! Gram matrices on the card: a run is one logit of one image, whose gradient the kernels of
//! training make in `f32`; those of `gram.cu` multiply the gradients of an image with each other.
//!
//! All runs share the weights, also in the form that a network's kernels rearrange them to.

use std::sync::Arc;

use super::driver::{Buffer, Card, Launch, Stream};
use super::kernels::Source as File;
use super::memory::{Heap, Lot, Pictures, Vector};
use super::program::{Filling, Program};
use super::table::{Gram, Outcome, Plain, Run as Descriptor, Step as Entry, Visit};
use super::{start, training_program};
use crate::backend::{Job, Sample, Source, Task, Wanted};
use crate::device::Precision;
use crate::error::Result;
use crate::gram::{Answers, Request, most_probable};
use crate::network::{LayerKind, Network};

/// Side of a tile of the matrix, and parameters of a chunk, as `gram.cu` has them.
const TILE: usize = 8;
const CHUNK: usize = 64 * 256;
/// Share of the card's memory that the runs of a launch may take, in percent.
const SHARE: usize = 25;
/// Most runs of a launch: the grid has no more.
const RUNS: usize = 65_535;

/// Computes the matrices of all images on the card of this number.
pub(crate) fn run(
    ordinal: usize,
    network: &Network,
    request: &Request<'_>,
    out: &mut Answers<'_>,
) -> Result<()> {
    let (all, m) = (network.classes(), request.classes);
    let (parameters, seed) = (request.parameters, request.seed);
    let source = Source::Floats(request.images);
    let task = Task::Predict { features: None };
    let job = Job { network, task };
    let mut prediction = start(ordinal, Precision::F32, &job)?;
    let sample = Sample { parameters, seed };
    prediction.forward(&[sample], source, Wanted::Logits, out.logits)?;
    drop(prediction);
    let rows = out.logits.chunks_exact(all);
    rows.zip(out.classes.chunks_exact_mut(m))
        .for_each(|(logits, classes)| most_probable(logits, classes));
    let card = Card::open(ordinal)?;
    let count = request.images.len() / network.input_shape().len();
    let mut work = Work::new(card, &without_training_dropout(network), request, count)?;
    let each = out.classes.chunks(work.images * m);
    let each = each.zip(out.matrices.chunks_mut(work.images * m * m));
    for (i, (classes, matrices)) in each.enumerate() {
        work.matrices(request, i * work.images, classes, matrices)?;
    }
    Ok(())
}

/// The network as it predicts: dropout that does not stay on lets everything pass.
fn without_training_dropout(network: &Network) -> Network {
    let mut network = network.clone();
    for layer in &mut network.layers {
        if let LayerKind::Dropout { rate, always_on } = &mut layer.kind
            && !*always_on
        {
            *rate = 0.0;
        }
    }
    network
}

/// Memory for the runs of some images, and what they share.
struct Work {
    card: Arc<Card>,
    stream: Stream,
    program: Program,
    table: Buffer,
    /// Images of a launch.
    images: usize,
    lot: Lot,
    /// Takes the rearranged weights, for all runs.
    weights: Lot,
    inverse: Buffer,
    outcome: Buffer,
    pictures: Pictures,
    visits: Buffer,
    steps: Heap,
    runs: Heap,
    parts: Heap,
    found: Heap,
}

impl Work {
    fn new(
        card: Arc<Card>,
        network: &Network,
        request: &Request<'_>,
        count: usize,
    ) -> Result<Self> {
        let stream = Stream::new(&card)?;
        let program = training_program(network, 1, Precision::F32, card.shared, 1);
        let parameters = network.parameter_count();
        let per_image = request.classes * 4 * (program.numbers() + parameters);
        let most = (card.memory / 100 * SHARE / per_image).min(RUNS / request.classes);
        let images = count.clamp(1, most.max(1));
        let alone = Program {
            prepared: program.prepared,
            ..Program::default()
        };
        let rest = Program {
            prepared: 0,
            ..program.clone()
        };
        let weights = Lot::new(&card, &alone, parameters, 1, false)?;
        weights.upload(&stream, 0, Vector::Point, request.parameters)?;
        // unusable gradients are counted here, and nobody asks
        let outcome = Buffer::new(&card, size_of::<Outcome>())?;
        stream.clear(&outcome, size_of::<Outcome>())?;
        let mut pictures = Pictures::new(network.input_shape());
        pictures.take(&card, &stream, request.images, &[0])?;
        let visits: Vec<Visit> = (0..count as u32)
            .map(|image| Visit {
                image,
                ..Visit::default()
            })
            .collect();
        Ok(Self {
            lot: Lot::new(&card, &rest, parameters, images * request.classes, false)?,
            visits: uploaded(&card, &stream, &visits)?,
            inverse: uploaded(&card, &stream, &inverse(network, request))?,
            table: uploaded(&card, &stream, &program.table)?,
            images,
            weights,
            outcome,
            pictures,
            steps: Heap::default(),
            runs: Heap::default(),
            parts: Heap::default(),
            found: Heap::default(),
            card,
            stream,
            program,
        })
    }

    /// The matrices of some images, of which `first` is the place of the first.
    fn matrices(
        &mut self,
        request: &Request<'_>,
        first: usize,
        classes: &[u32],
        matrices: &mut [f64],
    ) -> Result<()> {
        let runs = self.gradients(request, first, classes)?;
        self.sums(request, runs, classes.len() / request.classes, matrices)
    }

    /// The gradients of these logits, one run for each, and where the table of the runs is.
    fn gradients(&mut self, request: &Request<'_>, first: usize, classes: &[u32]) -> Result<u64> {
        let m = request.classes;
        let (card, stream) = (&self.card, &self.stream);
        let entries: Vec<Entry> = classes
            .iter()
            .enumerate()
            .map(|(r, class)| Entry {
                first_visit: (first + r / m) as u32,
                first_image: (first + r / m) as u32,
                images: 1,
                logit: class + 1,
                dropout_seed: request.seed,
                ..Entry::default()
            })
            .collect();
        let steps = self.steps.put(card, stream, &entries)?;
        let shared = self.weights.run(0);
        let table: Vec<Descriptor> = (0..entries.len())
            .map(|r| {
                let run = self.lot.run(r);
                Descriptor {
                    // the one vector of a run takes its gradient
                    gradient: run.point,
                    point: shared.point,
                    prepared: shared.prepared,
                    visits: self.visits.pointer(),
                    steps: steps + (r * size_of::<Entry>()) as u64,
                    outcomes: self.outcome.pointer(),
                    ..run
                }
            })
            .collect();
        let runs = self.runs.put(card, stream, &table)?;
        let filling = Filling {
            runs,
            count: table.len(),
            images: self.pictures.images,
            table: self.table.pointer(),
        };
        for call in &self.program.calls {
            // weights are rearranged once for all
            let count = if call.prepares() { 1 } else { filling.count };
            stream.launch(&call.fill(&Filling { count, ..filling }))?;
        }
        Ok(runs)
    }

    /// The inner products of the gradients that the `runs` have, image by image.
    fn sums(
        &mut self,
        request: &Request<'_>,
        runs: u64,
        images: usize,
        matrices: &mut [f64],
    ) -> Result<()> {
        let (card, stream) = (&self.card, &self.stream);
        let (m, parameters) = (request.classes, request.parameters.len());
        let (tiles, chunks) = (m.div_ceil(TILE), parameters.div_ceil(CHUNK));
        let pairs = tiles * (tiles + 1) / 2;
        let gram = Gram {
            classes: m as i32,
            parameters: parameters as i32,
            chunks: chunks as i32,
            common: i32::from(self.inverse.bytes() == 4),
        };
        let parts = 8 * images * pairs * chunks * TILE * TILE;
        let parts = self.parts.room(card, parts)?.pointer();
        let found = self.found.room(card, size_of_val(matrices))?;
        let launch = |kernel, grid: [usize; 2], threads, shared, arguments: &[Vec<u64>]| Launch {
            source: File::Gram,
            kernel,
            grid: [grid[0] as u32, grid[1] as u32, images as u32],
            threads,
            shared,
            arguments: arguments.to_vec(),
        };
        let (gram, parts, to) = (gram.words(), vec![parts], vec![found.pointer()]);
        let inverse = vec![self.inverse.pointer()];
        let shared = (8 * 8 * TILE * TILE) as u32;
        let arguments = [vec![runs], gram.clone(), inverse, parts.clone()];
        stream.launch(&launch(
            "gram_parts",
            [chunks, pairs],
            256,
            shared,
            &arguments,
        ))?;
        let threads = (TILE * TILE) as u32;
        stream.launch(&launch(
            "gram_sum",
            [pairs, 1],
            threads,
            0,
            &[gram, parts, to],
        ))?;
        stream.download(found, 0, matrices)
    }
}

/// A buffer with these numbers.
fn uploaded<T: Plain>(card: &Arc<Card>, stream: &Stream, from: &[T]) -> Result<Buffer> {
    let buffer = Buffer::new(card, size_of_val(from))?;
    stream.upload(&buffer, 0, from)?;
    Ok(buffer)
}

/// `1/Λ` as the kernels take it: one for all, or one for each, 0 where weights cannot move.
fn inverse(network: &Network, request: &Request<'_>) -> Vec<f32> {
    let first = if request.last_layer {
        last_layer(network)
    } else {
        0
    };
    match (first, request.inverse) {
        (0, one @ [_]) => one.to_vec(),
        _ => (0..request.parameters.len())
            .map(|i| if i < first { 0.0 } else { request.inverse(i) })
            .collect(),
    }
}

/// The first parameter of the last layer that has any.
fn last_layer(network: &Network) -> usize {
    let layer = |name: &str| {
        name.rsplit_once('.')
            .map_or(String::new(), |(l, _)| l.into())
    };
    let all = network.parameters();
    let last = all.last().map(|parameter| layer(&parameter.name));
    let first = all.iter().find(|p| Some(layer(&p.name)) == last);
    first.map_or(0, |parameter| parameter.offset)
}
