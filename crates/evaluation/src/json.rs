//! JSON in which no field stands twice: of two, each reader would take another.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads a text.
///
/// # Errors
/// It is no JSON, or an object has a field twice.
pub fn parse(text: &str) -> serde_json::Result<Value> {
    let Single(value) = serde_json::from_str(text)?;
    Ok(value)
}

/// A value whose objects have every field once.
struct Single(Value);

impl<'de> Deserialize<'de> for Single {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values).map(Self)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Single(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(de::Error::custom(format!(
                    "the field {key:?} stands there twice"
                )));
            }
            let Single(value) = fields.next_value()?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_the_same_as_without_this() {
        let text = r#" {"a": [null, true, -3, 18446744073709551615, 0.1, 1e300, "ä\n"],
            "b": {"a": {}, "c": []}, "": 5e-324} "#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(parse(text).unwrap(), expected);
        assert_eq!(parse(text).unwrap().to_string(), expected.to_string());
        for text in ["", "{", "[1,]", "nan", "{}{}"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_field_that_stands_twice_is_refused() {
        for text in [
            r#"{"a": 1, "b": 2, "a": 1}"#,
            r#"[{"x": {"a": 1, "\u0061": 2}}]"#,
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("\"a\" stands there twice"), "{error}");
        }
    }
}
