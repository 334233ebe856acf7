//! Converts scalar JSON values to text.

use serde_json::Value;

/// Formats a scalar as a string. Integers have no decimal point, however they were written.
pub(crate) fn scalar_to_string(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) => Some(value.to_string()),
        Value::Number(number) => Some(match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => float.to_string(),
            None => number.to_string(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_are_formatted_without_a_decimal_point() {
        assert_eq!(scalar_to_string(&json!(1.0)).as_deref(), Some("1"));
        assert_eq!(scalar_to_string(&json!(1.5)).as_deref(), Some("1.5"));
        assert_eq!(scalar_to_string(&json!(-7)).as_deref(), Some("-7"));
        assert_eq!(scalar_to_string(&json!(true)).as_deref(), Some("true"));
        assert_eq!(scalar_to_string(&json!(null)), None);
    }
}
