//! Runs of one network on the card, in lock step: a stretch of steps is uploaded as tables, made by
//! launches that read them, and what came of it is downloaded.

use std::ops::Range;
use std::sync::Arc;

use cbopt::{Executor, StepReport};

use super::driver::{Buffer, Card, Graph, Launch, Stream};
use super::kernels::Source as File;
use super::memory::{Heap, Lot, Pictures, Vector};
use super::program::{Argument, BLOCK, Call, Filling, Program};
use super::rules;
use super::table::{Outcome, Run as Descriptor, Step as Entry, Visit};
use crate::backend::{Backend, BatchResult, Job, Sample, Source, Wanted};
use crate::error::Result;
use crate::trainer::{BatchLoss, Held, Run, Stretch, Stretched, TrainStep, in_turn};

/// Launches of a graph, roughly.
const GRAPH: usize = 512;
/// Most steps of a graph.
const GRAPH_STEPS: usize = 32;

/// From so many runs on they are launched in two chains.
const TWO_CHAINS: usize = 4;

/// Runs that are launched together, after each other's kernels; another chain of them fills the
/// multiprocessors that the last blocks of a kernel leave idle.
struct Chain {
    /// None is that of the training itself.
    stream: Option<Stream>,
    runs: Range<usize>,
    /// Dozens of steps on the images that are held.
    graph: Option<Graph>,
}

impl Chain {
    fn all(card: &Arc<Card>, runs: usize) -> Result<Vec<Self>> {
        let second = if runs < TWO_CHAINS { runs } else { runs / 2 };
        let mut chains = vec![Self {
            stream: None,
            runs: 0..second,
            graph: None,
        }];
        if second < runs {
            chains.push(Self {
                stream: Some(Stream::new(card)?),
                runs: second..runs,
                graph: None,
            });
        }
        Ok(chains)
    }
}

/// A training on the card.
pub(super) struct Training {
    card: Arc<Card>,
    stream: Stream,
    program: Program,
    table: Buffer,
    lot: Lot,
    pictures: Pictures,
    /// Images that the host hands over itself.
    given: Pictures,
    runs: Heap,
    visits: Heap,
    steps: Heap,
    outcomes: Heap,
    chains: Vec<Chain>,
    /// Whether an unusable gradient stops its run, which is all that the kernels can do.
    refuses: bool,
    parameters: usize,
    image: usize,
}

/// The gradients of one run's stretch.
struct Lane {
    entries: Vec<Entry>,
    /// Gradients per step.
    samples: usize,
    /// The learning rate that ends the stretch early because no rule takes it.
    refused: Option<f64>,
}

impl Training {
    pub fn new(
        card: Arc<Card>,
        program: Program,
        job: &Job<'_>,
        runs: usize,
        refuses: bool,
    ) -> Result<Self> {
        let stream = Stream::new(&card)?;
        let parameters = job.network.parameter_count();
        let table = Buffer::new(&card, 8 * program.table.len())?;
        stream.upload(&table, 0, &program.table)?;
        let shape = job.network.input_shape();
        Ok(Self {
            lot: Lot::new(&card, &program, parameters, runs, true)?,
            pictures: Pictures::new(shape),
            given: Pictures::new(shape),
            runs: Heap::default(),
            visits: Heap::default(),
            steps: Heap::default(),
            outcomes: Heap::default(),
            chains: Chain::all(&card, runs)?,
            refuses,
            parameters,
            image: shape.len(),
            card,
            stream,
            program,
            table,
        })
    }

