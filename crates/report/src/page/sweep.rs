//! The section *Hyper-parameters*: the validation loss over each key that a sweep changed, which
//! of them matter, and what a search dropped and why.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::View;
use super::html::escape;
use crate::curves::number;
use crate::search::{Ranked, Search};
use crate::summary::three;
use crate::sweep::{Key, Sweep};

impl View<'_, '_> {
    /// The searches that some run of the group belongs to.
    pub(super) fn searches(&self) -> impl Iterator<Item = &Search> {
        let is_own = |search: &&Search| {
            let runs = search.runs();
            let mut own = self.group.runs.iter();
            self.group.experiment == search.name && own.any(|run| runs.contains(&&run.name[..]))
        };
        self.all_searches.iter().filter(is_own)
    }

    pub(super) fn sweep(&self, page: &mut String) {
        if let Some(sweep) = &self.sweep {
            page.push_str(
                "<p class=\"lead\">The lowest validation loss of each run over the settings that the sweep \
                 changed. Lower is better; the best run is filled.</p>\n\
                 <div class=\"charts\" data-chart=\"sweep\"></div>\n",
            );
            if sweep.keys.len() > 1 {
                page.push_str("<div class=\"charts wide\" data-chart=\"parallel\"></div>\n");
            }
            keys_table(page, sweep);
        }
        for search in self.searches() {
            self.search(page, search);
        }
    }

    /// What a search compared in each round, and who won by what.
    fn search(&self, page: &mut String, search: &Search) {
        let name = escape(&search.name);
        let metric = search.halving.metric.replace('_', " ");
        let _ = write!(
            page,
            "<h3>Search {name}</h3>\n<p class=\"lead\">After each round one run in {} went on, by its best {} so far. {}</p>\n\
             <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: rounds of the search {name}\">\n\
             <table class=\"settings-table search-table\">\n<caption>{} by round, with the rank</caption>\n\
             <thead><tr><th scope=\"col\">Run</th>",
            search.halving.eta,
            escape(&metric),
            escape(&self.verdict(search)),
            escape(&capital(&metric)),
        );
        for round in &search.rounds {
            let _ = write!(page, "<th scope=\"col\">{}</th>", after(round.epochs));
        }
        page.push_str("<th scope=\"col\">What became of it</th></tr></thead>\n<tbody>\n");
        for run in search.runs() {
            let _ = write!(page, "<tr><th scope=\"row\">{}</th>", escape(run));
            for (place, round) in search.places(run).iter().zip(&search.rounds) {
                match place {
                    Some((rank, ranked)) => {
                        let (value, all) = (value(ranked), round.runs.len());
                        let _ = write!(
                            page,
                            "<td>{value} <span class=\"partial\">{} of {all}</span></td>",
                            rank + 1
                        );
                    }
                    None => page.push_str("<td class=\"none\">–</td>"),
                }
            }
            let _ = writeln!(page, "<td>{}</td></tr>", escape(&fate(search, run)));
        }
        for failed in &search.failed {
            let columns = search.rounds.len();
            let _ = writeln!(
                page,
                "<tr><th scope=\"row\">{}</th>{}<td>failed: {}</td></tr>",
                escape(&failed.run),
                "<td class=\"none\">–</td>".repeat(columns),
                escape(&failed.reason)
            );
        }
        page.push_str("</tbody>\n</table>\n</div>\n");
    }

    /// Which of the runs that went on to the end is best, and its rank in every round beside the
    /// last that went on.
    fn verdict(&self, search: &Search) -> String {
        let Some(last) = search.rounds.last() else {
            return String::new();
        };
        let survivors = last.runs.iter().filter(|ranked| ranked.kept);
        let finished = survivors.filter_map(|ranked| {
            let record = self.group.runs.iter().find(|run| run.name == ranked.run)?;
            Some((ranked.run.as_str(), search.best(record)?))
        });
        let Some((winner, end)) = finished.min_by(|(_, a), (_, b)| search.compare(*a, *b)) else {
            return "It is not over.".into();
        };
        let rounds = search.rounds.iter().zip(search.places(winner));
        let why: Vec<String> = rounds
            .filter_map(|(round, place)| {
                let (rank, ranked) = place?;
                let last = round.runs.iter().rfind(|other| other.kept)?;
                let bar = match last.run == ranked.run {
                    true => String::new(),
                    false => format!("; the last that went on had {}", value(last)),
                };
                let (rank, all) = (rank + 1, round.runs.len());
                let (after, value) = (after(round.epochs).to_lowercase(), value(ranked));
                Some(format!("rank {rank} of {all} {after} ({value}{bar})"))
            })
            .collect();
        let why = why.join(", ");
        format!("{winner} won with {}: {why}.", three(end))
    }
}

