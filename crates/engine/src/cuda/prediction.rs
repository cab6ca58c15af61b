//! Predictions on the card: many sets of weights and many images in one launch, layer by layer.

use std::sync::Arc;

use cbopt::Executor;

use super::driver::{Card, Stream};
use super::kernels::Source as File;
use super::layers;
use super::memory::{Heap, Lot, Pictures, Vector};
use super::program::{Argument, BLOCK, Call, Filling, Place, Program};
use super::table::{Rows, Run as Descriptor, Step as Entry, Visit};
use crate::backend::{Backend, BatchResult, Job, Sample, Source, Wanted};
use crate::device::Precision;
use crate::error::Result;
use crate::plan::Plan;

/// Most images of a launch.
const IMAGES: usize = 1024;
/// Fewest images of a launch.
const FEWEST: usize = 16;
/// Bytes of values that one set of weights may take.
const PER_SAMPLE: usize = 256 << 20;
/// Bytes of values that all sets of a launch may take.
const TOGETHER: usize = 2 << 30;
/// Most sets of weights of a launch.
const SAMPLES: usize = 64;

/// A forward pass on the card.
pub(super) struct Prediction {
    card: Arc<Card>,
    stream: Stream,
    plan: Plan,
    tf32: bool,
    /// Most images of a launch.
    most: usize,
    program: Program,
    /// Images of a launch of the program.
    batch: usize,
    lot: Option<Lot>,
    pictures: Pictures,
    runs: Heap,
    visits: Heap,
    steps: Heap,
    /// The result.
    rows: Heap,
    parameters: usize,
    image: usize,
}

impl Prediction {
    pub fn new(card: Arc<Card>, job: &Job<'_>, precision: Precision) -> Result<Self> {
        let stream = Stream::new(&card)?;
        let plan = job.plan();
        let tf32 = precision == Precision::Tf32;
        let per_image = 4 * layers::program(&plan, 1, tf32).values;
        let shape = job.network.input_shape();
        Ok(Self {
            plan,
            tf32,
            most: (PER_SAMPLE / per_image).clamp(FEWEST, IMAGES),
            program: Program::default(),
            batch: 0,
            lot: None,
            pictures: Pictures::new(shape),
            runs: Heap::default(),
            visits: Heap::default(),
            steps: Heap::default(),
            rows: Heap::default(),
            parameters: job.network.parameter_count(),
            image: shape.len(),
            card,
            stream,
        })
    }

    /// Memory for so many images and sets of weights, or as many as fit.
    fn make_room(&mut self, images: usize, samples: usize) -> Result<usize> {
        let batch = images.next_power_of_two().clamp(FEWEST, self.most);
        if batch != self.batch {
            self.lot = None;
            self.batch = batch;
            self.program = layers::program(&self.plan, batch, self.tf32);
        }
        let most = (TOGETHER / (4 * self.program.values)).clamp(1, SAMPLES);
        let samples = samples.min(most);
        if self.lot.as_ref().is_none_or(|lot| lot.runs < samples) {
            self.lot = None;
            let lot = Lot::new(&self.card, &self.program, self.parameters, samples, false)?;
            self.lot = Some(lot);
        }
        Ok(samples)
    }