    /// The launches of one gradient of `count` runs, whose table is at `runs`; with the update, or
    /// without.
    fn launches(
        &self,
        runs: u64,
        count: usize,
        pictures: &Pictures,
        (perturbs, updates): (bool, bool),
    ) -> Vec<Launch> {
        let filling = Filling {
            runs,
            count,
            images: pictures.images,
            table: self.table.pointer(),
        };
        let rule = |kernel, blocks, threads, more: Vec<Argument>| Call {
            source: File::Rules,
            kernel,
            grid: [blocks, 1],
            threads,
            shared: 0,
            arguments: [vec![Argument::Runs], more].concat(),
        };
        let blocks = self.parameters.div_ceil(BLOCK);
        let perturb = perturbs.then(|| rule("perturb", blocks, BLOCK, vec![]));
        let update = updates.then(|| rule("update", blocks, BLOCK, vec![]));
        let (loss, correct) = (self.program.loss, self.program.correct);
        let tick = rule("tick", 1, 32, vec![loss.into(), correct.into()]);
        let calls = perturb.iter().chain(&self.program.calls).chain(&update);
        calls
            .chain([&tick])
            .map(|call| call.fill(&filling))
            .collect()
    }

    /// Brings weights and state of a run to the card, unless they are there.
    fn bring(&self, number: usize, run: &mut Run) -> Result<()> {
        if run.on_device {
            return Ok(());
        }
        let upload = |vector, from: &[f32]| self.lot.upload(&self.stream, number, vector, from);
        upload(Vector::Theta, &run.parameters)?;
        for (name, buffer) in run.optimizer.state().buffers() {
            if let Some(vector) = Vector::of_state(name) {
                upload(vector, buffer)?;
            }
        }
        run.on_device = true;
        Ok(())
    }

    /// Takes over what the card has made of a run: so many gradients, and whether the next one was
    /// unusable.
    fn take(
        &self,
        number: usize,
        run: &mut Run,
        lane: &Lane,
        (made, stopped): (usize, bool),
        outcomes: &[Outcome],
    ) -> Result<Stretched> {
        let steps = made / lane.samples;
        let first = run.optimizer.state().steps();
        let mut stretched = Stretched::default();
        for (i, outcomes) in outcomes.chunks(lane.samples).take(steps).enumerate() {
            let images = lane.entries[i * lane.samples].images as usize;
            let report = &outcomes[lane.samples - 1];
            let (mut loss, mut correct) = (0.0, 0);
            for outcome in outcomes {
                loss += outcome.loss / images as f64 / lane.samples as f64;
                correct += outcome.correct as usize;
            }
            stretched.steps.push(TrainStep {
                batch: BatchLoss {
                    loss,
                    correct: correct / lane.samples,
                    images,
                },
                report: StepReport {
                    step: first + i as u64 + 1,
                    coordinates: self.parameters as u64,
                    floored: report.floored.into(),
                    gap_not_positive: report.gap_not_positive.into(),
                    clipped: report.clipped.into(),
                    overflowed: report.overflowed.into(),
                    ..StepReport::default()
                },
            });
        }
        run.optimizer.adopt(steps as u64, |_, _| {});
        run.on_host = false;
        run.draws += (made + usize::from(stopped)) as u64;
        if stopped {
            let mut gradient = vec![0.0; self.parameters];
            self.lot
                .download(&self.stream, number, Vector::Gradient, &mut gradient)?;
            stretched.stopped = run.optimizer.refusal(&gradient);
            assert!(stretched.stopped.is_some(), "the card stops for a reason");
        } else if let Some(lr) = lane.refused {
            stretched.stopped = run.optimizer.step(lr, &mut run.parameters).err();
        }
        Ok(stretched)
    }

    /// Launches `count` gradients of all runs, most of them as graphs.
    fn replay(&mut self, runs: u64, count: usize, perturbs: bool) -> Result<()> {
        let mut chains = std::mem::take(&mut self.chains);
        let done = self.launch(&mut chains, runs, count, perturbs);
        self.chains = chains;
        done
    }

