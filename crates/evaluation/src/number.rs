//! Numbers in JSON: finite ones as they are, infinite ones as the strings `"inf"` and `"-inf"`,
//! undefined ones as `null`.
//!
//! For serde fields: `#[serde(with = "evaluation::number")]` for `f64` (not a number is refused on
//! writing), `#[serde(with = "evaluation::number::option")]` for `Option<f64>`,
//! `#[serde(with = "evaluation::number::points")]` for the points of a curve.

use std::fmt;

use serde::de::{self, Visitor};
use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number on its way to or from JSON.
pub(crate) struct Number(pub(crate) f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = f64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, \"inf\" or \"-inf\"")
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<f64, E> {
                Ok(value)
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<f64, E> {
                Ok(value as f64)
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<f64, E> {
                Ok(value as f64)
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<f64, E> {
                match word {
                    "inf" => Ok(f64::INFINITY),
                    "-inf" => Ok(f64::NEG_INFINITY),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }
        }

        deserializer.deserialize_any(Reader).map(Number)
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
    Number::deserialize(deserializer).map(|number| number.0)
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
        let number = Option::<Number>::deserialize(deserializer)?;
        Ok(number.map(|number| number.0))
    }
}

/// The same for the points of a curve.
pub mod points {
    use super::*;

    /// Writes a list of pairs.
    ///
    /// # Errors
    /// If a number is NaN.
    pub fn serialize<S: Serializer>(
        points: &[(f64, f64)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(points.len()))?;
        for &(x, y) in points {
            list.serialize_element(&(Number(x), Number(y)))?;
        }
        list.end()
    }

    /// Reads a list of pairs.
    ///
    /// # Errors
    /// If it is none.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(f64, f64)>, D::Error> {
        let points = Vec::<(Number, Number)>::deserialize(deserializer)?;
        Ok(points.into_iter().map(|(x, y)| (x.0, y.0)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Example {
        #[serde(with = "crate::number")]
        plain: f64,
        #[serde(with = "option")]
        maybe: Option<f64>,
        #[serde(with = "points")]
        curve: Vec<(f64, f64)>,
    }

    fn example(plain: f64, maybe: Option<f64>, x: f64) -> Example {
        let curve = vec![(0.0, 1.0), (x, 0.1)];
        Example {
            plain,
            maybe,
            curve,
        }
    }

    #[test]
    fn what_json_cannot_write_is_a_word_or_null() {
        let value = example(f64::INFINITY, None, f64::NEG_INFINITY);
        let text = serde_json::to_string(&value).unwrap();
        assert_eq!(
            text,
            r#"{"plain":"inf","maybe":null,"curve":[[0.0,1.0],["-inf",0.1]]}"#
        );
        assert_eq!(serde_json::from_str::<Example>(&text).unwrap(), value);
        let whole: Example =
            serde_json::from_str(r#"{"plain":-3,"maybe":7,"curve":[[1,2]]}"#).unwrap();
        assert_eq!((whole.plain, whole.maybe), (-3.0, Some(7.0)));
    }

    #[test]
    fn not_a_number_is_refused() {
        let nan = f64::NAN;
        for value in [
            example(nan, None, 0.0),
            example(0.0, Some(nan), 0.0),
            example(0.0, None, nan),
        ] {
            let error = serde_json::to_string(&value).unwrap_err();
            assert_eq!(error.to_string(), "not a number");
        }
        for word in ["\"nan\"", "null", "true", "\"1\""] {
            let text = format!(r#"{{"plain":{word},"maybe":null,"curve":[]}}"#);
            let error = serde_json::from_str::<Example>(&text).unwrap_err();
            let message = error.to_string();
            assert!(
                message.contains("a number, \"inf\" or \"-inf\""),
                "{message}"
            );
        }
    }
}