/// `After 3 epochs`.
fn after(epochs: usize) -> String {
    format!("After {}", crate::facts::count(epochs, "epoch"))
}

fn value(ranked: &Ranked) -> String {
    ranked.value.map_or_else(|| "not finite".into(), three)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// What became of a run after the last round that it was in.
fn fate(search: &Search, run: &str) -> String {
    let places = search.places(run);
    let last = places
        .iter()
        .zip(&search.rounds)
        .rev()
        .find_map(|(place, round)| Some(((*place)?, round)));
    match last {
        Some(((rank, ranked), round)) if !ranked.kept => format!(
            "dropped {}: rank {} of {}, {} went on",
            after(round.epochs).to_lowercase(),
            rank + 1,
            round.runs.len(),
            round.kept
        ),
        _ => "went on to the end".into(),
    }
}

/// Which keys matter.
fn keys_table(page: &mut String, sweep: &Sweep<'_>) {
    page.push_str(
        "<h3>Which setting matters</h3>\n<p class=\"lead\">The share of the runs' order by validation loss that one setting \
         alone explains: for numbers by a curve with one bend through the ranks, for words by a mean each, \
         corrected for their number. Settings that only matter together show little here.</p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: which setting matters\">\n\
         <table class=\"settings-table keys-table\">\n<caption>Settings of the sweep</caption>\n<thead><tr>\
         <th scope=\"col\">Setting</th><th scope=\"col\">Explains</th><th scope=\"col\">Values</th>\
         <th scope=\"col\">Best run has</th></tr></thead>\n<tbody>\n",
    );
    let mut keys: Vec<(&Key, Option<f64>)> = sweep
        .keys
        .iter()
        .map(|key| (key, sweep.share(key)))
        .collect();
    keys.sort_by(|(_, a), (_, b)| b.unwrap_or(-1.0).total_cmp(&a.unwrap_or(-1.0)));
    for (key, share) in keys {
        let share = match share {
            Some(share) => format!("{:.0} %", 100.0 * share),
            None => "too few runs".into(),
        };
        let best = sweep.best().map_or("", |best| &key.texts[best][..]);
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\"><code>{}</code></th><td>{share}</td><td>{}</td><td>{}</td></tr>",
            escape(&key.name),
            escape(&values(key)),
            escape(best)
        );
    }
    page.push_str("</tbody>\n</table>\n</div>\n");
}

/// Most values that are listed.
const LISTED: usize = 6;

/// `0.01, 0.1`, or `27 from 0.0001 to 0.1`.
fn values(key: &Key) -> String {
    let mut texts: Vec<&str> = key.texts.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().unwrap_or(0.0);
    match key.numbers.is_some() {
        true => texts.sort_by(|a, b| f64::total_cmp(&number(a), &number(b))),
        false => texts.sort_unstable(),
    }
    texts.dedup();
    match &key.numbers {
        Some(numbers) if texts.len() > LISTED => {
            let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
            let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            format!("{} from {low} to {high}", texts.len())
        }
        _ => texts.join(", "),
    }
}

/// What the script draws: keys with their values, runs with their losses and rows.
pub(super) fn data(view: &View<'_, '_>) -> Value {
    let Some(sweep) = &view.sweep else {
        return Value::Null;
    };
    let keys: Vec<Value> = sweep
        .keys
        .iter()
        .map(|key| {
            let numbers = key.numbers.as_ref();
            let numbers = numbers.map(|n| n.iter().map(|&n| number(n)).collect::<Vec<_>>());
            json!({ "name": key.name, "texts": key.texts, "numbers": numbers })
        })
        .collect();
    let row = |name: &str| view.group.rows.iter().position(|row| *row == name);
    let runs: Vec<Value> = sweep
        .runs
        .iter()
        .zip(&sweep.losses)
        .map(|(run, &loss)| {
            let first = run.evaluations.first().and_then(|e| row(&e.row));
            json!({ "name": run.name, "row": first, "loss": number(loss) })
        })
        .collect();
    json!({ "keys": keys, "runs": runs, "best": sweep.best() })
}