    fn launch(&self, chains: &mut [Chain], runs: u64, count: usize, perturbs: bool) -> Result<()> {
        if chains.len() > 1 {
            // other streams do not know what this one has brought
            self.stream.wait()?;
        }
        for chain in &mut *chains {
            let stream = chain.stream.as_ref().unwrap_or(&self.stream);
            let first = runs + (chain.runs.start * size_of::<Descriptor>()) as u64;
            let launches = self.launches(first, chain.runs.len(), &self.pictures, (perturbs, true));
            let together = (GRAPH / launches.len()).clamp(1, GRAPH_STEPS);
            if count >= together && chain.graph.is_none() {
                chain.graph = Some(stream.capture(&launches, together)?);
            }
            if let Some(graph) = &chain.graph {
                for _ in 0..count / together {
                    stream.replay(graph)?;
                }
            }
            for launch in (0..count % together).flat_map(|_| &launches) {
                stream.launch(launch)?;
            }
        }
        chains
            .iter()
            .filter_map(|chain| chain.stream.as_ref())
            .try_for_each(Stream::wait)
    }
}

/// The gradients of a stretch; none if the kernels do not have the rule.
fn lane(run: &Run, stretch: &Stretch<'_>) -> Option<Lane> {
    let rule = run.optimizer.rule();
    let samples = run.optimizer.samples();
    rules::number(rule)?;
    let mut lane = Lane {
        entries: Vec::new(),
        samples: samples as usize,
        refused: None,
    };
    let (mut visit, mut number) = (0, run.optimizer.state().steps());
    for step in stretch.steps {
        if !(step.lr >= 0.0 && step.lr.is_finite()) {
            lane.refused = Some(step.lr);
            break;
        }
        number += 1;
        for sample in 0..samples {
            lane.entries.push(Entry {
                first_visit: visit,
                images: step.images,
                sample,
                noise_step: number,
                dropout_seed: run.masks_of(run.draws + lane.entries.len() as u64),
                constants: rules::constants(rule, step.lr, number, sample)?,
                ..Entry::default()
            });
        }
        visit += step.images;
    }
    Some(lane)
}

impl Backend for Training {
    fn gradient(
        &mut self,
        parameters: &[f32],
        source: Source<'_>,
        labels: &[u32],
        seed: u64,
        gradient: &mut [f32],
    ) -> Result<BatchResult> {
        assert_eq!(source.count(self.image), labels.len(), "a label per image");
        assert_eq!(parameters.len(), self.parameters, "parameters");
        let (card, stream) = (&self.card, &self.stream);
        let mut shown: Vec<Visit> = Vec::new();
        match source {
            Source::Floats(values) => {
                self.given.take(card, stream, values, labels)?;
                shown.extend((0..labels.len() as u32).map(|image| Visit {
                    image,
                    ..Visit::default()
                }));
            }
            Source::Bytes {
                images,
                tables,
                visits,
            } => {
                self.given.hold(card, stream, images, tables)?;
                shown.extend(visits.iter().map(Visit::from));
            }
        }
        let steps = [
            Entry {
                images: labels.len() as u32,
                dropout_seed: seed,
                ..Entry::default()
            },
            Entry::default(),
        ];
        let outcomes = self.outcomes.put(card, stream, &[Outcome::default()])?;
        let descriptor = Descriptor {
            visits: self.visits.put(card, stream, &shown)?,
            steps: self.steps.put(card, stream, &steps)?,
            outcomes,
            ..self.lot.run(0)
        };
        self.lot.upload(stream, 0, Vector::Point, parameters)?;
        let runs = self.runs.put(card, stream, &[descriptor])?;
        for launch in self.launches(runs, 1, &self.given, (false, false)) {
            self.stream.launch(&launch)?;
        }
        self.lot
            .download(&self.stream, 0, Vector::Gradient, gradient)?;
        let mut outcome = [Outcome::default()];
        let place = self.outcomes.room(&self.card, size_of_val(&outcome))?;
        self.stream.download(place, 0, &mut outcome)?;
        Ok(BatchResult {
            loss: outcome[0].loss,
            correct: outcome[0].correct as usize,
        })
    }

