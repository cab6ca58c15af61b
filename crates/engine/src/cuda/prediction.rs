//! Predictions on the card: many sets of weights and many images in one launch, by the kernels of
//! the network where it has its own, else layer by layer.

use std::sync::Arc;

use cbopt::Executor;

use super::driver::{Card, Stream};
use super::kernels::Source as File;
use super::memory::{Heap, Lot, Pictures, Vector};
use super::predicting_program;
use super::program::{Argument, BLOCK, Call, Filling, Place, Program};
use super::table::{Rows, Run as Descriptor, Step as Entry, Visit};
use crate::backend::{Backend, BatchResult, Sample, Source, Wanted};
use crate::device::Precision;
use crate::error::Result;
use crate::network::{Network, Value};

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
/// Sets of weights that are worth handing over at once: enough to fill the card.
const HANDED: usize = 16;

/// A forward pass on the card.
pub(super) struct Prediction {
    card: Arc<Card>,
    stream: Stream,
    network: Network,
    features: Option<Value>,
    precision: Precision,
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
    table: Heap,
    /// The result: rows, or loss and hits of every sample.
    rows: Heap,
    labels: Heap,
    scores: Heap,
    parameters: usize,
    image: usize,
}

impl Prediction {
    /// `features` are those that are asked for, or the input of the last layer.
    pub fn new(
        card: Arc<Card>,
        network: &Network,
        features: Option<Value>,
        precision: Precision,
    ) -> Result<Self> {
        let stream = Stream::new(&card)?;
        let program = predicting_program(network, features, FEWEST, precision, card.shared);
        let per_image = 4 * program.values / FEWEST;
        let shape = network.input_shape();
        Ok(Self {
            network: network.clone(),
            features,
            precision,
            most: (PER_SAMPLE / per_image).clamp(FEWEST, IMAGES),
            program: Program::default(),
            batch: 0,
            lot: None,
            pictures: Pictures::new(shape),
            runs: Heap::default(),
            visits: Heap::default(),
            steps: Heap::default(),
            table: Heap::default(),
            rows: Heap::default(),
            labels: Heap::default(),
            scores: Heap::default(),
            parameters: network.parameter_count(),
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
            self.program = predicting_program(
                &self.network,
                self.features,
                batch,
                self.precision,
                self.card.shared,
            );
            self.table
                .put(&self.card, &self.stream, &self.program.table)?;
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

    /// Where the images are and how they are visited, as the kernels want it; how many there are.
    fn show(&mut self, source: Source<'_>) -> Result<(u64, usize)> {
        let total = source.count(self.image);
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
        Ok((self.visits.put(card, stream, &shown)?, total))
    }

    /// Some sets of weights on all images; `shown` is the address of the visits, `last` what is
    /// done with the values of every launch, once or for each set.
    fn predict(
        &mut self,
        samples: &[Sample<'_>],
        (shown, total): (u64, usize),
        (last, for_each): (&Call, bool),
    ) -> Result<()> {
        let (card, stream) = (&self.card, &self.stream);
        let lot = self.lot.as_ref().expect("there is room");
        let launches = total.div_ceil(self.batch);
        let (mut entries, mut points) = (Vec::new(), Vec::new());
        for (r, sample) in samples.iter().enumerate() {
            // the same weights under other masks are there already
            let same = |other: &Sample<'_>| std::ptr::eq(other.parameters, sample.parameters);
            let first = samples[..r].iter().position(same);
            if first.is_none() {
                lot.upload(stream, r, Vector::Point, sample.parameters)?;
            }
            points.push(lot.run(first.unwrap_or(r)).point);
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
            for (r, point) in points.iter().enumerate() {
                table.push(Descriptor {
                    point: *point,
                    visits: shown,
                    steps: steps + (r * launches * size_of::<Entry>()) as u64,
                    step: launch as u32,
                    ..lot.run(r)
                });
            }
        }
        let runs = self.runs.put(card, stream, &table)?;
        let per_launch = samples.len() * size_of::<Descriptor>();
        for launch in 0..launches {
            let filling = Filling {
                runs: runs + (launch * per_launch) as u64,
                count: samples.len(),
                images: self.pictures.images,
                table: self.table.room(card, 0)?.pointer(),
            };
            for call in &self.program.calls {
                stream.launch(&call.fill(&filling))?;
            }
            let count = if for_each { samples.len() } else { 1 };
            stream.launch(&last.fill(&Filling { count, ..filling }))?;
        }
        // tables and weights are written anew by whoever comes next
        stream.wait()
    }

    /// All sets of weights, as many at a time as there is room for; `last` is given how many.
    fn predict_all(
        &mut self,
        samples: &[Sample<'_>],
        shown: (u64, usize),
        last: impl Fn(&Self, usize) -> Call,
    ) -> Result<()> {
        let together = self.make_room(shown.1, samples.len())?;
        for samples in samples.chunks(together) {
            let last = last(self, samples.len());
            self.predict(samples, shown, (&last, false))?;
        }
        Ok(())
    }

    /// The call that brings rows where they are wanted.
    fn deliver(&self, kernel: &'static str, wanted: Wanted, samples: usize, out: u64) -> Call {
        let place = self.place(wanted);
        let (grid, threads, share) = match wanted {
            Wanted::Probabilities { share } => ([self.batch, 1], 32, share),
            _ => ([place.width.div_ceil(BLOCK), self.batch], BLOCK, 0.0),
        };
        let rows = Rows {
            samples: samples as i32,
            share,
            ..rows(place)
        };
        let arguments = vec![Argument::Runs, rows.into(), out.into()];
        File::Layers.call(kernel, grid, threads, 0, arguments)
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
        let shown = self.show(source)?;
        if shown.1 == 0 || samples.is_empty() {
            return Ok(());
        }
        // sums of all samples, or the rows of the last one
        let (samples, kernel) = match wanted {
            Wanted::Probabilities { .. } => (samples, "mix_probabilities"),
            _ => (&samples[samples.len() - 1..], "deliver"),
        };
        let rows = self.rows.room(&self.card, size_of_val(out))?;
        self.stream.clear(rows, size_of_val(out))?;
        let at = rows.pointer();
        self.predict_all(samples, shown, |this, count| {
            this.deliver(kernel, wanted, count, at)
        })?;
        assert_eq!(out.len(), shown.1 * self.place(wanted).width, "rows");
        let rows = self.rows.room(&self.card, 0)?;
        self.stream.download(rows, 0, out)
    }

    fn add_probabilities(
        &mut self,
        samples: &[Sample<'_>],
        source: Source<'_>,
        sums: &mut [f64],
    ) -> Result<()> {
        let shown = self.show(source)?;
        if shown.1 == 0 || samples.is_empty() {
            return Ok(());
        }
        let at = self.rows.put(&self.card, &self.stream, sums)?;
        let wanted = Wanted::Probabilities { share: 1.0 };
        self.predict_all(samples, shown, |this, count| {
            this.deliver("sum_probabilities", wanted, count, at)
        })?;
        assert_eq!(sums.len(), shown.1 * self.place(wanted).width, "rows");
        let rows = self.rows.room(&self.card, 0)?;
        self.stream.download(rows, 0, sums)
    }

    fn losses(
        &mut self,
        samples: &[Sample<'_>],
        source: Source<'_>,
        labels: &[u32],
        _classes: usize,
    ) -> Result<Vec<BatchResult>> {
        let shown = self.show(source)?;
        let total = shown.1;
        assert_eq!(labels.len(), total, "a label per image");
        if total == 0 || samples.is_empty() {
            return Ok(vec![BatchResult::default(); samples.len()]);
        }
        let labels = self.labels.put(&self.card, &self.stream, labels)?;
        let together = self.make_room(total, samples.len())?;
        let bytes = together * total * size_of::<[f64; 2]>();
        let scores = self.scores.room(&self.card, bytes)?.pointer();
        let bytes = samples.len() * size_of::<[f64; 2]>();
        let sums = self.rows.room(&self.card, bytes)?.pointer();
        let rows = rows(self.place(Wanted::Logits));
        let count = total as i32;
        let of_images = vec![
            Argument::Runs,
            rows.into(),
            labels.into(),
            count.into(),
            scores.into(),
        ];
        let of_images = File::Layers.call("score", [self.batch, 1], 32, 0, of_images);
        for (chunk, samples) in samples.chunks(together).enumerate() {
            self.predict(samples, shown, (&of_images, true))?;
            let out = sums + (chunk * together * size_of::<[f64; 2]>()) as u64;
            let add = vec![scores.into(), count.into(), out.into()];
            let add = File::Layers.call("sum_scores", [1, 1], BLOCK, 128, add);
            let filling = Filling {
                runs: 0,
                count: samples.len(),
                images: self.pictures.images,
                table: 0,
            };
            self.stream.launch(&add.fill(&filling))?;
        }
        let mut found = vec![0.0f64; 2 * samples.len()];
        let sums = self.rows.room(&self.card, 0)?;
        self.stream.download(sums, 0, &mut found)?;
        let result = |pair: &[f64]| BatchResult {
            loss: pair[0],
            correct: pair[1] as usize,
        };
        Ok(found.chunks(2).map(result).collect())
    }

    fn samples_together(&self) -> usize {
        HANDED
    }

    fn executor(&self) -> Executor {
        Executor::single()
    }

    fn bytes(&self) -> usize {
        self.lot.as_ref().map_or(0, Lot::bytes)
    }
}

/// Where rows are, for the kernels.
fn rows(place: Place) -> Rows {
    Rows {
        width: place.width as i32,
        stride: place.stride as i32,
        from: place.at,
        ..Rows::default()
    }
}
