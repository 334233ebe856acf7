//! Interface of the advice about unknown fields. Decoders report such fields, and the loader knows
//! the fields of all kinds.

use crate::fix::Fix;
use crate::meta::Kind;
use crate::node::MapEntry;

/// Advice about an unknown field.
pub(crate) struct FieldAdvice {
    /// Suggestion.
    pub(crate) suggestion: String,
    /// Field that the fix adds to the same map, and the fix.
    pub(crate) fix: Option<(String, Fix)>,
}

/// Returns the advice about an unknown field of a resource: its kind, the path of its map, the known
/// fields of the map, and the entry.
pub(crate) type FieldAdvisor = fn(Kind, &str, &[&'static str], &MapEntry) -> Option<FieldAdvice>;
