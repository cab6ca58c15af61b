//! Saved states: bytes in the safetensors format, so that other tools can look into them.
//!
//! Layout, version 1. The header's `__metadata__` holds `format` = `cbopt-state`, `version` = `1`, `groups` = their number,
//! and per group `g` the entries `g.rule`, `g.len`, `g.step`, `g.skipped_steps`, `g.skipped_coordinates`, and for `ivon`
//! `g.seed`, `g.first`, `g.samples`, `g.weight` (the bits of an `f64`, in hexadecimal). Buffers are `F32` tensors of shape
//! `[len]` named `g.momentum`, `g.curvature`, `g.envelope`, `g.gradient_mean`, `g.second_mean`, `g.sample_gradient`, as far as the
//! rule has them. A frozen group has the rule `frozen` and nothing else. Equal states give equal bytes.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::str::FromStr;

use safetensors::tensor::{Dtype, SafeTensors};

use crate::error::{Error, Result};
use crate::group::{FROZEN, Groups, GroupsState};
use crate::rule::Rule;
use crate::state::State;
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
        write(&[Some(self)])
    }
}

impl GroupsState {
    /// The states as safetensors bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        write(&self.states.iter().map(Option::as_ref).collect::<Vec<_>>())
    }
}

impl Rule {
    /// The state saved in `bytes`, for `len` parameters.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the bytes are no saved state, [`Error::Version`], [`Error::GroupCount`], [`Error::WrongRule`] or
    /// [`Error::Size`] if they are one of something else.
    pub fn state_from_bytes(&self, len: usize, bytes: &[u8]) -> Result<State> {
        let file = File::open(bytes, 1)?;
        file.state(0, self, self.state(len))
    }
}

impl Groups {
    /// The states saved in `bytes`.
    ///
    /// # Errors
    /// As [`Rule::state_from_bytes`].
    pub fn state_from_bytes(&self, bytes: &[u8]) -> Result<GroupsState> {
        let file = File::open(bytes, self.groups().len())?;
        let mut fresh = self.state();
        for (number, group) in self.groups().iter().enumerate() {
            let slot = &mut fresh.states[number];
            match (&group.rule, slot.take()) {
                (Some(rule), Some(state)) => *slot = Some(file.state(number, rule, state)?),
                _ => {
                    let found = file.entry(number, "rule")?;
                    if found != FROZEN {
                        return Err(Error::WrongRule {
                            found: found.into(),
                            expected: FROZEN,
                        });
                    }
                }
            }
        }
        Ok(fresh)
    }
}

/// Header and buffers. All names and values are plain words and numbers, so nothing needs escaping.
fn write(states: &[Option<&State>]) -> Vec<u8> {
    let mut entries = vec![
        ("format".to_owned(), FORMAT.to_owned()),
        ("version".to_owned(), VERSION.to_owned()),
        ("groups".to_owned(), states.len().to_string()),
    ];
    let mut tensors = Vec::new();
    for (number, state) in states.iter().enumerate() {
        let mut add = |key: &str, value: String| entries.push((format!("{number}.{key}"), value));
        let Some(state) = state else {
            add("rule", FROZEN.into());
            continue;
        };
        add("rule", state.rule.into());
        add("len", state.len.to_string());
        add("step", state.step.to_string());
        add("skipped_steps", state.skipped_steps.to_string());
        add("skipped_coordinates", state.skipped_coordinates.to_string());
        if let Some(sampler) = &state.sampler {
            add("seed", sampler.seed.to_string());
            add("first", sampler.first.to_string());
            add("samples", sampler.samples.to_string());
            add("weight", format!("{:016x}", sampler.weight.to_bits()));
        }
        for (name, buffer) in state.buffers() {
            tensors.push((format!("{number}.{name}"), buffer));
        }
    }
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
            ",\"{name}\":{{\"dtype\":\"F32\",\"shape\":[{len}],\"data_offsets\":[{offset},{end}]}}"
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

/// A saved state whose format and version were checked.
struct File<'a> {
    entries: HashMap<String, String>,
    tensors: SafeTensors<'a>,
}

impl<'a> File<'a> {
    fn open(bytes: &'a [u8], groups: usize) -> Result<Self> {
        let malformed = |error: safetensors::SafeTensorError| Error::Malformed {
            reason: error.to_string(),
        };
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(malformed)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(malformed)?;
        let entries = header.metadata().clone().unwrap_or_default();
        let file = Self { entries, tensors };
        let format = file.get("format")?;
        if format != FORMAT {
            return Err(Error::Malformed {
                reason: format!("its format is '{format}'"),
            });
        }
        let version = file.get("version")?;
        if version != VERSION {
            return Err(Error::Version {
                found: version.into(),
                expected: VERSION,
            });
        }
        let found = file.number("groups")?;
        if found != groups {
            return Err(Error::GroupCount {
                found,
                expected: groups,
            });
        }
        Ok(file)
    }

    fn get(&self, key: &str) -> Result<&str> {
        let missing = || Error::Malformed {
            reason: format!("the entry '{key}' is missing"),
        };
        self.entries
            .get(key)
            .map(String::as_str)
            .ok_or_else(missing)
    }

    fn entry(&self, group: usize, key: &str) -> Result<&str> {
        self.get(&format!("{group}.{key}"))
    }

    fn number<T: FromStr>(&self, key: &str) -> Result<T> {
        let text = self.get(key)?;
        let wrong = |_| Error::Malformed {
            reason: format!("the entry '{key}' is '{text}'"),
        };
        text.parse().map_err(wrong)
    }

