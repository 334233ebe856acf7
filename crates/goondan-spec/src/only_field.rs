//! Advice about text in place of a map.

use serde_json::Value;

use crate::text::excerpt;

/// Maps that are often written as their most important field.
const ONLY_FIELDS: &[(&str, &str)] = &[
    ("spec.prompt", "system"),
    ("spec.permissions", "default"),
    ("spec.modelConfig", "modelRef"),
    ("metadata", "name"),
];

/// Advice about text in place of a map.
pub(crate) struct OnlyField {
    /// Suggestion.
    pub(crate) suggestion: String,
    /// YAML that replaces the text.
    pub(crate) value: Option<String>,
}

/// Returns the advice about `text` in place of the map at `path`, if one field of the map has the
/// meaning of the text.
pub(crate) fn only_field(path: &str, text: &str) -> Option<OnlyField> {
    let (_, field) = ONLY_FIELDS.iter().find(|(map, _)| *map == path)?;
    // The field itself, without a space after its colon.
    if text
        .strip_prefix(field)
        .is_some_and(|rest| rest.starts_with(':'))
    {
        return None;
    }
    let is_single = !text.contains('\n');
    let value = match *field {
        "default" => excerpt(text, 20),
        "system" => "…".into(),
        _ => excerpt(text, 60),
    };
    Some(OnlyField {
        suggestion: format!("write `{}: {{{field}: {value}}}`", last_segment(path)),
        value: is_single.then(|| format!("{{{field}: {}}}", Value::from(text))),
    })
}

/// Returns the last part of a path.
pub(crate) fn last_segment(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}
