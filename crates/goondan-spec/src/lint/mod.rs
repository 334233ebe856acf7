//! Warnings about bundles that are valid but probably not as intended.

mod policy;
mod provider;
mod schema_walk;
mod unused;

use std::cell::OnceCell;
use std::collections::HashMap;

pub(crate) use provider::fits_strict_mode;

use crate::ResourceId;
use crate::decode::FieldReader;
use crate::decoded_resources::DecodedResources;
use crate::diagnostic::{Diagnostic, SourcePosition};
use crate::node::{NodeContent, YamlNode};

/// Returns all warnings about a bundle without errors.
pub(crate) fn lint_bundle(
    decoded: &DecodedResources,
    places: &SpecPositions<'_>,
) -> Vec<Diagnostic> {
    let mut diagnostics = unused::lint(decoded);
    diagnostics.extend(policy::lint(decoded));
    diagnostics.extend(provider::lint(decoded, places));
    diagnostics
}

/// Decoded resources' node trees, for positions of warnings.
pub(crate) struct SpecPositions<'n> {
    specs: Vec<(&'n ResourceId, &'n FieldReader<'n>)>,
    /// Built on first use, because most bundles have no warnings.
    by_id: OnceCell<HashMap<&'n ResourceId, &'n FieldReader<'n>>>,
}

/// Position in a schema. `at` is `None` if the schema comes from the entry.
struct SchemaPosition {
    field: String,
    at: Option<SourcePosition>,
}

impl<'n> SpecPositions<'n> {
    pub(crate) fn new(specs: impl Iterator<Item = (&'n ResourceId, &'n FieldReader<'n>)>) -> Self {
        SpecPositions {
            specs: specs.collect(),
            by_id: OnceCell::new(),
        }
    }

    /// Returns the position in the `parameters` of an export that `schema_path` leads to.
    fn parameters_position(
        &self,
        tool: &ResourceId,
        export: &str,
        schema_path: &[String],
    ) -> SchemaPosition {
        let specs_by_id = self
            .by_id
            .get_or_init(|| self.specs.iter().copied().collect());
        let item = specs_by_id
            .get(tool)
            .and_then(|spec| find_export(spec.node, export));
        let Some((index, item)) = item else {
            return SchemaPosition {
                field: "spec.entry".to_owned(),
                at: None,
            };
        };
        let schema_path =
            std::iter::once("parameters").chain(schema_path.iter().map(String::as_str));
        let field = schema_path
            .clone()
            .fold(format!("spec.exports[{index}]"), |path, segment| {
                format!("{path}.{segment}")
            });
        SchemaPosition {
            field,
            at: Some(item.follow_pointer(schema_path).at),
        }
    }
}

/// Returns an export and its index in `spec.exports`; `None` if the Tool does not declare it.
fn find_export<'n>(spec: &'n YamlNode, name: &str) -> Option<(usize, &'n YamlNode)> {
    let NodeContent::List(items) = &spec.entry("exports")?.value.content else {
        return None;
    };
    let has_name =
        |item: &&YamlNode| item.entry("name").and_then(|entry| entry.value.text()) == Some(name);
    items.iter().enumerate().find(|(_, item)| has_name(item))
}
