//! Durations with a unit in test cases and model scripts.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use crate::field_names::ValueUnit;

/// Duration that is written with its unit, such as `30s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurationText(Duration);

impl DurationText {
    /// Returns the duration of a field with two names: a text with a unit under the current name,
    /// and a number of milliseconds under the older one.
    ///
    /// # Errors
    /// Fails if both are given. The message names the field.
    pub fn one_of(
        stated: Option<DurationText>,
        milliseconds: Option<u64>,
        name: &str,
    ) -> Result<Option<Duration>, String> {
        match (stated, milliseconds) {
            (Some(_), Some(_)) => Err(format!(
                "`{name}` and `{name}Ms` are the same field; keep only `{name}`"
            )),
            (Some(DurationText(duration)), None) => Ok(Some(duration)),
            (None, milliseconds) => Ok(milliseconds.map(Duration::from_millis)),
        }
    }

    /// Returns the duration.
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl de::Visitor<'_> for TextVisitor {
            type Value = DurationText;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(ValueUnit::Milliseconds.description())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<DurationText, E> {
                ValueUnit::Milliseconds
                    .parse(text)
                    .and_then(|number| number.as_u64())
                    .map(|number| DurationText(Duration::from_millis(number)))
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

impl JsonSchema for DurationText {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": ValueUnit::Milliseconds.pattern(),
            "description": "Duration with its unit, such as `30s` or `5m`.",
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_duration_needs_a_unit() {
        let read = |value| serde_json::from_value::<DurationText>(value);
        assert_eq!(
            read(json!("1h30m")).unwrap().duration(),
            Duration::from_secs(5_400)
        );
        assert_eq!(
            read(json!(30)).unwrap_err().to_string(),
            "invalid type: integer `30`, expected a duration such as `30s` or `5m`"
        );
        assert_eq!(
            read(json!("30")).unwrap_err().to_string(),
            "invalid value: string \"30\", expected a duration such as `30s` or `5m`"
        );
    }

    #[test]
    fn a_field_under_both_names_is_refused() {
        let second = DurationText(Duration::from_secs(1));
        let one_of = |stated, number| DurationText::one_of(stated, number, "delay");
        assert_eq!(one_of(None, Some(5)), Ok(Some(Duration::from_millis(5))));
        assert_eq!(one_of(Some(second), None), Ok(Some(Duration::from_secs(1))));
        assert_eq!(one_of(None, None), Ok(None));
        assert!(one_of(Some(second), Some(5)).is_err());
    }
}
