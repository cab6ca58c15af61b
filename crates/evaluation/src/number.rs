//! Numbers in JSON: finite ones as they are, infinite ones as the strings `"inf"` and `"-inf"`, undefined ones as `null`.
//!
//! For serde fields: `#[serde(with = "evaluation::number")]` for `f64` (not a number is refused on writing),
//! `#[serde(with = "evaluation::number::option")]` for `Option<f64>`.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(f64),
    Word(String),
}

impl Number {
    fn value<E: serde::de::Error>(self) -> Result<f64, E> {
        match self {
            Self::Plain(value) => Ok(value),
            Self::Word(word) => match word.as_str() {
                "inf" => Ok(f64::INFINITY),
                "-inf" => Ok(f64::NEG_INFINITY),
                _ => Err(E::custom(format!("'{word}' is not a number"))),
            },
        }
    }
}

/// Writes a number that is not NaN.
///
/// # Errors
/// If the number is NaN.
pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_nan() {
        return Err(S::Error::custom("not a number"));
    }
    if value.is_infinite() {
        return serializer.serialize_str(if *value > 0.0 { "inf" } else { "-inf" });
    }
    serializer.serialize_f64(*value)
}

/// Reads a number.
///
/// # Errors
/// If it is neither a number nor `"inf"` or `"-inf"`.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Number::deserialize(deserializer)?.value()
}

/// The same for numbers that may be undefined.
pub mod option {
    use super::*;

    /// Writes a number or `null`.
    ///
    /// # Errors
    /// If the number is NaN.
    pub fn serialize<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a number or `null`.
    ///
    /// # Errors
    /// If it is neither.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<f64>, D::Error> {
        Option::<Number>::deserialize(deserializer)?
            .map(Number::value::<D::Error>)
            .transpose()
            .map_err(D::Error::custom)
    }
}