    /// Reads a group into a fresh state of the rule that will use it.
    fn state(&self, group: usize, rule: &Rule, mut state: State) -> Result<State> {
        let number = |key: &str| self.number::<u64>(&format!("{group}.{key}"));
        let found = self.entry(group, "rule")?;
        if found != rule.id() {
            return Err(Error::WrongRule {
                found: found.into(),
                expected: rule.id(),
            });
        }
        let found: usize = self.number(&format!("{group}.len"))?;
        if found != state.len {
            return Err(Error::Size {
                found,
                expected: state.len,
            });
        }
        state.step = number("step")?;
        state.skipped_steps = number("skipped_steps")?;
        state.skipped_coordinates = number("skipped_coordinates")?;
        if let Some(sampler) = &mut state.sampler {
            sampler.seed = number("seed")?;
            sampler.first = number("first")?;
            sampler.samples = self.number(&format!("{group}.samples"))?;
            let text = self.entry(group, "weight")?;
            let bits = u64::from_str_radix(text, 16);
            let weight = bits
                .map(f64::from_bits)
                .ok()
                .filter(|w| w.is_finite() && *w >= 0.0);
            let wrong = || Error::Malformed {
                reason: format!("the weight is '{text}'"),
            };
            sampler.weight = weight.ok_or_else(wrong)?;
        }
        let prefix = format!("{group}.");
        let saved = self
            .tensors
            .names()
            .into_iter()
            .filter(|name| name.starts_with(&prefix))
            .count();
        let mut buffers = state.buffers_mut();
        if saved != buffers.len() {
            let reason = format!(
                "group {group} has {saved} buffers, expected {}",
                buffers.len()
            );
            return Err(Error::Malformed { reason });
        }
        for (name, buffer) in &mut buffers {
            let name = format!("{prefix}{name}");
            let malformed = |error: safetensors::SafeTensorError| Error::Malformed {
                reason: format!("buffer '{name}': {error}"),
            };
            let view = self.tensors.tensor(&name).map_err(malformed)?;
            if view.dtype() != Dtype::F32 || view.shape() != [buffer.len()] {
                let (dtype, shape) = (view.dtype(), view.shape());
                let reason = format!("buffer '{name}' is {dtype:?} {shape:?}");
                return Err(Error::Malformed { reason });
            }
            for (value, bytes) in buffer.iter_mut().zip(view.data().as_chunks::<4>().0) {
                *value = f32::from_le_bytes(*bytes);
            }
        }
        drop(buffers);
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdamWConfig, IvonConfig, SgdConfig, UpperAdaptCboConfig, UpperCboConfig};

    fn upper() -> Rule {
        UpperCboConfig::default().build().unwrap().into()
    }

    #[test]
    fn another_rule_size_or_version_is_refused_by_name() {
        let rule = upper();
        let bytes = rule.state(7).to_bytes();
        assert_eq!(rule.state_from_bytes(7, &bytes), Ok(rule.state(7)));
        assert_eq!(
            rule.state_from_bytes(8, &bytes).unwrap_err().to_string(),
            "the saved state is for 7 parameters, expected 8"
        );
        let adamw: Rule = AdamWConfig::default().build().unwrap().into();
        assert_eq!(
            adamw.state_from_bytes(7, &bytes).unwrap_err().to_string(),
            "the state belongs to rule 'ucbopt', expected 'adamw'"
        );
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let at = text.find("\"version\":\"1\"").unwrap() + 11;
        let mut newer = bytes.clone();
        newer[at] = b'2';
        assert_eq!(
            rule.state_from_bytes(7, &newer).unwrap_err().to_string(),
            "the saved state has version '2', expected '1'"
        );
        let two = Groups::new()
            .rule(0..3, upper())
            .frozen(3..7)
            .build()
            .unwrap();
        assert_eq!(
            two.state_from_bytes(&bytes),
            Err(Error::GroupCount {
                found: 1,
                expected: 2
            })
        );
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
        let with: Rule = SgdConfig::default().build().unwrap().into();
        let without: Rule = SgdConfig {
            momentum: 0.0,
            ..Default::default()
        }
        .build()
        .unwrap()
        .into();
        assert!(
            without
                .state_from_bytes(3, &with.state(3).to_bytes())
                .is_err()
        );
        assert!(
            with.state_from_bytes(3, &without.state(3).to_bytes())
                .is_err()
        );
        let one: Rule = IvonConfig::new(5.0).build().unwrap().into();
        let two: Rule = IvonConfig {
            mc_samples: 2,
            ..IvonConfig::new(5.0)
        }
        .build()
        .unwrap()
        .into();
        assert!(two.state_from_bytes(3, &one.state(3).to_bytes()).is_err());
    }

    #[test]
    fn groups_go_through_bytes() {
        let groups = Groups::new()
            .rule(0..3, upper())
            .frozen(3..5)
            .rule(5..9, UpperAdaptCboConfig::default().build().unwrap())
            .rule(
                9..12,
                IvonConfig {
                    mc_samples: 2,
                    ..IvonConfig::new(9.0)
                }
                .build()
                .unwrap(),
            )
            .build()
            .unwrap();
        let state = groups.state();
        let bytes = state.to_bytes();
        assert_eq!(groups.state_from_bytes(&bytes), Ok(state));
        assert_eq!(groups.state_from_bytes(&bytes).unwrap().to_bytes(), bytes);
        let thawed = Groups::new()
            .rule(0..3, upper())
            .rule(3..5, upper())
            .rule(5..9, upper())
            .frozen(9..12)
            .build()
            .unwrap();
        assert!(matches!(
            thawed.state_from_bytes(&bytes),
            Err(Error::WrongRule { .. })
        ));
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
