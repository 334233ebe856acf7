//! Value sources in a tool's config (rule L8). Messages never quote their values.

use goondan_spec::{Environment, Secret, ValueSource};
use serde_json::Value;

use crate::config_error::ConfigError;

/// Resolves `source`: `{value: …}`, `{valueFrom: {env: NAME}}` or `{valueFrom: {secretRef: {ref:
/// Secret/NAME}}}`. The default key of a secret is the last part of the path `field`.
pub(crate) fn resolve(
    source: &Value,
    field: &str,
    environment: &Environment,
) -> Result<Secret, ConfigError> {
    let source = parse(source).ok_or_else(|| ConfigError::NoSource(field.to_owned()))?;
    let key = field.rsplit('.').next().unwrap_or(field);
    environment
        .resolve(&source, key)
        .map_err(|tried| ConfigError::Unset {
            field: field.to_owned(),
            tried,
        })
}

/// Parses a value source; `None` if it is invalid.
fn parse(source: &Value) -> Option<ValueSource> {
    let (name, value) = only_entry(source)?;
    match name {
        "value" => Some(ValueSource::Value(Secret::new(value.as_str()?))),
        "valueFrom" => match only_entry(value)? {
            ("env", name) => Some(ValueSource::Env(name.as_str()?.to_owned())),
            ("secretRef", reference) => {
                let name = reference
                    .get("ref")?
                    .as_str()?
                    .strip_prefix("Secret/")?
                    .to_owned();
                let key = reference
                    .get("key")
                    .and_then(Value::as_str)
                    .map(str::to_owned);
                Some(ValueSource::SecretRef { name, key })
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the only entry of an object.
fn only_entry(value: &Value) -> Option<(&str, &Value)> {
    let mut entries = value.as_object()?.iter();
    let (name, value) = entries.next()?;
    entries.next().is_none().then_some((name.as_str(), value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn value_sources_resolve_literals_variables_and_secrets() {
        let environment: Environment = [
            ("HOOK".to_owned(), "h".to_owned()),
            ("SECRET_CHAT".to_owned(), "s".to_owned()),
        ]
        .into_iter()
        .collect();
        let resolve_source = |source: Value| {
            resolve(&source, "url", &environment)
                .map(|secret| secret.expose().to_owned())
                .map_err(|error| error.to_string())
        };
        assert_eq!(resolve_source(json!({"value": "v"})), Ok("v".to_owned()));
        assert_eq!(
            resolve_source(json!({"valueFrom": {"env": "HOOK"}})),
            Ok("h".to_owned())
        );
        assert_eq!(
            resolve_source(json!({"valueFrom": {"secretRef": {"ref": "Secret/chat"}}})),
            Ok("s".to_owned())
        );
        assert!(
            resolve_source(json!({"valueFrom": {"env": "NONE"}}))
                .unwrap_err()
                .contains("`NONE`")
        );
        for wrong in [
            json!("https://secret"),
            json!({}),
            json!({"value": 1}),
            json!({"value": "a", "valueFrom": {}}),
        ] {
            let error = resolve_source(wrong).unwrap_err();
            assert!(
                error.contains("value source") && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