    fn forward(
        &mut self,
        _samples: &[Sample<'_>],
        _source: Source<'_>,
        _wanted: Wanted,
        _out: &mut [f32],
    ) -> Result<()> {
        unreachable!("predictions have a backend of their own")
    }

    fn advance(
        &mut self,
        runs: &mut [Run],
        held: &mut Held,
        stretches: &[Stretch<'_>],
    ) -> Result<Vec<Stretched>> {
        let lanes = runs.iter().zip(stretches);
        let lanes: Option<Vec<Lane>> = lanes.map(|(run, stretch)| lane(run, stretch)).collect();
        let (Some(lanes), true) = (lanes, self.refuses) else {
            for (number, run) in runs.iter_mut().enumerate() {
                self.fetch(number, run)?;
            }
            return in_turn(self, runs, held, stretches);
        };
        let (card, stream) = (&self.card, &self.stream);
        if self
            .pictures
            .hold(card, stream, &held.images, &held.tables)?
        {
            self.chains.iter_mut().for_each(|chain| chain.graph = None);
        }
        let most = lanes.iter().map(|lane| lane.entries.len()).max();
        let most = most.unwrap_or(0);
        // every run has as many entries, and one of no images where it ends
        let mut entries = vec![Entry::default(); runs.len() * (most + 1)];
        let mut shown: Vec<Visit> = Vec::new();
        let mut starts = Vec::new();
        for (r, (lane, stretch)) in lanes.iter().zip(stretches).enumerate() {
            entries[r * (most + 1)..][..lane.entries.len()].copy_from_slice(&lane.entries);
            starts.push(shown.len());
            shown.extend(stretch.visits.iter().map(Visit::from));
        }
        let shown = self.visits.put(card, stream, &shown)?;
        let steps = self.steps.put(card, stream, &entries)?;
        let bytes = entries.len() * size_of::<Outcome>();
        let outcomes = self.outcomes.room(card, bytes)?;
        stream.clear(outcomes, bytes)?;
        let outcomes = outcomes.pointer();
        let mut table = Vec::new();
        let mut perturbs = false;
        for (r, run) in runs.iter_mut().enumerate() {
            self.bring(r, run)?;
            let first = (r * (most + 1)) as u64;
            let rule = run.optimizer.rule();
            let samples_weights = rule.predicts_with_state();
            perturbs |= samples_weights;
            let descriptor = self.lot.run(r);
            table.push(Descriptor {
                point: if samples_weights {
                    descriptor.point
                } else {
                    descriptor.theta
                },
                visits: shown + (starts[r] * size_of::<Visit>()) as u64,
                steps: steps + first * size_of::<Entry>() as u64,
                outcomes: outcomes + first * size_of::<Outcome>() as u64,
                seed: run.optimizer.state().seed().unwrap_or(0),
                rule: rules::number(rule).expect("the lane was made"),
                ..descriptor
            });
        }
        let at = self.runs.put(&self.card, &self.stream, &table)?;
        self.replay(at, most, perturbs)?;
        let place = self.runs.room(&self.card, 0)?;
        self.stream.download(place, 0, &mut table)?;
        let mut results = vec![Outcome::default(); entries.len()];
        let place = self.outcomes.room(&self.card, bytes)?;
        self.stream.download(place, 0, &mut results)?;
        let mut all = Vec::new();
        for (r, (run, lane)) in runs.iter_mut().zip(&lanes).enumerate() {
            if lane.entries.is_empty() && lane.refused.is_none() {
                all.push(Stretched::default());
                continue;
            }
            let end = (table[r].step as usize, table[r].stopped != 0);
            let results = &results[r * (most + 1)..][..most];
            all.push(self.take(r, run, lane, end, results)?);
        }
        Ok(all)
    }

    fn fetch(&mut self, number: usize, run: &mut Run) -> Result<()> {
        if run.on_host {
            return Ok(());
        }
        let download = |vector, to: &mut [f32]| self.lot.download(&self.stream, number, vector, to);
        download(Vector::Theta, &mut run.parameters)?;
        let mut result = Ok(());
        run.optimizer.adopt(0, |name, buffer| {
            if let (true, Some(vector)) = (result.is_ok(), Vector::of_state(name)) {
                result = download(vector, buffer);
            }
        });
        result?;
        run.on_host = true;
        Ok(())
    }

    fn executor(&self) -> Executor {
        Executor::single()
    }

    fn bytes(&self) -> usize {
        self.lot.bytes()
    }
}
