//! Saved states: bytes in the safetensors format, so that other tools can look into them.
//!
//! Layout, version 1. The header's `__metadata__` holds `format` = `cbopt-state`, `version` = `1`,
//! `groups` = `1` (there is one group of parameters, number 0), `0.rule`, `0.len`, `0.step`,
//! `0.skipped_steps`, `0.skipped_coordinates`, for `ivon` `0.seed` and `0.first` = `0`, and for
//! `ivon` or while gradients are gathered `0.samples` and `0.weight` (the bits of an `f64`, in
//! hexadecimal). Buffers are `F32` tensors of shape `[len]` named `0.momentum`, `0.curvature`,
//! `0.envelope`, `0.gradient_mean`, `0.second_mean`, as far as the rule has them, and while
//! gradients are gathered `0.sample_gradient`. Equal states give equal bytes.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::str::FromStr;

use safetensors::tensor::{Dtype, SafeTensors};

use crate::error::{Error, Result, check_length};
use crate::kernel::filled;
use crate::rule::Rule;
use crate::state::{SAMPLE_GRADIENT, State};
use crate::update::Update;

/// What `format` says.
const FORMAT: &str = "cbopt-state";
/// The version written and read.
const VERSION: &str = "1";

impl State {
    /// The state as safetensors bytes.
    ///
    /// ```
    /// use cbopt::{Rule, Update, UpperCboConfig};
    /// let rule: Rule = UpperCboConfig::default().build()?.into();
    /// let mut state = rule.state(3);
    /// rule.step(0.1, &mut [0.5; 3], &[0.1; 3], &mut state)?;
    /// let loaded = rule.state_from_bytes(3, &state.to_bytes())?;
    /// assert_eq!(loaded, state);
    /// assert!(rule.state_from_bytes(4, &state.to_bytes()).is_err());
    /// # Ok::<(), cbopt::Error>(())
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        write(self)
    }
}

impl Rule {
    /// The state saved in `bytes`, for `len` parameters.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the bytes are no saved state, [`Error::Version`],
    /// [`Error::WrongRule`] or [`Error::Length`] if they are one of something else.
    pub fn state_from_bytes(&self, len: usize, bytes: &[u8]) -> Result<State> {
        File::open(bytes)?.state(self, self.state(len))
    }
}

/// Header and buffers. All names and values are plain words and numbers, so nothing needs escaping.
fn write(state: &State) -> Vec<u8> {
    let mut entries = vec![
        ("format", FORMAT.to_owned()),
        ("version", VERSION.to_owned()),
        ("groups", "1".to_owned()),
        ("0.rule", state.rule.to_owned()),
        ("0.len", state.len.to_string()),
        ("0.step", state.step.to_string()),
        ("0.skipped_steps", state.skipped_steps.to_string()),
        (
            "0.skipped_coordinates",
            state.skipped_coordinates.to_string(),
        ),
    ];
    if let Some(seed) = state.seed {
        entries.push(("0.seed", seed.to_string()));
        entries.push(("0.first", "0".to_owned()));
    }
    let gathered = &state.gathered;
    if state.seed.is_some() || gathered.weight > 0.0 {
        entries.push(("0.samples", gathered.samples.to_string()));
        entries.push(("0.weight", format!("{:016x}", gathered.weight.to_bits())));
    }
    let tensors = state.buffers();
    let mut header = String::from("{\"__metadata__\":{");
    for (place, (key, value)) in entries.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        write!(header, "{comma}\"{key}\":\"{value}\"").expect("writing to a string does not fail");
    }
    header.push('}');
    let mut offset = 0;
    for (name, buffer) in &tensors {
        let (len, end) = (buffer.len(), offset + 4 * buffer.len());
        write!(
            header,
            ",\"0.{name}\":{{\"dtype\":\"F32\",\"shape\":[{len}],\"data_offsets\":[{offset},{end}]}}"
        )
        .expect("writing to a string does not fail");
        offset = end;
    }
    header.push('}');
    // The format asks for data at multiples of 8.
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    let mut bytes = Vec::with_capacity(8 + header.len() + offset);
    bytes.extend_from_slice(&(header.len() as u64).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    for (_, buffer) in &tensors {
        for value in *buffer {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
    }
    bytes
}

fn malformed(reason: impl ToString) -> Error {
    let reason = reason.to_string();
    Error::Malformed { reason }
}

/// For an entry of the header that says what it cannot.
fn wrong(key: &str, text: &str) -> Error {
    malformed(format!("the entry '{key}' is '{text}'"))
}

/// A saved state whose format and version were checked.
struct File<'a> {
    entries: HashMap<String, String>,
    tensors: SafeTensors<'a>,
}