    /// Some sets of weights on all images; `shown` is the address of the visits, `out` that of the
    /// rows.
    fn predict(
        &mut self,
        samples: &[Sample<'_>],
        (shown, total): (u64, usize),
        wanted: Wanted,
        out: u64,
    ) -> Result<()> {
        let (card, stream) = (&self.card, &self.stream);
        let lot = self.lot.as_ref().expect("there is room");
        let launches = total.div_ceil(self.batch);
        let mut entries = Vec::new();
        for (r, sample) in samples.iter().enumerate() {
            lot.upload(stream, r, Vector::Point, sample.parameters)?;
            entries.extend((0..launches).map(|launch| {
                let first = launch * self.batch;
                Entry {
                    first_visit: first as u32,
                    images: self.batch.min(total - first) as u32,
                    first_image: first as u32,
                    dropout_seed: sample.seed,
                    ..Entry::default()
                }
            }));
        }
        let steps = self.steps.put(card, stream, &entries)?;
        let mut table = Vec::new();
        for launch in 0..launches {
            for r in 0..samples.len() {
                table.push(Descriptor {
                    visits: shown,
                    steps: steps + (r * launches * size_of::<Entry>()) as u64,
                    step: launch as u32,
                    ..lot.run(r)
                });
            }
        }
        let runs = self.runs.put(card, stream, &table)?;
        let per_launch = samples.len() * size_of::<Descriptor>();
        let last = self.deliver(samples.len(), wanted, out);
        for launch in 0..launches {
            let filling = Filling {
                runs: runs + (launch * per_launch) as u64,
                count: samples.len(),
                images: self.pictures.images,
                table: 0,
            };
            for call in &self.program.calls {
                stream.launch(&call.fill(&filling))?;
            }
            let once = Filling {
                count: 1,
                ..filling
            };
            stream.launch(&last.fill(&once))?;
        }
        // tables and weights are written anew by whoever comes next
        stream.wait()
    }

    /// The call that brings the result to its rows.
    fn deliver(&self, samples: usize, wanted: Wanted, out: u64) -> Call {
        let Place { at, stride, width } = self.place(wanted);
        let (kernel, grid, threads, share) = match wanted {
            Wanted::Probabilities { share } => ("mix_probabilities", [self.batch, 1], 32, share),
            _ => ("deliver", [width.div_ceil(BLOCK), self.batch], BLOCK, 0.0),
        };
        let rows = Rows {
            width: width as i32,
            stride: stride as i32,
            samples: samples as i32,
            share,
            from: at,
        };
        Call {
            source: File::Layers,
            kernel,
            grid,
            threads,
            shared: 0,
            arguments: vec![Argument::Runs, rows.into(), out.into()],
        }
    }

    fn place(&self, wanted: Wanted) -> Place {
        match wanted {
            Wanted::Features => self.program.features,
            _ => self.program.logits,
        }
    }
}

impl Backend for Prediction {
    fn gradient(
        &mut self,
        _parameters: &[f32],
        _source: Source<'_>,
        _labels: &[u32],
        _seed: u64,
        _gradient: &mut [f32],
    ) -> Result<BatchResult> {
        unreachable!("gradients have a backend of their own")
    }

    fn forward(
        &mut self,
        samples: &[Sample<'_>],
        source: Source<'_>,
        wanted: Wanted,
        out: &mut [f32],
    ) -> Result<()> {
        let total = source.count(self.image);
        if total == 0 {
            return Ok(());
        }
        let together = self.make_room(total, samples.len())?;
        let width = self.place(wanted).width;
        assert_eq!(out.len(), total * width, "rows of the result");
        let (card, stream) = (&self.card, &self.stream);
        let shown: Vec<Visit> = match source {
            Source::Floats(values) => {
                self.pictures.take(card, stream, values, &[0])?;
                (0..total as u32)
                    .map(|image| Visit {
                        image,
                        ..Visit::default()
                    })
                    .collect()
            }
            Source::Bytes {
                images,
                tables,
                visits,
            } => {
                self.pictures.hold(card, stream, images, tables)?;
                visits.iter().map(Visit::from).collect()
            }
        };
        let shown = self.visits.put(card, stream, &shown)?;
        // sums of all samples, or the rows of the last one
        let samples = match wanted {
            Wanted::Probabilities { .. } => samples,
            _ => &samples[samples.len().saturating_sub(1)..],
        };
        let rows = self.rows.room(card, size_of_val(out))?;
        stream.clear(rows, size_of_val(out))?;
        let rows = rows.pointer();
        for samples in samples.chunks(together) {
            self.predict(samples, (shown, total), wanted, rows)?;
        }
        let rows = self.rows.room(&self.card, size_of_val(out))?;
        self.stream.download(rows, 0, out)
    }

    fn executor(&self) -> Executor {
        Executor::single()
    }

    fn bytes(&self) -> usize {
        self.lot.as_ref().map_or(0, Lot::bytes)
    }
}
