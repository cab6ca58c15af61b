//! Times optimizer steps on demand: one request per line on stdin, one JSON answer per line on
//! stdout.
//!
//! ```text
//! step RULE POLICY PARAMETERS THREADS REPEATS     RULE: ucbopt, ucbopt-adapt, lcbopt-adapt, sgd, adamw, ivon
//!                                                 POLICY: refuse, skip (what happens to unusable gradients)
//! stream KIND PARAMETERS THREADS REPEATS          KIND: copy, triad, update, read
//! parallel-from PARAMETERS                        from how many parameters on threads are used
//! ```
//!
//! The answer holds the seconds of each repeat and the bytes it had to move. `compare.py` asks,
//! turn by turn with another system, so that both see the same machine.
#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error;
use std::hint::black_box;
use std::io::BufRead;
use std::time::Instant;

use cbopt::{Executor, NonFinite, Rule, RuleConfig, State, Update};

fn rule(name: &str) -> Result<Rule, Box<dyn Error>> {
    let mut config = RuleConfig::by_id(name).ok_or_else(|| format!("unknown rule '{name}'"))?;
    config.fill_examples(50_000);
    Ok(config.build()?)
}

/// Values in `[-scale, scale]`, different everywhere; in the memory that the state has, too.
fn values(count: usize, scale: f32) -> Vec<f32> {
    let mut values = machine::filled(count, 0.0);
    for (i, value) in (0..count as u32).zip(&mut values) {
        *value = (i.wrapping_mul(0x9E37_79B9) >> 8) as f32 * (scale / 8_388_608.0) - scale;
    }
    values
}

/// Parameters, gradients and state of the last request, kept for the next one.
struct Workspace {
    params: Vec<f32>,
    grads: Vec<f32>,
    state: State,
}

fn time(
    repeats: usize,
    mut work: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut seconds = Vec::with_capacity(repeats);
    for _ in 0..repeats {
        let start = Instant::now();
        work()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(seconds)
}

/// Three arrays for [`stream`], kept for the next request.
type Arrays = [Vec<f32>; 3];

/// One pass over the arrays.
type Pass = fn(&mut [f32], &[f32], &[f32]);

/// Streams over arrays with plain loops, one part per thread; gives seconds and bytes.
fn stream(
    kind: &str,
    [a, b, c]: &mut Arrays,
    threads: usize,
    repeats: usize,
) -> Result<(Vec<f64>, usize), Box<dyn Error>> {
    let share = a.len().div_ceil(threads);
    let (work, bytes): (Pass, usize) = match kind {
        "copy" => (|a, b, _| a.copy_from_slice(b), 8),
        "triad" => (
            |a, b, c| {
                for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
                    *a = b + 3.0 * c;
                }
            },
            12,
        ),
        "update" => (
            |a, _, _| {
                for a in a {
                    *a *= 0.999;
                }
            },
            8,
        ),
        "read" => (
            |a, _, _| {
                let mut sums = [0.0f32; 64];
                for chunk in a.as_chunks::<64>().0 {
                    for (sum, value) in sums.iter_mut().zip(chunk) {
                        *sum += value;
                    }
                }
                black_box(sums);
            },
            4,
        ),
        other => return Err(format!("unknown stream '{other}'").into()),
    };
    let seconds = time(repeats, || {
        std::thread::scope(|scope| {
            for ((a, b), c) in a
                .chunks_mut(share)
                .zip(b.chunks(share))
                .zip(c.chunks(share))
            {
                scope.spawn(move || work(a, b, c));
            }
        });
        black_box(&mut *a);
        Ok(())
    })?;
    Ok((seconds, bytes * a.len()))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut executors: HashMap<(usize, bool), Executor> = HashMap::new();
    let mut workspaces: HashMap<String, Workspace> = HashMap::new();
    let mut arrays: Arrays = Default::default();
    let mut parallel_from = cbopt::executor::PARALLEL_FROM;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let (seconds, bytes) = match words.as_slice() {
            ["step", name, policy, count, threads, repeats] => {
                let (count, threads, repeats) =
                    (count.parse()?, threads.parse()?, repeats.parse()?);
                let rule = rule(name)?;
                let skip = *policy == "skip";
                // Only one size is kept at a time.
                workspaces.retain(|_, w| w.params.len() == count);
                let w = workspaces
                    .entry((*name).to_owned())
                    .or_insert_with(|| Workspace {
                        params: values(count, 0.5),
                        grads: values(count, 0.01),
                        state: rule.state(count),
                    });
                let policy = if skip {
                    NonFinite::SkipCoordinates
                } else {
                    NonFinite::Refuse
                };
                let executor = match executors.entry((threads, skip)) {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => entry.insert(
                        Executor::with_threads(threads)?
                            .non_finite(policy)
                            .parallel_from(parallel_from),
                    ),
                };
                let seconds = time(repeats, || {
                    rule.step_on(executor, 1e-4, &mut w.params, &w.grads, &mut w.state)?;
                    Ok(())
                })?;
                // Parameters and state are read and written, the gradient is read.
                (seconds, 12 * count + 2 * w.state.buffer_bytes())
            }
            ["stream", kind, count, threads, repeats] => {
                let count = count.parse()?;
                if arrays[0].len() != count {
                    arrays = [1.0, 2.0, 3.0].map(|scale| values(count, scale));
                }
                stream(kind, &mut arrays, threads.parse()?, repeats.parse()?)?
            }
            ["parallel-from", count] => {
                parallel_from = count.parse()?;
                executors.clear();
                (Vec::new(), 0)
            }
            _ => return Err(format!("cannot read the request '{line}'").into()),
        };
        println!("{{\"bytes\":{bytes},\"seconds\":{seconds:?}}}");
    }
    Ok(())
}