impl<'a> File<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self> {
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(malformed)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(malformed)?;
        let entries = header.metadata().clone().unwrap_or_default();
        let file = Self { entries, tensors };
        let format = file.get("format")?;
        if format != FORMAT {
            return Err(malformed(format!("its format is '{format}'")));
        }
        let version = file.get("version")?;
        if version != VERSION {
            return Err(Error::Version {
                found: version.into(),
                expected: VERSION,
            });
        }
        for (key, only) in [("groups", "1"), ("0.first", "0")] {
            if let Some(found) = file.entries.get(key).filter(|found| *found != only) {
                let reason = format!("the entry '{key}' is '{found}', expected '{only}'");
                return Err(malformed(reason));
            }
        }
        Ok(file)
    }

    fn get(&self, key: &str) -> Result<&str> {
        let entry = self.entries.get(key).map(String::as_str);
        entry.ok_or_else(|| malformed(format!("the entry '{key}' is missing")))
    }

    fn number<T: FromStr>(&self, key: &str) -> Result<T> {
        let text = self.get(key)?;
        text.parse().map_err(|_| wrong(key, text))
    }

    /// Reads into a fresh state of the rule that will use it.
    fn state(&self, rule: &Rule, mut state: State) -> Result<State> {
        let found = self.get("0.rule")?;
        if found != rule.id() {
            return Err(Error::WrongRule {
                found: found.into(),
                expected: rule.id(),
            });
        }
        check_length("the saved state", self.number("0.len")?, state.len)?;
        state.step = self.number("0.step")?;
        state.skipped_steps = self.number("0.skipped_steps")?;
        state.skipped_coordinates = self.number("0.skipped_coordinates")?;
        if state.seed.is_some() {
            state.seed = Some(self.number("0.seed")?);
        }
        if state.seed.is_some() || self.entries.contains_key("0.weight") {
            state.gathered.samples = self.number("0.samples")?;
            state.gathered.weight = self.weight()?;
        }
        if state.gathered.weight > 0.0 {
            state.gathered.gradient = filled(state.len, 0.0);
            self.read(SAMPLE_GRADIENT, &mut state.gathered.gradient)?;
        }
        let mut buffers = state.buffers_mut();
        // A place for the gradient of a sample may be there without one.
        let names = self.tensors.names().into_iter();
        let saved = names.filter(|name| !name.ends_with(SAMPLE_GRADIENT));
        let (found, expected) = (saved.count(), buffers.len());
        if found != expected {
            let reason = format!("there are {found} buffers, expected {expected}");
            return Err(malformed(reason));
        }
        for (name, buffer) in &mut buffers {
            self.read(name, buffer)?;
        }
        drop(buffers);
        Ok(state)
    }

    /// The weight of the gradients that were gathered.
    fn weight(&self) -> Result<f64> {
        let text = self.get("0.weight")?;
        let weight = u64::from_str_radix(text, 16).map(f64::from_bits).ok();
        let weight = weight.filter(|weight| weight.is_finite() && *weight >= 0.0);
        weight.ok_or_else(|| wrong("0.weight", text))
    }

    /// Reads the buffer of this name.
    fn read(&self, name: &str, buffer: &mut [f32]) -> Result<()> {
        let view = self.tensors.tensor(&format!("0.{name}"));
        let view = view.map_err(|error| malformed(format!("buffer '{name}': {error}")))?;
        let (dtype, shape) = (view.dtype(), view.shape());
        if dtype != Dtype::F32 || shape != [buffer.len()] {
            return Err(malformed(format!(
                "buffer '{name}': it is {dtype:?} {shape:?}"
            )));
        }
        for (value, bytes) in buffer.iter_mut().zip(view.data().as_chunks::<4>().0) {
            *value = f32::from_le_bytes(*bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AdamWConfig, Executor, IvonConfig, Optimizer, RuleConfig, SgdConfig, UpperCboConfig,
    };

    fn rule(config: RuleConfig) -> Rule {
        config.build().unwrap()
    }

    fn upper() -> Rule {
        rule(RuleConfig::UpperCbo(UpperCboConfig::default()))
    }

    #[test]
    fn another_rule_size_or_version_is_refused_by_name() {
        let (rule, adamw) = (upper(), rule(RuleConfig::AdamW(AdamWConfig::default())));
        let bytes = rule.state(7).to_bytes();
        assert_eq!(rule.state_from_bytes(7, &bytes), Ok(rule.state(7)));
        let with_two = |entry: &str| {
            let mut changed = bytes.clone();
            let from = format!("\"{entry}\":\"1\"");
            let mut places = bytes.windows(from.len());
            let at = places.position(|place| place == from.as_bytes()).unwrap();
            changed[at + from.len() - 2] = b'2';
            changed
        };
        for (rule, len, bytes, said) in [
            (
                rule,
                8,
                bytes.clone(),
                "the saved state has 7 entries, expected 8",
            ),
            (
                adamw,
                7,
                bytes.clone(),
                "the state belongs to rule 'ucbopt', expected 'adamw'",
            ),
            (
                rule,
                7,
                with_two("version"),
                "the saved state has version '2', expected '1'",
            ),
            (
                rule,
                7,
                with_two("groups"),
                "not a saved optimizer state: the entry 'groups' is '2', expected '1'",
            ),
        ] {
            let refused = rule.state_from_bytes(len, &bytes).unwrap_err();
            assert_eq!(refused.to_string(), said);
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let rule = upper();
        let bytes = rule.state(7).to_bytes();
        for cut in 0..bytes.len() {
            assert!(
                rule.state_from_bytes(7, &bytes[..cut]).is_err(),
                "cut at {cut}"
            );
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(rule.state_from_bytes(7, &longer).is_err());
        assert!(rule.state_from_bytes(7, b"not a state at all").is_err());
    }

    #[test]
    fn layouts_of_one_rule_do_not_mix() {
        let (with, ivon) = (SgdConfig::default(), IvonConfig::new(5.0));
        let (mut without, mut twice) = (with, ivon);
        without.momentum = 0.0;
        twice.mc_samples = 2;
        let [with, without] = [with, without].map(|config| rule(RuleConfig::Sgd(config)));
        let [one, two] = [ivon, twice].map(|config| rule(RuleConfig::Ivon(config)));
        for (saved, reader) in [(with, without), (without, with), (one, two)] {
            let bytes = saved.state(3).to_bytes();
            assert!(reader.state_from_bytes(3, &bytes).is_err());
        }
    }

    /// The bytes of version 1 as they were written before: an empty place for micro-batches, which
    /// is read over, included.
    #[test]
    fn older_states_are_read() {
        let rule = rule(RuleConfig::Ivon(IvonConfig::new(5.0)));
        let mut state = rule.state(2);
        rule.step(0.1, &mut [0.5; 2], &[0.1; 2], &mut state)
            .unwrap();
        state.gathered.gradient = vec![0.25; 2];
        state.gathered.weight = 1.0;
        let bytes = state.to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(
            text.contains(
                "\"0.first\":\"0\",\"0.samples\":\"0\",\"0.weight\":\"3ff0000000000000\"}"
            )
        );
        let at = bytes
            .windows(16)
            .position(|word| word == b"3ff0000000000000");
        let at = at.unwrap();
        let mut older = bytes;
        older[at..at + 16].copy_from_slice(b"0000000000000000");
        state.gathered.forget();
        assert_eq!(rule.state_from_bytes(2, &older), Ok(state));
    }

    #[test]
    fn gathered_gradients_go_through_bytes() {
        let mut optimizer = Optimizer::new(upper(), 3, Executor::single());
        let (_, place) = optimizer.point(&[0.0; 3]).unwrap();
        place.copy_from_slice(&[1.0, 2.0, 3.0]);
        optimizer.gather(5).unwrap();
        let bytes = optimizer.state().to_bytes();
        let loaded = upper().state_from_bytes(3, &bytes).unwrap();
        assert_eq!(&loaded, optimizer.state());
        assert_eq!(loaded.gathered.gradient, [1.0, 2.0, 3.0]);
        assert_ne!(loaded, upper().state(3));
    }

    #[test]
    fn an_empty_state_goes_through_bytes() {
        let rule = upper();
        assert_eq!(
            rule.state_from_bytes(0, &rule.state(0).to_bytes()),
            Ok(rule.state(0))
        );
    }
}
